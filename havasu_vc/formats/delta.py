"""The log of a Delta table as values: which files hold its rows, and what its columns are.

    _delta_log/00000000000000000000.json     one action a line: protocol, metaData, add, remove

Geometries are columns of `geometry(C)` or `geography(C, A)` in tables with the feature
`geospatial`, a proposal that readers without it must refuse. Whatever else a table asks
of its readers (deletion vectors, column mapping) is refused here too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, unquote

from havasu_vc.errors import CorruptDatasetError, UnsupportedVersionError
from havasu_vc.formats.havasu.json_text import expect, parse_json
from havasu_vc.formats.iceberg.native_geometry import NativeGeometry
from havasu_vc.model.bounds import Bounds

__all__ = [
    "GEOSPATIAL",
    "DeltaFile",
    "DeltaLog",
    "corner_text",
    "file_statistics",
    "format_commit",
    "geometry_columns",
    "replay",
]

GEOSPATIAL = "geospatial"
"""The feature of tables with geometries."""
TIMESTAMP_NTZ = "timestampNtz"
"""The feature of tables with times that have no zone."""
_READABLE = frozenset((GEOSPATIAL, TIMESTAMP_NTZ))


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
    """Values of partition columns."""


@dataclass(frozen=True, slots=True)
class DeltaLog:
    """A version of a table."""

    version: int = -1
    """Its number; -1 before the first."""
    table_id: str = ""
    """Stays for the table's life."""
    features: tuple[str, ...] = ()
    """What readers must know, by name."""
    reader_version: int = 1
    """The least reader version."""
    schema: Mapping[str, Any] = field(default_factory=dict)
    """The columns, as JSON."""
    partition_columns: tuple[str, ...] = ()
    """The columns whose values stand in the log alone."""
    configuration: Mapping[str, str] = field(default_factory=dict)
    """Table properties."""
    files: Mapping[str, DeltaFile] = field(default_factory=dict)
    """Live files by path."""

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


def _number(value: float) -> str:
    return repr(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def file_statistics(
    rows: int,
    nulls: Mapping[str, int],
    ranges: Mapping[str, tuple[Any, Any]],
    boxes: Mapping[str, Bounds | None],
) -> dict[str, Any]:
    """Return what a file's `add` says of its columns."""
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
        "writerFeatures": features,
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


def replay(commits: Iterable[tuple[int, bytes]], where: str) -> DeltaLog:
    """Return the version that commits lead to, which come in order from the first."""
    log = DeltaLog()
    for version, data in commits:
        if version != log.version + 1:
            raise CorruptDatasetError(where, f"version {log.version + 1} is missing")
        place = f"{where}, version {version}"
        log = replace(log, version=version)
        for line in data.splitlines():
            if line.strip():
                log = _applied(
                    log, expect(parse_json(line, place), dict, "an action", place), place
                )
    if log.version < 0 or not log.schema:
        raise CorruptDatasetError(where, "it describes no table")
    return log


def _applied(log: DeltaLog, action: Mapping[str, Any], where: str) -> DeltaLog:
    for kind, value in action.items():
        match kind:
            case "protocol":
                log = _with_protocol(log, expect(value, dict, kind, where), where)
            case "metaData":
                log = _with_metadata(log, expect(value, dict, kind, where), where)
            case "add":
                file = _file(expect(value, dict, kind, where), where)
                log = replace(log, files={**log.files, file.path: file})
            case "remove":
                path = _path(expect(value, dict, kind, where), where)
                log = replace(log, files={n: f for n, f in log.files.items() if n != path})
            case _:
                pass  # commitInfo, txn and the like say nothing of rows
    return log


def _with_protocol(log: DeltaLog, value: Mapping[str, Any], where: str) -> DeltaLog:
    version = expect(value.get("minReaderVersion"), int, "minReaderVersion", where)
    names = expect(value.get("readerFeatures") or [], list, "readerFeatures", where)
    features = tuple(expect(name, str, "a feature", where) for name in names)
    unknown = sorted(set(features) - _READABLE)
    if version > 3 or version == 2 or unknown:
        asked = ", ".join(unknown) or f"reader version {version}"
        raise UnsupportedVersionError(
            f"{where}: the table asks for {asked}, which is not known here",
            hints=("pip install 'havasu-vc[delta]' reads more of the tables without geometries",),
        )
    return replace(log, reader_version=version, features=features)


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


def _file(value: Mapping[str, Any], where: str) -> DeltaFile:
    if value.get("deletionVector") is not None:
        raise UnsupportedVersionError(f"{where}: a file has a deletion vector, not known here")
    statistics = expect(value.get("stats") or "{}", str, "stats", where)
    partition = expect(value.get("partitionValues") or {}, dict, "partitionValues", where)
    return DeltaFile(
        _path(value, where),
        expect(value.get("size"), int, "size", where),
        expect(value.get("modificationTime") or 0, int, "modificationTime", where),
        expect(parse_json(statistics.encode(), where), dict, "stats", where),
        {str(name): None if item is None else str(item) for name, item in partition.items()},
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
