"""Which dataset a namespace and a table's name mean, and the other way round.

    dataset a/b/parcels     namespace a.b, table parcels
    dataset parcels         namespace tables, table parcels

A dataset in a folder `tables` comes before one without a folder. In the warehouse of all refs
a namespace begins with the ref, and one of the ref alone has the datasets without a folder.

Which commit a warehouse, a namespace or a part of a table's name means.

    warehouse ""         HEAD's branch
    warehouse main       a branch, which may be written to
    warehouse v1, HEAD~3, a1b2c3d, main@{2026-11-01}       a commit, to be read
    warehouse *          all refs: the first level of a namespace is the ref

Clients say a warehouse once, when they ask for the configuration, and from then on its prefix: the
ref as base64url, which proxies leave alone whatever the ref is called.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence

from havasu_vc.errors import HavasuError
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.serving.routes import Refused, no_namespace
from havasu_vc.store.refs import BRANCHES, read_ref
from havasu_vc.store.revisions import EMPTY, Revision, commit_tree, resolve

__all__ = [
    "EVERY",
    "SEPARATOR",
    "TOP",
    "Name",
    "ServedRef",
    "candidates",
    "find_ref",
    "name_of",
    "namespaces_below",
    "parse_namespace",
    "prefix_of",
    "ref_of_prefix",
    "tables_in",
]

TOP = "tables"
"""The namespace of datasets that are in no folder."""
SEPARATOR = "\x1f"
"""The sign between the levels of a namespace in URLs."""


@dataclass(frozen=True, slots=True)
class Name:
    """A table as clients name it."""

    namespace: tuple[str, ...]
    """Its levels, at least one."""
    table: str
    """Its name in there."""

    def __str__(self) -> str:
        """Return the name as messages have it.

        >>> str(name_of("a/b/parcels"))
        'a.b.parcels'
        """
        return ".".join((*self.namespace, self.table))


def parse_namespace(text: str) -> tuple[str, ...]:
    r"""Return the levels of a namespace as URLs have it.

    >>> parse_namespace("a\x1fb")
    ('a', 'b')
    """
    levels = tuple(text.split(SEPARATOR))
    if not all(levels):
        raise no_namespace(".".join(levels))
    return levels


def name_of(path: str) -> Name:
    """Return the name of a dataset.

    >>> name_of("a/b/parcels")
    Name(namespace=('a', 'b'), table='parcels')
    """
    *folders, table = path.split("/")
    return Name(tuple(folders) or (TOP,), table)


def candidates(namespace: Sequence[str], table: str) -> tuple[str, ...]:
    """Return the paths of datasets that a name can mean, the likelier first.

    >>> candidates(("tables",), "parcels")
    ('tables/parcels', 'parcels')
    """
    path = "/".join([*namespace, table])
    return (path, table) if tuple(namespace) == (TOP,) else (path,)


def namespaces_below(paths: Iterable[str], parent: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the namespaces one level below another, in order."""
    found = set()
    for path in paths:
        namespace = name_of(path).namespace
        if len(namespace) > len(parent) and namespace[: len(parent)] == parent:
            found.add(namespace[: len(parent) + 1])
    return sorted(found)


def tables_in(paths: Iterable[str], namespace: tuple[str, ...]) -> list[str]:
    """Return the names of the tables in a namespace, in order."""
    return sorted({name.table for name in map(name_of, paths) if name.namespace == namespace})


EVERY = "*"
"""The warehouse of all refs."""
_LONGEST = 512


@dataclass(frozen=True, slots=True)
class ServedRef:
    """A ref as it is now."""

    name: str
    """The name that was asked for."""
    revision: Revision
    """Where it is; the empty revision for a branch without commits."""
    branch: str | None
    """The branch that it names, None for what cannot be written to."""


def prefix_of(name: str) -> str:
    """Return how URLs spell a ref.

    >>> prefix_of("feature/x"), ref_of_prefix("ZmVhdHVyZS94")
    ('ZmVhdHVyZS94', 'feature/x')
    """
    return base64.urlsafe_b64encode(name.encode("utf-8", "surrogateescape")).decode().rstrip("=")


def ref_of_prefix(prefix: str) -> str:
    """Return the ref that URLs spell so."""
    try:
        padded = prefix + "=" * (-len(prefix) % 4)
        return base64.b64decode(padded, b"-_", validate=True).decode("utf-8", "surrogateescape")
    except (ValueError, binascii.Error):
        raise _unknown(prefix) from None


def find_ref(repo: OpenRepo, name: str) -> ServedRef:
    """Return the ref that a name means now; none means HEAD's branch, or HEAD."""
    if len(name) > _LONGEST or not name.isprintable():
        raise _unknown(name[:_LONGEST])
    branch = name or repo.head_branch
    if branch is not None:
        commit = read_ref(repo.git, BRANCHES + branch)
        if commit is not None:
            return ServedRef(
                branch, Revision(branch, commit, commit_tree(repo.git, commit)), branch
            )
        if branch == repo.head_branch:
            return ServedRef(branch, resolve(repo.git, EMPTY), branch)
    try:
        return ServedRef(name or "HEAD", resolve(repo.git, name or "HEAD"), None)
    except HavasuError:
        raise _unknown(name) from None


def _unknown(name: str) -> Refused:
    message = f"this repository has no branch, tag or commit {name!r}"
    return Refused(404, "NoSuchWarehouseException", message)
