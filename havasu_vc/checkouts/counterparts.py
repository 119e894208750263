"""Counterparts: datasets without data files as Havasu ones, whose tables can be checked out.

    <data folder>/kart/<tree>-<where>.table    the documents of one counterpart
    <data folder>/objects/…                    its data files, among all others

A counterpart holds the rows, columns and documents of one tree of a dataset of another kind, and
is made once: by tasks over folders that do not meet, or, where a counterpart of another
version is here, by the rows that differ. It appears when it is whole, so rows that a
partial clone lacks leave nothing behind. It is a cache: one that is damaged or whose
files are gone is made anew, and `gc` takes what no checked-out table is of.

Versions of datasets that no commit has, for tables: the same rows in another form.

    <data folder>/<kind>/<name>.table    the documents of one, as git objects
    <data folder>/objects/…              its data files, among all others

A version appears when it is whole, so what goes wrong while it is made leaves nothing
behind. It is a cache: one that is damaged or whose files are gone counts as not there,
and `gc` takes what no checked-out table is of.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from havasu_vc.datasets.folder import Folder, TreeFolder, edited
from havasu_vc.datasets.havasu.build import NewDataset
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.kinds import (
    DatasetKind,
    kind_named,
    kind_of,
    kind_told_by,
    usual_kind,
)
from havasu_vc.datasets.protocol import Dataset, DatasetInFiles, TreeEdit
from havasu_vc.datasets.storage import Storage
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import HavasuError
from havasu_vc.exchange.importing import write_table
from havasu_vc.formats.havasu.properties import DATASET, Properties, format_properties
from havasu_vc.history.diff import row_changes
from havasu_vc.model.names import TABLES
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.disk import replace_file, short_lived_folder
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.locks import shared_lock
from havasu_vc.store.objects import KeptObjects, format_objects, parse_objects
from havasu_vc.store.trees import DatasetFolder, edit_tree, find_entry

__all__ = [
    "SUFFIX",
    "TREE",
    "can_be_table",
    "counterpart",
    "data_files",
    "forget_counterparts",
    "forget_versions",
    "havasu_difference",
    "havasu_edit",
    "keep_version",
    "making_version",
    "needs_counterpart",
    "no_table",
    "read_version",
    "stored_view",
    "table_view",
    "tree_view",
]

CODEC = 1
"""Counts up when the same features give other rows than before."""
TREE = "kart.tree"
"""The property of a Havasu dataset that names the Kart dataset's tree it was made of."""
COLUMNS = "kart.columns"
"""The property that ties ids of Kart's columns to field ids."""
_IDENTITY = uuid.UUID("6b617274-6861-5661-b173-750000000000")
_META = ("title", "description")


def can_be_table(folder: DatasetFolder | None) -> bool:
    """Whether a dataset is of a kind that can be checked out."""
    return folder is not None and folder.marker in TABLES


def no_table(path: str) -> str:
    """Return what to say of a dataset that cannot be checked out."""
    return f"{path} is a dataset of a kind that cannot be a table"


def table_view(
    repo: OpenRepo, folder: DatasetFolder, revision: str, *, near: Iterable[str] = ()
) -> DatasetInFiles:
    """Return the Havasu dataset that a dataset's table shows.

    `near` are trees of other versions whose counterparts one may be made from.
    """
    inside = TreeFolder(repo.git.objects, folder.internals)
    kind = kind_of(folder.path, folder.marker)
    view = kind.open(folder.path, inside, repo.storage, revision, folder.marker)
    files = view.in_files
    return counterpart(repo, view, near=near) if files is None else files


def tree_view(repo: OpenRepo, path: str, tree: str, revision: str) -> DatasetInFiles:
    """Return the Havasu dataset that the table of a tree of internals shows."""
    marker = _marker(repo, path, tree, revision)
    return table_view(repo, DatasetFolder(path, marker, tree, tree), revision)


def needs_counterpart(repo: OpenRepo, tree: str) -> bool:
    """Whether a tree holds the internals of a dataset whose table shows a counterpart."""
    kind = _kind_of_tree(repo, tree)
    return kind is None or not kind.in_files


def _kind_of_tree(repo: OpenRepo, tree: str) -> DatasetKind | None:
    return kind_told_by(lambda name: find_entry(repo.git.objects, tree, name) is not None)


def stored_view(repo: OpenRepo, path: str, tree: str, storage: Storage, revision: str) -> Dataset:
    """Return the dataset of a tree of internals, as it is stored."""
    marker = _marker(repo, path, tree, revision)
    inside = TreeFolder(repo.git.objects, tree)
    return kind_of(path, marker).open(path, inside, storage, revision, marker)


def _marker(repo: OpenRepo, path: str, tree: str, revision: str) -> str:
    """Return what the folder of a tree of internals is called: V2 has another name than V3."""
    kind = _kind_of_tree(repo, tree) or usual_kind(of_kart=True)
    if kind.in_files:
        return kind.marker
    with suppress(HavasuError):
        folder = repo.folders(repo.resolve(revision)).get(path)
        if folder is not None and folder.internals == tree:
            return folder.marker
    return kind.marker


def counterpart(repo: OpenRepo, view: Dataset, *, near: Iterable[str] = ()) -> DatasetInFiles:
    """Return the Havasu dataset with the rows of another one: one that is kept, or a new one."""
    place = _place(repo, view.path, _tree(view))
    found = read_version(repo, view.path, place, view.revision)
    if found is not None:
        return found
    with making_version(repo) as storage:
        folder, files = _made(repo, view, storage, near)
        kept = keep_version(repo, storage, folder, files, lambda tree: place)
    return HavasuDataset(view.path, kept, repo.storage, view.revision)


def _tree(view: Dataset) -> str:
    """Return the tree of a dataset's internals."""
    assert isinstance(view.folder, TreeFolder)
    return view.folder.tree


def _place(repo: OpenRepo, path: str, tree: str) -> Path:
    """Return where a counterpart is kept: by the tree of features and documents, and the place."""
    text = repr((CODEC, path)).encode(errors="surrogateescape")
    where = hashlib.sha256(text).hexdigest()[:16]
    return repo.git.data_folder / "kart" / f"{tree}-{where}{SUFFIX}"


def _made(
    repo: OpenRepo, view: Dataset, storage: Storage, near: Iterable[str]
) -> tuple[Folder, set[str]]:
    """Return the documents of a new counterpart, and its data files."""
    kind = kind_named(view.kind)
    with repo.settings.open_engine(view.size) as engine:
        for tree in dict.fromkeys(near):
            if tree == _tree(view) or not needs_counterpart(repo, tree):
                continue
            inside = TreeFolder(repo.git.objects, tree)
            old = kind.open(view.path, inside, repo.storage, tree[:10], view.marker)
            base = read_version(repo, view.path, _place(repo, view.path, tree), old.revision)
            if base is None or old.compare(view) is None:
                continue
            properties = _properties(view)
            base = base.with_storage(storage)
            edit = havasu_difference(base, old, view, properties, engine)
            if edit is not None:
                return edited(base.folder, edit), data_files(edit)
        edit = havasu_edit(view.with_storage(storage), engine, _properties(view))
        return edited(None, edit), data_files(edit)


def data_files(edit: TreeEdit) -> set[str]:
    """Return the data files that an edit brings."""
    return {
        path.rpartition("/")[2]
        for path, data in edit.blobs.items()
        if data is not None and path.startswith("data/")
    }


def havasu_edit(
    view: Dataset, engine: Engine, properties: Properties, old: DatasetInFiles | None = None
) -> TreeEdit:
    """Return the edit that makes a new Havasu dataset of another kind's; files are staged.

    Where there was one before, it goes on as that: what others changed meets this.
    """
    new = NewDataset(view.path, view.schema, table_uuid=properties.table_uuid, meta=_meta(view))
    new.documents[DATASET] = format_properties(properties)
    size = view.size
    files = write_table(view.scan(), new, view.storage, engine, input_bytes=size)
    return new.edit(files) if old is None else new.replacing(old, files)


def havasu_difference(
    base: DatasetInFiles,
    old: Dataset,
    new: Dataset,
    properties: Properties,
    engine: Engine,
) -> TreeEdit | None:
    """Return the edit that makes the counterpart of one version that of another.

    None when so much differs that a new one is less work.
    """
    most = max(base.rows // 2, 1000)
    documents: dict[str, bytes | None] = {**_meta(new)}
    for name, _ in base.folder.blobs("meta"):
        path = f"meta/{name}"
        if (name in _META or name.startswith("crs/")) and path not in documents:
            documents[path] = None
    documents[DATASET] = format_properties(properties)
    _, edit = base.evolved(new.schema)
    with edit:
        edit.add_documents(documents)
        for batch in row_changes(old, new, engine):
            edit.collect(iter((batch,)))
            if edit.counts.total > most:
                return None
        return edit.finish()


def _meta(view: Dataset) -> dict[str, bytes]:
    """Return the documents that a counterpart has of its dataset."""
    return {
        f"meta/{name}": data
        for name, data in view.items.items()
        if name in _META or name.startswith("crs/")
    }


def _properties(view: Dataset) -> Properties:
    """Return the properties of a counterpart: a table's identity is where its dataset is."""
    identity = uuid.uuid5(_IDENTITY, view.path.encode("utf-8", "surrogateescape").hex())
    others = {TREE: _tree(view), COLUMNS: _columns(view)}
    return Properties(str(identity), view.schema.last_id, others)


def _columns(view: Dataset) -> str:
    """Return the ids that columns have in the dataset itself, each with that of its field."""
    items = view.header.meta["schema.json"]
    found = {each["id"]: field.id for each, field in zip(items, view.schema.fields, strict=True)}
    return json.dumps(found)


def forget_counterparts(
    repo: OpenRepo, keep: Iterable[str], *, grace_seconds: float, dry_run: bool = False
) -> int:
    """Remove counterparts that are of none of some trees and are old; return how many bytes."""
    kept = set(keep)
    return forget_versions(
        repo.git.data_folder / "kart",
        lambda name: name.partition("-")[0] in kept,
        grace_seconds=grace_seconds,
        dry_run=dry_run,
    )


SUFFIX = ".table"
"""How the name of a kept version ends."""


@contextmanager
def making_version(repo: OpenRepo) -> Iterator[Storage]:
    """Yield where files of a version in the making wait; gc is kept away meanwhile."""
    folder = repo.git.data_folder
    with shared_lock(folder / "lock"), short_lived_folder(folder / "staging") as staging:
        yield replace(repo.storage, staging=DataFileStore(staging))


def keep_version(
    repo: OpenRepo,
    storage: Storage,
    folder: Folder,
    files: Iterable[str],
    place: Callable[[str], Path],
) -> TreeFolder:
    """Keep a version whose new `files` are staged, and return its documents.

    `place` gives the file for the tree of the version.
    """
    for file in files:
        if storage.staging.has(file):
            repo.storage.files.put(storage.staging.path(file), sha256=file)
    repo.storage.files.commit_all()
    kept = KeptObjects()
    blobs = {name: folder.read_blob(blob) for name, blob in folder.blobs("")}
    tree = edit_tree(kept, None, blobs)
    replace_file(place(tree), format_objects(tree, kept))
    return TreeFolder(kept, tree)


def read_version(
    repo: OpenRepo,
    path: str,
    place: Path,
    revision: str,
    beside: Callable[[], Container[str]] = frozenset,
) -> DatasetInFiles | None:
    """Return the version that is kept in a file, if it is whole.

    `beside` gives files that are read elsewhere; it is asked where some are not here.
    """
    try:
        tree, kept = parse_objects(place.read_bytes(), str(place))
        found = HavasuDataset(path, TreeFolder(kept, tree), repo.storage, revision)
        found.check_guard()
        away = [file for file in found.entries if not repo.storage.files.has(file)]
        there = beside() if away else ()
    except (OSError, HavasuError):
        return None
    return found if all(file in there for file in away) else None


def forget_versions(
    folder: Path, wanted: Callable[[str], bool], *, grace_seconds: float, dry_run: bool = False
) -> int:
    """Remove versions of a folder that are not wanted and are old; return how many bytes.

    `wanted` is asked by name, without the suffix.
    """
    size = 0
    for place in sorted(folder.glob(f"*{SUFFIX}")):
        with suppress(OSError):
            status = place.stat()
            if status.st_mtime > time.time() - grace_seconds:
                continue
            if wanted(place.name.removesuffix(SUFFIX)):
                continue
            size += status.st_size
            if not dry_run:
                place.unlink()
    return size
