"""Errors of places as Kart says them: working copies, sources of imports, spatial filters.

As in `karts_texts`, which has all others.
"""

from __future__ import annotations

__all__ = ["PLACE_TEXTS"]

_KINDS_OF_COPIES = (
    "\nTry one of:\n  PATH.gpkg\n  postgresql://HOST/DBNAME/DBSCHEMA\n"
    "  mssql://HOST/DBNAME/DBSCHEMA\n  mysql://HOST/DBNAME\n"
)
PLACE_TEXTS: tuple[tuple[str, str, str], ...] = (
    (
        "clone create-workingcopy init",
        "(.+) is not the name of a GeoPackage",
        r"Unrecognised working copy type: \1" + _KINDS_OF_COPIES,
    ),
    (
        "clone create-workingcopy init",
        "postgresql:.* does not name a database and a schema in it",
        "Invalid PostGIS URI - URI path must have two parts: database name and database schema:\n"
        "Expecting URI in form: postgresql://HOST[:PORT]/DBNAME/DBSCHEMA\n",
    ),
    (
        "create-workingcopy",
        "(?:.*/)?(.+) is there already",
        r"Cannot recreate working copy at same location \1 if --no-delete-existing is set.",
    ),
    (
        "create-workingcopy",
        "(?:.*/)?(.+) is a folder",
        r"Error creating GPKG working copy at \1 - path already exists",
    ),
    (
        "create-workingcopy",
        "(?:.*/)?(.+?): it cannot be used as a working copy: .+",
        r"Error creating GPKG working copy at \1 - GPKG file already exists",
    ),
)
"""Whole texts of errors of commands, and what Kart says there."""
