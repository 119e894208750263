"""The words that a GeoPackage has for a layer, where GDAL tells them otherwise or not at all."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing

from havasu_vc.errors import CrsError
from havasu_vc.exchange.ogr_formats import VectorFile, quoted, read_only
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.geo.crs import parse_crs

__all__ = ["declared_key", "own_metadata", "own_title", "own_words"]

_XML = """
SELECT m.metadata FROM gpkg_metadata m JOIN gpkg_metadata_reference r ON r.md_file_id = m.id
WHERE lower(r.table_name) = lower(?) AND r.column_name IS NULL AND r.row_id_value IS NULL
  AND m.mime_type IN ('text/xml', 'application/xml') AND length(m.metadata) < 10000000
ORDER BY m.id LIMIT 1
"""
_SYSTEM = """
SELECT s.definition FROM gpkg_geometry_columns g JOIN gpkg_spatial_ref_sys s ON s.srs_id = g.srs_id
WHERE lower(g.table_name) = lower(?) LIMIT 1
"""
_KEY = "SELECT group_concat(name) FROM pragma_table_info(?) WHERE pk HAVING count(*) = 1"


def own_title(
    file: VectorFile, layer: str, told: Mapping[str, str], options: SourceOptions
) -> str | None:
    """Return the title that GDAL has of a layer.

    One that is its name says nothing, and Kart keeps it.
    """
    said = told.get("IDENTIFIER") or None
    if said != layer and said is not None:
        return said
    if not (options.for_kart and file.driver == "GPKG"):
        return None
    query = "SELECT identifier FROM gpkg_contents WHERE table_name = ?1 AND identifier = ?1"
    return _asked(file, query, layer)


def own_metadata(file: VectorFile, layer: str) -> str | None:
    """Return the metadata in XML that a GeoPackage has of a layer."""
    return _asked(file, _XML, layer) if file.driver == "GPKG" else None


def own_words(file: VectorFile, layer: str, known: str) -> str:
    """Return a system of coordinates in the words of a GeoPackage, where it says it in full.

    Kart keeps them to the letter, and takes a table in its working copy for edited where it says
    another thing than its dataset.
    """
    said = _asked(file, _SYSTEM, layer) if file.driver == "GPKG" else None
    if said is None:
        return known
    try:
        same = parse_crs(said).identifier == parse_crs(known).identifier
    except CrsError:
        return known  # "undefined" stands where only newer words can say what it is
    return said if same else known


def declared_key(file: VectorFile, layer: str, names: Mapping[str, str]) -> tuple[str, ...]:
    """Return the one column, not of integers, that is the primary key of a GeoPackage's table.

    It is called as in `names`, by GDAL's, which says nothing of it. SQLite lets such a key be
    null; what has no value is no key.
    """
    name = _asked(file, _KEY, layer) if file.driver == "GPKG" else None
    if name is None or name not in names:
        return ()
    absent = f"SELECT 'null' FROM {quoted(layer)} WHERE {quoted(name)} IS NULL AND ?1 = ?1"
    return () if _asked(file, absent, layer) else (names[name],)


def _asked(file: VectorFile, query: str, layer: str) -> str | None:
    """Return the first text that a GeoPackage answers about a layer; None where it does not say."""
    try:
        with closing(sqlite3.connect(read_only(file.path), uri=True)) as database:
            row = database.execute(query, (layer,)).fetchone()
    except sqlite3.Error:
        return None  # it has no such tables
    return str(row[0]) if row and row[0] else None
