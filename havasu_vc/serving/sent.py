"""A table as a client sent it: a document of metadata, and the files that it names.

Nothing in it is believed: what it names must lie where clients may write or where we serve
from, and be as large and hold as many rows as it says.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from havasu_vc.datasets.havasu.build import NewDataset
from havasu_vc.datasets.havasu.parquet import open_parquet
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.errors import (
    CorruptionError,
    HavasuError,
    InvalidArgumentError,
)
from havasu_vc.formats.havasu.schema import CRS
from havasu_vc.formats.iceberg.metadata import parse_metadata
from havasu_vc.formats.iceberg.native_geometry import DEFAULT_CRS, NO_CRS, with_native_types
from havasu_vc.formats.iceberg.values import TableMetadata
from havasu_vc.geo.crs import parse_crs
from havasu_vc.model.schema import Schema
from havasu_vc.tables.snapshots import SnapshotFile, difference, manifests_of, snapshot_of
from havasu_vc.tables.table import Table, TableFolders

__all__ = [
    "KEY",
    "check_layout",
    "created_dataset",
    "crs_documents",
    "forgets_key",
    "replacing",
    "sent_table",
    "texts",
    "with_plain_geometries",
]

_LEFT_OUT = (
    "owner",
    "write.",
    "read.",
    "commit.",
    "history.",
    "schema.name-mapping.",
    "compatibility.",
    "created-at",
    "format-version",
    "gc.",
    "havasu.",
)
"""Properties that say how an engine works or who it worked for: the catalog has its own."""
KEY = "havasu.key"
"""The property of a table to be made that names its key: columns, with commas between."""
COMMENT = "comment"
"""The property that is a dataset's title."""
_TITLE = "meta/title"
_OURS = frozenset(("format", "table-uuid", "markers", "last-column-id"))
"""The items of `dataset.json`, beside which properties are kept."""
_GEOMETRIES = ("geometry", "geography")
"""How the types of Iceberg 3 begin that datasets have as columns of WKB."""
_UNPARTITIONED = "leave them out: engines skip files by the bounds of their columns"
_OUTSIDE = "it names a file outside of the folder that the catalog gave it"


def sent_table(
    document: Mapping[str, Any],
    folders: Sequence[Path],
    within: Callable[[Iterable[Path]], TableFolders],
    base: int | None,
    where: str,
) -> Table:
    """Return the table that a document describes, after a look at all that differs from the base.

    The first of the folders is where clients write, the others are where what we served is.
    """
    metadata = _parsed(document, where)
    places, staging = within(folders), folders[0]
    table = Table(staging, 0, metadata, staging, places)
    own = within([staging])
    current = metadata.snapshot
    if current is None or current.snapshot_id == base:
        return table
    for location in _documents(table, where):
        _require_inside(places, location, where)
    try:
        come = difference(table, base, current.snapshot_id).added
    except CorruptionError as error:
        raise InvalidArgumentError(f"{where}: {error.message}") from error
    for live in come:
        # DuckDB puts the positions of rows that it deletes beside the data file.
        inside = own if live.is_data else places
        _require_inside(inside, live.file.path, where)
        _check_file(inside.file(live.file.path), live, where)
    return table


def with_plain_geometries(
    document: Mapping[str, Any], where: str, before: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return a document in which types of geometries are columns of WKB, as datasets have them.

    Columns that were there before keep the type that they had.
    """
    known = {
        field["id"]: field["type"]
        for schema in (before or {}).get("schemas") or ()
        for field in schema["fields"]
    }

    def plain(field: Mapping[str, Any]) -> Mapping[str, Any]:
        type_ = field.get("type")
        if not isinstance(type_, str) or not type_.lower().startswith(_GEOMETRIES):
            return field
        if known.get(field.get("id")) == "binary":
            return {**field, "type": "binary"}
        return _geometry(field, where)

    schemas = [
        {**schema, "fields": [plain(field) for field in schema["fields"]]}
        for schema in document["schemas"]
    ]
    return {**document, "schemas": schemas}


def _geometry(field: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Return a field of a type of geometries as a column of WKB in a system by its name."""
    try:
        (made,) = with_native_types({"fields": [field]})["fields"]
    except ValueError as error:
        raise InvalidArgumentError(f"{where}: {error}") from error
    said = made[CRS]
    if said.upper() == DEFAULT_CRS:  # DuckDB writes it small
        said = DEFAULT_CRS
    return {**made, CRS: None if said == NO_CRS else parse_crs(said).identifier}


def crs_documents(document: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the definitions of the systems that the columns of a document name."""
    names = {field.get(CRS) for field in _schema(document)["fields"]} - {None}
    return {f"meta/crs/{name}.wkt": parse_crs(name).wkt.encode() for name in sorted(names)}


def _parsed(document: Mapping[str, Any], where: str) -> TableMetadata:
    try:
        return parse_metadata(json.dumps(document).encode(), where)
    except CorruptionError as error:
        raise InvalidArgumentError(error.message) from error


def _documents(table: Table, where: str) -> Iterable[str]:
    """Yield where the manifests of a table are, and first their list."""
    snapshot = snapshot_of(table)
    if snapshot is None or snapshot.manifest_list is None:
        raise InvalidArgumentError(f"{where}: the snapshot has no manifest list")
    yield snapshot.manifest_list
    try:
        manifests = manifests_of(table, snapshot)
    except CorruptionError as error:
        raise InvalidArgumentError(f"{where}: {error.message}") from error
    for manifest in manifests:
        yield manifest.path


def _require_inside(places: TableFolders, location: str, where: str) -> None:
    try:
        places.file(location)
    except HavasuError as error:
        raise InvalidArgumentError(f"{where}: {_OUTSIDE}") from error


def _check_file(path: Path, live: SnapshotFile, where: str) -> None:
    """Raise unless a file that comes is what its manifest says."""
    name = f"{where}: the file {path.name}"
    try:
        size = os.stat(path).st_size
    except OSError as error:
        raise InvalidArgumentError(f"{name} is missing") from error
    if live.file.is_vector:
        return
    if size != live.file.file_size:
        raise InvalidArgumentError(
            f"{name} has {size:,} bytes, and its manifest says {live.file.file_size:,}"
        )
    try:
        with open_parquet(str(path)) as parquet:
            rows = parquet.metadata.num_rows
    except HavasuError as error:
        raise InvalidArgumentError(f"{name} is no Parquet file that can be read") from error
    if rows != live.file.record_count:
        raise InvalidArgumentError(
            f"{name} has {rows:,} rows, and its manifest says {live.file.record_count:,}"
        )


def check_layout(before: Mapping[str, Any], after: Mapping[str, Any], where: str) -> None:
    """Raise where a change asks for what a dataset does not take from the catalog."""
    if after["default-spec-id"] != before["default-spec-id"]:
        raise InvalidArgumentError(
            f"{where}: a table's partitions are not changed here", hints=(_UNPARTITIONED,)
        )
    old, new = before["properties"], after["properties"]
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) == new.get(name) or name == COMMENT or name.startswith(_LEFT_OUT):
            continue
        raise InvalidArgumentError(
            f"{where}: the property {name[:60]!r} would not be kept: a table has its properties "
            "from the day it is made, and `comment` alone changes"
        )
    if after["default-sort-order-id"] != before["default-sort-order-id"]:
        raise InvalidArgumentError(
            f"{where}: a table's order is not changed here",
            hints=("leave it out: rows are in the order of the key",),
        )


def texts(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, bytes | None]:
    """Return the texts of a dataset that a change of its table's properties changes."""
    old, new = (each["properties"].get(COMMENT) for each in (before, after))
    return {} if old == new else {_TITLE: new.encode() if new else None}


def replacing(before: Mapping[str, Any], after: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the document of a table that is replaced, with the key that it had.

    Statements that make a table of a query know no key, and let every column be null.
    """
    old, new = _schema(before), _schema(after)
    key = old.get("identifier-field-ids") or []
    columns = {field["id"]: field for field in old["fields"]}
    there = {field["id"] for field in new["fields"]}
    for number in key:
        if number not in there:
            name = columns[number]["name"]
            raise InvalidArgumentError(
                f"{where}: the key column {name!r} is not among the columns of the table any more"
            )
    fields = [
        {**field, "required": True} if field["id"] in key else field for field in new["fields"]
    ]
    made = {**new, "fields": fields, "identifier-field-ids": key}
    number = after["current-schema-id"]
    schemas = [made if each["schema-id"] == number else each for each in after["schemas"]]
    return {**after, "schemas": schemas}


def forgets_key(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether columns are changed by an engine that knows no key, and so leaves it out.

    One that only takes the key away knows what it does.
    """
    old, new = _schema(before), _schema(after)
    if new.get("identifier-field-ids") or not old.get("identifier-field-ids"):
        return False
    return _columns(old) != _columns(new)


def _columns(schema: Mapping[str, Any]) -> list[tuple[Any, Any, Any]]:
    return [(field["id"], field["name"], field["type"]) for field in schema["fields"]]


def _schema(document: Mapping[str, Any]) -> dict[str, Any]:
    number = document["current-schema-id"]
    return next(each for each in document["schemas"] if each["schema-id"] == number)


def created_dataset(document: Mapping[str, Any], where: str) -> TreeEdit:
    """Return the edit that creates a dataset without rows, of a document with its columns."""
    try:
        identity = str(uuid.UUID(document["table-uuid"] or str(uuid.uuid4())))
    except ValueError as error:
        raise InvalidArgumentError(f"{where}: the table's uuid is none") from error
    metadata = _parsed({**document, "table-uuid": identity}, where)
    if metadata.partition_specs[metadata.default_spec_id].fields:
        raise InvalidArgumentError(
            f"{where}: tables with partitions are not made here", hints=(_UNPARTITIONED,)
        )
    schema = _with_key(metadata.schema, metadata.properties.get(KEY), where)
    title = metadata.properties.get(COMMENT)
    kept = {
        name: value
        for name, value in metadata.properties.items()
        if name != COMMENT and not name.startswith(_LEFT_OUT)
    }
    for name in kept:
        if name in _OURS or name.startswith("havasu-vc."):
            raise InvalidArgumentError(f"{where}: the property {name[:60]!r} is not a client's")
    new = NewDataset(
        where,
        schema,
        table_uuid=identity,
        meta={**({_TITLE: title.encode()} if title else {}), **crs_documents(document)},
        properties=kept,
    )
    return new.edit([])


def _with_key(schema: Schema, names: str | None, where: str) -> Schema:
    if not names:
        return schema
    wanted = [name.strip() for name in names.split(",")]
    unknown = [name for name in wanted if name not in schema.by_name]
    if unknown:
        raise InvalidArgumentError(f"{where}: {KEY} names no column {unknown[0]!r}")
    fields = tuple(
        replace(field, required=True) if field.name in wanted else field for field in schema.fields
    )
    try:
        return Schema(fields, tuple(schema.by_name[name].id for name in wanted))
    except ValueError as error:
        raise InvalidArgumentError(f"{where}: {KEY} cannot be its key: {error}") from error
