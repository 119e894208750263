"""The types a column can have: Iceberg's, as small closed values.

A type knows nothing of files or engines. Every nested part is a `Field` with an id
of its own, so that a schema can evolve at any depth without rewriting data.

    Type = Primitive | Decimal | Fixed | Struct | List | Map
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TypeAlias

from havasu_vc.records import dataclass

__all__ = [
    "Decimal",
    "Encoding",
    "Field",
    "Fixed",
    "Geometry",
    "List",
    "Map",
    "Primitive",
    "Struct",
    "Type",
    "children",
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
