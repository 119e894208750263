"""One pass over the change stream of a dataset, and all that a review says of it.

The stream may hold millions of changes; what is kept are counts, and a few rows of each
kind. Work is done a batch and a column at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from havasu_vc.geo.sketching import Measure
from havasu_vc.model.bounds import Bounds
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.diffs import ChangeCounts, DatasetDiff, DatasetHeader
from havasu_vc.model.types import Field
from havasu_vc.records import dataclass
from havasu_vc.review.column_tally import ColumnTally
from havasu_vc.review.flagging import Flagger
from havasu_vc.review.geometry_tally import GeometryTally
from havasu_vc.review.report import (
    Area,
    DatasetFacts,
    DatasetReview,
    Flag,
    FlagKind,
    Sample,
)
from havasu_vc.review.samples import SampleMaker, Sampler
from havasu_vc.review.words import meta_words, quoted
from havasu_vc.writers.protocol import Reproject
from havasu_vc.writers.rows import nonempty
from havasu_vc.writers.values import equal_cells

__all__ = ["Means", "Onlooker", "Seen", "summarise"]

ROOM = 12
"""Rows that are kept for each reason, or more where more are shown."""
_Bools = npt.NDArray[np.bool_]
_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Seen:
    """Findings on the rows of one batch, for those who show them all."""

    batch: ChangeBatch
    """The rows."""
    changed: Mapping[int, _Bools]
    """By field id of columns that changed, in which rows an update changed the cell."""
    flags: Mapping[FlagKind, _Bools]
    """By kind, which rows are odd."""
    distances: _Floats | None = None
    """How far each row moved, NaN where it did not; None without geometries."""
    unit: str = ""
    """The unit of distances."""


class Onlooker(Protocol):
    """Sees each batch of the one pass over the changes."""

    def see(self, seen: Seen) -> None:
        """Take from a batch what is of interest."""


@dataclass(frozen=True, slots=True)
class Means:
    """The means of a review besides the changes."""

    before: DatasetFacts | None = None
    """Facts of the version before; None when it is not known."""
    after: DatasetFacts | None = None
    """Facts of the version after; None when it is not known."""
    measure: Callable[[Field, DatasetHeader], Measure] = lambda field, header: Measure()
    """How to measure in a geometry column."""
    reproject: Reproject | None = None
    """Brings geometries to longitude and latitude; None where they cannot be."""
    samples: int = 40
    """How many rows to show."""
    show: Reproject | None = None
    """Brings the coordinates that are told into another system; None leaves them as they are."""


def summarise(diff: DatasetDiff, means: Means, onlookers: Sequence[Onlooker] = ()) -> DatasetReview:
    """Return what happened to one dataset; its change stream is read, once."""
    observer = _Observer(diff, means, onlookers)
    for batch in nonempty(diff):
        observer.add(batch)
    return observer.review()


class _Observer:
    def __init__(self, diff: DatasetDiff, means: Means, onlookers: Sequence[Onlooker]) -> None:
        self._diff, self._means, self._onlookers = diff, means, onlookers
        old = {} if diff.old is None else diff.old.schema.by_id
        new = {} if diff.new is None else diff.new.schema.by_id
        self._tallies = [ColumnTally(old[number], new[number]) for number in old if number in new]
        self._counts = ChangeCounts()
        self._sampler = Sampler(max(ROOM, means.samples))
        self._flagger = Flagger(diff, means.before)
        self._geometry = self._geometry_of(diff)

    def _geometry_of(self, diff: DatasetDiff) -> GeometryTally | None:
        """Return the tally of the first geometry column, which maps show."""
        old = None if diff.old is None else next(iter(diff.old.schema.geometries), None)
        new = None if diff.new is None else next(iter(diff.new.schema.geometries), None)
        field = new or old
        if field is None:
            return None
        before = self._means.before
        bounds = None if before is None or old is None else before.bounds.get(old.id)
        return GeometryTally(old, new, self._means.measure(field, diff.header), bounds)

    def add(self, batch: ChangeBatch) -> None:
        """Look at some changes."""
        start = self._counts.total
        gone, come = (
            side.is_null().to_numpy(zero_copy_only=False) for side in (batch.new, batch.old)
        )
        both = ~(gone | come)
        self._counts += batch.counts
        sampler = self._sampler
        sampler.offer("deleted", batch, np.flatnonzero(gone), start=start)
        sampler.offer("inserted", batch, np.flatnonzero(come), start=start)
        changed = self._add_columns(batch, both, start)
        flagged: dict[FlagKind, _Bools] = {}
        distances = None
        if self._geometry is not None:
            moved = self._moved(changed, len(batch))
            found = self._geometry.add(batch, moved | gone | come)
            distances = found.distances
            rows = np.flatnonzero(found.distances > 0)
            sampler.offer("moved", batch, rows, start=start, scores=found.distances[rows])
            flagged |= found.rows
        flagged |= self._flagger.look(batch)
        for kind, flags in flagged.items():
            self._offer(kind, batch, flags, start)
        unit = "" if self._geometry is None else self._geometry.unit
        seen = Seen(batch, changed, flagged, distances, unit)
        for onlooker in self._onlookers:
            onlooker.see(seen)

    def _moved(self, changed: Mapping[int, _Bools], count: int) -> _Bools:
        """Return in which rows a geometry changed."""
        moved = np.zeros(count, np.bool_)
        for tally in self._tallies:
            if tally.geometry and tally.new.id in changed:
                moved |= changed[tally.new.id]
        return moved

    def _add_columns(self, batch: ChangeBatch, both: _Bools, start: int) -> dict[int, _Bools]:
        """Compare updated rows column by column; return by field id which rows differ."""
        changed: dict[int, _Bools] = {}
        if not both.any():
            return changed
        rows = np.flatnonzero(both)
        data = batch.data if both.all() else batch.data.take(pa.array(rows))
        updates = ChangeBatch(data)
        for tally in self._tallies:
            old = pc.struct_field(updates.old, tally.old.name)
            new = pc.struct_field(updates.new, tally.new.name)
            differ = pc.invert(equal_cells((tally.old, old), (tally.new, new)))
            if not differ.true_count:
                continue
            tally.add(old.filter(differ), new.filter(differ))
            places = rows[differ.to_numpy(zero_copy_only=False)]
            where = changed[tally.new.id] = np.zeros(len(batch), np.bool_)
            where[places] = True
            self._sampler.offer(f"column {tally.new.id}", batch, places, start=start)
        return changed

    def _offer(self, kind: FlagKind, batch: ChangeBatch, flags: _Bools, start: int) -> None:
        if flags.any():
            rows = np.flatnonzero(flags)
            self._flagger.count(kind, len(rows))
            self._sampler.offer(kind.value, batch, rows, start=start)

    def review(self) -> DatasetReview:
        """Return what was seen."""
        diff, counts = self._diff, self._counts
        state = "added" if diff.old is None else "removed" if diff.new is None else "changed"
        before = _rows(self._means.before, diff.old)
        after = _rows(self._means.after, diff.new)
        changed = sorted(
            (tally for tally in self._tallies if tally.changed), key=lambda tally: -tally.changed
        )
        title = diff.header.meta.get("title")
        maker = SampleMaker(diff, self._means.reproject, self._means.show)
        flags = self._flagger.flags(counts, before, changed)
        with_rows = tuple(
            replace(
                flag,
                message=self._worded(flag),
                rows=tuple(maker.key(kept) for kept in self._sampler.of(flag.kind)[:5]),
            )
            for flag in flags
        )
        return DatasetReview(
            diff.path,
            title if isinstance(title, str) else None,
            state,
            before,
            after,
            counts,
            tuple(meta_words(diff)),
            tuple(tally.review() for tally in changed),
            self._area(),
            with_rows,
            self._samples(changed, maker),
        )

    def _worded(self, flag: Flag) -> str:
        """Return a flag in words; what coordinates are like, the tally of geometries knows."""
        field = next(iter(self._diff.header.schema.geometries), None)
        if flag.kind is not FlagKind.OTHER_COORDINATES or self._geometry is None or field is None:
            return flag.message
        crs = None if field.geometry is None else field.geometry.crs
        where = "another system" if crs is None else f"another system than {quoted(crs)}"
        rows = f"{flag.count:,} row" + ("" if flag.count == 1 else "s")
        return f"{rows} with coordinates of {where}: {self._geometry.others}"

    def _area(self) -> Area | None:
        tally, diff = self._geometry, self._diff
        if tally is None:
            return None
        sides = (side.schema.geometries for side in (diff.new, diff.old) if side is not None)
        field = next(geometries[0] for geometries in sides if geometries)
        return Area(
            tally.touched,
            _bounds(self._means.before, field),
            _bounds(self._means.after, field),
            None if field.geometry is None else field.geometry.crs,
            tally.moved,
            tally.farthest,
            covered=tally.covered,
        )

    def _samples(self, changed: list[ColumnTally], maker: SampleMaker) -> tuple[Sample, ...]:
        """Return rows to show: what is odd, deletes, long moves, rare columns, inserts."""
        words = {kind.value: kind.value.replace("-", " ") for kind in FlagKind}
        rare = sorted(changed, key=lambda tally: tally.changed)
        words |= {"deleted": "deleted", "moved": "moved"}
        words |= {f"column {tally.new.id}": f"{quoted(tally.new.name)} changed" for tally in rare}
        words["inserted"] = "inserted"
        chosen = self._sampler.chosen(words, self._means.samples)
        unit = self._geometry.unit if self._geometry is not None else ""
        maker.label([kept for _, kept in chosen])
        return tuple(maker.sample(kept, words[reason], unit) for reason, kept in chosen)


def _rows(facts: DatasetFacts | None, side: DatasetHeader | None) -> int | None:
    """Return how many rows a version has, where that is known."""
    if side is None:
        return 0
    return None if facts is None else facts.rows


def _bounds(facts: DatasetFacts | None, field: Field) -> Bounds | None:
    return None if facts is None else facts.bounds.get(field.id)
