"""One kind of dataset as another: Kart's as Havasu, Havasu's as Kart.

Columns keep their ids both ways, so history goes on across the commit: a diff over it
shows what changed in rows, not a table that went and one that came. A Havasu dataset
remembers the tree that it was converted from. Going back, only what changed since is
edited in that tree, so what Kart keeps and Havasu has no place for (older legends,
spellings of numbers, other meta items) is there again.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from havasu_vc.checkouts import TREE, havasu_edit
from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.datasets.kinds import DatasetKind, kind_named, kind_told_by, require_kind
from havasu_vc.datasets.protocol import Dataset, TreeEdit
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import CorruptionError, StateError
from havasu_vc.formats.havasu.properties import Properties
from havasu_vc.history.diff import row_changes
from havasu_vc.merging import require_calm
from havasu_vc.model.diffs import ChangeCounts
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.results import CommitResult
from havasu_vc.repo.transaction import MergedTree, Transaction
from havasu_vc.store.trees import find_entry

__all__ = ["convert_rows", "converting", "made_properties", "rows_in_git"]


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
        with repo.settings.open_engine(view.size) as engine:
            wanted = kind_named(kind)
            if wanted.in_files:
                edit = havasu_edit(view, engine, made_properties(view, str(uuid.uuid4())))
                commit = transaction.commit([edit], text, removed=[view.path])
            else:
                base = _origin(view, wanted)
                edit = rows_in_git(view, wanted, base, engine)
                internals = {view.path: None if base is None else _tree(base)}
                merge = MergedTree({}, internals, (), {view.path: wanted.marker})
                commit = transaction.commit([edit], text, removed=[view.path], merge=merge)
    return CommitResult(commit, repo.head_branch, {view.path: ChangeCounts()})


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
