"""A folder of documents that are in no tree yet.

A dataset that is being imported, or edited and not committed, is a view upon one: it
can be scanned and compared like any other before anything is written to git. Tree ids
are made as git makes them, so guards mean the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from havasu_vc.datasets.protocol import Folder, TreeEdit
from havasu_vc.formats.havasu.snapshot import Guard, format_snapshot

__all__ = ["UNGUARDED", "MemoryFolder", "edited", "guard_of"]

UNGUARDED = ("title", "description")
"""Meta items that git may merge as text."""


@dataclass
class MemoryFolder:
    """Blobs by path."""

    files: dict[str, bytes] = field(default_factory=dict)
    """By path."""
    _by_id: dict[str, bytes] = field(default_factory=dict, repr=False)

    def read(self, path: str) -> bytes | None:
        """Return the bytes of a blob; None when there is none at the path."""
        return self.files.get(path)

    def read_blob(self, blob_id: str) -> bytes:
        """Return the bytes of a blob by its id."""
        if blob_id not in self._by_id:
            self._by_id = {_blob_id(data): data for data in self.files.values()}
        return self._by_id[blob_id]

    def tree_id(self, path: str) -> str:
        """Return the id of the tree at a path; empty when there is none."""
        return self.tree_id_without(path, ())

    def tree_id_without(self, path: str, names: tuple[str, ...]) -> str:
        """Return the id that the tree at a path would have without some names."""
        inside = {
            name.removeprefix(path + "/"): data
            for name, data in self.files.items()
            if name.startswith(path + "/")
        }
        for name in names:
            inside.pop(name, None)
        return _tree_id(inside) if inside else ""

    def blobs(self, path: str) -> Iterator[tuple[str, str]]:
        """Yield path and id of every blob below a path."""
        for name in sorted(self.files):
            if not path or name.startswith(path + "/"):
                yield name.removeprefix(path + "/" if path else ""), _blob_id(self.files[name])

    def difference(self, new: Folder, path: str) -> Iterator[tuple[str, str | None, str | None]]:
        """Yield path, old id and new id of every blob below a path that differs."""
        yield from _difference(self, new, path)


def _difference(
    old: Folder, new: Folder, path: str
) -> Iterator[tuple[str, str | None, str | None]]:
    before, after = dict(old.blobs(path)), dict(new.blobs(path))
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield name, before.get(name), after.get(name)


def _blob_id(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def _tree_id(files: Mapping[str, bytes]) -> str:
    entries: dict[str, tuple[bytes, str]] = {}
    folders: dict[str, dict[str, bytes]] = {}
    for path, data in files.items():
        name, slash, rest = path.partition("/")
        if slash:
            folders.setdefault(name, {})[rest] = data
        else:
            entries[name] = (b"100644", _blob_id(data))
    for name, inside in folders.items():
        entries[name + "/"] = (b"40000", _tree_id(inside))
    body = b"".join(
        mode + b" " + name.rstrip("/").encode() + b"\0" + bytes.fromhex(identifier)
        for name, (mode, identifier) in sorted(entries.items())
    )
    return hashlib.sha1(b"tree %d\0" % len(body) + body).hexdigest()


def edited(old: Folder | None, edit: TreeEdit) -> MemoryFolder:
    """Return a dataset's folder as it is after an edit."""
    folder = MemoryFolder()
    if old is not None and not edit.fresh:
        for name, blob in old.blobs(""):
            folder.files[name] = old.read_blob(blob)
    for path, data in edit.blobs.items():
        if data is None:
            folder.files.pop(path, None)
        else:
            folder.files[path] = data
    if edit.snapshot is not None:
        folder.files["snapshot.json"] = format_snapshot(
            edit.snapshot, guard_of(folder, edit.path)
        )
    return folder


def guard_of(folder: Folder, path: str) -> Guard:
    """Return the guard that a folder with these documents must have."""
    return Guard(
        path,
        folder.tree_id("files"),
        folder.tree_id("data"),
        folder.tree_id_without("meta", UNGUARDED),
    )
