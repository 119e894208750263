"""The rows of a snapshot: which files hold them, and tasks that yield them.

A task reads one data file, or a part of it, in the columns of our schema: by field id,
by the table's name mapping in files that have none. A column that a file lacks is the
value that its partition shares, else its default, else null. Rows that
delete files take away are left out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.havasu.parquet import Positions, open_parquet, read_row_groups
from havasu_vc.datasets.havasu.projection import Projection, plan_projection
from havasu_vc.errors import CorruptDatasetError
from havasu_vc.formats.havasu.properties import PartitionSpec
from havasu_vc.formats.iceberg.schema import NAME_MAPPING, NameMapping, parse_name_mapping
from havasu_vc.formats.iceberg.values import DataFile, DataFileContent
from havasu_vc.model.arrays import distinct
from havasu_vc.model.arrow import FIELD_ID
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, task_of
from havasu_vc.records import dataclass
from havasu_vc.tables.other_forms import in_parquet
from havasu_vc.tables.positions import (
    FILE_PATH_ID,
    DeletionVector,
    Way,
    columns_at,
    deletion_vector_of,
    equality_columns,
    positions_of,
    read_deletion_vector,
    read_equality_deletes,
)
from havasu_vc.tables.snapshots import SnapshotFile, divides, live_files, partition_key, snapshot_of
from havasu_vc.tables.table import Table, damaged, reading_table_file

if TYPE_CHECKING:
    from havasu_vc.tables.bucket import BucketPlaces

__all__ = [
    "DeleteIndex",
    "EqualityDelete",
    "RowSource",
    "SourcePlanner",
    "bringing_tasks",
    "deleted_rows",
    "identified",
    "name_mapping_of",
    "only_target",
    "read_source",
    "row_sources",
    "scan_tasks",
    "schema_of",
]


GROUPS_A_TASK = 8


@dataclass(frozen=True, slots=True)
class EqualityDelete:
    """An equality delete file that applies to a data file."""

    path: str
    """Where it is on this machine."""
    schema: Schema
    """The columns to read of it and of the data file."""
    ways: tuple[Way, ...]
    """Where in these the columns are that it compares."""


@dataclass(frozen=True, slots=True)
class RowSource:
    """A data file and all that it takes to read its live rows: plain values for a task."""

    location: str
    """The file as its manifest spells it, and so as position deletes name it."""
    path: str
    """Where it is on this machine."""
    position_deletes: tuple[str, ...] = ()
    """Where the position delete files are that apply to it."""
    equality_deletes: tuple[EqualityDelete, ...] = ()
    """The equality delete files that apply to it."""
    naming: NameMapping | None = None
    """The table's name mapping, for a file without field ids."""
    values: tuple[tuple[int, Any], ...] = ()
    """Values of columns that the file lacks, by field id."""
    vector: DeletionVector | None = None
    """The deletion vector of the file, which stands for all position deletes."""


def schema_of(table: Table, snapshot_id: int | None = None) -> Schema:
    """Return the schema that a snapshot is read with: its own, the table's when not named."""
    snapshot = snapshot_of(table, snapshot_id) if snapshot_id is not None else None
    known = table.metadata.schemas
    if snapshot is None or snapshot.schema_id is None:
        return table.metadata.schema
    return known.get(snapshot.schema_id, table.metadata.schema)


def row_sources(
    table: Table, files: Iterable[SnapshotFile] | None = None, *, snapshot_id: int | None = None
) -> list[tuple[SnapshotFile, RowSource]]:
    """Return how to read each data file of a snapshot, in the order of its manifests.

    `files` are the snapshot's live files where the caller has them already.
    """
    live = tuple(live_files(table, snapshot_id) if files is None else files)
    index = DeleteIndex((each for each in live if not each.is_data), table.metadata.partition_specs)
    planner = SourcePlanner(table)
    return [(each, planner.source(each, index)) for each in live if each.is_data]


class SourcePlanner:
    """How to read the data files of a table: what its sources have in common, once."""

    __slots__ = ("_equal", "_naming", "_schemas", "_table")

    def __init__(self, table: Table) -> None:
        """Read what the table's metadata says of all its files."""
        self._table = table
        self._naming = name_mapping_of(table.metadata.properties, str(table.metadata_file))
        schemas = table.metadata.schemas
        newest = sorted(schemas, reverse=True)
        self._schemas = (table.metadata.schema, *(schemas[number] for number in newest))
        self._equal: dict[str, EqualityDelete] = {}

    def source(self, data: SnapshotFile, index: DeleteIndex) -> RowSource:
        """Return how to read a data file with the deletes of a snapshot."""
        places = self._table.places
        vector = index.vector(data)
        return RowSource(
            data.file.path,
            str(places.file(data.file.path)),
            tuple(str(places.file(each.file.path)) for each in index.position_deletes(data)),
            tuple(self._equality(each.file) for each in index.equality_deletes(data)),
            self._naming,
            self._values(data),
            None
            if vector is None
            else deletion_vector_of(vector.file, places.file(vector.file.path)),
        )

    def _equality(self, file: DataFile) -> EqualityDelete:
        if file.path not in self._equal:
            path = str(self._table.places.file(file.path))
            schema, ways = equality_columns(file.equality_ids or (), self._schemas, path)
            self._equal[file.path] = EqualityDelete(path, schema, ways)
        return self._equal[file.path]

    def _values(self, data: SnapshotFile) -> tuple[tuple[int, Any], ...]:
        """Return what columns hold that the file lacks: its partition's value, else a default."""
        spec = self._table.metadata.partition_specs.get(data.spec_id, PartitionSpec())
        found = dict(self._table.metadata.defaults)
        found |= {
            field.source_id: _plain(data.file.partition[field.field_id])
            for field in spec.fields
            if field.transform == "identity" and field.field_id in data.file.partition
        }
        return tuple(found.items())


def _plain(value: Any) -> Any:
    return value.bytes if isinstance(value, UUID) else value


def scan_tasks(
    table: Table,
    *,
    snapshot_id: int | None = None,
    schema: Schema | None = None,
    files: Iterable[SnapshotFile] | None = None,
) -> list[Task]:
    """Return tasks that yield the live rows of a snapshot, in the columns of a schema."""
    wanted = schema_of(table, snapshot_id) if schema is None else schema
    tasks: list[Task] = []
    for live, source in row_sources(table, files, snapshot_id=snapshot_id):
        parts = -(-len(live.file.split_offsets or ()) // GROUPS_A_TASK) or 1
        tasks.extend(task_of(read_source, source, wanted, part, parts) for part in range(parts))
    return tasks


def bringing_tasks(
    table: Table, places: BucketPlaces, schema: Schema, files: Iterable[SnapshotFile]
) -> list[Task]:
    """Return tasks that yield the live rows of files of a table in a bucket.

    Each brings a data file, and what deletes from it, to the machine that it runs on.
    """
    there, live = replace(table, places=places.later()), tuple(files)
    index = DeleteIndex((each for each in live if not each.is_data), table.metadata.partition_specs)
    planner, tasks = SourcePlanner(there), []
    for each in live:
        if each.is_data:
            vector = index.vector(each)
            needed = [*index.position_deletes(each), *index.equality_deletes(each), each]
            needed += [] if vector is None else [vector]
            task = task_of(read_source, planner.source(each, index), schema)
            tasks.append(places.bringing(task, (one.file.path for one in needed)))
    return tasks


@kernel
def read_source(
    source: RowSource, schema: Schema, part: int = 0, parts: int = 1
) -> Iterator[pa.RecordBatch]:
    """Yield the live rows of a data file, or of one of several equal parts of it."""
    with in_parquet(source.path) as path, reading_table_file(source.path):
        found = source if path == source.path else replace(source, path=path)
        groups = None if parts == 1 else _groups(path, part, parts)
        batches = read_row_groups(
            path,
            schema,
            groups=groups,
            deleted=deleted_rows(found, groups=groups),
            planned=lambda there: _projection(source, there, schema),
        )
        for batch in batches:
            _check(batch, source.path)
            yield batch


def _check(batch: pa.RecordBatch, path: str) -> None:
    """Refuse values that are none of their type, such as text that is not UTF-8."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid as error:
        raise damaged(path, str(error).splitlines()[0]) from error


def _groups(path: str, part: int, parts: int) -> range:
    # By what the file says: what manifests say of row groups may be wrong.
    with open_parquet(path) as file:
        count = file.num_row_groups
    return range(part * count // parts, (part + 1) * count // parts)


def _projection(source: RowSource, found: pa.Schema, schema: Schema) -> Projection:
    values = dict(source.values)
    return plan_projection(
        identified(found, source.naming, source.path), schema, source.path, values
    )


def deleted_rows(source: RowSource, *, groups: Sequence[int] | None = None) -> Positions:
    """Return the rows of a data file that are gone; of equality deletes only in some groups."""
    found = []
    for path in source.position_deletes:
        positions = positions_of(path, source.location)
        if positions is not None:
            found.append(positions)
    if source.vector is not None:
        found.append(read_deletion_vector(source.vector))
    found.extend(_equal_rows(source, delete, groups) for delete in source.equality_deletes)
    if not found:
        return np.empty(0, np.int64)
    return found[0] if len(found) == 1 else distinct(np.concatenate(found))


def _equal_rows(
    source: RowSource, delete: EqualityDelete, groups: Sequence[int] | None
) -> Positions:
    gone = read_equality_deletes(delete.path, delete.schema, delete.ways)
    pieces = []
    with reading_table_file(source.path):
        batches = read_row_groups(
            source.path,
            delete.schema,
            groups=groups,
            positions=True,
            planned=lambda found: _projection(source, found, delete.schema),
        )
        for batch in batches:
            matches = gone.matches(columns_at(batch, delete.ways))
            pieces.append(batch.column("_pos").to_numpy()[matches])
    return np.concatenate(pieces) if pieces else np.empty(0, np.int64)


# Data files without field ids: their columns are found by the table's name mapping.
#
# Such files were written by other programs and added to the table as they are. A file that
# has an id anywhere was written for the table, and is read by ids alone.


def name_mapping_of(properties: Mapping[str, str], where: str) -> NameMapping | None:
    """Return a table's name mapping, None when it has none."""
    text = properties.get(NAME_MAPPING)
    if text is None:
        return None
    try:
        return parse_name_mapping(text, where)
    except CorruptDatasetError as error:
        raise damaged(error.path, error.reason) from error


def identified(schema: pa.Schema, mapping: NameMapping | None, where: str) -> pa.Schema:
    """Return a file's schema with field ids; as it is when it has some."""
    if any(_has_id(field) for field in schema):
        return schema
    if mapping is None:
        if not len(schema):
            return schema
        raise CorruptDatasetError(where, f"it has no field ids, and the table no {NAME_MAPPING}")
    return pa.schema([_mapped(field, mapping) for field in schema])


def _has_id(field: pa.Field) -> bool:
    return FIELD_ID in (field.metadata or {}) or any(map(_has_id, _inside(field.type)))


def _inside(type_: pa.DataType) -> Iterator[pa.Field]:
    if pa.types.is_map(type_):
        yield from (type_.key_field, type_.item_field)
    elif pa.types.is_nested(type_):
        yield from (type_.field(index) for index in range(type_.num_fields))


def _mapped(field: pa.Field, mapping: NameMapping, name: str | None = None) -> pa.Field:
    """Return a field with the id that its name stands for, and ids inside it."""
    found = mapping.find(name or field.name)
    if found is None or found.field_id is None:
        return field
    type_, inner = field.type, found.fields
    if pa.types.is_struct(type_):
        type_ = pa.struct([_mapped(each, inner) for each in _inside(type_)])
    elif pa.types.is_map(type_):
        type_ = pa.map_(
            _mapped(type_.key_field, inner, "key"), _mapped(type_.item_field, inner, "value")
        )
    elif pa.types.is_list(type_):
        type_ = pa.list_(_mapped(type_.value_field, inner, "element"))
    elif pa.types.is_large_list(type_):
        type_ = pa.large_list(_mapped(type_.value_field, inner, "element"))
    elif pa.types.is_fixed_size_list(type_):
        type_ = pa.list_(_mapped(type_.value_field, inner, "element"), type_.list_size)
    return pa.field(
        field.name, type_, field.nullable, metadata={FIELD_ID: str(found.field_id).encode()}
    )


# Which delete files apply to which data files, by Iceberg's rules.
#
# A position delete file applies to data files that are not newer than itself, in its
# partition of its spec; one that is known to name a single file applies to that file. A
# deletion vector names one file, and then no position delete file applies to that. An
# equality delete file applies to data files that are older than itself, in its partition
# of its spec, or everywhere when its spec does not partition. Newer means: by data
# sequence number.


class DeleteIndex:
    """The delete files of a snapshot, found by the data file that they apply to."""

    __slots__ = ("_equality", "_everywhere", "_partitions", "_targets")

    def __init__(self, deletes: Iterable[SnapshotFile], specs: Mapping[int, PartitionSpec]) -> None:
        """Sort delete files in; data files among them are passed over."""
        self._targets: dict[Hashable, list[SnapshotFile]] = {}
        self._partitions: dict[Hashable, list[SnapshotFile]] = {}
        self._equality: dict[Hashable, list[SnapshotFile]] = {}
        self._everywhere: list[SnapshotFile] = []
        for delete in sorted(deletes, key=lambda each: (each.sequence_number, each.file.path)):
            place = (delete.spec_id, partition_key(delete.file))
            match delete.file.content:
                case DataFileContent.POSITION_DELETES:
                    target = only_target(delete.file)
                    if target is not None:
                        self._targets.setdefault(target, []).append(delete)
                    else:
                        self._partitions.setdefault(place, []).append(delete)
                case DataFileContent.EQUALITY_DELETES:
                    if divides(specs.get(delete.spec_id)):
                        self._equality.setdefault(place, []).append(delete)
                    else:
                        self._everywhere.append(delete)

    def __bool__(self) -> bool:
        return bool(self._targets or self._partitions or self._equality or self._everywhere)

    def position_deletes(self, data: SnapshotFile) -> tuple[SnapshotFile, ...]:
        """Return the position delete files that apply to a data file, oldest first.

        None does that has a deletion vector.
        """
        if self.vector(data) is not None:
            return ()
        place = (data.spec_id, partition_key(data.file))
        found = [
            *_from(self._targets.get(data.file.path), data.sequence_number),
            *_from(self._partitions.get(place), data.sequence_number),
        ]
        return tuple(found)

    def vector(self, data: SnapshotFile) -> SnapshotFile | None:
        """Return the deletion vector of a data file."""
        found = [
            each
            for each in _from(self._targets.get(data.file.path), data.sequence_number)
            if each.file.is_vector
        ]
        return found[-1] if found else None

    def equality_deletes(self, data: SnapshotFile) -> tuple[SnapshotFile, ...]:
        """Return the equality delete files that apply to a data file, oldest first."""
        place = (data.spec_id, partition_key(data.file))
        found = [
            *_from(self._everywhere, data.sequence_number + 1),
            *_from(self._equality.get(place), data.sequence_number + 1),
        ]
        return tuple(found)


def _from(deletes: list[SnapshotFile] | None, sequence_number: int) -> list[SnapshotFile]:
    if not deletes:
        return []
    return deletes[bisect_left(deletes, sequence_number, key=lambda each: each.sequence_number) :]


def only_target(file: DataFile) -> str | None:
    """Return the one data file that a position delete file is known to name, None if not known."""
    if file.referenced_data_file is not None:
        return file.referenced_data_file
    lower = (file.lower_bounds or {}).get(FILE_PATH_ID)
    upper = (file.upper_bounds or {}).get(FILE_PATH_ID)
    if lower is None or lower != upper:
        return None
    return lower.decode(errors="replace")
