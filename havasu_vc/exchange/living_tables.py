"""The SQL of a living working copy: the tables that it begins with, and those of a layer.

    gpkg_*                      what the standard asks for
    gpkg_havasu_vc_state        `(table_name, key, value)`; of `*` the key `tree` is the root tree
                                of the commit whose rows the file has
    gpkg_havasu_vc_track        `(table_name, pk)`: one row for each key that was touched since
    _havasu_vc_track_T_ins ...  the triggers of a table T that write there

In Kart's repositories these are Kart's: `gpkg_kart_state`, `gpkg_kart_track`, `_kart_track_T_ins`.
A trigger names key columns only, as SQLite lets no column go that a trigger names, and the table
in its body is a constant: it follows the table through a rename and still says whose rows
they are. So does the id of each column, which stands in `gpkg_data_columns` where QGIS and
GDAL carry it along.

The R-tree of a layer: packed as a whole, and the functions that its triggers call.

SQLite's R-tree is three ordinary tables: nodes of at most 51 cells, the leaf of each row, the
parent of each node. Rows that come together are sorted into tiles (sort by x, cut into
slices, sort each by y) and the nodes are written full, level upon level, which takes a tenth
of the time of inserting them one by one and gives a better tree. Triggers keep it from then
on, in any program that has the functions `ST_MinX` and the like; `add_functions` gives them
to a connection of ours.
"""

from __future__ import annotations

import re
import sqlite3
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path

import numpy as np
import pyarrow as pa

from havasu_vc.errors import HavasuError
from havasu_vc.exchange.living_layer import Layer
from havasu_vc.exchange.ogr_formats import OF_PEOPLE, quoted, read_only
from havasu_vc.geo import wkb as geometry_bytes
from havasu_vc.geo.bounds import row_bounds
from havasu_vc.geo.crs import Crs
from havasu_vc.records import dataclass

__all__ = [
    "FEW_PAGES",
    "KART",
    "MANY_PAGES",
    "OURS",
    "UNDEFINED",
    "FileNames",
    "add_functions",
    "attach_metadata",
    "copy_beside",
    "create_file",
    "create_index",
    "create_layer",
    "describe_columns",
    "describe_layer",
    "drop_index",
    "drop_layer",
    "drop_table",
    "index_name",
    "index_triggers",
    "insert_rows",
    "list_tables",
    "srs_id_of",
    "tables_of_people",
    "tell_system",
    "track_triggers",
]

EXACT = "gpkg_havasu_vc_exact"
METADATA = "metadata.xml"
UNDEFINED = "undefined"
"""The definition of a system of coordinates that no definition of the older kind can state."""
_NEWER_WORDS = "definition_12_063"
"""The column in which GDAL states such systems."""
_NAMESPACE = re.compile(r"\sxmlns(:gmd)?=[\"']([^\"']+)[\"']")
_NO_STANDARD = "http://www.isotc211.org/2005/gmd"
COLUMN = "application/x-havasu-vc-column;id="
"""The text that stands as the type of a column in `gpkg_data_columns`, before its id."""
_APPLICATION, _VERSION = 0x47504B47, 10300
FEW_PAGES = "PRAGMA cache_size = -256"
"""Keeps 256 KiB of pages at hand, which stay in the processor: for a table read once through."""
MANY_PAGES = "PRAGMA cache_size = -65536"
"""Keeps 64 MiB of pages at hand: rows in no order come back to many of them."""

_BEGIN = """
CREATE TABLE gpkg_spatial_ref_sys (srs_name TEXT NOT NULL, srs_id INTEGER NOT NULL PRIMARY KEY,
  organization TEXT NOT NULL, organization_coordsys_id INTEGER NOT NULL,
  definition TEXT NOT NULL, description TEXT);
INSERT INTO gpkg_spatial_ref_sys VALUES
  ('Undefined Cartesian SRS', -1, 'NONE', -1, 'undefined', 'undefined Cartesian coordinates'),
  ('Undefined geographic SRS', 0, 'NONE', 0, 'undefined', 'undefined geographic coordinates');
CREATE TABLE gpkg_contents (table_name TEXT NOT NULL PRIMARY KEY, data_type TEXT NOT NULL,
  identifier TEXT UNIQUE, description TEXT DEFAULT '',
  last_change DATETIME NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ','now')),
  min_x DOUBLE, min_y DOUBLE, max_x DOUBLE, max_y DOUBLE, srs_id INTEGER,
  CONSTRAINT fk_gc_r_srs_id FOREIGN KEY (srs_id) REFERENCES gpkg_spatial_ref_sys(srs_id));
CREATE TABLE gpkg_geometry_columns (table_name TEXT NOT NULL, column_name TEXT NOT NULL,
  geometry_type_name TEXT NOT NULL, srs_id INTEGER NOT NULL, z TINYINT NOT NULL,
  m TINYINT NOT NULL, CONSTRAINT pk_geom_cols PRIMARY KEY (table_name, column_name),
  CONSTRAINT uk_gc_table_name UNIQUE (table_name),
  CONSTRAINT fk_gc_tn FOREIGN KEY (table_name) REFERENCES gpkg_contents(table_name),
  CONSTRAINT fk_gc_srs FOREIGN KEY (srs_id) REFERENCES gpkg_spatial_ref_sys (srs_id));
CREATE TABLE gpkg_extensions (table_name TEXT, column_name TEXT, extension_name TEXT NOT NULL,
  definition TEXT NOT NULL, scope TEXT NOT NULL,
  CONSTRAINT ge_tce UNIQUE (table_name, column_name, extension_name));
CREATE TABLE gpkg_metadata (id INTEGER CONSTRAINT m_pk PRIMARY KEY ASC NOT NULL,
  md_scope TEXT NOT NULL DEFAULT 'dataset', md_standard_uri TEXT NOT NULL,
  mime_type TEXT NOT NULL DEFAULT 'text/xml', metadata TEXT NOT NULL DEFAULT '');
CREATE TABLE gpkg_metadata_reference (reference_scope TEXT NOT NULL, table_name TEXT,
  column_name TEXT, row_id_value INTEGER,
  timestamp DATETIME NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ','now')),
  md_file_id INTEGER NOT NULL, md_parent_id INTEGER,
  CONSTRAINT crmr_mfi_fk FOREIGN KEY (md_file_id) REFERENCES gpkg_metadata(id),
  CONSTRAINT crmr_mpi_fk FOREIGN KEY (md_parent_id) REFERENCES gpkg_metadata(id));
"""
_COLUMNS = """
CREATE TABLE gpkg_data_columns (table_name TEXT NOT NULL, column_name TEXT NOT NULL, name TEXT,
  title TEXT, description TEXT, mime_type TEXT, constraint_name TEXT,
  CONSTRAINT pk_gdc PRIMARY KEY (table_name, column_name),
  CONSTRAINT gdc_tn UNIQUE (table_name, name));
INSERT INTO gpkg_extensions VALUES ('gpkg_data_columns', NULL, 'gpkg_schema',
  'http://www.geopackage.org/spec121/#extension_schema', 'read-write');
CREATE TABLE gpkg_havasu_vc_exact (table_name TEXT NOT NULL, column_name TEXT NOT NULL,
  fid INTEGER NOT NULL, value TEXT NOT NULL,
  PRIMARY KEY (table_name, column_name, fid)) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class FileNames:
    """The names of what a file keeps of itself."""

    state: str
    """The table of what the file is of."""
    track: str
    """The table of keys that were touched."""
    trigger: str
    """The names of triggers begin so."""

    @property
    def kart(self) -> bool:
        """Whether they are Kart's."""
        return self.state == KART.state


OURS = FileNames("gpkg_havasu_vc_state", "gpkg_havasu_vc_track", "_havasu_vc_track")
KART = FileNames("gpkg_kart_state", "gpkg_kart_track", "_kart_track")


def create_file(database: sqlite3.Connection, names: FileNames) -> None:
    """Make the tables of a file without layers."""
    database.execute(f"PRAGMA application_id = {_APPLICATION}")
    database.execute(f"PRAGMA user_version = {_VERSION}")
    statements = _BEGIN if names.kart else _BEGIN + _COLUMNS
    for statement in statements.split(";\n"):
        if statement.strip():
            database.execute(statement)
    database.execute(
        f"CREATE TABLE {names.state} (table_name TEXT NOT NULL, key TEXT NOT NULL, "
        "value TEXT NOT NULL, PRIMARY KEY (table_name, key))"
    )
    database.execute(
        f"CREATE TABLE {names.track} (table_name TEXT NOT NULL, pk TEXT NULL, "
        "PRIMARY KEY (table_name, pk))"
    )


def tables_of_people(database: sqlite3.Connection) -> list[str]:
    """Return the layers, and the tables that somebody made without saying so to the standard."""
    rows = database.execute(
        "SELECT table_name FROM gpkg_contents WHERE data_type IN ('features', 'attributes') UNION "
        f"SELECT name FROM sqlite_master WHERE type = 'table' AND {OF_PEOPLE} ORDER BY 1"
    )
    return [name for (name,) in rows]


def copy_beside(file: Path, folder: Path) -> str:
    """Copy a file to a folder, with all its tables listed, and return where it is.

    Another library of SQLite's in this process, such as GDAL's, must not open the file while
    it is held: when that closes it, the system drops our locks.
    """
    copy = folder / file.name
    with (
        closing(sqlite3.connect(read_only(str(file)), uri=True)) as source,
        closing(sqlite3.connect(copy)) as target,
    ):
        source.backup(target)
        list_tables(target)
    return str(copy)


def list_tables(database: sqlite3.Connection) -> None:
    """List all tables, as GDAL passes over others where one without geometries is listed."""
    listed = {name for (name,) in database.execute("SELECT table_name FROM gpkg_contents")}
    database.executemany(
        "INSERT INTO gpkg_contents (table_name, data_type) VALUES (?, 'attributes')",
        [(name,) for name in tables_of_people(database) if name not in listed],
    )
    database.commit()


def create_layer(database: sqlite3.Connection, layer: Layer) -> None:
    """Make a layer without rows, triggers aside."""
    database.execute(f"CREATE TABLE {quoted(layer.table)} ({', '.join(_column_list(layer))})")
    geometry, crs = layer.geometry, layer.crs
    kind = "attributes" if geometry is None else "features"
    srs_id = None if geometry is None else 0
    if crs is not None:
        srs_id = crs.srid
        _add_system(database, crs)
    database.execute(
        "INSERT INTO gpkg_contents (table_name, data_type, identifier, description, srs_id) "
        "VALUES (?, ?, ?, ?, ?)",
        (
            layer.table,
            kind,
            _identifier(database, layer, layer.table),
            _description(layer),
            srs_id,
        ),
    )
    if geometry is not None and geometry.geometry is not None:
        word, _, dimensions = (geometry.geometry.shape or "GEOMETRY").partition(" ")
        either = 0 if geometry.geometry.shape else 2
        has = (1 if "Z" in dimensions else either, 1 if "M" in dimensions else either)
        database.execute(
            "INSERT INTO gpkg_geometry_columns VALUES (?, ?, ?, ?, ?, ?)",
            (layer.table, geometry.name, word, srs_id, *has),
        )
        create_index(database, layer.table, geometry.name)
    if not layer.kart:
        describe_columns(database, layer, layer.table)
    if (text := layer.said(METADATA)) is not None:
        attach_metadata(database, layer.table, text)


def _column_list(layer: Layer) -> Iterator[str]:
    if layer.has_own_fid:
        yield f"{quoted(layer.fid)} INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL"
    key = layer.schema.key.names
    for field in layer.schema.fields:
        name, type_ = quoted(field.name), layer.declared[field.name]
        if field.name == layer.fid:
            yield f"{name} INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL"
        elif (field.name,) == key:
            yield f"{name} {type_} UNIQUE NOT NULL CHECK({name}<>'')"
        else:
            yield f"{name} {type_}{' NOT NULL' if field.required else ''}"
    if len(key) > 1:
        yield f"UNIQUE ({', '.join(map(quoted, key))})"


def describe_layer(database: sqlite3.Connection, old: Layer, layer: Layer, table: str) -> None:
    """Have a layer that stands say of itself what another version of its dataset does.

    Metadata that is the same in both versions stays as it stands.
    """
    database.execute(
        "UPDATE gpkg_contents SET identifier = ?, description = ? WHERE table_name = ?",
        (_identifier(database, layer, table), _description(layer), table),
    )
    if old.said(METADATA) != layer.said(METADATA):
        attach_metadata(database, table, layer.said(METADATA))


def attach_metadata(database: sqlite3.Connection, table: str, text: str | None) -> None:
    """Have a layer carry metadata in XML, or none; what it carries already stays."""
    if not _has_metadata(database):
        return
    query = (
        "SELECT m.metadata FROM gpkg_metadata m JOIN gpkg_metadata_reference r "
        "ON r.md_file_id = m.id WHERE lower(r.table_name) = lower(?)"
    )
    if [text] == [found for (found,) in database.execute(query, (table,))]:
        return
    _drop_metadata(database, table)
    if text is None:
        return
    namespace = _NAMESPACE.search(text)
    row = database.execute(
        "INSERT INTO gpkg_metadata (md_scope, md_standard_uri, mime_type, metadata) "
        "VALUES ('dataset', ?, 'text/xml', ?)",
        (namespace[2] if namespace else _NO_STANDARD, text),
    )
    database.execute(
        "INSERT INTO gpkg_metadata_reference (reference_scope, table_name, md_file_id) "
        "VALUES ('table', ?, ?)",
        (table, row.lastrowid),
    )


def _drop_metadata(database: sqlite3.Connection, table: str) -> None:
    """Remove the metadata of a layer."""
    if not _has_metadata(database):
        return
    ids = database.execute(
        "SELECT md_file_id FROM gpkg_metadata_reference WHERE lower(table_name) = lower(?)",
        (table,),
    ).fetchall()
    for query in (
        "DELETE FROM gpkg_metadata_reference WHERE md_file_id = ?",
        "DELETE FROM gpkg_metadata WHERE id = ?",
    ):
        database.executemany(query, ids)


def _has_metadata(database: sqlite3.Connection) -> bool:
    found = database.execute(
        "SELECT count(*) FROM sqlite_master WHERE name IN "
        "('gpkg_metadata', 'gpkg_metadata_reference')"
    ).fetchone()
    return bool(found[0] == 2)


def _description(layer: Layer) -> str | None:
    """Return the text about a layer, which is null for Kart where there is none."""
    return layer.said("description") or (None if layer.kart else "")


def _identifier(database: sqlite3.Connection, layer: Layer, table: str) -> str:
    """Return the name of a layer for people, which no other layer may have.

    Kart has no word for a dataset without a title, and leaves it empty.
    """
    title = layer.said("title")
    if title is None:
        if not layer.kart:
            return table
        title = ""
    taken = "SELECT 1 FROM gpkg_contents WHERE identifier = ? AND table_name != ?"
    if database.execute(taken, (title, table)).fetchone() is None:
        return title
    return f"{layer.table}: {title}"


def tell_system(database: sqlite3.Connection, layer: Layer) -> None:
    """Say what a layer's system of coordinates is, where GDAL says it in newer words alone.

    Kart reads the older ones, and takes a table without them for one that lost its system.
    """
    known = "SELECT definition FROM gpkg_spatial_ref_sys WHERE srs_id = ?"
    crs = layer.crs
    if crs is not None and database.execute(known, (crs.srid,)).fetchone() == (UNDEFINED,):
        database.execute(
            "UPDATE gpkg_spatial_ref_sys SET definition = ? WHERE srs_id = ?", (crs.wkt, crs.srid)
        )


def srs_id_of(database: sqlite3.Connection, table: str) -> int:
    """Return the number of the system of coordinates that a table is in."""
    query = "SELECT srs_id FROM gpkg_geometry_columns WHERE lower(table_name) = lower(?)"
    row = database.execute(query, (table,)).fetchone()
    return int(row[0]) if row else 0


def _add_system(database: sqlite3.Connection, crs: Crs) -> None:
    authority, _, code = crs.identifier.rpartition(":")
    number = int(code) if code.isdecimal() and len(code) < 10 else crs.srid
    name = crs.wkt.partition('"')[2].partition('"')[0] or crs.identifier
    said = {
        "srs_name": name,
        "srs_id": crs.srid,
        "organization": authority or "NONE",
        "organization_coordsys_id": number,
        "definition": crs.wkt,
    }
    query = "SELECT 1 FROM pragma_table_info('gpkg_spatial_ref_sys') WHERE name = ?"
    if database.execute(query, (_NEWER_WORDS,)).fetchone():
        said[_NEWER_WORDS] = UNDEFINED
    database.execute(
        f"INSERT OR REPLACE INTO gpkg_spatial_ref_sys ({', '.join(said)}) "
        f"VALUES ({', '.join('?' * len(said))})",
        tuple(said.values()),
    )


def describe_columns(database: sqlite3.Connection, layer: Layer, table: str) -> None:
    """Note the id of each column where editors carry it along."""
    database.execute("DELETE FROM gpkg_data_columns WHERE lower(table_name) = lower(?)", (table,))
    database.executemany(
        "INSERT INTO gpkg_data_columns (table_name, column_name, mime_type) VALUES (?, ?, ?)",
        ((table, field.name, f"{COLUMN}{field.id}") for field in layer.schema.fields),
    )


def drop_layer(database: sqlite3.Connection, layer: Layer, table: str) -> None:
    """Remove a layer, which may be called otherwise now, and what is said of it."""
    if EXACT in drop_table(database, table):
        database.execute(f"DELETE FROM {EXACT} WHERE table_name = ?", (layer.table,))


def drop_table(database: sqlite3.Connection, table: str) -> set[str]:
    """Remove a table and what is said of it; return the tables that were there."""
    here = {
        name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    }
    for (column,) in database.execute(
        "SELECT column_name FROM gpkg_geometry_columns WHERE lower(table_name) = lower(?)", (table,)
    ).fetchall():
        drop_index(database, table, column)
    database.execute(f"DROP TABLE IF EXISTS {quoted(table)}")
    _drop_metadata(database, table)
    about = ("gpkg_geometry_columns", "gpkg_data_columns", "gpkg_ogr_contents", "gpkg_contents")
    for each in about:
        if each in here:
            database.execute(f"DELETE FROM {each} WHERE lower(table_name) = lower(?)", (table,))
    return here


def track_triggers(
    layer: Layer, table: str, key: Sequence[str], names: FileNames
) -> dict[str, str]:
    """Return the statements that make the triggers of a table, by their names.

    `key` are the names that the key columns have now; none where the feature id tells rows apart.
    """
    says = "'" + layer.table.replace("'", "''") + "'"
    put = f"INSERT OR REPLACE INTO {names.track} (table_name, pk) VALUES ({says}, {{}});"
    new, old = (put.format(_key(side, key or (layer.fid,), layer)) for side in ("NEW", "OLD"))
    found = {}
    for suffix, event, body in (
        ("ins", "INSERT", new),
        ("upd", "UPDATE", f"{new} {old}"),
        ("del", "DELETE", old),
    ):
        name = f"{names.trigger}_{layer.table}_{suffix}"
        found[name] = (
            f"CREATE TRIGGER {quoted(name)} AFTER {event} ON {quoted(table)} BEGIN {body} END"
        )
    return found


def _key(side: str, key: Sequence[str], layer: Layer) -> str:
    columns = [f"{side}.{quoted(name)}" for name in key]
    if len(columns) == 1:
        return columns[0]
    types = [layer.declared.get(name, "TEXT") for name in layer.schema.key.names]
    blobs = (type_.startswith("BLOB") for type_ in types)
    parts = (f"hex({c})" if is_blob else c for c, is_blob in zip(columns, blobs, strict=True))
    return f"json_array({', '.join(parts)})"


_FUNCTIONS = ("ST_MinX", "ST_MinY", "ST_MaxX", "ST_MaxY")
_POINTS = (1, 1001, 2001, 3001)
"""The types of points in WKB: flat, with z, with m, with both."""

_TOGETHER, _MOST_MARKS = 60, 990


def index_name(table: str, column: str) -> str:
    """Return the name of the R-tree of a column."""
    return f"rtree_{table}_{column}"


def create_index(database: sqlite3.Connection, table: str, column: str) -> None:
    """Make an empty R-tree of a column, and say in the file that there is one."""
    name = quoted(index_name(table, column))
    # Who drops a table by SQL leaves its index.
    database.execute(f"DROP TABLE IF EXISTS {name}")
    database.execute(f"CREATE VIRTUAL TABLE {name} USING rtree(id, minx, maxx, miny, maxy)")
    database.execute(
        "INSERT OR REPLACE INTO gpkg_extensions VALUES (?, ?, 'gpkg_rtree_index', "
        "'http://www.geopackage.org/spec120/#extension_rtree', 'write-only')",
        (table, column),
    )


def drop_index(database: sqlite3.Connection, table: str, column: str) -> None:
    """Remove the R-tree of a column; its triggers go with the table."""
    database.execute(f"DROP TABLE IF EXISTS {quoted(index_name(table, column))}")
    database.execute("DELETE FROM gpkg_extensions WHERE lower(table_name) = lower(?)", (table,))


def index_triggers(table: str, column: str, fid: str) -> Iterator[str]:
    """Yield the statements that keep the R-tree as rows change, as the standard has them."""
    tree, t, c, i = (quoted(each) for each in (index_name(table, column), table, column, fid))
    there = f"(NEW.{c} NOTNULL AND NOT ST_IsEmpty(NEW.{c}))"
    gone = f"(NEW.{c} ISNULL OR ST_IsEmpty(NEW.{c}))"
    put = (
        f"INSERT OR REPLACE INTO {tree} VALUES (NEW.{i}, ST_MinX(NEW.{c}), ST_MaxX(NEW.{c}), "
        f"ST_MinY(NEW.{c}), ST_MaxY(NEW.{c}));"
    )
    take = f"DELETE FROM {tree} WHERE id = OLD.{i};"
    same, other = f"OLD.{i} = NEW.{i}", f"OLD.{i} != NEW.{i}"
    for suffix, event, when, what in (
        ("insert", "INSERT", there, put),
        ("update1", f"UPDATE OF {c}", f"{same} AND {there}", put),
        ("update2", f"UPDATE OF {c}", f"{same} AND {gone}", take),
        ("update3", "UPDATE", f"{other} AND {there}", f"{take} {put}"),
        ("update4", "UPDATE", f"{other} AND {gone}",
         f"DELETE FROM {tree} WHERE id IN (OLD.{i}, NEW.{i});"),
        ("delete", "DELETE", f"OLD.{c} NOT NULL", take),
    ):  # fmt: skip
        name = quoted(f"{index_name(table, column)}_{suffix}")
        yield f"CREATE TRIGGER {name} AFTER {event} ON {t} WHEN {when} BEGIN {what} END"


def insert_rows(
    database: sqlite3.Connection,
    table: str,
    columns: Sequence[Sequence[object]],
    names: Sequence[str] = (),
) -> None:
    """Insert rows that come as columns, several with each statement, which takes less."""
    width, count = len(columns), len(columns[0])
    together = max(1, min(_TOGETHER, _MOST_MARKS // width))
    into = f"{quoted(table)} ({', '.join(map(quoted, names))})" if names else quoted(table)
    row = f"({', '.join('?' * width)})"
    values = chain.from_iterable(zip(*columns, strict=True))
    for rows, times in ((together, count // together), (1, count % together)):
        database.executemany(
            f"INSERT INTO {into} VALUES {', '.join([row] * rows)}",
            (tuple(islice(values, rows * width)) for _ in range(times)),
        )


# Functions that triggers call, of GeoPackage's geometries


def add_functions(database: sqlite3.Connection) -> None:
    """Give a connection the functions that triggers of an R-tree call."""
    for place, name in enumerate(_FUNCTIONS):
        database.create_function(name, 1, _side(place), deterministic=True)
    database.create_function("ST_IsEmpty", 1, _is_empty, deterministic=True)


def _side(place: int) -> Callable[[object], float | None]:
    def side(value: object) -> float | None:
        box = _box(value) if isinstance(value, bytes) else None
        return None if box is None else box[place]

    return side


def _is_empty(value: object) -> int | None:
    if not isinstance(value, bytes):
        return None
    return int(_box(value) is None)


@lru_cache(maxsize=8)
def _box(value: bytes) -> tuple[float, ...] | None:
    """Return xmin, ymin, xmax, ymax of a geometry; None of an empty one, or of none at all."""
    box: tuple[float, ...] | None = _box_at_once(value)
    if box is not None:
        return box
    try:
        wkb, _ = geometry_bytes.to_canonical(pa.array([value], pa.binary()), "gpkg")
        found = row_bounds(wkb)[0]
    except HavasuError:
        return None
    return None if np.isnan(found).any() else tuple(found.tolist())


def _box_at_once(value: bytes) -> tuple[float, float, float, float] | None:
    """Return the box that a header tells, or that a point is; None where it takes a full look.

    A trigger asks for each row of its own, so this is what writing a row costs most.
    """
    if len(value) < 8 or value[:2] != b"GP" or value[3] & 0x30:
        return None
    order, kind = "<" if value[3] & 1 else ">", (value[3] >> 1) & 7
    if 1 <= kind <= 4 and len(value) >= 40:
        west, east, south, north = struct.unpack_from(f"{order}4d", value, 8)
    elif kind == 0 and len(value) >= 29 and value[8] < 2:
        order = "<" if value[8] else ">"
        type_, west, south = struct.unpack_from(f"{order}I2d", value, 9)
        east, north = west, south
        if type_ not in _POINTS:
            return None
    else:
        return None
    return (west, south, east, north) if west <= east and south <= north else None
