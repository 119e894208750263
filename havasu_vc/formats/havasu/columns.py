"""`columns/<field id>.json` and `columns/names/<16 hex>`: the columns, each a file of its own.

So git merges two sides that added, renamed or dropped different columns. A column's file
is packed JSON: its field as `schema` has it, with `place` (columns stand in that order, then
in that of their ids) and `key` (whether it is of the key). The claim of a name is NUL, the
name, NUL and the field id, at a hash of the name; so two columns of one name meet in one
path.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from havasu_vc.errors import CorruptDatasetError
from havasu_vc.formats.havasu.json_text import expect
from havasu_vc.formats.havasu.packed import pack, unpack
from havasu_vc.formats.havasu.schema import schema_from_json, schema_to_json
from havasu_vc.model.schema import Schema

__all__ = ["FOLDER", "format_columns", "parse_columns"]

FOLDER = "columns"
MOST_COLUMNS = 100_000


def _claim(name: str) -> str:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"names/{digest[:16]}"


def format_columns(schema: Schema, places: Mapping[int, int] | None = None) -> dict[str, bytes]:
    """Return the documents of columns, by path below `columns`.

    `places` are those that columns had before, by field id; they stay where they can.
    """
    found: dict[str, bytes] = {}
    value = schema_to_json(schema)
    keys = set(value["identifier-field-ids"])
    fields = value["fields"]
    chosen = _places([field["id"] for field in fields], places or {})
    for field, place in zip(fields, chosen, strict=True):
        number, name = field["id"], field["name"]
        document = {"place": place, "key": number in keys, "field": field}
        found[f"{number}.json"] = pack(document)
        found[_claim(name)] = f"\0{name}\0{number}".encode("utf-8", "surrogatepass")
    return found


def _places(numbers: list[int], before: Mapping[int, int]) -> list[int]:
    """Return the place of each column: as before where these are in the order that is wanted."""
    known = [(before[n], n) for n in numbers if n in before]
    first_new = next((i for i, n in enumerate(numbers) if n not in before), len(numbers))
    at_end = all(n not in before for n in numbers[first_new:])
    if known != sorted(known) or not at_end:
        return list(range(len(numbers)))
    start = max((place for place, _ in known), default=-1) + 1
    return [before[n] if n in before else start + i - first_new for i, n in enumerate(numbers)]


def parse_columns(
    documents: Iterable[tuple[str, bytes]], where: str
) -> tuple[Schema, dict[int, int]]:
    """Return the schema of documents below `columns`, and the place of each column."""
    found: list[tuple[int, int, dict[str, Any], bool]] = []
    claims: dict[str, bytes] = {}
    for name, data in documents:
        if len(claims) + len(found) > 2 * MOST_COLUMNS:
            raise CorruptDatasetError(where, f"it has over {MOST_COLUMNS:,} columns")
        if name.startswith("names/"):
            claims[name] = data
            continue
        number = name.removesuffix(".json")
        value = expect(unpack(data, f"{where}/{name}"), dict, "the column", where)
        field = expect(value.get("field"), dict, "field", where)
        if str(field.get("id")) != number:
            raise CorruptDatasetError(f"{where}/{name}", "its name is not its field id")
        place = expect(value.get("place"), int, "place", where)
        found.append((place, int(number), field, expect(value.get("key"), bool, "key", where)))
    found.sort(key=lambda each: each[:2])
    schema = schema_from_json(
        {
            "type": "struct",
            "fields": [field for _, _, field, _ in found],
            "identifier-field-ids": sorted(number for _, number, _, key in found if key),
        },
        where,
    )
    wanted = format_columns(schema).items()
    if claims != {path: data for path, data in wanted if path.startswith("names/")}:
        raise CorruptDatasetError(where, "the names that columns claim are not those they have")
    return schema, {number: place for place, number, _, _ in found}
