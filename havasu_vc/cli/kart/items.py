"""The order in which Kart prints meta items."""

from __future__ import annotations

__all__ = ["place_of_item"]

_ORDER = ("title", "description", "tags.json", "schema.json", "crs", "metadata.xml")
"""Meta items as Kart prints them, `crs` for all below it."""


def place_of_item(name: str) -> tuple[int, str]:
    """Return where Kart prints a meta item among others.

    >>> sorted(["crs/EPSG:2193.wkt", "description", "title"], key=place_of_item)
    ['title', 'description', 'crs/EPSG:2193.wkt']
    """
    first = name.partition("/")[0]
    return (_ORDER.index(first) if first in _ORDER else len(_ORDER)), name
