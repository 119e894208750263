"""The types a column can have: Iceberg's, as small closed values.

A type knows nothing of files or engines. Every nested part is a `Field` with an id
of its own, so that a schema can evolve at any depth without rewriting data.

    Type = Primitive | Decimal | Fixed | Struct | List | Map

The table of column types: how each is spelt, hashed, bounded and widened, wherever tables go.

A type without parameters is one row here and its codecs of values. A row that is missing, or a
spelling that is, is found by a test and by the type checker; what a format has no place for is
None, and its writer says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum, StrEnum, auto
from typing import Any, TypeAlias

from havasu_vc.records import dataclass

__all__ = [
    "TYPES",
    "Decimal",
    "Encoding",
    "Field",
    "Fixed",
    "Geometry",
    "Hashed",
    "List",
    "Map",
    "Primitive",
    "Struct",
    "Type",
    "TypeRow",
    "children",
    "is_number",
    "is_whole",
]

LARGEST_FIELD_ID = 2_147_483_447
"""User fields stay below Iceberg's reserved ids."""


class Encoding(StrEnum):
    """How a geometry column is written: the value of `havasu.geometry-encoding`."""

    EWKB = "ewkb"
    WKB = "wkb"
    WKT = "wkt"
    GEOJSON = "geojson"

    @property
    def is_binary(self) -> bool:
        """Whether values are bytes rather than text."""
        return self in (Encoding.EWKB, Encoding.WKB)


class Primitive(StrEnum):
    """A type without parameters."""

    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    TIMESTAMPTZ = "timestamptz"
    STRING = "string"
    UUID = "uuid"
    BINARY = "binary"


@dataclass(frozen=True, slots=True)
class Decimal:
    """A fixed-point number.

    >>> str(Decimal(9, 2))
    'decimal(9, 2)'
    """

    precision: int
    """Digits in all, 1 to 38."""
    scale: int
    """Digits after the point."""

    def __post_init__(self) -> None:
        if not 1 <= self.precision <= 38 or not 0 <= self.scale <= self.precision:
            raise ValueError(f"no such decimal: precision {self.precision}, scale {self.scale}")

    def __str__(self) -> str:
        return f"decimal({self.precision}, {self.scale})"


@dataclass(frozen=True, slots=True)
class Fixed:
    """Bytes of one length.

    >>> str(Fixed(16))
    'fixed[16]'
    """

    length: int
    """Bytes in each value."""

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ValueError(f"no such length: {self.length}")

    def __str__(self) -> str:
        return f"fixed[{self.length}]"


@dataclass(frozen=True, slots=True)
class Geometry:
    """The declaration of a geometry column."""

    encoding: Encoding = Encoding.EWKB
    """How values are written."""
    crs: str | None = None
    """The name of the coordinate reference system, a file of `meta/crs`; None when unknown."""
    shape: str | None = None
    """The geometry type that the column announces, such as `POINT Z`; None for any."""

    @property
    def announces_any(self) -> bool:
        """Whether the column announces that its rows may have any geometry type."""
        return self.shape is not None and self.shape.partition(" ")[0] == "GEOMETRY"


@dataclass(frozen=True, slots=True)
class Field:
    """A column, or a part of a nested one. Its id never changes and is never used again."""

    id: int
    """Unique in the schema, drawn once."""
    name: str
    """Its name for people and queries."""
    type: Type
    """The type of its values."""
    required: bool = False
    """Whether nulls are refused."""
    doc: str | None = None
    """A comment for people."""
    geometry: Geometry | None = None
    """Set when the column holds geometries."""
    raster: str | None = None
    """The raster encoding, set when the column holds rasters."""
    source_type: str | None = None
    """The Arrow type it came as, where Iceberg has none like it; export gives it back."""
    physical_name: str | None = None
    """Its name in our Parquet files where that is not `name`, because it was renamed."""
    extra: tuple[tuple[str, str], ...] = ()
    """Properties that we do not know and keep."""

    def __post_init__(self) -> None:
        if not 0 < self.id <= LARGEST_FIELD_ID:
            raise ValueError(f"field id {self.id} of {self.name!r} is out of range")
        if not self.name:
            raise ValueError("a field has no name")

    @property
    def stored_name(self) -> str:
        """Its name in our Parquet files."""
        return self.physical_name or self.name

    @property
    def edges(self) -> str | None:
        """How the edges of its geometries run on the globe; None for straight ones."""
        return dict(self.extra).get("edges")


@dataclass(frozen=True, slots=True)
class Struct:
    """Fields under one name."""

    fields: tuple[Field, ...]
    """In order."""

    def __str__(self) -> str:
        return f"struct<{', '.join(f'{f.name}: {f.type}' for f in self.fields)}>"


@dataclass(frozen=True, slots=True)
class List:
    """Any number of values of one type."""

    element: Field
    """Named `element`."""

    def __str__(self) -> str:
        return f"list<{self.element.type}>"


@dataclass(frozen=True, slots=True)
class Map:
    """Values by key."""

    key: Field
    """Named `key`; always required."""
    value: Field
    """Named `value`."""

    def __str__(self) -> str:
        return f"map<{self.key.type}, {self.value.type}>"


Type: TypeAlias = Primitive | Decimal | Fixed | Struct | List | Map


def children(type_: Type) -> tuple[Field, ...]:
    """Return the fields directly inside a type."""
    match type_:
        case Struct(fields):
            return fields
        case List(element):
            return (element,)
        case Map(key, value):
            return (key, value)
        case _:
            return ()


def descendants(fields: tuple[Field, ...]) -> Iterator[Field]:
    """Yield fields and all that is inside them, parents first."""
    for field in fields:
        yield field
        yield from descendants(children(field.type))


class Hashed(Enum):
    """The part of a value that goes into its hash."""

    BYTES = auto()
    """Its bytes, of any length."""
    FIXED = auto()
    """Its bytes, of one length."""
    BIT = auto()
    """Whether it is true."""
    FLOAT = auto()
    """The bits of a float of 64 bits, equal ones alike."""
    WHOLE = auto()
    """A whole number of 64 bits."""


@dataclass(frozen=True, slots=True)
class TypeRow:
    """One type, as everybody around us knows it."""

    arrow: str
    """The Arrow type, as Arrow prints it."""
    avro: str | Mapping[str, Any]
    """The Avro schema in manifests."""
    single: str | None
    """The layout of single values in manifests, as `struct` takes it; None for bytes."""
    column: Mapping[str, Any]
    """The column in documents for people, which are Kart's with more types."""
    delta: str | None
    """The type in a Delta table."""
    spark: str
    """The class of `pyspark.sql.types` that it is shown with."""
    said: str
    """The value that JSON must hold, as people are told."""
    hashed: Hashed
    """The part of a value that goes into its hash."""
    wider: Primitive | None = None
    """The type that every value of it is a value of as well."""


def _whole(size: int) -> dict[str, Any]:
    return {"dataType": "integer", "size": size}


def _moment(*, utc: bool) -> dict[str, Any]:
    return {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": utc}


_P = Primitive
_UUID = {"type": "fixed", "size": 16, "logicalType": "uuid", "name": "uuid_fixed"}
_TEXT = {"dataType": "text"}

TYPES: Mapping[Primitive, TypeRow] = {
    _P.BOOLEAN: TypeRow(
        "bool", "boolean", None, {"dataType": "boolean"}, "boolean", "BooleanType",
        "true or false", Hashed.BIT,
    ),
    _P.INT: TypeRow(
        "int32", "int", "<i", _whole(32), "integer", "IntegerType",
        "a whole number of 32 bits", Hashed.WHOLE, _P.LONG,
    ),
    _P.LONG: TypeRow(
        "int64", "long", "<q", _whole(64), "long", "LongType",
        "a whole number of 64 bits", Hashed.WHOLE,
    ),
    _P.FLOAT: TypeRow(
        "float", "float", "<f", {"dataType": "float", "size": 32}, "float", "FloatType",
        "a number that a float of 32 bits holds", Hashed.FLOAT, _P.DOUBLE,
    ),
    _P.DOUBLE: TypeRow(
        "double", "double", "<d", {"dataType": "float", "size": 64}, "double", "DoubleType",
        "a number that a float of 64 bits holds", Hashed.FLOAT,
    ),
    _P.DATE: TypeRow(
        "date32[day]", {"type": "int", "logicalType": "date"}, "<i", {"dataType": "date"},
        "date", "DateType", "a date such as 2020-01-31", Hashed.WHOLE,
    ),
    _P.TIME: TypeRow(
        "time64[us]", {"type": "long", "logicalType": "time-micros"}, "<q", {"dataType": "time"},
        None, "LongType", "a time such as 23:59:59.5", Hashed.WHOLE,
    ),
    _P.TIMESTAMP: TypeRow(
        "timestamp[us]", _moment(utc=False), "<q", {"dataType": "timestamp"},
        "timestamp_ntz", "TimestampNTZType", "a time such as 2020-01-31T23:59:59.5", Hashed.WHOLE,
    ),
    _P.TIMESTAMPTZ: TypeRow(
        "timestamp[us, tz=UTC]", _moment(utc=True), "<q",
        {"dataType": "timestamp", "timezone": "UTC"}, "timestamp", "TimestampType",
        "a time in UTC such as 2020-01-31T23:59:59.5", Hashed.WHOLE,
    ),
    _P.STRING: TypeRow(
        "string", "string", None, _TEXT, "string", "StringType", "text", Hashed.BYTES,
    ),
    _P.UUID: TypeRow(
        "fixed_size_binary[16]", _UUID, None, _TEXT | {"length": 36}, "string", "StringType",
        "a UUID", Hashed.FIXED,
    ),
    _P.BINARY: TypeRow(
        "binary", "bytes", None, {"dataType": "blob"}, "binary", "BinaryType",
        "bytes as hexadecimal digits", Hashed.BYTES,
    ),
}  # fmt: skip


def is_whole(type_: object) -> bool:
    """Whether values are whole numbers.

    >>> is_whole(Primitive.INT), is_whole(Primitive.DATE)
    (True, False)
    """
    return type_ in (Primitive.INT, Primitive.LONG)


def is_number(type_: object) -> bool:
    """Whether values are whole numbers or floats."""
    return is_whole(type_) or type_ in (Primitive.FLOAT, Primitive.DOUBLE)
