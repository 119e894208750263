"""A short way to write schemas down, and the cases of `schema_merges.txt`.

A schema is columns with `; ` between them, `-` when it has none. A column is
`ID NAME TYPE` and marks: `!` required, `*` required and in the key, `@NAME` its name in
files, `#TEXT` its comment, `~TYPE` what it came as, `%KEY=VALUE` another property. Types
are Iceberg's, `dec5` a decimal of five digits, two of them after the point,
`struct(COLUMNS)`, `list(COLUMN)`, `map(COLUMNS)`, and for geometries their encoding,
`ewkb(CRS SHAPE)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from havasu_vc.model.schema import Schema
from havasu_vc.model.types import (
    Decimal,
    Encoding,
    Field,
    Geometry,
    List,
    Map,
    Primitive,
    Struct,
    Type,
)

FILE = Path(__file__).with_name("schema_merges.txt")
SHORT = {
    "ID": "1 id long *",
    "A": "2 a int",
    "B": "3 b string",
    "GEOM": "4 geom ewkb(EPSG:2193)",
    "PLACE": "5 place struct(6 street string; 7 number int)",
}
_COLUMN = re.compile(r"(\d+) (\w+) (\w+)(?:\((.*)\))?((?: \S+)*)")


@dataclass(frozen=True)
class Case:
    name: str
    base: Schema
    ours: Schema
    theirs: Schema
    merged: Schema
    conflicts: tuple[str, ...]
    """As `kind name` or `property name attribute`."""
    flipped: Schema | None
    """What comes out with sides exchanged, where that is more than another order."""


def schema(text: str) -> Schema:
    """Return the schema that a text describes."""
    texts = () if text == "-" else tuple(_split(text))
    fields = tuple(map(column, texts))
    marks = (_parts(text)[4] for text in texts)
    return Schema(fields, tuple(f.id for f, m in zip(fields, marks, strict=True) if "*" in m))


def column(text: str) -> Field:
    """Return the column that a text describes."""
    number, name, kind, inner, marks = _parts(text)
    said = {mark[0]: mark[1:] for mark in marks}
    extra = tuple(tuple(mark[1:].split("=")) for mark in marks if mark[0] == "%")
    geometry = _geometry(kind, inner)
    return Field(
        int(number),
        name,
        _type(kind, inner) if geometry is None else _stored(geometry),
        required="!" in said or "*" in said,
        doc=said.get("#"),
        geometry=geometry,
        source_type=said.get("~"),
        physical_name=said.get("@"),
        extra=tuple((key, value) for key, value in extra),
    )


def _parts(text: str) -> tuple[str, str, str, str, list[str]]:
    match = _COLUMN.fullmatch(SHORT.get(text, text))
    assert match is not None, text
    number, name, kind, inner, marks = match.groups()
    return number, name, kind, inner or "", marks.split()


def _split(text: str) -> Iterator[str]:
    start = depth = 0
    for place, character in enumerate(f"{text};"):
        depth += (character == "(") - (character == ")")
        if character == ";" and depth == 0:
            yield text[start:place].strip()
            start = place + 1


def _type(kind: str, inner: str) -> Type:
    match kind:
        case "struct":
            return Struct(tuple(map(column, _split(inner))))
        case "list":
            return List(column(inner))
        case "map":
            return Map(*map(column, _split(inner)))
        case _ if kind.startswith("dec"):
            return Decimal(int(kind[3:]), 2)
        case _:
            return Primitive(kind)


def _geometry(kind: str, inner: str) -> Geometry | None:
    if kind not in list(Encoding):
        return None
    crs, shape, *_ = [*inner.split(), None, None]
    return Geometry(Encoding(kind), crs, shape)


def _stored(geometry: Geometry) -> Type:
    return Primitive.BINARY if geometry.encoding.is_binary else Primitive.STRING


def read_cases() -> list[Case]:
    """Return the cases of the file."""
    blocks = FILE.read_text().split("\n\n")
    return [_case(block.strip("\n")) for block in blocks if not block.startswith("#")]


def _case(block: str) -> Case:
    name, *lines = block.split("\n")
    said = {line[2:12].strip(): line[12:] for line in lines}
    assert said.keys() <= {"base", "ours", "theirs", "merged", "flipped", "conflicts"}
    base = schema(said["base"])
    flipped = said.get("flipped")
    return Case(
        name,
        base,
        schema(said.get("ours", said["base"])),
        schema(said.get("theirs", said["base"])),
        schema(said["merged"]),
        tuple(said["conflicts"].split(", ")) if "conflicts" in said else (),
        None if flipped is None else schema(flipped),
    )


CASES = read_cases()
