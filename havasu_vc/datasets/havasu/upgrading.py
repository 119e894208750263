"""A dataset of format 1 as one of format 2: other documents of the same files.

Each file becomes a delta of its own, and one delta without files has the digests, which
format 1 knows of the whole alone. The snapshot that this was made from is named in
`dataset.json`, so that git does not put two states together that were upgraded apart.

Dataset format 1, as far as turning it into format 2 needs: `snapshot.json` and one entry a file.

Its first line, the guard, names the git trees of `files/` and `data/` that its sums are of.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from havasu_vc.datasets.folder import Folder, TreeFolder, documents_of
from havasu_vc.datasets.havasu.ledger import first_blobs, past_of
from havasu_vc.datasets.havasu.plan import PAST
from havasu_vc.errors import CorruptDatasetError, UnfinishedMergeError, UnsupportedVersionError
from havasu_vc.formats.havasu.deltas import Delta, format_delta, named
from havasu_vc.formats.havasu.entry import Content, Entry, parse_entry
from havasu_vc.formats.havasu.json_text import expect, parse_json
from havasu_vc.formats.havasu.properties import DATASET, Digest, Properties, format_properties
from havasu_vc.formats.havasu.schema import FOLDER as COLUMNS
from havasu_vc.formats.havasu.schema import format_columns, parse_schema
from havasu_vc.records import dataclass
from havasu_vc.store.objects import Draft
from havasu_vc.store.trees import edit_tree

__all__ = [
    "SNAPSHOT",
    "Guarded",
    "is_old",
    "parse_entries",
    "parse_old_properties",
    "parse_snapshot",
    "upgrade_blobs",
    "upgraded",
]

_UPGRADED = "havasu-vc.upgraded"
"""The property with the hash of the snapshot of format 1 that a dataset was made from."""


def is_old(folder: Folder) -> bool:
    """Whether a folder holds a dataset of format 1."""
    return folder.read(DATASET) is None and folder.read(SNAPSHOT) is not None


def upgraded(folder: TreeFolder, path: str, revision: str) -> TreeFolder | None:
    """Return a folder of format 1 in format 2; None for another one."""
    if not is_old(folder):
        return None
    draft = Draft(folder.source)
    tree = edit_tree(draft, folder.tree, upgrade_blobs(folder, path, revision))
    return TreeFolder(draft, tree)


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


SNAPSHOT = "snapshot.json"
_LANES = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Guarded:
    """The sums of a snapshot of format 1."""

    files: str
    """The tree of entries that it is of; empty for none."""
    data: str
    """The tree of pointers."""
    rows: int
    """Live rows."""
    digests: Mapping[int, Digest]
    """By field id."""


def parse_snapshot(data: bytes, where: str) -> Guarded:
    """Return what a snapshot says, after checking that no line below its guard was changed."""
    value = expect(parse_json(data, where), dict, "the snapshot", where)
    if value.get("format") != 1:
        raise UnsupportedVersionError(
            f"{where}: dataset format {value.get('format')!r} is not known to this version",
            hints=("upgrade havasu-vc",),
        )
    guard = expect(value.get("guard"), dict, "the guard", where)
    below = data.partition(b"\n")[2]
    if guard.get("below") != hashlib.sha256(below).hexdigest()[:32]:
        raise CorruptDatasetError(where, "its lines were changed without its guard")
    digests = expect(value.get("digests"), dict, "digests", where)
    for number, text in digests.items():
        if not number.isdecimal() or not _LANES.fullmatch(expect(text, str, "a digest", where)):
            raise CorruptDatasetError(where, f"digest {number!r} is not one")
    return Guarded(
        expect(guard.get("files"), str, "files", where),
        expect(guard.get("data"), str, "data", where),
        expect(value.get("rows"), int, "rows", where),
        {int(number): (int(text[:16], 16), int(text[16:], 16)) for number, text in digests.items()},
    )


def parse_entries(documents: Iterable[tuple[str, bytes]], where: str) -> list[Entry]:
    """Return the entries below `files`, data files first."""
    found = []
    for name, data in documents:
        file = name.rpartition("/")[2].removesuffix(".json")
        found.append(parse_entry(data, file, f"{where}/{name}"))
    return sorted(found, key=lambda entry: (entry.content is Content.DELETES, entry.file))


def parse_old_properties(data: bytes, where: str) -> Properties:
    """Return the properties of `meta/properties.json`."""
    value = expect(parse_json(data, where), dict, "the properties", where)
    own = ("table-uuid", "havasu.format-version", "last-column-id")
    return Properties(
        expect(value.get("table-uuid"), str, "table-uuid", where),
        expect(value.get("last-column-id"), int, "last-column-id", where),
        {
            name: expect(item, str, f"property {json.dumps(name)}", where)
            for name, item in value.items()
            if name not in own
        },
    )
