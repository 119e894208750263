"""The log of a Delta table as values: which files hold its rows, and what its columns are.

    _delta_log/00000000000000000000.json     one action a line: protocol, metaData, add, remove

A checkpoint has the same actions as rows, so that what came before it need not be read.

Geometries are columns of `geometry(C)` or `geography(C, A)` in tables with the feature
`geospatial`, a proposal that readers without it must refuse. What else a table asks of
its readers and is not known here is refused by name.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa

from havasu_vc.errors import CorruptDatasetError, UnsupportedTypeError, UnsupportedVersionError
from havasu_vc.formats.havasu.json_text import expect, parse_json
from havasu_vc.formats.iceberg.native_geometry import NativeGeometry
from havasu_vc.formats.iceberg.schema import VARIANT_AS_TEXT
from havasu_vc.formats.roaring import DeletionVector, vector_of
from havasu_vc.model.bounds import Bounds
from havasu_vc.records import dataclass

__all__ = [
    "GEOSPATIAL",
    "MAPPING_MODE",
    "DeltaColumn",
    "DeltaFile",
    "DeltaLog",
    "corner_text",
    "delta_columns",
    "file_statistics",
    "format_commit",
    "geometry_columns",
    "parse_corner",
    "partition_value",
    "replay",
    "replay_checkpoint",
]


GEOSPATIAL = "geospatial"
"""The feature of tables with geometries."""
TIMESTAMP_NTZ = "timestampNtz"
"""The feature of tables with times that have no zone."""
_READABLE = frozenset(
    (
        GEOSPATIAL,
        TIMESTAMP_NTZ,
        # Checkpoints may be of another form.
        "v2Checkpoint",
        "columnMapping",
        "deletionVectors",
        # Files keep the narrower types that a column had; readers cast.
        "typeWidening",
        "typeWidening-preview",
        "vacuumProtocolCheck",
    )
)
_ORDINATE = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,4})?"
_CORNER = re.compile(
    rf"\s*POINT\s*(|Z|M|ZM)\s*\(\s*({_ORDINATE}(?:\s+{_ORDINATE}){{1,3}})\s*\)\s*", re.IGNORECASE
)
_ORDINATES = {"": 2, "Z": 3, "M": 3, "ZM": 4}


@dataclass(frozen=True, slots=True)
class DeltaFile:
    """A data file of a table."""

    path: str
    """Where it is, relative to the table's folder."""
    size: int
    """Its bytes."""
    modified_ms: int
    """When it was written."""
    statistics: Mapping[str, Any] = field(default_factory=dict)
    """Counts, least and greatest values; geometries have corners as WKT."""
    partition: Mapping[str, str | None] = field(default_factory=dict)
    """Values of partition columns, by their names in files."""
    deleted: DeletionVector | None = None
    """Where its deleted rows are listed; None when all are live."""


@dataclass(frozen=True, slots=True)
class DeltaLog:
    """A version of a table."""

    version: int = -1
    """Its number; -1 before the first."""
    table_id: str = ""
    """Stays for the table's life."""
    features: tuple[str, ...] = ()
    """Features that readers must know, by name."""
    schema: Mapping[str, Any] = field(default_factory=dict)
    """The columns, as JSON."""
    partition_columns: tuple[str, ...] = ()
    """The columns whose values stand in the log alone."""
    configuration: Mapping[str, str] = field(default_factory=dict)
    """Table properties."""
    files: Mapping[str, DeltaFile] = field(default_factory=dict)
    """Live files by path."""

    @property
    def mapping(self) -> str:
        """How columns are found in files: `none`, `name` or `id`."""
        return self.configuration.get(MAPPING_MODE, "none")

    @property
    def is_geospatial(self) -> bool:
        """Whether it has the feature for geometries."""
        return GEOSPATIAL in self.features


def corner_text(x: float, y: float) -> str:
    """Return a corner of a box as statistics have it.

    >>> corner_text(-122.419, 37.774)
    'POINT(-122.419 37.774)'
    """
    return f"POINT({_number(x)} {_number(y)})"


def parse_corner(text: Any) -> tuple[float, float] | None:
    """Return x and y of a corner, with or without Z and M; None for what is none.

    >>> parse_corner("Point Z(1.0 2e1 3)"), parse_corner("POINT EMPTY")
    ((1.0, 20.0), None)
    """
    match = _CORNER.fullmatch(text) if isinstance(text, str) and len(text) < 400 else None
    if match is None:
        return None
    numbers = [float(word) for word in match[2].split()]
    if len(numbers) != _ORDINATES[match[1].upper()] or not all(map(math.isfinite, numbers)):
        return None
    return numbers[0], numbers[1]


def _number(value: float) -> str:
    return repr(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def file_statistics(
    rows: int,
    nulls: Mapping[str, Any],
    ranges: Mapping[str, tuple[Any, Any]],
    boxes: Mapping[str, Bounds | None],
) -> dict[str, Any]:
    """Return what a file's `add` says of its columns; of a struct's nulls, by part."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    for name, (least, greatest) in ranges.items():
        low[name], high[name] = least, greatest
    for name, box in boxes.items():
        if box is not None and all(map(math.isfinite, (box.xmin, box.ymin, box.xmax, box.ymax))):
            low[name] = corner_text(box.xmin, box.ymin)
            high[name] = corner_text(box.xmax, box.ymax)
    return {"numRecords": rows, "minValues": low, "maxValues": high, "nullCount": dict(nulls)}


def format_commit(old: DeltaLog, new: DeltaLog, *, now_ms: int, operation: str) -> bytes:
    """Return the commit that makes one version of another."""
    actions: list[dict[str, Any]] = [
        {"commitInfo": {"timestamp": now_ms, "operation": operation, "engineInfo": "havasu-vc"}},
        {"protocol": _protocol(new)},
        {
            "metaData": {
                "id": new.table_id,
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps(new.schema),
                "partitionColumns": list(new.partition_columns),
                "configuration": dict(new.configuration),
                "createdTime": now_ms,
            }
        },
    ]
    for path in old.files:
        if path not in new.files:
            removed = {"path": quote(path), "deletionTimestamp": now_ms, "dataChange": True}
            if (vector := old.files[path].deleted) is not None:
                removed["deletionVector"] = _vector_json(vector)
            actions.append({"remove": removed})
    for path, file in new.files.items():
        if path not in old.files:
            actions.append({"add": _add(file)})
    return "".join(json.dumps(action) + "\n" for action in actions).encode()


def _protocol(log: DeltaLog) -> dict[str, Any]:
    if not log.features:
        return {"minReaderVersion": 1, "minWriterVersion": 2}
    features = sorted(log.features)
    return {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": features,
        # By version 2 writers know by themselves that columns may be without nulls.
        "writerFeatures": sorted({*features, "invariants"}),
    }


def _add(file: DeltaFile) -> dict[str, Any]:
    return {
        "path": quote(file.path),
        "partitionValues": dict(file.partition),
        "size": file.size,
        "modificationTime": file.modified_ms,
        "dataChange": True,
        "stats": json.dumps(file.statistics),
    }


def _vector_json(vector: DeletionVector) -> dict[str, Any]:
    text = vector.identity[1:].removesuffix(f"@{vector.offset}")
    said: dict[str, Any] = {
        "storageType": vector.storage,
        "pathOrInlineDv": text,
        "sizeInBytes": vector.size,
        "cardinality": vector.rows,
    }
    return said if vector.is_inline else said | {"offset": vector.offset}


def replay(
    commits: Iterable[tuple[int, bytes]], where: str, *, start: DeltaLog | None = None
) -> DeltaLog:
    """Return the version that commits lead to, which come in order from the first.

    With `start` they come in order from the one after it.
    """
    log = start or DeltaLog()
    live = _Live(log.files)
    for version, data in commits:
        if version != log.version + 1:
            raise CorruptDatasetError(where, f"version {log.version + 1} is missing")
        place = f"{where}, version {version}"
        log = replace(log, version=version)
        for line in data.splitlines():
            if line.strip():
                action = expect(parse_json(line, place), dict, "an action", place)
                log = _applied(log, live, action, place)
    return _complete(log, live, where)


def replay_checkpoint(version: int, actions: Iterable[Mapping[str, Any]], where: str) -> DeltaLog:
    """Return the version that the actions of a checkpoint describe."""
    log, live = DeltaLog(version), _Live({})
    for action in actions:
        log = _applied(log, live, action, where)
    return _complete(log, live, where)


class _Live:
    """The live files while actions are applied: each with its deletes is one of its own."""

    def __init__(self, files: Mapping[str, DeltaFile]) -> None:
        self.files = {self._key(file): file for file in files.values()}

    @staticmethod
    def _key(file: DeltaFile) -> tuple[str, str]:
        return file.path, "" if file.deleted is None else file.deleted.identity

    def add(self, file: DeltaFile) -> None:
        self.files[self._key(file)] = file

    def remove(self, path: str, deleted: DeletionVector | None) -> None:
        self.files.pop((path, "" if deleted is None else deleted.identity), None)


def _complete(log: DeltaLog, live: _Live, where: str) -> DeltaLog:
    if log.version < 0 or not log.schema:
        raise CorruptDatasetError(where, "it describes no table")
    files = {file.path: file for file in live.files.values()}
    if len(files) != len(live.files):
        raise CorruptDatasetError(where, "a file is live with several lists of deleted rows")
    return replace(log, files=files)


def _applied(log: DeltaLog, live: _Live, action: Mapping[str, Any], where: str) -> DeltaLog:
    for kind, value in action.items():
        match kind:
            case "protocol":
                log = _with_protocol(log, expect(value, dict, kind, where), where)
            case "metaData":
                log = _with_metadata(log, expect(value, dict, kind, where), where)
            case "add":
                live.add(_file(expect(value, dict, kind, where), where))
            case "remove":
                said = expect(value, dict, kind, where)
                live.remove(_path(said, where), _vector(said, where))
            case _:
                pass  # commitInfo, txn and the like say nothing of rows
    return log


def _with_protocol(log: DeltaLog, value: Mapping[str, Any], where: str) -> DeltaLog:
    version = expect(value.get("minReaderVersion"), int, "minReaderVersion", where)
    names = expect(value.get("readerFeatures") or [], list, "readerFeatures", where)
    features = tuple(expect(name, str, "a feature", where) for name in names)
    unknown = sorted(set(features) - _READABLE)
    if version > 3 or unknown:
        asked = ", ".join(unknown) or f"reader version {version}"
        raise UnsupportedVersionError(
            f"{where}: the table asks for {asked}, which is not known here",
            hints=(VARIANT_AS_TEXT,) if any("variant" in name for name in unknown) else (),
        )
    return replace(log, features=features)


def _with_metadata(log: DeltaLog, value: Mapping[str, Any], where: str) -> DeltaLog:
    text = expect(value.get("schemaString"), str, "schemaString", where)
    schema = expect(parse_json(text.encode(), where), dict, "the schema", where)
    expect(schema.get("fields"), list, "fields", where)
    names = expect(value.get("partitionColumns") or [], list, "partitionColumns", where)
    configuration = expect(value.get("configuration") or {}, dict, "configuration", where)
    log = replace(
        log,
        table_id=expect(value.get("id"), str, "id", where),
        schema=schema,
        partition_columns=tuple(expect(n, str, "a column", where) for n in names),
        configuration={str(n): str(item) for n, item in configuration.items()},
    )
    for name in geometry_columns(log, where):
        if name in log.partition_columns:
            raise CorruptDatasetError(where, f"it is partitioned by {name!r}, a geometry")
    return log


def _path(value: Mapping[str, Any], where: str) -> str:
    return unquote(expect(value.get("path"), str, "path", where))


def _vector(value: Mapping[str, Any], where: str) -> DeletionVector | None:
    said = value.get("deletionVector")
    return None if said is None else vector_of(expect(said, dict, "deletionVector", where), where)


def _file(value: Mapping[str, Any], where: str) -> DeltaFile:
    statistics = expect(value.get("stats") or "{}", str, "stats", where)
    partition = expect(value.get("partitionValues") or {}, dict, "partitionValues", where)
    return DeltaFile(
        _path(value, where),
        expect(value.get("size"), int, "size", where),
        expect(value.get("modificationTime") or 0, int, "modificationTime", where),
        expect(parse_json(statistics.encode(), where), dict, "stats", where),
        {str(name): None if item is None else str(item) for name, item in partition.items()},
        _vector(value, where),
    )


def geometry_columns(log: DeltaLog, where: str) -> dict[str, NativeGeometry]:
    """Return the columns of a table that hold geometries."""
    found: dict[str, NativeGeometry] = {}
    for name, type_ in _simple_columns(log.schema.get("fields", []), where):
        try:
            geometry = NativeGeometry.parse(type_)
        except ValueError as error:
            raise CorruptDatasetError(where, str(error)) from error
        if geometry is None:
            continue
        kind, _, number = geometry.crs.partition(":")
        if kind == "srid" and not number.isdigit():
            raise CorruptDatasetError(where, f"column {name!r} has the impossible SRID {number!r}")
        found[name] = geometry
    return found


def _simple_columns(fields: Sequence[Any], where: str) -> Iterator[tuple[str, str]]:
    for each in fields:
        column = expect(each, dict, "a column", where)
        if isinstance(column.get("type"), str):
            yield expect(column.get("name"), str, "name", where), column["type"]


# The columns of a Delta table as Arrow types, and what they are called in its data files.
#
# With column mapping a column has another name in files, or is found by its field id, so
# that renaming and dropping columns rewrites nothing. Columns inside of structs have
# names of their own in files too.

MAPPING_MODE = "delta.columnMapping.mode"
"""The table property that says how columns are found in files."""
_PHYSICAL, _ID = "delta.columnMapping.physicalName", "delta.columnMapping.id"
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")
_DEEPEST = 64
_TYPES: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


@dataclass(frozen=True, slots=True)
class DeltaColumn:
    """A column of a table, or of a struct, list or map in it."""

    name: str
    """Its name for people."""
    physical: str
    """Its name in files."""
    id: int | None
    """Its field id in files, where columns are found by it."""
    type: pa.DataType
    """Its values; geometries are bytes."""
    nullable: bool
    """Whether it may have nulls."""
    parts: tuple[DeltaColumn, ...] = ()
    """The fields of a struct, the element of a list, key and value of a map."""
    geometry: NativeGeometry | None = None
    """Its geometries, as it declares them."""
    comment: str | None = None
    """The comment of its author."""


def delta_columns(
    fields: list[Any], mode: str, where: str, *, depth: int = 0
) -> tuple[DeltaColumn, ...]:
    """Return the columns of a schema; `mode` is `none`, `name` or `id`."""
    if mode not in ("none", "name", "id"):
        raise CorruptDatasetError(where, f"its columns are mapped by {mode!r}")
    return tuple(_column(each, mode, where, depth) for each in fields)


def _column(value: Any, mode: str, where: str, depth: int) -> DeltaColumn:
    expect(value, dict, "a column", where)
    name = expect(value.get("name"), str, "name", where)
    metadata = expect(value.get("metadata") or {}, dict, "metadata", where)
    physical, number = name, None
    if mode != "none":
        physical = expect(metadata.get(_PHYSICAL), str, f"{_PHYSICAL} of {name!r}", where)
    if mode == "id":
        number = expect(metadata.get(_ID), int, f"{_ID} of {name!r}", where)
    comment = metadata.get("comment")
    found = _typed(value.get("type"), name, mode, where, depth)
    return DeltaColumn(
        name,
        physical,
        number,
        found.type,
        value.get("nullable") is not False,
        found.parts,
        found.geometry,
        comment if isinstance(comment, str) else None,
    )


def _typed(type_: Any, name: str, mode: str, where: str, depth: int) -> DeltaColumn:
    """Return a column without its own properties: its type and its parts."""
    if depth > _DEEPEST:
        raise CorruptDatasetError(where, "its types are nested too deeply")
    parts: tuple[DeltaColumn, ...] = ()
    geometry = None
    if isinstance(type_, str):
        geometry = _geometry(type_, where)
        arrow = pa.binary() if geometry is not None else _simple(type_, name)
    else:
        kind = expect(type_, dict, f"the type of {name!r}", where).get("type")
        match kind:
            case "struct":
                fields = expect(type_.get("fields"), list, "fields", where)
                parts = delta_columns(fields, mode, where, depth=depth + 1)
                arrow = pa.struct([pa.field(p.name, p.type, p.nullable) for p in parts])
            case "array":
                parts = (_inner(type_, "element", mode, where, depth),)
                arrow = pa.list_(pa.field("element", parts[0].type))
            case "map":
                parts = (
                    _inner(type_, "key", mode, where, depth),
                    _inner(type_, "value", mode, where, depth),
                )
                arrow = pa.map_(parts[0].type, parts[1].type)
            case _:
                raise UnsupportedTypeError(name, f"its type {kind!r} of Delta is not known here")
    return DeltaColumn(name, name, None, arrow, True, parts, geometry)


def _inner(type_: dict[str, Any], what: str, mode: str, where: str, depth: int) -> DeltaColumn:
    return _typed(type_.get(f"{what}Type"), what, mode, where, depth + 1)


def _geometry(text: str, where: str) -> NativeGeometry | None:
    try:
        return NativeGeometry.parse(text)
    except ValueError as error:
        raise CorruptDatasetError(where, str(error)) from error


def _simple(text: str, name: str) -> pa.DataType:
    if (found := _TYPES.get(text)) is not None:
        return found
    if (match := _DECIMAL.fullmatch(text)) is not None:
        precision, scale = int(match[1]), int(match[2])
        if 1 <= precision <= 38 and scale <= precision:
            return pa.decimal128(precision, scale)
    raise UnsupportedTypeError(name, f"its type {text!r} of Delta is not known here")


def partition_value(text: str | None, type_: pa.DataType, where: str) -> pa.Scalar:
    """Return a value of a partition column, which stands in the log as text.

    >>> partition_value("7", pa.int16(), "t").as_py()
    7
    """
    if text is None or (text == "" and not pa.types.is_string(type_)):
        return pa.scalar(None, type_)
    try:
        if pa.types.is_binary(type_):
            return pa.scalar(text.encode("latin-1"), type_)
        if pa.types.is_timestamp(type_):
            # Some writers end moments in Z, others leave the zone out: both mean UTC.
            plain = pa.scalar(text.removesuffix("Z").replace("T", " "))
            return plain.cast(pa.timestamp("us")).cast(pa.int64()).cast(type_)
        return pa.scalar(text).cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeError) as error:
        raise CorruptDatasetError(
            where, f"a file has the impossible partition value {text[:40]!r}"
        ) from error
