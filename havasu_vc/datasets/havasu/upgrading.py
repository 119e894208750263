"""A dataset of format 1 as one of format 2: other documents of the same files.

Each file becomes a delta of its own, and one delta without files has the digests, which
format 1 knows of the whole alone. The snapshot that this was made from is named in
`dataset.json`, so that git does not put two states together that were upgraded apart.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from havasu_vc.datasets.folder import Folder, documents_of
from havasu_vc.datasets.havasu.ledger import first_blobs, past_of
from havasu_vc.datasets.havasu.plan import PAST
from havasu_vc.errors import UnfinishedMergeError
from havasu_vc.formats.havasu.deltas import Delta, format_delta, named
from havasu_vc.formats.havasu.entry import Content
from havasu_vc.formats.havasu.format_1 import (
    SNAPSHOT,
    parse_entries,
    parse_old_properties,
    parse_snapshot,
)
from havasu_vc.formats.havasu.properties import DATASET, format_properties
from havasu_vc.formats.havasu.schema import FOLDER as COLUMNS
from havasu_vc.formats.havasu.schema import format_columns, parse_schema

__all__ = ["is_old", "upgrade_blobs"]

_UPGRADED = "havasu-vc.upgraded"
"""The property with the hash of the snapshot of format 1 that a dataset was made from."""


def is_old(folder: Folder) -> bool:
    """Whether a folder holds a dataset of format 1."""
    return folder.read(DATASET) is None and folder.read(SNAPSHOT) is not None


def upgrade_blobs(folder: Folder, path: str, revision: str) -> dict[str, bytes | None]:
    """Return the documents by which a dataset of format 1 becomes one of format 2."""
    snapshot = folder.read(SNAPSHOT) or b""
    said = parse_snapshot(snapshot, f"{path}/{SNAPSHOT}")
    if (said.files, said.data) != (folder.tree_id("files"), folder.tree_id("data")):
        raise UnfinishedMergeError(path, revision, "its files are not those of its snapshot")
    where = "meta/properties.json"
    properties = parse_old_properties(folder.read(where) or b"", f"{path}/{where}")
    others = {**properties.others, _UPGRADED: hashlib.sha256(snapshot).hexdigest()[:32]}
    schema = parse_schema(folder.read("meta/schema.json") or b"", f"{path}/meta/schema.json")
    entries = parse_entries(documents_of(folder, "files"), f"{path}/files")
    data = [entry for entry in entries if entry.content is Content.DATA]
    made = [
        Delta("", properties.table_uuid, -entry.rows, files=(entry,))
        for entry in entries
        if entry.content is Content.DELETES
    ]
    made.append(Delta("", properties.table_uuid, 0, digests=said.digests))
    past = {PAST + name: text for name, text in documents_of(folder, PAST.rstrip("/"))}
    rows = sum(entry.rows for entry in data) + sum(delta.rows for delta in made)
    if rows != said.rows:
        raise UnfinishedMergeError(
            path, revision, f"its files hold {rows} rows and its snapshot says {said.rows}"
        )
    blobs: dict[str, bytes | None] = {
        SNAPSHOT: None,
        "files": None,
        PAST.rstrip("/"): None,
        "meta/properties.json": None,
        "meta/schema.json": None,
        DATASET: format_properties(replace(properties, others=others)),
        **{f"{COLUMNS}/{name}": text for name, text in format_columns(schema).items()},
        **first_blobs(properties.table_uuid, ((entry, {}) for entry in data), past),
    }
    blobs = {name: data for name, data in blobs.items() if not name.startswith("data/")}
    for delta in made:
        delta = replace(delta, past=past_of(delta.files, past))
        whole = replace(delta, id=named(delta, ()))
        blobs[whole.path] = format_delta(whole)
    return blobs
