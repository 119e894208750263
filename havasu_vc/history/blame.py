"""Who last changed each row, or each cell: history is walked back from one version.

What is looked for is a set of keys at a commit. Keys of rows that are the same in a
parent are handed to it, to the first such parent where there are several, as git does
with lines; what is left was changed by the commit. A cell came to be with its column,
so a cell whose column a parent lacks goes no further. Sets hold what has been found and
not what is still looked for, so memory follows the changes and not the table.

Sets of keys, by their hashes: some keys, or all but some.

Looking back through history, most rows of a table are never named: what has been found
is small, and what is still looked for is all the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.datasets.chosen import ChosenKeys
from havasu_vc.datasets.digest import hash_keys
from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.datasets.pairing import Mask, equal_columns, pair_rows, same_key
from havasu_vc.datasets.protocol import Dataset, Reading
from havasu_vc.engine.protocol import Engine
from havasu_vc.history.diff import row_changes
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array, distinct
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.hashing import Hashes
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass

__all__ = [
    "ALL",
    "NONE",
    "Blamed",
    "ChosenRows",
    "KeySet",
    "Walked",
    "all_changes",
    "blame",
    "changed_cells",
]

Walked = tuple[str, tuple[str, ...]]
"""A commit and its parents."""
View = Callable[[str], Dataset | None]
"""Gives the dataset at a commit; None where it is not there."""


@dataclass(slots=True)
class Blamed:
    """Which commit last changed each key, for rows or for the cells of one column."""

    commits: list[str] = field(default_factory=list)
    """Commits that some key is blamed on, newest first."""
    rest: int | None = None
    """The commit of all keys that are not named: its place in `commits`."""
    _keys: list[Hashes] = field(default_factory=list)
    _places: list[npt.NDArray[np.int32]] = field(default_factory=list)

    def add(self, commit: str, keys: KeySet) -> None:
        """Blame keys on a commit."""
        place = len(self.commits)
        self.commits.append(commit)
        if keys.but:
            self.rest = place
        else:
            self._keys.append(keys.hashes)
            self._places.append(np.full(len(keys.hashes), place, np.int32))

    def finish(self) -> None:
        """Put the keys in order, once all are there."""
        keys = np.concatenate([np.empty(0, np.uint64), *self._keys])
        places = np.concatenate([np.empty(0, np.int32), *self._places])
        order = np.argsort(keys, kind="stable")
        self._keys, self._places = [keys[order]], [places[order]]

    def places(self, hashes: Hashes) -> npt.NDArray[np.int32]:
        """Return the place in `commits` of each key; -1 for a key that is nowhere."""
        (keys,), (places,) = self._keys, self._places
        found = np.full(len(hashes), -1 if self.rest is None else self.rest, np.int32)
        if len(keys):
            index = np.minimum(np.searchsorted(keys, hashes), len(keys) - 1)
            there = keys[index] == hashes
            found[there] = places[index[there]]
        return found


def blame(
    walk: Iterable[Walked],
    view: View,
    start: str,
    engine: Engine,
    *,
    chosen: ChosenRows | None = None,
    columns: Sequence[int] = (),
) -> list[Blamed]:
    """Return what is to blame for the rows at `start`, or for the cells of each column.

    `walk` gives commits newest first, each after all that were built upon it. `chosen`
    are the rows that are wanted, all of which are there; columns go by field id.
    """
    tracks: list[int | None] = list(columns) or [None]
    wanted = ALL if chosen is None else KeySet(chosen.hashes)
    compare = _Comparison(tracks, engine, chosen)
    found = [Blamed() for _ in tracks]
    pending = {start: [wanted] * len(tracks)}
    for commit, parents in walk:
        sets = pending.pop(commit, None)
        if sets is None:
            continue
        rest = _hand_on(commit, parents, sets, view, compare, pending)
        for blamed, keys in zip(found, rest, strict=True):
            if not keys.empty:
                blamed.add(commit, keys)
        if not pending:
            break
    for blamed in found:
        blamed.finish()
    return found


def _hand_on(
    commit: str,
    parents: Sequence[str],
    sets: list[KeySet],
    view: View,
    compare: _Comparison,
    pending: dict[str, list[KeySet]],
) -> list[KeySet]:
    """Hand the keys that a commit did not change to its parents; return the others."""
    here = view(commit)
    if here is None:
        return [NONE] * len(sets)
    before = [(parent, found) for parent in parents if (found := view(parent)) is not None]
    for parent, old in before:
        if _same_tree(old, here):
            _give(pending, parent, sets)
            return [NONE] * len(sets)
    for parent, old in before:
        if all(keys.empty for keys in sets):
            break
        changed = compare(old, here, sets)
        _give(pending, parent, [k - c for k, c in zip(sets, changed, strict=True)])
        sets = [k & c for k, c in zip(sets, changed, strict=True)]
    return sets


def _same_tree(old: Dataset, new: Dataset) -> bool:
    first, second = old.folder, new.folder
    if first is second:
        return True
    return (
        isinstance(first, TreeFolder)
        and isinstance(second, TreeFolder)
        and first.tree == second.tree
    )


def _give(pending: dict[str, list[KeySet]], commit: str, sets: list[KeySet]) -> None:
    if all(keys.empty for keys in sets):
        return
    known = pending.get(commit, [NONE] * len(sets))
    pending[commit] = [a | b for a, b in zip(known, sets, strict=True)]


class _Comparison:
    """Tells which keys differ between two versions, for rows or for some columns."""

    def __init__(self, tracks: list[int | None], engine: Engine, chosen: ChosenRows | None) -> None:
        self._tracks = tracks
        self._engine = engine
        self._chosen = chosen

    def __call__(self, old: Dataset, new: Dataset, sets: list[KeySet]) -> list[KeySet]:
        """Return the keys that differ, among those that are in the new version."""
        if not same_key(old.schema, new.schema):
            return [ALL] * len(sets)
        known = [track is None or track in old.schema.by_id for track in self._tracks]
        found: list[list[Hashes]] = [[] for _ in self._tracks]
        if any(has and not keys.empty for has, keys in zip(known, sets, strict=True)):
            for batch, hashes in self._changes(old, new):
                there = pc.is_valid(batch.new).to_numpy(zero_copy_only=False)
                for track, pieces in zip(self._tracks, found, strict=True):
                    if track is None:
                        pieces.append(hashes[there])
                    elif track in old.schema.by_id:
                        pieces.append(hashes[there & changed_cells(batch, old, new, track)])
        return [
            KeySet.of(np.concatenate([np.empty(0, np.uint64), *pieces])) if has else ALL
            for has, pieces in zip(known, found, strict=True)
        ]

    def _changes(self, old: Dataset, new: Dataset) -> Iterator[tuple[ChangeBatch, Hashes]]:
        if self._chosen is not None:
            return self._chosen.changes(old, new, live=True)
        return all_changes(old, new, self._engine)


def changed_cells(batch: ChangeBatch, old: Dataset, new: Dataset, column: int) -> Mask:
    """Return which changes are of one column, by field id; rows that come or go have changed."""
    before, after = old.schema.by_id.get(column), new.schema.by_id.get(column)
    both = pc.and_(pc.is_valid(batch.old), pc.is_valid(batch.new))
    changed: Mask = pc.invert(both).to_numpy(zero_copy_only=False)
    if before is not None and after is not None:
        first = pc.struct_field(batch.old, before.name)
        return changed | ~equal_columns(
            first, pc.struct_field(batch.new, after.name), before, after
        )
    # A column that one version lacks is null there.
    for side, field_ in ((batch.old, before), (batch.new, after)):
        if field_ is not None:
            valid: Mask = pc.is_valid(pc.struct_field(side, field_.name)).to_numpy(
                zero_copy_only=False
            )
            changed = changed | valid
    return changed


@dataclass(frozen=True, slots=True)
class KeySet:
    """Some keys, or all but some.

    >>> KeySet.of(np.array([1, 2], np.uint64)) & ALL - KeySet.of(np.array([2], np.uint64))
    KeySet(hashes=array([1], dtype=uint64), but=False)
    """

    hashes: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))
    """Hashes of keys, ascending, each once."""
    but: bool = False
    """Whether it is all keys but these."""

    @classmethod
    def of(cls, hashes: Hashes) -> KeySet:
        """Return the set of some keys, given in any order."""
        return cls(distinct(hashes))

    @property
    def empty(self) -> bool:
        """Whether nothing is in it."""
        return not self.but and not len(self.hashes)

    def __invert__(self) -> KeySet:
        return KeySet(self.hashes, not self.but)

    def __and__(self, other: KeySet) -> KeySet:
        if self.but and other.but:
            return KeySet(_united(self.hashes, other.hashes), True)
        if self.but:
            return other & self
        inside = np.isin(self.hashes, other.hashes, assume_unique=True, invert=other.but)
        return KeySet(self.hashes[inside])

    def __or__(self, other: KeySet) -> KeySet:
        if not self.but and not other.but:
            return KeySet(_united(self.hashes, other.hashes))
        return ~(~self & ~other)

    def __sub__(self, other: KeySet) -> KeySet:
        return self & ~other

    def has(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Return which keys are in it."""
        return np.isin(hashes, self.hashes, invert=self.but)


def _united(first: Hashes, second: Hashes) -> Hashes:
    return distinct(np.concatenate([first, second]))


NONE = KeySet()
"""No key."""
ALL = KeySet(but=True)
"""Every key."""


# The changes between two versions of a dataset, of all rows or of chosen ones, by key.


def all_changes(old: Dataset, new: Dataset, engine: Engine) -> Iterator[tuple[ChangeBatch, Hashes]]:
    """Yield all changes between two versions with the same key, with the hash of each key."""
    for batch in row_changes(old, new, engine):
        yield batch, key_hashes(batch, old.schema, new.schema)


def key_hashes(batch: ChangeBatch, old: Schema, new: Schema) -> Hashes:
    """Return the hash of the key of each change."""
    hashes = np.empty(len(batch), np.uint64)
    comes = pc.is_valid(batch.new).to_numpy(zero_copy_only=False)
    hashes[comes] = hash_keys(batch.new_rows(), new)
    hashes[~comes] = hash_keys(pc.filter(batch.old_rows(), _at(batch, comes)), old)
    return hashes


def _at(batch: ChangeBatch, comes: Mask) -> pa.BooleanArray:
    """Return which of the old rows have no new one."""
    there = pc.is_valid(batch.old).to_numpy(zero_copy_only=False)
    return arrow_array(~comes[there])


class ChosenRows:
    """Rows with some keys, followed through versions of a dataset."""

    def __init__(self, keys: pa.RecordBatch, schema: Schema, engine: Engine) -> None:
        self._chosen = ChosenKeys(keys, schema)
        self._engine = engine

    @property
    def hashes(self) -> Hashes:
        """Hashes of the keys, ascending."""
        return self._chosen.hashes

    def changes(
        self, old: Dataset, new: Dataset, *, live: bool = False
    ) -> Iterator[tuple[ChangeBatch, Hashes]]:
        """Yield the changes of the rows between two versions, with the hash of each key.

        `live` says that all of them are in the new version. Both must have the same key.
        """
        for batch in self._batches(old, new, live=live):
            hashes = key_hashes(batch, old.schema, new.schema)
            wanted = np.isin(hashes, self.hashes)
            if wanted.any():
                chosen = ChangeBatch(pc.filter(batch.data, arrow_array(wanted)))
                yield chosen, hashes[wanted]

    def _batches(self, old: Dataset, new: Dataset, *, live: bool) -> Iterator[ChangeBatch]:
        """Yield changes among which those of the rows are."""
        reading = old.plan_chosen(new, self._chosen, live=live)
        if reading is Reading.CHANGES:
            yield from row_changes(old, new, self._engine)
        elif reading is Reading.ROWS:
            sides = [view.rows_with_keys(self._chosen.of(view.schema)) for view in (old, new)]
            yield from pair_rows(sides[0], sides[1], old.schema, new.schema)

    def rows(self, view: Dataset) -> pa.RecordBatch:
        """Return the rows that a version has."""
        if not same_key(self._chosen.schema, view.schema):
            return pa.RecordBatch.from_pylist([], schema=arrow_schema(view.schema))
        rows = view.rows_with_keys(self._chosen.of(view.schema))
        wanted = np.isin(hash_keys(rows, view.schema), self.hashes)
        return pc.filter(rows, arrow_array(wanted))
