"""Meta items of a dataset: title, description, schema and coordinate reference systems."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from havasu_vc.checkouts import Workspace
from havasu_vc.datasets.havasu.documents import column_documents
from havasu_vc.datasets.kinds import require_files
from havasu_vc.datasets.protocol import Dataset, TreeEdit
from havasu_vc.datasets.tile_sets import is_tile_set, item_document, items_of
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import (
    CrsError,
    InvalidArgumentError,
    NotFoundError,
    SchemaViolationError,
)
from havasu_vc.model.evolution import check_evolution
from havasu_vc.model.names import unsafe_reason
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import task_of
from havasu_vc.repo.edits import commit_edits
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.results import CommitResult
from havasu_vc.repo.transaction import Transaction
from havasu_vc.store.trees import DatasetFolder
from havasu_vc.transfer import in_columns, rekeyed

__all__ = ["check_shapes", "edit_meta", "get_meta", "set_meta"]


TEXTS = ("title", "description")
LONGEST_TEXT = 1 << 20
_SHAPE = re.compile(
    r"(GEOMETRY|(MULTI)?(POINT|LINESTRING|POLYGON|CURVE|SURFACE)|GEOMETRYCOLLECTION"
    r"|CIRCULARSTRING|COMPOUNDCURVE|CURVEPOLYGON|POLYHEDRALSURFACE|TIN|TRIANGLE)( (Z|M|ZM))?"
)
_CRS_ITEM = re.compile(r"crs/[^/]{1,200}\.wkt")


def get_meta(
    repo: OpenRepo, dataset: str, names: Sequence[str] = (), *, revision: str = "HEAD"
) -> dict[str, Any]:
    """Return meta items of a dataset, all of them when none is named."""
    found = repo.revision(revision)
    folder = repo.folders(found).get(dataset.strip("/"))
    if folder is not None and is_tile_set(folder):
        meta = items_of(repo.git.objects, folder)
    else:
        meta = dict(repo.dataset(dataset, revision).header.meta)
    if not names:
        return meta
    missing = [name for name in names if name not in meta]
    if missing:
        raise NotFoundError(
            f"{dataset} has no meta item {missing[0]!r}",
            hints=(f"it has {', '.join(sorted(meta))}",),
        )
    return {name: meta[name] for name in names}


def set_meta(
    repo: OpenRepo, dataset: str, items: Mapping[str, Any], *, message: str | None = None
) -> CommitResult:
    """Commit meta items of a dataset; None removes one. `schema.json` evolves the schema."""
    message = message or f"Update metadata for {dataset}"
    folder = repo.folders(repo.head()).get(dataset.strip("/"))
    Workspace(repo).require_clean_in_karts()
    if folder is not None and is_tile_set(folder):
        return _set_items_of_tiles(repo, folder, items, message)

    def make(view: Dataset, engine: Engine) -> TreeEdit:
        return edit_meta(view, items, engine)

    return commit_edits(repo, [(dataset, make)], message)


def _set_items_of_tiles(
    repo: OpenRepo, folder: DatasetFolder, items: Mapping[str, Any], message: str
) -> CommitResult:
    """Commit meta items of a dataset of rasters or point clouds."""
    known = items_of(repo.git.objects, folder)
    documents = {name: item_document(name, value) for name, value in items.items()}
    changed = {
        f"meta/{name}": data
        for name, data in documents.items()
        if data != (None if known.get(name) is None else known[name].encode())
    }
    edit = TreeEdit(folder.path, changed, marker=folder.marker)
    with Transaction(repo) as transaction:
        commit = transaction.commit([edit], message) if changed else None
    told = {folder.path: edit.meta} if changed else {}
    return CommitResult(commit, repo.head_branch, {}, (), told)


def edit_meta(view: Dataset, items: Mapping[str, Any], engine: Engine) -> TreeEdit:
    """Return the edit that sets meta items."""
    schema, documents = meta_documents(view, items)
    if set(schema.identifier_ids) != set(view.schema.identifier_ids):
        return _rekeyed(view, schema, documents, engine)
    more, edit = view.evolved(schema)
    with edit:
        changed = {name: data for name, data in documents.items() if view.folder.read(name) != data}
        if not changed and not more:
            return TreeEdit(view.path, {})
        edit.add_documents(changed)
        return edit.finish(fold=False)


def meta_documents(
    view: Dataset, items: Mapping[str, Any], *, keep_ids: bool = False
) -> tuple[Schema, dict[str, bytes | None]]:
    """Return the schema and the other documents that meta items make.

    With `keep_ids`, new columns have the ids that the schema gives them, where these are
    such as this dataset could have drawn. So a patch makes the same columns everywhere.
    """
    documents: dict[str, bytes | None] = {}
    schema = view.schema
    if "schema.json" in items:
        schema = _schema(view, items["schema.json"], keep_ids=keep_ids)
    for name, value in items.items():
        if name == "schema.json":
            continue
        if name in TEXTS:
            documents[f"meta/{name}"] = None if value is None else _text(name, value)
        elif _CRS_ITEM.fullmatch(name) and unsafe_reason(name) is None:
            documents[f"meta/{name}"] = (
                None if value is None else _crs_item(name, value, view, schema)
            )
        elif view.takes_item(name):
            documents[f"meta/{name}"] = None if value is None else _other_item(name, value)
        else:
            raise InvalidArgumentError(
                f"there is no meta item {name!r}",
                hints=("items are title, description, schema.json and crs/NAME.wkt",),
            )
    for field in schema.geometries:
        crs = field.geometry.crs if field.geometry is not None else None
        item = f"meta/crs/{crs}.wkt"
        if item in documents and documents[item] is None:
            raise InvalidArgumentError(
                f"the CRS {crs} cannot go: the column {field.name!r} is in it",
                hints=("give the column another geometryCRS in the same change",),
            )
        if crs is not None and item not in documents and view.folder.read(item) is None:
            documents[item] = _crs(crs, view)
    return schema, documents


def _schema(view: Dataset, value: Any, *, keep_ids: bool) -> Schema:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except RecursionError as error:
            raise SchemaViolationError("the schema nests too deeply") from error
        except ValueError as error:
            raise SchemaViolationError(f"the schema is not JSON: {error}") from error
    if not isinstance(value, list) or not value:
        raise SchemaViolationError(
            f"the schema of {view.path} can only be a list of columns",
            hints=("`havasu-vc meta get DATASET schema.json` shows the form",),
        )
    schema = view.schema_of_items(value, keep_ids=keep_ids)
    check_evolution(view.schema, schema)
    check_shapes(schema, view.schema)
    return schema


def check_shapes(schema: Schema, old: Schema | None = None) -> None:
    """Raise unless the geometry types that columns newly announce exist."""
    for field in schema.geometries:
        shape = None if field.geometry is None else field.geometry.shape
        before = None if old is None else old.by_id.get(field.id)
        if (
            shape is None
            or _SHAPE.fullmatch(shape)
            or (before and before.geometry == field.geometry)
        ):
            continue
        raise SchemaViolationError(
            f"column {field.name!r} cannot be of the geometry type {shape!r}",
            hints=("types are GEOMETRY, POINT, MULTIPOLYGON Z and the like",),
        )


def _text(name: str, value: Any) -> bytes:
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{name} is text")
    try:
        data = value.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"{name} holds a character that is none") from error
    if len(data) > LONGEST_TEXT:
        raise InvalidArgumentError(f"{name} has {len(data):,} bytes, more than it may")
    return data


def _crs(value: Any, view: Dataset) -> bytes:
    if not isinstance(value, str):
        raise InvalidArgumentError("a CRS is its definition as WKT")
    return view.crs_item(value)


def _crs_item(name: str, value: Any, view: Dataset, schema: Schema) -> bytes:
    """Return a definition as it is kept: any text where Kart takes it and no column is in it."""
    try:
        return _crs(value, view)
    except CrsError:
        if any(name == f"crs/{crs}.wkt" for crs in _systems(schema)) or not view.takes_item(name):
            raise
    return _text(name, f"{value.rstrip()}\n")


def _systems(schema: Schema) -> set[str | None]:
    """Return the names of the reference systems that columns are in."""
    return {None if each.geometry is None else each.geometry.crs for each in schema.geometries}


def _other_item(name: str, value: Any) -> bytes:
    if isinstance(value, str):
        return _text(name, value)
    try:
        return json.dumps(value).encode()
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"{name} is neither text nor JSON") from error


def _rekeyed(
    old: Dataset, schema: Schema, meta: dict[str, bytes | None], engine: Engine
) -> TreeEdit:
    """Return the edit that gives a dataset another key, under which its rows are written again."""
    if old.in_files is not None:
        documents = column_documents(require_files(old).folder, schema)
        tasks = old.after(TreeEdit(old.path, documents)).scan()
    else:
        tasks = [task_of(in_columns, task, old.schema, schema) for task in old.scan()]
    return rekeyed(old, schema, meta, tasks, engine, size=old.size)
