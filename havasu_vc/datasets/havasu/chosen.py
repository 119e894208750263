"""Whether chosen rows differ between two versions, told from entries as far as they tell.

A file that came or went holds none of the keys by its range, or by its key cache; a row that
one new file and one old file hold alike was carried over by a fold. Only what is left is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from havasu_vc.datasets.chosen import ChosenKeys
from havasu_vc.datasets.digest import hash_keys
from havasu_vc.datasets.havasu.deletes import deleted_places, read_deleted_keys
from havasu_vc.datasets.havasu.diff import differing_entries
from havasu_vc.datasets.havasu.kernels import deleted_positions
from havasu_vc.datasets.havasu.locate import find_in, may_hold
from havasu_vc.datasets.havasu.verify import verify_deletes
from havasu_vc.datasets.protocol import Reading
from havasu_vc.formats.havasu.entry import Content, Entry
from havasu_vc.model.arrays import among
from havasu_vc.records import dataclass

if TYPE_CHECKING:
    from havasu_vc.datasets.protocol import DatasetInFiles

__all__ = ["plan_chosen"]

MOST_ROWS = 1 << 17
"""Rows of a difference beyond which chosen ones are looked up instead of reading it all."""


@dataclass(frozen=True, slots=True)
class _Difference:
    """Files that are in one version and not in the other."""

    gone: list[Entry]
    come: list[Entry]
    gone_deletes: list[Entry]
    come_deletes: list[Entry]

    @property
    def rows(self) -> int:
        """How many rows they hold."""
        return sum(entry.rows for entry in (*self.gone, *self.come))


def plan_chosen(
    old: DatasetInFiles, new: DatasetInFiles, chosen: ChosenKeys, *, live: bool
) -> Reading:
    """Return what has to be read to have the changes of chosen rows."""
    difference = _difference(old, new)
    if not _may_differ(old, new, chosen, difference, live=live):
        return Reading.NOTHING
    return Reading.CHANGES if difference.rows <= MOST_ROWS else Reading.ROWS


def _difference(old: DatasetInFiles, new: DatasetInFiles) -> _Difference:
    gone, come = differing_entries(old, new)

    def of(entries: list[Entry], content: Content) -> list[Entry]:
        found = (entry for entry in entries if entry.content is content)
        return sorted(found, key=lambda entry: entry.file)

    return _Difference(
        of(gone, Content.DATA),
        of(come, Content.DATA),
        of(gone, Content.DELETES),
        of(come, Content.DELETES),
    )


def _may_differ(
    old: DatasetInFiles,
    new: DatasetInFiles,
    chosen: ChosenKeys,
    difference: _Difference,
    *,
    live: bool,
) -> bool:
    """Whether some row may differ, as far as entries and key caches tell."""
    before = _found(old, chosen, difference.gone, difference.gone_deletes)
    after = _found(new, chosen, difference.come, difference.come_deletes)
    if sorted(before) != sorted(after):
        return True
    carried = {needle for needle, _ in before}
    gone = _deletions(old, chosen, difference.gone_deletes, carried)
    if live and not gone:
        return False
    # What a fold writes again of files that stay is deleted as before.
    come = _deletions(new, chosen, difference.come_deletes, carried)
    replaced = {entry.file for entry in (*difference.gone, *difference.come)}
    return any(file not in replaced for file, _ in (gone - come if live else gone ^ come))


def _found(
    view: DatasetInFiles, chosen: ChosenKeys, entries: list[Entry], deletes: list[Entry]
) -> list[tuple[int, int]]:
    """Return number of the key and hash of the row, of live rows in some files.

    Of files that one version alone has, so are all that delete from them.
    """
    keys = chosen.of(view.schema)
    found: list[tuple[int, int]] = []
    for entry in entries:
        if not may_hold(entry, keys, view.schema):
            continue
        hits = find_in(view, entry, chosen.hashes)
        if not len(hits.positions):
            continue
        paths = tuple(view.file_path(each) for each in deletes if entry.file in each.targets)
        deleted = deleted_positions(entry.file, paths)
        needles, rows = hits.needles, hits.rows
        if deleted is not None:
            live = ~among(hits.positions, deleted)
            needles, rows = needles[live], rows[live]
        found += zip(needles.tolist(), rows.tolist(), strict=True)
    return found


def _deletions(
    view: DatasetInFiles, chosen: ChosenKeys, entries: list[Entry], carried: set[int]
) -> set[tuple[str, int]]:
    """Return the places of rows with one of the keys, those carried over apart, that go."""
    targets = {target: np.empty(0, np.int64) for entry in entries for target in entry.targets}
    verify_deletes(view, entries, targets)
    return {
        (file, position)
        for entry in entries
        for needle, file, position in _deleted_rows(view, chosen, entry)
        if needle not in carried
    }


def _deleted_rows(
    view: DatasetInFiles, chosen: ChosenKeys, entry: Entry
) -> list[tuple[int, str, int]]:
    """Return number of the key, data file and position of what one delete file deletes."""
    found = chosen.deleted.get(entry.file)
    if found is None:
        found = chosen.deleted[entry.file] = []
        path = view.file_path(entry)
        first = 0
        for keys in read_deleted_keys(path, view.schema):
            hashes = hash_keys(keys, view.schema)
            rows = np.flatnonzero(among(hashes, chosen.hashes))
            if len(rows):
                places = deleted_places(path, rows + first)
                needles = np.searchsorted(chosen.hashes, hashes[rows]).tolist()
                found += [(n, *place) for n, place in zip(needles, places, strict=True)]
            first += keys.num_rows
    return found
