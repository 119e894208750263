"""Whether any row of a GeoPackage could have changed past the triggers that track edits.

SQLite counts in a file each change of what it has: tables, columns, indexes, triggers. While
that number stays, no trigger went and came again, no table was made anew, no unique index came
by which `INSERT OR REPLACE` takes rows that no trigger sees. So a table whose rows were as they
should be, and whose file says that this was at the number that it has now, need not be counted,
which reads every page of it. The file's own number in the system stands beside it, as a copy may
have been put together otherwise.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from havasu_vc.exchange.ogr_formats import quoted

__all__ = ["Watch"]

_KEY = "havasu-vc-watched"


class Watch:
    """The tables that were right, as the file says, and those that are in this transaction."""

    def __init__(self, database: sqlite3.Connection, state: str) -> None:
        self._database = database
        self._state = state
        self._before = self._mark()
        self._changes = database.total_changes
        query = f"SELECT table_name, value FROM {state} WHERE key = ?"
        self._noted = dict(database.execute(query, (_KEY,)))
        self._right = {table for table, mark in self._noted.items() if mark == self._before}

    def covers(self, layer: str, table: str) -> bool:
        """Whether the rows of a layer are those that its triggers tell of."""
        if layer not in self._right:
            return False
        indexes = self._database.execute(f"PRAGMA index_list({quoted(table)})").fetchall()
        return not any(unique for _, _, unique, *_ in indexes)

    def trust(self, layer: str) -> None:
        """Take the rows of a layer for what its triggers tell of, from now on."""
        self._right.add(layer)

    def forget(self, layer: str) -> None:
        """Take nothing of a layer for granted."""
        self._right.discard(layer)

    def save(self) -> None:
        """Have the file say so, when all else of a transaction is written, if anything was."""
        now = self._mark()
        if now == self._before and self._database.total_changes == self._changes:
            return
        for layer in self._noted.keys() - self._right:
            query = f"DELETE FROM {self._state} WHERE table_name = ? AND key = ?"
            self._database.execute(query, (layer, _KEY))
        for layer in self._right:
            if self._noted.get(layer) != now:
                query = f"INSERT OR REPLACE INTO {self._state} VALUES (?, ?, ?)"
                self._database.execute(query, (layer, _KEY, now))

    def _mark(self) -> str:
        """Return the number of what the file has, and that of the file."""
        ((version,),) = self._database.execute("PRAGMA schema_version")
        path = self._database.execute("PRAGMA database_list").fetchone()[2]
        return f"{version} {Path(path).stat().st_ino}"
