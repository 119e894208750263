"""Values as text: whole columns of a change batch, as people and JSON spell them.

A date is `2020-01-01`, a timestamp `2020-01-01T00:00:00.5` (shortest fraction), a zoned
one the same in UTC with `Z`, a decimal keeps its scale and has no exponent, bytes
are lower-case hex, geometries upper-case hex of ISO WKB without SRID, a float is the
shortest text that gives it back. All that as Kart prints it, but for the zone, which rows
of Kart's datasets, patches and names of rows go without (`zones`); years outside 0001 to
9999 are spelled as Arrow does.

Work is done a column at a time in Arrow and numpy. Python only sees the few values
that need it: numbers with exponents, text with characters to escape, nested values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.datasets.pairing import equal_columns
from havasu_vc.errors import GeometryError
from havasu_vc.geo.text import hex_wkb
from havasu_vc.geo.wkb import from_canonical, to_canonical
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.hashing import hash_values
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Decimal, Field, Fixed, List, Map, Primitive, Struct
from havasu_vc.writers.json_style import COMPACT_TEXT, JsonLayout
from havasu_vc.writers.rasters import raster_tokens, words_of_rasters
from havasu_vc.writers.terminal import PERHAPS_UNSAFE, visible_json

__all__ = [
    "canonical_wkb",
    "equal_cells",
    "json_strings",
    "json_tokens",
    "json_values",
    "key_labels",
    "map_flagged",
    "plain_text",
    "side_columns",
    "slices",
    "spelled",
]


SLICE_BYTES = 1 << 20
"""Changes are printed this many bytes at a time, so that their text stays small."""
SLICE_ROWS = 8192
_FEW, _PIECES = 128, 8
"""More changes than so many are printed in so many pieces: as one, the text of 1,000 and what it
is made of is 3 MB. Each piece takes a millisecond."""

_Flags = npt.NDArray[np.bool_]
_ESCAPED = np.array([byte in b'"\\' for byte in range(256)]) | np.array(PERHAPS_UNSAFE)
_ESCAPED_ASCII = _ESCAPED | (np.arange(256) > 0x7E)


def slices(batch: ChangeBatch) -> Iterator[ChangeBatch]:
    """Cut a batch into pieces whose text is small."""
    size = batch.data.nbytes  # of this slice, not of the buffers it lies in
    most = min(SLICE_ROWS, max(_FEW, -(-len(batch) // _PIECES)))
    step = max(1, min(most, len(batch) * SLICE_BYTES // max(size, 1)))
    for start in range(0, len(batch), step):
        yield batch.slice(start, step)


def side_columns(side: pa.StructArray, schema: Schema) -> list[tuple[Field, pa.Array]]:
    """Return one side's columns with their fields; null where the row is not there."""
    columns = side.flatten()
    return [
        (schema.by_name[side.type.field(index).name], column)
        for index, column in enumerate(columns)
    ]


def key_labels(side: pa.StructArray, schema: Schema) -> pa.StringArray:
    """Return what rows are called after `dataset:feature:`: their key values joined by commas.

    Without a key, a row is called by the first 16 digits of the hash of all its values.
    """
    wanted = set(schema.identifier_ids)
    parts = [
        plain_text(column, field)
        for field, column in side_columns(side, schema)
        if field.id in wanted
    ]
    if len(parts) > 1:
        parts = [_quoted_if_parting(part) for part in parts]
    if parts:
        return pc.binary_join_element_wise(*parts, ",")
    whole = Field(1, "row", Struct(schema.fields))
    return pa.array([f"{value:016x}" for value in hash_values(side, whole).tolist()], pa.string())


def _quoted_if_parting(values: pa.StringArray) -> pa.StringArray:
    """Return values of which those with a comma are quoted, as `describe_key` does."""
    parting = pc.match_substring_regex(values, r'^"|,')
    if not pc.any(parting).as_py():
        return values
    inside = pc.replace_substring(values, '"', '""')
    return pc.if_else(parting, pc.binary_join_element_wise('"', inside, '"', ""), values)


def json_tokens(column: pa.Array, field: Field, layout: JsonLayout, depth: int) -> pa.StringArray:
    """Return each value as JSON; null stays null, for the caller to spell."""
    if field.geometry is not None:
        return _quote(hex_wkb(canonical_wkb(column, field, srids=layout.srids)))
    if field.raster is not None and not layout.pixels:
        return raster_tokens(column, layout, depth)
    match field.type:
        case Primitive.BOOLEAN | Primitive.INT | Primitive.LONG:
            return pc.cast(column, pa.string())
        case Primitive.FLOAT | Primitive.DOUBLE:
            return float_text(column, _strict_constants if layout.strict else _constants)
        case Primitive.STRING:
            return json_strings(column, ascii_only=layout.ascii)
        case Struct() | List() | Map():
            values = json_values(column, field, zones=layout.zones)
            return pa.array(
                [None if value is None else layout.dumps(value, depth) for value in values],
                pa.string(),
            )
        case _:
            return _quote(plain_text(column, field, zones=layout.zones))


def json_values(column: pa.Array, field: Field, *, zones: bool = True) -> list[Any]:
    """Return each value as `json` would take it."""
    values: list[Any]
    if field.geometry is not None:
        values = hex_wkb(canonical_wkb(column, field)).to_pylist()
        return values
    match field.type:
        case Primitive.FLOAT:
            texts = float_text(column, repr).to_pylist()
            return [None if text is None else float(text) for text in texts]
        case Primitive.BOOLEAN | Primitive.INT | Primitive.LONG | Primitive.DOUBLE:
            values = column.to_pylist()
            return values
        case Struct(fields):
            parts = [
                json_values(part, inner, zones=zones)
                for part, inner in zip(column.flatten(), fields, strict=True)
            ]
            names = [inner.name for inner in fields]
            present = pc.is_valid(column).to_pylist()
            return [
                dict(zip(names, row, strict=True)) if there else None
                for row, there in zip(zip(*parts, strict=True), present, strict=True)
            ]
        case List(element):
            return _gather(column, json_values(column.values, element, zones=zones))
        case Map(key, value):
            return _map_values(column, key, value, zones)
        case _:
            values = plain_text(column, field, zones=zones).to_pylist()
            return values


def _gather(column: pa.Array, values: list[Any]) -> list[Any]:
    offsets = column.offsets.to_pylist()
    present = pc.is_valid(column).to_pylist()
    return [
        values[start:end] if there else None
        for start, end, there in zip(offsets[:-1], offsets[1:], present, strict=True)
    ]


def _map_values(column: pa.Array, key: Field, value: Field, zones: bool) -> list[Any]:
    # An object where keys are text, otherwise a list of pairs.
    keys = json_values(column.keys, key, zones=zones)
    values = json_values(column.items, value, zones=zones)
    pairs = _gather(column, list(zip(keys, values, strict=True)))
    if key.type is Primitive.STRING:
        return [None if row is None else dict(row) for row in pairs]
    return [None if row is None else [list(pair) for pair in row] for row in pairs]


def plain_text(column: pa.Array, field: Field, *, zones: bool = False) -> pa.StringArray:
    """Return each value of a column that is not nested as unquoted text."""
    if field.geometry is not None:
        return hex_wkb(canonical_wkb(column, field))
    match field.type:
        case Primitive.STRING:
            return column
        case Primitive.BINARY:
            return pc.utf8_lower(hex_wkb(column))
        case Fixed():
            return pc.utf8_lower(hex_wkb(pc.cast(column, pa.binary())))
        case Primitive.UUID:
            return _uuid_text(column)
        case Primitive.FLOAT | Primitive.DOUBLE:
            return float_text(column, repr)
        case Primitive.TIME:
            return _trim(pc.cast(column, pa.string()))
        case Primitive.TIMESTAMPTZ if zones:
            return pc.binary_join_element_wise(_timestamp_text(column), "Z", "")
        case Primitive.TIMESTAMP | Primitive.TIMESTAMPTZ:
            return _timestamp_text(column)
        case Decimal():
            return _decimal_text(column)
        case _:
            return pc.cast(column, pa.string())


def canonical_wkb(column: pa.Array, field: Field, *, srids: bool = False) -> pa.Array:
    """Return a geometry column as ISO WKB, little-endian; with `srids` as EWKB where it has one."""
    if field.geometry is None:
        raise TypeError(f"{field.name!r} is not a geometry column")
    wkb, found = to_canonical(column, cast(Any, field.geometry.encoding.value))
    return from_canonical(wkb, found, "ewkb") if srids and found is not None else wkb


def float_text(column: pa.Array, spell: Callable[[float], str | None]) -> pa.StringArray:
    """Return floats as Python writes them; `spell` writes those that Arrow does otherwise."""
    text = pc.cast(column, pa.string())
    numbers = column.to_numpy(zero_copy_only=False).astype(np.float64)
    size = np.abs(numbers)
    simple = ((size >= 1e-4) & (size < 1e10)) | (size == 0)
    whole = simple & (numbers == np.floor(numbers))
    text = pc.if_else(arrow_array(whole), pc.binary_join_element_wise(text, ".0", ""), text)
    odd = pc.and_(arrow_array(~simple), pc.is_valid(column))
    if odd.true_count == 0:
        return text
    # By way of the text, so that a float32 keeps its own shortest digits.
    spelled = [spell(float(value)) for value in pc.filter(text, odd).to_pylist()]
    return pc.replace_with_mask(text, odd, pa.array(spelled, pa.string()))


def _constants(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def _strict_constants(value: float) -> str | None:
    return repr(value) if value - value == 0 else None


def _timestamp_text(column: pa.Array) -> pa.StringArray:
    plain = pc.cast(column, pa.timestamp("us"))
    micros = pc.cast(plain, pa.int64())
    if pc.all(pc.equal(pc.multiply(pc.divide(micros, 1_000_000), 1_000_000), micros)).as_py():
        text = pc.cast(pc.cast(plain, pa.timestamp("s")), pa.string())
    else:
        text = _trim(pc.cast(plain, pa.string()))
    return pc.replace_substring(text, " ", "T", max_replacements=1)


def _trim(text: pa.StringArray) -> pa.StringArray:
    # Arrow writes all six digits of the fraction.
    return pc.replace_substring_regex(text, r"\.?0*$", "")


def _decimal_text(column: pa.Array) -> pa.StringArray:
    text = pc.cast(column, pa.string())
    small = pc.match_substring(text, "E")
    if not pc.any(small).as_py():
        return text
    plain = [format(value, "f") for value in pc.filter(column, small).to_pylist()]
    return pc.replace_with_mask(text, pc.fill_null(small, False), pa.array(plain, pa.string()))


def _uuid_text(column: pa.Array) -> pa.StringArray:
    digits = pc.utf8_lower(hex_wkb(pc.cast(column, pa.binary())))
    groups = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))
    parts = [pc.utf8_slice_codeunits(digits, start, stop) for start, stop in groups]
    return pc.binary_join_element_wise(*parts, "-")


def _content(column: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return where each value starts, and the bytes from the first to the last."""
    _, offset_buffer, data_buffer = column.buffers()
    if offset_buffer is None or len(column) == 0:
        return np.zeros(len(column) + 1, np.int64), np.empty(0, np.uint8)
    large = pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type)
    every = np.frombuffer(offset_buffer, np.int64 if large else np.int32)
    offsets = every[column.offset : column.offset + len(column) + 1].astype(np.int64)
    data = np.frombuffer(data_buffer or b"", np.uint8)
    return offsets, data[offsets[0] : offsets[-1]]


def _quote(text: pa.StringArray) -> pa.StringArray:
    return pc.binary_join_element_wise('"', text, '"', "")


def json_strings(column: pa.Array, *, ascii_only: bool) -> pa.StringArray:
    """Return text as JSON strings."""
    encode = encode_basestring_ascii if ascii_only else _encoded
    flags = _ESCAPED_ASCII if ascii_only else _ESCAPED
    return _quote(map_flagged(column, flags, lambda text: encode(text)[1:-1]))


def _encoded(text: str) -> str:
    return visible_json(encode_basestring(text))


def map_flagged(
    column: pa.StringArray, flags: _Flags, change: Callable[[str], str]
) -> pa.StringArray:
    """Return a text column with `change` made to the values that hold a flagged byte.

    Text that is not UTF-8 gets replacement characters where it is flagged.
    """
    offsets, data = _content(column)
    places = np.flatnonzero(flags[data])
    if not len(places):
        return column
    rows = np.unique(np.searchsorted(offsets, places + offsets[0], side="right") - 1)
    mask = np.zeros(len(column), np.bool_)
    mask[rows] = True
    chosen = pc.and_(arrow_array(mask), pc.is_valid(column))
    texts = pc.cast(pc.filter(column, chosen), pa.binary()).to_pylist()
    changed = pa.array([change(text.decode("utf-8", "replace")) for text in texts], column.type)
    return pc.replace_with_mask(column, chosen, changed)


# Which cells of a change batch differ: two columns of one batch compared as people would.
#
# Null is equal to null and NaN to NaN; a raster is one cell, equal where all its parts are; a
# geometry is equal to the same shape however it is encoded, and where one cannot be read
# geometries are compared by their bytes; values whose type changed are equal when they are
# spelled alike.


def equal_cells(old: tuple[Field, pa.Array], new: tuple[Field, pa.Array]) -> pa.BooleanArray:
    """Return where both values are the same, null equal to null and NaN to NaN."""
    left, right = old[1], new[1]
    if old[0].raster is not None and new[0].raster is not None:
        return arrow_array(equal_columns(left, right, old[0], new[0]))
    if left.type != right.type or not (_is_plain(old[0]) and _is_plain(new[0])):
        try:
            left, right = _identity(*old), _identity(*new)
        except GeometryError:
            left, right = (pc.cast(column, pa.large_binary()) for column in (left, right))
    same = pc.fill_null(pc.equal(left, right), False)
    return pc.or_(same, pc.and_(pc.is_null(left), pc.is_null(right)))


def spelled(column: pa.Array, field: Field, *, zones: bool = True) -> pa.StringArray:
    """Return each value of a column that is no geometry as text, whole; rasters in words."""
    if field.raster is not None:
        return words_of_rasters(column)
    if isinstance(field.type, Struct | List | Map):
        return json_tokens(column, field, replace(COMPACT_TEXT, zones=zones), 0)
    return plain_text(column, field, zones=zones)


def _is_plain(field: Field) -> bool:
    """Whether Arrow's idea of equal values is ours: not of floats, for the sake of NaN and -0."""
    floating = field.type in (Primitive.FLOAT, Primitive.DOUBLE)
    return field.geometry is None and isinstance(field.type, Primitive) and not floating


def _identity(field: Field, column: pa.Array) -> pa.Array:
    if field.geometry is not None:
        return pc.cast(canonical_wkb(column, field, srids=True), pa.large_binary())
    return pc.cast(spelled(column, field, zones=False), pa.large_binary())
