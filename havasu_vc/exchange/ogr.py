"""GeoPackage, Shapefile, GeoJSON and FlatGeobuf layers as sources, read by GDAL.

Rows come as GDAL's Arrow stream. Columns stand in the order key, geometry, rest.
A GeoPackage's feature id is a column and the key unless another is named; it is cut
into ranges of ids that are read side by side. The feature ids that GeoJSON may have
become a column `id`; other formats only number their rows, which is not kept.
"""

from __future__ import annotations

import itertools
import sqlite3
import struct
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import pyarrow as pa

from havasu_vc.errors import InvalidFileError
from havasu_vc.exchange.dbf import WantedColumn, check_attributes, long_numbers
from havasu_vc.exchange.gdal import open_stream, read_info
from havasu_vc.exchange.geojson_checks import JSON_DRIVERS, check_geojson, refuse_lost_geometries
from havasu_vc.exchange.gpkg_floats import wide_floats
from havasu_vc.exchange.gpkg_words import (
    declared_key,
    own_lengths,
    own_metadata,
    own_order,
    own_title,
    own_types,
    own_words,
    passed_over,
)
from havasu_vc.exchange.layout import (
    CrsNames,
    GeometryColumn,
    SourceLayout,
    lay_out,
    stored_batches,
)
from havasu_vc.exchange.ogr_formats import (
    VectorFile,
    cut_short,
    has_feature_ids,
    quoted,
    read_only,
    refuse_endless,
    require_all_records,
)
from havasu_vc.exchange.ogr_releases import (
    LayerRows,
    has_geometries,
    known_types,
    read_as_known,
    with_types,
)
from havasu_vc.exchange.ogr_values import (
    TimeColumns,
    ValueCheck,
    judge_times,
    refuse_odd_values,
    rounded_columns,
    value_checks,
)
from havasu_vc.exchange.source import MOST_BATCH_ROWS, TASK_BYTES, SourceOptions
from havasu_vc.model import compute as pc
from havasu_vc.model.names import repeated
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, task_of
from havasu_vc.model.types import Type
from havasu_vc.records import dataclass

__all__ = ["OgrSource", "open_layer"]

_ROUNDED = "column {!r} has whole numbers of 16 digits and more that may be rounded"
_UNDEFINED = ("Undefined Cartesian SRS", "Undefined geographic SRS", "Undefined SRS")
_AT_ONCE = 1 << 13
"""Rows of a batch at most: GDAL reads ahead, a batch for each of its threads, and of 65,536 rows
these and what is made of them take 7 MB more."""
MOST_BATCH_VALUES = 1 << 20
"""So many values are in a batch at most, in all columns together."""
_MOST_TASKS = 4096


@dataclass(frozen=True, slots=True)
class _Reading:
    """The task's knowledge of a layer."""

    path: str
    shown_path: str
    layer: str
    names: tuple[tuple[str, str], ...]
    """Columns in the order of the stream: GDAL's name and ours."""
    fields: tuple[str, ...]
    fids: bool
    geometry: bool
    times: TimeColumns
    layout: SourceLayout
    batch_rows: int
    rows: int | None
    """How many rows the file says it has, where it says so reliably."""
    checks: tuple[ValueCheck, ...] = ()
    """Checks that values of a GeoPackage are held against."""
    attributes: tuple[WantedColumn, ...] = ()
    """Columns of a shapefile, which its .dbf file is asked of."""
    wide: tuple[str, ...] = ()
    """Columns of a GeoPackage whose numbers have more bits than GDAL reads."""
    json: bool = False
    """Whether it is GeoJSON, of which GDAL reads geometries that it does not know as nulls."""
    as_multi: bool = False
    """Whether geometries of one part become such of several parts."""
    known: tuple[tuple[str, Type], ...] = ()
    """Columns that are read in the types that a dataset has."""


@dataclass(frozen=True)
class OgrSource:
    """One layer of a file that GDAL reads."""

    name: str
    schema: Schema
    crs: Mapping[str, str]
    title: str | None
    description: str | None
    rows: int | None
    input_bytes: int
    key_hint: tuple[str, ...]
    notes: tuple[str, ...]
    reading: _Reading
    ranges: tuple[str | None, ...]
    """Conditions that cut the layer into parts, in file order; None for the whole."""
    declared: Mapping[str, str]
    """Types in SQL that columns of text are declared with, where these have a length."""
    xml: str | None = None
    """Its metadata in XML, as a GeoPackage has it."""
    unnamed: str | None = None
    """The geometry column, where its format has no name for it."""

    def read_as(self, schema: Schema, engine: object) -> OgrSource:
        """Return the same layer as a release of a dataset, whose columns these are.

        Raises `InvalidFileError` for a value that a column of the dataset cannot hold.
        """
        named = self._with_geometry_of(schema)
        known = known_types(self._rows, named.schema, schema)
        if not known:
            return named
        taken = with_types(named.schema, known)
        layout = replace(named.reading.layout, schema=taken)
        reading = replace(named.reading, layout=layout, known=tuple(known.items()))
        return replace(named, schema=taken, reading=reading)

    @property
    def _rows(self) -> LayerRows:
        reading = self.reading
        return LayerRows(reading.path, reading.shown_path, reading.layer, reading.fields)

    def _with_geometry_of(self, schema: Schema) -> OgrSource:
        """Return the layer with a geometry that has no name called as that of a dataset.

        Where the dataset has none, and no row of the layer, it is left out.
        """
        ours, layout = self.unnamed, self.reading.layout
        names, wanted = layout.schema.names, [field.name for field in schema.geometries]
        if ours is None or ours not in names or ours in schema.by_name:
            return self
        if not wanted and not has_geometries(self._rows):
            layout = layout.select([name for name in names if name != ours])
            reading = _narrowed(self.reading, layout)
            return replace(self, schema=layout.schema, crs={}, reading=reading)
        if len(wanted) != 1 or wanted[0] in names:
            return self
        layout = layout.renamed(ours, wanted[0])
        called = tuple((a, wanted[0] if b == ours else b) for a, b in self.reading.names)
        reading = replace(self.reading, layout=layout, names=called)
        return replace(self, schema=layout.schema, reading=reading)

    def tasks(self, columns: Sequence[str] | None = None) -> list[Task]:
        """Return one task for each range of feature ids, or one for the layer."""
        reading = _narrowed(self.reading, self.reading.layout.select(columns))
        return [task_of(read_layer, reading, where) for where in self.ranges]


def _info(file: VectorFile, layer: str) -> dict[str, Any]:
    """Return what GDAL says of a layer, once it is sure to end, to be of its format and whole."""
    if file.driver == "GPKG":
        refuse_endless(file.path, layer, file.input_bytes)
    info = read_info(file.path, layer)
    # A sequence of one record is GeoJSON, too.
    alike = {"GeoJSON", "GeoJSONSeq"}
    if info["driver"] != file.driver and not {info["driver"], file.driver} <= alike:
        raise InvalidFileError(
            file.shown_path,
            f"it holds {info['driver']} and not {file.driver}",
            hints=("give the file the extension of what it is",),
        )
    twice = repeated([str(name) for name in info["fields"]])
    if twice:
        raise InvalidFileError(
            file.shown_path,
            f"two of its columns are called {twice[0]!r}",
            hints=("call one of them otherwise in the file",),
        )
    if file.driver == "GeoJSONSeq":
        require_all_records(file, int(info["features"]))
    return info


def _geometry_column(
    file: VectorFile, layer: str, info: dict[str, Any], crs: CrsNames, *, for_kart: bool
) -> GeometryColumn:
    """Return how geometries of a layer are: their system, under its name, and their shape."""
    said = info["crs"]
    known = said if said and not any(word in said for word in _UNDEFINED) else None
    if known is not None and for_kart:
        known = own_words(file, layer, known)
    identifier = crs.name(known, file.shown_path)
    return GeometryColumn(crs=identifier, shape=_shape(file, info, as_multi=for_kart))


def _ordered(
    fields: Sequence[str], fid: str | None, geometry: str | None, *, first: Sequence[str]
) -> list[str]:
    """Return columns in the order that they get: ids, those that come first, the geometry."""
    first = [name for name in fields if name in first]
    known = [name for name in (fid, *first, geometry) if name is not None]
    return known + [name for name in fields if name not in first]


def _columns_of(
    file: VectorFile, layer: str, info: Mapping[str, Any], options: SourceOptions
) -> tuple[pa.Schema, tuple[str, ...]]:
    """Return the columns of a layer, and those that have more bits than GDAL reads."""
    # GeoJSON may take an attribute `id` for the feature id too, and would give it twice.
    own_fid = str(info["fid_column"]) not in [str(name) for name in info["fields"]]
    with open_stream(file.path, layer, return_fids=own_fid, batch_size=1) as reader:
        arrow = own_types(file, layer, reader.schema, for_kart=options.for_kart)
        narrow = {field.name for field in reader.schema if pa.types.is_float32(field.type)}
    check_geojson(file, layer, info, arrow, has_crs=options.crs is not None)
    wide = [each.name for each in arrow if pa.types.is_float64(each.type) and each.name in narrow]
    return arrow, tuple(wide)


def open_layer(file: VectorFile, layer: str, options: SourceOptions) -> OgrSource:
    """Open one layer of a file whose format is known."""
    info = _info(file, layer)
    arrow, wide = _columns_of(file, layer, info, options)
    fid, geometry, names = _column_names(file, info, arrow)
    fields = tuple(str(name) for name in info["fields"])
    times = judge_times(file, layer, arrow, fields)
    crs = CrsNames(options.crs)
    geometries = {}
    if geometry is not None:
        column = _geometry_column(file, layer, info, crs, for_kart=options.for_kart)
        geometries[names[geometry]] = column
    as_karts = file.driver == "ESRI Shapefile" and options.for_kart
    ordered = _ordered(fields, fid, geometry, first=(as_karts and options.primary_key) or ())
    if options.for_kart and file.driver == "GPKG":
        ordered = own_order(file, layer, ordered, names)
    plain = pa.schema([times.field(arrow.field(name)).with_name(names[name]) for name in ordered])
    numbers = () if fid is None else (names[fid],)
    hint = numbers or declared_key(file, layer, names, arrow)
    layout = lay_out(plain, geometries, options, key_hint=hint)
    kept = {field.geometry.crs for field in layout.schema.geometries if field.geometry}
    rows = int(info["features"]) if int(info["features"]) >= 0 else None
    reading = _Reading(
        path=file.path,
        shown_path=file.shown_path,
        layer=layer,
        names=tuple(names.items()),
        fields=fields,
        fids=fid is not None,
        geometry=geometry is not None,
        times=times,
        layout=layout,
        batch_rows=_batch_rows(file.input_bytes, rows, len(plain)),
        rows=rows if file.driver == "FlatGeobuf" else None,
        checks=_checks(file, arrow, fields, geometry and names[geometry]),
        attributes=_attributes(file, arrow, fields),
        wide=wide,
        json=file.driver in JSON_DRIVERS,
        as_multi=as_karts,
    )
    metadata = info.get("layer_metadata") or {}
    return OgrSource(
        name=layer,
        schema=layout.schema,
        crs={name: wkt for name, wkt in crs.wkt.items() if name in kept},
        title=own_title(file, layer, metadata, options),
        description=metadata.get("DESCRIPTION") or None,
        rows=rows,
        input_bytes=file.input_bytes,
        key_hint=hint if set(hint) <= set(layout.schema.names) else (),
        notes=times.notes
        + _notes(file, layer, arrow, info, tuple(names.values()))
        + _number_notes(numbers, layout.schema.names, options.primary_key or ()),
        reading=_narrowed(reading, layout),
        ranges=_fid_ranges(file, layer, fid, rows) if fid is not None else (None,),
        declared=_declared(file, layer, arrow, names),
        xml=own_metadata(file, layer),
        unnamed=None if geometry is None or info["geometry_name"] else names[geometry],
    )


def _declared(
    file: VectorFile, layer: str, arrow: pa.Schema, names: Mapping[str, str]
) -> dict[str, str]:
    """Return types in SQL of columns of text and bytes that have a length, where the file says."""
    found = {
        names[field.name]: int((field.metadata or {}).get(b"GDAL:OGR:width", 0))
        for field in arrow
        if pa.types.is_string(field.type)
    }
    texts = {name: f"text({length})" for name, length in found.items() if length > 0}
    return texts | own_lengths(file, layer)


def _number_notes(hint: Sequence[str], names: Sequence[str], key: Sequence[str]) -> tuple[str, ...]:
    """Return a note on numbers of rows that are kept beside another key."""
    return tuple(
        f"{fid} numbers the rows of this file, which another release may number otherwise, so that "
        f"all of them differ: `--leave-out {fid}` takes the table without it"
        for fid in hint
        if key and fid in names and fid not in key
    )


def _checks(
    file: VectorFile, arrow: pa.Schema, fields: Sequence[str], geometry: str | None
) -> tuple[ValueCheck, ...]:
    if file.driver != "GPKG":
        return ()
    return value_checks([arrow.field(name) for name in fields], geometry)


def _attributes(
    file: VectorFile, arrow: pa.Schema, fields: Sequence[str]
) -> tuple[WantedColumn, ...]:
    if file.driver != "ESRI Shapefile":
        return ()
    return tuple((name, place, arrow.field(name).type) for place, name in enumerate(fields))


def _notes(
    file: VectorFile, layer: str, arrow: pa.Schema, info: dict[str, Any], names: Sequence[str]
) -> tuple[str, ...]:
    """Return notes on what is not taken as it is; `names` are those of all columns."""
    fields = [str(name) for name in info["fields"]]
    rounded = tuple(
        f"{_ROUNDED.format(name)}: not all of its numbers are whole and in range, so it holds "
        "floating-point ones"
        for name in rounded_columns(file, layer, arrow, fields)
    )
    left_out = tuple(
        f"column {name!r} is left out: a layer has one column of geometries, which is another"
        for name in passed_over(file, layer, names)
    )
    return (
        *left_out,
        *rounded,
        *_notes_of_attributes(file, info, _attributes(file, arrow, fields)),
    )


def _notes_of_attributes(
    file: VectorFile, info: dict[str, Any], attributes: tuple[WantedColumn, ...]
) -> tuple[str, ...]:
    """Return notes on what a shapefile's attributes are taken for."""
    if not attributes:
        return ()
    notes = tuple(
        f"{_ROUNDED.format(name)}: floating-point ones stand for numbers of its width"
        for name in long_numbers(file.path, attributes)
    )
    assumed = info.get("assumed")
    if assumed in (None, "UTF-8"):
        return notes
    return (*notes, f"texts are read as {assumed}, as no .cpg file beside it says what they are")


@kernel
def read_layer(reading: _Reading, where: str | None) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of a layer, or of a range of its feature ids, in stored types."""
    yield from stored_batches(_read(reading, where), reading.layout, reading.shown_path)


def _read(reading: _Reading, where: str | None) -> Iterator[pa.RecordBatch]:
    renamed = dict(reading.names)
    how: dict[str, Any] = {
        "columns": list(reading.fields),
        "read_geometry": reading.geometry,
        "return_fids": reading.fids,
        "where": where,
        "batch_size": reading.batch_rows,
        **reading.times.how,
    }
    wanted = reading.layout.schema.names
    refuse_odd_values(reading.path, reading.layer, reading.checks, where)
    blanks = check_attributes(reading.path, reading.shown_path, reading.attributes)
    rows, nulls = 0, 0
    wide = [name for name in reading.wide if name in reading.fields]
    with (
        open_stream(reading.path, reading.layer, **how) as reader,
        wide_floats(reading.path, reading.layer, wide, where) as floats,
    ):
        for batch in reader:
            absent = {name: rows_of[rows:][: len(batch)] for name, rows_of in blanks.items()}
            rows += batch.num_rows
            came = dict(zip(batch.schema.names, batch.columns, strict=True))
            came |= floats.next_to(came, batch.num_rows)
            columns = {
                renamed[name]: reading.times.convert(name, column) for name, column in came.items()
            }
            for name, blank in absent.items():
                columns[name] = pc.if_else(pa.array(blank), None, columns[name])
            columns = read_as_known(columns, reading.known)
            for name, _ in reading.layout.encodings:
                columns[name] = _no_bytes_as_null(columns[name])
                nulls += columns[name].null_count
                if reading.as_multi:
                    columns[name] = _several_parts(columns[name])
            yield pa.RecordBatch.from_arrays([columns[name] for name in wanted], list(wanted))
    if reading.json and nulls:
        refuse_lost_geometries(reading.path, reading.shown_path, nulls)
    if reading.rows is not None and rows != reading.rows:
        raise cut_short(reading.shown_path, f"{rows} of its {reading.rows} rows are there")


def _no_bytes_as_null(column: pa.Array) -> pa.Array:
    """Return geometries with those of no bytes, as FlatGeobuf has them, as nulls."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    empty = pc.equal(pc.binary_length(column), 0)
    return pc.if_else(empty, None, column) if pc.any(empty).as_py() else column


def _several_parts(column: pa.Array) -> pa.Array:
    """Return geometries as GDAL's WKB, in which lines and polygons are such of several parts."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    heads = pc.binary_slice(column, 0, 5)
    for head in pc.unique(pc.drop_null(heads)).to_pylist():
        order, kind = struct.unpack("<BI", head)
        if order == 1 and kind % 1000 in (2, 3):
            parts = pa.scalar(struct.pack("<BII", 1, kind + 3, 1), column.type)
            several = pc.binary_join_element_wise(parts, column, pa.scalar(b"", column.type))
            column = pc.if_else(pc.equal(heads, head), several, column)
    return column


def _narrowed(reading: _Reading, layout: SourceLayout) -> _Reading:
    """Return the reading of the columns that a layout has, and no others."""
    kept = set(layout.schema.names)
    renamed = dict(reading.names)
    fields = tuple(name for name in reading.fields if renamed[name] in kept)
    special = {ours for theirs, ours in reading.names if theirs not in reading.fields}
    geometries = {name for name, _ in layout.encodings}
    return replace(
        reading,
        layout=layout,
        fields=fields,
        fids=reading.fids and bool((special - geometries) & kept),
        geometry=reading.geometry and bool(geometries),
        checks=tuple(check for check in reading.checks if check[0] in kept),
        attributes=tuple(column for column in reading.attributes if column[0] in kept),
    )


def _column_names(
    file: VectorFile, info: Mapping[str, Any], arrow: pa.Schema
) -> tuple[str | None, str | None, dict[str, str]]:
    """Return GDAL's names of the feature id and the geometry, and ours for all columns."""
    fields = [str(name) for name in info["fields"]]
    others = [name for name in arrow.names if name not in fields]
    geometry = next((name for name in others if _is_geometry(arrow.field(name))), None)
    fid = next((name for name in others if name != geometry), None)
    names = {name: name for name in fields}
    if fid is not None:
        if info["fid_column"]:
            names[fid] = str(info["fid_column"])
        elif has_feature_ids(file):
            names[fid] = _free_name(("id", "fid", "feature_id"), names.values())
        else:
            fid = None
    if geometry is not None:
        said = str(info["geometry_name"] or "")
        names[geometry] = said or _free_name(("geom", "geometry", "wkb_geometry"), names.values())
    return fid, geometry, names


def _is_geometry(field: pa.Field) -> bool:
    annotations = field.metadata or {}
    name = getattr(field.type, "extension_name", None)
    said = name or annotations.get(b"ARROW:extension:name", b"").decode()
    return said in ("geoarrow.wkb", "ogc.wkb")


def _free_name(wanted: Sequence[str], taken: Any) -> str:
    lower = {name.lower() for name in taken}
    return next(name for name in wanted if name.lower() not in lower)


def _shape(file: VectorFile, info: Mapping[str, Any], *, as_multi: bool) -> str | None:
    """Return the geometry type that a layer announces, if its values are all of it."""
    said = str(info["geometry_type"] or "Unknown")
    words = said.replace("2.5D ", "").replace("Measured 3D ", "").replace("Measured ", "").split()
    dimensions = "Z" if said.startswith("2.5D") else ""
    dimensions = "M" if said.startswith("Measured ") else dimensions
    dimensions = "ZM" if said.startswith("Measured 3D") else dimensions
    kind = words[0].upper()
    dimensions = dimensions or (words[1].upper() if len(words) > 1 else "")
    if kind in ("UNKNOWN", "GEOMETRY", "NONE"):
        return None
    if file.driver == "ESRI Shapefile" and kind in ("POLYGON", "LINESTRING"):
        if not as_multi:
            return None  # a shapefile calls one part and several by one name
        kind = f"MULTI{kind}"
    return f"{kind} {dimensions}".strip()


def _batch_rows(size: int, rows: int | None, columns: int) -> int:
    """Return how many rows to ask of GDAL at once, so that a batch stays small.

    GDAL makes room for all of them in each column, however many there are.
    """
    fitting = 16 * 1024 * 1024 * rows // max(size, 1) if rows else 4096
    return max(16, min(_AT_ONCE, fitting, MOST_BATCH_VALUES // max(columns, 1)))


def _fid_ranges(file: VectorFile, layer: str, fid: str, rows: int | None) -> tuple[str | None, ...]:
    """Return conditions that cut a GeoPackage table at its feature ids."""
    if file.driver != "GPKG" or not rows:
        return (None,)
    parts = min(-(-file.input_bytes // TASK_BYTES), -(-rows // MOST_BATCH_ROWS), _MOST_TASKS)
    if parts <= 1:
        return (None,)
    column, table = quoted(fid), quoted(layer)
    try:
        with closing(sqlite3.connect(read_only(file.path), uri=True)) as database:
            query = f"SELECT min({column}), max({column}) FROM {table}"
            lowest, highest = database.execute(query).fetchone()
    except sqlite3.Error:
        return (None,)
    if not isinstance(lowest, int) or not isinstance(highest, int):
        return (None,)
    cuts = [lowest + (highest - lowest) * index // parts for index in range(1, parts)]
    cuts = sorted({cut for cut in cuts if lowest < cut <= highest})
    if not cuts:
        return (None,)
    inner = [f"{column} >= {low} AND {column} < {high}" for low, high in itertools.pairwise(cuts)]
    return (f"{column} < {cuts[0]}", *inner, f"{column} >= {cuts[-1]}")
