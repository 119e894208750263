"""The words that a GeoPackage has for a layer, where GDAL tells them otherwise or not at all."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing

import pyarrow as pa

from havasu_vc.errors import CrsError
from havasu_vc.exchange.ogr_formats import VectorFile, quoted, read_only
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.geo.crs import parse_crs

__all__ = [
    "declared_key",
    "own_lengths",
    "own_metadata",
    "own_order",
    "own_title",
    "own_types",
    "own_words",
    "passed_over",
]

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
_COLUMNS = "SELECT name, type FROM pragma_table_xinfo(?) WHERE hidden != 1 ORDER BY cid"
_BYTES = re.compile(r"blob\s*\(\s*\d+\s*\)|float", re.IGNORECASE)


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


def own_lengths(file: VectorFile, layer: str) -> dict[str, str]:
    """Return the types of columns of a GeoPackage that GDAL does not tell in full.

    These are bytes that have a length, and floats, which are read with more bits than they say.
    """
    return {name: type_ for name, type_ in _columns(file, layer) if _BYTES.fullmatch(type_)}


def own_types(file: VectorFile, layer: str, arrow: pa.Schema, *, for_kart: bool) -> pa.Schema:
    """Return columns with those of `TINYINT` as whole numbers of 8 bits, which GDAL has of 32.

    Where a number does not fit, as of those who count to 255, its column stays as it is. Floats
    have 64 bits in Kart, whatever they are declared with.
    """
    for name, type_ in _columns(file, layer):
        place = arrow.get_field_index(name)
        if for_kart and place >= 0 and pa.types.is_float32(arrow.field(place).type):
            arrow = arrow.set(place, arrow.field(place).with_type(pa.float64()))
        if type_.upper() == "TINYINT" and place >= 0 and pa.types.is_int32(arrow.field(place).type):
            column, table = quoted(name), quoted(layer)
            query = f"SELECT 1 FROM {table} WHERE {column} NOT BETWEEN -128 AND 127 AND ?1 = ?1"
            if _asked(file, query, layer) is None:
                arrow = arrow.set(place, arrow.field(place).with_type(pa.int8()))
    return arrow


def own_order(
    file: VectorFile, layer: str, columns: Sequence[str], names: Mapping[str, str]
) -> list[str]:
    """Return GDAL's names of columns, which `names` has ours of, as the table has them in order.

    Kart keeps the order of a table.
    """
    places = {name.lower(): place for place, (name, _) in enumerate(_columns(file, layer))}
    return sorted(columns, key=lambda name: places.get(names[name].lower(), len(places)))


def passed_over(file: VectorFile, layer: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a GeoPackage's table that GDAL does not name: further geometries."""
    told = {name.lower() for name in names}
    return tuple(name for name, _ in _columns(file, layer) if name.lower() not in told)


def _columns(file: VectorFile, layer: str) -> list[tuple[str, str]]:
    """Return the columns of a GeoPackage's table with their types in SQL; none if it is none."""
    if file.driver != "GPKG":
        return []
    try:
        with closing(sqlite3.connect(read_only(file.path), uri=True)) as database:
            return [(str(name), str(type_)) for name, type_ in database.execute(_COLUMNS, (layer,))]
    except sqlite3.Error:
        return []


def declared_key(
    file: VectorFile, layer: str, names: Mapping[str, str], arrow: pa.Schema
) -> tuple[str, ...]:
    """Return the one column, not of integers, that is the primary key of a GeoPackage's table.

    It is called as in `names`, by GDAL's, which says nothing of it. SQLite lets such a key be
    null; what has no value is no key, nor are numbers with a fraction.
    """
    name = _asked(file, _KEY, layer) if file.driver == "GPKG" else None
    if name is None or name not in names or pa.types.is_floating(arrow.field(name).type):
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
