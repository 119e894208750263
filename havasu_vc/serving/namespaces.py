"""Namespaces that clients made and that have no table yet, and what clients say of namespaces.

A namespace is a folder of a branch, which git knows by what is in it alone. So one that is empty
is noted beside what else is served, for all servers of the repository, until a table is in it.
The note has the namespace's properties too, which are so of the catalog, and in no commit.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.model.names import check_dataset_path
from havasu_vc.serving.catalog import Catalog
from havasu_vc.serving.names import TOP, prefix_of, ref_of_prefix
from havasu_vc.store.disk import replace_file
from havasu_vc.store.locks import exclusive_lock

__all__ = [
    "alter_namespace",
    "create_namespace",
    "empty_namespaces",
    "forget_namespace",
    "namespace_properties",
]

_LONGEST = 150
"""The longest name: it is noted as a file's, a third longer."""


_MOST_BYTES = 64 << 10
"""All properties of a namespace, as JSON."""
_PATIENCE = 30.0
_REASON = "a namespace is being changed"
_LOCATION = "location"
"""The property that says where tables go."""


def _folder(catalog: Catalog, branch: str) -> Path:
    return catalog.tables.root / "namespaces" / prefix_of(branch)


def empty_namespaces(catalog: Catalog, branch: str | None) -> list[str]:
    """Return the namespaces that are noted for a branch, as folders with a slash at the end."""
    if branch is None:
        return []
    try:
        names = [each.name for each in _folder(catalog, branch).iterdir()]
    except OSError:
        return []
    return [f"{ref_of_prefix(name)}/" for name in names]


def namespace_properties(
    catalog: Catalog, branch: str | None, namespace: tuple[str, ...]
) -> dict[str, str]:
    """Return the properties that clients gave a namespace."""
    if branch is None:
        return {}
    try:
        found = json.loads(_note(catalog, branch, namespace).read_bytes() or b"{}")
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def create_namespace(
    catalog: Catalog, branch: str, namespace: tuple[str, ...], properties: Mapping[str, str]
) -> None:
    """Note a namespace; one whose tables could not be datasets is refused."""
    path = "/".join(namespace)
    check_dataset_path(f"{path}/table")
    if len(path) > _LONGEST:
        raise InvalidArgumentError("the namespace's name is too long")
    with _alone(catalog, branch):
        _write(catalog, branch, namespace, properties)


def alter_namespace(
    catalog: Catalog,
    branch: str,
    namespace: tuple[str, ...],
    updates: Mapping[str, str],
    removals: Collection[str],
) -> list[str]:
    """Change the properties of a namespace; return which of the removals there were."""
    with _alone(catalog, branch):
        old = namespace_properties(catalog, branch, namespace)
        kept = {name: value for name, value in old.items() if name not in removals}
        _write(catalog, branch, namespace, {**kept, **updates})
    return [name for name in removals if name in old]


def _note(catalog: Catalog, branch: str, namespace: tuple[str, ...]) -> Path:
    return _folder(catalog, branch) / prefix_of("/".join(namespace))


@contextmanager
def _alone(catalog: Catalog, branch: str) -> Iterator[None]:
    place = catalog.tables.root / "namespaces" / f"{prefix_of(branch)}.lock"
    place.parent.mkdir(parents=True, exist_ok=True)
    with exclusive_lock(place, patience=_PATIENCE, reason=_REASON):
        yield


def _write(
    catalog: Catalog, branch: str, namespace: tuple[str, ...], properties: Mapping[str, str]
) -> None:
    if properties and namespace == (TOP,):
        raise InvalidArgumentError(f"the namespace {TOP!r} has no properties: it is no folder")
    if _LOCATION in properties:
        raise InvalidArgumentError("a namespace's location is the catalog's to choose")
    for name, value in properties.items():
        if not isinstance(value, str):
            raise InvalidArgumentError(f"the namespace's property {name[:60]!r} is not a text")
    data = json.dumps(properties).encode() if properties else b""
    if len(data) > _MOST_BYTES:
        raise InvalidArgumentError("the namespace's properties are too large")
    place = _note(catalog, branch, namespace)
    place.parent.mkdir(parents=True, exist_ok=True)
    # Where it is begun is no place of a namespace's note.
    replace_file(place, data, begun_in=place.parent.parent)


def forget_namespace(catalog: Catalog, branch: str, namespace: tuple[str, ...]) -> bool:
    """Forget a namespace, and return whether it was noted."""
    try:
        _note(catalog, branch, namespace).unlink()
    except OSError:
        return False
    return True
