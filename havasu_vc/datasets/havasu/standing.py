"""The state below `files`: which deltas are live, and which were replaced.

A delta is parsed once. Where a table has many, they are parsed when they are asked for, one by
one, and `file_columns` tells which those are.

Whether a tree is sound, told from one that is and from what differs between both.

Whatever breaks a rule of `soundness` has a path that differs from the tree that was sound, so only
that is read: after a commit, its deltas, its markers and its pointers, however many others there
are. Where this cannot tell, all is looked at.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING

from havasu_vc.datasets.folder import Folder, TreeFolder
from havasu_vc.errors import CorruptDatasetError, HavasuError
from havasu_vc.formats.havasu.deltas import (
    ChangedDelta,
    Delta,
    delta_path,
    parse_delta,
    parse_tombstone,
)
from havasu_vc.formats.havasu.entry import Entry
from havasu_vc.formats.havasu.markers import FOLDER as EDITS
from havasu_vc.formats.havasu.markers import Epoch, marks_of, open_epoch
from havasu_vc.formats.havasu.properties import Digest
from havasu_vc.records import dataclass
from havasu_vc.store.objects import EMPTY_TREE, ObjectId
from havasu_vc.store.trees import tree_difference

if TYPE_CHECKING:
    from havasu_vc.datasets.havasu.file_columns import FileColumns, Record

__all__ = [
    "LiveDeltas",
    "LiveFiles",
    "Standing",
    "check_deltas",
    "check_past",
    "delta_of",
    "differing_deltas",
    "is_sound_since",
    "note_read",
    "read_as_last",
    "read_standing",
    "standing_in",
    "table_of",
]

_REMEMBERED = 50_000
_LANE = (1 << 64) - 1
_deltas: dict[tuple[str, ObjectId], Delta | str] = {}
_tombstones: dict[ObjectId, str] = {}
"""The delta that a tombstone names: what one delta replaced has tombstones that are alike."""


def delta_of(folder: Folder, name: str, blob: ObjectId, where: str) -> Delta | str:
    """Return the delta at a path below `files`, or which one replaced it."""
    known = _deltas.get((name, blob))
    if known is not None:
        return known
    identity = name.rpartition("/")[2].removesuffix(".json")
    if name != f"{identity[:2]}/{identity}.json":
        raise CorruptDatasetError(f"{where}/{name}", "this is no name of a delta")
    found: Delta | str | None = _tombstones.get(blob)
    if found is None:
        data = folder.read_blob(blob)
        found = parse_tombstone(data)
        if found is not None and len(_tombstones) < _REMEMBERED:
            _tombstones[blob] = found
        if found is None:
            found = parse_delta(data, identity, f"{where}/{name}")
    if len(_deltas) < _REMEMBERED:
        _deltas[name, blob] = found
    return found


@dataclass(frozen=True, slots=True)
class Standing:
    """The state below `files`."""

    live: Mapping[str, Delta]
    """The live deltas by id."""
    folded: Mapping[str, str]
    """By the id of each delta that was replaced: the one that did."""
    record: Record | None = None
    """Its files as columns, where they are many: none of them is parsed for that."""

    @property
    def parsed(self) -> Iterable[Delta]:
        """The live deltas that are parsed already."""
        return self.live.parsed if isinstance(self.live, LiveDeltas) else self.live.values()

    @property
    def rows(self) -> int:
        """How many rows the table has."""
        if self.record is not None:
            return self.record.rows
        return sum(delta.rows for delta in self.live.values())

    @property
    def marks(self) -> int:
        """The sum of the marks of all live deltas, not yet modulo 2^128."""
        if self.record is not None:
            return self.record.marks
        return sum(delta.marks for delta in self.live.values())

    @property
    def digests(self) -> Mapping[int, Digest]:
        """The sums of the digests of all live deltas."""
        if self.record is not None:
            return self.record.digests
        sums: dict[int, Digest] = {}
        for delta in self.live.values():
            for number, (first, second) in delta.digests.items():
                mine = sums.get(number, (0, 0))
                sums[number] = (mine[0] + first & _LANE, mine[1] + second & _LANE)
        return sums

    def deltas_with(self, files: Collection[str], *, dated: bool = False) -> list[Delta]:
        """Return the live deltas of some files, and if asked those of the epoch, by id."""
        if self.record is None:
            return [
                delta
                for delta in self.live.values()
                if (dated and delta.epoch is not None)
                or any(entry.file in files for entry in delta.files)
            ]
        columns = self.record.columns
        found = {columns.owners[file] for file in files if file in columns.owners}
        if dated:
            found |= {i for i, epoch in zip(columns.ids, columns.epochs, strict=True) if epoch}
        return [self.live[identity] for identity in sorted(found)]


def read_standing(folder: Folder, where: str) -> Standing:
    """Return what stands below `files`, all of it parsed."""
    live: dict[str, Delta] = {}
    folded: dict[str, str] = {}
    for name, blob in folder.blobs("files"):
        found = delta_of(folder, name, blob, where)
        if isinstance(found, Delta):
            live[found.id] = found
        else:
            folded[name.rpartition("/")[2].removesuffix(".json")] = found
    return Standing(live, folded)


def table_of(folder: Folder, where: str) -> str | None:
    """Return the table that all live deltas are of; None where they do not tell one."""
    try:
        tables = {delta.table for delta in read_standing(folder, where).live.values()}
    except HavasuError:
        return None
    return tables.pop() if len(tables) == 1 else None


def standing_in(folder: Folder, where: str, record: Record) -> Standing:
    """Return what stands below `files` in the tree of a record."""
    return Standing(LiveDeltas(folder, record.columns, where), record.folded, record)


class LiveDeltas(Mapping[str, Delta]):
    """Live deltas that are parsed when they are asked for."""

    def __init__(self, folder: Folder, columns: FileColumns, where: str) -> None:
        self._folder = folder
        self._blobs = columns.blobs
        self._where = where
        self._parsed: dict[str, Delta] = {}

    @property
    def parsed(self) -> list[Delta]:
        """Those that were asked for."""
        return list(self._parsed.values())

    def __getitem__(self, identity: str) -> Delta:
        known = self._parsed.get(identity)
        if known is not None:
            return known
        name = delta_path(identity).partition("/")[2]
        found = delta_of(self._folder, name, self._blobs[identity], self._where)
        if not isinstance(found, Delta):  # a record tells which are live, and is of this tree
            raise CorruptDatasetError(self._where, f"the delta {identity[:10]} is a tombstone")
        self._parsed[identity] = found
        return found

    def __contains__(self, identity: object) -> bool:
        return identity in self._blobs

    def __iter__(self) -> Iterator[str]:
        return iter(self._blobs)

    def __len__(self) -> int:
        return len(self._blobs)


class LiveFiles(Mapping[str, Entry]):
    """The files of live deltas by sha256, parsed when they are asked for."""

    def __init__(self, live: Mapping[str, Delta], columns: FileColumns) -> None:
        self._live = live
        self._owners = columns.owners

    def __getitem__(self, file: str) -> Entry:
        for entry in self._live[self._owners[file]].files:
            if entry.file == file:
                return entry
        raise KeyError(file)

    def __contains__(self, file: object) -> bool:
        return file in self._owners

    def __iter__(self) -> Iterator[str]:
        return iter(self._owners)

    def __len__(self) -> int:
        return len(self._owners)


MOST_DIFFERENCES = 20_000
"""Where more files differ, looking at all takes no longer."""
_ALL = (1 << 128) - 1


_NEAR = 64
_read: dict[str, tuple[ObjectId, Standing]] = {}
"""By table: the tree of files that was read last, and its standing."""
_READ = 4


def note_read(files: ObjectId, table: str, standing: Standing) -> None:
    """Remember what stands in a tree, for others of the same table that hardly differ."""
    if len(_read) >= _READ and table not in _read:
        _read.clear()
    _read[table] = (files, standing)


def read_as_last(folder: TreeFolder, where: str, table: str) -> Standing | None:
    """Return what stands below `files`, of which the tree read last has nearly all; else None.

    Whoever reads many versions of a table, one after another, reads of each what differs.
    """
    known = _read.get(table)
    if known is None:
        return None
    files, last = known
    try:
        changed = differing_deltas(folder, files, where, most=_NEAR)
    except CorruptDatasetError:
        return None  # whoever reads all says what is wrong
    live, folded = dict(last.live), dict(last.folded)
    for each in changed:
        live.pop(each.id, None)
        folded.pop(each.id, None)
        if isinstance(each.new, Delta):
            live[each.id] = each.new
        elif each.new is not None:
            folded[each.id] = each.new
    return Standing(dict(sorted(live.items())), dict(sorted(folded.items())))


def differing_deltas(
    new: TreeFolder, files: ObjectId, where: str, *, most: int = MOST_DIFFERENCES
) -> list[ChangedDelta]:
    """Return what differs below `files` from another tree of `files`."""
    return [
        ChangedDelta(
            name.rpartition("/")[2].removesuffix(".json"),
            None if before is None else delta_of(new, name, before, where),
            None if after is None else delta_of(new, name, after, where),
            after,
        )
        for name, before, after in list(_differing(new, files, "files", most=most))
    ]


def is_sound_since(old: TreeFolder, new: TreeFolder, where: str, table: str) -> bool:
    """Whether a tree is surely sound as `old` is, of the same table; False where it may be or not.

    `where` is the place of its `files`, for errors.
    """
    try:
        changed = differing_deltas(new, old.tree_id("files"), where)
        # As a rule tombstones stay for ever, and nothing else goes.
        if any(isinstance(each.old, str) or each.new is None for each in changed):
            return False
        come = [each.new for each in changed if isinstance(each.new, Delta)]
        gone = [each.old for each in changed if isinstance(each.old, Delta)]
        epoch = open_epoch(new.items(EDITS))
        check_deltas(come, epoch, table)
        for delta in come:
            check_past(delta)
        moved = sum(delta.marks for delta in come) - sum(delta.marks for delta in gone)
        return (
            _leads(new, changed, come, where)
            and _marks_moved(old, new, epoch) == moved & _ALL
            and _pointers_moved(old, new, come, gone)
        )
    except CorruptDatasetError:
        # git has dropped that tree, or something is wrong, which is told where all is looked at.
        return False


def check_deltas(deltas: Iterable[Delta], epoch: Epoch, table: str) -> None:
    """Raise unless live deltas are of a table, and those of an epoch of the one that is open."""
    for delta in deltas:
        if delta.table != table:
            raise _breach(f"the delta {delta.id[:10]} is of another table")
        if delta.epoch is not None and delta.epoch != (epoch.number, epoch.opener):
            raise _breach(f"the delta {delta.id[:10]} is of another epoch")


def check_past(delta: Delta) -> None:
    """Raise unless a delta has all that its files were written with."""
    for entry in delta.files:
        if not delta.past.keys() >= {entry.schema, entry.partition_spec, entry.sort_order}:
            raise _breach(f"what the file {entry.file[:10]} was written with is not there")


def _leads(
    new: TreeFolder, changed: Collection[ChangedDelta], come: Iterable[Delta], where: str
) -> bool:
    """Whether tombstones that came lead to what is live, and are there for what came."""
    known: dict[str, Delta | str | None] = {each.id: each.new for each in changed}

    def at(identity: str) -> Delta | str | None:
        if identity not in known:
            name = delta_path(identity).partition("/")[2]
            blob = new.ids("files", (name,)).get(name)
            known[identity] = None if blob is None else delta_of(new, name, blob, where)
        return known[identity]

    if any(at(replaced) != delta.id for delta in come for replaced in delta.replaces):
        return False
    # What one delta replaced has tombstones that are alike, so few are followed.
    for identity in {each.new for each in changed if isinstance(each.new, str)}:
        found, seen = at(identity), {identity}
        while isinstance(found, str) and found not in seen:
            seen.add(found)
            found = at(found)
        if not isinstance(found, Delta):
            return False
    return True


def _marks_moved(old: TreeFolder, new: TreeFolder, epoch: Epoch) -> int | None:
    """Return how the sum of the markers differs; None where more than markers does."""
    came: list[tuple[str, ObjectId]] = []
    went: list[tuple[str, ObjectId]] = []
    folder = f"{epoch.folder}/"
    for name, before, after in _differing(new, old.tree_id(EDITS), EDITS):
        path = f"{EDITS}/{name}"
        if not path.startswith(folder):
            return None
        if before is not None:
            went.append((path, before))
        if after is not None:
            came.append((path, after))
    return (marks_of(came) - marks_of(went)) & _ALL


def _pointers_moved(
    old: TreeFolder, new: TreeFolder, come: Iterable[Delta], gone: Iterable[Delta]
) -> bool:
    """Whether the pointers that came and went are those of the deltas that did."""
    wanted, had = _pointers(come), _pointers(gone)
    if wanted is None or had is None:
        return False
    there, left = set[str](), set[str]()
    for name, before, after in _differing(new, old.tree_id("data"), "data"):
        if before is None:
            there.add(f"data/{name}")
        if after is None:
            left.add(f"data/{name}")
    return there == wanted - had and left == had - wanted


def _pointers(deltas: Iterable[Delta]) -> set[str] | None:
    """Return the pointers of the files of some deltas; None where one stands twice or is linked."""
    entries = list(chain.from_iterable(delta.files for delta in deltas))
    found = {entry.pointer_path for entry in entries}
    linked = any(entry.location is not None for entry in entries)
    return None if linked or len(found) < len(entries) else found


def _differing(
    new: TreeFolder, before: ObjectId, name: str, *, most: int = MOST_DIFFERENCES
) -> Iterator[tuple[str, ObjectId | None, ObjectId | None]]:
    """Yield path, old blob and new blob of what differs below a folder, which had another tree."""
    trees = (before or EMPTY_TREE, new.tree_id(name) or EMPTY_TREE)
    for count, change in enumerate(tree_difference(new.source, *trees)):
        if count > most:
            raise _breach("so much differs that all is looked at")
        if change.old != change.new:
            yield change.path, change.old, change.new


def _breach(reason: str) -> CorruptDatasetError:
    return CorruptDatasetError("the dataset", reason)
