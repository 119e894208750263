"""A dataset described: how many rows it has and which, from metadata where that suffices.

Where the rows of a dataset lie on the globe, as far as that is known without reading them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce

import pyarrow as pa

from havasu_vc.datasets.protocol import Dataset
from havasu_vc.errors import CrsError, InvalidArgumentError
from havasu_vc.formats.havasu.entry import Entry
from havasu_vc.geo.crs import Crs, parse_crs
from havasu_vc.geo.reproject import geographic_bounds
from havasu_vc.looking.requests import RowsRequest
from havasu_vc.looking.tables import Table
from havasu_vc.model import compute as pc
from havasu_vc.model.arrow import arrow_type
from havasu_vc.model.bounds import Bounds, GeographicBounds
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Decimal, Field
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo

__all__ = [
    "ColumnFacts",
    "Description",
    "choose_rows",
    "count_rows",
    "describe_dataset",
    "extent_of",
]


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """A column, and what is known of its values without reading a row."""

    name: str
    """Its name."""
    type: str
    """Its type, and of a geometry its system."""
    key: bool
    """Whether it is of the key."""
    required: bool
    """Whether no value is null."""
    nulls: int | None = None
    """How many values of the files are null, those of deleted rows too; None if not known."""
    lower: str | int | float | bool | None = None
    """No value is less; None if not known."""
    upper: str | int | float | bool | None = None
    """No value is greater; None if not known."""


@dataclass(frozen=True, slots=True)
class Description:
    """A dataset, described."""

    path: str
    """Where it is."""
    kind: str
    """`havasu` or `kart`."""
    rows: int
    """How many rows it has."""
    size: int
    """Bytes of its files."""
    title: str | None
    """Its title."""
    crs: tuple[str, ...]
    """Its reference systems, by name."""
    extent: GeographicBounds | None
    """Where its rows lie in longitude and latitude; None if not known."""
    columns: tuple[ColumnFacts, ...]
    """Its columns."""


def describe_dataset(repo: OpenRepo, path: str, revision: str = "HEAD") -> Description:
    """Return what a dataset is at a revision; no row is read."""
    view = repo.dataset(path, revision)
    title = view.items.get("title")
    key = set(view.schema.identifier_ids)
    return Description(
        view.path,
        view.kind,
        view.rows,
        view.size,
        None if title is None else title.decode("utf-8", "replace").strip() or None,
        tuple(sorted(view.crs)),
        extent_of(view),
        tuple(_facts(view, field, of_key=field.id in key) for field in view.schema.fields),
    )


def _facts(view: Dataset, field: Field, *, of_key: bool) -> ColumnFacts:
    kind = str(field.type)
    if field.geometry is not None:
        kind = f"geometry {field.geometry.crs or ''}".rstrip()
    elif field.raster is not None:
        kind = "raster"
    files = view.in_files
    entries = () if files is None else files.data_entries
    found = [entry.statistics[field.id] for entry in entries if field.id in entry.statistics]
    if files is None or len(found) != len(entries) or not found:
        return ColumnFacts(field.name, kind, of_key, field.required)
    lower = [each.lower for each in found if each.lower is not None]
    upper = [each.upper for each in found if each.upper is not None]
    # As text, decimals are in another order; and of geometries and bytes nobody reads bounds.
    plain = not isinstance(field.type, Decimal) and field.geometry is None
    known = plain and len(lower) == len(upper) == len([e for e in found if e.nulls < e.values])
    bounds = (min(lower), max(upper)) if known and lower else (None, None)
    nulls = sum(each.nulls for each in found)
    return ColumnFacts(field.name, kind, of_key, field.required, nulls, *bounds)


def count_rows(
    repo: OpenRepo, path: str, revision: str = "HEAD", *, where: Mapping[str, str] | None = None
) -> int:
    """Return how many rows a dataset has, or those whose columns have some values."""
    view = repo.dataset(path, revision)
    if not where:
        return view.rows
    return sum(batch.num_rows for batch in _chosen(repo, view, tuple(where), where))


def choose_rows(
    repo: OpenRepo, request: RowsRequest
) -> tuple[Dataset, Schema, Iterator[pa.RecordBatch]]:
    """Return a dataset, the columns that are wanted, and its rows with some values, in batches.

    A value is given as text; an empty one is null.
    """
    view = repo.dataset(request.path, request.revision)
    schema = Table(view, repo.settings).schema_of(request.columns or None)
    names = tuple(dict.fromkeys((*schema.names, *(request.where or ()))))
    batches = _chosen(repo, view, names, request.where or {})
    return view, schema, (batch.select(list(schema.names)) for batch in batches)


def _chosen(
    repo: OpenRepo, view: Dataset, names: tuple[str, ...], where: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    table = Table(view, repo.settings)
    wanted = {name: _value(view, name, text) for name, text in where.items()}
    for batch in table.to_batches(names):
        if wanted:
            masks = [
                pc.is_null(batch.column(name))
                if value is None
                else pc.fill_null(pc.equal(batch.column(name), value), False)
                for name, value in wanted.items()
            ]
            batch = pc.filter(batch, reduce(pc.and_, masks))
        if batch.num_rows:
            yield batch


def _value(view: Dataset, name: str, text: str) -> pa.Scalar | None:
    field = view.schema.by_name.get(name)
    if field is None:
        raise InvalidArgumentError(
            f"{view.path} has no column {name!r}",
            hints=(f"it has {', '.join(view.schema.names)}",),
        )
    if not text:
        return None
    try:
        return pc.cast(pa.scalar(text), arrow_type(field.type))
    except pa.ArrowException as error:
        raise InvalidArgumentError(
            f"{text!r} is no value of {name!r}, which is {field.type}"
        ) from error


def extent_of(view: Dataset) -> GeographicBounds | None:
    """Return bounds in longitude and latitude of the first geometry or raster column.

    None if unknown. A dataset whose rows are not in data files keeps no bounds.
    """
    files = view.in_files
    column = next(iter(view.schema.geometries), None)
    if files is None:
        return None
    if column is None or column.geometry is None:
        return _extent_of_rasters(view.schema, files.data_entries)
    found: Bounds | None = None
    for entry in files.data_entries:
        bounds = entry.bounds.get(column.id)
        if bounds is not None:
            found = bounds if found is None else found.union(bounds)
    name = column.geometry.crs
    if found is None or name is None:
        return None
    try:
        parsed = parse_crs(view.crs.get(name, name))
        return geographic_bounds(found, Crs(name, parsed.wkt, parsed.srid))
    except CrsError:
        return None


def _extent_of_rasters(schema: Schema, entries: Iterable[Entry]) -> GeographicBounds | None:
    """Return what holds the rasters of all files; None where one does not say where its are."""
    column = next((each for each in schema.fields if each.raster is not None), None)
    if column is None:
        return None
    areas = [entry.areas.get(column.id) for entry in entries]
    known = [area for area in areas if area is not None]
    return GeographicBounds.of(known) if len(known) == len(areas) else None
