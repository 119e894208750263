"""Damage to a dataset, in the words of its format: a document, an entry, a pointer, a data file.

Everything of how a dataset is stored that the corpus knows is here. After the damage the
snapshot is made anew with a guard that agrees, as somebody who means harm would make it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from havasu_vc.datasets.folder import TreeFolder, guard_of
from havasu_vc.formats.havasu.snapshot import format_snapshot, parse_snapshot
from havasu_vc.formats.lfs import Pointer, format_pointer
from havasu_vc.store.repository import GitRepository
from havasu_vc.store.trees import find_entry
from tests.hostile.scene import DATASET, Scene
from tests.hostile.trees import Change
from tests.support.git import run_git

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
    """Commit changed files of the dataset with a snapshot that agrees, and these sums."""
    old = scene.read(f"{DATASET}/snapshot.json")
    commit = scene.commit({f"{DATASET}/{name}": change for name, change in changes.items()})
    repository = GitRepository.open(scene.repo)
    tree = run_git("rev-parse", f"{commit}^{{tree}}", cwd=scene.repo)
    found = find_entry(repository.objects, tree, DATASET)
    assert found is not None
    snapshot, _ = parse_snapshot(old, "the template")
    guard = guard_of(TreeFolder(repository.objects, found.id), "points")
    data = format_snapshot(snapshot, guard)
    if sums:
        data = _with_sums(data, sums)
    # One commit, as it would come from others.
    parent = run_git("rev-parse", f"{commit}^", cwd=scene.repo)
    scene.arrive(parent)
    all_changes: dict[str, Change] = dict(changes) | {"snapshot.json": data}
    return scene.commit({f"{DATASET}/{name}": change for name, change in all_changes.items()})


def _with_sums(data: bytes, sums: Mapping[str, Any]) -> bytes:
    value = json.loads(data)
    guard = value.pop("guard")
    below = json.dumps(value | dict(sums), indent=1)[2:] + "\n"
    guard["below"] = hashlib.sha256(below.encode()).hexdigest()[:32]
    return f'{{"guard": {json.dumps(guard)},\n{below}'.encode()


def put_documents(scene: Scene, documents: Mapping[str, Change]) -> str:
    """Commit documents of the dataset (`schema.json`, `title`, ...) as bytes."""
    return seal(scene, {f"meta/{name}": data for name, data in documents.items()})


def change_document(scene: Scene, name: str, change: Callable[[Any], Any]) -> str:
    """Commit a document of the dataset with something changed in its JSON."""
    value = json.loads(scene.read(f"{DATASET}/meta/{name}"))
    changed = change(value)
    value = value if changed is None else changed
    data = json.dumps(value, indent=1, ensure_ascii=True).encode() + b"\n"
    return put_documents(scene, {name: data})


def change_snapshot(scene: Scene, sums: Mapping[str, Any]) -> str:
    """Commit a snapshot that says other sums."""
    return seal(scene, {}, sums)


def change_entry(scene: Scene, change: Callable[[dict[str, Any]], Any]) -> str:
    """Commit the entry of a data file with something changed in its JSON."""
    path, value = _an_entry(scene)
    changed = change(value)
    data = changed if isinstance(changed, bytes) else json.dumps(value, indent=1).encode()
    return seal(scene, {path: data})


def put_entry(scene: Scene, file: str, **facts: Any) -> str:
    """Commit one more entry, of a file with this name, which says what another says."""
    _, value = _an_entry(scene)
    value |= facts
    return seal(scene, {f"files/{file[:2]}/{file}.json": json.dumps(value, indent=1).encode()})


def _an_entry(scene: Scene) -> tuple[str, dict[str, Any]]:
    for name in scene.names(f"{DATASET}/files"):
        value = json.loads(scene.read(name))
        if value["content"] == "data":
            return name.removeprefix(f"{DATASET}/"), value
    raise AssertionError("there is no data file")


def put_pointer(scene: Scene, data: bytes) -> str:
    """Commit other bytes for the pointer of a data file."""
    path, _ = _an_entry(scene)
    file = path.rpartition("/")[2].removesuffix(".json")
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
    path, value = _an_entry(scene)
    old = path.rpartition("/")[2].removesuffix(".json")
    new = put_data_file(scene, data)
    value |= {"size": len(data)} | facts
    return seal(
        scene,
        {
            path: None,
            f"data/{old[:2]}/{old}": None,
            f"files/{new[:2]}/{new}.json": json.dumps(value, indent=1).encode(),
            f"data/{new[:2]}/{new}": format_pointer(Pointer(new, len(data))),
        },
        sums,
    )
