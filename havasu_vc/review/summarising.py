"""One pass over the change stream of a dataset, and all that a review says of it.

The stream may hold millions of changes; what is kept are counts, and a few rows of each
kind. Work is done a batch and a column at a time.

Oddities are told in words and in numbers. Row by row: nulls where there never was one, numbers
outside of what the column held, inserted rows that are alike but for their key. As a whole: many
deletes, columns and datasets that go, coordinates that stay while their system changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.geo.sketching import Measure
from havasu_vc.model import compute as pc
from havasu_vc.model.bounds import Bounds
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.diffs import DatasetDiff, DatasetHeader
from havasu_vc.model.hashing import Hashes, hash_values
from havasu_vc.model.types import Field, Struct, is_number
from havasu_vc.records import dataclass
from havasu_vc.review.geometry_tally import GeometryTally
from havasu_vc.review.report import (
    Area,
    DatasetFacts,
    DatasetReview,
    Flag,
    FlagKind,
    Sample,
)
from havasu_vc.review.samples import ColumnTally, SampleMaker, Sampler
from havasu_vc.review.words import meta_words, quoted
from havasu_vc.writers.protocol import Reproject
from havasu_vc.writers.rows import nonempty
from havasu_vc.writers.values import equal_cells

__all__ = ["BatchFindings", "Flagger", "HashSet", "Means", "Onlooker", "summarise"]

ROOM = 12
"""Rows that are kept for each reason, or more where more are shown."""
_Bools = npt.NDArray[np.bool_]
_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BatchFindings:
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

    def see(self, seen: BatchFindings) -> None:
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
            pc.is_null(side).to_numpy(zero_copy_only=False) for side in (batch.new, batch.old)
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
        seen = BatchFindings(batch, changed, flagged, distances, unit)
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
        data = batch.data if both.all() else pc.take(batch.data, pa.array(rows))
        updates = ChangeBatch(data)
        for tally in self._tallies:
            old = pc.struct_field(updates.old, tally.old.name)
            new = pc.struct_field(updates.new, tally.new.name)
            differ = pc.invert(equal_cells((tally.old, old), (tally.new, new)))
            if not differ.true_count:
                continue
            tally.add(pc.filter(old, differ), pc.filter(new, differ))
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
        return maker.samples([(words[reason], kept) for reason, kept in chosen], unit)


def _rows(facts: DatasetFacts | None, side: DatasetHeader | None) -> int | None:
    """Return how many rows a version has, where that is known."""
    if side is None:
        return 0
    return None if facts is None else facts.rows


def _bounds(facts: DatasetFacts | None, field: Field) -> Bounds | None:
    return None if facts is None else facts.bounds.get(field.id)


MASS_SHARE = 0.1
"""Deleting this share of a dataset is much."""
MASS_ROWS = 10
"""Deleting fewer rows than this never is."""


class Flagger:
    """Collects what is odd about one dataset's changes."""

    def __init__(self, diff: DatasetDiff, before: DatasetFacts | None) -> None:
        self._diff = diff
        self._before = before
        self._rows: dict[FlagKind, int] = {}
        self._nulled: dict[str, int] = {}
        self._beyond: dict[str, int] = {}
        self._seen = HashSet()
        fields = () if diff.old is None or diff.new is None else diff.new.schema.fields
        facts = before or DatasetFacts(0)
        self._never_null = [f for f in fields if facts.rows and facts.nulls.get(f.id) == 0]
        self._ranged = [
            (f, facts.ranges[f.id]) for f in fields if f.id in facts.ranges and is_number(f.type)
        ]
        keys = set(diff.header.schema.identifier_ids)
        self._plain = tuple(f for f in diff.header.schema.fields if f.id not in keys)

    def look(self, batch: ChangeBatch) -> Iterator[tuple[FlagKind, _Bools]]:
        """Yield which rows of a batch are odd, by kind."""
        if self._diff.new is None or batch.new.null_count == len(batch):
            return
        here = pc.is_valid(batch.new)
        yield FlagKind.NEW_NULLS, self._new_nulls(batch, here)
        yield FlagKind.OUT_OF_RANGE, self._out_of_range(batch, here)
        if batch.old.null_count:
            yield FlagKind.DUPLICATES, self._duplicates(batch)

    def _new_nulls(self, batch: ChangeBatch, here: pa.BooleanArray) -> _Bools:
        flags = np.zeros(len(batch), np.bool_)
        for field in self._never_null:
            column = pc.struct_field(batch.new, field.name)
            empty = pc.and_(here, pc.is_null(column))
            if empty.true_count:
                self._nulled[field.name] = self._nulled.get(field.name, 0) + empty.true_count
                flags |= empty.to_numpy(zero_copy_only=False)
        return flags

    def _out_of_range(self, batch: ChangeBatch, here: pa.BooleanArray) -> _Bools:
        """Return which rows hold a number far outside of what the column held before."""
        flags = np.zeros(len(batch), np.bool_)
        for field, (least, greatest) in self._ranged:
            column = pc.struct_field(batch.new, field.name)
            width = greatest - least
            outside = pc.or_(
                pc.less(column, pa.scalar(least - width, pa.float64())),
                pc.greater(column, pa.scalar(greatest + width, pa.float64())),
            )
            beyond = pc.and_(here, pc.fill_null(outside, False))
            if width > 0 and beyond.true_count and not self._is_key(field):
                self._beyond[field.name] = self._beyond.get(field.name, 0) + beyond.true_count
                flags |= beyond.to_numpy(zero_copy_only=False)
        return flags

    def _is_key(self, field: Field) -> bool:
        return field.id in self._diff.header.schema.identifier_ids

    def _duplicates(self, batch: ChangeBatch) -> _Bools:
        """Return which inserted rows were inserted before with another key."""
        flags = np.zeros(len(batch), np.bool_)
        if not self._plain or not self._diff.header.schema.key:
            return flags
        rows = np.flatnonzero(batch.old.is_null().to_numpy(zero_copy_only=False))
        come = pc.take(batch.new, pa.array(rows))
        values = [pc.struct_field(come, field.name) for field in self._plain]
        struct = pa.StructArray.from_arrays(values, [field.name for field in self._plain])
        found = hash_values(struct, Field(1, "row", Struct(self._plain)))
        flags[rows] = self._seen.add(found)
        return flags

    def count(self, kind: FlagKind, rows: int) -> None:
        """Add rows to those of a kind."""
        self._rows[kind] = self._rows.get(kind, 0) + rows

    def flags(
        self, counts: ChangeCounts, rows_before: int | None, changed: Sequence[ColumnTally]
    ) -> list[Flag]:
        """Return everything odd, the gravest first."""
        return [
            *self._about_the_whole(counts, rows_before, changed),
            *(
                Flag(kind, self._words(kind, count), count)
                for kind in FlagKind
                if (count := self._rows.get(kind, 0))
            ),
        ]

    def _about_the_whole(
        self, counts: ChangeCounts, rows_before: int | None, changed: Sequence[ColumnTally]
    ) -> Iterator[Flag]:
        old, new = self._diff.old, self._diff.new
        if new is None:
            rows = "" if rows_before is None else f" with {rows_before:,} rows"
            yield Flag(FlagKind.DATASET_REMOVED, f"the dataset is removed{rows}")
            return
        if counts.deletes >= max(MASS_SHARE * (rows_before or 0), MASS_ROWS):
            share = f" ({_percent(counts.deletes, rows_before)})" if rows_before else ""
            yield Flag(
                FlagKind.MASS_DELETE, f"{counts.deletes:,} rows are deleted{share}", counts.deletes
            )
        if old is None:
            return
        if old.schema.key.names != new.schema.key.names:
            yield Flag(FlagKind.KEY_CHANGED, "the key is another one: rows cannot be told apart")
        for field in old.schema.fields:
            if field.id not in new.schema.by_id:
                yield Flag(FlagKind.COLUMN_REMOVED, f"column {quoted(field.name)} is removed")
        touched = {tally.new.id for tally in changed}
        for field in new.schema.geometries:
            before = old.schema.by_id.get(field.id)
            if before is None or before.geometry is None or field.geometry is None:
                continue
            names = before.geometry.crs, field.geometry.crs
            other = names[0] != names[1] or old.crs.get(names[0] or "") != new.crs.get(
                names[1] or ""
            )
            if other and field.id not in touched:
                yield Flag(
                    FlagKind.CRS_CHANGED,
                    f"the coordinate reference system of {quoted(field.name)} changes "
                    f"({_crs(names[0])} → {_crs(names[1])}) and no coordinate does",
                )

    def _words(self, kind: FlagKind, count: int) -> str:
        rows = f"{count:,} row" + ("" if count == 1 else "s")
        match kind:
            case FlagKind.EMPTIED_GEOMETRY:
                return f"{rows} had a geometry and now have an empty one"
            case FlagKind.INVALID_GEOMETRY:
                return f"{rows} with a geometry that is not valid"
            case FlagKind.FAR_FROM_THE_REST:
                return f"{rows} far from all that the dataset held"
            case FlagKind.MOVED_FAR:
                return f"{rows} moved by more than a tenth of the dataset's extent"
            case FlagKind.NEW_NULLS:
                return (
                    f"{rows} with nulls where there was none before: {_listed(self._nulled, count)}"
                )
            case FlagKind.OUT_OF_RANGE:
                return f"{rows} with numbers far from those before: {_listed(self._beyond, count)}"
            case FlagKind.DUPLICATES:
                return f"{rows} inserted that equal another inserted row but for the key"
            case _:
                return rows


def _percent(part: int, whole: int) -> str:
    return "all there were" if part >= whole else f"{part / whole:.0%} of all"


def _crs(name: str | None) -> str:
    return "none" if name is None else quoted(name)


def _listed(columns: dict[str, int], rows: int) -> str:
    """Return columns, with how many rows each is about where that is not all."""
    return ", ".join(
        quoted(name) if count == rows else f"{quoted(name)} in {count:,}"
        for name, count in columns.items()
    )


# Which hashes of a stream came before, a batch at a time.
#
# Sorted runs, of which two of a size become one: a batch is looked up in a few runs, however
# many batches there were, and each hash is sorted a few times. Runs of a million hashes stay
# as they are, since joining larger ones would take as much memory again as all of them.

MOST = 8_000_000
"""Hashes that are kept, 64 MB; what comes later is only compared with them."""
LONGEST = 1 << 20
"""Hashes of a run, beyond which it is not joined with others."""


class HashSet:
    """The hashes seen so far."""

    def __init__(self, most: int = MOST) -> None:
        self._runs: list[Hashes] = []
        self._left = most

    def add(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Return which hashes came before, in this batch or in one before, and keep them."""
        run, first = np.unique(hashes, return_index=True)
        again = np.ones(len(hashes), np.bool_)
        before = np.zeros(len(run), np.bool_)
        for known in self._runs:
            # Looked up in order, which stays in the processor's cache.
            places = np.minimum(np.searchsorted(known, run), len(known) - 1)
            before |= known[places] == run
        again[first] = before
        if len(run) and self._left >= len(run):
            self._left -= len(run)
            while self._runs and len(self._runs[-1]) <= min(2 * len(run), LONGEST - len(run)):
                run = _joined(self._runs.pop(), run)
            self._runs.append(run)
        return again


def _joined(one: Hashes, other: Hashes) -> Hashes:
    """Return the hashes of two runs that are not empty, in order, each once."""
    both = np.concatenate([one, other])
    both.sort(kind="stable")  # it merges what is in order already
    first = np.ones(len(both), np.bool_)
    np.not_equal(both[1:], both[:-1], out=first[1:])
    return both[first]
