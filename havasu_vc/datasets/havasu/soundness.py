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

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from havasu_vc.datasets.folder import Folder, TreeFolder, documents_of
from havasu_vc.datasets.havasu.standing import (
    Standing,
    delta_of,
    epoch_text,
    read_standing,
    standing_in,
)
from havasu_vc.errors import CorruptDatasetError, UnfinishedMergeError, UnsupportedVersionError
from havasu_vc.formats.havasu.deltas import Delta
from havasu_vc.formats.havasu.entry import Entry
from havasu_vc.formats.havasu.markers import FOLDER as EDITS
from havasu_vc.formats.havasu.markers import Epoch, counted, marks_of, open_epoch
from havasu_vc.formats.havasu.properties import DATASET, parse_properties
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass
from havasu_vc.store.objects import EMPTY_TREE, ObjectId
from havasu_vc.store.sound import is_sound, keeps_records, remember_sound
from havasu_vc.store.trees import tree_difference

if TYPE_CHECKING:
    from havasu_vc.datasets.havasu.file_columns import Record

__all__ = [
    "Settled",
    "check_folder",
    "check_guard",
    "epoch_of",
    "require_format",
    "standing_of",
]

_ALL = (1 << 128) - 1
MANY = 500
"""From so many deltas on a record of the tree is kept (`file_columns`)."""
MANY_MARKERS = 20_000
"""From so many markers on one is kept."""
MOST_DIFFERENCES = 100_000
"""Where more differs from a tree that was sound, all is looked at."""
MOST_EDITS = 500_000
"""An epoch is closed long before it has so many markers."""
_sound: set[str] = set()
_unsound: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Settled:
    """The files of a dataset, each delete with a place of its own (`settling`)."""

    entries: Mapping[str, Entry]
    """By sha256."""
    origins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The delete files that one which was derived stands for."""


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
        if (
            memory is None
            or not isinstance(folder, TreeFolder)
            or not _check_since(folder, path, memory, *_documents(folder, path))
        ):
            _check(folder, path, memory)
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


def _check(folder: Folder, path: str, memory: Path | None) -> None:
    table, schema = _documents(folder, path)
    standing = read_standing(folder, f"{path}/files")
    epoch = epoch_of(folder)
    _check_deltas(standing.live.values(), epoch, table)
    _check_replaced(standing.live, standing.live.values(), standing.folded)
    markers = _markers(folder)
    try:
        found = marks_of(counted(epoch, markers))
    except ValueError as error:
        raise _breach(str(error)) from error
    if sum(delta.marks for delta in standing.live.values()) & _ALL != found:
        raise _breach("its markers are not those of its deltas")
    _check_pointers(folder, standing)
    many = len(standing.live) + len(standing.folded) >= MANY or len(markers) >= MANY_MARKERS
    if many and memory is not None and isinstance(folder, TreeFolder):
        from havasu_vc.datasets.havasu.file_columns import keep_record, record_of

        keep_record(memory, record_of(folder, standing, table, schema, epoch, found))


def standing_of(folder: Folder, path: str, memory: Path, table: str, schema: Schema) -> Standing:
    """Return what stands below `files`; where that is much, and sound, there is a record of it."""
    if not isinstance(folder, TreeFolder):
        return read_standing(folder, f"{path}/files")
    where = f"{path}/files"
    sound = folder.tree in _sound or is_sound(memory, folder.tree)
    if sound and keeps_records(memory):
        from havasu_vc.datasets.havasu.file_columns import Spans, find_record

        spans, files = Spans.of(schema), folder.tree_id("files")
        record = find_record(memory, table, files, spans)
        if record is None and _check_since(folder, path, memory, table, schema):
            record = find_record(memory, table, files, spans)
        if record is not None:
            return standing_in(folder, where, record)
    standing = read_standing(folder, where)
    if sound and len(standing.live) + len(standing.folded) >= MANY:
        from havasu_vc.datasets.havasu.file_columns import keep_record, record_of

        marks = sum(delta.marks for delta in standing.live.values()) & _ALL
        keep_record(memory, record_of(folder, standing, table, schema, epoch_of(folder), marks))
    return standing


def _documents(folder: Folder, path: str) -> tuple[str, Schema]:
    """Return the table-uuid and the columns."""
    from havasu_vc.formats.havasu.schema import FOLDER as COLUMNS
    from havasu_vc.formats.havasu.schema import parse_columns

    properties = parse_properties(folder.read(DATASET) or b"", f"{path}/{DATASET}")
    schema, _ = parse_columns(documents_of(folder, COLUMNS), f"{path}/{COLUMNS}")
    return properties.table_uuid, schema


def _check_since(folder: TreeFolder, path: str, memory: Path, table: str, schema: Schema) -> bool:
    """Check what differs from a tree that was sound; False where all must be looked at.

    Whatever breaks a rule has a path that differs, so nothing else is read.
    """
    if not keeps_records(memory):
        return False
    from havasu_vc.datasets.havasu.file_columns import (
        Spans,
        keep_record,
        latest_record,
        next_record,
    )

    record = latest_record(memory, table)
    if record is None or record.spans != Spans.of(schema):
        return False
    epoch = epoch_of(folder)
    try:
        files = list(_differing(folder, record, "files"))
        edits = list(_differing(folder, record, "edits"))
        pointers = list(_differing(folder, record, "data"))
    except CorruptDatasetError:
        return False  # git has dropped that tree, or this one is damaged, which is said later
    where = f"{path}/files"
    changed = [
        (
            None if old is None else delta_of(folder, name, old, where),
            None if new is None else delta_of(folder, name, new, where),
            name.rpartition("/")[2].removesuffix(".json"),
            new,
        )
        for name, old, new in files
    ]
    if any(isinstance(old, str) or new is None for old, new, _, _ in changed):
        return False  # as a rule tombstones stay for ever, and nothing else goes
    come = [new for _, new, _, _ in changed if isinstance(new, Delta)]
    gone = [old for old, _, _, _ in changed if isinstance(old, Delta)]
    marks = _marks_since(record, epoch, edits)
    if marks is None or not _agree(record, come, gone, pointers):
        return False
    now = next_record(record, folder, changed, marks)
    live = now.columns.blobs.keys()
    try:
        _check_deltas(come, epoch, table)
        _check_replaced(live, come, now.folded)
        for delta in come:
            _check_past(delta)
    except CorruptDatasetError:
        return False
    moved = sum(d.marks for d in come) - sum(d.marks for d in gone)
    if (record.marks + moved - marks) & _ALL:
        return False
    if now.trees != record.trees:
        keep_record(memory, now)
    return True


def _differing(
    folder: TreeFolder, record: Record, name: str
) -> Iterator[tuple[str, ObjectId | None, ObjectId | None]]:
    """Yield path, old blob and new blob of what differs below a folder since a record."""
    old, new = record.trees[name] or EMPTY_TREE, folder.tree_id(name) or EMPTY_TREE
    for count, change in enumerate(tree_difference(folder.source, old, new)):
        if count > MOST_DIFFERENCES:
            raise _breach("so much differs that all is looked at")
        if change.old != change.new:
            yield change.path, change.old, change.new


def _marks_since(
    record: Record, epoch: Epoch, edits: list[tuple[str, ObjectId | None, ObjectId | None]]
) -> int | None:
    """Return the sum of the markers; None where more than markers of the epoch differs."""
    paths = [f"{EDITS}/{name}" for name, _, _ in edits]
    if epoch_text((epoch.number, epoch.opener)) != record.epoch or any(
        not path.startswith(f"{epoch.folder}/") for path in paths
    ):
        return None
    pairs = list(zip(paths, edits, strict=True))
    come = marks_of((path, new) for path, (_, _, new) in pairs if new is not None)
    gone = marks_of((path, old) for path, (_, old, _) in pairs if old is not None)
    return (record.marks + come - gone) & _ALL


def _agree(
    record: Record,
    come: list[Delta],
    gone: list[Delta],
    pointers: list[tuple[str, ObjectId | None, ObjectId | None]],
) -> bool:
    """Whether the pointers that came and went are those of the deltas that did."""
    new, old = _pointers(come), _pointers(gone)
    if new is None or old is None:
        return False
    there = {f"data/{name}" for name, before, after in pointers if before is None}
    left = {f"data/{name}" for name, before, after in pointers if after is None}
    return there == new - old and left == old - new


def _pointers(deltas: list[Delta]) -> set[str] | None:
    """Return the pointers of the files of some deltas; None where one stands twice or is linked."""
    entries = [entry for delta in deltas for entry in delta.files]
    found = {entry.pointer_path for entry in entries}
    linked = any(entry.location is not None for entry in entries)
    return None if linked or len(found) < len(entries) else found


def _check_deltas(deltas: Iterable[Delta], epoch: Epoch, table: str) -> None:
    for delta in deltas:
        if delta.table != table:
            raise _breach(f"the delta {delta.id[:10]} is of another table")
        if delta.epoch is not None and delta.epoch != (epoch.number, epoch.opener):
            raise _breach(f"the delta {delta.id[:10]} is of another epoch")


def _check_replaced(
    live: Collection[str], deltas: Iterable[Delta], folded: Mapping[str, str]
) -> None:
    """Check what some deltas replaced, and where all tombstones lead."""
    for delta in deltas:
        for replaced in delta.replaces:
            if folded.get(replaced) != delta.id:
                raise _breach(f"the delta {replaced[:10]} was replaced, and it stands there again")
    for replaced, successor in folded.items():
        if successor not in live and successor not in folded:
            raise _breach(f"the delta {replaced[:10]} was replaced by one that is not there")
    lead = set[str]()
    for replaced in folded:
        trail: list[str] = []
        at = replaced
        while at not in live and at not in lead and len(trail) <= len(folded):
            trail.append(at)
            at = folded[at]
        if at not in live and at not in lead:
            raise _breach(f"the delta {replaced[:10]} was replaced by itself in the end")
        lead.update(trail)


def _check_past(delta: Delta) -> None:
    for entry in delta.files:
        if not delta.past.keys() >= {entry.schema, entry.partition_spec, entry.sort_order}:
            raise _breach(f"what the file {entry.file[:10]} was written with is not there")


def _check_pointers(folder: Folder, standing: Standing) -> None:
    seen: set[str] = set()
    wanted: set[str] = set()
    for delta in standing.live.values():
        for entry in delta.files:
            if entry.file in seen:
                raise _breach(f"the file {entry.file[:10]} stands in two deltas")
            seen.add(entry.file)
            if entry.location is None:
                wanted.add(entry.pointer_path)
        _check_past(delta)
    for name, _ in folder.blobs("data"):
        if f"data/{name}" not in wanted:
            raise _breach(f"the pointer of {name.rpartition('/')[2][:10]} is of no delta")
        wanted.remove(f"data/{name}")
    if wanted:
        file = min(wanted).rpartition("/")[2]
        raise _breach(f"the file {file[:10]} has no pointer")


def _markers(folder: Folder) -> list[tuple[str, ObjectId]]:
    """Return what stands in `edits`, as far as that can be a table's."""
    found = list(islice(folder.blobs(EDITS), MOST_EDITS + 2))
    if len(found) > MOST_EDITS + 1:
        raise _breach(f"it has over {MOST_EDITS:,} markers")
    return found


def _breach(reason: str) -> CorruptDatasetError:
    return CorruptDatasetError("the dataset", reason)
