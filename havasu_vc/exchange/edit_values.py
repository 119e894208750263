"""Values in a GeoPackage that is edited and taken back, without loss; and the names of its columns.

A GeoPackage cannot hold everything: its times end at milliseconds, NaN becomes null,
text ends at a NUL. What an edit copy loses of a value is its *exact value*, kept in a
table beside it. When a cell still reads as the exact value would, nobody edited it,
and the exact value stands again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from havasu_vc.errors import UnsupportedTypeError
from havasu_vc.exchange.export_columns import (
    format_json,
    is_nested,
    parse_json,
    uuid_text,
)
from havasu_vc.exchange.export_values import as_gdal_keeps
from havasu_vc.model import compute as pc
from havasu_vc.model.arrow import arrow_type
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Decimal, Field, Fixed, List, Primitive, is_whole
from havasu_vc.records import dataclass

__all__ = [
    "EditForm",
    "edit_form",
    "edited_rows",
    "exact_values",
    "free_name",
    "integer_key",
    "refuse_equal_names",
    "restore_exact",
]


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
        return pc.cast(values, stored)

    def text(values: pa.Array) -> pa.Array:
        return pc.cast(values, pa.string())

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
            return EditForm(pa.binary(), lambda values: pc.cast(values, pa.binary()), cast)
        case _:
            return EditForm(stored, lambda values: values, cast)


def _parsed(field: Field) -> Callable[[pa.Array], pa.Array]:
    """Return what reads times, decimals and UUIDs from text."""
    type_ = field.type

    def parse(values: pa.Array) -> pa.Array:
        values = pc.cast(values, pa.string())
        match type_:
            case Primitive.TIME:
                moments = pc.binary_join_element_wise("1970-01-01T", values, "")
                return pc.cast(moments, pa.timestamp("us")).cast(pa.time64("us"))
            case Primitive.UUID:
                whole = parse_json(_listed(pc.replace_substring(values, "-", "")), _LIST_OF_UUID)
                return _unlisted(whole, pa.binary(16))
            case _:
                return pc.cast(values, arrow_type(type_))

    return parse


_LIST_OF_UUID = List(Field(1, "element", Primitive.UUID))


def _listed(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('["', texts, '"]', "")


def _unlisted(lists: pa.Array, type_: pa.DataType) -> pa.Array:
    return pc.cast(pc.list_element(lists, 0), type_) if len(lists) else pa.array([], type_)


def exact_values(field: Field, values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the rows whose value a GeoPackage does not keep, and their exact form as text."""
    lost = _lost(field, values)
    rows = pc.indices_nonzero(lost)
    return rows, _exact_text(field, pc.take(values, rows))


def _lost(field: Field, values: pa.Array) -> pa.Array:
    match field.type:
        case Primitive.FLOAT | Primitive.DOUBLE:
            numbers = np.asarray(pc.fill_null(values, 1.0))
            odd = np.isnan(numbers) | ((numbers == 0) & np.signbit(numbers))
            return pa.array(odd & np.asarray(pc.is_valid(values)))
        case Primitive.TIMESTAMP | Primitive.TIMESTAMPTZ:
            return pc.not_equal(
                pc.cast(values, pa.int64()), pc.cast(_lossy(field, values), pa.int64())
            )
        case Primitive.STRING:
            return pc.match_substring(values, "\x00")
        case _:
            return pa.array(np.zeros(len(values), bool))


def _exact_text(field: Field, values: pa.Array) -> pa.Array:
    match field.type:
        case Primitive.STRING:
            return pc.replace_substring(pc.replace_substring(values, "\\", "\\\\"), "\x00", "\\0")
        case Primitive.TIMESTAMP | Primitive.TIMESTAMPTZ:
            return pc.cast(pc.cast(values, pa.int64()), pa.string())
        case Primitive.FLOAT | Primitive.DOUBLE:
            # The bits: there are many numbers that are no numbers.
            return pc.cast(pa.array(np.asarray(values, np.float64).view(np.int64)), pa.string())
        case _:
            return pa.array([], pa.string())


def _exact_of(field: Field, texts: pa.Array) -> pa.Array:
    match field.type:
        case Primitive.STRING:
            # An escape at a time: what follows a backslash decides.
            return pa.array([_unescaped(text) for text in texts.to_pylist()], pa.string())
        case Primitive.FLOAT | Primitive.DOUBLE:
            bits = np.asarray(pc.cast(texts, pa.int64()))
            return pa.array(bits.view(np.float64)).cast(arrow_type(field.type))
        case _:
            return pc.cast(texts, pa.int64()).cast(arrow_type(field.type))


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


# Columns


def integer_key(schema: Schema) -> str | None:
    """Return the one whole-number column that is the key, if the key is one."""
    fields = schema.key.fields
    if len(fields) == 1 and is_whole(fields[0].type):
        return fields[0].name
    return None


def free_name(wanted: str, names: Sequence[str]) -> str:
    """Return a name that none of some columns has, whatever its case."""
    lower = {name.lower() for name in names}
    candidates = (wanted, *(f"{wanted}_{number}" for number in range(1, 1000)))
    return next(name for name in candidates if name not in lower)


def refuse_equal_names(schema: Schema) -> None:
    """Raise `UnsupportedTypeError` for names that a GeoPackage does not tell apart."""
    seen: dict[str, str] = {}
    for name in schema.names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise UnsupportedTypeError(name, f"GeoPackage does not tell it from column {other!r}")
