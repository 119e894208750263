"""A dataset as another kind, with its history: each commit that changed it, once more.

Commits that are there stay as they are. Beside them comes a line of commits with the
same authors, dates and messages, in which the dataset is of the new kind, and a commit
that joins it to HEAD. Looking back over that one finds each row's commit in the line.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

from havasu_vc.datasets.any import AnyDataset
from havasu_vc.datasets.folder import TreeFolder, edited
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.kart.diff import can_pair
from havasu_vc.datasets.kart.view import KartDataset
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import StateError
from havasu_vc.formats.kart.repository import KART_VERSION, KART_VERSION_3
from havasu_vc.model.counts import ChangeCounts
from havasu_vc.model.names import HAVASU_MARKER, TABLE_MARKER, TABLES
from havasu_vc.repo.converting import check_kind, made_properties, to_kart
from havasu_vc.repo.kart_tables import data_files, havasu_difference, havasu_edit
from havasu_vc.repo.merging import require_calm
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.results import CommitResult
from havasu_vc.repo.transaction import MergedTree, Transaction
from havasu_vc.store.commits import format_commit, read_commit
from havasu_vc.store.edits import Change, Existing, ObjectSink, edit_tree
from havasu_vc.store.preparation import ATTRIBUTES_FILE, attributes_edit
from havasu_vc.store.trees import find_entry

__all__ = ["convert_history"]


def convert_history(repo: OpenRepo, path: str, kind: str, message: str | None) -> CommitResult:
    """Commit a dataset as another kind, after each of its versions in a line of its own."""
    check_kind(kind)
    require_calm(repo)
    with Transaction(repo) as transaction:
        view = transaction.dataset(path)
        if view.kind == kind:
            raise StateError(f"{view.path} is a {kind} dataset already")
        path = view.path
        head = transaction.head.commit or ""
        listed = repo.git.git(
            "rev-list", "--first-parent", "--reverse", head, "--", path
        ).text.split()
        with repo.settings.open_engine(view.size) as engine:
            replay = _Replay(repo, transaction, engine, path, kind)
            for commit in listed:
                replay.commit(commit)
        repo.storage.files.commit_all()
        text = message or f"Convert {path} to a {kind.capitalize()} dataset, with its history"
        merge = MergedTree({}, {path: replay.tree}, (replay.tip,), {path: replay.marker})
        made = transaction.commit([], text, removed=[path], merge=merge)
    return CommitResult(made, repo.head_branch, {path: ChangeCounts()})


@dataclass(slots=True)
class _Replay:
    """The line of commits so far."""

    repo: OpenRepo
    transaction: Transaction
    engine: Engine
    path: str
    kind: str
    identity: str = ""
    """The identity of a Havasu dataset that is made."""
    tip: str = ""
    """The last commit of the line; empty before the first."""
    tree: str = ""
    """The tree of the dataset's internals there."""
    before: AnyDataset | None = None
    """The version that it was made of."""

    @property
    def marker(self) -> str:
        """The name of the folder of internals."""
        return HAVASU_MARKER if self.kind == "havasu" else TABLE_MARKER

    @property
    def sink(self) -> ObjectSink:
        """Where objects go."""
        sink = self.transaction.storage.sink
        if sink is None:
            raise ValueError("there is nowhere for objects to go")
        return sink

    def commit(self, identity: str) -> None:
        """Write a commit once more, if it has the dataset in another version than before."""
        old = read_commit(self.repo.git.objects, identity)
        folder = self.repo.folders(self.repo.resolve(identity)).get(self.path)
        if folder is None or folder.marker not in TABLES:
            return
        view = replace(self.repo.view(folder, identity[:10]), storage=self.transaction.storage)
        view.check_guard()
        tree = folder.internals if view.kind == self.kind else self._converted(view)
        self.before = view
        if tree == self.tree:
            return
        self.tree = tree
        changes: dict[str, Change] = {
            f"{self.path}/{folder.marker}": None,
            f"{self.path}/{self.marker}": Existing(tree, "tree"),
        }
        self._add_files(old.tree, changes)
        document = format_commit(
            edit_tree(self.sink, old.tree, changes),
            (self.tip,) if self.tip else old.parents[:1],
            author=old.author,
            committer=old.committer,
            message=old.message,
        )
        self.tip = self.sink.write("commit", document)

    def _add_files(self, tree: str, changes: dict[str, Change]) -> None:
        """Add what tells git and Kart of the new kind, as any commit does."""
        if self.repo.git.is_kart:
            return
        if self.kind == "havasu":
            attributes = attributes_edit(self.repo.git.objects, tree)
            if attributes is not None:
                changes[ATTRIBUTES_FILE] = attributes
        elif find_entry(self.repo.git.objects, tree, KART_VERSION) is None:
            changes[KART_VERSION] = KART_VERSION_3

    def _converted(self, view: AnyDataset) -> str:
        """Return the tree of a version in the new kind."""
        if isinstance(view, HavasuDataset):
            return self._as_kart(view)
        return self._as_havasu(view)

    def _as_kart(self, view: HavasuDataset) -> str:
        before, base = self.before, None
        if isinstance(before, HavasuDataset) and self.tree:
            base = KartDataset(self.path, self._folder, self.transaction.storage)
            if before.schema.identifier_ids != view.schema.identifier_ids or not base.key:
                base = None
        if base is None or not isinstance(before, HavasuDataset):
            edit = to_kart(view, None, self.engine)
            return edit_tree(self.sink, None, edit.blobs)
        edit = to_kart(view, base, self.engine, before=before)
        return edit_tree(self.sink, self.tree, edit.blobs)

    def _as_havasu(self, view: KartDataset) -> str:
        self.identity = self.identity or str(uuid.uuid4())
        properties = made_properties(view, self.identity)
        before, base, edit = self.before, None, None
        if isinstance(before, KartDataset) and self.tree and can_pair(before, view):
            base = HavasuDataset(self.path, self._folder, self.transaction.storage)
            edit = havasu_difference(base, before, view, properties, self.engine)
        if base is None or edit is None:
            base, edit = None, havasu_edit(view, self.engine, properties)
        self._adopt(edit)
        folder = edited(None if base is None else base.folder, edit)
        blobs = {name: folder.read_blob(blob) for name, blob in folder.blobs("")}
        return edit_tree(self.sink, None, blobs)

    @property
    def _folder(self) -> TreeFolder:
        return TreeFolder(self.sink, self.tree)

    def _adopt(self, edit: TreeEdit) -> None:
        storage = self.transaction.storage
        for file in sorted(data_files(edit)):
            if storage.staging.has(file):
                storage.files.put(storage.staging.path(file), sha256=file)
