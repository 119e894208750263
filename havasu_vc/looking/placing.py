"""Where rows lie on the map, and which of them a box touches.

A row is where the bounds of its first geometry are: in longitude and latitude where the reference
system is known, otherwise in the dataset's own coordinates. Without geometries it is where its
first raster lies, which tells its system by itself. The bounds of the rows of a few datasets are
remembered by the id of the dataset's tree, under which nothing ever changes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.datasets.protocol import Dataset
from havasu_vc.errors import CrsError, GeometryError, InvalidArgumentError
from havasu_vc.geo.bounds import meets_on_globe, row_bounds
from havasu_vc.looking.describing import extent_of
from havasu_vc.looking.reproject import reprojection
from havasu_vc.looking.tables import Table
from havasu_vc.model import compute as pc
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.records import dataclass
from havasu_vc.repo.differences import diff_revisions
from havasu_vc.repo.opened import OpenRepo

__all__ = ["MOST_PLACED", "Box", "Placing", "RowPlaces", "changes_touch", "row_places"]

Box: TypeAlias = tuple[float, float, float, float]
"""Least x, least y, greatest x, greatest y; west may be greater than east."""
Floats: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]
MAP_CRS = "OGC:CRS84"
MOST_PLACED = 1 << 22
"""Rows of which places are remembered, of all datasets together."""

_placed: OrderedDict[str, RowPlaces] = OrderedDict()
_lock = threading.Lock()


class Placing:
    """How the places of a dataset's rows are told."""

    def __init__(self, header: DatasetHeader) -> None:
        self._header = header
        rasters = (each for each in header.schema.fields if each.raster is not None)
        self.field = next(iter((*header.schema.geometries, *rasters)), None)
        """The column of geometries or rasters; None where there is none."""
        self.of_rasters = self.field is not None and self.field.raster is not None
        """Whether it holds rasters."""
        self._reproject = reprojection(MAP_CRS)[1]
        self.globe = self._is_known()
        """Whether places are in longitude and latitude."""

    def _is_known(self) -> bool:
        if self.field is None or self.of_rasters:
            return self.of_rasters
        kind = arrow_schema(self._header.schema).field(self.field.name).type
        try:
            self._reproject(pa.array([], kind), self.field, self._header)
        except (CrsError, GeometryError):
            return False
        return True

    def bounds(self, column: pa.Array) -> Floats:
        """Return least x, least y, greatest x and greatest y of each geometry; NaN for none."""
        if self.of_rasters:
            return _raster_bounds(column)
        if self.field is None or self.field.geometry is None:
            return np.full((len(column), 4), np.nan)
        try:
            known = self._reproject(column, self.field, self._header) if self.globe else column
            return row_bounds(known, self.field.geometry.encoding)
        except (CrsError, GeometryError):
            return np.full((len(column), 4), np.nan)  # what no map can show is nowhere

    def touch(self, box: Box, bounds: Floats) -> Bools:
        """Return which bounds touch a box."""
        if self.globe:
            return meets_on_globe(box, bounds)
        least, low, most, high = bounds.T
        return np.asarray((least <= box[2]) & (most >= box[0]) & (low <= box[3]) & (high >= box[1]))


@dataclass(frozen=True, slots=True)
class RowPlaces:
    """Where the rows of a dataset at a revision lie."""

    view: Dataset
    """The dataset."""
    keys: pa.Table | None
    """Their keys, sorted; None without a key, when rows are in the order of files."""
    bounds: Floats
    """Their bounds, in the same order."""
    placing: Placing
    """How these are told."""

    def within(self, box: Box) -> npt.NDArray[np.int64]:
        """Return the numbers of the rows that a box touches."""
        return np.flatnonzero(self.placing.touch(box, self.bounds))

    def counted(self, box: Box, columns: int, rows: int) -> list[list[int]]:
        """Return how many rows have their middle in each cell of a box: column, row, count."""
        west, south, east, north = box
        chosen = self.bounds[self.within(box)]
        x, y = (chosen[:, 0] + chosen[:, 2]) / 2, (chosen[:, 1] + chosen[:, 3]) / 2
        if self.placing.globe:
            east += 360.0 * (west > east)
            x = west + np.mod(x - west, 360.0)
        across, up = max(east - west, 1e-300), max(north - south, 1e-300)
        i = np.clip((x - west) / across * columns, 0, columns - 1).astype(np.int64)
        j = np.clip((y - south) / up * rows, 0, rows - 1).astype(np.int64)
        cells, counts = np.unique(j * columns + i, return_counts=True)
        found: list[list[int]] = np.column_stack(
            [cells % columns, cells // columns, counts]
        ).tolist()
        return found


def row_places(repo: OpenRepo, path: str, revision: str = "HEAD") -> RowPlaces:
    """Return where the rows of a dataset lie, in the order in which pages have them."""
    view = repo.dataset(path, revision)
    identity = repo.folders(repo.resolve(revision))[view.path].internals
    with _lock:
        if identity in _placed:
            _placed.move_to_end(identity)
            return _placed[identity]
    if view.rows > MOST_PLACED:
        raise InvalidArgumentError(
            f"{path} has more than {MOST_PLACED:,} rows, too many to find by their place",
            hints=("`havasu-vc export` writes those of a box to a file",),
        )
    found = _read(repo, view)
    with _lock:
        _placed[identity] = found
        while len(_placed) > 1 and sum(len(each.bounds) for each in _placed.values()) > MOST_PLACED:
            _placed.popitem(last=False)
    return found


def _read(repo: OpenRepo, view: Dataset) -> RowPlaces:
    placing, names = Placing(view.header), list(view.key.names)
    column = None if placing.field is None else placing.field.name
    wanted = list(dict.fromkeys([*names, *([column] if column else [])]))
    parts, keys = [np.zeros((0, 4))], []
    for batch in _batches(repo, view, wanted, placing):
        parts.append(
            np.full((len(batch), 4), np.nan)
            if column is None
            else placing.bounds(batch.column(column))
        )
        keys.append(batch.select(names))
    bounds = np.concatenate(parts)
    if not names:
        return RowPlaces(view, None, bounds, placing)
    table = pa.Table.from_batches(keys, arrow_schema(view.schema.select(tuple(names))))
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names])
    return RowPlaces(view, pc.take(table, order), bounds[order.to_numpy()], placing)


def _batches(
    repo: OpenRepo, view: Dataset, names: Sequence[str], placing: Placing
) -> Iterator[pa.RecordBatch]:
    """Yield some columns of the rows, rasters without their pixels."""
    files = view.in_files
    if not placing.of_rasters or placing.field is None or files is None:
        yield from Table(view, repo.settings).to_batches(list(names))
        return
    from havasu_vc.datasets.havasu.outlines import plan_outlines

    others = [name for name in names if name != placing.field.name]
    with repo.settings.open_engine(0) as engine:
        yield from engine.run(plan_outlines(files, placing.field.name, others))


def _raster_bounds(column: pa.Array) -> Floats:
    from havasu_vc.geo.raster_v1 import raster_headers
    from havasu_vc.geo.raster_v1_outlines import raster_row_bounds

    found = raster_row_bounds(raster_headers(column))
    places = [
        (np.nan,) * 4 if each is None else (each.west, each.south, each.east, each.north)
        for each in found
    ]
    return np.array(places, np.float64).reshape(-1, 4)


def changes_touch(repo: OpenRepo, commit: str, box: Box, filters: Sequence[str] = ()) -> bool:
    """Whether a commit changed a row that lies in a box, before or after."""
    old, new = repo.resolve(f"{commit}^?"), repo.resolve(commit)
    sides = [repo.folders(old), repo.folders(new)]
    there = sides[0].keys() | sides[1].keys()
    # Before a dataset was moved its changes are those of another path.
    named = all(text.partition(":")[0].strip("/") in there for text in filters)
    wanted = filters if named else ()
    for diff in diff_revisions(repo, old, new, wanted, tables_only=True, moves=True):
        headers = {"old": diff.old, "new": diff.new}
        placed = {side: Placing(header) for side, header in headers.items() if header is not None}
        placed = {side: placing for side, placing in placed.items() if placing.field is not None}
        far = [
            _is_far(repo.view(folders[path], revision.name), box)
            for path, folders, revision in zip(
                (diff.moved_from or diff.path, diff.path), sides, (old, new), strict=True
            )
            if path in folders
        ]
        if not placed or all(far):
            continue
        for batch in diff.changes:
            for side, placing in placed.items():
                rows = batch.old_rows() if side == "old" else batch.new_rows()
                assert placing.field is not None
                bounds = placing.bounds(rows.column(placing.field.name))
                if placing.touch(box, bounds).any():
                    return True
    return False


def _is_far(view: Dataset, box: Box) -> bool:
    """Whether no row of a dataset can lie in a box, as far as its files say."""
    extent = extent_of(view)
    if extent is None:
        return False
    bounds = np.array([[extent.west, extent.south, extent.east, extent.north]])
    return not meets_on_globe(box, bounds)[0]
