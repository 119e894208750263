"""Data files that another engine wrote into a table, as entries of ours.

Such a file stays as it is. What an entry says beside it is taken from its footer and
from one pass over its rows: statistics, bounds of geometries, sums of columns, and its
key cache. The columns are told by field id; the schema that an entry names is the one
that the file has, in its own order and under its own names. What was found is kept
beside the key caches by the file's identity, so that looking again reads nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from havasu_vc.datasets.digest import Digests
from havasu_vc.datasets.havasu.keys import build_key_cache, key_cache_path, write_key_cache
from havasu_vc.datasets.havasu.locate import shared_fields
from havasu_vc.datasets.havasu.parquet import Positions, open_parquet, read_row_groups
from havasu_vc.datasets.havasu.plan import FileLayout
from havasu_vc.datasets.havasu.statistics import column_statistics
from havasu_vc.datasets.havasu.writing import (
    Measures,
    measure_rows,
    split_offsets,
    united_areas,
    united_bounds,
)
from havasu_vc.errors import (
    GeometryError,
    KeyViolationError,
    NotYetSupportedError,
    SchemaViolationError,
)
from havasu_vc.formats.havasu.entry import Content, Entry, Origin, format_entry, parse_entry
from havasu_vc.formats.havasu.json_text import document_hash
from havasu_vc.formats.havasu.properties import Digest
from havasu_vc.formats.havasu.schema import format_schema
from havasu_vc.model.arrays import arrow_array
from havasu_vc.model.arrow import FIELD_ID, arrow_schema
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import kernel
from havasu_vc.model.types import (
    LARGEST_FIELD_ID,
    Decimal,
    Field,
    List,
    Map,
    Primitive,
    Struct,
    Type,
    descendants,
)
from havasu_vc.records import dataclass
from havasu_vc.store.disk import reporting_storage_errors
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.object_urls import is_url
from havasu_vc.tables.bucket import copied_here
from havasu_vc.tables.scanning import RowSource, read_source
from havasu_vc.tables.table import damaged, missing, reading_table_file

__all__ = [
    "FileSchema",
    "Measured",
    "copy_rows",
    "hash_file",
    "known_fields",
    "measure",
    "measure_there",
    "parse_measured",
    "read_file_schema",
    "recall",
    "says_all",
    "stage_file",
]


_FIELDS = pa.schema([("entry", pa.binary()), ("digests", pa.string())])


@dataclass(frozen=True, slots=True)
class Measured:
    """Measures of a file after a look at all of its rows."""

    entry: Entry
    """Its entry."""
    digests: Mapping[int, Digest]
    """The sums of its columns, rows that are deleted again included."""


def recall(path: Path, file: FileSchema, layout: FileLayout, keys: Path) -> Measured | None:
    """Return what was found out about a file before, None when nothing was or it changed."""
    try:
        value = json.loads(_memory(path, file, layout, keys).read_bytes())
        entry = parse_entry(value["entry"].encode(), value["file"], str(path))
        return Measured(entry, {int(n): (a, b) for n, (a, b) in value["digests"].items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _memory(path: Path, file: FileSchema, layout: FileLayout, keys: Path) -> Path:
    """Return where it is kept what was found out about a file as it is now."""
    status = os.stat(path)
    identity = (os.fspath(path), status.st_ino, status.st_size, status.st_mtime_ns)
    text = repr((identity, file.name, layout.schema_hash, layout.partition_hash, layout.sort_hash))
    return keys / f"{hashlib.sha256(text.encode()).hexdigest()}-measured"


@kernel
def measure_there(
    url: str, file: FileSchema, layout: FileLayout, where: str
) -> Iterator[pa.RecordBatch]:
    """Look at all rows of a file at a URL, of which there is a copy as long as that takes."""
    with copied_here(url) as path:
        yield from measure(path, file, layout, None, where)


@kernel
def measure(
    path: str, file: FileSchema, layout: FileLayout, keys: str | None, where: str
) -> Iterator[pa.RecordBatch]:
    """Look at all rows of a file and yield one row: its entry, and the sums of its columns.

    `layout` names what the entry is to say of schema, partition and order, but for the
    file's own schema; its schema is the dataset's.
    """
    schema = file.shared(layout.schema)
    with reading_table_file(path):
        name, size = hash_file(Path(path))
        parts = _measured_rows(path, schema, where)
        with open_parquet(path) as parquet:
            metadata = parquet.metadata
            _check_required(file, layout.schema, metadata.num_rows, where)
    nans: dict[int, int] = {}
    digests = Digests()
    for part in parts:
        digests.add(part.hashed.digests)
        for number, count in part.nans.items():
            nans[number] = nans.get(number, 0) + count
    nothing = np.empty(0, np.uint64)
    if keys is not None:
        cache = build_key_cache(
            np.concatenate([nothing, *(part.hashed.keys for part in parts)]),
            np.concatenate([nothing, *(part.hashed.rows for part in parts)]),
        )
        with suppress(OSError):  # it only spares work next time
            write_key_cache(key_cache_path(Path(keys), name, schema), cache)
    statistics = column_statistics(metadata, file.leaves, nans)
    entry = Entry(
        name,
        Content.DATA,
        size,
        metadata.num_rows,
        file.name,
        layout.partition_hash,
        layout.sort_hash,
        Origin.FOREIGN,
        statistics={n: known for n, known in statistics.items() if n in file.known},
        bounds=united_bounds(parts),
        splits=split_offsets(metadata),
        areas=united_areas(parts),
    )
    document = format_entry(entry)
    sums = {str(number): list(lanes) for number, lanes in digests.sums.items()}
    kept = {"file": name, "entry": document.decode(), "digests": sums}
    if keys is not None:
        with suppress(OSError):
            _remember(_memory(Path(path), file, layout, Path(keys)), json.dumps(kept))
    yield pa.RecordBatch.from_arrays(
        [pa.array([document], pa.binary()), pa.array([json.dumps(kept)])], schema=_FIELDS
    )


def _remember(place: Path, text: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    temporary = place.with_name(f".tmp-{place.name}-{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, place)


def parse_measured(batch: pa.RecordBatch) -> Measured:
    """Return what `measure` found."""
    value = json.loads(batch.column("digests")[0].as_py())
    entry = parse_entry(batch.column("entry")[0].as_py(), value["file"], value["file"])
    return Measured(entry, {int(n): (a, b) for n, (a, b) in value["digests"].items()})


def _measured_rows(path: str, schema: Schema, where: str) -> list[Measures]:
    """Measure the rows of a file batch by batch, two batches at a time."""
    parts: list[Measures] = []
    waiting: deque[tuple[pa.RecordBatch, Future[Measures]]] = deque()

    def take() -> None:
        rows, future = waiting.popleft()
        try:
            parts.append(future.result())
        except GeometryError as error:
            raise _bad_geometry(rows, schema, where, error) from error

    with ThreadPoolExecutor(2, thread_name_prefix="havasu-measure") as pool:
        for rows in read_row_groups(path, schema):
            _check_nulls(rows, schema, where)
            waiting.append((rows, pool.submit(measure_rows, rows, schema)))
            if len(waiting) > 3:
                take()
        while waiting:
            take()
    return parts


def _check_required(file: FileSchema, schema: Schema, rows: int, where: str) -> None:
    """Raise when a file lacks a column that must have values."""
    for field in schema.fields:
        if field.required and field.id not in file.known and rows:
            raise SchemaViolationError(f"{where}: rows came without the column {field.name!r}")


def _check_nulls(rows: pa.RecordBatch, schema: Schema, where: str) -> None:
    keys = set(schema.identifier_ids)
    for field, column in zip(schema.fields, rows.columns, strict=True):
        if not field.required or not column.null_count:
            continue
        if field.id in keys:
            raise KeyViolationError(
                f"{where}: a row has no value in its key column {field.name!r}",
                hints=(f"DELETE FROM the table the rows WHERE {field.name} IS NULL",),
            )
        raise SchemaViolationError(
            f"{where}: a row has no value in the required column {field.name!r}",
            hints=(f"UPDATE the rows of the table WHERE {field.name} IS NULL",),
        )


def _bad_geometry(
    rows: pa.RecordBatch, schema: Schema, where: str, error: GeometryError
) -> GeometryError:
    """Return an error that names the row; found by halving, as it is looked for only once."""
    low, high = 0, rows.num_rows
    while high - low > 1:
        middle = (low + high) // 2
        try:
            measure_rows(rows.slice(low, middle - low), schema)
        except GeometryError:
            high = middle
        else:
            low = middle
    names = schema.key.names or schema.names[:1]
    key = ",".join(str(rows.column(name)[low].as_py()) for name in names)
    try:
        measure_rows(rows.slice(low, 1), schema)
    except GeometryError as found:
        error = found
    return GeometryError(
        f"{where}: the {error.what} of row {key} cannot be read: {error.reason or error.message}",
        hints=("UPDATE or DELETE the row in the table",),
    )


def hash_file(path: Path) -> tuple[str, int]:
    """Return the sha256 and the size of a file."""
    try:
        with path.open("rb", buffering=0) as file:
            return hashlib.file_digest(file, "sha256").hexdigest(), os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        raise missing(path) from None


def stage_file(path: Path, file: str, staging: DataFileStore, *, own: bool = True) -> None:
    """Give a file of a table a second name among staged files, or copy it where that cannot be.

    One that is not the table's `own` is always copied: what is staged is made read-only.
    Its bytes are hashed again on the way, so that what is staged is what its name says.
    """
    if staging.has(file):
        return
    temporary = staging.temporary()
    try:
        if not own:
            shutil.copyfile(path, temporary)
        else:
            _linked(path, temporary)
    except FileNotFoundError:
        raise missing(path) from None
    found, _ = staging.put(temporary)
    if found != file:
        raise SchemaViolationError(
            f"{path} changed while it was read", hints=("let the engine finish, then try again",)
        )


def _linked(path: Path, temporary: Path) -> None:
    try:
        os.link(path, temporary)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(path, temporary)


# The schema that a foreign data file has, told from its own columns.
#
# Columns are known by field id. Their types are those of the file, which may be narrower
# than the table's are now; their order and names are the file's. Whether a column may hold
# nulls is the table's to say: engines write columns as required where a statement gave
# them literals.


@dataclass(frozen=True)
class FileSchema:
    """The columns of one data file."""

    schema: Schema
    """The columns, in the file's order and types."""
    leaves: tuple[Field, ...]
    """The same for counting columns of the file; rasters with all that is inside."""

    @cached_property
    def document(self) -> bytes:
        """The schema as deltas have it in `past`."""
        return format_schema(self.schema)

    @cached_property
    def name(self) -> str:
        """The name of the document."""
        return document_hash(self.document)

    @cached_property
    def known(self) -> frozenset[int]:
        """The ids of all columns at any depth."""
        return self.schema.ids

    def shared(self, schema: Schema) -> Schema:
        """Return the columns of a schema that the file has."""
        return Schema(shared_fields(schema.fields, self.known), self._identifiers(schema))

    def _identifiers(self, schema: Schema) -> tuple[int, ...]:
        return schema.identifier_ids if self.known.issuperset(schema.identifier_ids) else ()


def known_fields(*schemas: Schema) -> dict[int, Field]:
    """Return fields by id, at any depth; the first schema that has one counts."""
    found: dict[int, Field] = {}
    for schema in schemas:
        for field in descendants(schema.fields):
            found.setdefault(field.id, field)
    return found


def read_file_schema(path: Path | str, known: Mapping[int, Field], schema: Schema) -> FileSchema:
    """Return the columns of a data file, which the table knows by their ids."""
    with reading_table_file(path), open_parquet(str(path)) as file:
        arrow = file.schema_arrow
    if any(_id_of(field) is None for field in arrow):
        raise NotYetSupportedError(
            f"{path} has columns without field ids, as files have that were written elsewhere",
            hints=(
                "CALL <catalog>.system.rewrite_data_files(table => …, "
                "options => map('rewrite-all', 'true')) writes them anew",
            ),
        )
    # Engines keep the ids of rows, which are no columns of the table, beside them.
    own = [(_id_of(field) or 0) <= LARGEST_FIELD_ID for field in arrow]
    fields = _told_apart(
        _field(field, known, path) for field, mine in zip(arrow, own, strict=True) if mine
    )
    ids = {field.id for field in fields}
    identifiers = schema.identifier_ids if ids.issuperset(schema.identifier_ids) else ()
    spare = iter(range(LARGEST_FIELD_ID, 0, -1))
    there = iter(fields)
    leaves = tuple(
        _leaf(next(there), field, spare) if mine else Field(next(spare), field.name, Primitive.LONG)
        for field, mine in zip(arrow, own, strict=True)
    )
    return FileSchema(Schema(fields, identifiers), leaves)


def _leaf(field: Field, arrow: pa.Field, spare: Iterator[int]) -> Field:
    if field.raster is None:
        return field
    return replace(field, type=_inside(arrow.type, spare), raster=None)


def _id_of(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(FIELD_ID)
    return int(text) if text is not None else None


def _field(arrow: pa.Field, known: Mapping[int, Field], path: Path | str) -> Field:
    number = _id_of(arrow)
    field = None if number is None else known.get(number)
    if field is None:
        raise damaged(path, f"its column {arrow.name!r} is none that the table ever had")
    type_ = _type(field.type, arrow.type, known, path) if field.raster is None else field.type
    return replace(
        field,
        type=type_,
        source_type=field.source_type if type_ == field.type else None,
        physical_name=None if arrow.name == field.name else arrow.name,
    )


def _told_apart(found: Iterable[Field]) -> tuple[Field, ...]:
    """Return fields by their names now, or in the file where a dropped one gave its name away."""
    fields = tuple(found)
    if len({field.name for field in fields}) == len(fields):
        return fields
    return tuple(
        replace(field, name=field.physical_name or field.name, physical_name=None)
        for field in fields
    )


def _type(type_: Type, arrow: pa.DataType, known: Mapping[int, Field], path: Path | str) -> Type:
    """Return the type that a file holds of a column."""
    match type_:
        case Primitive.LONG if pa.types.is_int32(arrow):
            return Primitive.INT
        case Primitive.DOUBLE if pa.types.is_float32(arrow):
            return Primitive.FLOAT
        case Decimal(precision, scale) if pa.types.is_decimal(arrow):
            return Decimal(min(arrow.precision, precision), scale)
        case Struct() if pa.types.is_struct(arrow):
            parts = [arrow.field(index) for index in range(arrow.num_fields)]
            return Struct(_told_apart(_field(part, known, path) for part in parts))
        case List(element) if pa.types.is_list(arrow):
            return List(_part(element, arrow.value_field, known, path))
        case Map(key, value) if pa.types.is_map(arrow):
            return Map(
                _part(key, arrow.key_field, known, path),
                _part(value, arrow.item_field, known, path),
            )
        case _:
            return type_


def _part(field: Field, arrow: pa.Field, known: Mapping[int, Field], path: Path | str) -> Field:
    return replace(field, type=_type(field.type, arrow.type, known, path), physical_name=None)


def _inside(arrow: pa.DataType, spare: Iterator[int]) -> Type:
    """Return a type that has as many columns in a file as an Arrow type, whatever they are."""
    if not pa.types.is_nested(arrow):
        return Primitive.BINARY
    parts = [arrow.field(index) for index in range(arrow.num_fields)]
    return Struct(tuple(Field(next(spare), part.name, _inside(part.type, spare)) for part in parts))


# Files of a table that cannot be taken in as they are, written anew as files that can.
#
# Columns without field ids are known by the table's name mapping alone, and what a file
# leaves to its partition or to a default value is told by the table: neither stands in the
# file, so a copy says both. A copy has the rows of its file in their order, or the live ones
# alone. It is kept beside the key caches under the file's identity, and goes as these do.

_GROUP_ROWS = 1 << 16


def says_all(source: RowSource, schema: Schema) -> bool:
    """Whether a file's own columns say all that the table says of it."""
    with reading_table_file(source.path), open_parquet(source.path) as file:
        found = [(field.metadata or {}).get(FIELD_ID) for field in file.schema_arrow]
    ids = {int(number) for number in found if number is not None}
    return len(ids) == len(found) and not _given(source, schema.by_id.keys() - ids)


def _given(source: RowSource, lacking: Collection[int]) -> bool:
    return any(number in lacking and value is not None for number, value in source.values)


def copy_rows(
    source: RowSource, schema: Schema, folder: Path, *, deleted: Positions | None = None
) -> Path:
    """Return a file with the rows of a source in the columns of a schema.

    Deletes of the source do not count. Without `deleted` it has all rows, so positions stay
    what they are; with it, those that are not at these positions.
    """
    place = folder / f"{_identity(source, schema, deleted)}-copied.parquet"
    if place.exists():
        return place
    whole = replace(source, position_deletes=(), equality_deletes=(), vector=None)
    temporary = folder / f".tmp-{secrets.token_hex(8)}"
    # Whether a live row lacks a value that it must have is asked of the copy.
    arrow = pa.schema([field.with_nullable(True) for field in arrow_schema(schema)])
    with reporting_storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with pq.ParquetWriter(
                temporary, arrow, compression="zstd", compression_level=3, store_schema=False
            ) as writer:
                before = 0
                for batch in read_source(whole, schema):
                    rows = pa.RecordBatch.from_arrays(batch.columns, schema=arrow)
                    kept = rows if deleted is None else _without(rows, before, deleted)
                    before += rows.num_rows
                    if kept.num_rows:
                        writer.write_batch(kept, row_group_size=_GROUP_ROWS)
            os.replace(temporary, place)
        finally:
            temporary.unlink(missing_ok=True)
    return place


def _without(rows: pa.RecordBatch, first: int, deleted: Positions) -> pa.RecordBatch:
    """Return rows but those at some positions of the file; the first is at `first`."""
    low, high = np.searchsorted(deleted, (first, first + rows.num_rows))
    inside = deleted[low:high]
    mask = np.ones(rows.num_rows, bool)
    mask[inside - first] = False
    return rows.filter(arrow_array(mask))


def _identity(source: RowSource, schema: Schema, deleted: Positions | None) -> str:
    """Return what tells a copy from one of other bytes or under another schema."""
    facts: tuple[object, ...] = (source.path,)
    if not is_url(source.path):
        with reading_table_file(source.path):
            status = os.stat(source.path)
        facts = (source.path, status.st_ino, status.st_size, status.st_mtime_ns)
    said = (source.values, source.naming, document_hash(format_schema(schema)))
    digest = hashlib.sha256(repr((facts, said)).encode())
    if deleted is not None:
        digest.update(deleted.tobytes())
    return digest.hexdigest()
