"""Features: one msgpack message per row, a batch of them at a time.

A feature is `[legend's name, [values…]]`, geometries as extension type 71. Columns of those
that have one legend are found in their bytes (`packed`). Others are decoded as one stream,
whose values are turned into columns at once; what does not fit is then looked for row by
row, so that an error names the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate, repeat
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa

from havasu_vc.errors import CorruptDatasetError, GeometryError
from havasu_vc.formats.kart.columns import Legend, column_id
from havasu_vc.formats.kart.packed import (
    GEOMETRY,
    Kind,
    head_of,
    legend_of_first,
    packed_columns,
)
from havasu_vc.formats.kart.paths import KeyColumns
from havasu_vc.geo.wkb import from_canonical, to_canonical
from havasu_vc.model import compute as pc
from havasu_vc.model.arrow import arrow_schema, arrow_type
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Decimal, Field, Primitive
from havasu_vc.records import dataclass

__all__ = [
    "FeatureDecoder",
    "FeatureEncoder",
    "GeometryBytes",
    "RawRows",
    "column_of",
    "decode_raw",
    "usual_spelling",
    "values_of",
]


_FAILURES = (ValueError, TypeError, OverflowError, NotImplementedError, GeometryError)

Where = Callable[[int], str]
"""From a position in a batch to what a person calls the file."""


@dataclass(frozen=True, slots=True)
class RawRows:
    """Features as msgpack has them: one list of values, not very many small ones."""

    legends: list[str]
    """The name of each one's legend."""
    widths: list[int]
    """How many values each one has."""
    values: list[Any]
    """The values of all, one after the other."""

    def __len__(self) -> int:
        return len(self.legends)


def decode_raw(blobs: Sequence[bytes], where: Where) -> RawRows:
    """Return what feature files hold."""
    unpacker = msgpack.Unpacker(ext_hook=_geometry, max_buffer_size=0)
    unpacker.feed(b"".join(blobs))
    tell = unpacker.tell
    legends: list[str] = []
    widths: list[int] = []
    ends: list[int] = []
    values: list[Any] = []
    try:
        for legend, row in unpacker:
            legends.append(legend)
            widths.append(len(row))
            values += row
            ends.append(tell())
            if type(row) is not list:
                raise ValueError("not a list of values")
        if ends != list(accumulate(map(len, blobs))) or not {type(n) for n in legends} <= {str}:
            raise ValueError("not one feature in each file")
    except (ValueError, TypeError, msgpack.exceptions.UnpackException, RecursionError) as error:
        for index, blob in enumerate(blobs):
            if (reason := _fault(blob)) is not None:
                raise CorruptDatasetError(where(index), reason) from error
        raise
    return RawRows(legends, widths, values)


def _geometry(code: int, data: bytes) -> GeometryBytes:
    if code != GEOMETRY:
        raise ValueError(f"it holds the extension type {code}, which is not {GEOMETRY}")
    return GeometryBytes(data)


def _fault(blob: bytes) -> str | None:
    """Return what is wrong with one feature file."""
    try:
        row = msgpack.unpackb(blob, ext_hook=_geometry)
    except msgpack.exceptions.ExtraData:
        return "it holds more than one message"
    except (ValueError, msgpack.exceptions.UnpackException, RecursionError) as error:
        text = str(error) or type(error).__name__
        return text if text.startswith("it holds") else f"it is not msgpack ({text})"
    if not isinstance(row, list) or len(row) != 2:
        return "it is not a legend and its values"
    if not isinstance(row[0], str) or not isinstance(row[1], list):
        return "it is not a legend and its values"
    return None


class FeatureDecoder:
    """Turns feature files and their keys into rows of a schema."""

    def __init__(self, schema: Schema, legends: Mapping[str, Legend]) -> None:
        """Rows come in the columns of `schema`; `legends` are all that there are, by name."""
        self._schema = schema
        self._legends = legends
        self._target = arrow_schema(schema)
        self._ids = tuple(column_id(field) for field in schema.fields)
        self._plans: dict[str, tuple[tuple[str, int] | None, ...]] = {}

    def decode(self, keys: KeyColumns, blobs: Sequence[bytes], where: Where) -> pa.RecordBatch:
        """Return the rows of a batch, in its order; `keys` are of the files' names."""
        found = self._at_once(keys, blobs)
        return self.rows(keys, decode_raw(blobs, where), where) if found is None else found

    def _at_once(self, keys: KeyColumns, blobs: Sequence[bytes]) -> pa.RecordBatch | None:
        """Return the rows of features that are plain and have one legend; else None."""
        name = legend_of_first(blobs)
        legend = self._legends.get(name) if name is not None else None
        if name is None or legend is None:
            return None
        if legend.key is not None and len(keys) != len(legend.key):
            return None
        plan, fields = self._plan(name, legend), self._schema.fields
        wanted = {
            place[1]: _kind(field)
            for field, place in zip(fields, plan, strict=True)
            if place is not None and place[0] == "value"
        }
        width = len(legend.values)
        found = packed_columns(blobs, head_of(name, width), width, wanted)
        if found is None:
            return None

        def column(field: Field, kind: str, at: int) -> pa.Array:
            return column_of(keys[at], field) if kind == "key" else _stored(found[at], field)

        try:
            rows = self._assembled(plan, len(blobs), column)
        except _FAILURES:
            return None
        lacking = any(
            f.required and c.null_count for f, c in zip(fields, rows.columns, strict=True)
        )
        return None if lacking else rows

    def _assembled(
        self,
        plan: Sequence[tuple[str, int] | None],
        count: int,
        column: Callable[[Field, str, int], pa.Array],
    ) -> pa.RecordBatch:
        """Return so many rows of columns that stand where a plan says; null where it says none."""
        columns = [
            pa.nulls(count, self._target.field(field.name).type)
            if place is None
            else column(field, *place)
            for field, place in zip(self._schema.fields, plan, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._target)

    def rows(self, keys: KeyColumns, raw: RawRows, where: Where) -> pa.RecordBatch:
        """Return the rows of features that are unpacked."""
        if not len(raw):
            return pa.RecordBatch.from_pylist([], schema=self._target)
        names = set(raw.legends)
        if len(names) == 1:
            return self._rows(raw.legends[0], keys, raw, where)
        groups: dict[str, list[int]] = {name: [] for name in names}
        for index, name in enumerate(raw.legends):
            groups[name].append(index)
        starts = list(accumulate(raw.widths, initial=0))
        batches, order = [], []
        for name, chosen in groups.items():
            order += chosen
            part = RawRows(
                [name] * len(chosen),
                [raw.widths[index] for index in chosen],
                [v for index in chosen for v in raw.values[starts[index] : starts[index + 1]]],
            )
            own = [[column[index] for index in chosen] for column in keys]
            place = partial(_place, where, chosen)
            batches.append(self._rows(name, own, part, place))
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return pc.take(pa.concat_batches(batches), pa.array(back))

    def _rows(self, name: str, keys: KeyColumns, raw: RawRows, where: Where) -> pa.RecordBatch:
        legend = self._legends.get(name)
        if legend is None:
            shown = name if name.isprintable() else repr(name)
            raise CorruptDatasetError(where(0), f"it names the legend {shown}, which is not there")
        width = len(legend.values)
        for index, found in enumerate(raw.widths) if set(raw.widths) != {width} else ():
            if found != width:
                raise CorruptDatasetError(
                    where(index), f"it has {found} values, its legend has {width} columns"
                )
        if legend.key is not None and len(keys) != len(legend.key):
            raise CorruptDatasetError(
                where(0), f"its key has {len(keys)} values, its legend {len(legend.key)} columns"
            )
        plan = self._plan(name, legend)
        for field, place in zip(self._schema.fields, plan, strict=True):
            if place is None and field.required:
                raise CorruptDatasetError(where(0), f"it has no value of key {field.name!r}")

        def column(field: Field, kind: str, at: int) -> pa.Array:
            return _column(keys[at] if kind == "key" else raw.values[at::width], field, where)

        return self._assembled(plan, len(raw), column)

    def _plan(self, name: str, legend: Legend) -> tuple[tuple[str, int] | None, ...]:
        """Return where the values of each column are, under a legend."""
        known = self._plans.get(name)
        if known is None:
            places = {column: ("value", i) for i, column in enumerate(legend.values)}
            if legend.key is None:
                numbers = {number: i for i, number in enumerate(self._schema.identifier_ids)}
                for field, column in zip(self._schema.fields, self._ids, strict=True):
                    if field.id in numbers:
                        places[column] = ("key", numbers[field.id])
            else:
                places |= {column: ("key", i) for i, column in enumerate(legend.key)}
            known = self._plans[name] = tuple(places.get(column) for column in self._ids)
        return known


def _place(where: Where, chosen: Sequence[int], index: int) -> str:
    return where(chosen[index])


def _column(values: Sequence[Any], field: Field, where: Where) -> pa.Array:
    try:
        column = column_of(values, field)
    except _FAILURES:
        for index, value in enumerate(values):
            try:
                column_of([value], field)
            except _FAILURES as error:
                raise CorruptDatasetError(where(index), _misfit(value, field, error)) from error
        raise
    if field.required and column.null_count:
        index = int(pc.is_null(column).index(True).as_py())
        raise CorruptDatasetError(where(index), f"its key {field.name!r} is null")
    return column


def _misfit(value: Any, field: Field, error: Exception) -> str:
    if field.geometry is not None and isinstance(value, GeometryBytes):
        return f"the geometry {field.name!r} cannot be read: {error}"
    text = repr(value)
    text = text if len(text) <= 60 else text[:57] + "…"
    kind = "geometry" if field.geometry is not None else field.type
    return f"{field.name!r} is {text}, which its column ({kind}) cannot hold"


class FeatureEncoder:
    """Turns rows of a schema into feature files."""

    def __init__(self, schema: Schema, legend: str) -> None:
        """Rows are in the columns of `schema`; `legend` is the name of its legend."""
        keys = set(schema.identifier_ids)
        self._keys = tuple(schema.by_id[number] for number in schema.identifier_ids)
        self._values = tuple(field for field in schema.fields if field.id not in keys)
        self._head = head_of(legend, len(self._values))

    def keys(self, rows: pa.RecordBatch) -> KeyColumns:
        """Return the keys of rows, as msgpack takes them."""
        return [values_of(rows.column(field.name), field) for field in self._keys]

    def encode(self, rows: pa.RecordBatch) -> list[bytes]:
        """Return the file of each row."""
        pieces: list[list[bytes]] = []
        run: list[list[Any]] = []
        for field in self._values:
            values = values_of(rows.column(field.name), field)
            if field.geometry is None:
                run.append(values)
                continue
            pieces += _packed_run(run)
            run = []
            pieces.append(_packed_geometries(values))
        pieces += _packed_run(run)
        if not pieces:
            return [self._head] * rows.num_rows
        return list(map(b"".join, zip(repeat(self._head), *pieces)))

    def format(self, values: Sequence[Any]) -> bytes:
        """Return the file of one row whose values are as msgpack had them."""
        pack = msgpack.Packer().pack
        packed: list[bytes] = [
            pack(msgpack.ExtType(GEOMETRY, value) if type(value) is GeometryBytes else value)
            for value in values
        ]
        return self._head + b"".join(packed)


def _packed_run(columns: list[list[Any]]) -> list[list[bytes]]:
    """Return the values of neighbouring columns, packed without the list around them."""
    if not columns:
        return []
    pack = msgpack.Packer().pack
    start = len(msgpack.Packer().pack_array_header(len(columns)))
    return [[pack(row)[start:] for row in zip(*columns, strict=True)]]


def _packed_geometries(values: Sequence[bytes | None]) -> list[bytes]:
    heads: dict[int, bytes] = {}
    packed = []
    for value in values:
        if value is None:
            packed.append(b"\xc0")
            continue
        size = len(value)
        head = heads.get(size)
        if head is None:
            head = heads[size] = msgpack.packb(msgpack.ExtType(GEOMETRY, value))[: -size or None]
        packed.append(head + value)
    return packed


# Columns of Python values, as msgpack has them, to and from columns of Arrow.
#
# Text stands for dates, times, intervals and decimal numbers: the shortest that is exact,
# without a zone. Geometries are GeoPackage binary. A value that its column cannot hold is
# `ValueError`; whoever knows the rows looks for the one to blame.


class GeometryBytes(bytes):
    """A geometry as GeoPackage binary, told apart from other bytes."""

    __slots__ = ()


def column_of(values: Sequence[Any], field: Field) -> pa.Array:
    """Return values as a column of a field's stored type; None is null."""
    match _kind(field):
        case Kind.GEOMETRY:
            plain = pa.array(_only(values, GeometryBytes), pa.binary())
        case Kind.WHOLE:
            plain = pa.array(_not_bools(values), pa.int64())
        case Kind.FLOAT:
            plain = _doubles(values)
        case Kind.TRUTH:
            plain = pa.array(_bools(values), pa.bool_())
        case Kind.BYTES:
            plain = pa.array(_only(values, bytes), pa.binary())
        case Kind.TEXT if isinstance(field.type, Decimal):
            digits = [value if value is None else str(value) for value in values]
            plain = pa.array(digits, pa.string())
        case Kind.TEXT:
            plain = pa.array(_only(values, str), pa.string())
    return _stored(plain, field)


def _kind(field: Field) -> Kind:
    """Return what msgpack has the values of a column as."""
    if field.geometry is not None:
        return Kind.GEOMETRY
    if isinstance(field.type, Decimal):
        return Kind.TEXT
    kind = _KINDS.get(field.type) if isinstance(field.type, Primitive) else None
    if kind is None:
        raise TypeError(f"{field.type} is in no dataset of Kart")
    return kind


_KINDS = {
    Primitive.INT: Kind.WHOLE,
    Primitive.LONG: Kind.WHOLE,
    Primitive.DOUBLE: Kind.FLOAT,
    Primitive.BOOLEAN: Kind.TRUTH,
    Primitive.BINARY: Kind.BYTES,
    Primitive.STRING: Kind.TEXT,
    Primitive.DATE: Kind.TEXT,
    Primitive.TIME: Kind.TEXT,
    Primitive.TIMESTAMP: Kind.TEXT,
    Primitive.TIMESTAMPTZ: Kind.TEXT,
}


def _stored(column: pa.Array, field: Field) -> pa.Array:
    """Return a column of msgpack's values in a field's stored type."""
    type_ = arrow_type(field.type)
    if field.geometry is not None:
        wkb, _ = to_canonical(column, "gpkg")
        return pc.cast(from_canonical(wkb, None, "ewkb"), type_)
    match field.type:
        case Primitive.TIME:
            text = pc.utf8_rtrim(column, "Z")
            whole = pc.binary_join_element_wise("1970-01-01T", text, "")
            return pc.cast(pc.cast(whole, pa.timestamp("us")), type_)
        case Primitive.TIMESTAMP | Primitive.TIMESTAMPTZ:
            return pc.cast(pc.cast(pc.utf8_rtrim(column, "Z"), pa.timestamp("us")), type_)
        case _:
            return column if column.type == type_ else pc.cast(column, type_)


def values_of(column: pa.Array, field: Field, *, marked: bool = False) -> list[Any]:
    """Return a column of a Kart schema as the values that msgpack takes.

    Geometries are plain bytes, or told apart from others if they are to be `marked`.
    """
    if field.geometry is not None:
        wkb, srids = to_canonical(column, field.geometry.encoding)
        packed = _objects(from_canonical(wkb, srids, "gpkg", drop_srids=True))
        return [value and GeometryBytes(value) for value in packed] if marked else packed
    match field.type:
        case Primitive.INT | Primitive.LONG | Primitive.DOUBLE | Primitive.BOOLEAN:
            return _numbers(column)
        case Primitive.DATE:
            return _objects(pc.cast(column, pa.string()))
        case Primitive.TIME:
            return _objects(_trimmed(pc.cast(column, pa.string())))
        case Primitive.TIMESTAMP | Primitive.TIMESTAMPTZ:
            text = _trimmed(pc.cast(pc.cast(column, pa.timestamp("us")), pa.string()))
            return _objects(pc.replace_substring(text, " ", "T", max_replacements=1))
        case Decimal(_, scale):
            return _objects(_digits(column, scale))
        case _:
            return _objects(column)


_TIME = r"\d\d:\d\d:\d\d(\.\d*[1-9])?"
_USUAL = {
    Primitive.TIME: re.compile(_TIME),
    Primitive.TIMESTAMP: re.compile(rf"\d{{4}}-\d\d-\d\dT{_TIME}"),
    Primitive.TIMESTAMPTZ: re.compile(rf"\d{{4}}-\d\d-\d\dT{_TIME}"),
}
_USUAL_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d*[1-9])?")


def usual_spelling(field: Field) -> re.Pattern[str] | None:
    """Return how `values_of` spells a column's values; None where there is one way alone."""
    if isinstance(field.type, Decimal):
        return _USUAL_NUMBER
    return _USUAL.get(field.type) if isinstance(field.type, Primitive) else None


def _only(values: Sequence[Any], kind: type) -> Sequence[Any]:
    if not {type(value) for value in values} <= {kind, type(None)}:
        raise TypeError("a value has another type")
    return values


def _not_bools(values: Sequence[Any]) -> Sequence[Any]:
    kinds = {type(value) for value in values}
    if kinds <= {int, type(None)}:
        return values
    if kinds <= {int, float, type(None)} and all(v is None or v == int(v) for v in values):
        return [None if value is None else int(value) for value in values]
    raise TypeError("a value is no whole number")


def _doubles(values: Sequence[Any]) -> pa.Array:
    kinds = {type(value) for value in values}
    if not kinds <= {int, float, type(None)}:
        raise TypeError("a value is no number")
    if int in kinds:
        exact = [float(value) if type(value) is int else value for value in values]
        if any(type(v) is int and v != f for v, f in zip(values, exact, strict=True)):
            raise ValueError("a whole number that no float holds")
        values = exact
    return pa.array(values, pa.float64())


def _bools(values: Sequence[Any]) -> Sequence[Any]:
    kinds = {type(value) for value in values}
    if kinds <= {bool, type(None)}:
        return values
    if kinds <= {bool, int, type(None)} and all(v in (None, 0, 1) for v in values):
        return [None if value is None else bool(value) for value in values]
    raise TypeError("a value is neither true nor false")


def _numbers(column: pa.Array) -> list[Any]:
    if not column.null_count:
        found: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
        return found
    valid = pc.is_valid(column).to_numpy(zero_copy_only=False)
    filler = False if pa.types.is_boolean(column.type) else 0
    values = pc.fill_null(column, filler).to_numpy(zero_copy_only=False).astype(object)
    values[~valid] = None
    listed: list[Any] = values.tolist()
    return listed


def _objects(column: pa.Array) -> list[Any]:
    values: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
    return values


def _trimmed(text: pa.StringArray) -> pa.StringArray:
    # Arrow writes all six digits of the fraction.
    return pc.replace_substring_regex(text, r"\.?0*$", "")


def _digits(column: pa.Array, scale: int) -> pa.StringArray:
    text = pc.cast(column, pa.string())
    small = pc.fill_null(pc.match_substring(text, "E"), False)
    if small.true_count:
        plain = [format(value, "f") for value in pc.filter(column, small).to_pylist()]
        text = pc.replace_with_mask(text, small, pa.array(plain, pa.string()))
    return _trimmed(text) if scale else text
