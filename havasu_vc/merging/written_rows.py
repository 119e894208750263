"""A row that somebody wrote down to resolve a conflict: GeoJSON, Kart's JSON, or Python.

It must have just the columns of the dataset, with values that they can hold. In a
GeoJSON feature the geometry stands for the first geometry column; where the column
keeps an SRID with each value, the one of the row in conflict is taken.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from havasu_vc.errors import HavasuError, InvalidArgumentError, SchemaViolationError
from havasu_vc.formats.json_columns import json_column
from havasu_vc.geo.geojson import parse_geojson
from havasu_vc.geo.wkb import from_canonical, to_canonical
from havasu_vc.model import kernels as pc
from havasu_vc.model.arrow import arrow_field, arrow_schema
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field

__all__ = ["parse_row", "row_of"]

MOST_BYTES = 64 << 20
"""No row that somebody writes down is larger."""


def parse_row(data: bytes, schema: Schema, like: pa.StructArray) -> pa.StructArray:
    """Return the one row that a document holds; `like` is the row that it takes the place of."""
    if len(data) > MOST_BYTES:
        raise InvalidArgumentError("the file is too large for a row")
    try:
        value = json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        reason = "it nests too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidArgumentError(f"the row is not JSON: {reason}") from error
    if not isinstance(value, dict):
        raise InvalidArgumentError(
            "the row is not a JSON object", hints=("give a GeoJSON feature, or {column: value, …}",)
        )
    if value.get("type") == "FeatureCollection" and isinstance(value.get("features"), list):
        if len(value["features"]) != 1 or not isinstance(value["features"][0], dict):
            raise InvalidArgumentError(
                f"one feature resolves a conflict, and there are {len(value['features'])}"
            )
        value = value["features"][0]
    geojson = value.get("type") == "Feature" and isinstance(value.get("properties"), dict | None)
    values = _feature_values(value, schema) if geojson else value
    _check_names(values, schema)
    columns = [_column(values[field.name], field, like) for field in schema.fields]
    return _checked(columns, schema)


def row_of(values: Mapping[str, Any], schema: Schema) -> pa.StructArray:
    """Return a row of Python values in the stored types."""
    _check_names(values, schema)
    columns = []
    for field in arrow_schema(schema):
        try:
            columns.append(pa.array([values[field.name]], field.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise SchemaViolationError(
                f"column {field.name!r} cannot hold {_short(values[field.name])}"
            ) from error
    return _checked(columns, schema)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _feature_values(feature: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    values = dict(feature.get("properties") or {})
    if schema.geometries:
        values[schema.geometries[0].name] = feature.get("geometry")
    elif feature.get("geometry") is not None:
        raise SchemaViolationError(
            "the feature has a geometry, and the dataset has no column for it"
        )
    return values


def _check_names(values: Mapping[str, Any], schema: Schema) -> None:
    unknown = sorted(set(values) - set(schema.names))
    if unknown:
        raise SchemaViolationError(
            f"the row has a column {unknown[0]!r}, and the dataset has none of that name",
            hints=(f"its columns are {', '.join(schema.names)}",),
        )
    missing = [name for name in schema.names if name not in values]
    if missing:
        raise SchemaViolationError(
            f"the row has no value for the column {missing[0]!r}",
            hints=("write null for no value",),
        )


def _column(value: Any, field: Field, like: pa.StructArray) -> pa.Array:
    if field.geometry is None or not isinstance(value, dict):
        try:
            return json_column([value], field, lambda _, name: f"column {name!r} of the row")
        except HavasuError as error:
            raise SchemaViolationError(error.message) from error
    try:
        wkb = parse_geojson(pa.array([json.dumps(value)]))
        encoding = field.geometry.encoding
        _, srids = to_canonical(pc.struct_field(like, field.name), encoding)
        return pc.cast(from_canonical(wkb, srids, encoding), arrow_field(field).type)
    except (HavasuError, ValueError, RecursionError) as error:
        raise SchemaViolationError(
            f"column {field.name!r} of the row is no geometry that it can hold: {error}"
        ) from error


def _checked(columns: list[pa.Array], schema: Schema) -> pa.StructArray:
    for field, column in zip(schema.fields, columns, strict=True):
        if field.required and column.null_count:
            raise SchemaViolationError(
                f"the row has no value in the required column {field.name!r}"
            )
    fields = [arrow_field(field).with_nullable(True) for field in schema.fields]
    return pa.StructArray.from_arrays(columns, fields=fields)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
