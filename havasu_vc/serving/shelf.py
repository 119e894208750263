"""Tables as they were served of any commit of a branch: what clients wrote upon.

Tables that clients begin to make: their columns numbered, and where their files go.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from havasu_vc.checkouts import ServedBase
from havasu_vc.errors import DatasetNotFoundError, InvalidArgumentError
from havasu_vc.serving.commits import Served
from havasu_vc.serving.forms import PLAIN
from havasu_vc.serving.history import Version
from havasu_vc.serving.metadata import TableMaker, snapshot_id_of
from havasu_vc.serving.told import told
from havasu_vc.serving.updates import TableChange, applied, new_document, parse_change
from havasu_vc.tables.table import TableFolders

if TYPE_CHECKING:
    from havasu_vc.serving.catalog import Catalog

__all__ = ["CatalogShelf", "creation", "fresh", "staged_document", "staging_folder"]

_MOST_VERSIONS = 2_000
"""A client that wrote upon something older than this loads the table anew."""


class CatalogShelf:
    """The tables of one branch, at any of its commits."""

    def __init__(self, catalog: Catalog, branch: str) -> None:
        self._catalog = catalog
        self._branch = branch

    def served(self, commit: str, path: str) -> Served:
        """Return the table of a dataset as it is served of a commit."""
        repo, tables = self._catalog.repo, self._catalog.tables
        loaded = tables.load(repo, path, commit, branch=self._branch, form=PLAIN)
        snapshot = None if loaded is None else loaded.metadata.current_snapshot_id
        if loaded is None or snapshot is None:
            raise DatasetNotFoundError(path, commit[:10])
        newest = loaded.versions[0]
        return Served(
            ServedBase(path, newest.commit.id, newest.tree, snapshot),
            json.loads(loaded.document),
            (Path(loaded.files[0]).parent.parent, repo.storage.files.root),
            loaded.staging,
        )

    def find(self, commit: str, path: str, snapshot_id: int) -> str | None:
        """Return the commit, the given one or one before it, whose table has a snapshot.

        The line of first parents is looked through first, as clients are shown that; then what
        merges brought in, as a branch that was moved onto a merge of it has there what it was.
        """
        objects = self._catalog.repo.git.objects
        lines = deque([commit])
        met: set[str] = set()
        while lines:
            for version in self._line(lines.popleft(), path):
                if version.commit.id in met or len(met) == _MOST_VERSIONS:
                    break
                met.add(version.commit.id)
                if _shows(version, path, snapshot_id):
                    return version.commit.id
                lines.extend(each for each in version.commit.parents[1:] if objects.has(each))
        return None

    def _line(self, commit: str, path: str) -> Iterator[Version]:
        """Yield the versions of a table on the line of first parents, the newest first."""
        repo, history = self._catalog.repo, self._catalog.tables.history
        at: str | None = commit
        while at is not None:
            versions = history.versions(repo, at, path)
            yield from versions
            parents = versions[-1].commit.parents if versions else ()
            at = parents[0] if parents and repo.git.objects.has(parents[0]) else None

    def within(self, folders: Iterable[Path]) -> TableFolders:
        """Return where files are found that must be in some folders."""
        shared = self._catalog.tables.documents.shared
        return TableFolders(folders) if shared is None else shared.within(folders)

    def spell(self, path: Path) -> str:
        """Return the location of a folder that clients are told of."""
        return self._catalog.tables.documents.spell(path)

    def staging(self, identity: str) -> Path:
        """Return the folder that clients write files of a new table into, by its uuid."""
        return staging_folder(self._catalog.tables, identity)


def _shows(version: Version, path: str, snapshot_id: int) -> bool:
    """Whether a version is shown by a snapshot, or was sent as it."""
    sent = told(version.commit.message).snapshots
    return snapshot_id == snapshot_id_of(path, version) or sent.get(snapshot_id) == path


_NESTED = {"element-id": "element", "key-id": "key", "value-id": "value"}


def staging_folder(tables: TableMaker, identity: str) -> Path:
    """Return where clients write files of a table, by its uuid."""
    name = hashlib.sha256(identity.encode()).hexdigest()[:32]
    return tables.root / "staging" / name


def fresh(body: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return what a request says of a new table, its columns numbered from 1.

    Clients number the columns of a table that they ask for as they like, and some from 0.
    """
    schema = body.get("schema")
    if not isinstance(schema, dict) or not isinstance(schema.get("fields"), list):
        raise InvalidArgumentError(f"{where}: a new table has no columns")
    numbers: dict[int, int] = {}
    try:
        for number in _levels(schema):
            if number in numbers:
                raise InvalidArgumentError(f"{where}: two columns have the id {number}")
            numbers[number] = len(numbers) + 1
        made = {
            **_numbered(schema, numbers),
            "identifier-field-ids": [
                numbers[each] for each in schema.get("identifier-field-ids") or ()
            ],
        }
        spec, order = (
            {
                "fields": [
                    {**each, "source-id": numbers[each["source-id"]]}
                    for each in (body.get(name) or {}).get("fields") or ()
                ]
            }
            for name in ("partition-spec", "write-order")
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidArgumentError(f"{where}: its columns cannot be understood") from error
    return {**body, "schema": made, "partition-spec": spec, "write-order": order}


def _levels(type_: Mapping[str, Any]) -> Iterator[int]:
    """Yield the ids of fields, each level before those inside."""
    inside: list[Any] = []
    for field in type_.get("fields") or ():
        yield int(field["id"])
        inside.append(field["type"])
    for name, part in _NESTED.items():
        if name in type_:
            yield int(type_[name])
            inside.append(type_[part])
    for each in inside:
        if isinstance(each, Mapping):
            yield from _levels(each)


def _numbered(type_: Any, numbers: Mapping[int, int]) -> Any:
    if not isinstance(type_, dict):
        return type_
    made = dict(type_)
    if "fields" in made:
        made["fields"] = [
            {**each, "id": numbers[each["id"]], "type": _numbered(each["type"], numbers)}
            for each in made["fields"]
        ]
    for name, part in _NESTED.items():
        if name in made:
            made[name] = numbers[made[name]]
            made[part] = _numbered(made[part], numbers)
    return made


def creation(body: Mapping[str, Any], identity: str, where: str) -> TableChange:
    """Return the change that makes a table which a request describes."""
    updates = [
        {"action": "assign-uuid", "uuid": identity},
        {"action": "add-schema", "schema": body["schema"]},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": body["partition-spec"]},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-properties", "updates": body.get("properties") or {}},
    ]
    return parse_change([{"type": "assert-create"}], updates, where)


def staged_document(
    tables: TableMaker, change: TableChange, identity: str, where: str
) -> dict[str, Any]:
    """Return the metadata of a table that is made by a later commit, and have its folders there."""
    staging = staging_folder(tables, identity)
    for folder in ("data", "metadata"):
        # DuckDB makes none.
        (staging / folder).mkdir(parents=True, exist_ok=True)
    document = applied(new_document(tables.documents.spell(staging)), change, where)
    properties = {
        **document["properties"],
        "gc.enabled": "false",
        "write.data.path": tables.documents.spell(staging / "data"),
        "write.metadata.path": tables.documents.spell(staging / "metadata"),
        "write.format.default": "parquet",
        "write.parquet.compression-codec": "zstd",
    }
    return {**document, "properties": properties, "current-snapshot-id": -1}
