"""What clients ask before they read: configuration, namespaces, tables, one table."""

from __future__ import annotations

from havasu_vc.serving.catalog import Catalog
from havasu_vc.serving.errors import no_namespace
from havasu_vc.serving.names import TOP, namespaces_below, parse_namespace, tables_in
from havasu_vc.serving.refs import EVERY, find_ref, prefix_of
from havasu_vc.serving.routes import Answer, Call, route

__all__ = ["READING", "configuration", "load_answer"]

_NAMESPACES = "/v1/{prefix}/namespaces"
_NAMESPACE = _NAMESPACES + "/{namespace}"
_TABLES = _NAMESPACE + "/tables"
_TABLE = _TABLES + "/{table}"


def configuration(catalog: Catalog, call: Call, reading: list[str], writing: list[str]) -> Answer:
    """Answer how to use the catalog for a warehouse, which is a ref.

    Endpoints of writing are named where that may be written to: clients look before they begin.
    """
    warehouse = call.query.get("warehouse", "")
    if warehouse == EVERY:
        name, may_write = warehouse, bool(catalog.settings.write)
    else:
        ref = find_ref(catalog.repo, warehouse)
        name, may_write = ref.name, catalog.may_write(ref.branch)
    endpoints = [*reading, *(writing if may_write else ())]
    return Answer(
        content={
            "defaults": {},
            "overrides": {"prefix": prefix_of(name)},
            "endpoints": endpoints,
        }
    )


def list_namespaces(catalog: Catalog, call: Call) -> Answer:
    """Answer the namespaces below one, or below none."""
    parent = parse_namespace(call.query["parent"]) if call.query.get("parent") else ()
    ref, inside = catalog.ref(call, parent)
    found = namespaces_below(catalog.datasets(ref), inside)
    if inside and not found and not _is_there(catalog, call, parent):
        raise no_namespace(".".join(parent))
    return Answer(content={"namespaces": [[*each] for each in found]})


def load_namespace(catalog: Catalog, call: Call) -> Answer:
    """Answer that a namespace is there."""
    namespace = parse_namespace(call.names["namespace"])
    if not _is_there(catalog, call, namespace):
        raise no_namespace(".".join(namespace))
    return Answer(content={"namespace": [*namespace], "properties": {}})


def list_tables(catalog: Catalog, call: Call) -> Answer:
    """Answer the tables in a namespace."""
    namespace = parse_namespace(call.names["namespace"])
    ref, inside = catalog.ref(call, namespace)
    if not _is_there(catalog, call, namespace):
        raise no_namespace(".".join(namespace))
    found = tables_in(catalog.datasets(ref), inside or (TOP,))
    return Answer(
        content={"identifiers": [{"namespace": [*namespace], "name": name} for name in found]}
    )


def load_table(catalog: Catalog, call: Call) -> Answer:
    """Answer a table's metadata."""
    namespace = parse_namespace(call.names["namespace"])
    return load_answer(catalog, call, namespace, call.names["table"])


def load_answer(catalog: Catalog, call: Call, namespace: tuple[str, ...], table: str) -> Answer:
    """Return what a client gets that loads a table, or has committed to it."""
    target = catalog.target(call, namespace, table)
    loaded = catalog.load(target)
    for folder in ("data", "metadata"):
        (loaded.staging / folder).mkdir(parents=True, exist_ok=True)
    content = b'{"metadata-location":"%s","metadata":%s,"config":{}}' % (
        loaded.location.encode(),
        loaded.document,
    )
    return Answer(content=content)


def table_exists(catalog: Catalog, call: Call) -> Answer:
    """Answer whether a table is there."""
    namespace = parse_namespace(call.names["namespace"])
    catalog.load(catalog.target(call, namespace, call.names["table"]))
    return Answer(204)


def _is_there(catalog: Catalog, call: Call, namespace: tuple[str, ...]) -> bool:
    ref, inside = catalog.ref(call, namespace)
    if not inside or inside == (TOP,):
        return True
    return any(path.startswith("/".join(inside) + "/") for path in catalog.datasets(ref))


READING = (
    route("GET", _NAMESPACES, list_namespaces),
    route("GET", _NAMESPACE, load_namespace),
    route("HEAD", _NAMESPACE, lambda catalog, call: _bare(load_namespace(catalog, call))),
    route("GET", _TABLES, list_tables),
    route("GET", _TABLE, load_table),
    route("HEAD", _TABLE, table_exists),
    route("POST", _TABLE + "/metrics", lambda catalog, call: Answer(204)),
)
"""The routes of reading, but for the configuration, which names them."""


def _bare(answer: Answer) -> Answer:
    return Answer(204, None, answer.headers)
