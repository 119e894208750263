"""The rows of a dataset at a revision, in whatever form a program wants them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from havasu_vc.datasets.protocol import Dataset, Predicate
from havasu_vc.errors import InvalidArgumentError, MissingProgramError, UnsupportedTypeError
from havasu_vc.exchange.boxes import box_of
from havasu_vc.geo.wkb import to_canonical
from havasu_vc.geo.wkt import beyond_geos
from havasu_vc.model.arrow import arrow_schema, arrow_type
from havasu_vc.model.evolution import to_source, to_source_table
from havasu_vc.model.schema import Schema

if TYPE_CHECKING:
    import geopandas
    import pandas
    import polars

    from havasu_vc.engine.protocol import Batches
    from havasu_vc.engine.settings import Settings
    from havasu_vc.model.task import Task

__all__ = ["Table", "spread_batches"]


class Table:
    """The rows of one dataset at one revision. Nothing is read until asked for."""

    def __init__(self, dataset: Dataset, settings: Settings) -> None:
        self._dataset = dataset
        self._settings = settings

    @property
    def path(self) -> str:
        """Where the dataset is."""
        return self._dataset.path

    @property
    def schema(self) -> Schema:
        """Its columns."""
        return self._dataset.schema

    @property
    def crs(self) -> dict[str, str]:
        """Coordinate reference systems as WKT, by name."""
        return dict(self._dataset.crs)

    def __len__(self) -> int:
        return self._dataset.rows

    def _repr_html_(self) -> str:
        from havasu_vc.looking.notebook import table_html

        return table_html(self._dataset, self._settings)

    def schema_of(self, columns: Sequence[str] | None) -> Schema:
        """Return some of its columns, in the order given; all without."""
        if columns is None:
            return self.schema
        if isinstance(columns, str):
            raise TypeError("columns are a sequence of names")
        unknown = [name for name in columns if name not in self.schema.by_name]
        if unknown:
            raise InvalidArgumentError(
                f"{self.path} has no column {unknown[0]!r}",
                hints=(f"it has {', '.join(self.schema.names)}",),
            )
        return self.schema.select(tuple(columns))

    def _key(self, values: Sequence[Any]) -> tuple[Any, ...]:
        fields = self.schema.key.fields
        if not fields:
            raise InvalidArgumentError(f"{self.path} has no key")
        if len(values) != len(fields):
            raise InvalidArgumentError(
                f"a key has {len(fields)} values, {values!r} has {len(values)}"
            )
        for value, field in zip(values, fields, strict=True):
            try:
                pa.scalar(value, arrow_type(field.type))
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                raise InvalidArgumentError(
                    f"{value!r} cannot be a key: {field.name!r} is {field.type}"
                ) from error
        return tuple(values)

    def to_batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        keys: Sequence[tuple[Any, ...]] | None = None,
        box: tuple[float, float, float, float] | None = None,
        source_types: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches, in bounded memory.

        `keys` gives only rows with those keys. `box` leaves out files that have nothing
        there; rows outside may still come. `source_types` gives columns the types that
        they were imported with.
        """
        schema = self.schema_of(columns)
        where = Predicate(
            None if keys is None else tuple(map(self._key, keys)),
            None if box is None else box_of(box),
        )
        for batch in self._batches(columns, where):
            yield to_source(batch, schema) if source_types else batch

    def _batches(
        self, columns: Sequence[str] | None, where: Predicate, *, rows: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        with self._settings.open_engine(self._dataset.size) as engine:
            view = self._dataset
            if engine.apart:
                from havasu_vc.datasets.havasu.far import as_seen

                view = as_seen(view)
            tasks, anywhere = view.scan(columns, where), view is not self._dataset
            run = partial(engine.run, description=f"Reading {self.path}", anywhere=anywhere)
            if rows is None:
                yield from run(tasks)
            else:
                # One by one, as what is read ahead is for nothing; at once where a run is a job.
                each = [tasks] if engine.distributed else [[task] for task in _spread(tasks)]
                yield from _some(map(run, each), len(each), rows)

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        *,
        keys: Sequence[tuple[Any, ...]] | None = None,
        box: tuple[float, float, float, float] | None = None,
        source_types: bool = False,
    ) -> pa.Table:
        """Return the rows as one Arrow table, chosen as by `to_batches`.

        With `source_types` a column with values that do not fit any more stays as it is stored.
        """
        schema = self.schema_of(columns)
        batches = list(self.to_batches(columns, keys=keys, box=box))
        table = pa.Table.from_batches(batches, None if batches else arrow_schema(schema))
        return to_source_table(table, schema) if source_types else table

    def to_pandas(
        self,
        columns: Sequence[str] | None = None,
        *,
        keys: Sequence[tuple[Any, ...]] | None = None,
        box: tuple[float, float, float, float] | None = None,
        source_types: bool = True,
    ) -> pandas.DataFrame:
        """Return the rows as a pandas data frame, geometries as WKB."""
        _require("pandas", "geopandas")
        table = self.to_arrow(columns, keys=keys, box=box, source_types=source_types)
        return table.to_pandas()

    def to_geopandas(
        self,
        columns: Sequence[str] | None = None,
        *,
        keys: Sequence[tuple[Any, ...]] | None = None,
        box: tuple[float, float, float, float] | None = None,
        source_types: bool = True,
    ) -> geopandas.GeoDataFrame:
        """Return the rows as a GeoDataFrame, its geometries in the dataset's CRS."""
        geopandas = _require("geopandas", "geopandas")
        names = self.schema.names if columns is None else tuple(columns)
        found = [field for field in self.schema.geometries if field.name in names]
        frame = self.to_pandas(columns, keys=keys, box=box, source_types=source_types)
        table = self.to_arrow([f.name for f in found], keys=keys, box=box) if found else None
        for field in found:
            if table is None or field.geometry is None:
                continue
            column = table.column(field.name).combine_chunks()
            wkb, _ = to_canonical(column, field.geometry.encoding)
            if beyond_geos(wkb).any():
                raise UnsupportedTypeError(
                    field.name,
                    "a value has arcs or is a surface, which GeoPandas does not hold",
                    hints=("to_arrow() gives the values as they are stored",),
                )
            name = field.geometry.crs or ""
            # By its code where it has one: its WKT1 form alone does not give that back.
            known = name.startswith(("EPSG:", "OGC:", "ESRI:"))
            crs = name if known else self.crs.get(name)
            frame[field.name] = geopandas.GeoSeries.from_wkb(
                wkb.to_pandas(), crs=crs, index=frame.index
            )
        geometry = found[0].name if found else None
        return geopandas.GeoDataFrame(frame, geometry=geometry)

    def to_polars(
        self,
        columns: Sequence[str] | None = None,
        *,
        keys: Sequence[tuple[Any, ...]] | None = None,
        box: tuple[float, float, float, float] | None = None,
    ) -> polars.DataFrame:
        """Return the rows as a Polars data frame, geometries as WKB."""
        found = _require("polars", "polars")
        return cast(
            "polars.DataFrame", found.from_arrow(self.to_arrow(columns, keys=keys, box=box))
        )

    def to_duckdb(self, connection: Any = None) -> Any:
        """Return a DuckDB relation, of a connection or of the default one; nothing is read yet.

        DuckDB reads the data files itself: the columns and row groups that a query wants, and
        not the rows that were deleted. Geometries are WKB, or text as they were imported; WKB
        in little-endian order where the connection makes geometries of it in between.
        """
        from havasu_vc.exchange.duckdb import relation

        return relation(self._dataset, connection)


def _require(module: str, extra: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingProgramError(
            f"{module} is not installed", hints=(f"pip install 'havasu-vc[{extra}]'",)
        ) from error


def spread_batches(
    table: Table, columns: Sequence[str], box: tuple[float, float, float, float], rows: int
) -> Iterator[pa.RecordBatch]:
    """Yield rows in a box, as `to_batches` does: of more than `rows`, some from all over it."""
    return table._batches(columns, Predicate(None, box), rows=rows)


def _some(runs: Iterable[Batches], count: int, rows: int) -> Iterator[pa.RecordBatch]:
    """Yield about so many rows of `count` runs, as many of each as there are."""
    for left, batches in zip(range(count, 0, -1), runs, strict=True):
        share = -(-rows // left)
        with closing(batches):
            for batch in batches:
                yield batch
                share, rows = share - len(batch), rows - len(batch)
                if share <= 0:
                    break
        if rows <= 0:
            return


def _spread(tasks: Sequence[Task]) -> list[Task]:
    """Return tasks in another order, of which the first are from everywhere."""
    return [tasks[place] for place in sorted(range(len(tasks)), key=_backwards)]


def _backwards(number: int) -> int:
    """Return a number whose bits stand in the other order: neighbours are far from each other."""
    return int(f"{number:032b}"[::-1], 2)
