"""The SQL of a working copy in PostGIS: what a schema begins with, and the table of a dataset.

    _havasu_vc_state           `(table_name, key, value)`; of `*` the key `tree` is the root tree of
                               the commit whose rows the schema has
    _havasu_vc_track           `(table_name, pk)`: one row for each key that was touched since
    _havasu_vc_track_proc()    the function that writes there, with the rights of its owner
    _havasu_vc_track_ins ...   triggers of each table that call it: `_upd`, `_del`, `_truncate`

In Kart's repositories these are Kart's: `_kart_state`, `_kart_track`, `_kart_track_proc()` and a
trigger `_kart_track_trigger` for each row; that of TRUNCATE, which Kart lacks, stands beside it.
Ours see a statement's rows as a whole, and know a table by a constant and its key by the numbers
of its columns, so both may be renamed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from havasu_vc.errors import SchemaViolationError, StateError
from havasu_vc.exchange.edit_values import free_name, integer_key, refuse_equal_names
from havasu_vc.exchange.export_columns import is_nested
from havasu_vc.exchange.living_layer import Layer
from havasu_vc.exchange.ogr_formats import quoted
from havasu_vc.exchange.postgis_server import Server, literal
from havasu_vc.geo.crs import Crs, parse_crs
from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.model.types import Field, Primitive
from havasu_vc.records import dataclass

__all__ = [
    "KART",
    "MOST_BYTES",
    "OURS",
    "SchemaNames",
    "base_type",
    "begin_schema",
    "column_list",
    "ensure_system",
    "plan_table",
    "short_name",
    "srid_of",
    "track_statements",
]

MOST_BYTES = 63
"""No name in PostgreSQL is longer."""
_WHOLE = {8: "smallint", 16: "smallint", 32: "integer", 64: "bigint"}
_TYPES = {
    "boolean": "boolean", "date": "date", "interval": "interval", "blob": "bytea",
    "time": "time without time zone",
}  # fmt: skip
_MOMENTS = {False: "timestamp without time zone", True: "timestamp with time zone"}
_EVENTS = {"ins": "INSERT", "upd": "UPDATE", "del": "DELETE"}
_ROWS = {
    "ins": "REFERENCING NEW TABLE AS new_rows",
    "upd": "REFERENCING NEW TABLE AS new_rows OLD TABLE AS old_rows",
    "del": "REFERENCING OLD TABLE AS old_rows",
}
_EPSG = re.compile(r"EPSG:(\d{1,6})")


@dataclass(frozen=True, slots=True)
class SchemaNames:
    """The names of what a schema keeps of itself."""

    prefix: str
    """The beginning of all their names."""
    kart: bool
    """Whether they are Kart's."""

    @property
    def state(self) -> str:
        """The table of what the schema is of."""
        return f"{self.prefix}_state"

    @property
    def track(self) -> str:
        """The table of keys that were touched."""
        return f"{self.prefix}_track"

    @property
    def function(self) -> str:
        """The function that triggers call."""
        return f"{self.prefix}_track_proc"

    @property
    def truncate(self) -> str:
        """The trigger of TRUNCATE."""
        return f"{self.prefix}_track_truncate"

    @property
    def triggers(self) -> tuple[str, ...]:
        """The triggers of rows."""
        if self.kart:
            return (f"{self.prefix}_track_trigger",)
        return tuple(f"{self.prefix}_track_{each}" for each in _EVENTS)

    @property
    def needed(self) -> frozenset[str]:
        """The triggers that a table must have: TRUNCATE's is none of Kart's."""
        return frozenset(self.triggers if self.kart else (*self.triggers, self.truncate))


OURS = SchemaNames("_havasu_vc", kart=False)
KART = SchemaNames("_kart", kart=True)

_KEY = """
    SELECT string_agg(format('r.%I::text', a.attname), ', ' ORDER BY k.place), count(a.attname)
      INTO key, found
      FROM unnest({given}) WITH ORDINALITY AS k(column_is, place)
      LEFT JOIN pg_attribute a ON a.attrelid = TG_RELID AND {which} AND NOT a.attisdropped;
    IF found < wanted THEN
        RETURN NULL;
    ELSIF wanted = 0 THEN
        key := quote_literal('');
    ELSIF wanted > 1 THEN
        key := 'json_build_array(' || key || ')::text';
    END IF;
"""
_NOTE = (
    "EXECUTE format('INSERT INTO {track} SELECT $1, %s FROM {rows} r ON CONFLICT DO NOTHING', "
    "key{more}) USING {table};"
)
_FUNCTION = """
CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET TimeZone = 'UTC'
SET IntervalStyle = 'iso_8601' SET bytea_output = 'hex' SET extra_float_digits = 3
AS $function$
DECLARE
    key text;
    found int;
    wanted int := {wanted};
BEGIN
{key}
    IF TG_OP = 'TRUNCATE' THEN
        {all}
{body}
    END IF;
    RETURN NULL;
END;
$function$
"""
_OF_ROWS = """
    ELSE
        IF TG_OP <> 'DELETE' THEN
            {new}
        END IF;
        IF TG_OP <> 'INSERT' THEN
            {old}
        END IF;
"""


def begin_schema(server: Server, schema: str, names: SchemaNames) -> None:
    """Make what a schema keeps of itself, where it does not stand yet."""
    space = quoted(schema)
    server.run(
        f"CREATE TABLE IF NOT EXISTS {space}.{names.state} (table_name text NOT NULL, "
        "key text NOT NULL, value text NOT NULL, PRIMARY KEY (table_name, key))"
    )
    server.run(
        f"CREATE TABLE IF NOT EXISTS {space}.{names.track} (table_name text NOT NULL, "
        "pk text, PRIMARY KEY (table_name, pk))"
    )
    server.run(_function(schema, names))


def _function(schema: str, names: SchemaNames) -> str:
    # A name stands in text that `format` reads, in a text.
    track = f"{quoted(schema)}.{names.track}".replace("%", "%%").replace("'", "''")
    table = "TG_TABLE_NAME::text" if names.kart else "TG_ARGV[0]"
    given = "TG_ARGV" if names.kart else "TG_ARGV[1:TG_NARGS]"
    which = "a.attname = k.column_is" if names.kart else "a.attnum = k.column_is::int2"

    def note(rows: str, more: str = "") -> str:
        return _NOTE.format(track=track, rows=rows, table=f"{table}{more}", more="")

    every = _NOTE.format(track=track, rows="%s", table=table, more=", TG_RELID::regclass")
    if names.kart:
        new, old = (note("(SELECT ($2).*)", f", {side}") for side in ("NEW", "OLD"))
    else:
        new, old = note("new_rows"), note("old_rows")
    return _FUNCTION.format(
        function=f"{quoted(schema)}.{names.function}",
        wanted="TG_NARGS" if names.kart else "TG_NARGS - 1",
        key=_KEY.format(given=given, which=which),
        all=every,
        body=_OF_ROWS.format(new=new, old=old),
    )


def track_statements(
    schema: str, names: SchemaNames, layer: Layer, table: str, key: Sequence[str]
) -> Iterator[str]:
    """Yield the statements that make the triggers of a table, anew where it has some.

    `key` names its columns: in Kart's as they are called, in ours by their numbers.
    """
    place = f"{quoted(schema)}.{quoted(table)}"
    for name in (*names.triggers, names.truncate):
        yield f"DROP TRIGGER IF EXISTS {name} ON {place}"
    said = key if names.kart else (layer.table, *key)
    calls = f"EXECUTE FUNCTION {quoted(schema)}.{names.function}({', '.join(map(literal, said))})"
    if names.kart:
        yield (
            f"CREATE TRIGGER {names.triggers[0]} AFTER INSERT OR UPDATE OR DELETE ON {place} "
            f"FOR EACH ROW {calls}"
        )
    else:
        for name, event in zip(names.triggers, _EVENTS, strict=True):
            yield (
                f"CREATE TRIGGER {name} AFTER {_EVENTS[event]} ON {place} {_ROWS[event]} "
                f"FOR EACH STATEMENT {calls}"
            )
    yield (f"CREATE TRIGGER {names.truncate} BEFORE TRUNCATE ON {place} FOR EACH STATEMENT {calls}")


# The table of a dataset


def plan_table(
    header: DatasetHeader, columns: Sequence[Mapping[str, Any]], table: str, *, kart: bool
) -> Layer:
    """Return how a dataset stands as a table; `columns` are those of its `schema.json`."""
    schema = header.schema
    refuse_equal_names(schema)
    for name in schema.names:
        if len(name.encode()) > MOST_BYTES:
            raise SchemaViolationError(
                f"{header.path}: the column name {name!r} is longer than PostgreSQL takes",
                hints=("rename the column in the dataset",),
            )
    own = free_name("fid", schema.names)
    key = integer_key(schema) or next(iter(schema.key.names), own)
    layer = Layer(table, header.path, schema, {}, key, header, kart)
    declared = {
        field.name: _declared(layer, field, column)
        for field, column in zip(schema.fields, columns, strict=True)
    }
    return Layer(table, header.path, schema, declared, key, header, kart)


def _declared(layer: Layer, field: Field, column: Mapping[str, Any]) -> str:
    """Return the type of a column, as PostgreSQL itself writes it."""
    kind, length = column["dataType"], column.get("length")
    if kind == "geometry":
        shape = str(column.get("geometryType") or "").replace(" ", "").lower()
        srid = srid_of(layer, field)
        return f"geometry({shape}{f',{srid}' if srid else ''})" if shape else "geometry"
    if is_nested(field):
        return "json"
    if field.type is Primitive.UUID:
        return "uuid"
    if kind == "integer":
        return _WHOLE[int(column.get("size") or 64)]
    if kind == "float":
        return "real" if column.get("size") == 32 else "double precision"
    if kind == "timestamp":
        return _MOMENTS[field.type is Primitive.TIMESTAMPTZ]
    if kind == "numeric":
        digits = [column[each] for each in ("precision", "scale") if column.get(each) is not None]
        if len(digits) == 1 and column.get("precision") is not None:
            digits = [*digits, 0]
        return f"numeric({','.join(map(str, digits))})" if len(digits) == 2 else "numeric"
    if kind == "text" and isinstance(length, int) and 0 < length <= 10_485_760:
        return f"character varying({length})"
    return _TYPES.get(kind, "text")


def base_type(declared: str) -> str:
    """Return a type without its length, so that a value is not cut to it.

    >>> base_type("numeric(10,2)"), base_type("timestamp with time zone")
    ('numeric', 'timestamp with time zone')
    """
    return re.sub(r"\(.*\)$", "", declared)


def column_list(layer: Layer) -> Iterator[str]:
    """Yield the columns of a table."""
    counted = "GENERATED BY DEFAULT AS IDENTITY"
    if not layer.schema.key:
        yield f"{quoted(layer.fid)} bigint {counted}"
    for field in layer.schema.fields:
        column = f"{quoted(field.name)} {layer.declared[field.name]}"
        if integer_key(layer.schema) == field.name:
            column += f" {counted}"
        elif field.required or field.name in layer.schema.key.names:
            column += " NOT NULL"
        yield column


def short_name(name: str) -> str:
    """Return a name that PostgreSQL does not cut: cut, with a hash in the place of the rest."""
    if len(name.encode()) <= MOST_BYTES:
        return name
    tail = "_" + hashlib.sha256(name.encode()).hexdigest()[:12]
    return name.encode()[: MOST_BYTES - len(tail)].decode(errors="ignore") + tail


# Reference systems


def srid_of(layer: Layer, field: Field) -> int:
    """Return the number of the system of a column; 0 for none."""
    if field.geometry is None or field.geometry.crs is None:
        return 0
    known = _EPSG.fullmatch(field.geometry.crs)
    return int(known[1]) if known else _system(layer, field.geometry.crs).srid


def _system(layer: Layer, identifier: str) -> Crs:
    return parse_crs(layer.header.crs.get(identifier, identifier))


def ensure_system(server: Server, layer: Layer, field: Field) -> None:
    """Have the database know the system of a column, for which it must have PostGIS."""
    if server.one("SELECT 1 FROM pg_extension WHERE extname = 'postgis'") is None:
        raise StateError(
            f"{layer.dataset} has geometries, and {server.address.shown} has no PostGIS",
            hints=("its owner runs CREATE EXTENSION postgis there",),
        )
    srid = srid_of(layer, field)
    query = f"SELECT 1 FROM spatial_ref_sys WHERE srid = {srid}"
    if not srid or field.geometry is None or server.one(query) is not None:
        return
    identifier = str(field.geometry.crs)
    authority, _, code = identifier.rpartition(":")
    number = int(code) if code.isdecimal() and len(code) < 10 else srid
    server.run(
        "INSERT INTO spatial_ref_sys (srid, auth_name, auth_srid, srtext, proj4text) "
        "VALUES (%s, %s, %s, %s, '')",
        (srid, authority or "NONE", number, _system(layer, identifier).wkt.strip()),
    )
