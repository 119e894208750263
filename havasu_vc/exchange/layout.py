"""From the columns that a file has to the schema that a dataset gets, and its rows likewise.

Every format finds out two things about a column: its Arrow type and, if it holds
geometries, how and in which coordinate reference system. The rest is the same for
all of them and is done here: which columns are kept, which are the key, what the
stored types are, and how a batch read becomes a batch in those types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

import pyarrow as pa

from havasu_vc.errors import (
    CrsError,
    GeometryError,
    InvalidArgumentError,
    InvalidFileError,
    UnsupportedTypeError,
)
from havasu_vc.exchange.source import MOST_BATCH_BYTES, MOST_BATCH_ROWS, SourceOptions
from havasu_vc.geo import wkb as geometry_bytes
from havasu_vc.geo.crs import parse_crs
from havasu_vc.model import compute as pc
from havasu_vc.model.arrow import arrow_type, bounded, schema_from_arrow, to_stored
from havasu_vc.model.schema import Schema, can_identify
from havasu_vc.model.types import Encoding, Field, Geometry, Primitive
from havasu_vc.records import dataclass

__all__ = [
    "CrsNames",
    "GeometryColumn",
    "SourceLayout",
    "lay_out",
    "stored_batches",
    "stored_geometry",
]


@dataclass(frozen=True, slots=True)
class GeometryColumn:
    """A geometry column as a file declares it."""

    encoding: Encoding = Encoding.WKB
    """How values stand in the file, once read."""
    crs: str | None = None
    """The identifier of its coordinate reference system; None when unknown."""
    shape: str | None = None
    """The geometry type that it announces; None for any."""
    edges: str | None = None
    """How points are joined, where the file says so: `spherical` for a geography."""
    properties: tuple[tuple[str, str], ...] = ()
    """Other properties in the file, which it gets back when it is exported."""


@dataclass(frozen=True, slots=True)
class SourceLayout:
    """How rows of a file become rows of a dataset; a plain value that tasks carry."""

    schema: Schema
    """The columns that they become."""
    encodings: tuple[tuple[str, Encoding], ...] = ()
    """Geometry columns, and how they stand in the file."""

    def select(self, columns: Sequence[str] | None) -> SourceLayout:
        """Return the layout of some columns."""
        if columns is None:
            return self
        kept = tuple((name, encoding) for name, encoding in self.encodings if name in columns)
        return SourceLayout(self.schema.select(tuple(columns)), kept)

    def renamed(self, name: str, other: str) -> SourceLayout:
        """Return the layout with one column called otherwise."""
        fields = tuple(
            replace(each, name=other) if each.name == name else each for each in self.schema.fields
        )
        encodings = tuple((other if a == name else a, b) for a, b in self.encodings)
        return SourceLayout(Schema(fields, self.schema.identifier_ids), encodings)

    def store(self, batch: pa.RecordBatch, first_row: int | None = None) -> pa.RecordBatch:
        """Return a batch that was read, in stored types and the schema's geometry encoding.

        A geometry that is none is an error that names its row: by the key, and by its number in
        the file where `first_row` says which one the batch begins with.
        """
        for name, encoding in self.encodings:
            wanted = self.schema.by_name[name]
            index = batch.schema.get_field_index(name)
            try:
                values = stored_geometry(batch.column(index), encoding, wanted)
            except GeometryError as error:
                raise self._located(error, name, batch, first_row) from error
            batch = batch.set_column(index, pa.field(name, values.type), values)
        return to_stored(batch, self.schema)

    def _located(
        self, error: GeometryError, name: str, batch: pa.RecordBatch, first_row: int | None
    ) -> GeometryError:
        row = error.row
        if row is None:
            return error
        parts = [] if first_row is None else [f"row {first_row + row:,}"]
        keys = [f"{key} {batch.column(key)[row].as_py()!r}" for key in self.schema.key.names]
        parts += [f"the row with {', '.join(keys)}"] if keys else []
        where = ", ".join(parts) or "a row"
        return GeometryError(
            f"column {name!r}, {where}: its geometry cannot be used: {error.reason}",
            hints=error.hints,
        )


def lay_out(
    source: pa.Schema,
    geometries: Mapping[str, GeometryColumn],
    options: SourceOptions,
    *,
    key_hint: tuple[str, ...] = (),
) -> SourceLayout:
    """Return how the columns of a file are stored.

    Raises `InvalidArgumentError` for a column named that is not there, and
    `UnsupportedTypeError` for one whose type cannot be kept.
    """
    names = kept_names(source.names, options)
    key = options.primary_key
    if key is None:
        key = key_hint if set(key_hint) <= set(names) else ()
    require_names(key, names, "key column")
    if len(set(key)) != len(key):
        raise InvalidArgumentError(f"the key names a column twice: {', '.join(key)}")
    plain = pa.schema(
        [
            pa.field(name, arrow_type(_GEOMETRY_TYPE)) if name in geometries else source.field(name)
            for name in names
        ]
    )
    fields = []
    for column in schema_from_arrow(plain).fields:
        given = geometries.get(column.name)
        if given is not None:
            column = _geometry_field(column, given, options.geometry_encoding)
        else:
            column = _json_field(column, source.field(column.name))
        fields.append(key_field(column) if column.name in key else column)
    ids = tuple(column.id for column in fields if column.name in key)
    schema = Schema(tuple(fields), ids)
    encodings = tuple((name, geometries[name].encoding) for name in names if name in geometries)
    return SourceLayout(schema, encodings)


def stored_batches(
    batches: Iterator[pa.RecordBatch],
    layout: SourceLayout,
    path: str,
    *,
    first_row: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield batches in stored types, cut to the size that sources promise.

    Where the number of their first row in the file is known, rows can be named by theirs.
    Raises `InvalidFileError` for text that is not UTF-8 and lists that make no sense,
    which no reader below looks for.
    """
    row = first_row
    for batch in bounded(_sound(batches, path), MOST_BATCH_BYTES, MOST_BATCH_ROWS):
        if batch.num_rows:
            yield layout.store(batch, row)
            row = None if row is None else row + batch.num_rows


def _sound(batches: Iterator[pa.RecordBatch], path: str) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        _require_bounded(batch, path)
        try:
            batch.validate(full=True)
        except pa.ArrowInvalid as error:
            name = next((name for name in batch.schema.names if not _is_sound(batch[name])), "?")
            raise InvalidFileError(
                path,
                f"damaged: column {name!r} holds values that cannot be read",
                hints=("get the file again from where it came",),
            ) from error
        yield batch


def _require_bounded(batch: pa.RecordBatch, path: str) -> None:
    """Refuse a dictionary whose values make gigabytes of a few thousand rows."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        kind = column.type
        if pa.types.is_dictionary(kind) and _has_length(kind.value_type):
            lengths = pc.cast(pc.binary_length(column.dictionary), pa.int64())
            size = pc.sum(pc.take(lengths, column.indices)).as_py() or 0
            if size > MOST_DECODED:
                raise InvalidFileError(
                    path,
                    f"{batch.num_rows:,} rows of column {name!r} hold {size >> 20:,} MB, "
                    "as a dictionary repeats them",
                    hints=("leave the column out with --columns, or shorten its values",),
                )


def _has_length(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )


def _is_sound(column: pa.Array) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def listed(names: Sequence[str], most: int = 12) -> str:
    """Return names for a message, the first few of many."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


MOST_DECODED = 1 << 30
"""Bytes that the values of a dictionary may make of one batch."""
_GEOMETRY_TYPE = Primitive.BINARY
JSON = "json"
"""The source type of text that is JSON."""


def kept_names(names: Sequence[str], options: SourceOptions) -> list[str]:
    """Return the columns to keep, in the order of the file."""
    if options.columns is not None:
        require_names(options.columns, names, "column")
    require_names(options.leave_out, names, "column")
    wanted = set(names if options.columns is None else options.columns)
    kept = [name for name in names if name in wanted and name not in options.leave_out]
    if not kept:
        raise InvalidArgumentError(
            "no column is left to import", hints=(f"the columns are {listed(names)}",)
        )
    return kept


def require_names(wanted: Sequence[str], names: Sequence[str], what: str) -> None:
    for name in wanted:
        if name not in names:
            import difflib

            near = difflib.get_close_matches(name, names, 1)
            meant = f"did you mean {near[0]!r}? " if near else ""
            raise InvalidArgumentError(
                f"there is no {what} {name!r}", hints=(f"{meant}the columns are {listed(names)}",)
            )


def _geometry_field(field: Field, given: GeometryColumn, encoding: Encoding) -> Field:
    return replace(
        field,
        type=Primitive.BINARY if encoding.is_binary else Primitive.STRING,
        geometry=Geometry(encoding, given.crs, given.shape),
        extra=((("edges", given.edges),) if given.edges else ()) + given.properties,
    )


def _json_field(field: Field, source: pa.Field) -> Field:
    """Remember that a text is JSON, for the formats that tell the two apart."""
    if getattr(source.type, "extension_name", None) != "arrow.json":
        return field
    return replace(field, source_type=JSON)


def key_field(field: Field) -> Field:
    """Return a column as one of the key; raises for one that cannot be."""
    required = replace(field, required=True)
    if not can_identify(required):
        held = "geometries" if field.geometry is not None else str(field.type)
        held = "rasters" if field.raster is not None else held
        raise InvalidArgumentError(
            f"column {field.name!r} cannot be a key: it holds {held}",
            hints=("name another column with --primary-key",),
        )
    return required


def stored_geometry(column: pa.Array, encoding: Encoding, wanted: Field) -> pa.Array:
    """Return geometries of an encoding, in either order of bytes, as a column stores them."""
    if wanted.geometry is None:
        raise ValueError(f"{wanted.name!r} is no geometry column")
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    binary = pa.binary() if encoding.is_binary else pa.string()
    try:
        column = pc.cast(column, binary)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UnsupportedTypeError(wanted.name, f"{column.type} holds no geometries") from error
    # WKB from elsewhere may be of either byte order and either way to write Z and M.
    said = Encoding.EWKB if encoding.is_binary else encoding
    wkb, srids = geometry_bytes.to_canonical(column, said.value)
    return geometry_bytes.from_canonical(wkb, srids, wanted.geometry.encoding.value)


# The coordinate reference systems that the columns of one file name.
#
# Files say them as PROJJSON, WKT or `EPSG:2193`; a dataset has an identifier on the
# column and the WKT in a file of its own. A system given by the user stands for every
# column, whatever the file says.


@dataclass(slots=True)
class CrsNames:
    """Collects systems by identifier while a file's columns are looked at."""

    override: str | None = None
    """The system that the user gave instead."""
    wkt: dict[str, str] = field(default_factory=dict)
    """WKT by identifier."""
    _known: dict[str, str] = field(default_factory=dict)

    def name(self, text: str | None, where: str) -> str | None:
        """Return the identifier of a system as a file says it; None when it says none.

        Raises `CrsError` for one that is unknown.
        """
        said = self.override or text
        if not said:
            return None
        if said not in self._known:
            self._known[said] = self._add(said, where)
        return self._known[said]

    def _add(self, said: str, where: str) -> str:
        try:
            crs = parse_crs(said)
        except CrsError as error:
            if self.override is not None:
                raise
            raise CrsError(
                f"{where}: its coordinate reference system is unknown",
                hints=(error.message, "name one with --crs, such as --crs EPSG:4326"),
            ) from error
        # Two columns may word one system differently; the first wording stands.
        self.wkt.setdefault(crs.identifier, crs.wkt)
        return crs.identifier
