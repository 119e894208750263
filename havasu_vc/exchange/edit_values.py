"""Values in a GeoPackage that is edited and taken back, without loss.

A GeoPackage cannot hold everything: its times end at milliseconds, NaN becomes null,
text ends at a NUL. What an edit copy loses of a value is its *exact value*, kept in a
table beside it. When a cell still reads as the exact value would, nobody edited it,
and the exact value stands again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from havasu_vc.exchange.export_columns import as_gdal_keeps, uuid_text
from havasu_vc.exchange.json_values import format_json, is_nested, parse_json
from havasu_vc.model.arrow import arrow_type
from havasu_vc.model.types import Decimal, Field, Fixed, List, Primitive
from havasu_vc.records import dataclass

__all__ = ["EditForm", "edit_form", "edited_rows", "exact_values", "restore_exact"]


@dataclass(frozen=True, slots=True)
class EditForm:
    """How a column without geometries stands in an edit copy."""

    type: pa.DataType
    """The Arrow type that is written."""
    encode: Callable[[pa.Array], pa.Array]
    """From the stored type."""
    decode: Callable[[pa.Array], pa.Array]
    """To the stored type; raises `ValueError` for what cannot be it."""


def edit_form(field: Field) -> EditForm:
    """Return how a column stands in an edit copy."""
    stored = arrow_type(field.type)

    def cast(values: pa.Array) -> pa.Array:
        return values.cast(stored)

    def text(values: pa.Array) -> pa.Array:
        return values.cast(pa.string())

    if is_nested(field):
        type_ = field.type
        # GDAL turns lists of text into columns of its own, so the text is not marked as JSON.
        return EditForm(
            pa.string(),
            lambda values: format_json(values, type_),
            lambda values: parse_json(values, type_),
        )
    match field.type:
        case Primitive.TIME | Decimal():
            return EditForm(pa.string(), text, _parsed(field))
        case Primitive.UUID:
            return EditForm(pa.string(), uuid_text, _parsed(field))
        case Primitive.TIMESTAMP | Primitive.TIMESTAMPTZ:
            # GDAL would round to milliseconds, up as well as down.
            return EditForm(stored, lambda values: _lossy(field, values), cast)
        case Primitive.BINARY | Fixed():
            return EditForm(pa.binary(), lambda values: values.cast(pa.binary()), cast)
        case _:
            return EditForm(stored, lambda values: values, cast)


def _parsed(field: Field) -> Callable[[pa.Array], pa.Array]:
    """Return what reads times, decimals and UUIDs from text."""
    type_ = field.type

    def parse(values: pa.Array) -> pa.Array:
        values = values.cast(pa.string())
        match type_:
            case Primitive.TIME:
                moments = pc.binary_join_element_wise("1970-01-01T", values, "")
                return moments.cast(pa.timestamp("us")).cast(pa.time64("us"))
            case Primitive.UUID:
                whole = parse_json(_listed(pc.replace_substring(values, "-", "")), _LIST_OF_UUID)
                return _unlisted(whole, pa.binary(16))
            case _:
                return values.cast(arrow_type(type_))

    return parse


_LIST_OF_UUID = List(Field(1, "element", Primitive.UUID))


def _listed(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('["', texts, '"]', "")


def _unlisted(lists: pa.Array, type_: pa.DataType) -> pa.Array:
    return pc.list_element(lists, 0).cast(type_) if len(lists) else pa.array([], type_)


def exact_values(field: Field, values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the rows whose value a GeoPackage does not keep, and their exact form as text."""
    lost = _lost(field, values)
    rows = pc.indices_nonzero(lost)
    return rows, _exact_text(field, values.take(rows))


def _lost(field: Field, values: pa.Array) -> pa.Array:
    match field.type:
        case Primitive.FLOAT | Primitive.DOUBLE:
            numbers = np.asarray(values.fill_null(1.0))
            odd = np.isnan(numbers) | ((numbers == 0) & np.signbit(numbers))
            return pa.array(odd & np.asarray(values.is_valid()))
        case Primitive.TIMESTAMP | Primitive.TIMESTAMPTZ:
            return pc.not_equal(values.cast(pa.int64()), _lossy(field, values).cast(pa.int64()))
        case Primitive.STRING:
            return pc.match_substring(values, "\x00")
        case _:
            return pa.array(np.zeros(len(values), bool))


def _exact_text(field: Field, values: pa.Array) -> pa.Array:
    match field.type:
        case Primitive.STRING:
            return pc.replace_substring(pc.replace_substring(values, "\\", "\\\\"), "\x00", "\\0")
        case Primitive.TIMESTAMP | Primitive.TIMESTAMPTZ:
            return values.cast(pa.int64()).cast(pa.string())
        case Primitive.FLOAT | Primitive.DOUBLE:
            # The bits: there are many numbers that are no numbers.
            return pa.array(np.asarray(values, np.float64).view(np.int64)).cast(pa.string())
        case _:
            return pa.array([], pa.string())


def _exact_of(field: Field, texts: pa.Array) -> pa.Array:
    match field.type:
        case Primitive.STRING:
            # An escape at a time: what follows a backslash decides.
            return pa.array([_unescaped(text) for text in texts.to_pylist()], pa.string())
        case Primitive.FLOAT | Primitive.DOUBLE:
            bits = np.asarray(texts.cast(pa.int64()))
            return pa.array(bits.view(np.float64)).cast(arrow_type(field.type))
        case _:
            return texts.cast(pa.int64()).cast(arrow_type(field.type))


def _unescaped(text: str) -> str:
    return "\\".join(part.replace("\\0", "\x00") for part in text.split("\\\\"))


def _lossy(field: Field, values: pa.Array) -> pa.Array:
    """Return what a GeoPackage makes of exact values."""
    match field.type:
        case Primitive.TIMESTAMP | Primitive.TIMESTAMPTZ:
            return as_gdal_keeps(values)
        case Primitive.STRING:
            return pc.replace_substring_regex(values, r"(?s)\x00.*", "")
        case _:
            numbers = np.asarray(values, np.float64)
            return pa.array(numbers + 0.0, mask=np.isnan(numbers)).cast(values.type)


def restore_exact(
    field: Field, values: pa.Array, fids: pa.Array, exact: Mapping[int, str]
) -> pa.Array:
    """Return a column with exact values where cells read as these would."""
    rows, whole, unedited = _compared(field, values, fids, exact)
    if not len(rows):
        return values
    chosen = pc.if_else(unedited, whole, values.take(rows))
    mask = np.zeros(len(values), bool)
    mask[np.asarray(rows)] = True
    return pc.replace_with_mask(values, pa.array(mask), chosen)


def edited_rows(
    field: Field, values: pa.Array, fids: pa.Array, exact: Mapping[int, str]
) -> list[int]:
    """Return the feature ids of cells that have an exact value and no longer read as it would."""
    rows, _, unedited = _compared(field, values, fids, exact)
    return list(fids.take(rows).filter(pc.invert(unedited)).to_pylist())


def _compared(
    field: Field, values: pa.Array, fids: pa.Array, exact: Mapping[int, str]
) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Return the rows with exact values, these, and which rows still read as they would."""
    keys = pa.array(list(exact), pa.int64())
    positions = pc.index_in(fids, keys)
    rows = pc.indices_nonzero(pc.is_valid(positions))
    if not len(rows):
        return rows, values.slice(0, 0), pa.array([], pa.bool_())
    texts = pa.array(list(exact.values()), pa.string()).take(positions.take(rows))
    whole = _exact_of(field, texts)
    there, expected = values.take(rows), _lossy(field, whole)
    equal = pc.fill_null(pc.equal(there, expected), False)
    return rows, whole, pc.or_(equal, pc.and_(pc.is_null(there), pc.is_null(expected)))
