"""The deltas of a dataset, and whether they and all else that stands there agree.

git puts two sides of a dataset together file by file. Whatever it was told, the result is
either the sum of both or it breaks one of these:

    entries      each is a delta of this table, or a tombstone that leads to one that is
                 live; what a live delta replaces is a tombstone that names that delta
    epoch        a live delta that an edit made is of the epoch that is open
    markers      the live deltas' marks add up to what stands in `edits`
    pointers     each file of a live delta has one, and stands in no other; the delta has
                 what the file was written with
    columns      names and claims agree, and make a schema

A tree that is sound stays so, and is remembered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path

from havasu_vc.datasets.folder import Folder, TreeFolder, documents_of
from havasu_vc.errors import CorruptDatasetError, UnfinishedMergeError, UnsupportedVersionError
from havasu_vc.formats.havasu.deltas import Delta, parse_delta, parse_tombstone
from havasu_vc.formats.havasu.entry import Entry
from havasu_vc.formats.havasu.markers import FOLDER as EDITS
from havasu_vc.formats.havasu.markers import Epoch, counted, marks_of, open_epoch
from havasu_vc.formats.havasu.properties import DATASET, parse_properties
from havasu_vc.records import dataclass
from havasu_vc.store.objects import ObjectId
from havasu_vc.store.sound import is_sound, remember_sound

__all__ = [
    "Settled",
    "Standing",
    "check_folder",
    "check_guard",
    "delta_of",
    "epoch_of",
    "read_standing",
    "require_format",
]

_ALL = (1 << 128) - 1
_REMEMBERED = 50_000
MOST_EDITS = 500_000
"""An epoch is closed long before it has so many markers."""
_deltas: dict[tuple[str, ObjectId], Delta | str] = {}
_tombstones: dict[ObjectId, str] = {}
"""The delta that a tombstone names: what one delta replaced has tombstones that are alike."""
_sound: set[str] = set()
_unsound: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Standing:
    """What stands below `files`."""

    live: dict[str, Delta]
    """The live deltas by id."""
    folded: dict[str, str]
    """By the id of each delta that was replaced: the one that did."""


@dataclass(frozen=True, slots=True)
class Settled:
    """The files of a dataset, each delete with a place of its own (`settling`)."""

    entries: Mapping[str, Entry]
    """By sha256."""
    origins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The delete files that one which was derived stands for."""


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


def read_standing(folder: Folder, where: str) -> Standing:
    """Return what stands below `files`."""
    standing = Standing({}, {})
    for name, blob in folder.blobs("files"):
        found = delta_of(folder, name, blob, where)
        if isinstance(found, Delta):
            standing.live[found.id] = found
        else:
            standing.folded[name.rpartition("/")[2].removesuffix(".json")] = found
    return standing


def epoch_of(folder: Folder) -> Epoch:
    """Return the epoch that is open."""
    return open_epoch(folder.items(EDITS))


def require_format(folder: Folder, path: str, revision: str) -> None:
    """Raise unless a folder holds a dataset of the format that is read here."""
    if folder.read(DATASET) is not None:
        return
    if folder.read("snapshot.json") is not None:
        raise UnsupportedVersionError(
            f"{path} at {revision} is of dataset format 1, which this version only upgrades",
            hints=("`havasu-vc upgrade` makes one commit of format 2; no data file is rewritten",),
        )
    # What git leaves of a dataset that one side moved or removed and the other edited.
    raise UnfinishedMergeError(path, revision, f"it has no {DATASET}")


def check_guard(folder: Folder, path: str, revision: str, *, memory: Path | None = None) -> None:
    """Raise `UnfinishedMergeError` unless all that stands in a dataset's folder agrees.

    `memory` is the data folder, where it is remembered which trees are sound.
    """
    tree = folder.tree if isinstance(folder, TreeFolder) else None
    if tree is not None and (tree in _sound or (memory is not None and is_sound(memory, tree))):
        return
    require_format(folder, path, revision)
    if tree is not None and tree in _unsound:
        raise UnfinishedMergeError(path, revision, _unsound[tree])
    try:
        _check(folder, path)
    except CorruptDatasetError as error:
        if tree is not None:
            _unsound[tree] = error.reason
        raise UnfinishedMergeError(path, revision, error.reason) from error
    if tree is not None:
        _sound.add(tree)
        if memory is not None:
            remember_sound(memory, tree)


def check_folder(folder: Folder, path: str, revision: str, marker: str, memory: Path) -> None:
    """Raise when a dataset cannot be read; its kind has one `marker`."""
    check_guard(folder, path, revision, memory=memory)


def _check(folder: Folder, path: str) -> None:
    from havasu_vc.formats.havasu.schema import FOLDER as COLUMNS
    from havasu_vc.formats.havasu.schema import parse_columns

    properties = parse_properties(folder.read(DATASET) or b"", f"{path}/{DATASET}")
    parse_columns(documents_of(folder, COLUMNS), f"{path}/{COLUMNS}")
    standing = read_standing(folder, f"{path}/files")
    epoch = epoch_of(folder)
    _check_deltas(standing, epoch, properties.table_uuid)
    try:
        found = marks_of(counted(epoch, _markers(folder)))
    except ValueError as error:
        raise _breach(str(error)) from error
    if sum(delta.marks for delta in standing.live.values()) & _ALL != found:
        raise _breach("its markers are not those of its deltas")
    _check_pointers(folder, standing)


def _check_deltas(standing: Standing, epoch: Epoch, table: str) -> None:
    live, folded = standing.live, standing.folded
    for delta in live.values():
        if delta.table != table:
            raise _breach(f"the delta {delta.id[:10]} is of another table")
        if delta.epoch is not None and delta.epoch != (epoch.number, epoch.opener):
            raise _breach(f"the delta {delta.id[:10]} is of another epoch")
        for replaced in delta.replaces:
            if folded.get(replaced) != delta.id:
                raise _breach(f"the delta {replaced[:10]} was replaced, and it stands there again")
    for replaced, successor in folded.items():
        if successor not in live and successor not in folded:
            raise _breach(f"the delta {replaced[:10]} was replaced by one that is not there")
    lead = set(live)
    for replaced in folded:
        trail: list[str] = []
        at = replaced
        while at not in lead and len(trail) <= len(folded):
            trail.append(at)
            at = folded[at]
        if at not in lead:
            raise _breach(f"the delta {replaced[:10]} was replaced by itself in the end")
        lead.update(trail)


def _check_pointers(folder: Folder, standing: Standing) -> None:
    seen: set[str] = set()
    wanted: set[str] = set()
    for delta in standing.live.values():
        for entry in delta.files:
            if entry.file in seen:
                raise _breach(f"the file {entry.file[:10]} stands in two deltas")
            seen.add(entry.file)
            if not delta.past.keys() >= {entry.schema, entry.partition_spec, entry.sort_order}:
                raise _breach(f"what the file {entry.file[:10]} was written with is not there")
            if entry.location is None:
                wanted.add(entry.pointer_path)
    for name, _ in folder.blobs("data"):
        if f"data/{name}" not in wanted:
            raise _breach(f"the pointer of {name.rpartition('/')[2][:10]} is of no delta")
        wanted.remove(f"data/{name}")
    if wanted:
        file = min(wanted).rpartition("/")[2]
        raise _breach(f"the file {file[:10]} has no pointer")


def _markers(folder: Folder) -> Iterator[tuple[str, ObjectId]]:
    """Yield what stands in `edits`, as far as that can be a table's."""
    for count, each in enumerate(folder.blobs(EDITS)):
        if count > MOST_EDITS:
            raise _breach(f"it has over {MOST_EDITS:,} markers")
        yield each


def _breach(reason: str) -> CorruptDatasetError:
    return CorruptDatasetError("the dataset", reason)
