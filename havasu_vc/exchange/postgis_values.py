"""Values of columns as PostgreSQL reads and writes them: text, column by column, both ways.

    text_column(field, values, srid)       stored values as text
    stored_column(field, texts, srid)      text as stored values
    format_csv(columns), parse_csv(data, names)

Bytes and geometries are hexadecimal, which is taken apart as a whole. A geometry has the number of
its column's system in it there; one that has a number of its own keeps that.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from havasu_vc.errors import HavasuError, UnsupportedTypeError
from havasu_vc.exchange.edit_values import edit_form
from havasu_vc.exchange.export_columns import is_nested
from havasu_vc.geo import wkb as geometry_bytes
from havasu_vc.geo.buffers import binary_column, byte_column, pack
from havasu_vc.model import kernels as pc
from havasu_vc.model.arrow import arrow_type
from havasu_vc.model.types import Encoding, Field, Fixed, Primitive

__all__ = [
    "array_literal",
    "format_csv",
    "out_expression",
    "parse_csv",
    "stored_column",
    "text_column",
]


def text_column(field: Field, values: pa.Array, srid: int) -> pa.Array:
    """Return values in their stored type as PostgreSQL reads them."""
    if field.geometry is not None:
        wkb, own = geometry_bytes.to_canonical(values, field.geometry.encoding)
        numbers = np.zeros(len(values), np.int32) if own is None else own
        numbers = np.where(numbers == 0, np.int32(srid), numbers)
        return _hexadecimal(geometry_bytes.from_canonical(wkb, numbers, "ewkb"))
    if is_nested(field) or field.type is Primitive.UUID:
        return pc.cast(edit_form(field).encode(values), pa.string())
    if field.type is Primitive.BINARY or isinstance(field.type, Fixed):
        return pc.binary_join_element_wise("\\x", _hexadecimal(pc.cast(values, pa.binary())), "")
    if field.type is Primitive.TIMESTAMPTZ:
        text = pc.cast(pc.cast(values, pa.timestamp("us")), pa.string())
        return pc.binary_join_element_wise(text, "Z", "")
    text = pc.cast(values, pa.string())
    if field.type is Primitive.STRING and pc.any(pc.match_substring(text, "\x00")).as_py():
        raise UnsupportedTypeError(
            field.name, "a text has a NUL in it, which PostgreSQL does not keep"
        )
    return text


def out_expression(field: Field, column: str) -> str:
    """Return the SQL of a column whose text `stored_column` reads."""
    if field.geometry is not None:
        return f"encode(ST_AsEWKB({column}), 'hex')"
    if (field.type is Primitive.BINARY or isinstance(field.type, Fixed)) and not is_nested(field):
        return f"encode({column}, 'hex')"
    return column


def stored_column(field: Field, texts: pa.Array, srid: int) -> pa.Array:
    """Return values in their stored type; raises `UnsupportedTypeError` for what is none."""
    try:
        return _stored(field, texts, srid)
    except (ValueError, TypeError, OverflowError, HavasuError) as error:
        if isinstance(error, UnsupportedTypeError):
            raise
        raise UnsupportedTypeError(
            field.name,
            f"a value is not a {field.type}: {str(error).splitlines()[0]}",
            hints=("mend it in the working copy",),
        ) from error


def _stored(field: Field, texts: pa.Array, srid: int) -> pa.Array:
    if field.geometry is not None:
        wkb, own = geometry_bytes.to_canonical(_bytes(texts), Encoding.EWKB)
        if own is not None:
            own = np.where(own == srid, np.int32(0), own)
        return geometry_bytes.from_canonical(
            wkb, own, field.geometry.encoding, drop_srids=field.geometry.encoding != Encoding.EWKB
        )
    if is_nested(field) or field.type is Primitive.UUID:
        return edit_form(field).decode(texts)
    if field.type is Primitive.BINARY or isinstance(field.type, Fixed):
        return pc.cast(_bytes(texts), arrow_type(field.type))
    if field.type is Primitive.BOOLEAN:
        return pc.equal(pc.utf8_slice_codeunits(texts, 0, 1), "t")
    if field.type is Primitive.TIMESTAMPTZ:
        texts = pc.cast(pc.replace_substring_regex(texts, r"\+00$", ""), pa.timestamp("us"))
    elif field.type is Primitive.TIME:
        return edit_form(field).decode(texts)
    return pc.cast(texts, arrow_type(field.type))


def _hexadecimal(values: pa.Array) -> pa.Array:
    column = pack(byte_column(values))
    digits = np.frombuffer(column.data.tobytes().hex().encode(), np.uint8)
    packed = binary_column(digits, column.lengths * 2, column.rows, column.size)
    return pc.cast(packed, pa.string())


def _bytes(texts: pa.Array) -> pa.Array:
    column = pack(byte_column(pc.cast(texts, pa.binary())))
    data = np.frombuffer(bytes.fromhex(column.data.tobytes().decode("ascii")), np.uint8)
    return binary_column(data, column.lengths // 2, column.rows, column.size)


def array_literal(texts: pa.Array) -> str:
    r"""Return texts as PostgreSQL writes an array of them.

    >>> array_literal(pa.array(["a", 'b"', None]))
    '{"a","b\\"",NULL}'
    """
    escaped = pc.replace_substring_regex(pc.cast(texts, pa.string()), r'(["\\])', r"\\\1")
    listed = pc.fill_null(pc.binary_join_element_wise('"', escaped, '"', ""), "NULL")
    return "{" + ",".join(listed.to_pylist()) + "}"


def format_csv(columns: Sequence[pa.Array]) -> bytes:
    """Return columns of text as CSV in which null is nothing and text is quoted."""
    names = [str(place) for place in range(len(columns))]
    # The one line of a null alone would be an empty one, and `\.` alone an end.
    out = BytesIO()
    options = csv.WriteOptions(include_header=False, quoting_style="all_valid")
    csv.write_csv(pa.RecordBatch.from_arrays(list(columns), names), out, options)
    return out.getvalue()


def parse_csv(data: bytes, count: int) -> list[pa.Array]:
    """Return the columns of such CSV."""
    if not data:
        return [pa.array([], pa.string())] * count
    names = [str(place) for place in range(count)]
    table = csv.read_csv(
        pa.BufferReader(data),
        read_options=csv.ReadOptions(
            column_names=names, use_threads=False, block_size=len(data) + 1
        ),
        parse_options=csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    found: list[Any] = []
    for column in table.columns:
        whole = column.combine_chunks()
        found.append(
            pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
        )
    return found
