"""Questions of clients before they read: configuration, namespaces, tables, one table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.serving.catalog import Catalog, Route, route
from havasu_vc.serving.forms import HEADER, form_for
from havasu_vc.serving.keys import ASKED, ENDS, VENDED, Reach
from havasu_vc.serving.metadata import LoadedTable
from havasu_vc.serving.names import (
    EVERY,
    SEPARATOR,
    TOP,
    find_ref,
    namespaces_below,
    parse_namespace,
    prefix_of,
    tables_in,
)
from havasu_vc.serving.namespaces import empty_namespaces, namespace_properties
from havasu_vc.serving.routes import Answer, Call, Refused, no_namespace

__all__ = ["READING", "configuration", "is_there", "load_answer"]

_NAMESPACES = "/v1/{prefix}/namespaces"
_NAMESPACE = _NAMESPACES + "/{namespace}"
_TABLES = _NAMESPACE + "/tables"
_TABLE = _TABLES + "/{table}"
_VIEWS = _NAMESPACE + "/views"
_VIEW = _VIEWS + "/{view}"
LIFETIME = "idempotency-key-lifetime"
KNOWN = "PT5M"
"""So long a client may send a request again: while a thousand commits are made, and no longer."""
VARY = f"authorization, user-agent, {HEADER}, {ASKED}"
"""The headers that decide what is answered for a table."""


def configuration(catalog: Catalog, call: Call, routes: Sequence[Route]) -> Answer:
    """Answer how to use the catalog for a warehouse, which is a ref."""
    name = warehouse = call.query.get("warehouse", "")
    writable = bool(catalog.settings.write)
    if warehouse != EVERY:
        ref = find_ref(catalog.repo, warehouse)
        name, writable = ref.name, catalog.may_write(ref.branch)
    writable = writable and not call.read_only
    endpoints = [each.endpoint for each in routes if writable or not each.writes]
    content = {
        "defaults": {},
        "overrides": {"prefix": prefix_of(name)},
        "endpoints": endpoints,
        # Without it, Java's clients name no request, so one without rows could be done twice.
        **({LIFETIME: KNOWN} if writable else {}),
    }
    return Answer(content=content)


def list_namespaces(catalog: Catalog, call: Call) -> Answer:
    """Answer the namespaces below one, or below none."""
    parent = parse_namespace(call.query["parent"]) if call.query.get("parent") else ()
    if not parent and catalog.every(call):
        return _page(call, "namespaces", [[name] for name in catalog.refs()])
    ref, inside = catalog.ref(call, parent)
    if parent and not is_there(catalog, call, parent):
        raise no_namespace(".".join(parent))
    below = () if catalog.every(call) and len(parent) == 1 else inside
    paths = [*catalog.datasets(ref), *empty_namespaces(catalog, ref.branch)]
    found = namespaces_below(paths, below)
    if catalog.every(call):
        found = [(parent[0], *each) for each in found if each != (TOP,)]
    return _page(call, "namespaces", [[*each] for each in found])


def load_namespace(catalog: Catalog, call: Call) -> Answer:
    """Answer that a namespace is there, and what clients say of it."""
    namespace = parse_namespace(call.names["namespace"])
    if not is_there(catalog, call, namespace):
        raise no_namespace(".".join(namespace))
    ref, inside = catalog.ref(call, namespace)
    properties = namespace_properties(catalog, ref.branch, inside)
    return Answer(content={"namespace": [*namespace], "properties": properties})


def list_tables(catalog: Catalog, call: Call) -> Answer:
    """Answer the tables in a namespace."""
    namespace = parse_namespace(call.names["namespace"])
    ref, inside = catalog.ref(call, namespace)
    if not is_there(catalog, call, namespace):
        raise no_namespace(".".join(namespace))
    found = tables_in(catalog.datasets(ref), inside)
    return _page(call, "identifiers", [{"namespace": [*namespace], "name": name} for name in found])


def load_table(catalog: Catalog, call: Call) -> Answer:
    """Answer a table's metadata."""
    namespace = parse_namespace(call.names["namespace"])
    return load_answer(catalog, call, namespace, call.names["table"])


def load_answer(catalog: Catalog, call: Call, namespace: tuple[str, ...], table: str) -> Answer:
    """Return what a client gets that loads a table, or has committed to it."""
    loaded, reach, settings = _loaded(catalog, call, namespace, table)
    # Who has keys that end is told of others by an answer.
    ends = settings.get(ENDS)
    headers = {"etag": f'"{loaded.tag}{f"-{ends}" if ends else ""}"', "vary": VARY}
    if call.method == "GET" and headers["etag"] in _tags(call.headers.get("if-none-match", "")):
        return Answer(304, None, headers)
    document = loaded.document
    if call.query.get("snapshots") == "refs":
        document = _of_refs(loaded.document)
    content = b'{"metadata-location":%s,"metadata":%s,"config":%s,"storage-credentials":%s}' % (
        json.dumps(loaded.location).encode(),
        document,
        json.dumps(settings).encode(),
        json.dumps(catalog.keys.credentials(settings, reach.prefixes)).encode(),
    )
    return Answer(200, content, headers)


def load_credentials(catalog: Catalog, call: Call) -> Answer:
    """Answer the keys of a table's bucket alone, for clients whose keys end."""
    namespace = parse_namespace(call.names["namespace"])
    asking = replace(call, headers={**call.headers, ASKED: VENDED})
    _, reach, settings = _loaded(catalog, asking, namespace, call.names["table"])
    # Java's clients take one alone, for all that they read and write.
    schemes = dict.fromkeys(place.partition("://")[0] + "://" for place in reach.places)
    return Answer(content={"storage-credentials": catalog.keys.credentials(settings, schemes)})


def _loaded(
    catalog: Catalog, call: Call, namespace: tuple[str, ...], table: str
) -> tuple[LoadedTable, Reach, dict[str, str]]:
    """Return a table, where its client goes, and what that is told to get there."""
    target = catalog.target(call, namespace, table)
    loaded = catalog.load(target, form_for(call.headers))
    writes = catalog.may_write(target.ref.branch) and not call.read_only
    # Beside a table nothing is written to.
    reach = catalog.reach(
        loaded.place, loaded.staging if writes and target.system is None else None
    )
    names = (call.names["prefix"], SEPARATOR.join(namespace), table)
    parts = zip(("v1", "namespaces", "tables"), names, strict=True)
    path = "/".join(f"{part}/{quote(name, safe='')}" for part, name in parts)
    renewal = f"{path}/credentials"
    settings = catalog.keys.settings(reach, call.headers, writes=writes, renewal=renewal)
    return loaded, reach, settings


def _tags(text: str) -> set[str]:
    return {each.strip().removeprefix("W/") for each in text.split(",")}


def _of_refs(document: bytes) -> bytes:
    """Return metadata with no snapshot but those that a ref is at."""
    value = json.loads(document)
    named = {each["snapshot-id"] for each in value["refs"].values()}
    value["snapshots"] = [each for each in value["snapshots"] if each["snapshot-id"] in named]
    return json.dumps(value).encode()


def table_exists(catalog: Catalog, call: Call) -> Answer:
    """Answer whether a table is there."""
    namespace = parse_namespace(call.names["namespace"])
    catalog.load(catalog.target(call, namespace, call.names["table"]))
    return Answer(204)


def is_there(catalog: Catalog, call: Call, namespace: tuple[str, ...]) -> bool:
    """Whether a namespace has tables, or was made."""
    ref, inside = catalog.ref(call, namespace)
    if inside == (TOP,):
        return True
    paths = [*catalog.datasets(ref), *empty_namespaces(catalog, ref.branch)]
    return any(path.startswith("/".join(inside) + "/") for path in paths)


def _page(call: Call, name: str, items: list[Any]) -> Answer:
    """Answer one page of a list: as many as are asked for, from where the page before ended."""
    size = call.query.get("pageSize", "")
    first = call.query.get("pageToken", "")
    if (size and not size.isdecimal()) or (first and not first.isdecimal()):
        raise InvalidArgumentError("the page that is asked for is none")
    start, most = int(first or 0), int(size or 0) or len(items)
    content: dict[str, Any] = {name: items[start : start + most]}
    if start + most < len(items):
        content["next-page-token"] = str(start + most)
    return Answer(content=content)


def list_views(catalog: Catalog, call: Call) -> Answer:
    """Answer that a namespace has no views."""
    load_namespace(catalog, call)
    return Answer(content={"identifiers": []})


def no_view(catalog: Catalog, call: Call) -> Answer:
    """Answer that there is no such view."""
    raise Refused(404, "NoSuchViewException", f"View does not exist: {call.names['view']}")


def refuse_view(catalog: Catalog, call: Call) -> Answer:
    """Refuse to make a view."""
    raise Refused(406, "UnsupportedOperationException", "this catalog keeps no views")


READING = (
    route("GET", _NAMESPACES, list_namespaces),
    route("GET", _NAMESPACE, load_namespace),
    route("HEAD", _NAMESPACE, lambda catalog, call: _bare(load_namespace(catalog, call))),
    route("GET", _TABLES, list_tables),
    route("GET", _TABLE, load_table),
    route("HEAD", _TABLE, table_exists),
    route("GET", _TABLE + "/credentials", load_credentials),
    route("POST", _TABLE + "/metrics", lambda catalog, call: Answer(204)),
    route("GET", _VIEWS, list_views, stated=False),
    route("POST", _VIEWS, refuse_view, stated=False),
    route("GET", _VIEW, no_view, stated=False),
    route("HEAD", _VIEW, no_view, stated=False),
    route("POST", _VIEW, refuse_view, stated=False),
    route("DELETE", _VIEW, no_view, stated=False),
)
"""The routes of reading, but for the configuration, which names them."""


def _bare(answer: Answer) -> Answer:
    return Answer(204, None, answer.headers)
