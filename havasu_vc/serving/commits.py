"""One request of a client as one commit of git on a branch, or none where nothing changes.

The client wrote upon a snapshot that it was given, and says which. What it wrote is read
as an edit of the dataset as that commit has it, and brought onto the branch's tip row by
row: a base that is not the newest is no error, two values for one cell are. Data files are
in the store before the branch moves.

A commit tells in its last lines which snapshots of clients it holds and which request it
answered, so a request that comes again is answered as before, also by another server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from havasu_vc.checkouts import ServedBase, committing, edit_of_new, edit_of_served
from havasu_vc.datasets.commit_plans import MergedTree
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.errors import ConcurrentChangeError
from havasu_vc.model.names import check_dataset_path
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.rebasing import rebase_edits
from havasu_vc.repo.transaction import Transaction
from havasu_vc.review import check_moves
from havasu_vc.serving.messages import Writing, facts_of, message_of
from havasu_vc.serving.names import name_of
from havasu_vc.serving.routes import Refused, no_table
from havasu_vc.serving.sent import (
    check_layout,
    created_dataset,
    crs_documents,
    forgets_key,
    replacing,
    sent_table,
    texts,
    with_plain_geometries,
)
from havasu_vc.serving.updates import TableChange, applied, new_document, require
from havasu_vc.store.commits import Commit, read_commit
from havasu_vc.store.locks import exclusive_lock
from havasu_vc.store.log import commits
from havasu_vc.store.refs import BRANCHES, list_branches, read_ref
from havasu_vc.store.trees import DatasetFolder
from havasu_vc.tables.table import TableFolders

__all__ = ["Served", "Shelf", "Writer"]

_MOST_LOOKED_AT = 1000
"""So many commits are looked at for the one that a request made before, by its name."""
_TURNS = 64
"""So many locks all requests share: one waits for another now and then."""
_PATIENCE = 60.0
_REASON = "the same request is being answered"


@dataclass(frozen=True, slots=True)
class Served:
    """A table as a client was given it."""

    base: ServedBase
    """The version that it is of."""
    document: Mapping[str, Any]
    """Its metadata."""
    folders: tuple[Path, ...]
    """Where its manifests and data files are."""
    staging: Path
    """Where clients write its files."""


class Shelf(Protocol):
    """The versions that tables are served of, and where clients put what they write."""

    def served(self, commit: str, path: str) -> Served:
        """Return the table of a dataset as it is served of a commit."""

    def find(self, commit: str, path: str, snapshot_id: int) -> str | None:
        """Return the commit, the given one or one before it, whose table has a snapshot."""

    def within(self, folders: Iterable[Path]) -> TableFolders:
        """Return where files are found that must be in some folders."""

    def spell(self, path: Path) -> str:
        """Return the location of a folder that clients are told of."""

    def staging(self, identity: str) -> Path:
        """Return the folder that clients write files of a new table into, by its uuid."""


class Writer:
    """Makes commits of what a client asks to become of tables of one branch."""

    def __init__(self, repo: OpenRepo, shelf: Shelf, writing: Writing) -> None:
        self._repo = repo
        self._shelf = shelf
        self._writing = writing

    def change(self, changes: Sequence[tuple[str, TableChange]]) -> str | None:
        """Commit changes of datasets, all in one commit; None where nothing is to be committed."""
        paths = [path for path, _ in changes]
        if len(set(paths)) < len(paths):
            raise Refused(400, "BadRequestException", "a table is changed twice in one request")
        with self._alone(changes), self._transaction() as transaction:
            if self._made_before(transaction, changes):
                return None
            edits = [self._edit(transaction, path, change) for path, change in changes]
            edits = [edit for edit in edits if edit.blobs]
            if not edits:
                return None
            message = message_of(changes, self._writing)
            return transaction.commit(edits, message, author=self._writing.author)

    def drop(self, path: str) -> str | None:
        """Commit that a dataset goes."""
        with self._alone(), self._transaction() as transaction:
            if self._made_before(transaction):
                return None
            self._folder(transaction, path)
            self._hold_policy(transaction, {path: None})
            message = message_of((), self._writing, f"drop {path}")
            author = self._writing.author
            return transaction.commit([], message, author=author, removed=[path])

    def rename(self, path: str, new: str) -> str | None:
        """Commit that a dataset has another path."""
        with self._alone(), self._transaction() as transaction:
            if self._made_before(transaction):
                return None
            folder = self._folder(transaction, path)
            self._require_free(transaction.folders, new)
            self._hold_policy(transaction, {path: new})
            moved = MergedTree({}, {path: None, new: folder.internals}, (), {new: folder.marker})
            message = message_of((), self._writing, f"rename {path} to {new}")
            return transaction.commit([], message, author=self._writing.author, merge=moved)

    @contextmanager
    def _transaction(self) -> Iterator[Transaction]:
        """Begin to commit to the branch; tables that are checked out follow where it is HEAD's."""
        repo, branch = self._repo, self._writing.branch
        on_head = repo.head_branch == branch
        if not on_head and (repo.git.common_directory / "worktrees").is_dir():
            for each in list_branches(repo.git):
                if each.name == branch and each.checked_out is not None:
                    raise Refused(
                        403,
                        "ForbiddenException",
                        f"the branch {branch} is checked out in a work tree of its own",
                    )
        with (
            committing(repo) if on_head else nullcontext(),
            Transaction(repo, branch=None if on_head else branch) as transaction,
        ):
            # HEAD's branch may have no commit yet: the first table makes one.
            gone = transaction.head.commit is None and not on_head
            if transaction.head.branch != branch or gone:
                raise Refused(404, "NotFoundException", f"there is no branch {branch!r} any more")
            yield transaction

    def _made_before(
        self, transaction: Transaction, changes: Sequence[tuple[str, TableChange]] = ()
    ) -> bool:
        """Whether the branch has a commit that this request, or one like it, made before."""
        wanted = {
            (snapshot["snapshot-id"], path)
            for path, change in changes
            for snapshot in change.snapshots
        }
        request, tip = self._writing.request, transaction.head.commit
        if tip is None or (not wanted and request is None):
            return False
        for commit in self._since(tip, changes):
            found = facts_of(commit.message)
            if not wanted.isdisjoint(found.snapshots.items()):
                return True
            if request is not None and found.request == request:
                return True
        return False

    def _since(self, tip: str, changes: Sequence[tuple[str, TableChange]]) -> Iterator[Commit]:
        """Yield the commits that a request may have made: all since what it was made upon.

        One that says its own name may be made anew upon something newer, and one that says
        not what it was made upon has only that name: for these the last commits are looked at.
        """
        bases = [
            self._shelf.find(tip, path, change.base)
            for path, change in changes
            if change.base is not None
        ]
        known = [each for each in bases if each is not None]
        if known and len(known) == len(bases):
            yield from commits(self._repo.git, tip, hide=known)
            if self._writing.request is None:
                return
        at: str | None = tip
        for _ in range(_MOST_LOOKED_AT):
            if at is None or not self._repo.git.objects.has(at):
                return
            commit = read_commit(self._repo.git.objects, at)
            yield commit
            at = commit.parents[0] if commit.parents else None

    @contextmanager
    def _alone(self, changes: Sequence[tuple[str, TableChange]] = ()) -> Iterator[None]:
        """Have a request that comes again wait until the first is done with, at any server."""
        names = {str(each["snapshot-id"]) for _, change in changes for each in change.snapshots}
        names |= set() if self._writing.request is None else {self._writing.request}
        turns = {int(sha256(name.encode()).hexdigest()[:8], 16) % _TURNS for name in names}
        folder = self._repo.git.data_folder / "catalog" / "requests"
        with ExitStack() as held:
            for turn in sorted(turns):
                lock = exclusive_lock(folder / f"{turn}.lock", patience=_PATIENCE, reason=_REASON)
                held.enter_context(lock)
            yield

    def _hold_policy(self, transaction: Transaction, moves: Mapping[str, str | None]) -> None:
        check_moves(self._repo, moves, self._repo.resolve(str(transaction.head.commit)))

    def _folder(self, transaction: Transaction, path: str) -> DatasetFolder:
        folder = transaction.folders.get(path)
        if folder is None:
            raise no_table(str(name_of(path)))
        return folder

    def require_free(self, path: str) -> None:
        """Raise where no table can be made at a path."""
        tip = read_ref(self._repo.git, BRANCHES + self._writing.branch)
        folders = {} if tip is None else self._repo.folders(self._repo.resolve(tip))
        self._require_free(folders, path)

    def _require_free(self, folders: Mapping[str, DatasetFolder], path: str) -> None:
        if path in folders:
            raise Refused(409, "AlreadyExistsException", f"Table already exists: {name_of(path)}")
        check_dataset_path(path, folders)

    def _edit(self, transaction: Transaction, path: str, change: TableChange) -> TreeEdit:
        """Return the edit of the branch's tip that a change of one table makes."""
        if change.creates:
            return self._creation(transaction, path, change)
        folder = self._folder(transaction, path)
        tip = str(transaction.head.commit)
        commit = self._base(tip, path, change)
        served = self._shelf.served(commit, path)
        require(served.document, change, path)
        if change.moves_files_only:
            return TreeEdit(path, {})
        document = applied(served.document, change, path)
        document = with_plain_geometries(document, path, served.document)
        check_layout(served.document, document, path)
        if change.replaces or forgets_key(served.document, document):
            document = replacing(served.document, document, path)
        base = served.base.snapshot_id
        folders = (served.staging, *served.folders)
        table = sent_table(document, folders, self._shelf.within, base, path)
        edit = edit_of_served(self._repo, transaction, table, served.base)
        edit = replace(edit, blobs={**edit.blobs, **texts(served.document, document)})
        if change.alters_columns:
            edit = replace(edit, blobs={**edit.blobs, **crs_documents(document)})
        if not edit.blobs or served.base.tree == folder.internals:
            return edit
        revisions = self._repo.resolve(commit), self._repo.resolve(tip)
        (edit,) = rebase_edits(self._repo, transaction.storage, [edit], *revisions)
        return edit

    def _base(self, tip: str, path: str, change: TableChange) -> str:
        """Return the commit that a client made its change upon."""
        if not change.asserts_base:
            return tip
        # A table of a catalog has a snapshot from its first commit on, be it one without rows.
        if change.base is None:
            raise ConcurrentChangeError(f"{path}: the table has rows of others by now")
        found = self._shelf.find(tip, path, change.base)
        if found is None:
            raise ConcurrentChangeError(
                f"{path}: the branch {self._writing.branch} never had the snapshot {change.base}"
            )
        return found

    def _creation(self, transaction: Transaction, path: str, change: TableChange) -> TreeEdit:
        if path in transaction.folders:
            raise ConcurrentChangeError("Requirement failed: table already exists")
        self._require_free(transaction.folders, path)
        staging = self._shelf.staging(change.identity)
        document = applied(new_document(self._shelf.spell(staging)), change, path)
        document = with_plain_geometries(document, path)
        created = created_dataset(document, path)
        if change.snapshot is None:
            return created
        table = sent_table(document, (staging,), self._shelf.within, None, path)
        return edit_of_new(self._repo, transaction, table, created)
