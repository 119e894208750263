"""The documents of a change: one delta with its markers, or the end of an epoch.

Files that leave take their delta with them: the new one replaces it, has its other files and
its share of every sum. So an edit that only adds files adds one document, and a fold or a
rewritten file is the same with more in `replaces`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np

from havasu_vc.datasets.digest import Digests
from havasu_vc.datasets.havasu.plan import PAST, past_path
from havasu_vc.formats.havasu.deltas import Delta, delta_path, format_delta, format_tombstone, named
from havasu_vc.formats.havasu.entry import Entry
from havasu_vc.formats.havasu.markers import (
    FOLDER,
    Epoch,
    blob_id,
    counted,
    format_closing,
    format_marker,
    marker_names,
    marks_of,
)
from havasu_vc.formats.havasu.properties import Digest
from havasu_vc.formats.lfs import Pointer, format_pointer
from havasu_vc.model.arrays import distinct
from havasu_vc.model.hashing import Hashes
from havasu_vc.records import dataclass

if TYPE_CHECKING:
    from havasu_vc.datasets.protocol import DatasetInFiles

__all__ = [
    "MOST_KEYS",
    "Change",
    "Touched",
    "change_blobs",
    "file_blobs",
    "first_blobs",
    "mending_blobs",
    "names_of",
    "past_of",
]

MOST_KEYS = 10_000
"""A change of more rows than these closes the epoch instead of marking each."""
MOST_MARKERS = 50_000
"""An epoch with more markers than these is closed by the next change."""
_ALL = (1 << 128) - 1
_NOBODY = Epoch(0, "")


@dataclass(slots=True)
class Touched:
    """The keys whose rows a change touches, by hash; nothing is kept once they are too many."""

    pieces: list[Hashes] = field(default_factory=list)
    """The keys, some of them twice."""
    many: bool = False
    """Whether they are so many that the epoch is to be closed."""
    _count: int = 0

    def add(self, keys: Hashes) -> None:
        """Take keys in."""
        if self.many or not len(keys):
            return
        self.pieces.append(keys)
        self._count += len(keys)
        if self._count > 2 * MOST_KEYS:
            self.pieces = [self.keys]
            self._count = len(self.pieces[0])
            self.many = self._count > MOST_KEYS
        if self.many:
            self.pieces = []

    def take(self, keys: Hashes | None) -> None:
        """Take keys in; None for too many to name."""
        if keys is None:
            self.many, self.pieces = True, []
        else:
            self.add(keys)

    @property
    def keys(self) -> Hashes:
        """The keys, each once, in order."""
        if not self.pieces:
            return np.empty(0, np.uint64)
        return distinct(np.concatenate(self.pieces))


@dataclass(frozen=True, slots=True)
class Change:
    """A change in the rows of a dataset."""

    leaving: frozenset[str] = frozenset()
    """Files that are no more part of it."""
    coming: Sequence[Entry] = ()
    """Files that become part of it."""
    rows: int = 0
    """Rows that come, less those that go."""
    digests: Mapping[int, Digest] = field(default_factory=dict)
    """The hashes of cells that come, less those that go."""
    keys: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))
    """The keys whose rows change."""
    close: bool = False
    """Whether it is to meet every other change of the epoch."""
    superseded: frozenset[str] = frozenset()
    """Deltas of another side whose content is in this."""
    beyond: DatasetInFiles | None = None
    """A side whose epoch this is to be later than."""


def change_blobs(
    view: DatasetInFiles, change: Change, documents: Mapping[str, bytes | None] | None = None
) -> dict[str, bytes | None]:
    """Return the documents by which a dataset changes so, with some others.

    Those of `documents` that files were written with (`past_path`) go into the delta.
    """
    come = {} if documents is None else documents
    others = {path: data for path, data in come.items() if not path.startswith(PAST)}
    leaving = view.stored_files(change.leaving)
    epoch = view.epoch
    close = change.close or len(change.keys) > MOST_KEYS
    close = close or (len(change.keys) > 0 and _is_full(view, epoch))
    replaced = view.deltas_with(leaving, dated=close)
    counts = any(lanes != (0, 0) for lanes in change.digests.values())
    if not (close or replaced or change.coming or len(change.keys) or change.superseded or counts):
        return others
    kept = [e for delta in replaced for e in delta.files if e.file not in leaving]
    digests = Digests(dict(change.digests))
    for delta in replaced:
        digests.add(delta.digests)
    dated = len(change.keys) > 0 or any(delta.epoch is not None for delta in replaced)
    made = Delta(
        "",
        view.properties.table_uuid,
        change.rows + sum(delta.rows for delta in replaced),
        (epoch.number, epoch.opener) if dated and not close else None,
        digests.sums,
        sum(delta.marks for delta in replaced) & _ALL,
        tuple(sorted({delta.id for delta in replaced} | change.superseded)),
        files=tuple(sorted((*kept, *change.coming), key=lambda entry: entry.file)),
    )
    written = {past_path(name): t.encode() for d in replaced for name, t in d.past.items()}
    made = replace(made, past=past_of(made.files, {**come, **written}))
    if close:
        rest = view.marks - sum(delta.marks for delta in replaced)
        made, blobs = _closing(view, made, epoch, rest, change.beyond)
    else:
        made, blobs = _marking(view, made, epoch, change.keys)
    for identity in made.replaces:
        blobs[delta_path(identity)] = format_tombstone(made.id)
    for file in leaving:
        blobs[view.stored_entries[file].pointer_path] = None
    for entry in change.coming:
        blobs.update(file_blobs(entry))
    blobs[made.path] = format_delta(made)
    return others | blobs


def past_of(files: Iterable[Entry], documents: Mapping[str, bytes | None]) -> dict[str, str]:
    """Return what some files were written with, of documents by their `past_path`."""
    names = sorted({name for file in files for name in names_of(file)})
    found = {name: documents.get(past_path(name)) for name in names}
    return {name: data.decode() for name, data in found.items() if data is not None}


def names_of(entry: Entry) -> tuple[str, str, str]:
    """Return the names of the documents that a file was written with."""
    return entry.schema, entry.partition_spec, entry.sort_order


def _is_full(view: DatasetInFiles, epoch: Epoch) -> bool:
    """Whether an epoch has about as many markers as it may have, told from its first folder."""
    folders = view.folder.items(epoch.folder)
    first = min(
        (name for name, (_, inner) in folders.items() if inner and len(name) == 2), default=""
    )
    if len(folders) < 256 or not first:
        return False
    return 256 * len(view.folder.items(f"{epoch.folder}/{first}")) > MOST_MARKERS


def _marking(
    view: DatasetInFiles, made: Delta, epoch: Epoch, keys: Hashes
) -> tuple[Delta, dict[str, bytes | None]]:
    """Return a delta under its name, and its markers."""
    folder, names = epoch.folder, marker_names(keys.tolist())
    there = view.folder.ids(folder, names)
    before = [(f"{folder}/{name}", there.get(name, "")) for name in names]
    made = replace(made, id=named(made, before))
    marker = format_marker(made.id)
    blob = blob_id(marker)
    marks = made.marks + marks_of((place, blob) for place, _ in before)
    marks -= marks_of((place, old) for place, old in before if old)
    blobs: dict[str, bytes | None] = {place: marker for place, _ in before}
    return replace(made, marks=marks & _ALL), blobs


def _closing(
    view: DatasetInFiles, made: Delta, epoch: Epoch, rest: int, beyond: DatasetInFiles | None
) -> tuple[Delta, dict[str, bytes | None]]:
    """Return a delta under its name, and what closes the epoch with it.

    `rest` is the sum of the marks of the other deltas that stay.
    """
    files = sorted(counted(epoch, view.folder.blobs(FOLDER)))
    made = replace(made, id=named(made, files))
    left = [each for each in files if each[0].count("/") == 1]
    blobs: dict[str, bytes | None] = {}
    if beyond is not None and beyond.epoch.number > epoch.number:
        for number in range(epoch.number, beyond.epoch.number):
            path = f"{FOLDER}/{number}"
            blobs[path] = closing = beyond.folder.read(path) or b""
            left.append((path, blob_id(closing)))
        epoch = beyond.epoch
    after = epoch.after(made.id)
    left.append((f"{FOLDER}/{epoch.number}", after.opener))
    blobs[f"{FOLDER}/{epoch.number}"] = format_closing(made.id)
    blobs[f"{FOLDER}/{after.number}"] = None
    blobs |= after.placeholders()
    return replace(made, marks=(marks_of(left) - rest) & _ALL), blobs


def mending_blobs(
    view: DatasetInFiles, rows: int, digests: Mapping[int, Digest]
) -> dict[str, bytes | None]:
    """Return the documents by which a dataset keeps its files and is sound, given its sums.

    One delta takes the place of all, and closes the epoch.
    """
    live, epoch = view.deltas, view.epoch
    files = sorted((f"{FOLDER}/{name}", blob) for name, blob in view.folder.blobs(FOLDER))
    made = Delta(
        "",
        view.properties.table_uuid,
        rows,
        None,
        digests,
        replaces=tuple(sorted(live)),
        past={name: text for delta in live.values() for name, text in delta.past.items()},
        files=tuple(entry for _, entry in sorted(view.stored_entries.items())),
    )
    made = replace(made, id=named(made, files))
    after = epoch.after(made.id)
    before = [(path, blob) for path, blob in files if _closed_before(path, epoch.number)]
    before.append((f"{FOLDER}/{epoch.number}", after.opener))
    made = replace(made, marks=marks_of(before))
    blobs: dict[str, bytes | None] = {
        f"{FOLDER}/{number}": None
        for number in sorted(int(n) for n in view.folder.items(FOLDER) if n.isdecimal())
        if number > epoch.number
    }
    blobs |= after.placeholders()
    blobs[f"{FOLDER}/{epoch.number}"] = format_closing(made.id)
    for identity in (*live, *view.folded):
        blobs[delta_path(identity)] = format_tombstone(made.id)
    pointers = {entry.pointer_path for entry in made.files}
    for name, _ in view.folder.blobs("data"):
        if f"data/{name}" not in pointers:
            blobs[f"data/{name}"] = None
    for entry in made.files:
        blobs.update(file_blobs(entry))
    blobs[made.path] = format_delta(made)
    return blobs


def _closed_before(path: str, number: int) -> bool:
    name = path.removeprefix(f"{FOLDER}/")
    return name.isdecimal() and int(name) < number


def first_blobs(
    table: str,
    files: Iterable[tuple[Entry, Mapping[int, Digest]]],
    documents: Mapping[str, bytes | None],
) -> dict[str, bytes | None]:
    """Return the documents of a new table: a delta for each data file, with its digests.

    Those of `documents` that files were written with (`past_path`) go into the deltas.
    """
    blobs = {path: data for path, data in documents.items() if not path.startswith(PAST)}
    blobs |= _NOBODY.placeholders()
    for entry, digests in files:
        past = past_of((entry,), documents)
        made = Delta("", table, entry.rows, None, digests, past=past, files=(entry,))
        made = replace(made, id=named(made, ()))
        blobs[made.path] = format_delta(made)
        blobs.update(file_blobs(entry))
    return blobs


def file_blobs(entry: Entry) -> dict[str, bytes]:
    """Return what names a file in git beside its delta: its pointer, or where a linked one is.

    What is not named so, nobody fetches and `gc` takes.
    """
    if entry.location is not None:
        return {entry.pointer_path: b"\0" + entry.location.encode("utf-8", "surrogateescape")}
    return {entry.pointer_path: format_pointer(Pointer(entry.file, entry.size))}
