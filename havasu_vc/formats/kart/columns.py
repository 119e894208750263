"""`meta/schema.json`: Kart's list of columns, and the schema that it means.

A column's UUID and our field id are tied both ways: an id that we made holds the field
id in its first eight digits, any other is hashed to a number. So every reader finds the
same field ids in every version, with nothing stored beside. Fields keep what a `Schema`
has no word for as properties: `kart.id`, and `kart.column` with the attributes of a
column that the field alone would not give back (a text's length, a float of 32 bits).

>>> field = Field(7, "name", Primitive.STRING)
>>> column_id(field)
'00000007-6861-8761-b173-750000000000'
>>> field_id(column_id(field))
7
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import msgpack

from havasu_vc.errors import CorruptDatasetError, SchemaViolationError, UnsupportedTypeError
from havasu_vc.model.columns import Column, type_of
from havasu_vc.model.schema import Schema, can_identify
from havasu_vc.model.types import Decimal, Encoding, Field, Fixed, Geometry, Primitive, Type
from havasu_vc.records import dataclass

__all__ = [
    "GENERATED_KEYS",
    "GeneratedKeys",
    "Legend",
    "as_all_declared",
    "as_declared",
    "column_id",
    "columns_of_schema",
    "field_id",
    "field_of_column",
    "format_columns",
    "format_legend",
    "format_wkt",
    "kart_schema",
    "legend_name",
    "legend_of",
    "parse_columns",
    "parse_generated_keys",
    "parse_legend",
    "parse_schema",
    "schema_of_columns",
]

ID, COLUMN = "kart.id", "kart.column"
"""Names of the properties that a field keeps of its column."""

_OWN = re.compile(r"([0-9a-f]{8})-6861-8761-b173-750000000000")
_ANY_SHAPE = "GEOMETRY"
_HASHED = 1 << 30
"""Ids that are hashed stay below this, so that there is room above for new ones."""
_FIRST = ("dataType", "primaryKeyIndex", "geometryType", "geometryCRS", "size", "length")
_NOT_TYPE = frozenset(("id", "name", "primaryKeyIndex"))
_SIZES: dict[str, dict[int, tuple[Primitive, str | None]]] = {
    "integer": {
        8: (Primitive.INT, "int8"),
        16: (Primitive.INT, "int16"),
        32: (Primitive.INT, None),
        64: (Primitive.LONG, None),
    },
    "float": {32: (Primitive.DOUBLE, None), 64: (Primitive.DOUBLE, None)},
}
_SIMPLE = {
    "boolean": Primitive.BOOLEAN,
    "blob": Primitive.BINARY,
    "date": Primitive.DATE,
    "interval": Primitive.STRING,
    "text": Primitive.STRING,
    "time": Primitive.TIME,
}
DATA_TYPES = frozenset((*_SIMPLE, *_SIZES, "geometry", "numeric", "timestamp"))


def field_id(column: str) -> int:
    """Return the field id that a column id stands for, clashes within a schema apart."""
    own = _OWN.fullmatch(column)
    if own is not None and 0 < (number := int(own[1], 16)) < (1 << 31) - 256:
        return number
    return 1 + int.from_bytes(hashlib.sha256(column.encode()).digest()[:4]) % _HASHED


def column_id(field: Field) -> str:
    """Return the id of a field's column: the one it came with, or one that holds its number."""
    kept = dict(field.extra).get(ID)
    return kept if kept is not None else f"{field.id:08x}-6861-8761-b173-750000000000"


def parse_columns(data: bytes, where: str) -> list[Column]:
    """Return the columns of a `schema.json`."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptDatasetError(where, f"it is not JSON ({error})") from error
    reason = next(_faults(value), None)
    if reason is not None:
        raise CorruptDatasetError(where, reason)
    return [_without_nulls(column) for column in value]


def parse_schema(data: bytes, where: str) -> Schema:
    """Return the schema that a `schema.json` means."""
    columns = parse_columns(data, where)
    try:
        return _schema(columns)
    except ValueError as error:
        raise CorruptDatasetError(where, str(error)) from error


def schema_of_columns(value: Any) -> Schema:
    """Return the schema of a list of columns that a person gave."""
    reason = next(_faults(value), None)
    if reason is not None:
        raise SchemaViolationError(f"the schema is not one of Kart's: {reason}")
    try:
        return _schema([_without_nulls(column) for column in value])
    except ValueError as error:
        raise SchemaViolationError(f"the schema is not possible: {error}") from error


def format_columns(columns: Sequence[Column]) -> bytes:
    """Return columns as Kart writes them."""
    return json.dumps([_ordered(column) for column in columns]).encode("ascii")


def columns_of_schema(schema: Schema) -> list[Column]:
    """Return the columns of a schema; raises for types that Kart lacks."""
    positions = {number: index for index, number in enumerate(schema.identifier_ids)}
    return [_column(field, positions.get(field.id)) for field in schema.fields]


def kart_schema(schema: Schema) -> Schema:
    """Return a schema as it comes back from Kart's form: same ids, types of a Kart dataset."""
    return _schema(columns_of_schema(schema), {column_id(f): f.id for f in schema.fields})


def _faults(value: Any) -> Iterator[str]:
    """Yield what is wrong with a list of columns."""
    if not isinstance(value, list):
        yield "it is not a list of columns"
        return
    for column in value:
        yield from _column_faults(column)
    for name in ("id", "name"):
        seen: set[str] = set()
        for column in value:
            if column[name] in seen:
                yield f"two columns have the {name} {column[name]!r}"
            seen.add(column[name])
    keys = [c["primaryKeyIndex"] for c in value if c.get("primaryKeyIndex") is not None]
    if sorted(keys) != list(range(len(keys))):
        yield "primaryKeyIndex does not count 0, 1, … over the key columns"


def _column_faults(column: Any) -> Iterator[str]:
    if not isinstance(column, dict):
        yield "a column is not an object"
        return
    for name in ("id", "name", "dataType"):
        if not isinstance(column.get(name), str) or not column[name]:
            yield f"a column has no {name}"
            return
    kind, name = column["dataType"], column["name"]
    if kind not in DATA_TYPES:
        yield f"column {name!r} has the data type {kind!r}, which does not exist"
        return
    index = column.get("primaryKeyIndex")
    if index is not None and (type(index) is not int or index < 0):
        yield f"primaryKeyIndex of {name!r} is not a whole number from 0"
        return
    size = column.get("size")
    if kind in _SIZES and size is not None and not _is_size(kind, size):
        sizes = ", ".join(map(str, _SIZES[kind]))
        yield f"column {name!r} has the size {size!r}, not one of {sizes}"
    if kind == "timestamp" and column.get("timezone") not in (None, "UTC"):
        yield f"column {name!r} has the timezone {column['timezone']!r}, not UTC"
    for text in ("geometryType", "geometryCRS"):
        if kind == "geometry" and not isinstance(column.get(text), str | None):
            yield f"{text} of {name!r} is not text"
    for number in ("length", "precision", "scale"):
        if type(column.get(number)) not in (int, type(None)):
            yield f"{number} of {name!r} is not a whole number"


def _is_size(kind: str, size: Any) -> bool:
    return type(size) is int and size in _SIZES[kind]


def _schema(columns: Sequence[Column], known: dict[str, int] | None = None) -> Schema:
    numbers = _numbers([column["id"] for column in columns], known or {})
    fields, keys = [], []
    for column in columns:
        number = numbers[column["id"]]
        position = column.get("primaryKeyIndex")
        field = field_of_column(column, number, required=position is not None)
        if position is not None:
            if not can_identify(field):
                raise ValueError(f"column {field.name!r} ({column['dataType']}) cannot be a key")
            keys.append((position, number))
        fields.append(field)
    return Schema(tuple(fields), tuple(number for _, number in sorted(keys)))


def _numbers(ids: Sequence[str], known: dict[str, int]) -> dict[str, int]:
    """Return a field id for each column id; where two clash, the later in order steps aside."""
    found = {name: known[name] for name in ids if name in known}
    taken = set(found.values())
    for name in sorted(ids):
        if name in found:
            continue
        number = field_id(name)
        while number in taken:
            number = number % _HASHED + 1
        taken.add(number)
        found[name] = number
    return found


def field_of_column(column: Column, number: int, *, required: bool) -> Field:
    """Return the field that a column means, under the id that it has with us."""
    type_, source, geometry = _type(column)
    extra = [] if _OWN.fullmatch(column["id"]) else [(ID, column["id"])]
    field = Field(
        number,
        column["name"],
        type_,
        required=required,
        geometry=geometry,
        source_type=source,
    )
    attributes = {name: value for name, value in column.items() if name not in _NOT_TYPE}
    if _ordered(attributes) != _ordered(_derived(field)):
        extra.append((COLUMN, json.dumps(_ordered(attributes), separators=(",", ":"))))
    return replace(field, extra=tuple(extra))


def _type(column: Column) -> tuple[Type, str | None, Geometry | None]:
    """Return the type of a column's values, what they came as, and what of geometries."""
    kind = column["dataType"]
    if kind in _SIMPLE:
        return _SIMPLE[kind], None, None
    if kind in _SIZES:
        return (*_SIZES[kind][column.get("size") or 64], None)
    if kind == "geometry":
        geometry = Geometry(Encoding.EWKB, column.get("geometryCRS"), column.get("geometryType"))
        return Primitive.BINARY, None, geometry
    if kind == "timestamp":
        zoned = column.get("timezone") == "UTC"
        return (Primitive.TIMESTAMPTZ if zoned else Primitive.TIMESTAMP), None, None
    precision, scale = column.get("precision"), column.get("scale") or 0
    if precision is None or not 1 <= precision <= 38 or not 0 <= scale <= precision:
        return Primitive.STRING, None, None  # digits without a limit are kept as text
    return Decimal(precision, scale), None, None


def _column(field: Field, position: int | None) -> Column:
    attributes = _derived(field)
    kept = dict(field.extra).get(COLUMN)
    if kept is not None:
        merged = _kept_attributes(kept, field)
        attributes = attributes if merged is None else merged
    column: Column = {"id": column_id(field), "name": field.name, **attributes}
    if position is not None:
        column["primaryKeyIndex"] = position
    return _ordered(column)


def _kept_attributes(kept: str, field: Field) -> Column | None:
    """Return the attributes that a field came with, if they still say what it is."""
    try:
        column = json.loads(kept)
        reason = next(_column_faults({**column, "id": "-", "name": "-"}), None)
        if reason is not None:
            return None
        type_, _, geometry = _type(column)
    except (ValueError, TypeError):
        return None
    if type_ != field.type or (geometry is None) != (field.geometry is None):
        return None
    if field.geometry is not None:
        told = {"geometryType": field.geometry.shape, "geometryCRS": field.geometry.crs}
        column.update(told)
    return _without_nulls(column)


def _derived(field: Field) -> Column:
    """Return the attributes that follow from a field's type; raises for types that Kart lacks."""
    if field.raster is not None or not isinstance(field.type, Primitive | Decimal | Fixed):
        raise UnsupportedTypeError(
            field.name,
            f"Kart has no type like {'raster' if field.raster else field.type}",
            hints=("leave the column out, or keep the dataset as a Havasu one",),
        )
    if field.geometry is None:
        return type_of(field)
    # Kart reads some type back from any working copy, and none would be an edit for ever.
    return {"geometryType": _ANY_SHAPE, **type_of(field)}


def _without_nulls(column: Column) -> Column:
    return {name: value for name, value in column.items() if value is not None}


def _ordered(column: Column) -> Column:
    first = [name for name in ("id", "name", *_FIRST) if name in column]
    rest = sorted(column.keys() - set(first))
    return {name: column[name] for name in (*first, *rest)}


# Legends: which columns the values of a feature are of.
#
# A feature names the legend that it was written with; a legend lists column ids, those of
# the key and those of the values in the feature. Legends are added and never change, and
# are named by 40 digits of the hash of their bytes. The flat list of the published page,
# in which a feature holds its key too, is read as well.

MOST_COLUMNS = 100_000


@dataclass(frozen=True, slots=True)
class Legend:
    """The columns that a feature has values of."""

    key: tuple[str, ...] | None
    """Ids of the columns whose values are the file's name; None where the key is not told apart."""
    values: tuple[str, ...]
    """Ids of the columns whose values are in the file, in order."""


def legend_of(schema: Schema) -> Legend:
    """Return the legend of features written with a schema."""
    ids = {field.id: column_id(field) for field in schema.fields}
    key = tuple(ids[number] for number in schema.identifier_ids)
    return Legend(key, tuple(name for number, name in ids.items() if name not in key))


def format_legend(legend: Legend) -> bytes:
    """Return a legend as Kart writes it."""
    packed: bytes = msgpack.packb([list(legend.key or ()), list(legend.values)])
    return packed


def legend_name(data: bytes) -> str:
    """Return the name of a legend with these bytes."""
    return hashlib.sha256(data).hexdigest()[:40]


def parse_legend(data: bytes, where: str) -> Legend:
    """Return the legend that some bytes are."""
    try:
        value: Any = msgpack.unpackb(data, max_array_len=MOST_COLUMNS, max_ext_len=0)
    except (ValueError, msgpack.exceptions.UnpackException, RecursionError) as error:
        raise CorruptDatasetError(where, f"it is not a legend: not msgpack ({error})") from error
    if isinstance(value, list) and value and all(isinstance(name, str) for name in value):
        found = Legend(None, tuple(value))
    elif isinstance(value, list) and len(value) == 2 and all(map(_is_ids, value)):
        found = Legend(tuple(value[0]), tuple(value[1]))
    else:
        raise CorruptDatasetError(where, "it is not a legend: not two lists of column ids")
    ids = (*(found.key or ()), *found.values)
    if len(set(ids)) != len(ids):
        raise CorruptDatasetError(where, "it names a column twice")
    return found


def _is_ids(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


# The text of coordinate reference systems as Kart lays it out: one part per line.
#
# Parts within a part are on lines of their own, four spaces further in; plain values stand
# behind each other. Nothing but white space changes.
#
# >>> print(format_wkt('UNIT["degree",0.0174,AUTHORITY["EPSG","9122"]]').decode(), end="")
# UNIT["degree", 0.0174,
#     AUTHORITY["EPSG", "9122"]]

_TOKEN = re.compile(r'\s*("(?:[^"]|"")*"|[\[\](),]|[^\s\[\](),"]+)')


_DEEPEST_WKT = 64
"""Parts within parts of a definition; real ones have ten, and each is on a line further in."""


def format_wkt(text: str) -> bytes:
    """Return WKT in lines; what is not WKT, or too deep, stays as it is."""
    tokens = _tokens(text)
    if tokens is None:
        return text.encode()
    lines: list[str] = []
    depth, line = 0, ""
    for index, token in enumerate(tokens):
        opens = index + 1 < len(tokens) and tokens[index + 1] in "[("
        if token in ("[", "("):
            depth += 1
        elif token in ("]", ")"):
            depth -= 1
        elif opens and depth:
            lines.append(line.rstrip())
            line = " " * (4 * depth)
        line += f"{token} " if token == "," else token
    if depth:
        return text.encode()
    return "\n".join([*lines, line, ""]).encode()


def _tokens(text: str) -> list[str] | None:
    tokens: list[str] = []
    at = depth = 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            return None
        tokens.append(match[1])
        depth += match[1] in ("[", "(")
        depth -= match[1] in ("]", ")")
        if depth > _DEEPEST_WKT:
            return None
        at = match.end()
    return tokens if len(tokens) > 1 else None


# `meta/generated-pks.json`: keys that rows without one were given, and whose they are.
#
#     {"primaryKeySchema": {…the column…}, "generatedPrimaryKeys": {"1": "<id of its feature>", …}}
#
# The document remembers every row that was ever imported, by the git id of its feature. So
# when a source comes in again, rows that are as they were get the keys that they had, those
# that come twice as many as there are, and others the next numbers.
#
# >>> keys = GeneratedKeys({"name": "auto_pk"})
# >>> keys.assign([b"a" * 20, b"b" * 20, b"a" * 20])
# [1, 2, 3]
# >>> again = parse_generated_keys(keys.format(), "it")
# >>> again.assign([b"b" * 20, b"c" * 20, b"a" * 20])
# [2, 4, 1]
# >>> again.unused()
# [3]

GENERATED_KEYS = "generated-pks.json"
"""The name of the meta item."""


class GeneratedKeys:
    """Keys that are given to rows by what they hold."""

    def __init__(self, column: Column, known: dict[int, bytes] | None = None) -> None:
        """Go on from keys that are `known`, each with the id of its feature."""
        self.column = column
        """The key column."""
        self._known = dict(known or {})
        self._next = max(self._known, default=0) + 1
        self._free: dict[bytes, deque[int]] = {}
        for key, identity in self._known.items():
            self._free.setdefault(identity, deque()).append(key)

    def assign(self, ids: Sequence[bytes]) -> list[int]:
        """Return the key of each feature, by id: the one it had, or the next number."""
        return [
            self.new(identity) if key is None else key
            for key, identity in zip(self.recall(ids), ids, strict=True)
        ]

    def recall(self, ids: Sequence[bytes]) -> list[int | None]:
        """Return the key that each feature had, None where it had none; none is given twice."""
        free = self._free
        return [left.popleft() if (left := free.get(each)) else None for each in ids]

    def new(self, identity: bytes) -> int:
        """Return the next number, for a feature that is new."""
        self._known[self._next] = identity
        self._next += 1
        return self._next - 1

    def change(self, key: int, identity: bytes) -> None:
        """Say that the row of a key holds something else now."""
        self._known[key] = identity

    def unused(self) -> list[int]:
        """Return the keys of rows that did not come again, in order."""
        return sorted(chain.from_iterable(self._free.values()))

    def format(self) -> bytes:
        """Return the document as Kart writes it."""
        head = json.dumps({"primaryKeySchema": self.column})
        pairs = ", ".join([f'"{key}": "{each.hex()}"' for key, each in self._known.items()])
        return f'{head[:-1]}, "generatedPrimaryKeys": {{{pairs}}}}}'.encode("ascii")


def parse_generated_keys(data: bytes, where: str) -> GeneratedKeys:
    """Return the keys that a document holds."""
    try:
        value = json.loads(data)
        column, pairs = value["primaryKeySchema"], value["generatedPrimaryKeys"]
        if not isinstance(column, dict):
            raise TypeError("no column")
        known = {int(key): bytes.fromhex(identity) for key, identity in pairs.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptDatasetError(where, "it does not say which keys were given") from error
    return GeneratedKeys(column, known)


# Columns that an editor declared in SQL, with the length and size that Kart keeps of them.
#
# Words that say what a field says anyway are not here: `INTEGER` has 64 bits in a GeoPackage and
# 32 in PostgreSQL.
#
# >>> as_declared(Field(7, "note", Primitive.STRING), "TEXT(32)").extra
# (('kart.column', '{"dataType":"text","length":32}'),)
# >>> as_declared(Field(7, "rank", Primitive.INT), "smallint").source_type
# 'int16'


_DECLARED: Mapping[str, Column] = {
    "tinyint": {"dataType": "integer", "size": 8},
    "smallint": {"dataType": "integer", "size": 16},
    "mediumint": {"dataType": "integer", "size": 32},
    "float": {"dataType": "float", "size": 32},
    "real": {"dataType": "float", "size": 32},
    "text": {"dataType": "text"},
    "character varying": {"dataType": "text"},
    "character": {"dataType": "text"},
    "blob": {"dataType": "blob"},
    "interval": {"dataType": "interval"},
    "numeric": {"dataType": "numeric"},
}
_TYPE = re.compile(r"([a-z ]+?) ?(?:\( ?(\d+) ?\))?")


def as_declared(field: Field, declared: str) -> Field:
    """Return a column with the length and size that its type in SQL has.

    It is the field itself where the word is unknown, or means another type of values.
    """
    found = _TYPE.fullmatch(declared.lower())
    known = None if found is None else _DECLARED.get(found[1])
    if found is None or known is None:
        return field
    length = {} if found[2] is None else {"length": int(found[2])}
    column = {"id": column_id(field), "name": field.name, **known, **length}
    made = field_of_column(column, field.id, required=field.required)
    return replace(made, physical_name=field.physical_name) if _alike(field, made) else field


def as_all_declared(schema: Schema, declared: Mapping[str, str]) -> Schema:
    """Return a schema whose columns have the lengths and sizes of their types in SQL, by name."""
    fields = (as_declared(each, declared.get(each.name, "")) for each in schema.fields)
    return Schema(tuple(fields), schema.identifier_ids)


def _alike(field: Field, made: Field) -> bool:
    # Kart's floats of 32 bits are read as those of 64.
    wide = Primitive.DOUBLE if field.type is Primitive.FLOAT else field.type
    return made.type == wide and field.geometry is None
