"""What stands in a copy to edit beside the layers that datasets were written to."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

from havasu_vc.errors import InvalidFileError
from havasu_vc.exchange.ogr_formats import quoted, read_only

__all__ = ["STYLES", "other_tables"]

STYLES = "layer_styles"
"""The table in which QGIS keeps how layers look."""


def other_tables(path: Path, layers: Collection[str]) -> dict[str, int]:
    """Return the tables and views of a GeoPackage that none of these layers is, and their rows.

    Without what GeoPackage, SQLite and we keep of them.
    """
    try:
        with closing(sqlite3.connect(read_only(str(path)), uri=True)) as database:
            found = database.execute(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name"
            )
            own = {each.lower() for each in layers}
            names = [name for (name,) in found if not _is_kept(name) and name.lower() not in own]
            return {name: _rows(database, name) for name in names}
    except sqlite3.Error as error:
        raise InvalidFileError(str(path), f"not a GeoPackage: {error}") from error


def _is_kept(name: str) -> bool:
    return name.lower().startswith(("gpkg_", "rtree_", "sqlite_"))


def _rows(database: sqlite3.Connection, name: str) -> int:
    try:
        (count,) = database.execute(f"SELECT count(*) FROM {quoted(name)}").fetchone()
    except sqlite3.Error:
        return 0  # a table of an extension that is not here
    return int(count)
