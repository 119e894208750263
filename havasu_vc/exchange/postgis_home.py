"""Where a living working copy in PostGIS is: a schema of its own, made, opened, held.

What is not a working copy's own in that schema stays: tables of people, and what they made of
them. A schema with tables that is no working copy is refused.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from havasu_vc.errors import InvalidFileError, LockedError, StateError
from havasu_vc.exchange.addresses import parse_address
from havasu_vc.exchange.ogr_formats import quoted
from havasu_vc.exchange.postgis_copy import PostgisCopy
from havasu_vc.exchange.postgis_seen import OID
from havasu_vc.exchange.postgis_server import Server, connected, literal, see_postgis
from havasu_vc.exchange.postgis_tables import KART, OURS, begin_schema

__all__ = ["PostgisHome"]

_PATIENCE, _PAUSE = 3.0, 0.05
_LOCKS = 0x6861_7661
"""The first half of the numbers of our advisory locks."""
_TABLES = (
    "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = %s AND c.relkind IN ('r', 'p', 'v', 'm', 'f') ORDER BY c.oid"
)


class PostgisHome:
    """The schema that a working copy is, or would be."""

    kind = "postgis"

    def __init__(self, address: str, *, kart: bool) -> None:
        self._address = parse_address(address)
        self._names = KART if kart else OURS

    @property
    def name(self) -> str:
        """The address, without a password."""
        return self._address.shown

    @property
    def exists(self) -> bool:
        """Whether the schema is a working copy; asks the server."""
        with connected(self._address) as server:
            return self._is_there(server)

    def _is_there(self, server: Server) -> bool:
        there = {name for (name,) in server.rows(_TABLES, (self._address.schema,))}
        return {self._names.state, self._names.track} <= there

    @contextmanager
    def create(self) -> Iterator[PostgisCopy]:
        """Make it in a block, in the place of one that is there; whole after it, or as before."""
        schema, names = self._address.schema, self._names
        with connected(self._address) as server:
            self._lock(server)
            see_postgis(server)
            known = server.one("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,))
            if known is None:
                server.run(f"CREATE SCHEMA {quoted(schema)}")
            elif self._is_there(server):
                self._lock_tables(server)
                self._clear(server)
            elif there := server.rows(_TABLES, (schema,)):
                raise StateError(
                    f"the schema {schema} has tables already, such as {there[0][0]}, and is no "
                    "working copy of this repository",
                    hints=("name a schema that is empty, or that is not there yet",),
                )
            begin_schema(server, schema, names)
            yield PostgisCopy(server, names)

    def _clear(self, server: Server) -> None:
        """Drop the tables of datasets, and what is known of them."""
        space, names = quoted(self._address.schema), self._names
        rows = server.rows(
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = %s AND c.relkind IN ('r', 'p') AND (EXISTS (SELECT 1 FROM "
            "pg_trigger t WHERE t.tgrelid = c.oid AND t.tgname = ANY(%s)) OR c.oid::text IN "
            f"(SELECT value FROM {space}.{names.state} WHERE key = {literal(OID)}))",
            (self._address.schema, list(names.needed)),
        )
        for (table,) in rows:
            server.run(f"DROP TABLE {space}.{quoted(table)}")
        for table in (names.state, names.track):
            server.run(f"DELETE FROM {space}.{table}")

    @contextmanager
    def open(self, *, write: bool = False) -> Iterator[PostgisCopy]:
        """Open it; to write, with the lock and in one transaction.

        Raises `InvalidFileError` where there is none, and `LockedError` when another program
        writes to it and has yet to commit.
        """
        with connected(self._address, snapshot=not write) as server:
            if write:
                self._lock(server)
            if not self._is_there(server):
                raise InvalidFileError(
                    self.name,
                    "it is no working copy of this repository",
                    hints=("`havasu-vc create-workingcopy` makes one",),
                )
            see_postgis(server)
            if write:
                self._lock_tables(server)
            yield PostgisCopy(server, self._names)

    def is_locked(self) -> bool:
        """Whether another program has written to its tables and has yet to commit."""
        with connected(self._address) as server:
            return (
                server.one(
                    "SELECT 1 FROM pg_locks l JOIN pg_class c ON c.oid = l.relation "
                    "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND "
                    "l.granted AND l.pid <> pg_backend_pid() AND l.database = "
                    "(SELECT oid FROM pg_database WHERE datname = current_database()) AND "
                    "l.mode NOT IN ('AccessShareLock', 'RowShareLock') LIMIT 1",
                    (self._address.schema,),
                )
                is not None
            )

    def _lock(self, server: Server) -> None:
        """Take the lock that programs of ours respect."""
        query = "SELECT pg_try_advisory_xact_lock(%s, hashtext(%s))"
        end = time.monotonic() + _PATIENCE
        while not server.one(query, (_LOCKS, self._address.schema)):
            self._wait(end)
        server.run(f"SET LOCAL lock_timeout = '{_PATIENCE:.0f}s'")

    def _lock_tables(self, server: Server) -> None:
        """Let nobody else write to the tables until the transaction ends."""
        space = quoted(self._address.schema)
        rows = server.rows(
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = %s AND c.relkind IN ('r', 'p') AND "
            "has_table_privilege(c.oid, 'UPDATE, DELETE, TRUNCATE') ORDER BY c.oid",
            (self._address.schema,),
        )
        names = ", ".join(f"{space}.{quoted(table)}" for (table,) in rows)
        end = time.monotonic() + _PATIENCE
        # Waiting for one table while another is held could stop an editor for good.
        while names and not server.tries(f"LOCK TABLE {names} IN SHARE ROW EXCLUSIVE MODE NOWAIT"):
            self._wait(end)

    def _wait(self, end: float) -> None:
        if time.monotonic() > end:
            raise LockedError(
                f"another program is writing to {self.name}; nothing is changed",
                hints=("save or drop the edits there, then try again",),
            )
        time.sleep(_PAUSE)
