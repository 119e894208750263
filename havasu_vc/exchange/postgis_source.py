"""Tables and views of a schema in PostgreSQL as sources: `postgresql://USER@HOST/DATABASE/SCHEMA`.

Rows are read by one query, so as they stand at one time, some of them after the others: of a view,
of a table and of one in partitions alike.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from havasu_vc.errors import SourceNotFoundError
from havasu_vc.exchange.addresses import (
    names_no_schema,
    parse_address,
    schema_address,
    shown_place,
)
from havasu_vc.exchange.layout import (
    CrsNames,
    GeometryColumn,
    SourceLayout,
    lay_out,
    listed,
    stored_batches,
)
from havasu_vc.exchange.ogr_formats import quoted
from havasu_vc.exchange.postgis_seen import Column, columns_of, field_of
from havasu_vc.exchange.postgis_server import (
    Server,
    connected,
    literal,
    out_expression,
    parse_csv,
    see_postgis,
    stored_column,
)
from havasu_vc.exchange.source import Running, SourceOptions
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, task_of
from havasu_vc.model.types import Encoding, Field, Primitive
from havasu_vc.records import dataclass

__all__ = ["PostgisSource", "open_tables", "table_titles"]

_AT_ONCE = 1 << 24
"""Bytes of rows, as text, that are read at once."""
_AS_IT_LIES = ("synchronize_seqscans = off", "max_parallel_workers_per_gather = 0")
"""Settings with which rows come in the order in which they lie, whoever else reads them."""
_OWN_TYPES: Mapping[str, pa.DataType] = {"uuid": pa.uuid(), "int2": pa.int16()}


@dataclass(frozen=True, slots=True)
class PostgisSource:
    """One table."""

    name: str
    schema: Schema
    crs: Mapping[str, str]
    title: str | None
    rows: int | None
    input_bytes: int
    key_hint: tuple[str, ...]
    address: str
    layout: SourceLayout
    fields: tuple[Field, ...]
    """The columns as they are read."""
    systems: tuple[int, ...]
    """The number of the system of each; 0 for none."""
    declared: Mapping[str, str]
    """Types in SQL that columns are declared with."""
    own_name: str
    """Its name in its schema, which a dataset has where none is given."""
    description: str | None = None
    notes: tuple[str, ...] = ()

    def tasks(self, columns: Sequence[str] | None = None) -> list[Task]:
        """Return the task that reads the table."""
        layout = self.layout.select(columns)
        kept = [place for place, each in enumerate(self.fields) if each.name in layout.schema.names]
        fields = tuple(self.fields[place] for place in kept)
        systems = tuple(self.systems[place] for place in kept)
        return [task_of(read_table, self.address, self.own_name, layout, fields, systems)]

    def read_as(self, schema: Schema, engine: Running) -> PostgisSource:
        """Return it with UUIDs as text where a dataset has them as such, as Kart's do."""
        texts = {each.name for each in schema.fields if each.type is Primitive.STRING}

        def told(each: Field) -> Field:
            is_text = each.type is Primitive.UUID and each.name in texts
            return replace(each, type=Primitive.STRING) if is_text else each

        made = Schema(tuple(map(told, self.schema.fields)), self.schema.identifier_ids)
        layout = replace(self.layout, schema=made)
        return replace(self, schema=made, layout=layout, fields=tuple(map(told, self.fields)))


@dataclass(frozen=True, slots=True)
class _Table:
    """A table or view of a database."""

    schema: str
    name: str
    comment: str | None


def _tables(location: str) -> dict[str, _Table]:
    """Return the tables and views of a schema by their names, or of all schemas as `SCHEMA.TABLE`.

    What an extension has of its own, as PostGIS its systems, is nobody's data.
    """
    whole = names_no_schema(location)
    address = parse_address(location, schema="public" if whole else None)
    with connected(address) as server:
        rows = server.rows(
            "SELECT n.nspname, c.relname, obj_description(c.oid, 'pg_class') FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE "
            "(n.nspname = %s OR (%s AND n.nspname !~ '^(pg_|information_schema$)')) "
            "AND c.relkind IN ('r', 'p', 'v', 'm', 'f') "
            "AND NOT c.relispartition AND c.relname !~ '^_(havasu_vc|kart|sno)_' "
            "AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass "
            "AND d.objid = c.oid AND d.deptype = 'e') "
            "AND (NOT %s OR has_schema_privilege(n.oid, 'USAGE')) "
            "ORDER BY n.nspname, c.relname",
            (address.schema, whole, whole),
        )
    tables = [_Table(*row) for row in rows]
    return {f"{each.schema}.{each.name}" if whole else each.name: each for each in tables}


def table_titles(location: str) -> dict[str, str | None]:
    """Return the names of tables and views, each with its comment, as `open_tables` knows them."""
    return {name: table.comment or None for name, table in _tables(location).items()}


def open_tables(
    location: str, layers: Sequence[str], options: SourceOptions
) -> list[PostgisSource]:
    """Open tables of a schema, or of a database as `SCHEMA.TABLE`; with none named, all.

    One of the schema `public` may be named without it.
    """
    there, whole = _tables(location), names_no_schema(location)
    shown = shown_place(location)
    if not there:
        raise SourceNotFoundError(f"there is no table in {shown}")
    wanted = []
    for layer in layers:
        name = f"public.{layer}" if whole and layer not in there else layer
        if name not in there:
            raise SourceNotFoundError(
                f"there is no table {layer!r} in {shown}",
                hints=(f"the tables are {listed(list(there))}",),
            )
        wanted.append(name)
    address = parse_address(location, schema="public" if whole else None)
    with connected(address, snapshot=True) as server:
        see_postgis(server)
        return [
            _open(
                server,
                schema_address(location, there[name].schema) if whole else location,
                name,
                there[name],
                options,
            )
            for name in wanted or there
        ]


def _open(
    server: Server, location: str, name: str, table: _Table, options: SourceOptions
) -> PostgisSource:
    where = f"{quoted(table.schema)}.{quoted(table.name)}"
    oid = int(server.one(f"SELECT {literal(where)}::regclass::oid::int8"))
    crs = CrsNames(options.crs)
    fields, systems, geometries, declared, bases = [], [], {}, {}, {}
    for column in columns_of(server, oid, below=True):
        edges = None
        if column.base == "geography" and not options.for_kart:
            column, edges = _as_geometry(column), "spherical"
        declared[column.name], bases[column.name] = column.type, column.base
        field = field_of(column)
        srid = 0
        if field.geometry is not None:
            shape = field.geometry.shape
            srid = _srid(server, table, column.name)
            identifier = crs.name(_definition(server, srid), server.address.shown)
            geometries[field.name] = GeometryColumn(
                Encoding.EWKB, identifier, None if shape == "GEOMETRY" else shape, edges
            )
        fields.append(field)
        systems.append(srid)
    numbered = tuple(replace(field, id=place) for place, field in enumerate(fields, 1))
    plain = arrow_schema(Schema(numbered, ()))
    for place, column_name in enumerate(plain.names):
        # Two types that Arrow alone tells apart from what their values are stored as.
        if (own := _OWN_TYPES.get(bases[column_name])) is not None:
            plain = plain.set(place, plain.field(place).with_type(own))
    hint = _key(server, oid)
    layout = lay_out(plain, geometries, options, key_hint=hint)
    kept = {field.geometry.crs for field in layout.schema.geometries if field.geometry}
    names = set(layout.schema.names)
    chosen = [place for place, field in enumerate(numbered) if field.name in names]
    return PostgisSource(
        name=name,
        schema=layout.schema,
        crs={known: wkt for known, wkt in crs.wkt.items() if known in kept},
        title=table.comment,
        rows=int(server.one(f"SELECT count(*) FROM {where}")),
        input_bytes=int(server.one("SELECT pg_total_relation_size(%s::oid)", (oid,))),
        key_hint=hint if set(hint) <= names else (),
        address=location,
        layout=layout,
        fields=tuple(numbered[place] for place in chosen),
        systems=tuple(systems[place] for place in chosen),
        declared=declared,
        own_name=table.name,
    )


def _as_geometry(column: Column) -> Column:
    """Return a column of PostGIS's `geography` as one of geometries, whose values are the same."""
    return replace(column, type=column.type.replace("geography", "geometry", 1), base="geometry")


def _key(server: Server, oid: int) -> tuple[str, ...]:
    rows = server.rows(
        "SELECT a.attname FROM pg_index i CROSS JOIN unnest(i.indkey) WITH ORDINALITY AS k(n, p) "
        "JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.n "
        "WHERE i.indrelid = %s AND i.indisprimary ORDER BY k.p",
        (oid,),
    )
    return tuple(name for (name,) in rows)


def _srid(server: Server, table: _Table, column: str) -> int:
    """Return the system that a column announces, or that its first geometry is in."""
    said = server.one(
        "SELECT srid FROM (SELECT f_table_schema, f_table_name, f_geometry_column, srid "
        "FROM geometry_columns UNION ALL SELECT f_table_schema, f_table_name, "
        "f_geography_column, srid FROM geography_columns) AS known WHERE f_table_schema = %s "
        "AND f_table_name = %s AND f_geometry_column = %s",
        (table.schema, table.name, column),
    )
    if said:
        return int(said)
    name = quoted(column)
    found = server.one(
        f"SELECT ST_SRID({name}::geometry) FROM {quoted(table.schema)}.{quoted(table.name)} "
        f"WHERE {name} IS NOT NULL LIMIT 1"
    )
    return int(found or 0)


def _definition(server: Server, srid: int) -> str | None:
    rows = server.rows(
        "SELECT auth_name, auth_srid, srtext FROM spatial_ref_sys WHERE srid = %s", (srid,)
    )
    if not rows:
        return None
    authority, number, text = rows[0]
    return f"EPSG:{number}" if authority == "EPSG" else str(text)


@kernel
def read_table(
    location: str,
    table: str,
    layout: SourceLayout,
    fields: tuple[Field, ...],
    systems: tuple[int, ...],
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of a table in stored types."""
    batches = _read(location, table, fields, systems)
    yield from stored_batches(batches, layout, parse_address(location).shown)


def _read(
    location: str, table: str, fields: tuple[Field, ...], systems: tuple[int, ...]
) -> Iterator[pa.RecordBatch]:
    address = parse_address(location)
    place = f"{quoted(address.schema)}.{quoted(table)}"
    picked = ", ".join(out_expression(field, quoted(field.name)) for field in fields)
    with connected(address, snapshot=True) as server:
        see_postgis(server)
        for setting in _AS_IT_LIES:
            server.run(f"SET LOCAL {setting}")
        for data in server.copied_out(f"SELECT {picked} FROM {place}", _AT_ONCE):
            texts = parse_csv(data, len(fields))
            arrays = [
                stored_column(field, values, srid)
                for field, values, srid in zip(fields, texts, systems, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, [field.name for field in fields])
