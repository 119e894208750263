"""A living working copy in a schema of PostGIS, as `living_store` has it.

All that happens between opening and closing is one transaction. Whoever opens it to write holds an
advisory lock and the tables themselves, so editors that save wait, and one that has yet to commit
makes us refuse before anything moved. Rows go in and out by COPY.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from havasu_vc.errors import InvalidFileError, KeyViolationError, LockedError, StateError
from havasu_vc.exchange.addresses import parse_address
from havasu_vc.exchange.edit_values import free_name, integer_key
from havasu_vc.exchange.living_layer import Layer
from havasu_vc.exchange.living_seen import Seen, unchanged
from havasu_vc.exchange.ogr_formats import quoted
from havasu_vc.exchange.postgis_seen import OID, columns_of, look, oid_of, remember
from havasu_vc.exchange.postgis_server import (
    Server,
    array_literal,
    connected,
    format_csv,
    literal,
    out_expression,
    parse_csv,
    see_postgis,
    stored_column,
    text_column,
)
from havasu_vc.exchange.postgis_tables import (
    KART,
    OURS,
    SchemaNames,
    base_type,
    begin_schema,
    column_list,
    ensure_system,
    plan_table,
    short_name,
    srid_of,
    track_statements,
)
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.model.schema import Schema

__all__ = ["PostgisCopy", "PostgisHome"]


class PostgisCopy:
    """An open working copy."""

    def __init__(self, server: Server, names: SchemaNames) -> None:
        self._server = server
        self._schema = server.address.schema
        self._names = names
        self._state = f"{quoted(self._schema)}.{names.state}"
        self._track = f"{quoted(self._schema)}.{names.track}"

    # What it is of

    @property
    def name(self) -> str:
        """Where it is, without a password."""
        return self._server.address.shown

    @property
    def tree(self) -> str:
        """The root tree whose datasets it has; empty for none."""
        return self.state("*", "tree") or ""

    @property
    def of_merge(self) -> bool:
        """Whether that tree is of a merge that waited then, so of no commit."""
        return self.state("*", "merging") is not None

    def set_tree(self, tree: str, *, of_merge: bool = False) -> None:
        """Remember the root tree whose datasets it has now."""
        self.set_state("*", "tree", tree)
        self.set_state("*", "merging", "true" if of_merge else None)

    def date(self, table: str, when: int) -> None:
        """Do nothing: a table does not say when it was made."""

    def state(self, table: str, key: str) -> str | None:
        """Return what it says of itself, with `*`, or of a table; None where it says nothing."""
        query = f"SELECT value FROM {self._state} WHERE table_name = %s AND key = %s"
        found = self._server.one(query, (table, key))
        return None if found is None else str(found)

    def set_state(self, table: str, key: str, value: str | None) -> None:
        """Have it say something of itself, with `*`, or of a table; None takes it back."""
        if value is None:
            take = f"DELETE FROM {self._state} WHERE table_name = %s AND key = %s"
            self._server.run(take, (table, key))
            return
        self._server.run(
            f"INSERT INTO {self._state} VALUES (%s, %s, %s) "
            "ON CONFLICT (table_name, key) DO UPDATE SET value = excluded.value",
            (table, key, value),
        )

    def table_of(self, path: str) -> str:
        """Return the table that a dataset has or would have: its path, `__` between its parts."""
        wanted = path.replace("/", "__")
        if self._names.kart:
            return wanted
        query = f"SELECT value, table_name FROM {self._state} WHERE key = 'dataset'"
        known = {str(dataset): str(table) for dataset, table in self._server.rows(query)}
        if path in known:
            return known[path]
        return free_name(short_name(wanted), list(known.values()))

    def plan(
        self, header: DatasetHeader, columns: Sequence[Mapping[str, Any]], table: str
    ) -> Layer:
        """Return how a dataset stands as a table; `columns` are those of its `schema.json`."""
        return plan_table(header, columns, table, kart=self._names.kart)

    def commit(self) -> None:
        """Make what was done so far durable, and give the lock back."""
        self._server.commit()

    def source(self, folder: Path) -> str:
        """Return the address, which others read from meanwhile as it was."""
        return self._server.address.text

    # How a table stands

    def has_table(self, name: str) -> bool:
        """Whether there is a table of that name."""
        return oid_of(self._server, self._schema, name) is not None

    def look(self, layer: Layer) -> Seen | None:
        """Return how a layer's table stands; None where it is gone."""
        return look(self._server, self._schema, self._names, layer)

    def count(self, seen: Seen) -> int:
        """Return how many rows a table has."""
        return int(self._server.one(f"SELECT count(*) FROM {self._place(seen.table)}"))

    def has_rows(self, seen: Seen, number: int) -> bool:
        """Whether a table has as many rows as what was tracked says."""
        return self.count(seen) == number

    def other_tables(self, known: Iterable[str]) -> tuple[str, ...]:
        """Return the tables that none of some is, and that are not the working copy's own."""
        own = {*known, self._names.state, self._names.track}
        rows = self._server.rows(
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = %s AND c.relkind IN ('r', 'p') AND NOT c.relispartition "
            "ORDER BY c.relname",
            (self._schema,),
        )
        return tuple(name for (name,) in rows if name not in own)

    def _place(self, table: str) -> str:
        return f"{quoted(self._schema)}.{quoted(table)}"

    # What was edited

    def _track_names(self, layer: Layer) -> list[str]:
        """Return the names that rows of a table are tracked under: Kart's follow a rename."""
        names = [layer.table]
        if self._names.kart and (seen := self.look(layer)) is not None:
            names.append(seen.table)
        return names

    def has_track(self, layer: Layer) -> bool:
        """Whether any key of a layer was touched."""
        query = f"SELECT 1 FROM {self._track} WHERE table_name = ANY(%s) LIMIT 1"
        return self._server.one(query, (self._track_names(layer),)) is not None

    def tracked(self, seen: Seen) -> pa.RecordBatch:
        """Return the keys that were touched, in stored types."""
        layer = seen.layer
        names = ", ".join(map(literal, self._track_names(layer)))
        fields = layer.schema.key.fields
        parts = ["pk"]
        if len(fields) > 1:
            parts = [f"(pk::json->>{place})" for place in range(len(fields))]
        picked = ", ".join(
            out_expression(field, f"{part}::{base_type(layer.declared[field.name])}")
            for field, part in zip(fields, parts, strict=True)
        )
        query = f"SELECT DISTINCT {picked} FROM {self._track} WHERE table_name IN ({names})"
        return self._fetched(query, layer.schema.select(layer.schema.key.names), layer)

    def forget(self, layer: Layer, keys: pa.RecordBatch | None = None) -> None:
        """Forget that keys were touched, or that any were."""
        query = f"DELETE FROM {self._track} t WHERE t.table_name = ANY(%s)"
        names = (self._track_names(layer),)
        if keys is None:
            self._server.run(query, names)
        elif keys.num_rows:
            query = query.replace(" t WHERE", f" t USING {self._given(layer, keys)} WHERE")
            self._server.run(f"{query} AND t.pk = {self._as_tracked(layer)}", names)

    def note(self, layer: Layer, keys: pa.RecordBatch) -> None:
        """Note that keys were touched, as triggers do."""
        said = literal(layer.table)
        if not layer.schema.key:
            query = f"VALUES ({said}, '')"
        elif not keys.num_rows:
            return
        else:
            query = f"SELECT {said}, {self._as_tracked(layer)} FROM {self._given(layer, keys)}"
        self._server.run(f"INSERT INTO {self._track} {query} ON CONFLICT DO NOTHING")

    def _given(self, layer: Layer, keys: pa.RecordBatch) -> str:
        """Return keys as a table `k` of columns `k0`, `k1`, in SQL."""
        names = ", ".join(f"k{place}" for place in range(keys.num_columns))
        arrays = ", ".join(
            f"{literal(array_literal(text_column(field, values, 0)))}::text[]"
            for field, values in zip(layer.schema.key.fields, keys.columns, strict=True)
        )
        return f"unnest({arrays}) AS k({names})"

    def _key_values(self, layer: Layer) -> list[str]:
        return [
            f"k.k{place}::{base_type(layer.declared[name])}"
            for place, name in enumerate(layer.schema.key.names)
        ]

    def _as_tracked(self, layer: Layer) -> str:
        values = [f"({value})::text" for value in self._key_values(layer)]
        return values[0] if len(values) == 1 else f"json_build_array({', '.join(values)})::text"

    def _matching(self, layer: Layer, columns: Sequence[str], side: str) -> str:
        return " AND ".join(
            f"{side}.{quoted(column)} = {value}"
            for column, value in zip(columns, self._key_values(layer), strict=True)
        )

    def keys(self, seen: Seen) -> pa.RecordBatch:
        """Return all keys of a table, in stored types; raises for one that comes twice."""
        schema = seen.layer.schema.select(seen.layer.schema.key.names)
        picked = ", ".join(
            out_expression(field, f"t.{quoted(name)}")
            for field, name in zip(schema.fields, seen.key, strict=True)
        )
        query = f"SELECT {picked} FROM {self._place(seen.table)} t"
        found = self._fetched(query, schema, seen.layer)
        if any(column.null_count for column in found.columns):
            raise KeyViolationError(f"{seen.table} has a row without a key")
        self._require_unique(found, seen, list(schema.names))
        return found

    def rows(self, seen: Seen, schema: Schema, keys: pa.RecordBatch | None) -> pa.RecordBatch:
        """Return the rows of some keys that are there, in `schema`; with None, all rows."""
        picked = ", ".join(
            out_expression(field, f"t.{quoted(field.name)}") for field in schema.fields
        )
        query = f"SELECT {picked} FROM {self._place(seen.table)} t"
        if keys is None:
            return self._fetched(query, schema, seen.layer)
        if not keys.num_rows:
            return pa.RecordBatch.from_pylist([], schema=arrow_schema(schema))
        layer = seen.layer
        query += f" JOIN {self._given(layer, keys)} ON {self._matching(layer, seen.key, 't')}"
        found = self._fetched(query, schema, layer)
        self._require_unique(found, seen, list(seen.key))
        return found

    def _require_unique(self, rows: pa.RecordBatch, seen: Seen, names: list[str]) -> None:
        """Raise where a key comes twice, as it may once its constraint was dropped."""
        table = pa.Table.from_batches([rows.select(names)])
        if table.group_by(names).aggregate([]).num_rows != table.num_rows:
            raise KeyViolationError(f"a key of {seen.table} comes twice")

    def _fetched(self, query: str, schema: Schema, layer: Layer) -> pa.RecordBatch:
        columns = parse_csv(self._server.copy_out(query), len(schema.fields))
        by_id = layer.schema.by_id
        arrays = [
            stored_column(field, texts, srid_of(layer, by_id.get(field.id, field)))
            for field, texts in zip(schema.fields, columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(schema))

    # Changing it

    def make(self, layer: Layer, batches: Iterable[pa.RecordBatch]) -> int:
        """Make a layer with all of its rows; return how many there are."""
        server, place = self._server, self._place(layer.table)
        for field in layer.schema.geometries:
            ensure_system(server, layer, field)
        if self.has_table(layer.table):
            raise InvalidFileError(
                self.name,
                f"there is a table {layer.table} already, which is not of {layer.dataset}",
                hints=("rename that table, or name another schema",),
            )
        server.run(f"CREATE TABLE {place} ({', '.join(column_list(layer))})")
        count = 0
        for batch in batches:
            self._insert(layer, layer.table, batch)
            count += batch.num_rows
        key = layer.schema.key.names or (layer.fid,)
        server.run(f"ALTER TABLE {place} ADD PRIMARY KEY ({', '.join(map(quoted, key))})")
        for field in layer.schema.geometries:
            server.run(f"CREATE INDEX ON {place} USING gist ({quoted(field.name)})")
        if layer.said("title") is not None:
            self.describe(unchanged(layer, layer.table), layer)
        self._count_on(layer, layer.table)
        server.run(f"ANALYZE {place}")
        self._remember(layer, layer.table)
        self.track(layer)
        return count

    def describe(self, seen: Seen, layer: Layer) -> None:
        """Have a table say of itself what its dataset does, which here is the title."""
        title = layer.said("title")
        words = "NULL" if title is None else literal(title)
        self._server.run(f"COMMENT ON TABLE {self._place(seen.table)} IS {words}")

    def attach(self, layer: Layer, text: str | None) -> None:
        """Leave metadata in XML out: a table has no place for it."""

    def _remember(self, layer: Layer, table: str) -> None:
        if not layer.kart:
            self.set_state(layer.table, "dataset", layer.dataset)
        remember(self._server, self._schema, self._names, layer, table)

    def _insert(self, layer: Layer, table: str, rows: pa.RecordBatch) -> None:
        if not rows.num_rows:
            return
        texts = [
            text_column(field, values, srid_of(layer, field))
            for field, values in zip(layer.schema.fields, rows.columns, strict=True)
        ]
        names = ", ".join(map(quoted, layer.schema.names))
        self._server.copy_in(f"{self._place(table)} ({names})", format_csv(texts))

    def _count_on(self, layer: Layer, table: str) -> None:
        """Have keys that the database makes come after all that are there."""
        column = integer_key(layer.schema)
        if column is not None:
            there = f"SELECT max({quoted(column)})::bigint AS highest FROM {self._place(table)}"
            self._count_from(table, column, there)

    def _count_from(self, table: str, column: str, highest: str) -> None:
        sequence = self._server.one(
            "SELECT pg_get_serial_sequence(%s, %s)", (self._place(table), column)
        )
        if sequence is not None:
            self._server.run(
                f"SELECT setval({literal(sequence)}, m.highest) FROM ({highest}) m, "
                f"{sequence} s WHERE m.highest >= s.last_value AND m.highest > 0"
            )

    def reserve(self, layer: Layer, highest: int) -> None:
        """Have keys that the database makes come after one that is not there."""
        column, seen = integer_key(layer.schema), self.look(layer)
        if column is not None and seen is not None:
            self._count_from(seen.table, column, f"SELECT {highest}::bigint AS highest")

    def adopt(self, seen: Seen, layer: Layer) -> None:
        """Take a table that stands already as that of a dataset, and track it."""
        self._remember(layer, seen.table)
        self.track(layer, seen)

    def track(self, layer: Layer, seen: Seen | None = None) -> None:
        """Give a table the triggers that track its edits, anew where it has some."""
        table = layer.table if seen is None else seen.table
        oid = oid_of(self._server, self._schema, table)
        numbers = {each.name: each.number for each in columns_of(self._server, oid or 0)}
        key: Sequence[str] = layer.schema.key.names
        if not self._names.kart:
            key = [str(numbers[name]) for name in key]
        for statement in track_statements(self._schema, self._names, layer, table, key):
            self._server.run(statement)

    def drop(self, layer: Layer) -> None:
        """Remove a layer, whatever it is called now, and what was tracked of it."""
        seen = self.look(layer)
        self.forget(layer)
        if seen is not None:
            self._server.run(f"DROP TABLE {self._place(seen.table)}")
        self._server.run(f"DELETE FROM {self._state} WHERE table_name = %s", (layer.table,))

    def drop_other(self, table: str) -> None:
        """Remove a table that is no layer."""
        self._server.run(f"DROP TABLE {self._place(table)}")

    @contextmanager
    def suspended(self, layer: Layer, seen: Seen) -> Iterator[None]:
        """Write to a table without tracking it."""
        for word in ("DISABLE", "ENABLE"):
            actions = ", ".join(f"{word} TRIGGER {name}" for name in self._names.triggers)
            self._server.run(f"ALTER TABLE {self._place(seen.table)} {actions}")
            if word == "DISABLE":
                yield

    def put(self, seen: Seen, layer: Layer, rows: pa.RecordBatch) -> None:
        """Write rows in the place of those that have their keys."""
        if not rows.num_rows:
            return
        self.remove(seen, layer, rows.select(list(layer.schema.key.names)))
        self._insert(layer, seen.table, rows)
        self._count_on(layer, seen.table)

    def remove(self, seen: Seen, layer: Layer, keys: pa.RecordBatch) -> None:
        """Remove the rows of some keys."""
        if keys.num_rows:
            matching = self._matching(layer, layer.schema.key.names, "t")
            self._server.run(
                f"DELETE FROM {self._place(seen.table)} t USING {self._given(layer, keys)} "
                f"WHERE {matching}"
            )

    def settle(self, seen: Seen, layer: Layer, rows: pa.RecordBatch | None) -> None:
        """Note that a table, as it stands, is what a layer is; `rows` were edited."""
        self._remember(layer, seen.table)
        self._count_on(layer, seen.table)


# Where a living working copy in PostGIS is: a schema of its own, made, opened, held.
#
# What is not a working copy's own in that schema stays: tables of people, and what they made of
# them. A schema with tables that is no working copy is refused.


_PATIENCE, _PAUSE = 3.0, 0.05
_LOCKS = 0x6861_7661
"""The first half of the numbers of our advisory locks."""
_TABLES = (
    "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = %s AND c.relkind IN ('r', 'p', 'v', 'm', 'f') ORDER BY c.oid"
)


class PostgisHome:
    """The schema that a working copy is, or would be."""

    kind = "postgresql"  # as Kart calls it
    items = frozenset(("title",))

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
