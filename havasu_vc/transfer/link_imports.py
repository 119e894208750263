"""`import iceberg:LOCATION --link`: a table's data files become a dataset's where they are.

The first import makes a dataset of no rows with the table's columns, and takes the
snapshot in as an edit of that; a later one, or the next snapshot of a history, is an edit
of what is there. All files are read once, to be measured and hashed, and none is copied
that can be linked.
"""

from __future__ import annotations

import uuid
from dataclasses import replace

from havasu_vc.checkouts import keeping_out
from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.datasets.havasu.build import NewDataset
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.kinds import kind_named
from havasu_vc.datasets.protocol import Dataset, TreeEdit
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import InvalidArgumentError, SchemaViolationError
from havasu_vc.exchange.iceberg import IcebergSource, open_iceberg
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.exchange.sources import parse_table_location
from havasu_vc.formats.havasu.properties import (
    DATASET,
    Properties,
    format_properties,
    parse_properties,
)
from havasu_vc.model.evolution import check_evolution, with_stored_names
from havasu_vc.model.names import check_dataset_path
from havasu_vc.model.schema import Schema
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.results import ImportResult
from havasu_vc.repo.transaction import Transaction
from havasu_vc.store.object_urls import in_bucket
from havasu_vc.store.objects import Draft
from havasu_vc.store.trees import edit_tree
from havasu_vc.transfer.replaced import Replaced
from havasu_vc.workspace.incoming import linked_edit_of
from havasu_vc.workspace.linked_tables import read_linked_edits

__all__ = ["import_links", "require_linkable"]

LINKED = "havasu-vc.linked-table"
"""The property with the id of the table that a dataset's files belong to."""


def require_linkable(location: str, kind: str | None, order: str) -> str:
    """Return where the table is that a location names; raise when it cannot be linked."""
    table = parse_table_location(location)
    if table is None or table[0] != "iceberg" or in_bucket(table[1]):
        raise InvalidArgumentError(
            f"{location} cannot be linked: its files are none that a dataset could have",
            hints=("only tables of Iceberg can that are here, named as iceberg:FOLDER",),
        )
    linkable = kind is None or kind_named(kind).in_files
    if not linkable or order == "hilbert":
        raise InvalidArgumentError(
            "linked files stay as they are, so they cannot become "
            + ("files of another order" if linkable else f"a {str(kind).capitalize()} dataset"),
            hints=("import without --link",),
        )
    return table[1]


def import_links(
    repo: OpenRepo,
    place: str,
    destination: str | None,
    options: SourceOptions,
    *,
    replace_existing: bool,
    dry_run: bool,
    message: str,
    branch: str | None = None,
    no_checkout: bool = False,
) -> ImportResult:
    """Make one snapshot of a table a dataset that links to its files, in one commit."""
    source = open_iceberg(place, replace(options, keep_encoding=True))
    path = (destination or source.name).rstrip("/")
    if not dry_run:
        _ = repo.git.committer
    with Transaction(repo, branch=branch, dry_run=dry_run) as transaction:
        known, replaced = transaction.folders, Replaced(repo, transaction)
        check_dataset_path(path, set(known) - {path})
        if path in known and not replace_existing:
            raise InvalidArgumentError(
                f"there is a dataset {path!r} already",
                hints=("--replace commits what differs from it; or give another name",),
            )
        with repo.settings.open_engine(source.input_bytes) as engine:
            old = replaced.dataset(path) if path in known else None
            if old is not None:
                edit = _changed(transaction, old, source, engine, options)
            else:
                edit = _fresh(repo, transaction, path, source, engine)
        counts = {path: edit.counts}
        if dry_run or not (edit.blobs or replaced.merge):
            return ImportResult(None, repo.head_branch, counts, source.notes)
        with keeping_out(repo.git, () if path in known else (path,), out=no_checkout):
            commit = transaction.commit([edit] if edit.blobs else [], message, merge=replaced.merge)
            counts |= transaction.recounted
    return ImportResult(commit, repo.head_branch, counts, source.notes)


def _fresh(
    repo: OpenRepo, transaction: Transaction, path: str, source: IcebergSource, engine: Engine
) -> TreeEdit:
    meta = {f"meta/crs/{name}.wkt": wkt.encode() for name, wkt in source.crs.items()}
    if source.description:
        meta["meta/description"] = source.description.encode()
    new = NewDataset(path, source.schema, table_uuid=str(uuid.uuid4()), meta=meta)
    metadata = source.table.metadata
    properties = Properties(
        parse_properties(new.documents[DATASET], path).table_uuid,
        max(metadata.last_column_id, source.schema.last_id),
        {LINKED: metadata.table_uuid},
    )
    new.documents[DATASET] = format_properties(properties)
    empty = new.edit(())
    draft = Draft(repo.git.objects)
    tree = edit_tree(draft, None, empty.blobs)
    base = HavasuDataset(path, TreeFolder(draft, tree), transaction.storage, "the table")
    edits = read_linked_edits(base, source.table, source.snapshot_id, source.schema, engine)
    edit = linked_edit_of(edits, transaction.storage, engine)
    return replace(
        edit,
        blobs={**empty.blobs, **edit.blobs},
        fresh=True,
    )


def _changed(
    transaction: Transaction,
    old: Dataset,
    source: IcebergSource,
    engine: Engine,
    options: SourceOptions,
) -> TreeEdit:
    path, base = old.path, old.in_files
    if base is None:
        kind = old.kind.capitalize()
        raise InvalidArgumentError(f"{path} is a {kind} dataset, which has no files to link")
    if base.properties.others.get(LINKED) != source.table.metadata.table_uuid:
        raise InvalidArgumentError(
            f"{path} was not linked to the table at {source.table.location}",
            hints=("import with --replace alone compares it with the table by key",),
        )
    if options.primary_key is None:
        source = _with_key(source, old.schema)
    schema = _evolved(old.schema, source.schema, path)
    edits = read_linked_edits(base, source.table, source.snapshot_id, schema, engine)
    return linked_edit_of(edits, transaction.storage, engine)


def _with_key(source: IcebergSource, old: Schema) -> IcebergSource:
    """Return a source with the key that the dataset has, where it has those columns."""
    ids = tuple(n for n in old.identifier_ids if n in source.schema.by_id)
    fields = tuple(
        replace(field, required=True) if field.id in ids else field
        for field in source.schema.fields
    )
    return replace(source, schema=Schema(fields, ids))


def _evolved(old: Schema, new: Schema, path: str) -> Schema:
    try:
        schema = with_stored_names(new)
        check_evolution(old, schema)
    except SchemaViolationError as error:
        raise SchemaViolationError(f"{path}: {error.message}", hints=error.hints) from error
    return schema
