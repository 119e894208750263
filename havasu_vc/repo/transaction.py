"""A commit in the making: files are staged, then everything becomes true at once.

In this order, so that a crash at any instant loses nothing and leaves nothing half done:
data files are complete and durable; they get their names in the store; git's objects
are written; one compare-and-swap moves the branch; the index follows. Until the
branch moves, all that exists is a staging folder that the next gc removes. From the
first file staged to the branch's move a lock is held that keeps gc away.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from havasu_vc.datasets.folder import TreeFolder, guard_of
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.errors import ConcurrentChangeError
from havasu_vc.formats.havasu.snapshot import format_snapshot
from havasu_vc.model.names import HAVASU_MARKER
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.commits import Signature, format_commit, read_commit
from havasu_vc.store.edits import Change, edit_tree
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.index import in_step
from havasu_vc.store.locks import shared_lock
from havasu_vc.store.objects import ObjectId, ObjectKind, ObjectSource, ObjectWriter, object_id
from havasu_vc.store.preparation import ATTRIBUTES_FILE, attributes_edit
from havasu_vc.store.refs import Head, move_head, move_ref, read_head, read_ref
from havasu_vc.store.trees import find_entry

if TYPE_CHECKING:
    from havasu_vc.datasets.protocol import TreeEdit

__all__ = ["Transaction"]

ATTEMPTS = 20


class Transaction:
    """Holds the commit lock and a staging folder. Use it as a context manager."""

    def __init__(self, repo: OpenRepo) -> None:
        self._repo = repo
        self._git = repo.git
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        folder = self._git.data_folder
        self._stack.enter_context(shared_lock(folder / "lock"))
        staging = folder / "staging" / secrets.token_hex(8)
        self._stack.callback(shutil.rmtree, staging, ignore_errors=True)
        self.storage = replace(self._repo.storage, staging=DataFileStore(staging))
        """Where this commit's files wait."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def commit(
        self,
        edits: Sequence[TreeEdit],
        message: str,
        *,
        author: Signature | None = None,
        ref: str | None = None,
        removed: Sequence[str] = (),
    ) -> str:
        """Commit edits that were made against HEAD (or `ref`), and return the commit's id.

        `removed` are paths of datasets that go. If the branch moved meanwhile and its new
        head has these datasets as they were, the commit goes on top of it.
        """
        head = self._head(ref)
        base = None if head.commit is None else read_commit(self._git.objects, head.commit).tree
        self._adopt(edits)
        for _ in range(ATTEMPTS):
            try:
                return self._try(edits, removed, message, author, head)
            except ConcurrentChangeError:
                moved = self._head(ref)
                if moved.branch != head.branch or not self._untouched(edits, removed, base, moved):
                    raise
                head = moved
        raise ConcurrentChangeError(
            "other processes keep moving the branch; nothing is changed", hints=("try again",)
        )

    def _head(self, ref: str | None) -> Head:
        if ref is None:
            return read_head(self._git)
        return Head(ref.removeprefix("refs/heads/"), read_ref(self._git, ref))

    def _untouched(
        self,
        edits: Sequence[TreeEdit],
        removed: Sequence[str],
        base: str | None,
        head: Head,
    ) -> bool:
        """Whether the datasets of this commit are in a new head what they were in the base."""
        tree = None if head.commit is None else read_commit(self._git.objects, head.commit).tree
        for path in (*(edit.path for edit in edits), *removed):
            ids = []
            for root in (base, tree):
                found = None if root is None else find_entry(self._git.objects, root, path)
                ids.append(None if found is None else found.id)
            if ids[0] != ids[1]:
                return False
        return True

    def _adopt(self, edits: Sequence[TreeEdit]) -> None:
        """Give the files that edits name their places in the store, durably."""
        staging, files = self.storage.staging, self.storage.files
        wanted = {
            path.rpartition("/")[2]
            for edit in edits
            for path, data in edit.blobs.items()
            if data is not None and path.startswith("data/")
        }
        for file in sorted(wanted):
            if staging.has(file):
                files.put(staging.path(file), sha256=file)
            else:
                # Already stored; taking note of it keeps gc away until the ref moves.
                files.path(file).touch(exist_ok=True)
        files.commit_all()

    def _try(
        self,
        edits: Sequence[TreeEdit],
        removed: Sequence[str],
        message: str,
        author: Signature | None,
        head: Head,
    ) -> str:
        parent = None if head.commit is None else read_commit(self._git.objects, head.commit)
        committer = self._git.committer
        base = None if parent is None else parent.tree
        attributes = attributes_edit(self._git.objects, base)
        files = {} if attributes is None else {ATTRIBUTES_FILE: attributes}
        with self._git.writer() as writer:
            tree = write_tree(writer, base, edits, removed, files)
            commit = writer.write(
                "commit",
                format_commit(
                    tree,
                    () if head.commit is None else (head.commit,),
                    author=author or self._git.author,
                    committer=committer,
                    message=message,
                ),
            )
            writer.flush()
        folders = [f"{path}/{HAVASU_MARKER}" for path in (*(edit.path for edit in edits), *removed)]
        subject = message.split("\n", 1)[0]
        current = read_head(self._git)
        reason = f"commit: {subject}" if head.commit else f"commit (initial): {subject}"
        if head.branch != current.branch:
            move_ref(self._git, head.ref, old=head.commit, new=commit, message=reason)
            return commit
        with in_step(self._git, folders, files=tuple(files)):
            move_head(self._git, head, commit, reason)
        return commit


def write_tree(
    writer: ObjectWriter,
    base: str | None,
    edits: Sequence[TreeEdit],
    removed: Sequence[str] = (),
    files: Mapping[str, bytes] | None = None,
) -> str:
    """Write the trees that edits make of a base, guards included; return the root's id.

    A guard names trees, so these are made once without it, in memory: git's store gets
    nothing that no commit reaches.
    """
    changes: dict[str, Change] = {f"{path}/{HAVASU_MARKER}": None for path in removed}
    changes.update(files or {})
    for edit in edits:
        changes.update(_changes(edit))
    draft = _Draft(writer)
    tree = edit_tree(draft, base, changes)
    for edit in edits:
        if edit.snapshot is not None:
            inside = find_entry(draft, tree, f"{edit.path}/{HAVASU_MARKER}")
            if inside is None:
                raise ValueError(f"the edit of {edit.path} leaves nothing")
            guard = guard_of(TreeFolder(draft, inside.id), edit.path)
            document = format_snapshot(edit.snapshot, guard)
            changes[f"{edit.path}/{HAVASU_MARKER}/snapshot.json"] = document
    return edit_tree(writer, base, changes)


class _Draft:
    """Objects that are never stored."""

    def __init__(self, source: ObjectSource) -> None:
        self._source = source
        self._objects: dict[ObjectId, tuple[ObjectKind, bytes]] = {}

    def write(self, kind: ObjectKind, data: bytes) -> ObjectId:
        """Take an object in and return its id."""
        identity = object_id(kind, data)
        self._objects[identity] = (kind, data)
        return identity

    def read(self, object_id: ObjectId) -> tuple[ObjectKind, bytes]:
        """Return an object that was taken in or that is stored."""
        return self._objects.get(object_id) or self._source.read(object_id)


def _changes(edit: TreeEdit) -> Mapping[str, Change]:
    folder = f"{edit.path}/{HAVASU_MARKER}"
    changes: dict[str, Change] = {}
    if edit.fresh:
        changes[folder] = None
    for path, data in edit.blobs.items():
        changes[f"{folder}/{path}"] = data
    return changes
