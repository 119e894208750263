"""A source of which only the rows in a box are taken.

The box is in the coordinates of the source, and a row is in it when the box of its
geometry's vertices meets it, or where edges run on the globe what all of it lies in.
Rows without a geometry are in none. West may be east of east: then the box crosses the
anti-meridian. Formats that know where their rows lie leave out what cannot be in the
box before this looks at each row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.exchange.source import Box, Source
from havasu_vc.geo.bounds import row_bounds
from havasu_vc.geo.globe_bounds import globe_row_bounds, meets_on_globe
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task, task_of
from havasu_vc.model.types import Encoding
from havasu_vc.records import dataclass

__all__ = ["WindowedSource", "meets", "windowed"]


def windowed(source: Source, box: Box) -> WindowedSource:
    """Return the rows of a source that are in a box."""
    geometries = source.schema.geometries
    if not geometries:
        raise InvalidArgumentError(
            f"{source.name} has no geometry column that a box could choose rows by"
        )
    return WindowedSource(source, box, geometries[0].name)


@dataclass(frozen=True, slots=True)
class WindowedSource:
    """Some rows of another source."""

    whole: Source
    """The source."""
    box: Box
    """Where rows are taken."""
    column: str
    """The column of geometries."""

    @property
    def name(self) -> str:
        """As the source is called."""
        return self.whole.name

    @property
    def schema(self) -> Schema:
        """The source's."""
        return self.whole.schema

    @property
    def crs(self) -> Mapping[str, str]:
        """The source's."""
        return self.whole.crs

    @property
    def title(self) -> str | None:
        """The source's."""
        return self.whole.title

    @property
    def description(self) -> str | None:
        """The source's."""
        return self.whole.description

    @property
    def rows(self) -> int | None:
        """Not known before they are read."""
        return None

    @property
    def input_bytes(self) -> int:
        """Size on disk of the whole source."""
        return self.whole.input_bytes

    @property
    def key_hint(self) -> tuple[str, ...]:
        """The source's."""
        return self.whole.key_hint

    @property
    def notes(self) -> tuple[str, ...]:
        """The source's."""
        return self.whole.notes

    def tasks(self, columns: Sequence[str] | None = None) -> list[Task]:
        """Return tasks that yield the rows in the box."""
        read = columns
        if columns is not None and self.column not in columns:
            read = [name for name in self.schema.names if name in {*columns, self.column}]
        field = self.schema.by_name[self.column]
        if field.geometry is None:
            raise ValueError(f"{self.column!r} is no geometry column")
        kept = None if columns is None else self.schema.select(tuple(columns)).names
        how = (self.column, field.geometry.encoding, self.box, kept, field.edges)
        return [task_of(rows_in_box, task, *how) for task in self.whole.tasks(read)]


@kernel
def rows_in_box(
    task: Task,
    column: str,
    encoding: Encoding,
    box: Box,
    kept: tuple[str, ...] | None,
    edges: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task that are in a box, with the columns that are kept."""
    for batch in run_task(task):
        if edges is None:
            inside = meets(box, row_bounds(batch.column(column), encoding))
        else:
            inside = meets_on_globe(box, globe_row_bounds(batch.column(column), encoding, edges))
        if not inside.any():
            continue
        rows = batch if inside.all() else batch.filter(pa.array(inside))
        yield rows if kept is None else rows.select(list(kept))


def meets(box: Box, bounds: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Return which boxes, rows of xmin, ymin, xmax, ymax, meet a box; NaN meets none.

    >>> meets((170, 0, -170, 1), np.array([[175.0, 0, 176, 9], [0, 0, 1, 1]])).tolist()
    [True, False]
    """
    west, south, east, north = box
    within = (bounds[:, 1] <= north) & (bounds[:, 3] >= south)
    after, before = bounds[:, 2] >= west, bounds[:, 0] <= east
    # Also where NaN compares as false both times.
    return np.asarray(within & ((after & before) if west <= east else (after | before)))
