"""Scenes whose working copy is a schema in PostGIS, which is kept and put back with the files.

A fault strikes the command at a call on a file, so it is killed before, between and after what
the server does; the server goes on, rolls back what was not committed, and is looked at then.
`tests/stateful/test_postgis_copy.py` kills at each statement.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

from tests.faults.scenes import (
    HERE,
    Rows,
    Scene,
    Story,
    Version,
    begin,
    changed,
    sides,
    story,
)
from tests.support.postgres import DATABASE, PostgresServer, has_postgis, postgres

__all__ = ["POSTGIS", "DatabaseBeside", "rows_there"]

SCHEMA = "wc"
_EMPTY = "empty"
_running = ExitStack()


@cache
def _server() -> PostgresServer:
    """Start the one server of this process, which ends with `DatabaseBeside.end`."""
    server = _running.enter_context(postgres())
    _make(server, _EMPTY, DATABASE)
    return server


def _make(server: PostgresServer, name: str, of: str) -> None:
    """Make a database anew, as another one is."""
    import psycopg

    with psycopg.connect(
        host=str(server.folder), user="postgres", dbname="postgres", autocommit=True
    ) as connection:
        for _ in range(500):  # what a killed command began is rolled back when the server notices
            others = "SELECT 1 FROM pg_stat_activity WHERE datname = ANY(%s)"
            if not connection.execute(others, [[DATABASE]]).fetchall():
                break
            time.sleep(0.02)
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {of} OWNER maps")


class DatabaseBeside:
    """The database of a scene, beside its folder."""

    def begin(self) -> None:
        """Start the server, if none runs, with an empty database."""
        _make(_server(), DATABASE, _EMPTY)

    def keep(self, name: str) -> None:
        """Keep the database as it is under a name."""
        _make(_server(), name, DATABASE)

    def put_back(self, name: str) -> None:
        """Make the database as it was kept."""
        _make(_server(), DATABASE, name)

    def state(self) -> dict[str, str]:
        """Return all that is in the schema, by table."""
        return {f"postgis {name}": repr(found) for name, found in _everything(_server())}

    @staticmethod
    def end() -> None:
        """Stop the server."""
        _running.close()
        _server.cache_clear()


def _everything(server: PostgresServer) -> Iterator[tuple[str, Any]]:
    columns = (
        "SELECT table_name, column_name, data_type FROM information_schema.columns "
        f"WHERE table_schema = '{SCHEMA}' ORDER BY table_name, ordinal_position"
    )
    found = server.rows(columns)
    yield "columns", found
    triggers = (
        "SELECT tgrelid::regclass::text, tgname, tgenabled FROM pg_trigger "
        "WHERE NOT tgisinternal ORDER BY 1, 2"
    )
    yield "triggers", [row for row in server.rows(triggers) if row[0].startswith(f"{SCHEMA}.")]
    for name in sorted({row[0] for row in found}):
        yield name, server.rows(f'SELECT t::text FROM {SCHEMA}."{name}" t ORDER BY 1')


def rows_there(folder: Path) -> dict[str, Any] | None:
    """Return the rows of a repository's tables in PostGIS; None where it has no such copy."""
    config = folder / "repo" / ".git" / "config"
    if not config.exists() or "postgresql://" not in config.read_text():
        return None
    server = _server()
    names = [name for name in ("points", "trees") if _has(server, name)]
    return {
        name: server.rows(
            f"SELECT id, ST_AsText(geom), name, number FROM {SCHEMA}.{name} ORDER BY 1"
        )
        for name in names
    }


def _has(server: PostgresServer, name: str) -> bool:
    return bool(server.rows("SELECT 1 WHERE to_regclass(%s) IS NOT NULL", [f"{SCHEMA}.{name}"]))


def living(folder: Path) -> tuple[Version, ...]:
    """Make a working copy, in which a row is updated, one deleted."""
    repo, versions = begin(folder)
    repo.workspace.create_living(_server().address(SCHEMA))
    _server().run(
        f"UPDATE {SCHEMA}.points SET name = 'edited' WHERE id = 5",
        f"DELETE FROM {SCHEMA}.points WHERE id = 6",
    )
    return versions


def commit(folder: Path) -> Story:
    versions = living(folder)
    geom, _, number = versions[-1]["points"][5]
    edited: Rows = {5: (geom, "edited", number)}
    return story(versions, changed(versions[-1], edited, gone=(6,)))


def restore(folder: Path) -> Story:
    return story(living(folder))


def switch(folder: Path) -> Story:
    repo, versions, _ = sides(folder)
    repo.workspace.create_living(_server().address(SCHEMA))
    return story(versions)


def merge(folder: Path) -> Story:
    repo, versions, merged = sides(folder)
    repo.workspace.create_living(_server().address(SCHEMA))
    return story(versions, merged)


POSTGIS = (
    (
        Scene(
            "commit (PostGIS)", commit, (*HERE, "commit", "-m", "m"), (44,), beside=DatabaseBeside()
        ),
        Scene("restore (PostGIS)", restore, (*HERE, "restore"), (44,), beside=DatabaseBeside()),
        Scene("switch (PostGIS)", switch, (*HERE, "switch", "side"), beside=DatabaseBeside()),
        Scene("merge (PostGIS)", merge, (*HERE, "merge", "side"), beside=DatabaseBeside()),
        Scene(
            "stash push (PostGIS)",
            restore,
            (*HERE, "stash", "push"),
            (44,),
            beside=DatabaseBeside(),
        ),
    )
    if has_postgis()
    else ()
)
