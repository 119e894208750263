"""Namespaces that clients made and that have no table yet.

A namespace is a folder of a branch, which git knows by what is in it alone. So one that is empty
is noted beside what else is served, for all servers of the repository, until a table is in it.
"""

from __future__ import annotations

from pathlib import Path

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.model.names import check_dataset_path
from havasu_vc.serving.catalog import Catalog
from havasu_vc.serving.names import prefix_of, ref_of_prefix

__all__ = ["create_namespace", "empty_namespaces", "forget_namespace"]

_LONGEST = 150
"""The longest name: it is noted as a file's, a third longer."""


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


def create_namespace(catalog: Catalog, branch: str, namespace: tuple[str, ...]) -> None:
    """Note a namespace; one whose tables could not be datasets is refused."""
    path = "/".join(namespace)
    check_dataset_path(f"{path}/table")
    if len(path) > _LONGEST:
        raise InvalidArgumentError("the namespace's name is too long")
    place = _folder(catalog, branch) / prefix_of(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.touch()


def forget_namespace(catalog: Catalog, branch: str, namespace: tuple[str, ...]) -> bool:
    """Forget a namespace, and return whether it was noted."""
    try:
        (_folder(catalog, branch) / prefix_of("/".join(namespace))).unlink()
    except OSError:
        return False
    return True
