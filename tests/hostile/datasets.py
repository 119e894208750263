"""Damage to a dataset, in the words of its format: a document, an entry, a pointer, a data file.

Everything of how a dataset is stored that the corpus knows is here. Markers and pointers are
left agreeing with the rest where they can be, as somebody who means harm would leave them.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from havasu_vc.formats.havasu.json_text import is_packed, pack, unpack
from havasu_vc.formats.lfs import Pointer, format_pointer
from havasu_vc.store.repository import GitRepository
from tests.hostile.scene import DATASET, Scene
from tests.hostile.trees import Change

__all__ = [
    "change_document",
    "change_entry",
    "change_snapshot",
    "put_data_file",
    "put_documents",
    "put_pointer",
    "replace_data_file",
    "seal",
]


def seal(scene: Scene, changes: Mapping[str, Change], sums: Mapping[str, Any] = {}) -> str:
    """Commit changed files of the dataset, and a delta that says these sums."""
    every: dict[str, Change] = dict(changes)
    if sums:
        path, value, _ = _an_entry(scene)
        known = every.get(path)
        if isinstance(known, bytes) and is_packed(known):
            value = unpack(known, path)
        every[path] = pack(value | {n: s for n, s in sums.items() if n in ("rows", "digests")})
    return scene.commit({f"{DATASET}/{name}": change for name, change in every.items()})


def put_documents(scene: Scene, documents: Mapping[str, Change]) -> str:
    """Commit documents of the dataset (`schema.json`, `title`, ...) as bytes."""
    changes: dict[str, Change] = {}
    for name, data in documents.items():
        if name == "properties.json":
            changes["dataset.json"] = data
        elif name == "schema.json":
            changes |= _columns(scene, data)
        else:
            changes[f"meta/{name}"] = data
    return seal(scene, changes)


def _columns(scene: Scene, data: Change) -> dict[str, Change]:
    """Return the files of columns that say what a document of all says, as far as they can."""
    there = [n.removeprefix(f"{DATASET}/") for n in scene.names(f"{DATASET}/columns")]
    gone: dict[str, Change] = dict.fromkeys(there)
    assert isinstance(data, bytes)
    with suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
        value = json.loads(data)
        keys = value.get("identifier-field-ids", [])
        found: dict[str, Change] = {}
        for place, field in enumerate(value["fields"]):
            number, name = field["id"], field.get("name")
            document = {"place": place, "key": number in keys, "field": field}
            found[f"columns/{number}.json"] = pack(document)
            claim = hashlib.sha256(str(name).encode("utf-8", "surrogatepass")).hexdigest()[:16]
            said = f"\0{name}\0{number}".encode("utf-8", "surrogatepass")
            found[f"columns/names/{claim}"] = said
        return {**gone, **found}
    first = next(name for name in there if "/names/" not in name)
    return {first: packed(data)}


def packed(text: bytes) -> bytes:
    """Return a packed document with any text inside."""
    return b"\0z" + zlib.compress(text)


def _schema(scene: Scene) -> dict[str, Any]:
    """Return what the files of columns say, as one document."""
    found = [
        unpack(scene.read(name), name)
        for name in scene.names(f"{DATASET}/columns")
        if "/names/" not in name
    ]
    found.sort(key=lambda each: each["place"])
    return {
        "type": "struct",
        "schema-id": 0,
        "identifier-field-ids": [each["field"]["id"] for each in found if each["key"]],
        "fields": [each["field"] for each in found],
    }


def change_document(scene: Scene, name: str, change: Callable[[Any], Any]) -> str:
    """Commit a document of the dataset with something changed in its JSON."""
    if name == "schema.json":
        value = _schema(scene)
    else:
        inside = "dataset.json" if name == "properties.json" else f"meta/{name}"
        value = json.loads(scene.read(f"{DATASET}/{inside}"))
    changed = change(value)
    value = value if changed is None else changed
    data = json.dumps(value, indent=1, ensure_ascii=True).encode() + b"\n"
    return put_documents(scene, {name: data})


def change_snapshot(scene: Scene, sums: Mapping[str, Any]) -> str:
    """Commit a delta that says other sums."""
    return seal(scene, {}, sums)


def change_entry(scene: Scene, change: Callable[[dict[str, Any]], Any]) -> str:
    """Commit the entry of a data file with something changed in its JSON."""
    path, value, entry = _an_entry(scene)
    changed = change(entry)
    data = changed if isinstance(changed, bytes) else pack(value)
    return seal(scene, {path: data})


def put_entry(scene: Scene, file: str, **facts: Any) -> str:
    """Commit one more entry, of a file with this name, which says what another says."""
    path, value, entry = _an_entry(scene)
    value["files"].append({**entry, **facts, "file": file})
    # In escapes, as a stranger may write what is no text.
    return seal(scene, {path: pack({})[:2] + zlib.compress(json.dumps(value).encode())})


def _an_entry(scene: Scene) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return a delta with a data file: its path, what it says, and the entry in that."""
    for name in scene.names(f"{DATASET}/files"):
        data = scene.read(name)
        value = unpack(data, name) if is_packed(data) else {"files": []}
        for entry in value["files"]:
            if entry["content"] == "data":
                return name.removeprefix(f"{DATASET}/"), value, entry
    raise AssertionError("there is no data file")


def put_pointer(scene: Scene, data: bytes) -> str:
    """Commit other bytes for the pointer of a data file."""
    file = _an_entry(scene)[2]["file"]
    return seal(scene, {f"data/{file[:2]}/{file}": data})


def put_data_file(scene: Scene, data: bytes) -> str:
    """Put bytes where data files are, here and on the server, and return their name."""
    file = hashlib.sha256(data).hexdigest()
    for folder in (scene.repo, scene.server):
        objects = GitRepository.open(folder).data_folder / "objects"
        place = objects / file[:2] / file[2:4] / file
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            place.write_bytes(data)
    return file


def replace_data_file(scene: Scene, data: bytes, sums: Mapping[str, Any] = {}, **facts: Any) -> str:
    """Commit that a data file has other bytes, with an entry and a pointer that name them."""
    path, value, entry = _an_entry(scene)
    old = entry["file"]
    new = put_data_file(scene, data)
    entry |= {"file": new, "size": len(data)} | facts
    return seal(
        scene,
        {
            path: pack(value),
            f"data/{old[:2]}/{old}": None,
            f"data/{new[:2]}/{new}": format_pointer(Pointer(new, len(data))),
        },
        sums,
    )
