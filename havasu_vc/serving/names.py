"""Which dataset a namespace and a table's name mean, and the other way round.

    dataset a/b/parcels     namespace a.b, table parcels
    dataset parcels         namespace tables, table parcels

A dataset in a folder `tables` comes before one without a folder. In the warehouse of all refs
a namespace begins with the ref, and one of the ref alone has the datasets without a folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from havasu_vc.records import dataclass
from havasu_vc.serving.errors import no_namespace

__all__ = [
    "SEPARATOR",
    "TOP",
    "Name",
    "candidates",
    "name_of",
    "namespaces_below",
    "parse_namespace",
    "tables_in",
]

TOP = "tables"
"""The namespace of datasets that are in no folder."""
SEPARATOR = "\x1f"
"""What stands between the levels of a namespace in URLs."""


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
