"""Facts of one data or delete file, known without opening it: a part of a delta document.

Values are typed JSON: numbers, text, dates and
times in ISO 8601, decimals as text, bytes as hex. Bounds of long text and bytes are cut
to 16 characters or bytes, upper ones rounded up, as in Iceberg's manifests.

    {"content": "data",
     "size": 35126211,
     "rows": 1000000,
     "schema": "<hash>", "partition-spec": "<hash>", "sort-order": "<hash>",
     "partition": {},
     "written-by": "import",
     "statistics": {
      "1": {"values": 1000000, "nulls": 0, "bytes": 1401, "lower": 1, "upper": 1000000}, …},
     "geometry-bounds": {"2": [xmin, ymin, xmax, ymax]},
     "raster-bounds": {"3": [west, south, east, north]},
     "split-offsets": [4]}

Bounds of rasters are degrees of WGS 84 and may cross the antimeridian, `west` above `east`;
a file without has no `raster-bounds`. A delete file has `targets` instead: the data files it
deletes from, and how many rows of each. A linked file, which stays where its owner keeps it,
has `location`.

Single values as entries keep them: the plainest JSON that says them exactly.

>>> to_scalar(datetime.date(2024, 2, 29), Primitive.DATE)
'2024-02-29'
>>> to_scalar(b"Havasu", Primitive.BINARY)
'486176617375'
>>> from_scalar("2024-02-29", Primitive.DATE)
datetime.date(2024, 2, 29)
"""

from __future__ import annotations

import datetime
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import field
from decimal import Decimal as Number
from enum import StrEnum
from typing import Any
from uuid import UUID

from havasu_vc.errors import CorruptDatasetError
from havasu_vc.formats.havasu.json_text import expect, format_json, parse_json
from havasu_vc.model.bounds import Bounds, GeographicBounds
from havasu_vc.model.types import Decimal, Fixed, Primitive, Type
from havasu_vc.records import dataclass

__all__ = [
    "ColumnStatistics",
    "Content",
    "Entry",
    "Origin",
    "entry_from_json",
    "entry_to_json",
    "format_entry",
    "from_scalar",
    "parse_entry",
    "to_scalar",
]

Scalar = bool | int | float | str
"""A typed JSON value of a bound."""

_SCALAR = (bool, int, float, str, type(None))
_INT, _FLOAT = {int}, {float}
_THREE_NUMBERS = (int, int, int)
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Content(StrEnum):
    """The content of a file."""

    DATA = "data"
    DELETES = "deletes"


class Origin(StrEnum):
    """The writer of a file: decides what folding may take up."""

    IMPORT = "import"
    EDIT = "edit"
    FOLD = "fold"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Statistics of one column of one file."""

    values: int
    """How many values, nulls included."""
    nulls: int
    """How many nulls."""
    size: int
    """Bytes in the file."""
    nans: int | None = None
    """How many are not a number; only for floats."""
    lower: Scalar | None = None
    """No value is less."""
    upper: Scalar | None = None
    """No value is greater."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Facts of one file."""

    file: str
    """Its sha256, which is its name."""
    content: Content
    """Rows, or positions of deleted rows."""
    size: int
    """Bytes."""
    rows: int
    """Rows in the file, deleted ones included."""
    schema: str
    """Names the schema it was written with, in `past` of its delta."""
    partition_spec: str
    """Names its partition spec there."""
    sort_order: str
    """Names its sort order there."""
    origin: Origin
    """The writer of it."""
    partition: Mapping[str, Scalar | None] = field(default_factory=dict)
    """Partition values by partition field id."""
    statistics: Mapping[int, ColumnStatistics] = field(default_factory=dict)
    """By field id."""
    bounds: Mapping[int, Bounds] = field(default_factory=dict)
    """Of geometries, by field id."""
    splits: tuple[int, ...] = ()
    """Where row groups begin."""
    targets: Mapping[str, int] = field(default_factory=dict)
    """For a delete file: rows deleted, by data file."""
    location: str | None = None
    """For a linked file: its URI."""
    areas: Mapping[int, GeographicBounds] = field(default_factory=dict)
    """Where its rasters are, by field id; none for a column with one whose place is unknown."""

    @property
    def pointer_path(self) -> str:
        """Where its Git LFS pointer is, below the dataset's folder; of a linked file, its place."""
        folder = "data" if self.location is None else "linked"
        return f"{folder}/{self.file[:2]}/{self.file}"


def format_entry(entry: Entry) -> bytes:
    """Return an entry as a document of its own."""
    return format_json(entry_to_json(entry))


def entry_to_json(entry: Entry) -> dict[str, Any]:
    """Return an entry as JSON values, without its name."""
    value: dict[str, Any] = {
        "content": entry.content.value,
        "size": entry.size,
        "rows": entry.rows,
        "schema": entry.schema,
        "partition-spec": entry.partition_spec,
        "sort-order": entry.sort_order,
        "partition": dict(entry.partition),
        "written-by": entry.origin.value,
    }
    if entry.location is not None:
        value["location"] = entry.location
    if entry.content is Content.DELETES:
        value["targets"] = dict(sorted(entry.targets.items()))
    value["statistics"] = {
        str(number): _statistics_to_json(entry.statistics[number])
        for number in sorted(entry.statistics)
    }
    value["geometry-bounds"] = {
        str(number): _corners(entry.bounds[number]) for number in sorted(entry.bounds)
    }
    if entry.areas:
        value["raster-bounds"] = {
            str(number): _sides(entry.areas[number]) for number in sorted(entry.areas)
        }
    value["split-offsets"] = list(entry.splits)
    return value


def _corners(bounds: Bounds) -> list[float]:
    return [bounds.xmin, bounds.ymin, bounds.xmax, bounds.ymax]


def _sides(area: GeographicBounds) -> list[float]:
    return [area.west, area.south, area.east, area.north]


def _statistics_to_json(statistics: ColumnStatistics) -> dict[str, Any]:
    value = {
        "values": statistics.values,
        "nulls": statistics.nulls,
        "nans": statistics.nans,
        "bytes": statistics.size,
        "lower": statistics.lower,
        "upper": statistics.upper,
    }
    return {name: item for name, item in value.items() if item is not None}


def parse_entry(data: bytes, file: str, where: str) -> Entry:
    """Return the entry of a document; `file` is the name it stands under."""
    return entry_from_json(parse_json(data, where), file, where)


def entry_from_json(found: Any, file: str, where: str) -> Entry:
    """Return the entry that JSON values describe."""
    value = expect(found, dict, "the entry", where)
    if not _SHA256.fullmatch(file):
        raise CorruptDatasetError(where, "its name is not a sha256")

    def number(name: str) -> int:
        found: int = expect(value.get(name), int, name, where)
        if found < 0:
            raise CorruptDatasetError(where, f"{name} is negative")
        if found >= 1 << 63:
            raise CorruptDatasetError(where, f"{name} is more than any file has")
        return found

    def text(name: str) -> str:
        # Thousands of files name the same documents, which are held once.
        return sys.intern(expect(value.get(name), str, name, where))

    try:
        return Entry(
            file,
            Content(text("content")),
            number("size"),
            number("rows"),
            text("schema"),
            text("partition-spec"),
            text("sort-order"),
            Origin(text("written-by")),
            _partition(value.get("partition"), where),
            {int(key): _statistics(item, where) for key, item in value["statistics"].items()},
            {int(key): _bounds(item, where) for key, item in value["geometry-bounds"].items()},
            _splits(value["split-offsets"], where),
            _targets(value.get("targets", {}), where),
            expect(value.get("location"), (str, type(None)), "location", where),
            {int(key): _area(item, where) for key, item in value.get("raster-bounds", {}).items()},
        )
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        if isinstance(error, CorruptDatasetError):
            raise
        raise CorruptDatasetError(where, f"the entry is not possible ({error})") from error


def _statistics(value: dict[str, Any], where: str) -> ColumnStatistics:
    get = expect(value, dict, "statistics", where).get
    values, nulls, size = get("values"), get("nulls"), get("bytes")
    nans, lower, upper = get("nans"), get("lower"), get("upper")
    kinds = type(values), type(nulls), type(size)
    # Nearly all are so, and a table of many files has very many.
    if (
        kinds == _THREE_NUMBERS
        and (nans is None or type(nans) is int)
        and type(lower) in _SCALAR
        and type(upper) in _SCALAR
    ):
        return ColumnStatistics(values, nulls, size, nans, lower, upper)
    return ColumnStatistics(
        expect(value.get("values"), int, "values", where),
        expect(value.get("nulls"), int, "nulls", where),
        expect(value.get("bytes"), int, "bytes", where),
        expect(value.get("nans"), (int, type(None)), "nans", where),
        expect(value.get("lower"), _SCALAR, "lower", where),
        expect(value.get("upper"), _SCALAR, "upper", where),
    )


def _partition(value: Any, where: str) -> dict[str, Scalar | None]:
    expect(value, dict, "partition", where)
    return {name: expect(item, _SCALAR, "a partition value", where) for name, item in value.items()}


def _bounds(value: Any, where: str) -> Bounds:
    corners = expect(value, list, "geometry-bounds", where)
    if len(corners) == 4 and {*map(type, corners)} == _FLOAT:
        return Bounds(*corners)
    return Bounds(*(float(expect(item, (int, float), "a bound", where)) for item in corners))


def _area(value: Any, where: str) -> GeographicBounds:
    sides = expect(value, list, "raster-bounds", where)
    return GeographicBounds(
        *(float(expect(item, (int, float), "a bound", where)) for item in sides)
    )


def _splits(value: Any, where: str) -> tuple[int, ...]:
    expect(value, list, "split-offsets", where)
    if {*map(type, value)} <= _INT:
        return tuple(value)
    return tuple(expect(item, int, "a split offset", where) for item in value)


def _targets(value: Any, where: str) -> dict[str, int]:
    expect(value, dict, "targets", where)
    for file, count in value.items():
        if not _SHA256.fullmatch(file) or expect(count, int, "a count", where) < 1:
            raise CorruptDatasetError(where, f"{file!r} is not a target")
    return dict(value)


def to_scalar(value: Any, type_: Type) -> Scalar | None:
    """Return a Python value as an entry keeps it; None for what is not finite."""
    match value:
        case bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case bytes():
            return value.hex()
        case UUID():
            return value.hex
        case datetime.datetime():
            text = value.replace(tzinfo=None).isoformat()
            return text + "Z" if type_ is Primitive.TIMESTAMPTZ else text
        case datetime.date() | datetime.time():
            return value.isoformat()
        case Number():
            return format(value, "f")
        case _:
            return None


def from_scalar(value: Any, type_: Type) -> Any:
    """Return the Python value that a JSON value says, UUIDs as their bytes.

    Raises `ValueError`, `TypeError` or `ArithmeticError` for what says none of the type. Whether
    a number fits its type, or bytes have its length, is the caller's to ask.
    """
    match type_:
        case Primitive.BOOLEAN:
            return _checked(value, bool)
        case Primitive.INT | Primitive.LONG:
            return _checked(value, int)
        case Primitive.FLOAT | Primitive.DOUBLE:
            return float(_checked(value, (int, float)))
    text = _checked(value, str)
    match type_:
        case Primitive.DATE:
            return datetime.date.fromisoformat(text)
        case Primitive.TIME:
            return datetime.time.fromisoformat(text)
        case Primitive.TIMESTAMP | Primitive.TIMESTAMPTZ:
            return datetime.datetime.fromisoformat(text)
        case Decimal():
            return Number(text)
        case Primitive.UUID:
            return UUID(text).bytes
        case Primitive.BINARY | Fixed():
            return bytes.fromhex(text)
        case _:
            return text


def _checked(value: Any, kinds: type | tuple[type, ...]) -> Any:
    if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
        raise TypeError(f"{value!r} is of another type")
    return value
