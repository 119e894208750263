"""The part of each dataset that a living working copy has: all rows, or those inside an area.

The file says itself what area it is limited to, by Kart's hash and, for us, in full; and how many
rows of each table that is, as the dataset's own number says nothing then. The settings of the
repository say what it is to be limited to when `checkout` is asked.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.datasets.protocol import Dataset
from havasu_vc.errors import HavasuError
from havasu_vc.exchange.edit_values import integer_key
from havasu_vc.exchange.living_layer import Layer
from havasu_vc.exchange.living_store import LivingStore
from havasu_vc.geo.areas import FilterArea, parse_area
from havasu_vc.model import compute as pc
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.spatial_filters import RowsInside, read_spatial_filter, rows_inside, was_cloned

__all__ = [
    "Limits",
    "ShownPart",
    "is_as_wanted",
    "limits_of",
    "note_limits",
    "note_rows",
    "outside",
    "part_of",
    "reserve_keys",
    "wanted_area",
]

_HASH, _IN_FULL, _ROWS = "spatial-filter-hash", "havasu-vc-spatial-filter", "havasu-vc-rows"


@dataclass(frozen=True, slots=True)
class Limits:
    """The area that a working copy is limited to."""

    area: FilterArea | None = None
    """It; None for all rows, or where it is not known."""
    fingerprint: str | None = None
    """Its hash; None for all rows."""

    @property
    def is_known(self) -> bool:
        """Whether the area is what the file was written with."""
        return self.fingerprint == (None if self.area is None else self.area.fingerprint)


@dataclass(frozen=True, slots=True)
class ShownPart:
    """The rows of a dataset that a working copy has, its edits aside."""

    inside: RowsInside | None
    """Which these are; None for all."""
    noted: int | None
    """How many they are, where the file says it."""
    is_known: bool = True
    """Whether this is what the file was written with."""
    whole: Dataset | None = None
    """The dataset, where all its rows are of the part."""

    @property
    def rows(self) -> int | None:
        """How many rows there are; None where nobody counted them."""
        return self.noted if self.whole is None else self.whole.rows

    def mask(self, rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Return which of some rows are of the part."""
        if self.inside is None:
            return np.ones(rows.num_rows, np.bool_)
        return self.inside.mask(rows)

    def standing(self, batches: Sequence[ChangeBatch]) -> int:
        """Return how many more rows a table has with some edits than without."""
        count = 0
        for batch in batches:
            there = np.asarray(pc.is_valid(batch.old))
            if self.inside is not None:
                there &= self.inside.mask(batch.old)
            count += len(batch) - batch.new.null_count - int(there.sum())
        return count


def wanted_area(repo: OpenRepo) -> FilterArea | None:
    """Return the area that the settings ask for; None for all rows."""
    return read_spatial_filter(repo.git).area


def is_as_wanted(repo: OpenRepo, file: LivingStore) -> bool:
    """Whether a working copy is limited to what the settings ask for."""
    area = wanted_area(repo)
    return limits_of(repo, file) == Limits(area, None if area is None else area.fingerprint)


def limits_of(repo: OpenRepo, file: LivingStore) -> Limits:
    """Return what a working copy is limited to."""
    fingerprint = file.state("*", _HASH)
    if fingerprint is None:
        return Limits()
    text = file.state("*", _IN_FULL)
    if text is not None:
        crs, _, geometry = text.partition("\n\n")
        area = parse_area(crs, geometry)
        if area.fingerprint == fingerprint:
            return Limits(area, fingerprint)
    # Kart wrote it: the settings have the area, unless somebody changed them since.
    try:
        return Limits(wanted_area(repo), fingerprint)
    except HavasuError:
        return Limits(None, fingerprint)


def note_limits(file: LivingStore, area: FilterArea | None) -> None:
    """Have a working copy say what it is limited to."""
    file.set_state("*", _HASH, None if area is None else area.fingerprint)
    text = None if area is None else f"{area.crs}\n\n{area.wkb.hex()}"
    file.set_state("*", _IN_FULL, text)


def part_of(repo: OpenRepo, file: LivingStore, view: Dataset) -> ShownPart:
    """Return which rows of a dataset a working copy has."""
    limits = limits_of(repo, file)
    if limits.fingerprint is None:
        return ShownPart(None, None, whole=view)
    here = was_cloned(repo.git, limits.area)
    inside = rows_inside(limits.area, view.header, here=here)
    if not limits.is_known:
        return ShownPart(inside, None, is_known=not view.header.schema.geometries)
    if inside is None:
        return ShownPart(None, None, whole=view)
    try:
        noted = json.loads(file.state(file.table_of(view.path), _ROWS) or "null")
        tree, fingerprint, count = noted
        known = [tree, fingerprint] == [_tree(view), limits.fingerprint]
    except (ValueError, TypeError):
        return ShownPart(inside, None)
    return ShownPart(inside, int(count) if known else None)


def reserve_keys(
    repo: OpenRepo, file: LivingStore, layer: Layer, view: Dataset, rows: pa.RecordBatch | None
) -> None:
    """Have keys that an editor is given be none of rows that are hidden: some, or all (None)."""
    name = integer_key(view.schema)
    if name is None:
        return
    highest = None if rows is None else pc.max(rows.column(name)).as_py()
    if rows is None:
        highest = _highest(repo, view, name)
    if highest is not None:
        file.reserve(layer, int(highest))


def _highest(repo: OpenRepo, view: Dataset, name: str) -> int | None:
    """Return the greatest key of a dataset, which files tell where their statistics have it."""
    number = view.schema.by_name[name].id
    if (files := view.in_files) is not None:
        known = [entry.statistics.get(number) for entry in files.data_entries]
        found = [None if each is None else each.upper for each in known]
        if all(isinstance(each, int) for each in found):
            return max((int(str(each)) for each in found), default=None)
    with repo.settings.open_engine(view.size) as engine:
        batches = engine.run(view.scan([name]), description=f"Reading keys of {view.path}")
        each_highest = [pc.max(batch.column(name)).as_py() for batch in batches]
    return max((each for each in each_highest if each is not None), default=None)


def note_rows(
    repo: OpenRepo, file: LivingStore, layer: Layer, view: Dataset, count: int | None = None
) -> None:
    """Have a working copy say how many rows it has of a dataset, its edits aside.

    With None these are counted, where no row of the table is an edit.
    """
    limits = limits_of(repo, file)
    if limits.fingerprint is None:
        return
    if rows_inside(limits.area, view.header) is None:
        file.set_state(layer.table, _ROWS, None)
        return
    if count is None:
        seen = file.look(layer)
        count = 0 if seen is None else file.count(seen)
    file.set_state(layer.table, _ROWS, json.dumps([_tree(view), limits.fingerprint, count]))


def _tree(view: Dataset) -> str:
    return view.folder.tree if isinstance(view.folder, TreeFolder) else ""


def outside(part: ShownPart, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows that are not of a part."""
    return rows.slice(0, 0) if part.inside is None else pc.filter(rows, pa.array(~part.mask(rows)))
