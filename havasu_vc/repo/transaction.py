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
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from types import TracebackType
from typing import TYPE_CHECKING, Self

from havasu_vc.datasets.commit_plans import CommitPlan, MergedTree, edit_changes
from havasu_vc.datasets.kinds import DEFAULT
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.errors import (
    ConcurrentChangeError,
    DatasetNotFoundError,
    InvalidArgumentError,
    NoBranchError,
    StateError,
)
from havasu_vc.model.names import (
    HAVASU_MARKER,
    KART_VERSION,
    KART_VERSION_3,
    OLD_VERSION,
    TABLE_MARKER,
    TABLES,
)
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.setting_up import set_up
from havasu_vc.store.commits import read_commit, store_commit
from havasu_vc.store.disk import no_room, scratch_folder
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.index import in_step
from havasu_vc.store.locks import exclusive_lock, shared_lock, without_git_gc
from havasu_vc.store.objects import EMPTY_TREE, Draft, ObjectSource, Signature
from havasu_vc.store.preparation import attributes_edits
from havasu_vc.store.refs import Head, default_branch, move_head, move_ref, read_head, read_ref
from havasu_vc.store.repository import Operation
from havasu_vc.store.sound import is_sound, remember_sound, settled_mark
from havasu_vc.store.trees import (
    Change,
    blobs_below,
    edit_tree,
    find_entry,
    tree_difference,
)

if TYPE_CHECKING:
    from havasu_vc.datasets.protocol import Dataset
    from havasu_vc.model.commits import ChangeCounts
    from havasu_vc.store.trees import DatasetFolder

__all__ = ["Transaction"]


ATTEMPTS = 20
PATIENCE = 120.0
"""Seconds that a commit waits for others of this program to end."""


class Transaction:
    """Holds the commit lock and a staging folder. Use it as a context manager."""

    def __init__(self, repo: OpenRepo, *, branch: str | None = None, dry_run: bool = False) -> None:
        """Begin to commit to HEAD, or to a branch that no work tree is on.

        A dry run takes place where one may only read: nothing is written beside a staging
        folder, which may be elsewhere.
        """
        self._repo, self._git = repo, repo.git
        self._branch, self._dry_run = branch, dry_run
        self._stack = ExitStack()
        self._elsewhere = set[str]()
        self.recounted: dict[str, ChangeCounts] = {}
        """How many rows a commit changed of datasets that came onto a head that had moved on."""

    def __enter__(self) -> Self:
        folder, storage, scratch = self._git.data_folder, self._repo.storage, None
        self._stack.enter_context(shared_lock(folder / "lock", dry_run=self._dry_run))
        if self._dry_run:
            scratch = self._stack.enter_context(scratch_folder(folder / "staging"))
            storage = replace(storage, keys=storage.keys_in(scratch))
        staging = scratch or folder / "staging" / secrets.token_hex(8)
        if scratch is None:
            self._stack.callback(shutil.rmtree, staging, ignore_errors=True)
        self._objects = self._stack.enter_context(self._git.writer(scratch=scratch))
        self.head = self._read_head()
        """Where HEAD, or the branch, was when this began."""
        self.storage = replace(
            storage,
            staging=DataFileStore(staging),
            sink=self._objects,
            folds=self.head.branch == default_branch(self._git),
            trial=self._dry_run,
            tried=set(),
        )
        """Where this commit's files wait, and the objects of rows that are git objects."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for folder in self.storage.tried:
            from havasu_vc.store.object_systems import remove_folder

            self._stack.callback(remove_folder, folder)
        self._stack.close()
        full = None if error is None else no_room(error)
        if full is not None:
            raise full from error

    def _read_head(self) -> Head:
        if self._branch is None:
            return read_head(self._git)
        return Head(self._branch, read_ref(self._git, f"refs/heads/{self._branch}"))

    def require_head(self, commit: str | None) -> None:
        """Raise unless HEAD was at a commit when this began; what was read of it counts then."""
        if self.head.commit != commit:
            raise _moved()

    @cached_property
    def folders(self) -> Mapping[str, DatasetFolder]:
        """The datasets, of every kind, of the commit that HEAD was at when this began."""
        commit = self.head.commit
        return self._repo.folders(self._repo.resolve("[EMPTY]" if commit is None else commit))

    def dataset(self, path: str) -> Dataset:
        """Return a dataset to edit: as it was when this began, with its files staged here.

        HEAD may move while an edit is made. What is edited must be what the commit is
        compared with then.
        """
        folder = self.folders.get(path.strip("/"))
        if folder is None:
            raise DatasetNotFoundError(path, known=self.folders)
        view = self._repo.view(folder, self._branch or "HEAD").with_storage(self.storage)
        view.check_guard()
        return view

    def commit(
        self,
        edits: Sequence[TreeEdit],
        message: str,
        *,
        author: Signature | None = None,
        removed: Sequence[str] = (),
        merge: MergedTree | None = None,
    ) -> str | None:
        """Commit edits of what `dataset` and `folders` gave, and return the commit's id.

        `removed` are paths of datasets that go. If the branch moved meanwhile, the edits are
        brought onto its new head row by row, and only a true conflict is reported; but a
        merge is refused. Where other processes have made all of the edits by then, there is
        nothing left to commit and no id. Where the repository amends, the commit stands in the
        place of HEAD's, as its author's, and a branch that moved meanwhile is refused too.
        """
        _check_message(message)
        amended = self._repo.amended
        # Also when edits are made anew upon another head, these are there.
        self._elsewhere |= {file for edit in edits for file in edit.elsewhere}
        folders = [f"{edit.path}/{edit.marker}" for edit in edits]
        if self._branch is None:
            self._require_settled([*folders, *(self._internals(path) for path in removed)])
        # Who it is by, too, is asked before a file is stored.
        author = author or (None if amended is None else amended.author)
        author, committer = self._git.people(author)
        head = self.head
        if amended is not None and head.commit != amended.id:
            raise _moved()
        if self._repo.check_edits is not None and head.commit is not None:
            self._repo.check_edits(self._repo, self.storage, edits, self._repo.resolve(head.commit))
        with (
            exclusive_lock(self._git.data_folder / "commit-lock", patience=PATIENCE),
            without_git_gc(self._git.common_directory),
        ):
            for _ in range(ATTEMPTS):
                # Looked at before anything is written, so that a lost race leaves nothing
                # behind; only another git can still come between.
                moved = self._read_head()
                if moved != head:
                    only_here = merge is not None or amended is not None or removed
                    if only_here or moved.branch != head.branch:
                        raise _moved()
                    if moved.commit is None:
                        raise NoBranchError(f"the branch {head.branch} was deleted meanwhile")
                    before, edits = edits, self._rebased(edits, head, moved)
                    self.recounted = {edit.path: edit.counts for edit in edits}
                    if any(edit.blobs for edit in before) and not any(e.blobs for e in edits):
                        return None
                    head = moved
                self._adopt(edits)
                self._objects.flush()
                gone = tuple(self._internals(path) for path in removed)
                plan = CommitPlan(tuple(edits), message, author, gone, merge, amended)
                with suppress(ConcurrentChangeError):
                    return self._try(plan, head, committer)
        raise _moved()

    def stage(self, edits: Sequence[TreeEdit], merge: MergedTree) -> dict[str, dict[str, str]]:
        """Store what a commit would hold of datasets; return their blobs by dataset and path.

        No commit is made and no tree is stored, so that nothing is left over when git makes
        these of its index.
        """
        self._adopt(edits)
        self._objects.flush()
        draft = Draft(self._git.objects)
        plan = CommitPlan(tuple(edits), "", None, (), merge)
        tree = edit_tree(draft, self._tree(self.head), plan.changes())
        found: dict[str, dict[str, str]] = {}
        with self._git.writer() as writer:
            for folder in plan.folders:
                path = folder.rpartition("/")[0]
                blobs = found.setdefault(path, {})
                for name, blob in blobs_below(draft, tree, folder):
                    blobs[f"{folder}/{name}"] = blob
                    if draft.has(blob):
                        writer.write("blob", draft.read(blob)[1])
            writer.flush()
        return found

    def keep_tree(self, edits: Sequence[TreeEdit], merge: MergedTree, ref: str) -> str:
        """Store the tree that a commit would have, under a ref, and return its id."""
        plan = CommitPlan(tuple(edits), "", None, (), merge)
        with without_git_gc(self._git.common_directory):
            self._adopt(edits)
            self._objects.flush()
            with self._git.writer() as writer:
                tree = edit_tree(writer, self._tree(self.head), plan.changes())
                writer.flush()
            self._git.git("update-ref", ref, tree)
        return tree

    def set_aside(self, edits: Sequence[TreeEdit], message: str, ref: str) -> str:
        """Commit edits upon HEAD to a new ref of their own; no branch moves."""
        return self._commit_upon(self.head.commit, edits, message, (ref, None))

    def commit_to(self, ref: str, edits: Sequence[TreeEdit], message: str, *, old: str) -> str:
        """Commit edits of another branch than HEAD's, which is at `old`."""
        return self._commit_upon(old, edits, message, (ref, old))

    def _commit_upon(
        self,
        parent: str | None,
        edits: Sequence[TreeEdit],
        message: str,
        move: tuple[str, str | None],
    ) -> str:
        _check_message(message)
        author, committer = self._git.people()
        ref, old = move
        kind = "stash" if old is None else "commit"
        with without_git_gc(self._git.common_directory):
            self._adopt(edits)
            self._objects.flush()
            with self._git.writer() as writer:
                base = None if parent is None else read_commit(self._git.objects, parent).tree
                tree = edit_tree(writer, base, edit_changes(edits))
                parents = () if parent is None else (parent,)
                commit = store_commit(
                    self._git,
                    writer,
                    tree,
                    parents,
                    author=author,
                    committer=committer,
                    message=message,
                )
            move_ref(self._git, ref, old=old, new=commit, message=f"{kind}: {_first_line(message)}")
        return commit

    def _internals(self, path: str) -> str:
        """Return the folder of internals that a dataset has, or would have, at a path."""
        folder = self.folders.get(path)
        return f"{path}/{HAVASU_MARKER if folder is None else folder.marker}"

    def _require_settled(self, folders: Sequence[str]) -> None:
        """Raise when git is in the middle of merging a dataset.

        A commit brings the index up to itself, which would look as if our side were the merge.
        """
        operation = self._git.operation
        squash = self._git.git_directory / "SQUASH_MSG"
        if not folders or (operation is Operation.NONE and not squash.exists()):
            return
        compare = ("diff-index", "--cached", "--quiet", "HEAD", "--", *folders)
        if self._git.git(*compare, check=False).code == 1:
            what = "squash" if operation is Operation.NONE else operation.value
            raise StateError(
                f"a {what} of git is half done and changes "
                + " or ".join(folder.rpartition("/")[0] for folder in folders),
                hints=(
                    "`havasu-vc merge --continue` concludes it, `havasu-vc merge --abort` drops it",
                ),
            )

    def _rebased(self, edits: Sequence[TreeEdit], old: Head, new: Head) -> list[TreeEdit]:
        from havasu_vc.repo.rebasing import rebase_edits

        revisions = [self._repo.resolve(head.commit or "[EMPTY]") for head in (old, new)]
        return rebase_edits(self._repo, self.storage, edits, revisions[0], revisions[1])

    def _tree(self, head: Head) -> str | None:
        return None if head.commit is None else read_commit(self._git.objects, head.commit).tree

    def _adopt(self, edits: Sequence[TreeEdit]) -> None:
        """Give the files that edits name their places in the store, durably."""
        staging, files = self.storage.staging, self.storage.files
        away = self._elsewhere.union(*(edit.elsewhere for edit in edits))
        wanted = {
            path.rpartition("/")[2]
            for edit in edits
            for path, data in edit.blobs.items()
            if isinstance(data, bytes) and path.startswith("data/")
        }
        for file in sorted(wanted):
            if file in away and not files.has(file):
                continue
            if staging.has(file):
                files.put(staging.path(file), sha256=file)
            else:
                # Already stored; taking note of it keeps gc away until the ref moves.
                files.path(file).touch(exist_ok=True)
        files.commit_all()

    def _try(self, plan: CommitPlan, head: Head, committer: Signature) -> str:
        base = self._tree(head)
        changes = plan.changes()
        self._add_files(base, plan, changes)
        others = () if plan.merge is None else plan.merge.parents
        parents = (*(() if head.commit is None else (head.commit,)), *others)
        if plan.amended is not None:
            parents = plan.amended.parents
        with self._git.writer() as writer:
            tree = edit_tree(writer, base, changes)
            commit = store_commit(
                self._git,
                writer,
                tree,
                parents,
                author=plan.author or committer,
                committer=committer,
                message=plan.message,
            )
            self._remember(writer, base, tree, plan)
        set_up(self._repo, surely=True)
        kind = "commit (merge)" if others else "commit" if head.commit else "commit (initial)"
        kind = kind if plan.amended is None else "commit (amend)"
        with (
            in_step(
                self._git,
                plan.places,
                files=self._files(base, tree),
                made=None if (entries := plan.entries(changes)) is None else (commit, entries),
            )
            if self._branch is None
            else nullcontext()
        ):
            move_head(self._git, head, commit, f"{kind}: {_first_line(plan.message)}")
        return commit

    def _remember(
        self, source: ObjectSource, base: str | None, tree: str, plan: CommitPlan
    ) -> None:
        """Remember that what was made here need not be looked at again."""
        memory = self._git.data_folder
        for edit in plan.edits:
            if edit.marker != HAVASU_MARKER:
                continue
            folder = f"{edit.path}/{edit.marker}"
            inside = find_entry(source, tree, folder)
            if inside is None:
                continue
            names = ("files", DEFAULT.documents[0])
            files, table = (find_entry(source, inside.id, name) for name in names)
            before = None if base is None else find_entry(source, base, f"{folder}/files")
            remember_sound(memory, inside.id, "" if table is None else table.id)
            # An edit deletes rows that live: where none was deleted twice, none is now.
            if (
                files is not None
                and before is not None
                and is_sound(memory, settled_mark(before.id))
            ):
                remember_sound(memory, settled_mark(files.id))

    def _add_files(self, base: str | None, plan: CommitPlan, changes: dict[str, Change]) -> None:
        """Add the files at the top that tell git and Kart what the repository holds."""
        version, old = (
            base is not None and find_entry(self._git.objects, base, name) is not None
            for name in (KART_VERSION, OLD_VERSION)
        )
        kinds = {folder.rpartition("/")[2] for folder in plan.folders}
        kart, havasu = TABLE_MARKER in kinds, HAVASU_MARKER in kinds
        if old and kart:
            raise StateError(
                "a repository in Kart's form V2 holds no datasets of V3",
                hints=("`havasu-vc upgrade DIRECTORY` makes a V3 repository of it",),
            )
        if not version and not old and (kart or self._git.is_kart):
            changes.setdefault(KART_VERSION, KART_VERSION_3)
        if self._git.is_kart or (not havasu and (kart or version or old)):
            return
        for name, text in attributes_edits(self._git.objects, base, plan.folders).items():
            above = accumulate(name.split("/")[:-1], "{}/{}".format)
            if not any(folder in changes for folder in above):  # it is replaced as a whole
                changes.setdefault(name, text)

    def _files(self, old: str | None, new: str) -> tuple[str, ...]:
        """Return the files outside of datasets that a commit changes."""
        if self._git.is_bare or self._git.is_kart:
            return ()  # there is no work tree of ours that they would be in
        inside = [marker.encode() for marker in TABLES]
        found = tree_difference(self._git.objects, old or EMPTY_TREE, new, outside=inside)
        return tuple(change.path for change in found)


def _moved() -> ConcurrentChangeError:
    return ConcurrentChangeError(
        "other processes moved the branch meanwhile; nothing is changed", hints=("try again",)
    )


def _first_line(message: str) -> str:
    return message.split("\n", 1)[0]


def _check_message(message: str) -> None:
    try:
        message.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InvalidArgumentError("the message holds a character that is none") from error
    if "\0" in message:
        raise InvalidArgumentError("the message holds a NUL, which git cannot store")
