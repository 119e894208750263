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
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from havasu_vc.exchange.living_index import create_index, drop_index
from havasu_vc.exchange.living_layer import Layer
from havasu_vc.exchange.ogr_formats import quoted
from havasu_vc.geo.crs import Crs
from havasu_vc.records import dataclass

__all__ = [
    "KART",
    "OURS",
    "Names",
    "create_file",
    "create_layer",
    "describe_columns",
    "drop_layer",
    "drop_table",
    "track_triggers",
]

EXACT = "gpkg_havasu_vc_exact"
COLUMN = "application/x-havasu-vc-column;id="
"""What stands as the type of a column in `gpkg_data_columns`, before its id."""
_APPLICATION, _VERSION = 0x47504B47, 10300
_NO_BOUNDS = (None, None, None, None)

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
class Names:
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


OURS = Names("gpkg_havasu_vc_state", "gpkg_havasu_vc_track", "_havasu_vc_track")
KART = Names("gpkg_kart_state", "gpkg_kart_track", "_kart_track")


def create_file(database: sqlite3.Connection, names: Names) -> None:
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
        (layer.table, kind, _identifier(database, layer), layer.said("description") or "", srs_id),
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


def _identifier(database: sqlite3.Connection, layer: Layer) -> str | None:
    """Return the name of a layer for people, which no other layer may have."""
    title = layer.said("title")
    if title is None:
        return None if layer.kart else layer.table
    taken = "SELECT 1 FROM gpkg_contents WHERE identifier = ?"
    if database.execute(taken, (title,)).fetchone() is None:
        return title
    return f"{layer.table}: {title}"


def _add_system(database: sqlite3.Connection, crs: Crs) -> None:
    authority, _, code = crs.identifier.rpartition(":")
    number = int(code) if code.isdecimal() and len(code) < 10 else crs.srid
    name = crs.wkt.partition('"')[2].partition('"')[0] or crs.identifier
    database.execute(
        "INSERT OR REPLACE INTO gpkg_spatial_ref_sys VALUES (?, ?, ?, ?, ?, NULL)",
        (name, crs.srid, authority or "NONE", number, crs.wkt),
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
    about = ("gpkg_geometry_columns", "gpkg_data_columns", "gpkg_ogr_contents", "gpkg_contents")
    for each in about:
        if each in here:
            database.execute(f"DELETE FROM {each} WHERE lower(table_name) = lower(?)", (table,))
    return here


def track_triggers(layer: Layer, table: str, key: Sequence[str], names: Names) -> dict[str, str]:
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
