"""Tables of an edit copy's own, by which it knows where it came from; layers that others put there.

    gpkg_havasu_vc_state   one row for each layer: dataset, commit, schema, columns
    gpkg_havasu_vc_exact   cells that a GeoPackage cannot hold exactly (`edit_values`)

The prefix keeps QGIS and GDAL from showing them as layers.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import field
from pathlib import Path

from havasu_vc.errors import HavasuError, InvalidFileError, StorageError
from havasu_vc.exchange.ogr_formats import quoted, read_only
from havasu_vc.formats.havasu.schema import format_schema, parse_schema
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass

__all__ = [
    "STYLES",
    "LayerState",
    "Move",
    "TableColumn",
    "move_state",
    "open_state",
    "other_tables",
    "read_states",
    "write_state",
]


_STATE, _EXACT = "gpkg_havasu_vc_state", "gpkg_havasu_vc_exact"
_VERSION = 1
_SRID = "srid of "


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column as the GeoPackage has it."""

    name: str
    """Its name."""
    type: str
    """The type it was declared with."""


@dataclass(frozen=True, slots=True)
class LayerState:
    """The remembered state of one layer."""

    table: str
    """The layer."""
    dataset: str
    """The path of the dataset it is a copy of."""
    commit: str
    """The commit it was taken from."""
    schema: Schema
    """The dataset's schema then."""
    crs: dict[str, str]
    """The dataset's coordinate reference systems as WKT."""
    fid: str
    """The column that tells rows of the layer apart."""
    columns: tuple[TableColumn, ...]
    """The layer's columns as they were written."""


@contextmanager
def open_state(path: Path) -> Iterator[sqlite3.Connection]:
    """Open an edit copy that is being written, and make its tables."""
    try:
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA synchronous = OFF")  # the file is moved when it is whole
            database.execute(
                f"CREATE TABLE IF NOT EXISTS {_STATE} (version INTEGER NOT NULL, table_name TEXT "
                "PRIMARY KEY, dataset TEXT NOT NULL, commit_id TEXT NOT NULL, schema TEXT NOT "
                "NULL, crs TEXT NOT NULL, fid TEXT NOT NULL, columns TEXT NOT NULL)"
            )
            database.execute(
                f"CREATE TABLE IF NOT EXISTS {_EXACT} (table_name TEXT NOT NULL, column_name TEXT "
                "NOT NULL, fid INTEGER NOT NULL, value TEXT NOT NULL, "
                "PRIMARY KEY (table_name, column_name, fid)) WITHOUT ROWID"
            )
            yield database
            database.commit()
    except sqlite3.Error as error:
        raise StorageError(f"{path.name} cannot be written: {error}") from error


def write_state(database: sqlite3.Connection, state: LayerState) -> None:
    """Remember one layer; its columns are looked up."""
    columns = [[column.name, column.type] for column in table_columns(database, state.table)]
    row = (
        _VERSION,
        state.table,
        state.dataset,
        state.commit,
        format_schema(state.schema).decode(),
        json.dumps(state.crs),
        state.fid,
        json.dumps(columns),
    )
    database.execute(f"INSERT INTO {_STATE} VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)


@dataclass(frozen=True, slots=True)
class Move:
    """The new state of a layer that was taken in."""

    schema: Schema
    """The schema that its dataset has now."""
    edited: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Rows of which something was remembered that is so no longer, by the column's name then."""


def move_state(path: Path, commit: str, moves: Mapping[str, Move]) -> None:
    """Remember that layers are now as some datasets are at a commit.

    Raises `StorageError` when the file cannot be written, for instance while an editor
    holds it.
    """
    try:
        with closing(sqlite3.connect(path, timeout=2)) as database:
            rows = database.execute(f"SELECT table_name, dataset, schema FROM {_STATE}").fetchall()
            for table, dataset, schema in rows:
                move = moves.get(dataset)
                if move is None:
                    continue
                _move_exact(database, table, parse_schema(schema.encode(), str(path)), move)
                columns = [[c.name, c.type] for c in table_columns(database, table)]
                database.execute(
                    f"UPDATE {_STATE} SET commit_id = ?, schema = ?, columns = ? "
                    "WHERE table_name = ?",
                    (commit, format_schema(move.schema).decode(), json.dumps(columns), table),
                )
            database.commit()
    except sqlite3.Error as error:
        raise StorageError(f"{path.name} cannot be written: {error}") from error


def _move_exact(database: sqlite3.Connection, table: str, then: Schema, move: Move) -> None:
    """Forget the exact values of rows and columns that are gone, or edited; follow renames."""
    database.execute(
        f"DELETE FROM {_EXACT} WHERE table_name = ? "
        f"AND fid NOT IN (SELECT rowid FROM {quoted(table)})",
        (table,),
    )
    for column, fids in move.edited.items():
        database.executemany(
            f"DELETE FROM {_EXACT} WHERE table_name = ? AND column_name = ? AND fid = ?",
            ((table, column, fid) for fid in fids),
        )
    now = move.schema.by_id
    renamed = {}
    for old in then.fields:
        new = now.get(old.id)
        for form in (str, srid_column):
            renamed[form(old.name)] = None if new is None else form(new.name)
    # Two columns may have swapped their names, so that all are moved at once.
    cells = []
    for old_name, new_name in renamed.items():
        if old_name == new_name:
            continue
        where = (table, old_name)
        kept = f"SELECT fid, value FROM {_EXACT} WHERE table_name = ? AND column_name = ?"
        if new_name is not None:
            cells += [(table, new_name, *row) for row in database.execute(kept, where)]
        database.execute(f"DELETE FROM {_EXACT} WHERE table_name = ? AND column_name = ?", where)
    database.executemany(f"INSERT INTO {_EXACT} VALUES (?, ?, ?, ?)", cells)


def write_exact(
    database: sqlite3.Connection, table: str, column: str, cells: Iterable[tuple[int, str]]
) -> None:
    """Remember cells that the layer does not hold exactly."""
    database.executemany(
        f"INSERT INTO {_EXACT} VALUES (?, ?, ?, ?)",
        ((table, column, fid, value) for fid, value in cells),
    )


def _undo_what_was_cut_off(path: Path) -> None:
    """Let SQLite put back what a write that died had begun; who only reads may not."""
    if not path.with_name(f"{path.name}-journal").exists():
        return
    with suppress(sqlite3.Error), closing(sqlite3.connect(path, timeout=2)) as database:
        database.execute("SELECT count(*) FROM sqlite_master").fetchone()


def read_states(path: Path) -> list[LayerState]:
    """Return what an edit copy remembers.

    Raises `InvalidFileError` for a file that is no edit copy.
    """
    _undo_what_was_cut_off(path)
    try:
        with closing(sqlite3.connect(read_only(str(path)), uri=True)) as database:
            names = "version, table_name, dataset, commit_id, schema, crs, fid, columns"
            rows = database.execute(f"SELECT {names} FROM {_STATE} ORDER BY rowid").fetchall()
    except sqlite3.Error as error:
        raise InvalidFileError(
            str(path),
            "not a copy to edit that `checkout --as` made",
            hints=("`havasu-vc import --replace` compares any file with a dataset",),
        ) from error
    if not rows or any(row[0] != _VERSION for row in rows):
        raise InvalidFileError(
            str(path),
            "what it remembers of its commit cannot be understood",
            hints=("make a new copy with `havasu-vc checkout --as`",),
        )
    try:
        return [_state(row[1:], str(path)) for row in rows]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, HavasuError) as error:
        raise InvalidFileError(str(path), "what it remembers of its commit is damaged") from error


def _state(row: tuple[str, ...], path: str) -> LayerState:
    table, dataset, commit, schema, crs, fid, columns = row
    return LayerState(
        table,
        dataset,
        commit,
        parse_schema(schema.encode(), path),
        dict(json.loads(crs)),
        fid,
        tuple(TableColumn(str(name), str(type_)) for name, type_ in json.loads(columns)),
    )


def table_columns(database: sqlite3.Connection, table: str) -> tuple[TableColumn, ...]:
    """Return a layer's columns in order."""
    rows = database.execute(f"PRAGMA table_info({quoted(table)})").fetchall()
    return tuple(TableColumn(row[1], row[2]) for row in rows)


def read_columns(path: Path, table: str) -> tuple[TableColumn, ...]:
    """Return a layer's columns as they are now; none when the layer is gone."""
    try:
        with closing(sqlite3.connect(read_only(str(path)), uri=True)) as database:
            return table_columns(database, table)
    except sqlite3.Error as error:
        raise InvalidFileError(str(path), f"damaged: {error}") from error


def read_exact(
    database: sqlite3.Connection, table: str, column: str, first: int, last: int
) -> dict[int, str]:
    """Return the exact cells of a column in a range of rows."""
    return dict(
        database.execute(
            f"SELECT fid, value FROM {_EXACT} WHERE table_name = ? AND column_name = ? "
            "AND fid BETWEEN ? AND ?",
            (table, column, first, last),
        )
    )


def exact_columns(database: sqlite3.Connection, table: str) -> set[str]:
    """Return the columns of a layer of which exact values are remembered."""
    query = f"SELECT DISTINCT column_name FROM {_EXACT} WHERE table_name = ?"
    return {name for (name,) in database.execute(query, (table,))}


def srid_column(name: str) -> str:
    """Return under which name the SRIDs that geometries have of their own are remembered."""
    return _SRID + name


# What stands in a copy to edit beside the layers that datasets were written to.

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
