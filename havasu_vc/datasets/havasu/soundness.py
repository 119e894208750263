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

import shlex
from collections.abc import Mapping
from dataclasses import field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from havasu_vc.datasets.folder import Folder, TreeFolder, documents_of
from havasu_vc.datasets.havasu.standing import (
    Standing,
    check_deltas,
    check_past,
    differing_deltas,
    is_sound_since,
    note_read,
    read_as_last,
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
from havasu_vc.store.objects import ObjectId
from havasu_vc.store.sound import is_sound, keeps_records, last_sound, remember_sound

if TYPE_CHECKING:
    from havasu_vc.datasets.havasu.file_columns import Record

__all__ = [
    "Settled",
    "check_folder",
    "check_guard",
    "columns_in",
    "epoch_of",
    "require_format",
    "standing_of",
    "unlike_its_sums",
]

_ALL = (1 << 128) - 1
MANY = 500
"""From so many deltas on a record of the tree is kept (`file_columns`)."""
MOST_EDITS = 500_000
"""An epoch is closed long before it has so many markers."""
_sound: set[str] = set()
_unsound: dict[str, str] = {}
_REMEMBERED = 1024
_columns: dict[str, tuple[Schema, dict[int, int]]] = {}
"""By tree of columns."""


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
        hint = "`havasu-vc upgrade` makes one commit of format 2; no data file is rewritten"
        if revision not in ("HEAD", "@"):
            hint = (
                "commits before an upgrade stay as they are, so compare from the upgrade's commit "
                "on; `havasu-vc upgrade` makes one where HEAD is of format 1 too"
            )
        raise UnsupportedVersionError(
            f"{path} at {revision} is of dataset format 1, which this version only upgrades",
            hints=(hint,),
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
        table, schema = _documents(folder, path)
        if not _is_sound_since_last(folder, path, memory, table):
            _check(folder, path, memory, table, schema)
    except CorruptDatasetError as error:
        if tree is not None:
            _unsound[tree] = error.reason
        raise UnfinishedMergeError(path, revision, error.reason) from error
    if tree is not None:
        _sound.add(tree)
        if memory is not None:
            remember_sound(memory, tree, _table_blob(folder))


def check_folder(folder: Folder, path: str, revision: str, marker: str, memory: Path) -> None:
    """Raise when a dataset cannot be read; its kind has one `marker`."""
    check_guard(folder, path, revision, memory=memory)


def _check(folder: Folder, path: str, memory: Path | None, table: str, schema: Schema) -> None:
    standing = read_standing(folder, f"{path}/files")
    epoch = epoch_of(folder)
    check_deltas(standing.live.values(), epoch, table)
    _check_replaced(standing.live, standing.folded)
    markers = _markers(folder)
    try:
        found = marks_of(counted(epoch, markers))
    except ValueError as error:
        raise _breach(str(error)) from error
    if sum(delta.marks for delta in standing.live.values()) & _ALL != found:
        raise _breach("its markers are not those of its deltas")
    _check_pointers(folder, standing)
    many = len(standing.live) + len(standing.folded) >= MANY
    if many and memory is not None and isinstance(folder, TreeFolder):
        from havasu_vc.datasets.havasu.file_columns import keep_record, record_of

        keep_record(memory, record_of(folder, standing.live, standing.folded, table, schema))


def standing_of(folder: Folder, path: str, memory: Path, table: str, schema: Schema) -> Standing:
    """Return what stands below `files`; where that is much, and sound, there is a record of it."""
    if not isinstance(folder, TreeFolder):
        return read_standing(folder, f"{path}/files")
    where = f"{path}/files"
    sound = folder.tree in _sound or is_sound(memory, folder.tree)
    recorded = sound and keeps_records(memory)
    if recorded and (record := _record_of(folder, memory, table, schema)) is not None:
        return standing_in(folder, where, record)
    standing = read_as_last(folder, where, table)
    if standing is None and recorded:
        record = _record_since(folder, path, memory, table, schema)
        if record is not None:
            return standing_in(folder, where, record)
    standing = standing or read_standing(folder, where)
    if len(standing.live) + len(standing.folded) < MANY:
        note_read(folder.tree_id("files"), table, standing)
    elif sound:
        from havasu_vc.datasets.havasu.file_columns import keep_record, record_of

        keep_record(memory, record_of(folder, standing.live, standing.folded, table, schema))
    return standing


def _record_of(folder: TreeFolder, memory: Path, table: str, schema: Schema) -> Record | None:
    from havasu_vc.datasets.havasu.file_columns import Spans, find_record

    return find_record(memory, table, folder.tree_id("files"), Spans.of(schema))


def _documents(folder: Folder, path: str) -> tuple[str, Schema]:
    """Return the table-uuid and the columns."""
    properties = parse_properties(folder.read(DATASET) or b"", f"{path}/{DATASET}")
    return properties.table_uuid, columns_in(folder, path)[0]


def columns_in(folder: Folder, path: str, revision: str = "") -> tuple[Schema, dict[int, int]]:
    """Return the columns of a dataset and their places by field id; few trees have others."""
    from havasu_vc.formats.havasu.schema import FOLDER as COLUMNS
    from havasu_vc.formats.havasu.schema import parse_columns

    tree = folder.tree_id(COLUMNS)
    known = _columns.get(tree)
    if known is None:
        at = f" at {revision}" if revision else ""
        known = parse_columns(documents_of(folder, COLUMNS), f"{path}/{COLUMNS}{at}")
        if len(_columns) < _REMEMBERED:
            _columns[tree] = known
    return known


def _table_blob(folder: Folder) -> ObjectId:
    """Return the document that tells trees of one table from those of others."""
    return folder.ids("", (DATASET,)).get(DATASET, "")


def _is_sound_since_last(folder: Folder, path: str, memory: Path | None, table: str) -> bool:
    """Whether what differs from the last tree of this table that was sound tells that this is.

    Where a commit brought 1,000 markers, that takes 14 ms, and 29 among 46,000, of which looking
    at all takes 31 and 110.
    """
    if memory is None or not isinstance(folder, TreeFolder):
        return False
    last = last_sound(memory, _table_blob(folder))
    if last is None:
        return False
    return is_sound_since(TreeFolder(folder.source, last), folder, f"{path}/files", table)


def _record_since(
    folder: TreeFolder, path: str, memory: Path, table: str, schema: Schema
) -> Record | None:
    """Keep a record of a tree that is sound, made from the last one and from what differs."""
    from havasu_vc.datasets.havasu.file_columns import (
        Spans,
        keep_record,
        latest_record,
        next_record,
    )

    record = latest_record(memory, table)
    if record is None or record.spans != Spans.of(schema):
        return None
    try:
        changed = differing_deltas(folder, record.files, f"{path}/files")
    except CorruptDatasetError:
        return None  # git has dropped that tree, or very much differs
    if any(isinstance(each.old, str) or each.new is None for each in changed):
        return None  # as a rule tombstones stay for ever, and nothing else goes
    record = next_record(record, folder, changed)
    keep_record(memory, record)
    return record


def _check_replaced(live: Mapping[str, Delta], folded: Mapping[str, str]) -> None:
    """Check what deltas replaced, and where all tombstones lead."""
    for delta in live.values():
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
        check_past(delta)
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


def unlike_its_sums(path: str) -> CorruptDatasetError:
    """Return what is wrong with a dataset whose rows are not those that it says it has."""
    hint = f"`havasu-vc repair {shlex.quote(path)}` makes the sums anew from the rows"
    return CorruptDatasetError(path, "its rows are not those that its deltas sum up", (hint,))
