"""Requests of clients that write to a branch: commits, new tables, renames, removals.

Whoever may not write is told so before anything is read. A request that is done with is
answered by the table as it is served then.

Clients write upon a table as it was served, of any commit of a branch: a `CatalogShelf` finds it.
A table that they begin to make gets its columns numbered, and a place for its files.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from havasu_vc.checkouts import ServedBase
from havasu_vc.errors import ConcurrentChangeError, DatasetNotFoundError, InvalidArgumentError
from havasu_vc.serving.catalog import Catalog, Target, route
from havasu_vc.serving.commits import Served, Writer
from havasu_vc.serving.forms import PLAIN
from havasu_vc.serving.history import Version
from havasu_vc.serving.messages import Writing, facts_of
from havasu_vc.serving.metadata import TableMaker, snapshot_id_of
from havasu_vc.serving.names import SEPARATOR, TOP, ServedRef, parse_namespace
from havasu_vc.serving.namespaces import alter_namespace, create_namespace, forget_namespace
from havasu_vc.serving.reading import is_there, load_answer
from havasu_vc.serving.routes import Answer, Call, Refused, no_namespace
from havasu_vc.serving.updates import TableChange, applied, new_document, parse_change
from havasu_vc.store.objects import Signature
from havasu_vc.tables.table import TableFolders

__all__ = ["WRITING"]

MESSAGE = "x-havasu-message"
"""The header with the message that a commit is to have."""
_NAME = re.compile(r"(?P<name>[^<>\n\0]*?)\s*<(?P<email>[^<>\s\0]*)>")
_BREAKING = re.compile(r"[\0\n<>]")
_REQUEST = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_TABLES = "/v1/{prefix}/namespaces/{namespace}/tables"


def _branch(catalog: Catalog, ref: ServedRef) -> str:
    """Return the branch that a ref is; raise where nobody may write, or not through the catalog."""
    if ref.branch is None:
        raise _forbidden(f"{ref.name} is not a branch: nothing is written to a tag or a commit")
    if not catalog.may_write(ref.branch):
        raise _forbidden(f"the branch {ref.branch} is not written to through this catalog")
    return ref.branch


def _target(catalog: Catalog, call: Call, namespace: tuple[str, ...], table: str) -> Target:
    """Return what a name means that is to be written to."""
    target = catalog.target(call, namespace, table)
    if target.system is not None:
        raise _forbidden(f"{table} is made of {target.path} and its commits: it is only read")
    return target


def _writer(catalog: Catalog, call: Call, ref: ServedRef) -> Writer:
    """Return what commits to a ref."""
    branch = _branch(catalog, ref)
    request = call.headers.get("idempotency-key")
    if request is not None and not _REQUEST.fullmatch(request):
        raise InvalidArgumentError("the idempotency key is none")
    agent = call.headers.get("x-client-version") or call.headers.get("user-agent", "")
    writing = Writing(
        branch,
        _author(catalog, call),
        call.headers.get(MESSAGE),
        agent.partition("(")[0].strip(),
        request,
    )
    return Writer(catalog.repo, CatalogShelf(catalog, branch), writing)


def _forbidden(message: str) -> Refused:
    return Refused(403, "ForbiddenException", message)


def _author(catalog: Catalog, call: Call) -> Signature | None:
    """Return who a commit is by: whom a trusted proxy or the token names; None for neither."""
    header = catalog.settings.author_header
    named = call.headers.get(header.lower()) if header is not None else None
    who = (named or call.caller or "").strip()
    if not who:
        return None
    match = _NAME.fullmatch(who)
    name, email = (match["name"], match["email"]) if match is not None else (who, "")
    if not match and "@" in who:
        email = who
    if _BREAKING.search(name + email):
        raise InvalidArgumentError("who asks has no name that a commit can have")
    return Signature(name or email, email, int(time.time()))


def commit_table(catalog: Catalog, call: Call) -> Answer:
    """Commit what is to become of one table, and answer the table then."""
    namespace, table = parse_namespace(call.names["namespace"]), call.names["table"]
    target = _target(catalog, call, namespace, table)
    writer = _writer(catalog, call, target.ref)
    writer.change([(target.path, _change(call.json(), target.path))])
    return load_answer(catalog, call, namespace, table)


def commit_transaction(catalog: Catalog, call: Call) -> Answer:
    """Commit what is to become of several tables of one branch, all in one commit."""
    changes: list[tuple[str, TableChange]] = []
    refs: dict[str, ServedRef] = {}
    for each in _objects(call.json().get("table-changes"), "table-changes"):
        target = _target(catalog, call, *_identifier(each.get("identifier")))
        _branch(catalog, target.ref)
        refs[target.ref.name] = target.ref
        changes.append((target.path, _change(each, target.path)))
    if len(refs) > 1:
        raise InvalidArgumentError("one commit is of one branch, and these are several")
    for ref in refs.values():
        _writer(catalog, call, ref).change(changes)
    return Answer(204)


def create_table(catalog: Catalog, call: Call) -> Answer:
    """Commit a new table without rows; a staged one is answered, and made by a later commit."""
    namespace = parse_namespace(call.names["namespace"])
    body = call.json()
    name = body.get("name")
    if not isinstance(name, str):
        raise InvalidArgumentError("a new table has no name")
    target = _target(catalog, call, namespace, name)
    writer = _writer(catalog, call, target.ref)
    if body.get("stage-create"):
        writer.require_free(target.path)
    if (body.get("write-order") or {}).get("fields"):
        raise InvalidArgumentError(
            f"{target.path}: a table's rows are in the order of its key, and no other is kept"
        )
    identity = str(uuid.uuid4())
    change = creation(fresh(body, target.path), identity, target.path)
    if body.get("stage-create"):
        document = staged_document(catalog.tables, change, identity, target.path)
        reach = catalog.reach(None, staging_folder(catalog.tables, identity))
        settings = catalog.keys.settings(reach, call.headers, writes=True)
        keys = catalog.keys.credentials(settings, reach.prefixes)
        content = {"metadata": document, "config": settings, "storage-credentials": keys}
        return Answer(content=content)
    try:
        # A request that comes again finds the table that it made.
        writer.change([(target.path, change)])
    except ConcurrentChangeError:
        writer.require_free(target.path)
        raise
    return load_answer(catalog, call, namespace, name)


def drop_table(catalog: Catalog, call: Call) -> Answer:
    """Commit that a table goes; its files stay, as commits before have them."""
    namespace, table = parse_namespace(call.names["namespace"]), call.names["table"]
    target = _target(catalog, call, namespace, table)
    _writer(catalog, call, target.ref).drop(target.path)
    return Answer(204)


def rename_table(catalog: Catalog, call: Call) -> Answer:
    """Commit that a table has another name."""
    body = call.json()
    source = _target(catalog, call, *_identifier(body.get("source")))
    namespace, table = _identifier(body.get("destination"))
    namespace = _without_catalog(catalog, call, namespace)
    target = _target(catalog, call, namespace, table)
    if target.ref.name != source.ref.name:
        raise InvalidArgumentError("a table is renamed on its branch, not moved to another")
    _writer(catalog, call, source.ref).rename(source.path, target.path)
    return Answer(204)


def _without_catalog(catalog: Catalog, call: Call, namespace: tuple[str, ...]) -> tuple[str, ...]:
    """Return a namespace without the name of Spark's catalog, which `RENAME TO` sends before it."""

    def known(levels: tuple[str, ...]) -> bool:
        try:
            return is_there(catalog, call, levels)
        except Refused:
            return False

    rest = namespace[1:]
    return rest if rest and not known(namespace) and known(rest) else namespace


def make_namespace(catalog: Catalog, call: Call) -> Answer:
    """Answer a namespace that is empty until a table is made in it."""
    body = call.json()
    levels = body.get("namespace")
    if not isinstance(levels, list) or not all(isinstance(each, str) for each in levels):
        raise InvalidArgumentError("a namespace is a list of names")
    namespace = parse_namespace(SEPARATOR.join(levels))
    ref, inside = catalog.ref(call, namespace)
    branch = _branch(catalog, ref)
    if is_there(catalog, call, namespace):
        name = ".".join(namespace)
        raise Refused(409, "AlreadyExistsException", f"Namespace already exists: {name}")
    properties = body.get("properties") or {}
    if not isinstance(properties, dict):
        raise InvalidArgumentError("a namespace's properties are an object")
    create_namespace(catalog, branch, inside, properties)
    return Answer(content={"namespace": levels, "properties": properties})


def change_namespace(catalog: Catalog, call: Call) -> Answer:
    """Change what is said of a namespace."""
    namespace = parse_namespace(call.names["namespace"])
    ref, inside = catalog.ref(call, namespace)
    branch = _branch(catalog, ref)
    if not is_there(catalog, call, namespace):
        raise no_namespace(".".join(namespace))
    body = call.json()
    updates, removals = body.get("updates") or {}, body.get("removals") or []
    if not isinstance(updates, dict) or not isinstance(removals, list):
        raise InvalidArgumentError("`updates` is to be an object, and `removals` a list")
    wanted = list(dict.fromkeys(str(each) for each in removals))
    both = sorted(updates.keys() & set(wanted))
    if both:
        text = f"the property {both[0][:60]!r} cannot be set and removed at once"
        raise Refused(422, "UnprocessableEntityException", text)
    gone = alter_namespace(catalog, branch, inside, updates, wanted)
    missing = [name for name in wanted if name not in gone]
    return Answer(content={"updated": list(updates), "removed": gone, "missing": missing})


def remove_namespace(catalog: Catalog, call: Call) -> Answer:
    """Forget a namespace that has no table."""
    namespace = parse_namespace(call.names["namespace"])
    ref, inside = catalog.ref(call, namespace)
    branch = _branch(catalog, ref)
    path = "/".join(inside)
    if inside == (TOP,) or any(each.startswith(f"{path}/") for each in catalog.datasets(ref)):
        name = ".".join(namespace)
        raise Refused(409, "NamespaceNotEmptyException", f"Namespace is not empty: {name}")
    if not forget_namespace(catalog, branch, inside):
        raise no_namespace(".".join(namespace))
    return Answer(204)


def _change(body: dict[str, Any], where: str) -> TableChange:
    return parse_change(body.get("requirements") or [], body.get("updates") or [], where)


def _identifier(value: object) -> tuple[tuple[str, ...], str]:
    if isinstance(value, dict):
        namespace, name = value.get("namespace"), value.get("name")
        if isinstance(namespace, list) and isinstance(name, str) and name:
            if namespace and all(isinstance(each, str) and each for each in namespace):
                return tuple(namespace), name
    raise InvalidArgumentError("a table is named by a namespace and a name")


def _objects(value: object, name: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise InvalidArgumentError(f"{name!r} is to be a list of objects")
    return value


WRITING = (
    route("POST", _TABLES + "/{table}", commit_table),
    route("POST", "/v1/{prefix}/transactions/commit", commit_transaction),
    route("POST", _TABLES, create_table),
    route("DELETE", _TABLES + "/{table}", drop_table),
    route("POST", "/v1/{prefix}/tables/rename", rename_table),
    route("POST", "/v1/{prefix}/namespaces", make_namespace),
    route("DELETE", "/v1/{prefix}/namespaces/{namespace}", remove_namespace),
    route("POST", "/v1/{prefix}/namespaces/{namespace}/properties", change_namespace),
)
"""The routes of writing."""


# Tables as they were served, and tables that begin.

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
    sent = facts_of(version.commit.message).snapshots
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
