"""`schema.name-mapping.default`: which column is which in data files without field ids.

    [{"field-id": 1, "names": ["id", "record_id"]},
     {"field-id": 2, "names": ["data"], "fields": [{"field-id": 3, "names": ["a.b"]}]}]

A name is literal: `a.b` is a column of that name, not `b` inside `a`. A list's element is
mapped under `element`, a map's parts under `key` and `value`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import field
from typing import Any

from havasu_vc.errors import CorruptDatasetError
from havasu_vc.formats.havasu.json_text import expect, parse_json
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, children
from havasu_vc.records import dataclass

__all__ = [
    "NAME_MAPPING",
    "MappedField",
    "NameMapping",
    "format_name_mapping",
    "mapping_of",
    "parse_name_mapping",
]

NAME_MAPPING = "schema.name-mapping.default"
"""The table property that holds a mapping."""

_DEEPEST = 64


@dataclass(frozen=True, slots=True)
class MappedField:
    """What a column may be called in files."""

    names: tuple[str, ...] = ()
    """Any of them; none for a column that such files do not have."""
    field_id: int | None = None
    """The column; None for one of files alone, which is passed over."""
    fields: NameMapping = field(default_factory=lambda: NameMapping())
    """What is inside it."""


@dataclass(frozen=True, slots=True)
class NameMapping:
    """The columns of a table, or of a nested column.

    >>> mapping = NameMapping((MappedField(("id", "record_id"), 1),))
    >>> mapping.find("record_id").field_id, mapping.find("ID")
    (1, None)
    """

    fields: tuple[MappedField, ...] = ()
    """In order."""

    def __post_init__(self) -> None:
        names = [name for each in self.fields for name in each.names]
        if len(set(names)) != len(names):
            raise ValueError("a name is mapped twice")

    def find(self, name: str) -> MappedField | None:
        """Return what a name stands for; None when nothing is known of it."""
        return next((each for each in self.fields if name in each.names), None)


def mapping_of(schema: Schema) -> NameMapping:
    """Return the mapping under which each column has the name that it has now."""
    return _mapping(schema.fields)


def _mapping(fields: Iterable[Field]) -> NameMapping:
    return NameMapping(
        tuple(MappedField((each.name,), each.id, _mapping(children(each.type))) for each in fields)
    )


def format_name_mapping(mapping: NameMapping) -> str:
    """Return the value of the table property."""
    return json.dumps(_to_json(mapping), ensure_ascii=False, separators=(",", ":"))


def _to_json(mapping: NameMapping) -> list[dict[str, Any]]:
    made = []
    for each in mapping.fields:
        item: dict[str, Any] = {} if each.field_id is None else {"field-id": each.field_id}
        item["names"] = list(each.names)
        if each.fields.fields:
            item["fields"] = _to_json(each.fields)
        made.append(item)
    return made


def parse_name_mapping(text: str, where: str) -> NameMapping:
    """Return the mapping of the value of the table property."""
    place = f"{where} ({NAME_MAPPING})"
    try:
        return _from_json(parse_json(text.encode(), place), place, 0)
    except ValueError as error:
        raise CorruptDatasetError(place, str(error)) from error


def _from_json(value: Any, where: str, depth: int) -> NameMapping:
    if depth > _DEEPEST:
        raise CorruptDatasetError(where, "it is nested too deeply")
    return NameMapping(
        tuple(
            _field(item, where, depth)
            for item in expect(value, list, "a list of mapped fields", where)
        )
    )


def _field(value: Any, where: str, depth: int) -> MappedField:
    expect(value, dict, "a mapped field", where)
    names = expect(value.get("names"), list, "names", where)
    number = expect(value.get("field-id"), (int, type(None)), "field-id", where)
    inside = value.get("fields")
    return MappedField(
        tuple(expect(name, str, "a name", where) for name in names),
        number,
        NameMapping() if inside is None else _from_json(inside, where, depth + 1),
    )
