"""Planning a diff of two views: from entries alone, what must be read, and how to pair it.

Rows that may differ are those of data files on one side only, and those at positions
that delete files take away on one side only. Nothing else is opened. A small diff is
one task. A large one is cut into intervals of keys, each a task that reads the row
groups whose range meets it, so that no rows are shuffled. Files that are not in key
order are compared where their row groups match (`aligning`), and the rest is dealt out
by key hash first, which takes an engine.

Row groups of two sides that hold mostly the same rows, found without reading any.

Two releases of a table along a Hilbert curve are in no key order, and still nearly in
the same order as each other. The keys of least hash are the same sample on both sides
and stand together in the key caches; they tell which row groups of one side hold rows
of which of the other. Such groups are compared directly, and only rows that differ or
have no partner there need to be dealt out. The sample proposes, the rows decide: where
it is wrong, or a cache is missing, more rows are dealt out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from havasu_vc.datasets.havasu.deletes import needs_data_files
from havasu_vc.datasets.havasu.kernels import positions_but
from havasu_vc.datasets.havasu.keys import DamagedKeyCache, key_cache_path, open_key_cache
from havasu_vc.datasets.havasu.locate import shared_schema
from havasu_vc.datasets.havasu.parquet import open_parquet, row_group_starts
from havasu_vc.datasets.havasu.pieces import DeletedPiece, FilePiece, Interval, Piece, cut_intervals
from havasu_vc.datasets.havasu.verify import verify_deletes
from havasu_vc.datasets.pairing import same_key
from havasu_vc.formats.havasu.entry import Content, Entry
from havasu_vc.formats.havasu.properties import parse_sort_order
from havasu_vc.model.hashing import Hashes
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task
from havasu_vc.records import dataclass

if TYPE_CHECKING:
    from havasu_vc.datasets.havasu.pieces import Piece
    from havasu_vc.datasets.places import SideSource
    from havasu_vc.datasets.protocol import DatasetInFiles

__all__ = [
    "Alignment",
    "DiffPlan",
    "Matches",
    "MergePlans",
    "align",
    "differing_entries",
    "lies_in_key_order",
    "plan_diff",
    "plan_merge",
]

PAIR = "havasu_vc.datasets.havasu.pieces:pair"
PAIR_PARTS = "havasu_vc.datasets.havasu.pieces:pair_parts"
DIFFERING = "havasu_vc.datasets.havasu.pieces:differing"
ROWS = "havasu_vc.datasets.havasu.pieces:rows"
SMALL_ROWS = 1 << 18
SMALL_BYTES = 24 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class DiffPlan:
    """The pieces to read of two versions, and how to pair their rows."""

    old: tuple[Piece, ...]
    """Rows of the old side that may differ."""
    new: tuple[Piece, ...]
    """Rows of the new side that may differ."""
    old_schema: Schema
    """The old side's columns."""
    new_schema: Schema
    """The new side's columns."""
    intervals: tuple[Interval | None, ...] = (None,)
    """Intervals of keys that are one task each; one None for all in one task."""
    dealt: bool = False
    """Whether rows must be dealt out by key hash before they can be paired."""
    alignment: Alignment | None = None
    """How to compare them then."""
    unverified: tuple[str, ...] = ()
    """Delete files whose rows could not be compared with the data they delete."""

    def tasks(self) -> list[Task]:
        """Return the tasks that pair rows in place, in key order."""
        if not self.old and not self.new:
            return []
        return [
            Task(PAIR, (self.old, self.new, self.old_schema, self.new_schema, interval))
            for interval in self.intervals
        ]

    def halves(self) -> tuple[list[Task], list[Task], list[Task]]:
        """Return tasks whose rows are to be dealt out by `_key`.

        Some yield rows of the old side, some of the new, and some both, half paired.
        """
        schemas = (self.old_schema, self.new_schema)
        matches: Matches = ()
        old, new = self.old, self.new
        if self.alignment is not None:
            matches, old, new = self.alignment.matches, self.alignment.old, self.alignment.new
        return (
            [Task(ROWS, (piece, *schemas, False)) for piece in old],
            [Task(ROWS, (piece, *schemas, True)) for piece in new],
            [Task(DIFFERING, (first, second, *schemas)) for first, second in matches],
        )

    def sides(self) -> tuple[Sequence[SideSource], Sequence[SideSource]]:
        """Return the rows of either side, for an engine that matches them by hashes."""
        return self.old, self.new

    def pair(self, old: Sequence[Task], new: Sequence[Task], half_paired: Sequence[Task]) -> Task:
        """Return the task that pairs rows which were dealt out to one part."""
        return Task(PAIR_PARTS, (old, new, half_paired, self.old_schema, self.new_schema))


def plan_diff(old: DatasetInFiles, new: DatasetInFiles) -> DiffPlan:
    """Return how to find the changes from one view to another."""
    _bring(old, new, *(each.values() for each in _differing(old, new)))
    gone, come = differing_entries(old, new)
    old.bring(gone, deletes=False)
    new.bring(come, deletes=False)
    one_sided = {entry.file for entry in (*gone, *come)}
    back, away = _Deleted(old, _deletes(gone)), _Deleted(new, _deletes(come))
    came_back, went = back.counts(away, one_sided), away.counts(back, one_sided)
    unverified = verify_deletes(old, back.entries, came_back)
    unverified += verify_deletes(new, away.entries, went)
    old_pieces: tuple[Piece, ...] = (*_file_pieces(old, gone), *away.pieces(went, back))
    new_pieces: tuple[Piece, ...] = (*_file_pieces(new, come), *back.pieces(came_back, away))
    plan = DiffPlan(old_pieces, new_pieces, old.schema, new.schema, unverified=tuple(unverified))
    pieces = (*old_pieces, *new_pieces)
    rows, size = sum(piece.count for piece in pieces), sum(piece.size for piece in pieces)
    if rows <= SMALL_ROWS and size <= SMALL_BYTES:
        return plan
    ordered = all(lies_in_key_order(view, entries) for view, entries in ((old, gone), (new, come)))
    if not ordered or not same_key(old.schema, new.schema):
        return replace(
            plan, dealt=True, alignment=align(old, new, gone, come, (old_pieces, new_pieces))
        )
    files = [file for piece in pieces for file in piece.read]
    intervals = cut_intervals(files, new.key.fields[0].id)
    return replace(plan, intervals=intervals)


def differing_entries(old: DatasetInFiles, new: DatasetInFiles) -> tuple[list[Entry], list[Entry]]:
    """Return the files whose rows may differ, as one version has them and as the other has.

    They are in one version alone, or hold values of a column that only the other has.
    """
    gone, come = _differing(old, new)
    before, after = list(_settled(old, new, gone)), list(_settled(new, old, come))
    back = _with_columns_back(old, new) - {entry.file for entry in (*before, *after)}
    return [*before, *_with_deletes(old, back, before)], [*after, *_with_deletes(new, back, after)]


def _differing(
    old: DatasetInFiles, new: DatasetInFiles
) -> tuple[dict[str, Entry], dict[str, Entry]]:
    """Return the files that deltas of one version alone have, and of the other alone."""
    gone: dict[str, Entry] = {}
    come: dict[str, Entry] = {}
    for name, before, after in old.folder.difference(new.folder, "files"):
        if before is not None:
            gone.update((entry.file, entry) for entry in old.entries_at(name, before))
        if after is not None:
            come.update((entry.file, entry) for entry in new.entries_at(name, after))
    # The same file in another delta is the same rows.
    for file in gone.keys() & come.keys():
        del gone[file], come[file]
    return gone, come


def _bring(
    old: DatasetInFiles, new: DatasetInFiles, gone: Iterable[Entry], come: Iterable[Entry]
) -> None:
    """Have files fetched together that make the difference, or tell whether deletes hold."""
    if new.storage.fetcher is None:
        return
    from havasu_vc.datasets.havasu.settling import in_question

    helpful = (*gone, *in_question(old)) if new.storage.on_demand else gone
    before = [entry for entry in helpful if not old.storage.has(entry.file)]
    new.bring(come, deletes=False, helpful=before)


def _settled(
    view: DatasetInFiles, other: DatasetInFiles, found: dict[str, Entry]
) -> Iterator[Entry]:
    """Yield the files that one version alone has, with those that stand for delete files."""
    derived, there = view.derived_files, other.derived_files
    yield from (entry for file, entry in found.items() if file in view.entries)
    yield from (view.entries[file] for file in sorted(derived - there))
    # What has a place there of its own, and none here, differs too.
    for file in sorted(other.stored_files(there) - other.entries.keys()):
        if file in view.entries and file not in found:
            yield view.entries[file]


def _with_columns_back(old: DatasetInFiles, new: DatasetInFiles) -> set[str]:
    """Return the data files of both versions that hold values of columns that only `new` has.

    A dropped column stays in the files that were there before. Where it comes back, as by a
    revert or in a diff that looks backwards, its values do too, and no file tells of it.
    """
    come = new.schema.ids - old.schema.ids
    if come:
        # Nulls add nothing to a sum: a column that was only just added ends here.
        filled = (field for field in new.schema.fields if new.digests[field.id] != (0, 0))
        come &= Schema(tuple(filled)).ids
    if not come:
        return set()
    entries = new.data_entries
    held = {
        name: not come.isdisjoint(new.past_schema(name).ids)
        for name in {entry.schema for entry in entries}
    }
    return {entry.file for entry in entries if held[entry.schema]} & old.entries.keys()


def _with_deletes(view: DatasetInFiles, files: set[str], found: Sequence[Entry]) -> Iterator[Entry]:
    """Yield some data files of a version and what deletes from them, unless found already."""
    known = {entry.file for entry in found}
    for file in sorted(files):
        yield view.entries[file]
        for each in view.deletes.get(file, ()):
            if each.file not in known:
                known.add(each.file)
                yield each


def _deletes(entries: Iterable[Entry]) -> list[Entry]:
    return [entry for entry in entries if entry.content is Content.DELETES]


class _Deleted:
    """The delete files of one version that differ, and how many rows of which files are theirs."""

    def __init__(self, view: DatasetInFiles, entries: list[Entry]) -> None:
        self.view = view
        self.entries = sorted(entries, key=lambda entry: entry.file)
        self.by_file: dict[str, list[Entry]] = {}
        for entry in self.entries:
            for file in entry.targets:
                self.by_file.setdefault(file, []).append(entry)

    def paths(self, file: str) -> tuple[str, ...]:
        """Return the paths of those that take rows from a data file."""
        return tuple(self.view.file_path(entry) for entry in self.by_file.get(file, ()))

    def counts(self, other: _Deleted, one_sided: Set[str]) -> dict[str, int]:
        """Return, by data file of both versions, how many rows these take away, others do not.

        Where both take rows from a file they are compared, if they are few: of many it is
        found out where they are read.
        """
        found = {}
        for file in sorted(self.by_file.keys() - one_sided):
            count = sum(entry.targets[file] for entry in self.by_file[file])
            theirs = sum(entry.targets[file] for entry in other.by_file.get(file, ()))
            if theirs and count + theirs <= SMALL_ROWS:
                beside = other.paths(file)
                count = sum(len(positions_but(path, file, beside)) for path in self.paths(file))
            if count:
                found[file] = count
        return found

    def pieces(self, counts: Mapping[str, int], other: _Deleted) -> Iterator[DeletedPiece]:
        """Yield the rows that these take away, others do not."""
        view = self.view
        for entry in self.entries:
            chosen = {
                file: min(entry.targets[file], counts[file])
                for file in sorted(entry.targets)
                if file in counts
            }
            if not chosen:
                continue
            if view.storage.fetcher is not None and not all(map(view.storage.has, chosen)):
                _bring_originals(view, entry, chosen)
            data = {file: view.place(file) for file in chosen}
            size = entry.size * sum(chosen.values()) // max(entry.rows, 1)
            if any(field.raster is not None for field in view.schema.fields):
                # Rasters are mostly left to the data files, which weigh more than what is here.
                size += sum(_share(view.entries.get(file), chosen[file]) for file in chosen)
            but = {file: other.paths(file) for file in chosen if file in other.by_file}
            yield DeletedPiece(view.file_path(entry), chosen, data, size, but)


def _file_pieces(view: DatasetInFiles, entries: list[Entry]) -> Iterator[FilePiece]:
    deletes = _deletes(entries)
    for entry in sorted(entries, key=lambda entry: entry.file):
        if entry.content is Content.DATA:
            paths = tuple(view.file_path(d) for d in deletes if entry.file in d.targets)
            yield FilePiece(view.file_path(entry), paths, entry.rows, entry.size)


def _share(entry: Entry | None, count: int) -> int:
    return 0 if entry is None else entry.size * count // max(entry.rows, 1)


def _bring_originals(view: DatasetInFiles, entry: Entry, files: Iterable[str]) -> None:
    """Have the data files fetched that a delete file left values to."""
    if needs_data_files(view.file_path(entry), view.schema):
        view.bring([view.entries[file] for file in files], deletes=False)


def lies_in_key_order(view: DatasetInFiles, entries: list[Entry]) -> bool:
    """Whether all large data files of one side are sorted by key."""
    key = tuple(field.id for field in view.key.fields)
    for entry in entries:
        if entry.content is not Content.DATA or entry.rows <= SMALL_ROWS // 4:
            continue
        name = entry.sort_order
        order = parse_sort_order(view.past_document(name), name)
        sorted_by = tuple(f.source_id for f in order.fields if f.transform == "identity")
        if sorted_by[: len(key)] != key or order.is_hilbert:
            return False
    return True


Indices = npt.NDArray[np.int64]
Matches = tuple[tuple[tuple[FilePiece, ...], tuple[FilePiece, ...]], ...]

SHARE = 1 << 10
"""One key in so many is in the sample."""
TASK_BYTES = 48 << 20
"""Bytes of one side that are compared at once, as long as that is more than a row group."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """How two sides are compared: groups that match, and what is left of either side."""

    matches: Matches
    """Pieces of the old side, each with those of the new side that hold mostly their rows."""
    old: tuple[Piece, ...]
    """The rest of the old side."""
    new: tuple[Piece, ...]
    """The rest of the new side."""


@dataclass(frozen=True, slots=True)
class _Sampled:
    """The row groups of one side, numbered through, and the keys sampled from them."""

    pieces: tuple[FilePiece, ...]
    """Each a single row group."""
    sizes: tuple[int, ...]
    """Bytes of each, in memory."""
    hashes: Hashes
    """Hashes of sampled keys."""
    groups: Indices
    """The row group that each is in."""


def align(
    old: DatasetInFiles,
    new: DatasetInFiles,
    gone: Sequence[Entry],
    come: Sequence[Entry],
    pieces: tuple[Sequence[Piece], Sequence[Piece]],
) -> Alignment:
    """Return how to compare the pieces of an old side with those of a new one."""
    before, old_rest = _sampled(old, gone, pieces[0])
    after, new_rest = _sampled(new, come, pieces[1])
    owners = _owners(before, after)
    matches = tuple(_matches(before, after, owners))
    taken = {piece for first, _ in matches for piece in first}
    unowned = (piece for piece, owner in zip(after.pieces, owners, strict=True) if owner < 0)
    return Alignment(
        matches,
        (*old_rest, *(piece for piece in before.pieces if piece not in taken)),
        (*new_rest, *unowned),
    )


def _sampled(
    view: DatasetInFiles, entries: Sequence[Entry], pieces: Sequence[Piece]
) -> tuple[_Sampled, list[Piece]]:
    """Return the row groups of the files whose key cache is here, and the other pieces."""
    known = {view.file_path(e): e for e in entries if e.content is Content.DATA}
    groups: list[FilePiece] = []
    sizes: list[int] = []
    hashes, numbers = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
    rest: list[Piece] = []
    for piece in pieces:
        sample = _sample(view, known[piece.path]) if isinstance(piece, FilePiece) else None
        if sample is None or not isinstance(piece, FilePiece):
            rest.append(piece)
            continue
        with open_parquet(piece.path) as file:
            starts = row_group_starts(file)
            sizes.extend(file.metadata.row_group(n).total_byte_size for n in range(len(starts) - 1))
        hashes.append(sample[0])
        numbers.append(np.searchsorted(starts, sample[1], "right") - 1 + len(groups))
        groups.extend(replace(piece, groups=(number,)) for number in range(len(starts) - 1))
    sampled = _Sampled(tuple(groups), tuple(sizes), np.concatenate(hashes), np.concatenate(numbers))
    return sampled, rest


def _sample(view: DatasetInFiles, entry: Entry) -> tuple[Hashes, Indices] | None:
    path = key_cache_path(view.storage.keys, entry.file, shared_schema(view, entry))
    cache = open_key_cache(path)
    try:
        return None if cache is None else cache.least(((1 << 64) - 1) // SHARE)
    except DamagedKeyCache:
        return None


def _owners(before: _Sampled, after: _Sampled) -> Indices:
    """Return, for each new group, the old one that it shares most with; -1 for little."""
    owners = np.full(len(after.pieces), -1, np.int64)
    if not len(before.hashes) or not len(after.hashes):
        return owners
    order = np.argsort(before.hashes, kind="stable")
    places = np.searchsorted(before.hashes[order], after.hashes)
    partner = order[np.minimum(places, len(order) - 1)]
    met = before.hashes[partner] == after.hashes
    pairs = after.groups[met] * len(before.pieces) + before.groups[partner[met]]
    pairs, counts = np.unique(pairs, return_counts=True)
    # From the least shared to the most, so that the most is what stays.
    ascending = np.argsort(counts, kind="stable")
    new, old = np.divmod(pairs[ascending], len(before.pieces))
    enough = 4 * counts[ascending] >= np.bincount(after.groups, minlength=len(owners))[new]
    owners[new[enough]] = old[enough]
    return owners


def _matches(
    before: _Sampled, after: _Sampled, owners: Indices
) -> Iterator[tuple[tuple[FilePiece, ...], tuple[FilePiece, ...]]]:
    """Yield neighbouring old groups and the new groups they own, as many as may be at once."""
    owned: dict[int, list[int]] = {}
    for group, owner in enumerate(owners.tolist()):
        if owner >= 0:
            owned.setdefault(owner, []).append(group)
    first: list[FilePiece] = []
    second: list[FilePiece] = []
    size = 0
    for number in sorted(owned):
        weight = max(before.sizes[number], sum(after.sizes[group] for group in owned[number]))
        if first and size + weight > TASK_BYTES:
            yield tuple(first), tuple(second)
            first, second, size = [], [], 0
        first.append(before.pieces[number])
        second.extend(after.pieces[group] for group in owned[number])
        size += weight
    if first:
        yield tuple(first), tuple(second)


# The plan of merging a dataset in files: how both sides are compared with the base.


@dataclass(frozen=True, slots=True)
class MergePlans:
    """How both sides are compared with the base."""

    views: tuple[DatasetInFiles, DatasetInFiles, DatasetInFiles]
    """The base, ours and theirs."""
    ours: DiffPlan
    """From the base to ours."""
    theirs: DiffPlan
    """From the base to theirs."""

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """All that is read."""
        return (*self.ours.old, *self.ours.new, *self.theirs.old, *self.theirs.new)

    @property
    def count(self) -> int:
        """How many rows are read."""
        return sum(piece.count for piece in self.pieces)


def plan_merge(base: DatasetInFiles, ours: DatasetInFiles, theirs: DatasetInFiles) -> MergePlans:
    """Return what merging three versions reads."""
    return MergePlans((base, ours, theirs), plan_diff(base, ours), plan_diff(base, theirs))
