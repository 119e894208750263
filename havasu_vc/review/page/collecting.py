"""The changed rows of a page, taken from the batches as they go by.

A page holds the first rows of a change, in the order of their keys, up to a number of
rows and of bytes; beyond that a few thousand odd ones more, because these are what a
reviewer came for. Counts are never cut: the summary knows all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.datasets.protocol import Dataset
from havasu_vc.engine.settings import Settings
from havasu_vc.errors import GeometryError, HavasuError
from havasu_vc.geo.bounds import row_bounds
from havasu_vc.looking import Table, spread_batches
from havasu_vc.model import compute as pc
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.diffs import DatasetDiff
from havasu_vc.model.types import Field
from havasu_vc.records import dataclass
from havasu_vc.review.page.cells import ColumnCells, shown_values
from havasu_vc.review.page.packing import Ints, Packer, sound_texts
from havasu_vc.review.page.places import BOTH, NEW, OLD, Laid, RowShapes
from havasu_vc.review.page.points import SideTexts
from havasu_vc.review.page.texts import pack_texts
from havasu_vc.review.report import DatasetReview, FlagKind
from havasu_vc.review.summarising import BatchFindings
from havasu_vc.review.words import type_words
from havasu_vc.writers.protocol import Reproject
from havasu_vc.writers.rasters import words_of_changes
from havasu_vc.writers.rows import side_of
from havasu_vc.writers.values import key_labels, side_columns

__all__ = ["DatasetRows", "Neighbours", "Page", "PageLimits", "Picture", "Pictures"]

FLAGS = tuple(FlagKind)
"""The bit of each flag."""
INSERT, UPDATE, DELETE = 0, 1, 2
PIECE = 8192
"""Rows that are looked at together."""

_Bools = npt.NDArray[np.bool_]
_Column: TypeAlias = tuple[Field, pa.Array]


@dataclass(frozen=True, slots=True)
class PageLimits:
    """How much a page holds."""

    rows: int = 100_000
    """Changes, of all datasets together."""
    size: int = 64 * 1024 * 1024
    """Bytes of text and shapes, before they are packed."""
    odd_rows: int = 10_000
    """Odd rows that are shown even beyond `rows`."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A small picture of a raster."""

    row: int
    """Which of the rows that were given."""
    side: str
    """`before`, `after` or `difference`."""
    png: bytes
    """The picture."""
    words: str = ""
    """A description, for those who do not see it."""


Pictures: TypeAlias = Callable[[Field, pa.Array | None, pa.Array | None], Iterable[Picture]]
"""From a raster column before and after, null where a row has none, to pictures of it."""


class Page:
    """The rows of a page, dataset by dataset."""

    def __init__(
        self, limits: PageLimits | None = None, *, pictures: Pictures | None = None
    ) -> None:
        limits = limits or PageLimits()
        self.pictures = pictures
        self.rows_left, self.bytes_left = limits.rows, limits.size
        self.odd_left = limits.odd_rows
        self.datasets: list[DatasetRows] = []
        """In the order in which they came."""

    def dataset(self, diff: DatasetDiff, reproject: Reproject | None) -> DatasetRows:
        """Return what takes in the changes of one dataset."""
        found = DatasetRows(self, diff, reproject)
        self.datasets.append(found)
        return found

    def chosen(self, odd: _Bools) -> Ints:
        """Return which of some rows there is room for."""
        if self.bytes_left <= 0:
            return np.zeros(0, np.int64)
        count = min(len(odd), self.rows_left)
        more = count + np.flatnonzero(odd[count:])[: self.odd_left]
        self.rows_left -= count
        self.odd_left -= len(more)
        return np.concatenate([np.arange(count), more])


class DatasetRows:
    """The rows of one dataset; it sees what `summarise` sees."""

    def __init__(self, page: Page, diff: DatasetDiff, reproject: Reproject | None) -> None:
        self._page, self._diff = page, diff
        self.count = 0
        """Rows that are on the page."""
        self._places = RowShapes(diff, reproject)
        self.around = Neighbours(diff, reproject, self._places)
        """Rows that did not change, for the map."""
        self._cells: dict[int, ColumnCells] = {}
        self._kinds: list[npt.NDArray[np.uint8]] = []
        self._flags: list[npt.NDArray[np.uint32]] = []
        self._distances: list[npt.NDArray[np.float32]] = []
        self._keys: list[pa.Array] = []
        self._pictures: list[tuple[str, Picture]] = []
        self._unit = ""

    @property
    def path(self) -> str:
        """Where the dataset is in the repository."""
        return self._diff.path

    def see(self, seen: BatchFindings) -> None:
        """Keep rows of a batch, as long as there is room."""
        self._unit = seen.unit
        for start in range(0, len(seen.batch), PIECE):
            rows = slice(start, start + PIECE)
            length = min(PIECE, len(seen.batch) - start)
            odd = np.zeros(length, np.bool_)
            for flags in seen.flags.values():
                odd |= flags[rows]
            chosen = self._page.chosen(odd)
            if len(chosen):
                self._keep(seen, start + chosen)

    def _keep(self, seen: BatchFindings, rows: Ints) -> None:
        batch = ChangeBatch(pc.take(seen.batch.data, pa.array(rows)))
        come, gone = (
            pc.is_null(side).to_numpy(zero_copy_only=False) for side in (batch.old, batch.new)
        )
        kinds = np.select([come, gone], [INSERT, DELETE], UPDATE).astype(np.uint8)
        flags = np.zeros(len(rows), np.uint32)
        for kind, where in seen.flags.items():
            flags |= where[rows].astype(np.uint32) << FLAGS.index(kind)
        self._kinds.append(kinds)
        self._flags.append(flags)
        if seen.distances is not None:
            self._distances.append(seen.distances[rows].astype(np.float32))
        keys = sound_texts(pc.fill_null(self._labels(batch), ""))
        self._keys.append(keys)
        changed = {number: where[rows] for number, where in seen.changed.items()}
        size = int(pc.sum(pc.binary_length(keys)).as_py()) + self._keep_cells(batch, kinds, changed)
        self._page.bytes_left -= size + self._keep_places(batch, kinds, changed)
        self.count += len(rows)

    def _labels(self, batch: ChangeBatch) -> pa.Array:
        old, new = (
            key_labels(side, side_of(self._diff, new=is_new).schema)
            for is_new, side in ((False, batch.old), (True, batch.new))
        )
        return pc.if_else(pc.is_valid(batch.new), new, old)

    def _keep_cells(
        self, batch: ChangeBatch, kinds: npt.NDArray[np.uint8], changed: dict[int, _Bools]
    ) -> int:
        alone = kinds != UPDATE
        sides = [
            {}
            if side.null_count == len(side)
            else {
                field.id: (field, column)
                for field, column in side_columns(side, side_of(self._diff, new=new).schema)
            }
            for new, side in ((False, batch.old), (True, batch.new))
        ]
        size = 0
        for number in {**sides[0], **sides[1]}:
            where = changed.get(number, np.zeros(len(batch), np.bool_))
            if not (alone.any() or where.any()):
                continue
            found = [side.get(number) for side in sides]
            texts = [None if each is None else shown_values(each[1], each[0]) for each in found]
            if found[0] is not None and found[1] is not None and found[1][0].raster is not None:
                texts[1] = words_of_changes(found[0][1], found[1][1], where.tolist())
            cells = self._cells.setdefault(number, ColumnCells())
            size += cells.add(self.count, (texts[0], texts[1]), changed=where, alone=alone)
            size += self._keep_pictures((found[0], found[1]), where | alone)
        return size

    def _keep_pictures(self, sides: tuple[_Column | None, _Column | None], shown: _Bools) -> int:
        """Keep what rasters look like, in rows that show them; return the bytes."""
        field = next((side[0] for side in sides if side is not None), None)
        if self._page.pictures is None or field is None or field.raster is None:
            return 0
        columns = [None if side is None else pc.if_else(shown, side[1], None) for side in sides]
        found = [
            (field.name, replace(picture, row=self.count + picture.row))
            for picture in self._page.pictures(field, columns[0], columns[1])
        ]
        self._pictures += found
        return sum(len(picture.png) + len(picture.words) for _, picture in found)

    def _keep_places(
        self, batch: ChangeBatch, kinds: npt.NDArray[np.uint8], changed: dict[int, _Bools]
    ) -> int:
        places, size = self._places, 0
        old, new = (
            None if field is None else _values(side, field)
            for side, field in zip((batch.old, batch.new), places.fields, strict=True)
        )
        stays = np.zeros(len(batch), np.bool_)
        if places.one_place and places.fields[1] is not None:
            moved = changed.get(places.fields[1].id)
            stays = kinds == UPDATE if moved is None else (kinds == UPDATE) & ~moved
        elif places.of_rasters and old is not None and new is not None:
            stays = (kinds == UPDATE) & places.same_footprints(old, new)
        self.around.see(old, new)
        if old is not None:
            size += places.add(self.count, old, np.flatnonzero((kinds != INSERT) & ~stays), OLD)
        if new is not None:
            size += places.add(self.count, new, np.flatnonzero((kinds != DELETE) & ~stays), NEW)
            size += places.add(self.count, new, np.flatnonzero(stays), BOTH)
        return size

    def pack(self, packer: Packer, review: DatasetReview) -> dict[str, Any]:
        """Lay out everything and say where it is."""
        laid = self._places.laid()
        return {
            "path": self.path,
            "count": self.count,
            "total": review.counts.total,
            "unit": self._unit,
            "kinds": packer.raw(b"".join(part.tobytes() for part in self._kinds)),
            "flags": packer.numbers(np.concatenate(self._flags or [np.zeros(0, np.uint32)])),
            "distances": packer.numbers(
                _shortened(np.concatenate(self._distances or [np.zeros(0, np.float32)]))
            ),
            "keys": self._packed_keys(packer),
            "columns": [self._column(number, packer, laid) for number in self._order()],
            "places": laid.pack(packer),
            "around": self.around.pack(packer),
            "pictures": [
                {
                    "column": name,
                    "row": each.row,
                    "side": each.side,
                    "words": each.words,
                    "data": packer.raw(each.png),
                }
                for name, each in self._pictures
            ],
        }

    def _packed_keys(self, packer: Packer) -> dict[str, Any]:
        keys = pa.chunked_array(self._keys, pa.large_string()).combine_chunks()
        return pack_texts(packer, [SideTexts(np.arange(len(keys)), keys)])[0]

    def _order(self) -> list[int]:
        """Return columns that have something to show, in the order of the table after."""
        old, new = (side_of(self._diff, new=new).schema.fields for new in (False, True))
        ids = dict.fromkeys(field.id for field in (*new, *old))
        return [number for number in ids if number in self._cells]

    def _mapped(self) -> set[int]:
        """Return the column that the map shows, before and after."""
        return {field.id for field in self._places.fields if field is not None}

    def _column(self, number: int, packer: Packer, laid: Laid) -> dict[str, Any]:
        old, new = (side_of(self._diff, new=new).schema.by_id.get(number) for new in (False, True))
        field = new or old
        assert field is not None
        return {
            "name": field.name,
            "before": None if old is None or old.name == field.name else old.name,
            "type": type_words(field),
            "kind": _kind(field),
            **self._cells[number].pack(
                packer,
                geometry=field.geometry is not None,
                on_map=laid.on_map if number in self._mapped() else None,
            ),
        }


def _shortened(distances: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return distances without their last bits, where the three digits that are shown stay."""
    short = (distances.view(np.uint32) & np.uint32(0xFFFFFF00)).view(np.float32)
    with np.errstate(divide="ignore", invalid="ignore"):
        unit = 10.0 ** (np.floor(np.log10(distances.astype(np.float64))) - 2)
        shown, cut = (np.floor(each / unit + 0.5) for each in (distances, short))
    return np.where(shown == cut, short, distances)


def _kind(field: Field) -> str:
    if field.geometry is not None:
        return "geometry"
    return "raster" if field.raster is not None else "value"


def _values(side: pa.StructArray, field: Field) -> pa.Array:
    return side.flatten()[side.type.get_field_index(field.name)]


# Unchanged rows beside the changed ones, which the map shows in grey.
#
# They tell where a change is, and whether what it touches still fits.
#
# Where changes are few, the rows of the newer version are read once, by the files that lie where
# changes are. What counts as beside is a cell of a coarse grid over the change, so that a row is
# looked at by a few operations whatever the number of changes.


MOST_CHANGES = 2000
"""Beside more changed rows no others are shown."""
MOST = 3000
"""Rows that are shown at most."""
MOST_READ = 1 << 17
"""Rows that are looked at at most; of a larger table, some from everywhere."""
CELLS = 256
"""Cells of the grid across, and as many up."""
_AT_ONCE = 1 << 13

_Floats = npt.NDArray[np.float64]


class Neighbours:
    """The unchanged rows of one dataset that lie beside changed ones."""

    def __init__(self, diff: DatasetDiff, reproject: Reproject | None, places: RowShapes) -> None:
        self._field = places.fields[1]
        self._shapes = RowShapes(diff, reproject)
        self._wanted = places.one_place and places.kind == "globe"
        self._boxes: list[_Floats] = []
        self._changed: list[pa.Array] = []
        self._count = 0
        self.total = 0
        """How many there are, shown or not."""

    def see(self, old: pa.Array | None, new: pa.Array | None) -> None:
        """Look at geometries of changed rows, before and after."""
        for column in (old, new):
            if column is None or not self._wanted or self._field is None:
                continue
            self._count += len(column)
            if self._count > 2 * MOST_CHANGES:
                self._wanted = False
                return
            try:
                self._boxes.append(_bounds(column, self._field))
            except GeometryError:
                continue
        if new is not None and self._wanted:
            self._changed.append(new)

    def read(self, view: Dataset, settings: Settings) -> None:
        """Find them in the newer version; what cannot be read shows none."""
        boxes = np.concatenate([*self._boxes, np.zeros((0, 4))])
        boxes = boxes[np.isfinite(boxes).all(axis=1)]
        if not self._wanted or self._field is None or not len(boxes):
            return
        try:
            found = pa.chunked_array(list(self._beside(view, settings, _Grid(boxes))))
        except (HavasuError, pa.ArrowInvalid):
            return
        self.total = len(found)
        step = max(1, -(-self.total // MOST))
        column = pc.take(found, pa.array(np.arange(0, self.total, step))).combine_chunks()
        self._count = len(column)
        self._shapes.add(0, column, np.arange(len(column)), NEW)

    def _beside(self, view: Dataset, settings: Settings, grid: _Grid) -> Iterator[pa.Array]:
        field, changed = self._field, None
        assert field is not None
        west, south, east, north = grid.whole
        box = (west, south, east, north)
        for batch in spread_batches(Table(view, settings), [field.name], box, MOST_READ):
            column = batch.column(0)
            near = grid.touched_by(_bounds(column, field))
            found = pc.take(column, pa.array(near))
            if changed is None:
                changed = pa.concat_arrays([pa.array([], column.type), *self._changed])
            yield pc.filter(found, pc.invert(pc.is_in(found, value_set=changed)))

    def pack(self, packer: Packer) -> dict[str, Any] | None:
        """Lay out their shapes and say where they are; None where there are none."""
        if not self.total:
            return None
        return {
            "count": self._count,
            "total": self.total,
            "places": self._shapes.laid().pack(packer),
        }


class _Grid:
    """The cells over a change that hold some of it, and those beside them."""

    def __init__(self, boxes: _Floats) -> None:
        least, most = boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)
        sizes = boxes[:, 2:] - boxes[:, :2]
        size = max(float((most - least).max()), float(sizes.max()), 1e-9)
        margin = size / 64 + float(np.median(sizes.max(axis=1)))
        self._origin = least - margin
        # Multiplied, as a division that rounds down takes numpy ten times as long.
        self._cells_each = CELLS / (size + 2 * margin)
        self.whole = (*(least - margin).tolist(), *(most + margin).tolist())
        marked = np.zeros((CELLS + 1, CELLS + 1), np.int32)
        wider = boxes + np.array([-margin, -margin, margin, margin])
        for left, low, right, high in self._cells(wider.T).T.tolist():
            marked[left + 1 : right + 2, low + 1 : high + 2] = 1
        self._sums = marked.cumsum(axis=0).cumsum(axis=1).ravel()

    def _cells(self, edges: _Floats) -> npt.NDArray[np.int64]:
        cells = (edges - np.tile(self._origin, 2)[:, None]) * self._cells_each
        found: npt.NDArray[np.int64] = cells.clip(0, CELLS - 1, out=cells).astype(np.int64)
        return found

    def touched_by(self, boxes: _Floats) -> npt.NDArray[np.int64]:
        """Return the places of those boxes that touch a marked cell."""
        # By so many that what is computed in between stays in the processor's cache.
        starts = range(0, len(boxes), _AT_ONCE)
        found = [self._touched(boxes[start : start + _AT_ONCE]) + start for start in starts]
        return np.concatenate([np.zeros(0, np.int64), *found])

    def _touched(self, boxes: _Floats) -> npt.NDArray[np.int64]:
        # An edge of all boxes after the other: numpy takes half the time for what lies together.
        edges = np.ascontiguousarray(boxes.T)
        west, south, east, north = self.whole
        there = np.isfinite(edges).all(axis=0)
        there &= (edges[0] <= east) & (edges[2] >= west)
        there &= (edges[1] <= north) & (edges[3] >= south)
        near = np.flatnonzero(there)
        left, low, right, high = self._cells(edges.take(near, axis=1))
        sums, across = self._sums, CELLS + 1
        left, right, high = left * across, (right + 1) * across, high + 1
        inside = sums[right + high] - sums[left + high] - sums[right + low] + sums[left + low]
        touched: npt.NDArray[np.int64] = near[inside > 0]
        return touched


def _bounds(column: pa.Array, field: Field) -> _Floats:
    assert field.geometry is not None
    return row_bounds(column, field.geometry.encoding)
