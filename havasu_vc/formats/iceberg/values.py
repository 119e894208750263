"""The parts of table metadata: values that cost nothing to import.

Versions 1 and 2 are read and written, version 3 is read where it maps to them. Whatever
a document holds that is not named here is kept in `others` and written back.

Snapshots, references and logs of table metadata as JSON values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import IntEnum, StrEnum
from typing import Any

from havasu_vc.errors import CorruptDatasetError
from havasu_vc.formats.havasu.json_text import expect
from havasu_vc.formats.havasu.properties import PartitionSpec, SortOrder
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass

__all__ = [
    "MAIN",
    "DataFile",
    "DataFileContent",
    "FieldSummary",
    "Flavour",
    "LogEntry",
    "ManifestContent",
    "ManifestEntry",
    "ManifestFile",
    "MetadataLogEntry",
    "Reference",
    "Snapshot",
    "Status",
    "TableMetadata",
    "log_from_json",
    "log_to_json",
    "metadata_log_from_json",
    "metadata_log_to_json",
    "number",
    "reference_from_json",
    "reference_to_json",
    "snapshot_from_json",
    "snapshot_to_json",
    "text_map",
]

MAIN = "main"
"""The branch that is read where none is named."""


class Flavour(StrEnum):
    """Which readers a table is written for."""

    HAVASU = "havasu"
    """The Havasu specification to the letter; a raster is an empty struct."""
    SPARK = "spark"
    """As `havasu`, but rasters are declared whole, for Iceberg's Spark runtime."""
    ICEBERG = "iceberg"
    """Plain Iceberg: rasters whole, no geometry bounds in manifests."""


class Status(IntEnum):
    """The status of a file in a manifest."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


class ManifestContent(IntEnum):
    """The content of the files of a manifest."""

    DATA = 0
    DELETES = 1


class DataFileContent(IntEnum):
    """The content of a file."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version of a table."""

    snapshot_id: int
    """Drawn at random."""
    sequence_number: int
    """Grows with each snapshot; 0 in version 1."""
    timestamp_ms: int
    """When it was made."""
    manifest_list: str | None
    """Where its manifest list is; None when `manifests` names them (version 1)."""
    summary: Mapping[str, str] = field(default_factory=dict)
    """`operation` and counts; ours name the git commit."""
    parent_id: int | None = None
    """The snapshot that it was made from."""
    schema_id: int | None = None
    """The schema when it was made."""
    manifests: tuple[str, ...] = ()
    """Version 1 only: manifests by path."""
    others: Mapping[str, Any] = field(default_factory=dict)
    """All else that it says."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A branch or a tag of a table."""

    snapshot_id: int
    """The snapshot that it points to."""
    kind: str = "branch"
    """`branch` or `tag`."""
    min_snapshots_to_keep: int | None = None
    """Branches only."""
    max_snapshot_age_ms: int | None = None
    """Branches only."""
    max_ref_age_ms: int | None = None
    """When the reference itself expires."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """When a snapshot became the current one."""

    timestamp_ms: int
    """When."""
    snapshot_id: int
    """Which."""


@dataclass(frozen=True, slots=True)
class MetadataLogEntry:
    """A metadata file that came before."""

    timestamp_ms: int
    """When it was written."""
    metadata_file: str
    """Where it is."""


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """`vN.metadata.json`: the whole state of a table but for its manifests."""

    table_uuid: str
    """Drawn once."""
    location: str
    """The table's folder."""
    last_updated_ms: int
    """When it changed last."""
    last_column_id: int
    """No column has or had a higher id."""
    schemas: Mapping[int, Schema]
    """By schema id."""
    current_schema_id: int
    """Which of them is the table's."""
    partition_specs: Mapping[int, PartitionSpec]
    """By spec id."""
    default_spec_id: int
    """The spec that writers use."""
    sort_orders: Mapping[int, SortOrder]
    """By order id."""
    default_sort_order_id: int
    """The sort order that writers use."""
    last_partition_id: int = 999
    """The highest id of a partition field."""
    format_version: int = 2
    """1, 2 or 3."""
    last_sequence_number: int = 0
    """Of the newest snapshot of any branch."""
    current_snapshot_id: int | None = None
    """None for a table without rows yet."""
    snapshots: Mapping[int, Snapshot] = field(default_factory=dict)
    """By snapshot id, in the order of the document."""
    references: Mapping[str, Reference] = field(default_factory=dict)
    """Branches and tags; `main` is the current snapshot."""
    snapshot_log: tuple[LogEntry, ...] = ()
    """Oldest first."""
    metadata_log: tuple[MetadataLogEntry, ...] = ()
    """Oldest first."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Settings, and what of Havasu Spark's commits would drop."""
    havasu_version: str | None = None
    """`havasu.format-version`; None when it is missing."""
    others: Mapping[str, Any] = field(default_factory=dict)
    """All else that the document says."""
    defaults: Mapping[int, Any] = field(default_factory=dict)
    """Version 3: what columns hold in files that lack them, by field id, as Arrow takes it."""
    write_defaults: Mapping[int, Any] = field(default_factory=dict)
    """Version 3: what writers of today put into columns that they are given no value for."""
    next_row_id: int = 0
    """Version 3: the id that the next new row gets."""

    @property
    def schema(self) -> Schema:
        """The current schema."""
        return self.schemas[self.current_schema_id]

    @property
    def snapshot(self) -> Snapshot | None:
        """The current snapshot."""
        current = self.current_snapshot_id
        return None if current is None else self.snapshots.get(current)


@dataclass(frozen=True, slots=True)
class FieldSummary:
    """The summary of one partition field of a manifest, in the manifest list."""

    contains_null: bool
    """Whether some partition is null."""
    contains_nan: bool | None = None
    """Whether some partition is not a number."""
    lower: bytes | None = None
    """The least value, as Iceberg's single value."""
    upper: bytes | None = None
    """The greatest value."""


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """One line of a manifest list. Counts and numbers are None where version 1 leaves them out."""

    path: str
    """Where the manifest is."""
    length: int
    """Its bytes."""
    spec_id: int = 0
    """The partition spec of its files."""
    content: ManifestContent = ManifestContent.DATA
    """The content of its files."""
    sequence_number: int = 0
    """When it was added."""
    min_sequence_number: int = 0
    """The least data sequence number of its live entries."""
    added_snapshot_id: int = 0
    """The snapshot that it was made for."""
    added_files: int | None = None
    """Entries with status ADDED."""
    existing_files: int | None = None
    """Entries with status EXISTING."""
    deleted_files: int | None = None
    """Entries with status DELETED."""
    added_rows: int | None = None
    """Rows of ADDED entries."""
    existing_rows: int | None = None
    """Rows of EXISTING entries."""
    deleted_rows: int | None = None
    """Rows of DELETED entries."""
    partitions: tuple[FieldSummary, ...] | None = None
    """By partition field."""
    key_metadata: bytes | None = None
    """For encrypted tables, which are refused."""
    first_row_id: int | None = None
    """Version 3: the id of the first row of its first new file that has none of its own."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data or delete file as a manifest describes it."""

    path: str
    """Where it is, as the manifest spells it."""
    record_count: int
    """Rows in it."""
    file_size: int
    """Its bytes."""
    content: DataFileContent = DataFileContent.DATA
    """Its content."""
    file_format: str = "PARQUET"
    """`PARQUET`, `AVRO` or `ORC`; `PUFFIN` of deletion vectors."""
    partition: Mapping[int, Any] = field(default_factory=dict)
    """Python values by partition field id."""
    column_sizes: Mapping[int, int] | None = None
    """Bytes by field id."""
    value_counts: Mapping[int, int] | None = None
    """Values by field id, nulls included."""
    null_value_counts: Mapping[int, int] | None = None
    """Nulls by field id."""
    nan_value_counts: Mapping[int, int] | None = None
    """NaNs by field id."""
    lower_bounds: Mapping[int, bytes] | None = None
    """Single values by field id."""
    upper_bounds: Mapping[int, bytes] | None = None
    """Single values by field id."""
    key_metadata: bytes | None = None
    """For encrypted files, which are refused."""
    split_offsets: tuple[int, ...] | None = None
    """Where row groups begin."""
    equality_ids: tuple[int, ...] | None = None
    """The columns that equality deletes compare."""
    sort_order_id: int | None = None
    """How its rows are ordered."""
    referenced_data_file: str | None = None
    """The one file that position deletes apply to."""
    geometry_lower: Mapping[int, bytes] | None = None
    """Havasu 1250: a WKB point by field id."""
    geometry_upper: Mapping[int, bytes] | None = None
    """Havasu 1280: a WKB point by field id."""
    first_row_id: int | None = None
    """Version 3: the id of its first row; None inherits."""
    content_offset: int | None = None
    """Version 3: where a deletion vector begins in its file."""
    content_size: int | None = None
    """Version 3: the bytes of a deletion vector."""

    @property
    def is_vector(self) -> bool:
        """Whether it is a deletion vector, of which many may lie in one file."""
        return self.content_offset is not None or self.file_format == "PUFFIN"


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One file in a manifest."""

    status: Status
    """Whether it lives."""
    file: DataFile
    """The file."""
    snapshot_id: int | None = None
    """When it was added or deleted; None inherits the manifest's."""
    sequence_number: int | None = None
    """Data sequence number; None inherits the manifest's."""
    file_sequence_number: int | None = None
    """When the file was added; None inherits the manifest's."""


OPERATIONS = ("append", "replace", "overwrite", "delete")
"""Operations that a snapshot's summary may name."""

_LARGEST = (1 << 63) - 1
_SNAPSHOT = frozenset(
    (
        "snapshot-id",
        "parent-snapshot-id",
        "sequence-number",
        "timestamp-ms",
        "manifest-list",
        "manifests",
        "summary",
        "schema-id",
    )
)


def number(value: Mapping[str, Any], name: str, where: str, *, default: int | None = None) -> int:
    """Return a number of 64 bits that an object has."""
    found = value.get(name)
    if found is None and default is not None:
        return default
    whole: int = expect(found, int, name, where)
    if not -_LARGEST - 1 <= whole <= _LARGEST:
        raise CorruptDatasetError(where, f"{name} has more than 64 bits")
    return whole


def _maybe(value: Mapping[str, Any], name: str, where: str) -> int | None:
    return None if value.get(name) is None else number(value, name, where)


def text_map(value: Any, what: str, where: str) -> dict[str, str]:
    """Return an object whose values are text."""
    found = {} if value is None else expect(value, dict, what, where)
    return {name: expect(item, str, f"{what}: {name!r}", where) for name, item in found.items()}


def snapshot_to_json(snapshot: Snapshot, second: bool) -> dict[str, Any]:
    """Return a snapshot as JSON values; `second` for version 2."""
    if second and snapshot.summary.get("operation") not in OPERATIONS:
        raise ValueError(f"snapshot {snapshot.snapshot_id} does not say which operation it is")
    if second and snapshot.manifest_list is None:
        raise ValueError(f"snapshot {snapshot.snapshot_id} has no manifest list")
    listed = snapshot.manifest_list is not None
    value: dict[str, Any] = {
        "snapshot-id": snapshot.snapshot_id,
        "parent-snapshot-id": snapshot.parent_id,
        "sequence-number": snapshot.sequence_number if second else None,
        "timestamp-ms": snapshot.timestamp_ms,
        "manifest-list": snapshot.manifest_list,
        "manifests": None if listed else list(snapshot.manifests),
        "summary": dict(snapshot.summary) or None,
        "schema-id": snapshot.schema_id,
    }
    others = {name: item for name, item in snapshot.others.items() if name not in _SNAPSHOT}
    return {name: item for name, item in value.items() if item is not None} | others


def snapshot_from_json(value: Any, where: str) -> Snapshot:
    """Return the snapshot of JSON values."""
    expect(value, dict, "a snapshot", where)
    manifests = value.get("manifests")
    listed = expect(value.get("manifest-list"), (str, type(None)), "manifest-list", where)
    if listed is None and manifests is None:
        raise CorruptDatasetError(where, "a snapshot has no manifest list")
    return Snapshot(
        number(value, "snapshot-id", where),
        number(value, "sequence-number", where, default=0),
        number(value, "timestamp-ms", where),
        listed,
        text_map(value.get("summary"), "summary", where),
        _maybe(value, "parent-snapshot-id", where),
        _maybe(value, "schema-id", where),
        tuple(
            expect(item, str, "a manifest", where)
            for item in expect(manifests or [], list, "manifests", where)
        ),
        {name: item for name, item in value.items() if name not in _SNAPSHOT},
    )


def reference_to_json(reference: Reference) -> dict[str, Any]:
    """Return a branch or tag as JSON values."""
    value: dict[str, Any] = {"snapshot-id": reference.snapshot_id, "type": reference.kind}
    kept = {
        "min-snapshots-to-keep": reference.min_snapshots_to_keep,
        "max-snapshot-age-ms": reference.max_snapshot_age_ms,
        "max-ref-age-ms": reference.max_ref_age_ms,
    }
    return value | {name: item for name, item in kept.items() if item is not None}


def reference_from_json(value: Any, name: str, where: str) -> Reference:
    """Return the branch or tag of JSON values."""
    expect(value, dict, f"reference {name!r}", where)
    kind = expect(value.get("type"), str, f"the type of {name!r}", where).lower()
    if kind not in ("branch", "tag"):
        raise CorruptDatasetError(where, f"{name!r} is neither a branch nor a tag")
    return Reference(
        number(value, "snapshot-id", where),
        kind,
        _maybe(value, "min-snapshots-to-keep", where),
        _maybe(value, "max-snapshot-age-ms", where),
        _maybe(value, "max-ref-age-ms", where),
    )


def log_to_json(entry: LogEntry) -> dict[str, Any]:
    """Return a line of the snapshot log as JSON values."""
    return {"timestamp-ms": entry.timestamp_ms, "snapshot-id": entry.snapshot_id}


def log_from_json(value: Any, where: str) -> LogEntry:
    """Return the line of the snapshot log of JSON values."""
    expect(value, dict, "a line of the snapshot log", where)
    return LogEntry(number(value, "timestamp-ms", where), number(value, "snapshot-id", where))


def metadata_log_to_json(entry: MetadataLogEntry) -> dict[str, Any]:
    """Return a line of the metadata log as JSON values."""
    return {"timestamp-ms": entry.timestamp_ms, "metadata-file": entry.metadata_file}


def metadata_log_from_json(value: Any, where: str) -> MetadataLogEntry:
    """Return the line of the metadata log of JSON values."""
    expect(value, dict, "a line of the metadata log", where)
    file = expect(value.get("metadata-file"), str, "metadata-file", where)
    return MetadataLogEntry(number(value, "timestamp-ms", where), file)
