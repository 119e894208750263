"""How a table in PostGIS stands now, beside the dataset that it was made of.

The database tells tables apart by oid and columns by attnum, which stay through every rename and
are never used again. Both are remembered with the names that they had; where they say nothing, as
after a dump or where Kart made the table, names tell.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from havasu_vc.errors import InvalidFileError
from havasu_vc.exchange.living_layer import Layer
from havasu_vc.exchange.living_seen import DISABLED, NO_TRIGGERS, Seen
from havasu_vc.exchange.ogr_formats import quoted
from havasu_vc.exchange.postgis_server import Server
from havasu_vc.exchange.postgis_tables import SchemaNames, srid_of
from havasu_vc.model.evolution import widens
from havasu_vc.model.types import Decimal, Encoding, Field, Geometry, Primitive, Type
from havasu_vc.records import dataclass

__all__ = ["Column", "columns_of", "field_of", "look", "oid_of", "remember"]

COLUMNS, OID = "havasu-columns", "havasu-oid"
_PRIMITIVES: Mapping[str, Primitive] = {
    "bool": Primitive.BOOLEAN, "int2": Primitive.INT, "int4": Primitive.INT,
    "int8": Primitive.LONG, "float4": Primitive.FLOAT, "float8": Primitive.DOUBLE,
    "date": Primitive.DATE, "time": Primitive.TIME, "timestamp": Primitive.TIMESTAMP,
    "timestamptz": Primitive.TIMESTAMPTZ, "uuid": Primitive.UUID, "bytea": Primitive.BINARY,
    "geometry": Primitive.BINARY,
}  # fmt: skip
_NUMERIC = re.compile(r"numeric\((\d+),(\d+)\)")
_SHAPE = re.compile(r"geometry\(([A-Za-z]+?)(ZM|Z|M)?(?:,(\d+))?\)")


@dataclass(frozen=True, slots=True)
class Column:
    """A column as the database has it."""

    number: int
    """Its attnum."""
    name: str
    """Its name."""
    type: str
    """Its type with its length, as the database writes it."""
    base: str
    """The name of its type."""


def oid_of(server: Server, schema: str, table: str) -> int | None:
    """Return the oid of a table; None where there is none."""
    found = server.one(
        "SELECT c.oid::int8 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p')",
        (schema, table),
    )
    return None if found is None else int(found)


def columns_of(server: Server, oid: int, *, below: bool = False) -> list[Column]:
    """Return the columns of a table, in order; `below` sees domains as what they are made of."""
    rows = server.rows(
        "SELECT a.attnum, a.attname, format_type(u.type, u.length), t.typname FROM pg_attribute a "
        "CROSS JOIN LATERAL (WITH RECURSIVE b(type, length, depth) AS (SELECT a.atttypid, "
        "a.atttypmod, 0 UNION ALL SELECT d.typbasetype, d.typtypmod, b.depth + 1 FROM b "
        "JOIN pg_type d ON d.oid = b.type WHERE d.typtype = 'd' AND %s) "
        "SELECT type, length FROM b ORDER BY depth DESC LIMIT 1) u "
        "JOIN pg_type t ON t.oid = u.type "
        "WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
        (below, oid),
    )
    return [Column(*row) for row in rows]


def field_of(column: Column) -> Field:
    """Return the column of a dataset that a column would be; its id says nothing."""
    type_: Type = _PRIMITIVES.get(column.base, Primitive.STRING)
    if (digits := _NUMERIC.fullmatch(column.type)) and int(digits[1]) <= 38:
        precision, scale = map(int, digits.groups())
        type_ = Decimal(precision, scale) if scale <= precision else type_
    if column.base != "geometry":
        return Field(1, column.name, type_)
    return Field(1, column.name, type_, geometry=Geometry(Encoding.EWKB, None, _shape(column)[0]))


def _shape(column: Column) -> tuple[str | None, int]:
    """Return the shape and the system that a column of geometries announces."""
    found = _SHAPE.fullmatch(column.type)
    if found is None:
        return None, 0
    return f"{found[1].upper()} {found[2] or ''}".strip(), int(found[3] or 0)


def remember(server: Server, schema: str, names: SchemaNames, layer: Layer, table: str) -> None:
    """Note which table and which columns are whose."""
    oid = oid_of(server, schema, table)
    if oid is None:
        return
    numbers = {each.number: each.name for each in columns_of(server, oid)}
    for key, value in ((OID, str(oid)), (COLUMNS, json.dumps(numbers))):
        server.run(
            f"INSERT INTO {quoted(schema)}.{names.state} VALUES (%s, %s, %s) "
            "ON CONFLICT (table_name, key) DO UPDATE SET value = excluded.value",
            (layer.table, key, value),
        )


def look(server: Server, schema: str, names: SchemaNames, layer: Layer) -> Seen | None:
    """Return how a layer's table stands; None where it is gone."""
    state = dict(
        server.rows(
            f"SELECT key, value FROM {quoted(schema)}.{names.state} WHERE table_name = %s",
            (layer.table,),
        )
    )
    known = state.get(OID, "")
    rows = server.rows(
        "SELECT c.oid::int8, c.relname, c.oid::text = %s, obj_description(c.oid, 'pg_class'), "
        "ARRAY(SELECT tgname::text FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT "
        "t.tgisinternal), "
        "ARRAY(SELECT tgname::text FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT "
        "t.tgisinternal AND t.tgenabled IN ('O', 'A')) "
        "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND "
        "c.relkind IN ('r', 'p') AND (c.oid::text = %s OR c.relname = %s) ORDER BY 3 DESC",
        (known, schema, known, layer.table),
    )
    for oid, table, is_known, comment, there, enabled in rows:
        # After a dump another table may have the oid.
        if is_known and table != layer.table and not names.needed & set(there):
            continue
        distrusted = None
        if not names.needed <= set(there):
            distrusted = NO_TRIGGERS
        elif not names.needed <= set(enabled):
            distrusted = DISABLED
        numbers = {}
        if is_known:
            numbers = {int(key): str(value) for key, value in _mapping(state).items()}
        columns = columns_of(server, oid)
        seen = _seen(layer, table, columns, numbers, distrusted)
        # Of what describes a dataset a table has the title, as its comment.
        title = (comment or "").strip() or None
        told = distrusted is not None or title == layer.said("title")
        return seen if told else replace(seen, said={"title": title})
    return None


def _mapping(state: Mapping[str, str]) -> dict[str, str]:
    try:
        found = json.loads(state.get(COLUMNS, "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _seen(
    layer: Layer,
    table: str,
    now: Sequence[Column],
    numbers: Mapping[int, str],
    distrusted: str | None,
) -> Seen:
    schema = layer.schema
    found: dict[str, Column] = {}
    own = [] if schema.key else [layer.fid]
    wanted = [*own, *schema.names]
    for column in now:
        name = numbers.get(column.number)
        if name in wanted:
            found.setdefault(str(name), column)
    by_name = {column.name: column for column in now}
    for name in wanted:
        if name not in found and name in by_name and by_name[name] not in found.values():
            # A number that was remembered under the name of another column is that. Under one that
            # no column has it is of another version: Kart renames columns where they stand.
            if numbers.get(by_name[name].number) not in wanted:
                found[name] = by_name[name]
    if not numbers:
        _by_place(layer, wanted, now, found)
    retyped: dict[str, Field] = {}
    for name in schema.names:
        if name not in found:
            continue
        field = _retyped(layer, schema.by_name[name], found[name])
        if field is None:
            continue
        if widens(schema.by_name[name].type, field.type) and field.geometry is None:
            retyped[name] = field
        else:
            del found[name]  # a column of another kind is another column
    taken = {column.number for column in found.values()}
    added = tuple(field_of(column) for column in now if column.number not in taken)
    fid = found.get(layer.fid)
    columns = {name: column.name for name, column in found.items() if name in schema.by_name}
    types = {column.name: column.type for column in now}
    new = (*(field.name for field in added), *(columns[name] for name in retyped))
    return Seen(
        layer,
        table,
        columns,
        added,
        distrusted,
        "" if fid is None else fid.name,
        retyped,
        {name: types[name] for name in new},
    )


def _by_place(
    layer: Layer, wanted: Sequence[str], now: Sequence[Column], found: dict[str, Column]
) -> None:
    """Match columns of a table that nobody remembered by their place and type, as Kart does."""
    for place, name in enumerate(wanted):
        if name in found or place >= len(now) or now[place] in found.values():
            continue
        if now[place].type.lower() == layer.declared.get(name, "bigint").lower():
            found[name] = now[place]


def _retyped(layer: Layer, field: Field, column: Column) -> Field | None:
    """Return a column with the type that it has now; None where that is the same."""
    declared = layer.declared[field.name]
    if column.type.lower() == declared.lower():
        return None
    now = field_of(column)
    if (field.geometry is None) != (now.geometry is None):
        return now
    if field.geometry is None:
        return None if now.type == field.type else replace(field, type=now.type)
    srid, then = _shape(column)[1], srid_of(layer, field)
    if srid != then and srid:
        raise InvalidFileError(
            layer.table,
            f"its geometries are in the system {srid} now, and were in {then or 'none'}",
            hints=(
                f"`havasu-vc restore {shlex.quote(layer.dataset)}` makes the table anew; then "
                "`havasu-vc import --replace` or `meta set` gives the dataset another system",
            ),
        )
    return None
