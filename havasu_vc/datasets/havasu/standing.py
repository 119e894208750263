"""The state below `files`: which deltas are live, and which were replaced.

A delta is parsed once. Where a table has many, they are parsed when they are asked for, one by
one, and `file_columns` tells which those are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from havasu_vc.datasets.folder import Folder
from havasu_vc.errors import CorruptDatasetError, HavasuError
from havasu_vc.formats.havasu.deltas import Delta, delta_path, parse_delta, parse_tombstone
from havasu_vc.formats.havasu.entry import Entry
from havasu_vc.formats.havasu.properties import Digest
from havasu_vc.records import dataclass
from havasu_vc.store.objects import ObjectId

if TYPE_CHECKING:
    from havasu_vc.datasets.havasu.file_columns import FileColumns, Record

__all__ = [
    "LiveDeltas",
    "LiveFiles",
    "Standing",
    "delta_of",
    "epoch_text",
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


def epoch_text(epoch: tuple[int, str] | None) -> str:
    """Return the epoch of a delta as columns have it."""
    return "" if epoch is None else f"{epoch[0]}:{epoch[1]}"
