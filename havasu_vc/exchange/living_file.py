"""A living working copy in one GeoPackage, as `living_store` has it; `living_home` opens it.

What the file says is trusted where its triggers are all there; whoever asks compares the
number of rows as well, which are counted where they could have changed past the triggers.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.limits import violation, violation_lines
from havasu_vc.errors import KeyViolationError, UnsupportedTypeError
from havasu_vc.exchange.edit_state import (
    exact_columns,
    read_exact,
    srid_column,
    table_columns,
)
from havasu_vc.exchange.edit_values import exact_values, free_name, restore_exact
from havasu_vc.exchange.living_index import IndexPacking
from havasu_vc.exchange.living_layer import Layer, plan_layer, value_column, wrong_value
from havasu_vc.exchange.living_seen import Seen, look, unchanged
from havasu_vc.exchange.living_tables import (
    EXACT,
    MANY_PAGES,
    FileNames,
    attach_metadata,
    copy_beside,
    create_layer,
    describe_columns,
    describe_layer,
    drop_layer,
    drop_table,
    index_triggers,
    insert_rows,
    srs_id_of,
    tables_of_people,
    tell_system,
    track_triggers,
)
from havasu_vc.exchange.living_track import keys_of_track, track_of_key
from havasu_vc.exchange.living_watch import Watch
from havasu_vc.exchange.ogr_formats import quoted
from havasu_vc.geo import wkb as geometry_bytes
from havasu_vc.model import compute as pc
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.commits import moment_of
from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Encoding, Field, Primitive

__all__ = ["LivingFile"]

_BATCH = 1 << 16
_ASKED = 500


class LivingFile:
    """An open working copy."""

    def __init__(self, path: Path, names: FileNames, database: sqlite3.Connection) -> None:
        self._path = path
        self.names = names
        """Whose tables it has."""
        self._database = database
        self._watch = Watch(database, names.state)

    # What it is of

    @property
    def name(self) -> str:
        """Where it is."""
        return str(self._path)

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

    def state(self, table: str, key: str) -> str | None:
        """Return what it says of itself, with `*`, or of a table; None where it says nothing."""
        query = f"SELECT value FROM {self.names.state} WHERE table_name = ? AND key = ?"
        row = self._database.execute(query, (table, key)).fetchone()
        return None if row is None else str(row[0])

    def set_state(self, table: str, key: str, value: str | None) -> None:
        """Have it say something of itself, with `*`, or of a table; None takes it back."""
        if value is not None:
            put = f"INSERT OR REPLACE INTO {self.names.state} VALUES (?, ?, ?)"
            self._database.execute(put, (table, key, value))
        elif self.state(table, key) is not None:
            take = f"DELETE FROM {self.names.state} WHERE table_name = ? AND key = ?"
            self._database.execute(take, (table, key))

    def date(self, table: str, when: int) -> None:
        """Say in the list of layers when a table was as it is now."""
        moment = moment_of(when)
        self._database.execute(
            "UPDATE gpkg_contents SET last_change = ? WHERE table_name = ?",
            (f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}", table),
        )

    def tables(self) -> dict[str, str]:
        """Return the tables that the file says it has, by dataset; Kart's says of none."""
        query = f"SELECT value, table_name FROM {self.names.state} WHERE key = 'dataset'"
        return {str(path): str(table) for path, table in self._database.execute(query)}

    def table_of(self, path: str) -> str:
        """Return the table that a dataset has or would have: its path, `__` between its parts."""
        wanted = path.replace("/", "__")
        if self.names.kart:
            return wanted
        known = self.tables()
        return known.get(path) or free_name(wanted, list(known.values()))

    def plan(
        self, header: DatasetHeader, columns: Sequence[Mapping[str, Any]], table: str
    ) -> Layer:
        """Return how a dataset stands as a table; `columns` are those of its `schema.json`."""
        return plan_layer(header, columns, table, kart=self.names.kart)

    def commit(self) -> None:
        """Make what was done so far durable, and give the lock back."""
        self._watch.save()
        self._database.execute("COMMIT")

    def source(self, folder: Path) -> str:
        """Return a copy of the file, as it was before anything was changed here."""
        return copy_beside(self._path, folder)

    def has_table(self, name: str) -> bool:
        """Whether there is a table of that name."""
        return bool(table_columns(self._database, name))

    # How a table stands

    def look(self, layer: Layer) -> Seen | None:
        """Return how a layer's table stands; None where it is gone."""
        return look(self._database, self.names, layer)

    def count(self, seen: Seen) -> int:
        """Return how many rows a table has."""
        count = f"SELECT count(*) FROM {quoted(seen.table)}"
        return int(self._database.execute(count).fetchone()[0])

    def has_rows(self, seen: Seen, number: int) -> bool:
        """Whether a table has as many rows as what was tracked says, if it can have others."""
        layer = seen.layer.table
        if self._watch.covers(layer, seen.table):
            return True
        if self.count(seen) != number:
            self._watch.forget(layer)
            return False
        self._watch.trust(layer)
        return True

    def other_tables(self, known: Iterable[str]) -> tuple[str, ...]:
        """Return the tables of people's that none of some is."""
        own = {each.lower() for each in known}
        return tuple(each for each in tables_of_people(self._database) if each.lower() not in own)

    # What was edited

    def has_track(self, layer: Layer) -> bool:
        """Whether any key of a layer was touched."""
        query = f"SELECT 1 FROM {self.names.track} WHERE table_name = ? LIMIT 1"
        return self._database.execute(query, (layer.table,)).fetchone() is not None

    def tracked(self, seen: Seen) -> pa.RecordBatch:
        """Return the keys that were touched, in stored types."""
        query = f"SELECT pk FROM {self.names.track} WHERE table_name = ? AND pk NOTNULL"
        texts = [value for (value,) in self._database.execute(query, (seen.layer.table,))]
        fields = seen.layer.schema.key.fields
        rows = [json.loads(text) for text in texts] if len(fields) > 1 else [(t,) for t in texts]
        columns = list(zip(*rows, strict=True)) or [()] * len(fields)
        return _batch(
            [keys_of_track(field, values) for field, values in zip(fields, columns, strict=True)],
            seen.layer.schema.select(seen.layer.schema.key.names),
        )

    def forget(self, layer: Layer, keys: pa.RecordBatch | None = None) -> None:
        """Forget that keys were touched, or that any were."""
        if keys is None:
            query = f"DELETE FROM {self.names.track} WHERE table_name = ?"
            self._database.execute(query, (layer.table,))
            return
        self._database.executemany(
            f"DELETE FROM {self.names.track} WHERE table_name = ? AND pk = ?",
            ((layer.table, track_of_key(key)) for key in self._sql_keys(layer, keys)),
        )

    def note(self, layer: Layer, keys: pa.RecordBatch) -> None:
        """Note that keys were touched, as triggers do."""
        self._database.executemany(
            f"INSERT OR REPLACE INTO {self.names.track} VALUES (?, ?)",
            ((layer.table, track_of_key(key)) for key in self._sql_keys(layer, keys)),
        )

    def keys(self, seen: Seen) -> pa.RecordBatch:
        """Return all keys of a table, in stored types; raises for one that comes twice."""
        schema = seen.layer.schema.select(seen.layer.schema.key.names)
        names = ", ".join(map(quoted, seen.key))
        found = [
            _batch(
                [
                    value_column(field, values, main=False)
                    for field, values in zip(schema.fields, zip(*rows, strict=True), strict=True)
                ],
                schema,
            )
            for rows in _many(self._database.execute(f"SELECT {names} FROM {quoted(seen.table)}"))
        ]
        table = pa.Table.from_batches(found, arrow_schema(schema))
        if any(column.null_count for column in table.columns):
            raise KeyViolationError(f"{seen.table} has a row without a key")
        if table.group_by(list(schema.names)).aggregate([]).num_rows != table.num_rows:
            raise KeyViolationError(f"a key of {seen.table} comes twice")
        return table.combine_chunks().to_batches()[0] if table.num_rows else _empty(schema)

    def rows(self, seen: Seen, schema: Schema, keys: pa.RecordBatch | None) -> pa.RecordBatch:
        """Return the rows of some keys that are there, in `schema`; with None, all rows."""
        fid = quoted(seen.fid) if seen.fid else "rowid"
        names = ", ".join([fid, *map(quoted, schema.names)])
        select = f"SELECT {names} FROM {quoted(seen.table)}"
        found: list[tuple[Any, ...]] = []
        if keys is None:
            found = self._database.execute(select).fetchall()
        else:
            key, wanted = seen.key, self._sql_keys(seen.layer, keys)
            where = quoted(key[0]) if len(key) == 1 else f"({', '.join(map(quoted, key))})"
            one = "?" if len(key) == 1 else f"({', '.join('?' * len(key))})"
            for start in range(0, len(wanted), _ASKED):
                part = wanted[start : start + _ASKED]
                marks = ", ".join([one] * len(part))
                given = f"({marks})" if len(key) == 1 else f"(VALUES {marks})"
                values = [value for each in part for value in each]
                found += self._database.execute(f"{select} WHERE {where} IN {given}", values)
        columns = list(zip(*found, strict=True)) or [()] * (len(schema.fields) + 1)
        fids = pa.array(columns[0], pa.int64())
        main = seen.layer.geometry
        main_id = None if main is None else main.id
        arrays = [
            self._column(seen, field, values, main=field.id == main_id)
            for field, values in zip(schema.fields, columns[1:], strict=True)
        ]
        return _batch(self._restored(seen, schema, arrays, fids), schema)

    def _column(self, seen: Seen, field: Field, values: Sequence[Any], *, main: bool) -> pa.Array:
        """Return values of a column; where one is none of it, Kart's words are told as well."""
        try:
            return value_column(field, values, main=main)
        except UnsupportedTypeError as error:
            items = seen.layer.header.meta.get("schema.json", ()) if self.names.kart else ()
            item = next((each for each in items if each["name"] == field.name), None)
            if item is not None:
                said = violation(item, wrong_value(field, values, main=main))
                error.said = violation_lines(seen.layer.dataset, [said])
            raise

    def _restored(
        self, seen: Seen, schema: Schema, arrays: list[pa.Array], fids: pa.Array
    ) -> list[pa.Array]:
        """Return columns with exact values where cells read as these would."""
        if self.names.kart or not len(fids):
            return arrays
        table, there = seen.layer.table, exact_columns(self._database, seen.layer.table)
        if not there:
            return arrays
        before = {now: then for then, now in seen.columns.items()}
        numbers = np.asarray(fids)
        span = int(numbers.min()), int(numbers.max())
        for place, field in enumerate(schema.fields):
            name = before.get(field.name)
            if name in there:
                exact = read_exact(self._database, table, name, *span)
                arrays[place] = restore_exact(field, arrays[place], fids, exact)
            elif name is not None and srid_column(name) in there:
                exact = read_exact(self._database, table, srid_column(name), *span)
                arrays[place] = _with_srids(field, arrays[place], numbers, exact)
        return arrays

    def _sql_keys(self, layer: Layer, keys: pa.RecordBatch) -> list[tuple[Any, ...]]:
        only = replace(layer, schema=layer.schema.select(layer.schema.key.names))
        return list(zip(*only.encode(keys).columns, strict=True))

    # Changing it

    def make(self, layer: Layer, batches: Iterable[pa.RecordBatch]) -> int:
        """Make a layer with all of its rows; return how many there are."""
        create_layer(self._database, layer)
        geometry, count = layer.geometry, 0
        index = None
        if geometry is not None:
            index = IndexPacking(self._database, layer.table, geometry.name)
        for batch in batches:
            if not batch.num_rows:
                continue
            own = range(count + 1, count + batch.num_rows + 1)
            numbers, bounds = self._insert(layer, batch, list(own) if layer.has_own_fid else None)
            if (layer.has_own_fid and layer.schema.key) or (np.diff(numbers) < 0).any():
                self._database.execute(MANY_PAGES)
            count += batch.num_rows
            if index is not None and bounds is not None:
                index.add(numbers, bounds)
                self._widen(layer, bounds)
        if geometry is not None and index is not None:
            index.finish()
            for statement in index_triggers(layer.table, geometry.name, layer.fid):
                self._database.execute(statement)
        self.track(layer)
        self._remember_dataset(layer)
        self._watch.trust(layer.table)
        return count

    def _remember_dataset(self, layer: Layer) -> None:
        if not layer.kart:
            self._database.execute(
                f"INSERT OR REPLACE INTO {self.names.state} VALUES (?, 'dataset', ?)",
                (layer.table, layer.dataset),
            )

    def adopt(self, seen: Seen, layer: Layer) -> None:
        """Take a table that stands already as that of a dataset, and track it."""
        self.track(layer, seen)
        self._remember_dataset(layer)
        tell_system(self._database, layer)
        self.settle(seen, layer, None)

    def describe(self, seen: Seen, layer: Layer) -> None:
        """Have a table say of itself what its dataset does: title, description, metadata."""
        describe_layer(self._database, seen.layer, layer, seen.table)

    def attach(self, layer: Layer, text: str | None) -> None:
        """Have a table carry the metadata in XML that stands beside its dataset, or none."""
        seen = self.look(layer)
        if seen is not None:
            attach_metadata(self._database, seen.table, text)

    def track(self, layer: Layer, seen: Seen | None = None) -> None:
        """Give a table the triggers that track its edits, anew where it has some."""
        table = layer.table if seen is None else seen.table
        for name, statement in track_triggers(
            layer, table, layer.schema.key.names, self.names
        ).items():
            self._database.execute(f"DROP TRIGGER IF EXISTS {quoted(name)}")
            self._database.execute(statement)

    def drop(self, layer: Layer) -> None:
        """Remove a layer, whatever it is called now, and what was tracked of it."""
        seen = self.look(layer)
        drop_layer(self._database, layer, layer.table if seen is None else seen.table)
        self.forget(layer)
        self._watch.forget(layer.table)
        self._database.execute(
            f"DELETE FROM {self.names.state} WHERE table_name = ? AND key = 'dataset'",
            (layer.table,),
        )

    def drop_other(self, table: str) -> None:
        """Remove a table that is no layer."""
        drop_table(self._database, table)

    @contextmanager
    def suspended(self, layer: Layer, seen: Seen) -> Iterator[None]:
        """Write to a table without tracking it."""
        for each in ("ins", "upd", "del"):
            name = quoted(f"{self.names.trigger}_{layer.table}_{each}")
            self._database.execute(f"DROP TRIGGER IF EXISTS {name}")
        yield
        self.track(layer, seen)

    def put(self, seen: Seen, layer: Layer, rows: pa.RecordBatch) -> None:
        """Write rows in the place of those that have their keys, whose feature ids they keep."""
        if not rows.num_rows:
            return
        self._database.execute(MANY_PAGES)
        keys = rows.select(list(layer.schema.key.names))
        known = self._fids(seen, layer, keys)
        there = np.array([key in known for key in self._sql_keys(layer, keys)])
        if there.any():
            self._update(layer, pc.filter(rows, pa.array(there)), known, seen.table)
        if not there.all():
            added = pc.filter(rows, pa.array(~there))
            fids = [None] * added.num_rows if layer.has_own_fid else None
            _, bounds = self._insert(layer, added, fids, table=seen.table)
            self._widen(layer, bounds, seen.table)

    def _update(
        self,
        layer: Layer,
        batch: pa.RecordBatch,
        known: Mapping[tuple[Any, ...], int],
        table: str,
    ) -> None:
        """Give rows that are there other values; geometries that differ, to spare the R-tree."""
        rows = layer.encode(batch, srs_id_of(self._database, table))
        key_names = layer.schema.key.names
        columns = dict(zip(layer.schema.names, rows.columns, strict=True))
        keys = [columns[name] for name in key_names]
        fids = [known[key] for key in zip(*keys, strict=True)]
        main = layer.geometry
        where = " AND ".join(f"{quoted(name)} = ?" for name in key_names)
        shape = None if main is None else main.name
        others = [name for name in columns if name not in key_names and name != shape]
        if others:
            values = ", ".join(f"{quoted(name)} = ?" for name in others)
            self._database.executemany(
                f"UPDATE {quoted(table)} SET {values} WHERE {where}",
                zip(*(columns[name] for name in others), *keys, strict=True),
            )
        if shape is not None:
            name, shapes = quoted(shape), columns[shape]
            self._database.executemany(
                f"UPDATE {quoted(table)} SET {name} = ? WHERE {where} AND {name} IS NOT ?",
                zip(shapes, *keys, shapes, strict=True),
            )
        if not layer.kart:
            if exact_columns(self._database, layer.table):
                self._forget_exact(layer, fids)
            self._remember_exact(layer, batch, fids, table)
        self._widen(layer, rows.bounds, table)

    def reserve(self, layer: Layer, highest: int) -> None:
        """Have feature ids that an editor is given come after one that is not there."""
        seen = self.look(layer)
        if seen is None or layer.has_own_fid or highest < 1:
            return
        values = (highest, seen.table)
        self._database.execute(
            "INSERT INTO sqlite_sequence (seq, name) SELECT ?1, ?2 WHERE NOT EXISTS "
            "(SELECT 1 FROM sqlite_sequence WHERE name = ?2)",
            values,
        )
        self._database.execute(
            "UPDATE sqlite_sequence SET seq = max(seq, ?1) WHERE name = ?2", values
        )

    def remove(self, seen: Seen, layer: Layer, keys: pa.RecordBatch) -> None:
        """Remove the rows of some keys."""
        self._database.execute(MANY_PAGES)
        wanted = self._sql_keys(layer, keys)
        where = " AND ".join(f"{quoted(name)} = ?" for name in layer.schema.key.names)
        if not self.names.kart and exact_columns(self._database, layer.table):
            self._forget_exact(layer, self._fids(seen, layer, keys).values())
        self._database.executemany(f"DELETE FROM {quoted(seen.table)} WHERE {where}", wanted)

    def _forget_exact(self, layer: Layer, fids: Iterable[int]) -> None:
        """Forget what the table does not hold of rows that go, or get other values."""
        self._database.executemany(
            f"DELETE FROM {EXACT} WHERE fid = ? AND table_name = ?",
            ((fid, layer.table) for fid in fids),
        )

    def settle(self, seen: Seen, layer: Layer, rows: pa.RecordBatch | None) -> None:
        """Note that a table, as it stands, is what a layer is; `rows` were edited."""
        if self.names.kart:
            return
        describe_columns(self._database, layer, seen.table)
        if rows is None or not exact_columns(self._database, seen.layer.table):
            return
        there = f"SELECT rowid FROM {quoted(seen.table)}"
        gone = f"DELETE FROM {EXACT} WHERE table_name = ? AND fid NOT IN ({there})"
        self._database.execute(gone, (layer.table,))

    def _fids(self, seen: Seen, layer: Layer, keys: pa.RecordBatch) -> dict[tuple[Any, ...], int]:
        names = layer.schema.key.names
        where = " AND ".join(f"{quoted(name)} = ?" for name in names)
        select = f"SELECT {quoted(layer.fid)} FROM {quoted(seen.table)} WHERE {where}"
        found = {}
        for key in self._sql_keys(layer, keys):
            row = self._database.execute(select, key).fetchone()
            if row is not None:
                found[key] = int(row[0])
        return found

    def _insert(
        self,
        layer: Layer,
        batch: pa.RecordBatch,
        fids: Sequence[int | None] | None,
        *,
        table: str | None = None,
    ) -> tuple[Sequence[Any], np.ndarray | None]:
        """Insert rows; return their feature ids, where they are known, and bounds."""
        rows = layer.encode(batch, srs_id_of(self._database, table or layer.table))
        columns = list(rows.columns)
        names = list(layer.schema.names)
        if fids is not None:
            columns, names = [list(fids), *columns], [layer.fid, *names]
        numbers = columns[0] if fids is not None else columns[names.index(layer.fid)]
        insert_rows(self._database, table or layer.table, columns, names)
        if not layer.kart:
            known = all(number is not None for number in numbers)
            self._remember_exact(layer, batch, numbers if known else None, table or layer.table)
        return numbers, rows.bounds

    def _remember_exact(
        self, layer: Layer, batch: pa.RecordBatch, fids: Sequence[int] | None, table: str
    ) -> None:
        """Remember what the table does not hold of rows that were written."""
        for field, values in zip(layer.schema.fields, batch.columns, strict=True):
            if field.geometry is not None:
                name, (rows, texts) = srid_column(field.name), _srids(field, values)
            elif field.type in (Primitive.FLOAT, Primitive.DOUBLE):
                name, (rows, texts) = field.name, exact_values(field, values)
            else:
                continue
            if not len(rows):
                continue
            numbers = fids
            if numbers is None:
                keys = batch.select(list(layer.schema.key.names))
                known = self._fids(unchanged(layer, table), layer, keys)
                numbers = [known[key] for key in self._sql_keys(layer, keys)]
            self._database.executemany(
                f"INSERT OR REPLACE INTO {EXACT} VALUES (?, ?, ?, ?)",
                (
                    (layer.table, name, numbers[row], text)
                    for row, text in zip(rows.to_pylist(), texts.to_pylist(), strict=True)
                ),
            )

    def _widen(self, layer: Layer, bounds: np.ndarray | None, table: str | None = None) -> None:
        """Have the extent of a layer hold some bounds, and say that it changed."""
        if bounds is None:
            return
        there = bounds[~np.isnan(bounds).any(axis=1)]
        if not len(there):
            return
        low, high = there[:, :2].min(axis=0).tolist(), there[:, 2:].max(axis=0).tolist()
        self._database.execute(
            "UPDATE gpkg_contents SET min_x = min(ifnull(min_x, ?1), ?1), min_y = "
            "min(ifnull(min_y, ?2), ?2), max_x = max(ifnull(max_x, ?3), ?3), max_y = "
            "max(ifnull(max_y, ?4), ?4), last_change = strftime('%Y-%m-%dT%H:%M:%fZ','now') "
            "WHERE table_name = ?5",
            (*low, *high, table or layer.table),
        )


def _batch(columns: Sequence[pa.Array], schema: Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns), schema=arrow_schema(schema))


def _empty(schema: Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=arrow_schema(schema))


def _many(rows: sqlite3.Cursor) -> Iterator[list[tuple[Any, ...]]]:
    while found := rows.fetchmany(_BATCH):
        yield found


def _srids(field: Field, values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the rows whose geometry has an SRID of its own, and these as text."""
    encoding = Encoding.EWKB if field.geometry is None else field.geometry.encoding
    _, srids = geometry_bytes.to_canonical(values, encoding)
    if srids is None:
        return pa.array([], pa.int64()), pa.array([], pa.string())
    rows = np.flatnonzero(srids)
    return pa.array(rows), pc.cast(pa.array(srids[rows]), pa.string())


def _with_srids(
    field: Field, values: pa.Array, fids: np.ndarray, exact: Mapping[int, str]
) -> pa.Array:
    """Return geometries with the SRIDs that they have of their own."""
    encoding = Encoding.EWKB if field.geometry is None else field.geometry.encoding
    wkb, _ = geometry_bytes.to_canonical(values, encoding)
    own = np.array([int(exact.get(int(fid), 0)) for fid in fids], np.int32)
    return geometry_bytes.from_canonical(wkb, own, encoding)
