"""Tables that clients begin to make: their columns numbered, and where their files go."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.serving.metadata import TableMaker
from havasu_vc.serving.updates import TableChange, applied, new_document, parse_change

__all__ = ["creation", "fresh", "staged_document", "staging_folder"]

_NESTED = {"element-id": "element", "key-id": "key", "value-id": "value"}


def staging_folder(tables: TableMaker, identity: str) -> Path:
    """Return where clients write files of a table, by its uuid."""
    name = hashlib.sha256(identity.encode()).hexdigest()[:32]
    return tables.root / "staging" / name


def fresh(body: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return what a request says of a new table, its columns numbered from 1.

    Clients number the columns of a table that they ask for as they like, and some from 0.
    """
    schema = body.get("schema")
    if not isinstance(schema, dict) or not isinstance(schema.get("fields"), list):
        raise InvalidArgumentError(f"{where}: a new table has no columns")
    numbers: dict[int, int] = {}
    try:
        for number in _levels(schema):
            if number in numbers:
                raise InvalidArgumentError(f"{where}: two columns have the id {number}")
            numbers[number] = len(numbers) + 1
        made = {
            **_numbered(schema, numbers),
            "identifier-field-ids": [
                numbers[each] for each in schema.get("identifier-field-ids") or ()
            ],
        }
        spec, order = (
            {
                "fields": [
                    {**each, "source-id": numbers[each["source-id"]]}
                    for each in (body.get(name) or {}).get("fields") or ()
                ]
            }
            for name in ("partition-spec", "write-order")
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidArgumentError(f"{where}: its columns cannot be understood") from error
    return {**body, "schema": made, "partition-spec": spec, "write-order": order}


def _levels(type_: Mapping[str, Any]) -> Iterator[int]:
    """Yield the ids of fields, each level before those inside."""
    inside: list[Any] = []
    for field in type_.get("fields") or ():
        yield int(field["id"])
        inside.append(field["type"])
    for name, part in _NESTED.items():
        if name in type_:
            yield int(type_[name])
            inside.append(type_[part])
    for each in inside:
        if isinstance(each, Mapping):
            yield from _levels(each)


def _numbered(type_: Any, numbers: Mapping[int, int]) -> Any:
    if not isinstance(type_, dict):
        return type_
    made = dict(type_)
    if "fields" in made:
        made["fields"] = [
            {**each, "id": numbers[each["id"]], "type": _numbered(each["type"], numbers)}
            for each in made["fields"]
        ]
    for name, part in _NESTED.items():
        if name in made:
            made[name] = numbers[made[name]]
            made[part] = _numbered(made[part], numbers)
    return made


def creation(body: Mapping[str, Any], identity: str, where: str) -> TableChange:
    """Return the change that makes a table which a request describes."""
    updates = [
        {"action": "assign-uuid", "uuid": identity},
        {"action": "add-schema", "schema": body["schema"]},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": body["partition-spec"]},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-properties", "updates": body.get("properties") or {}},
    ]
    return parse_change([{"type": "assert-create"}], updates, where)


def staged_document(
    tables: TableMaker, change: TableChange, identity: str, where: str
) -> dict[str, Any]:
    """Return the metadata of a table that is made by a later commit, and have its folders there."""
    staging = staging_folder(tables, identity)
    for folder in ("data", "metadata"):
        # DuckDB makes none.
        (staging / folder).mkdir(parents=True, exist_ok=True)
    document = applied(new_document(tables.documents.spell(staging)), change, where)
    properties = {
        **document["properties"],
        "gc.enabled": "false",
        "write.data.path": tables.documents.spell(staging / "data"),
        "write.metadata.path": tables.documents.spell(staging / "metadata"),
        "write.format.default": "parquet",
        "write.parquet.compression-codec": "zstd",
    }
    return {**document, "properties": properties, "current-snapshot-id": -1}
