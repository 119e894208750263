"""A layer as the next release of a dataset, which says what the layer's format cannot.

Most formats of GDAL have no name for geometries, GeoJSON has one in each row of a table without
any, and no types for columns without values; and decimal numbers stand as floating-point ones or
as text in nearly all, bytes and the like as text. What its dataset has is then meant, rather than a
column that is another.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from havasu_vc.errors import InvalidFileError
from havasu_vc.exchange.csv_types import can_be_text, misfits, typed
from havasu_vc.exchange.gdal import open_stream
from havasu_vc.model import compute as pc
from havasu_vc.model.arrow import arrow_type
from havasu_vc.model.evolution import agreed_type, with_ids
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Decimal, Primitive, Type
from havasu_vc.records import dataclass

__all__ = ["LayerRows", "has_geometries", "known_types", "read_as_known", "with_types"]

_LONGEST = 40


@dataclass(frozen=True, slots=True)
class LayerRows:
    """Where the rows of a layer are."""

    path: str
    shown_path: str
    layer: str
    fields: tuple[str, ...]
    """Columns that are neither the geometry nor the feature id."""

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield some columns; of no names the geometry."""
        how = {"columns": list(names), "read_geometry": not names}
        with open_stream(self.path, self.layer, **how) as reader:
            yield from reader


def has_geometries(rows: LayerRows) -> bool:
    """Whether any row of a layer has a geometry."""
    return any(
        column.null_count < len(column) for batch in rows.batches(()) for column in batch.columns
    )


def known_types(rows: LayerRows, came: Schema, dataset: Schema) -> dict[str, Type]:
    """Return the columns that are of their dataset's type, though the layer has them in another.

    Raises `InvalidFileError` for text, or a number, that is no value of that type.
    """
    wanted = {
        field.name: field.type
        for field in dataset.fields
        if field.name in came.by_name
        and field.name in rows.fields
        and (field.geometry or field.raster) is None
        and agreed_type(field.type, came.by_name[field.name].type) is None
    }
    filled = _with_values(rows, tuple(wanted)) if wanted else set()
    text = {
        name: type_
        for name, type_ in wanted.items()
        if name in filled and _may_be(came.by_name[name].type, type_)
    }
    for name, odd in (misfits(_texts(rows, tuple(text)), text) if text else {}).items():
        value = odd.value if len(odd.value) <= _LONGEST else f"{odd.value[:_LONGEST]}…"
        raise InvalidFileError(
            rows.shown_path,
            f"row {odd.row:,} has {value!r} in column {name!r}, which is {text[name]} in the "
            "dataset",
            hints=("mend the row, or import the file as another dataset",),
        )
    return {name: type_ for name, type_ in wanted.items() if name not in filled or name in text}


def _may_be(came: Type, type_: Type) -> bool:
    if isinstance(type_, Decimal) and came in (Primitive.INT, Primitive.LONG, Primitive.DOUBLE):
        return True
    return came is Primitive.STRING and can_be_text(type_)


def _texts(rows: LayerRows, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    for batch in rows.batches(names):
        columns = [pc.cast(batch[name], pa.string()) for name in names]
        yield pa.RecordBatch.from_arrays(columns, list(names))


def with_types(came: Schema, known: Mapping[str, Type]) -> Schema:
    """Return the columns of a layer with those whose type is known in it."""
    new_id = itertools.count(came.last_id + 1).__next__
    fields = (
        replace(field, type=with_ids(known[field.name], new_id, None))
        if field.name in known
        else field
        for field in came.fields
    )
    return Schema(tuple(fields), came.identifier_ids)


def _with_values(rows: LayerRows, names: Sequence[str]) -> set[str]:
    found: set[str] = set()
    for batch in rows.batches(names):
        found |= {name for name in names if batch[name].null_count < len(batch)}
        if len(found) == len(names):
            break
    return found


def read_as_known(
    columns: Mapping[str, pa.Array], known: Sequence[tuple[str, Type]]
) -> dict[str, pa.Array]:
    """Return columns with those whose type is known in it."""
    return dict(columns) | {
        name: _as(columns[name], type_) for name, type_ in known if name in columns
    }


def _as(column: pa.Array, type_: Type) -> pa.Array:
    if column.null_count == len(column):
        return pa.nulls(len(column), arrow_type(type_))
    return typed(pc.cast(column, pa.string()), type_)
