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

from havasu_vc.checkouts import TREE, havasu_edit
from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.kinds import kind_of, require_files, require_kind
from havasu_vc.datasets.protocol import Dataset, TreeEdit
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import CorruptionError, StateError
from havasu_vc.formats.havasu.properties import Properties
from havasu_vc.history.diff import row_changes
from havasu_vc.merging import require_calm
from havasu_vc.model.diffs import ChangeCounts
from havasu_vc.model.names import TABLE_MARKER
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.results import CommitResult
from havasu_vc.repo.transaction import MergedTree, Transaction

__all__ = ["convert_rows", "converting", "made_properties", "to_kart"]


_APART = kind_of("", TABLE_MARKER)
"""The other kind: Kart's, whose rows stand one by one."""


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
            if view.in_files is None:
                edit = havasu_edit(view, engine, made_properties(view, str(uuid.uuid4())))
                commit = transaction.commit([edit], text, removed=[view.path])
            else:
                files = require_files(view)
                base = _origin(files)
                edit = to_kart(files, base, engine)
                internals = {view.path: None if base is None else _tree(base)}
                merge = MergedTree({}, internals, (), {view.path: _APART.marker})
                commit = transaction.commit([edit], text, removed=[view.path], merge=merge)
    return CommitResult(commit, repo.head_branch, {view.path: ChangeCounts()})


def made_properties(view: Dataset, identity: str) -> Properties:
    """Return the properties of a Havasu dataset that a Kart one becomes."""
    # A dataset of V2 has no tree that one could go back to.
    tree = view.folder.tree if isinstance(view.folder, TreeFolder) else None
    others = {TREE: tree} if tree is not None and view.marker == _APART.marker else {}
    return Properties(identity, view.schema.last_id, others)


def _origin(view: HavasuDataset) -> Dataset | None:
    """Return the Kart dataset that a Havasu one was made of, if it is still here and fits."""
    tree = view.properties.others.get(TREE)
    if tree is None or not isinstance(view.folder, TreeFolder):
        return None
    folder = TreeFolder(view.folder.source, tree)
    base = _APART.open(view.path, folder, view.storage, "the dataset it was converted from")
    try:
        same = set(base.schema.identifier_ids) == set(view.schema.identifier_ids)
        base.check_guard()
    except CorruptionError:
        return None  # a shallow clone has no such tree
    return base if same and base.key else None


def to_kart(
    view: HavasuDataset,
    base: Dataset | None,
    engine: Engine,
    *,
    before: HavasuDataset | None = None,
) -> TreeEdit:
    """Return the edit that makes a Kart dataset of a Havasu one: a new one, or an edit of `base`.

    `before` is a Havasu dataset with the rows of `base`, if there is one.
    """
    meta = _meta(view)
    if base is None:
        new = _APART.new(view.path, view.schema, view.storage, meta=meta)
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
            if name in known and _APART.crs_document(known[name]) == data
        }
        edit.add_documents({n: d for n, d in meta.items() if n not in same})
        edit.add_documents(gone)
        edit.collect(row_changes(before or base, view, engine))
        return replace(edit.finish(), counts=ChangeCounts())


def _tree(view: Dataset) -> str:
    assert isinstance(view.folder, TreeFolder)
    return view.folder.tree


def _meta(view: Dataset) -> dict[str, bytes]:
    meta: dict[str, bytes] = {}
    for name in ("title", "description"):
        data = view.folder.read(f"meta/{name}")
        if data is not None:
            meta[f"meta/{name}"] = data
    for name, wkt in view.crs.items():
        meta[f"meta/crs/{name}.wkt"] = _APART.crs_document(wkt)
    return meta
