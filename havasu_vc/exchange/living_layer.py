"""A dataset as a table of a living working copy: its columns, and its values both ways.

    layer = plan_layer(header, columns, table)      how the dataset stands there
    layer.encode(batch)                             rows as SQLite takes them, column by column
    layer.decode(name, values)                      a column of it in the dataset's stored type

A key of one whole number is the feature id; with any other key the feature id is a column
of its own, in front. Types are declared as Kart declares them, and values stand as Kart
writes them, so one file serves both programs. Times are whole: an editor may shorten them,
and then the cell counts as edited only if what is left differs (`edit_copy`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from havasu_vc.errors import UnsupportedTypeError
from havasu_vc.exchange.edit_values import (
    EditForm,
    edit_form,
    free_name,
    integer_key,
    refuse_equal_names,
)
from havasu_vc.exchange.export_columns import Notes, outgoing_geometry
from havasu_vc.geo import wkb as geometry_bytes
from havasu_vc.geo.bounds import row_bounds
from havasu_vc.geo.buffers import byte_column
from havasu_vc.geo.crs import Crs
from havasu_vc.model import compute as pc
from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive, is_whole
from havasu_vc.records import dataclass

__all__ = ["Layer", "Rows", "declared_type", "plan_layer", "value_column", "wrong_value"]

_TYPES = {
    "boolean": "BOOLEAN", "date": "DATE", "interval": "TEXT", "numeric": "TEXT", "time": "TEXT",
    "text": "TEXT", "blob": "BLOB",
}  # fmt: skip
_WHOLE = {8: "TINYINT", 16: "SMALLINT", 32: "MEDIUMINT", 64: "INTEGER"}
_MOMENTS = (Primitive.TIMESTAMP, Primitive.TIMESTAMPTZ)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows as SQLite takes them."""

    columns: tuple[list[Any], ...]
    """Values of each column of the dataset, in its order."""
    bounds: np.ndarray | None
    """xmin, ymin, xmax, ymax of the geometries; None where there are none."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A dataset as a table."""

    table: str
    """The name that the table was made with; triggers know it by this."""
    dataset: str
    """The dataset's path."""
    schema: Schema
    """The dataset's columns."""
    declared: Mapping[str, str]
    """The type that each column is declared with."""
    fid: str
    """The feature id: the key, or a column of its own."""
    header: DatasetHeader
    """The dataset's description of itself."""
    kart: bool
    """Whether it is Kart's as well."""

    @property
    def geometry(self) -> Field | None:
        """The column of geometries that the layer is known by; others are text."""
        return self.schema.geometries[0] if self.schema.geometries else None

    @property
    def has_own_fid(self) -> bool:
        """Whether the feature id is a column that the dataset does not have."""
        return self.fid not in self.schema.by_name

    @property
    def crs(self) -> Crs | None:
        """The system of the geometries, where it is known; told by what is slow to load."""
        main = self.geometry
        if main is None or main.geometry is None or main.geometry.crs is None:
            return None
        return outgoing_geometry(main, self.header.crs, None, Notes()).source

    def said(self, item: str) -> str | None:
        """Return the dataset's `title`, `description` or `metadata.xml`."""
        text = self.header.meta.get(item)
        return str(text).strip() if text else None

    def encode(self, batch: pa.RecordBatch, srs_id: int = 0) -> Rows:
        """Return rows in stored types as SQLite takes them; geometries say they are in a system."""
        columns, bounds = [], None
        for field, values in zip(self.schema.fields, batch.columns, strict=True):
            if field.geometry is None:
                columns.append(_outgoing(field, values))
                continue
            wkb, _ = geometry_bytes.to_canonical(values, field.geometry.encoding.value)
            if field == self.geometry:
                bounds = row_bounds(wkb)
                columns.append(_with_srs(wkb, srs_id))
            else:
                columns.append(geometry_bytes.from_canonical(wkb, None, "wkt").to_pylist())
        return Rows(tuple(columns), bounds)


def plan_layer(
    header: DatasetHeader, columns: Sequence[Mapping[str, Any]], table: str, *, kart: bool
) -> Layer:
    """Return how a dataset stands as a table; `columns` are those of its `schema.json`."""
    schema = header.schema
    refuse_equal_names(schema)
    key = integer_key(schema)
    main = schema.geometries[0] if schema.geometries else None
    declared = {
        field.name: declared_type(field, column, main=field == main)
        for field, column in zip(schema.fields, columns, strict=True)
    }
    return Layer(
        table,
        header.path,
        schema,
        declared,
        key or free_name("auto_int_pk" if kart else "fid", schema.names),
        header,
        kart,
    )


def declared_type(field: Field, column: Mapping[str, Any], *, main: bool) -> str:
    """Return the type that a column is declared with in SQL."""
    kind = column["dataType"]
    if kind == "geometry":
        word = str(column.get("geometryType") or "GEOMETRY").partition(" ")[0]
        return word if main else "TEXT"
    if kind == "integer":
        return _WHOLE[int(column.get("size") or 64)]
    if kind == "float":
        return "FLOAT" if column.get("size") == 32 else "REAL"
    if kind == "timestamp":
        return "DATETIME" if field.type is Primitive.TIMESTAMPTZ else "TEXT"
    length = column.get("length")
    sized = kind in ("text", "blob") and isinstance(length, int) and length > 0
    return f"{_TYPES.get(kind, 'TEXT')}{f'({length})' if sized else ''}"


# Values


def _outgoing(field: Field, values: pa.Array) -> list[Any]:
    if field.type in _MOMENTS:
        text = pc.cast(pc.cast(values, pa.timestamp("us")), pa.string())
        text = pc.replace_substring_regex(text, r"\.?0+$", "") if _fractions(text) else text
        text = pc.replace_substring(text, " ", "T", max_replacements=1)
        if field.type is Primitive.TIMESTAMPTZ:
            text = pc.binary_join_element_wise(text, "Z", "")
        return list(text.to_pylist())
    if field.type is Primitive.DATE:
        return list(pc.cast(values, pa.string()).to_pylist())
    if field.type is Primitive.TIME:
        text = pc.cast(values, pa.string())
        return list(pc.replace_substring_regex(text, r"\.0+$|(\.\d*?)0+$", r"\1").to_pylist())
    encoded = edit_form(field).encode(values)
    if pa.types.is_floating(encoded.type) or pa.types.is_integer(encoded.type):
        return _numbers(encoded)
    return list(encoded.to_pylist())


def _fractions(text: pa.Array) -> bool:
    return bool(pc.any(pc.match_substring(text, ".")).as_py())


def _numbers(values: pa.Array) -> list[Any]:
    if values.null_count:
        return list(values.to_pylist())
    return list(values.to_numpy(zero_copy_only=False).tolist())


def _with_srs(wkb: pa.Array, srs_id: int) -> list[Any]:
    """Return geometries as a GeoPackage has them; the header names their system."""
    packed = geometry_bytes.format_gpkg(wkb)
    column = byte_column(packed)
    if srs_id and len(column.starts):
        data = np.array(column.data)
        places = column.starts[:, None] + np.arange(4, 8)
        data[places] = np.frombuffer(np.int32(srs_id).tobytes(), np.uint8)
        validity, offsets, _ = packed.buffers()
        packed = pa.Array.from_buffers(
            packed.type, len(packed), [validity, offsets, pa.py_buffer(data)], offset=packed.offset
        )
    # Python's SQLite looks for an adapter of each value that is `bytes`: three times the time.
    return [value and bytearray(value) for value in packed.to_pylist()]


def value_column(field: Field, values: Sequence[Any], *, main: bool) -> pa.Array:
    """Return values of a column, as SQLite gives them, in the dataset's stored type.

    Raises `UnsupportedTypeError` for what is no value of the column.
    """
    try:
        if field.geometry is not None:
            raw = pa.array(values, pa.binary() if main else pa.string())
            wkb, _ = geometry_bytes.to_canonical(raw, "gpkg" if main else "wkt")
            return geometry_bytes.from_canonical(wkb, None, field.geometry.encoding.value)
        return _incoming(field)(values)
    except UnsupportedTypeError:
        raise
    except (ValueError, TypeError, OverflowError, pa.ArrowException) as error:
        raise UnsupportedTypeError(
            field.name,
            f"a value is not a {field.type}: {str(error).splitlines()[0]}",
            hints=("mend it in the working copy",),
        ) from error


def wrong_value(field: Field, values: Sequence[Any], *, main: bool) -> object:
    """Return the first of some values that is none of a column; None where all are."""
    for value in values:
        try:
            value_column(field, [value], main=main)
        except UnsupportedTypeError:
            return value
    return None


def _incoming(field: Field) -> Callable[[Sequence[Any]], pa.Array]:
    form = edit_form(field)

    def read(values: Sequence[Any]) -> pa.Array:
        return form.decode(_raw(field, form, values))

    return read


def _kinds_of(field: Field, form: EditForm) -> set[type]:
    """Return the types that values of a column have in SQLite, where they are such."""
    if is_whole(field.type):
        found: set[type] = {int}
    elif field.type is Primitive.BOOLEAN or pa.types.is_floating(form.type):
        found = {int, float}
    else:
        found = {bytes} if pa.types.is_binary(form.type) else {str}
    return {type(None), *found}


def _raw(field: Field, form: EditForm, values: Sequence[Any]) -> pa.Array:
    """Return values in the Arrow type that GDAL would give them.

    SQLite keeps any value in any column. Arrow would cut the fraction off a number, and read
    bytes as text and text as bytes.
    """
    known = _kinds_of(field, form)
    if not set(map(type, values)) <= known:
        raise ValueError(repr(next(value for value in values if type(value) not in known)))
    if field.type is Primitive.BOOLEAN:
        if not set(values) <= {0, 1, None}:
            raise ValueError("neither 0 nor 1")
        return pa.array([None if value is None else bool(value) for value in values], pa.bool_())
    if field.type in _MOMENTS:
        text = pc.utf8_rtrim(pa.array(values, pa.string()), "Z")
        return pc.cast(pc.cast(text, pa.timestamp("us")), form.type)
    if field.type is Primitive.DATE:
        return pc.cast(pa.array(values, pa.string()), form.type)
    if is_whole(field.type):
        return pc.cast(pa.array(values, pa.int64()), form.type)
    if pa.types.is_floating(form.type):
        return pc.cast(pa.array(values, pa.float64()), form.type, safe=False)
    return pa.array(values, form.type)
