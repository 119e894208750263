"""Oddities of a change, in words and in numbers.

Row by row: nulls where there never was one, numbers outside of what the column held,
inserted rows that are alike but for their key. As a whole: many deletes, columns and
datasets that go, coordinates that stay while their system changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.diffs import ChangeCounts, DatasetDiff
from havasu_vc.model.hashing import Hashes, hash_values
from havasu_vc.model.types import Field, Struct, is_number
from havasu_vc.review.column_tally import ColumnTally
from havasu_vc.review.report import DatasetFacts, Flag, FlagKind
from havasu_vc.review.words import quoted

__all__ = ["Flagger", "HashSet"]


MASS_SHARE = 0.1
"""Deleting this share of a dataset is much."""
MASS_ROWS = 10
"""Deleting fewer rows than this never is."""
_Bools = npt.NDArray[np.bool_]


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
        here = batch.new.is_valid()
        yield FlagKind.NEW_NULLS, self._new_nulls(batch, here)
        yield FlagKind.OUT_OF_RANGE, self._out_of_range(batch, here)
        if batch.old.null_count:
            yield FlagKind.DUPLICATES, self._duplicates(batch)

    def _new_nulls(self, batch: ChangeBatch, here: pa.BooleanArray) -> _Bools:
        flags = np.zeros(len(batch), np.bool_)
        for field in self._never_null:
            column = pc.struct_field(batch.new, field.name)
            empty = pc.and_(here, column.is_null())
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
        come = batch.new.take(pa.array(rows))
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
