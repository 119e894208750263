"""Commits of any content, past every check of git and of ours."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pygit2
from pygit2.enums import ObjectType

__all__ = ["FILE", "FOLDER", "LINK", "MODULE", "Change", "Objects"]

FILE, PROGRAM, LINK, MODULE, FOLDER = b"100644", b"100755", b"120000", b"160000", b"40000"

Change = bytes | tuple[bytes, bytes] | None
"""What a path becomes: a file's bytes; a mode with bytes, or with an id; or nothing."""
_ID = 40


class Objects:
    """The objects of a repository, written as they come."""

    def __init__(self, path: Path) -> None:
        self.repository = pygit2.Repository(str(path))

    def write(self, kind: ObjectType, data: bytes) -> bytes:
        """Write an object and return its id in hex."""
        return str(self.repository.odb.write(kind, data)).encode()

    def blob(self, data: bytes) -> bytes:
        """Write a blob."""
        return self.write(ObjectType.BLOB, data)

    def read(self, revision: str, path: str = "") -> bytes:
        """Return the content of a file, or of a commit or a tree."""
        found = self.repository.revparse_single(f"{revision}:{path}" if path else revision)
        data: bytes = found.read_raw()
        return data

    def names(self, revision: str, path: str) -> list[str]:
        """Return all files below a folder."""
        found: list[str] = []
        left = [path]
        while left:
            at = left.pop()
            tree = self.repository.revparse_single(f"{revision}:{at}").peel(pygit2.Tree)
            for entry in tree:
                name = f"{at}/{entry.name}"
                (left if entry.type_str == "tree" else found).append(name)
        return sorted(found)

    def tree(self, before: bytes | None, changes: Mapping[bytes, Change]) -> bytes:
        """Write a tree that differs from another by some paths, and return its id."""
        entries = self._entries(before)
        below: dict[bytes, dict[bytes, Change]] = {}
        for path, change in changes.items():
            name, slash, rest = path.partition(b"/")
            if slash:
                below.setdefault(name, {})[rest] = change
            elif change is None:
                entries.pop(name, None)
            else:
                mode, data = change if isinstance(change, tuple) else (FILE, change)
                known = len(data) == _ID and mode in (MODULE, FOLDER)
                entries[name] = mode, data if known else self.blob(data)
        for name, inner in below.items():
            mode, old = entries.get(name, (FOLDER, b""))
            made = self.tree(old if mode == FOLDER and old else None, inner)
            entries[name] = FOLDER, made
        ordered = sorted(entries.items(), key=lambda e: e[0] + b"/" * (e[1][0] == FOLDER))
        data = b"".join(
            mode + b" " + name + b"\0" + bytes.fromhex(oid.decode())
            for name, (mode, oid) in ordered
        )
        return self.write(ObjectType.TREE, data)

    def _entries(self, tree: bytes | None) -> dict[bytes, tuple[bytes, bytes]]:
        entries: dict[bytes, tuple[bytes, bytes]] = {}
        data: bytes = self.repository[tree.decode()].read_raw() if tree else b""
        while data:
            head, _, data = data.partition(b"\0")
            mode, _, name = head.partition(b" ")
            entries[name] = mode, data[:20].hex().encode()
            data = data[20:]
        return entries

    def commit(
        self, parents: list[bytes], tree: bytes, message: bytes = b"Hostile\n", who: bytes = b""
    ) -> bytes:
        """Write a commit and return its id."""
        who = who or b"Mallory <m@example.com> 1700000000 +0000"
        lines = [b"tree " + tree, *(b"parent " + each for each in parents)]
        lines += [b"author " + who, b"committer " + who]
        return self.write(ObjectType.COMMIT, b"\n".join(lines) + b"\n\n" + message)
