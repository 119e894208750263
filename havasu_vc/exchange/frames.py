"""Rows that a program holds: data frames and whatever else gives itself as Arrow, as a source.

pandas, GeoPandas, Polars, DuckDB, PyArrow and lists of rows are taken as they are, and none of
these libraries is imported for it, nor what lays out imports by a commit of rows. Geometries say
what they are by GeoArrow's extension types, which GeoPandas writes; shapes in a column of pandas do
not, and are refused with what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from havasu_vc.errors import CrsError, InvalidArgumentError
from havasu_vc.geo.crs import parse_crs, same_crs
from havasu_vc.model.arrow import arrow_type
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, task_of
from havasu_vc.records import dataclass

if TYPE_CHECKING:
    from havasu_vc.exchange.geoarrow import FoundGeometry
    from havasu_vc.exchange.layout import SourceLayout
    from havasu_vc.exchange.source import Source, SourceOptions

__all__ = ["WHERE", "FrameSource", "Rows", "arrow_table", "conforming", "open_frame"]

WHERE = "the rows"
"""Where an error is that is none of a file."""
_VIEWS = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


@runtime_checkable
class Frame(Protocol):
    """Rows that give themselves as Arrow: a data frame, a table, a relation, a reader."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule of Arrow's C interface."""


Rows: TypeAlias = (
    Frame
    | pa.RecordBatch
    | Iterable[pa.RecordBatch]
    | Sequence[Mapping[str, Any]]
    | Mapping[str, Sequence[Any]]
)
"""Rows as a program may give them."""


def arrow_table(rows: Rows) -> tuple[pa.Table, tuple[str, ...]]:
    """Return rows as an Arrow table, and the columns that the frame itself tells them apart by."""
    try:
        return _arrow_table(rows)
    except (pa.ArrowException, TypeError, ValueError) as error:
        said = str(error.args[0] if error.args else error).partition("\n")[0]
        raise InvalidArgumentError(
            f"these rows cannot be taken: {said}",
            hints=(
                "rows are a data frame of pandas, GeoPandas or Polars, an Arrow table, or a list "
                "of dicts; shapes belong into a GeoDataFrame",
            ),
        ) from error


def _arrow_table(rows: Any) -> tuple[pa.Table, tuple[str, ...]]:
    if isinstance(rows, pa.Table):
        return rows, ()
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows]), ()
    if isinstance(rows, str | bytes):
        raise TypeError(f"{type(rows).__name__!r} is no form of rows")
    if isinstance(rows, Mapping):
        return pa.table(rows), ()
    if hasattr(rows, "reset_index") and hasattr(rows, "index"):
        # The numbers by which pandas counts rows are none of their columns; an index with names is.
        index = tuple(name for name in rows.index.names if name is not None)
        rows = rows.reset_index(level=list(index)) if index else rows
        if hasattr(rows, "to_arrow"):
            return pa.table(rows.to_arrow(index=False)), index
        return pa.Table.from_pandas(rows, preserve_index=False), index
    if hasattr(rows, "collect_schema") and hasattr(rows, "collect"):  # lazy in Polars
        rows = rows.collect()
    if isinstance(rows, Frame):
        return pa.RecordBatchReader.from_stream(rows).read_all(), ()
    given = list(rows)
    if not given:
        return pa.table({}), ()
    if isinstance(given[0], pa.RecordBatch):
        return pa.Table.from_batches(given), ()
    return pa.Table.from_pylist(given), ()


@dataclass(frozen=True)
class FrameSource:
    """The rows of a program as a table to import."""

    name: str
    schema: Schema
    crs: Mapping[str, str]
    rows: int | None
    input_bytes: int
    layout: SourceLayout
    table: pa.Table
    natives: Mapping[str, str]
    """Geometry columns in a native encoding, and which."""
    key_hint: tuple[str, ...] = ()
    title: str | None = None
    description: str | None = None
    notes: tuple[str, ...] = ()

    def tasks(self, columns: Sequence[str] | None = None) -> list[Task]:
        """Return one task; the rows are in it."""
        layout = self.layout.select(columns)
        table = self.table.select(list(layout.schema.names))
        natives = {name: kind for name, kind in self.natives.items() if name in table.schema.names}
        return [task_of(read_frame, table, layout, natives)]


def open_frame(rows: Rows, name: str, options: SourceOptions) -> Source:
    """Return rows as a source by a name, which is read as a file of Parquet would be."""
    from havasu_vc.exchange.geoarrow import NATIVE_ENCODINGS
    from havasu_vc.exchange.layout import CrsNames, GeometryColumn, lay_out

    table, index = arrow_table(rows)
    if not table.column_names:
        raise InvalidArgumentError("these rows have no columns", hints=("give one row at least",))
    found = _geometries(table)
    crs = CrsNames(options.crs)
    geometries = {
        column: GeometryColumn(given.stored_encoding, crs.name(given.crs, WHERE), None, given.edges)
        for column, given in found.items()
    }
    layout = lay_out(table.schema, geometries, options, key_hint=index)
    kept = {field.geometry.crs for field in layout.schema.geometries if field.geometry}
    source = FrameSource(
        name=name,
        schema=layout.schema,
        crs={identifier: wkt for identifier, wkt in crs.wkt.items() if identifier in kept},
        rows=table.num_rows,
        input_bytes=table.nbytes,
        layout=layout,
        table=table,
        natives={n: g.encoding for n, g in found.items() if g.encoding in NATIVE_ENCODINGS},
        key_hint=index,
    )
    if options.bbox is None:
        return source
    from havasu_vc.exchange.sources import windowed

    return windowed(source, options.bbox)


@kernel
def read_frame(
    table: pa.Table, layout: SourceLayout, natives: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """Yield rows that are part of the task itself in stored types."""
    from havasu_vc.exchange.layout import stored_batches
    from havasu_vc.exchange.source import MOST_BATCH_ROWS

    batches = (_as_wkb(batch, natives) for batch in table.to_batches(MOST_BATCH_ROWS))
    yield from stored_batches(batches, layout, WHERE, first_row=1)


def _as_wkb(batch: pa.RecordBatch, natives: Mapping[str, str]) -> pa.RecordBatch:
    """Return a batch with plain columns of WKB instead of GeoArrow's native ones."""
    from havasu_vc.exchange.geoarrow import to_wkb

    columns = [
        to_wkb(column, natives[name], name) if name in natives else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _geometries(table: pa.Table) -> dict[str, FoundGeometry]:
    said = [
        field
        for field in table.schema
        if isinstance(field.type, pa.BaseExtensionType)
        or b"ARROW:extension:name" in (field.metadata or {})
    ]
    if not said:
        return {}
    from havasu_vc.exchange.geoarrow import extension_geometry

    found = {field.name: extension_geometry(field) for field in said}
    return {name: geometry for name, geometry in found.items() if geometry is not None}


def conforming(table: pa.Table, schema: Schema, crs: Mapping[str, str]) -> pa.Table:
    """Return rows for a dataset that is there: Arrow columns, their geometries as it stores them.

    Raises `CrsError` where geometries are said to be in another system than the dataset's column,
    whose definition `crs` has by name.
    """
    for index, field in enumerate(table.schema):
        plain = _VIEWS.get(field.type)  # of Polars and DuckDB; a column of them cannot be sorted
        if plain is not None:
            table = table.set_column(index, field.name, table.column(index).cast(plain))
    if not (geometries := _geometries(table)):
        return table
    from havasu_vc.exchange.geoarrow import NATIVE_ENCODINGS, to_wkb
    from havasu_vc.exchange.layout import stored_geometry

    for name, given in geometries.items():
        column = schema.by_name.get(name)
        if column is None or column.geometry is None:
            has = ", ".join(each.name for each in schema.geometries)
            raise InvalidArgumentError(
                f"the dataset has no geometry column {name!r}",
                hints=(f"rename_geometry({has!r}) of GeoPandas calls it so",) if has else (),
            )
        known = column.geometry.crs
        if given.crs and known and not same_crs(given.crs, crs.get(known, known)):
            said = parse_crs(given.crs).identifier
            raise CrsError(
                f"the rows have {name!r} in {said}, the dataset in {known}",
                hints=("to_crs() of GeoPandas turns one into the other",),
            )
        if given.edges and given.edges != column.edges:
            raise InvalidArgumentError(
                f"the rows join the points of {name!r} by {given.edges} edges, the dataset does not"
            )
        chunks = [
            to_wkb(chunk, given.encoding, name) if given.encoding in NATIVE_ENCODINGS else chunk
            for chunk in table.column(name).chunks
        ]
        stored = [stored_geometry(chunk, given.stored_encoding, column) for chunk in chunks]
        values = pa.chunked_array(stored, arrow_type(column.type))
        table = table.set_column(table.schema.get_field_index(name), name, values)
    return table
