"""One kind of dataset as another: Kart's as Havasu, Havasu's as Kart.

Columns keep their ids both ways, so history goes on across the commit: a diff over it
shows what changed in rows, not a table that went and one that came. A Havasu dataset
remembers the tree that it was converted from. Going back, only what changed since is
edited in that tree, so what Kart keeps and Havasu has no place for (older legends,
spellings of numbers, other meta items) is there again.

A dataset as another kind, with its history: each commit that changed it, once more.

    old     A──B───C──D──E──X       X is all that HEAD gets: a merge of E and of d
               └─F─┘
    new     a──b───c──d             b and c have f between them too: merges stay merges

Commits that are there stay as they are. Beside them come commits with the same authors,
dates and messages, in which the dataset is of the new kind, and a commit that joins the
last of them to HEAD. Looking back over that one finds each row's commit among them. On
request every branch and tag gets a namesake at the commit that stands for its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import partial

from havasu_vc.checkouts import TREE, data_files, havasu_difference, havasu_edit
from havasu_vc.datasets.commit_plans import MergedTree
from havasu_vc.datasets.folder import TreeFolder, edited
from havasu_vc.datasets.havasu.far import as_read
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.kinds import DatasetKind, kind_named, kind_told_by, require_kind
from havasu_vc.datasets.protocol import Dataset, TreeEdit
from havasu_vc.engine.protocol import Engine
from havasu_vc.engine.settings import Settings
from havasu_vc.errors import CorruptionError, StateError
from havasu_vc.formats.havasu.properties import Properties
from havasu_vc.history.diff import row_changes
from havasu_vc.merging import require_calm
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.names import KART_VERSION, KART_VERSION_3, TABLES
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.results import CommitResult
from havasu_vc.repo.transaction import Transaction
from havasu_vc.store.commits import format_commit, read_commit
from havasu_vc.store.preparation import attributes_edits
from havasu_vc.store.refs import list_branches, list_tags
from havasu_vc.store.trees import Change, DatasetFolder, Existing, ObjectSink, edit_tree, find_entry
from havasu_vc.transfer.requests import ConvertRequest

__all__ = ["convert", "convert_rows", "converting", "made_properties", "rows_in_git"]


@contextmanager
def converting(repo: OpenRepo, path: str, kind: str) -> Iterator[tuple[Transaction, Dataset]]:
    """Yield a dataset that becomes another kind, and the transaction that it is of.

    Raises `InvalidArgumentError` for a word that is no kind, and `StateError` when the
    dataset is of that kind already.
    """
    require_kind(kind)
    require_calm(repo)
    with Transaction(repo) as transaction:
        view = transaction.dataset(path)
        if view.kind == kind:
            raise StateError(f"{view.path} is a {kind} dataset already")
        yield transaction, view


def convert_rows(repo: OpenRepo, path: str, kind: str, message: str | None) -> CommitResult:
    """Commit a dataset as another kind, with the same rows."""
    with converting(repo, path, kind) as (transaction, view):
        text = message or f"Convert {view.path} to a {kind.capitalize()} dataset"
        wanted = kind_named(kind)
        with _settings(repo, wanted).open_engine(view.size) as engine:
            if wanted.in_files:
                edit = havasu_edit(view, engine, made_properties(view, str(uuid.uuid4())))
                commit = transaction.commit([edit], text, removed=[view.path])
            else:
                base = _origin(view, wanted)
                edit = rows_in_git(as_read(view), wanted, base, engine)
                internals = {view.path: None if base is None else _tree(base)}
                merge = MergedTree({}, internals, (), {view.path: wanted.marker})
                commit = transaction.commit([edit], text, removed=[view.path], merge=merge)
    return CommitResult(commit, repo.head_branch, {view.path: ChangeCounts()})


def _settings(repo: OpenRepo, wanted: DatasetKind) -> Settings:
    """Return how a dataset becomes one of a kind: here, where git's objects have to be written."""
    if wanted.in_files:
        return repo.settings
    return repo.settings.staying_here(
        f"rows of a {wanted.name.capitalize()} dataset are objects of git, which this process "
        "writes: it reads them too, without Spark"
    )


def made_properties(view: Dataset, identity: str) -> Properties:
    """Return the properties of a Havasu dataset that one of another kind becomes."""
    # A dataset of V2 has no tree that one could go back to.
    tree = view.folder.tree if isinstance(view.folder, TreeFolder) else None
    newest = view.marker == kind_named(view.kind).marker
    others = {TREE: tree} if tree is not None and newest else {}
    return Properties(identity, view.schema.last_id, others)


def _origin(view: Dataset, kind: DatasetKind) -> Dataset | None:
    """Return the dataset of a kind that this one was made of, if it is still here and fits."""
    files = view.in_files
    tree = None if files is None else files.properties.others.get(TREE)
    if tree is None or not isinstance(view.folder, TreeFolder):
        return None
    folder = TreeFolder(view.folder.source, tree)
    base = kind.open(view.path, folder, view.storage, "the dataset it was converted from")
    try:
        if kind_told_by(partial(_has, folder)) is not kind:
            return None
        same = set(base.schema.identifier_ids) == set(view.schema.identifier_ids)
        base.check_guard()
    except CorruptionError:
        return None  # a shallow clone has no such tree
    return base if same and base.key else None


def _has(folder: TreeFolder, name: str) -> bool:
    return find_entry(folder.source, folder.tree, name) is not None


def rows_in_git(
    view: Dataset,
    kind: DatasetKind,
    base: Dataset | None,
    engine: Engine,
    *,
    before: Dataset | None = None,
) -> TreeEdit:
    """Return the edit that makes a dataset of a kind whose rows git has of one of another kind.

    It is a new one, or an edit of `base`; `before` has the rows of `base` in the kind of `view`.
    """
    meta = _meta(view, kind)
    if base is None:
        new = kind.new(view.path, view.schema, view.storage, meta=meta)
        new.write(engine.run(view.scan(), description=f"Converting {view.path}"))
        return replace(new.finish(), counts=ChangeCounts())
    _, edit = base.evolved(base.fitted(view.schema))
    with edit:
        gone: dict[str, bytes | None] = {
            f"meta/{name}": None
            for name in base.items
            if (name in ("title", "description") or name.startswith("crs/"))
            and f"meta/{name}" not in meta
        }
        known = {
            f"meta/{name}": data.decode()
            for name, data in base.items.items()
            if name.startswith("crs/")
        }
        same = {
            name
            for name, data in meta.items()
            if name in known and kind.crs_document(known[name]) == data
        }
        edit.add_documents({n: d for n, d in meta.items() if n not in same})
        edit.add_documents(gone)
        edit.collect(row_changes(before or base, view, engine))
        return replace(edit.finish(), counts=ChangeCounts())


def _tree(view: Dataset) -> str:
    assert isinstance(view.folder, TreeFolder)
    return view.folder.tree


def _meta(view: Dataset, kind: DatasetKind) -> dict[str, bytes]:
    items = view.items
    meta = {f"meta/{n}": items[n] for n in ("title", "description") if n in items}
    for name, wkt in view.crs.items():
        meta[f"meta/crs/{name}.wkt"] = kind.crs_document(wkt)
    return meta


def convert(repo: OpenRepo, request: ConvertRequest) -> CommitResult:
    """Commit a dataset as one of another kind, with the same rows."""
    path, kind, message = request.dataset.strip("/"), request.kind, request.message
    if request.history:
        return _convert_history(repo, path, kind, message, refs=request.refs)
    return convert_rows(repo, path, kind, message)


def _convert_history(
    repo: OpenRepo, path: str, kind: str, message: str | None, *, refs: bool = False
) -> CommitResult:
    """Commit a dataset as another kind, after each of its versions among commits of their own.

    With `refs` the histories of all branches and tags come too, each as `KIND/NAME`.
    """
    with converting(repo, path, kind) as (transaction, view):
        path = view.path
        head = transaction.head.commit or ""
        named = _named(repo, kind) if refs else {}
        with _settings(repo, kind_named(kind)).open_engine(view.size) as engine:
            replay = _Replay(repo, transaction, engine, path, kind)
            for commit, *parents in _changing(repo, path, (head, *named.values())):
                replay.commit(commit, parents)
            namesakes = {ref: replay.standing_for(commit) for ref, commit in named.items()}
            last = replay.states[_last(repo, path, head)]
        repo.storage.files.commit_all()
        text = message or f"Convert {path} to a {kind.capitalize()} dataset, with its history"
        merge = MergedTree({}, {path: last.tree}, (last.commit,), {path: replay.marker})
        made = transaction.commit([], text, removed=[path], merge=merge)
    for ref, target in namesakes.items():
        if target is not None:
            repo.git.git("update-ref", ref, target, "")
    return CommitResult(made, repo.head_branch, {path: ChangeCounts()})


def _changing(repo: OpenRepo, path: str, tips: Sequence[str]) -> list[list[str]]:
    """Return the commits that change a dataset, parents first, each with those before it.

    Merges are among them where both sides changed it.
    """
    said = repo.git.git(
        "rev-list", "--topo-order", "--reverse", "--parents", "--simplify-merges", "--full-history",
        *dict.fromkeys(tips), "--", path,
    )  # fmt: skip
    return [line.split() for line in said.lines]


def _last(repo: OpenRepo, path: str, commit: str) -> str:
    """Return the last commit up to one that changes a dataset."""
    return _changing(repo, path, [commit])[-1][0]


def _named(repo: OpenRepo, kind: str) -> dict[str, str]:
    """Return the commits of all branches and tags by the names of their namesakes."""
    found = {f"refs/heads/{kind}/{b.name}": b.commit for b in list_branches(repo.git)}
    found |= {f"refs/tags/{kind}/{tag.name}": tag.commit for tag in list_tags(repo.git)}
    there = repo.git.git("for-each-ref", "--format=%(refname)").lines
    for ref in found:
        if ref in there:
            raise StateError(
                f"there is {ref.removeprefix('refs/')} already",
                hints=("rename it, or leave out --refs",),
            )
    return {ref: commit for ref, commit in found.items() if commit}


@dataclass(frozen=True, slots=True)
class _State:
    """The outcome for a commit."""

    commit: str
    """The commit that stands for it."""
    tree: str
    """The dataset's internals there, in the new kind; empty where it is not there."""
    folder: DatasetFolder | None
    """The dataset as it was in the old commit."""


@dataclass(slots=True)
class _Replay:
    """The commits so far."""

    repo: OpenRepo
    transaction: Transaction
    engine: Engine
    path: str
    kind: str
    identity: str = ""
    """The identity of a Havasu dataset that is made."""
    states: dict[str, _State] = field(default_factory=dict)
    """The outcome for each commit that changed the dataset."""
    trees: dict[str, str] = field(default_factory=dict)
    """The outcome for each tree of internals."""

    @property
    def marker(self) -> str:
        """The name of the folder of internals."""
        return kind_named(self.kind).marker

    @property
    def sink(self) -> ObjectSink:
        """Where objects go."""
        sink = self.transaction.storage.sink
        if sink is None:
            raise ValueError("there is nowhere for objects to go")
        return sink

    def commit(self, identity: str, parents: Sequence[str]) -> None:
        """Write a commit once more, if it has the dataset in another version than before."""
        before = [self.states[parent] for parent in parents]
        folder = self._folder_at(identity)
        tree = "" if folder is None else self._tree(folder, identity, before)
        if len(before) == 1 and before[0].tree == tree:
            self.states[identity] = replace(before[0], folder=folder)
            return
        self.states[identity] = _State(
            self._again(identity, folder, tree, [state.commit for state in before]), tree, folder
        )

    def standing_for(self, identity: str) -> str | None:
        """Return the commit that stands for one; None where the dataset never was."""
        if identity in self.states:
            return self.states[identity].commit
        listed = _changing(self.repo, self.path, [identity])
        if not listed:
            return None
        state = self.states[listed[-1][0]]
        folder = self._folder_at(identity)
        return self._again(identity, folder, state.tree, [state.commit])

    def _folder_at(self, identity: str) -> DatasetFolder | None:
        folder = self.repo.folders(self.repo.resolve(identity)).get(self.path)
        return folder if folder is not None and folder.marker in TABLES else None

    def _view(self, folder: DatasetFolder, identity: str) -> Dataset:
        view = self.repo.view(folder, identity[:10]).with_storage(self.transaction.storage)
        view.check_guard()
        return as_read(view)

    def _tree(self, folder: DatasetFolder, identity: str, before: Sequence[_State]) -> str:
        """Return the tree of a version in the new kind, made of the one before where it can be."""
        known = self.trees.get(folder.internals)
        if known is None:
            view = self._view(folder, identity)
            if view.kind == self.kind:
                known = folder.internals
            else:
                base = next((s for s in before if s.tree and s.folder is not None), None)
                known = self._converted(view, base)
            self.trees[folder.internals] = known
        return known

    def _again(
        self, identity: str, folder: DatasetFolder | None, tree: str, parents: Sequence[str]
    ) -> str:
        """Write a commit with the dataset in the new kind."""
        old = read_commit(self.repo.git.objects, identity)
        changes: dict[str, Change] = {}
        if folder is not None:
            changes[f"{self.path}/{folder.marker}"] = None
            changes[f"{self.path}/{self.marker}"] = Existing(tree, "tree")
        self._add_files(old.tree, changes)
        document = format_commit(
            edit_tree(self.sink, old.tree, changes),
            tuple(dict.fromkeys(parents)) or old.parents,
            author=old.author,
            committer=old.committer,
            message=old.message,
        )
        return self.sink.write("commit", document)

    def _add_files(self, tree: str, changes: dict[str, Change]) -> None:
        """Add what tells git and Kart of the new kind, as any commit does."""
        if self.repo.git.is_kart:
            return
        kind = kind_named(self.kind)
        if kind.in_files:
            changes.update(attributes_edits(self.repo.git.objects, tree, ()))
        elif kind.of_kart and find_entry(self.repo.git.objects, tree, KART_VERSION) is None:
            changes[KART_VERSION] = KART_VERSION_3

    def _converted(self, view: Dataset, base: _State | None) -> str:
        before = None
        if base is not None and base.folder is not None:
            before = self._view(base.folder, base.folder.internals)
        tree = "" if base is None else base.tree
        if kind_named(self.kind).in_files:
            return self._as_havasu(view, before, tree)
        return self._as_rows_in_git(view, before, tree)

    def _as_rows_in_git(self, view: Dataset, before: Dataset | None, tree: str) -> str:
        kind = kind_named(self.kind)
        if before is not None and before.kind == view.kind:
            base = kind.open(self.path, TreeFolder(self.sink, tree), self.transaction.storage)
            keys = [set(each.schema.identifier_ids) for each in (before, view, base)]
            # Without a key rows got one of their own in git, which those that are read lack.
            if base.key and keys[0] == keys[1] == keys[2]:
                edit = rows_in_git(view, kind, base, self.engine, before=before)
                return edit_tree(self.sink, tree, edit.blobs)
        return edit_tree(self.sink, None, rows_in_git(view, kind, None, self.engine).blobs)

    def _as_havasu(self, view: Dataset, before: Dataset | None, tree: str) -> str:
        self.identity = self.identity or str(uuid.uuid4())
        properties = made_properties(view, self.identity)
        base, edit = None, None
        if before is not None and before.in_files is None:
            base = HavasuDataset(self.path, TreeFolder(self.sink, tree), self.transaction.storage)
            if before.compare(view) is not None:
                edit = havasu_difference(base, before, view, properties, self.engine)
        if edit is None:
            edit = havasu_edit(view, self.engine, properties, base)
        self._adopt(edit)
        folder = edited(None if base is None else base.folder, edit)
        blobs = {name: folder.read_blob(blob) for name, blob in folder.blobs("")}
        return edit_tree(self.sink, None, blobs)

    def _adopt(self, edit: TreeEdit) -> None:
        storage = self.transaction.storage
        for file in sorted(data_files(edit)):
            if storage.staging.has(file):
                storage.files.put(storage.staging.path(file), sha256=file)
