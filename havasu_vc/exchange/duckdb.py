"""DuckDB: queries about tables, and which rows an expression of SQL is false for.

What is asked runs where nothing but the tables can be reached: no other file, no network, no
extension. Expressions come from a file of the repository, and have a limited time besides.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.datasets.havasu.kernels import deleted_positions
from havasu_vc.datasets.havasu.live import LiveFile, live_files
from havasu_vc.datasets.havasu.parquet import open_parquet
from havasu_vc.datasets.protocol import Dataset, DatasetInFiles
from havasu_vc.errors import (
    HavasuError,
    InvalidArgumentError,
    MissingProgramError,
    UnsupportedTypeError,
    nearest,
)
from havasu_vc.exchange.duckdb_functions import (
    SAME,
    called_functions,
    geometry_values,
    load_extension,
    macro,
    made_geometry,
    own_functions,
    plain_array,
    wants_extension,
)
from havasu_vc.formats.havasu.entry import Origin
from havasu_vc.model.arrow import FIELD_ID, arrow_schema, arrow_type
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Decimal, Encoding, Field, Primitive
from havasu_vc.records import dataclass
from havasu_vc.store.object_urls import is_url

if TYPE_CHECKING:
    import duckdb

    from havasu_vc.geo.functions.catalogue import SqlFunction

__all__ = [
    "Database",
    "DuckTable",
    "NoTableError",
    "RowExpressions",
    "duck_table",
    "duck_type",
    "identifier",
    "is_installed",
    "relation",
    "text",
    "told_apart",
]

SECONDS = 60.0
"""An expression may work so long on one batch."""
_BATCH_ROWS = 1 << 14
_MISSING = re.compile(r"Catalog Error: Table with name (.+) does not exist")
_SHOW = re.compile(r"SHOW\s+(ALL\s+)?TABLES\b", re.IGNORECASE)
_NO_FUNCTION = re.compile(r"Function with name \"?(st_\w+)", re.IGNORECASE)
_NAMED = re.compile(r'Function with name (\w+)|Referenced column "([^"]+)"')
_OFFERED = re.compile(r"^(?:Candidate bindings: |Did you mean ).*$", re.MULTILINE)
_KIND_OF_ERROR = re.compile(r"^(?:[A-Z][a-z]+ )+Error: ")


def relation(view: Dataset, connection: duckdb.DuckDBPyConnection | None = None) -> Any:
    """Return a dataset as a relation of a connection, or of the default one.

    Nothing is read before the relation is. What it needs beside data files is registered under
    names that nobody else has, and stays with the connection.
    """
    there = connection or _module()
    table = duck_table(view, f"havasu-vc {uuid4().hex}")
    for name, rows in table.registered.items():
        there.register(name, rows)
    return there.sql(" UNION ALL ".join(_as_bytes(there, part) for part in table.parts))


def _as_bytes(connection: Any, query: str) -> str:
    """Return a query whose geometries are bytes, also where the connection makes more of them.

    Which it does by what a file says of itself, so some files of a table may have bytes.
    """
    found = connection.sql(query)
    kinds = zip(found.columns, map(str, found.types), strict=True)
    made = [identifier(name) for name, kind in kinds if kind.startswith("GEOMETRY")]
    if not made:
        return query
    return f"SELECT * REPLACE ({', '.join(f'ST_AsWKB({e}) AS {e}' for e in made)}) FROM ({query})"


class _Connected:
    """A database of its own in memory, which fetches and loads no extension by itself."""

    def __init__(self, config: dict[str, str], *settings: str) -> None:
        self._connection = _module().connect(":memory:", config=config)
        self._failures: list[HavasuError] = []
        never = "autoinstall_known_extensions = false", "autoload_known_extensions = false"
        self._set(*never, "enable_progress_bar = false", *settings)

    def _set(self, *settings: str) -> None:
        for setting in settings:
            self._connection.execute(f"SET {setting}")

    def add_functions(self, *texts: str) -> None:
        """Have the functions of geometries and rasters there that some SQL may call."""
        for function in own_functions(called_functions(*texts)):
            self._add_function(function, function.name)

    def _add_function(self, function: SqlFunction, name: str, *, typed: bool = False) -> None:
        """Have a function there, which is called with values of any types.

        Where geometries are `typed`, those that it makes are of DuckDB's type.
        """
        kind, typed = function.result.arrow_type, typed and function.result.label == "geometry"

        def compute(*columns: pa.ChunkedArray) -> pa.Array:
            try:
                found = function(*map(plain_array, columns))
            except HavasuError as error:
                self._failures.append(error)
                raise
            return made_geometry(found) if typed else found

        self._connection.create_function(
            name,
            compute,
            None,
            "GEOMETRY" if typed else duck_type(kind),
            type="arrow",
            # They may give null for what is not, such as the x of a line.
            null_handling="special",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop what it holds."""
        self._connection.close()


class RowExpressions(_Connected):
    """Evaluates expressions on batches of rows. Use it as a context manager."""

    def __init__(self) -> None:
        super().__init__(
            {"enable_external_access": "false", "threads": "2"},
            "memory_limit = '1GB'",
            "lock_configuration = true",
        )

    def false_rows(self, rows: pa.RecordBatch, expression: str) -> npt.NDArray[np.bool_]:
        """Return the rows for which an expression is false; null counts as true."""
        value = f"NOT coalesce(CAST((\n{expression}\n) AS BOOLEAN), true)"
        return self._flags(rows, f"the check {expression!r}", value)

    def true_rows(self, rows: pa.RecordBatch, expression: str) -> npt.NDArray[np.bool_]:
        """Return the rows for which an expression is true; null counts as false."""
        value = f"coalesce(CAST((\n{expression}\n) AS BOOLEAN), false)"
        return self._flags(rows, f"the condition {expression!r}", value)

    def _flags(self, rows: pa.RecordBatch, named: str, value: str) -> npt.NDArray[np.bool_]:
        query = f"SELECT {value} FROM havasu_rows"
        duckdb = _module()
        timer = threading.Timer(SECONDS, self._connection.interrupt)
        timer.start()
        try:
            if len(duckdb.extract_statements(query)) != 1:
                raise InvalidArgumentError(f"{named} is not one expression")
            self._connection.register("havasu_rows", pa.Table.from_batches([rows]))
            found = self._connection.execute(query).fetchnumpy()
        except duckdb.InterruptException as error:
            raise InvalidArgumentError(f"{named} took more than {SECONDS:.0f} s") from error
        except duckdb.Error as error:
            told = self._failures[0] if self._failures else _query_error(str(error))
            reason = f"{named} cannot be run: {str(told).removeprefix('DuckDB: ')}"
            raise InvalidArgumentError(reason, hints=getattr(told, "hints", ())) from error
        finally:
            timer.cancel()
        (column,) = found.values()
        flags = np.asarray(column, np.bool_)
        if len(flags) != rows.num_rows:
            raise InvalidArgumentError(f"{named} is not one value per row")
        return flags


class Database(_Connected):
    """Answers queries about tables that are given to it. Use it as a context manager.

    Once it is `closed_off`, SQL reaches the tables and the files that these are made of, and
    nothing else: no other file, no network, no extension, no variable of Python.
    """

    def __init__(self) -> None:
        scratch = Path(tempfile.gettempdir()) / f"havasu-vc-sql-{os.getpid()}"
        super().__init__(
            {"temp_directory": str(scratch), "python_enable_replacements": "false"},
            # Bytes are bytes, whatever a file says of them.
            "enable_geoparquet_conversion = false",
            "TimeZone = 'UTC'",
        )
        self._files: list[str] = []
        self._scans: list[Any] = []
        self._hidden = [""]
        self._typed = False

    def add_functions(self, *texts: str) -> None:
        """Have the functions there that some SQL may call, before tables are.

        Where the spatial extension answers, geometries of tables are of its type.
        """
        called = called_functions(*texts)
        self._typed = wants_extension(called) and load_extension(self._connection, _module())
        if not self._typed:
            super().add_functions(*texts)
            return
        for function in own_functions(called):
            if function.name.lower() in SAME:  # for values of other types, such as text
                self._add_function(function, function.name, typed=True)
            else:
                hidden = f"havasu_{function.name}"
                self._add_function(function, hidden, typed=True)
                self._connection.execute(macro(function, hidden))

    def add(self, name: str, table: DuckTable) -> None:
        """Have a table there under a name."""
        self._files += table.files
        with self._errors():
            for label, rows in table.registered.items():
                self._scans.append(rows)
                self.add_rows(label, rows)
            query = geometry_values(table.query, table.geometries) if self._typed else table.query
            self._connection.execute(f"CREATE TEMP VIEW {identifier(name)} AS {query}")

    def add_rows(self, name: str, rows: Any) -> None:
        """Have rows there that others are made of, under a name that nobody is shown."""
        self._hidden.append(name)
        with self._errors():
            self._connection.register(name, rows)

    def add_call(self, name: str, forms: Iterable[Sequence[str]]) -> None:
        """Have a function there that gives rows named `NAME() ARGUMENT ...`, in some forms."""
        made = []
        for parameters in forms:
            told = "".join(f" || ' ' || replace({each}, '\"', '\"\"')" for each in parameters)
            named = f"""'"{name}()'{told} || '"'"""
            made.append(f"({', '.join(parameters)}) AS TABLE (FROM query_table({named}))")
        self._connection.execute(f"CREATE TEMP MACRO {name}{', '.join(made)}")

    def close_off(self) -> None:
        """Let nothing be reached but what is there."""
        files = ", ".join(map(text, self._files))
        self._set(
            f"allowed_paths = [{files}]",
            "enable_external_access = false",
            "lock_configuration = true",
        )

    def ask(self, statement: str, most: int | None = None) -> pa.RecordBatchReader | None:
        """Return the rows of a statement, or the first ones; None where it has none."""
        with self._errors():
            if statement[:6].upper() == "CREATE":
                self._connection.execute(statement)
                return None
            found = self._connection.sql(statement)
            if found is None:
                return None
            if _SHOW.match(statement):
                found = found.filter(f"name NOT IN ({', '.join(map(text, self._hidden))})")
            return (found if most is None else found.limit(most)).to_arrow_reader(_BATCH_ROWS)

    def rows(self, answer: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        """Yield the rows of an answer; errors are ours."""
        with self._errors():
            yield from answer

    @contextmanager
    def _errors(self) -> Iterator[None]:
        duckdb = _module()
        try:
            yield
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            # What went wrong in functions and scans of ours, DuckDB does not hand on.
            for scan in self._scans:
                if isinstance(getattr(scan, "error", None), HavasuError):
                    raise scan.error from error
            if self._failures:
                raise self._failures[0] from error
            raise _query_error(str(error)) from error


def _query_error(said: str) -> Exception:
    """Return what DuckDB says of a query as an error of one line."""
    line = next((line.strip() for line in said.splitlines() if line.strip()), "it failed")
    if (missing := _MISSING.search(line)) is not None:
        return NoTableError(missing[1])
    error = InvalidArgumentError(f"DuckDB: {_KIND_OF_ERROR.sub('', line)}")
    if _NO_FUNCTION.search(line) and "spatial" in said:
        error.hints = ("pip install 'havasu-vc[spatial]' brings DuckDB's spatial extension",)
    elif (offered := _OFFERED.search(said)) and (named := _NAMED.search(line)):
        names = re.findall(r'"([^"]+)"', offered[0])
        near = [n for n in names if named[2] or n[0] == named[1][0]]  # one, however far that is
        error.hints = nearest(named[2] or named[1], near)
        error.hints = error.hints or ((f"there is {', '.join(names)}",) if named[2] else ())
    return error


class NoTableError(Exception):
    """A query names a table that is not there; whoever knows what is there says so."""

    def __init__(self, name: str) -> None:
        """Say which."""
        super().__init__(name)
        self.name = name
        """Its name."""


def is_installed() -> bool:
    """Whether there is a DuckDB to ask."""
    return find_spec("duckdb") is not None


def _module() -> Any:
    try:
        import duckdb
    except ImportError as error:
        raise MissingProgramError(
            "duckdb is not installed", hints=("pip install 'havasu-vc[duckdb]'",)
        ) from error
    return duckdb


# Datasets as DuckDB reads them: its own Parquet reader over live files, less deleted rows.
#
# Files are read by the names that they use themselves, and what the dataset calls a column is an
# alias, so filters and projections reach the reader through renames and widened types. Files that
# lose rows are joined, by place, with the places of deleted rows. What DuckDB cannot read as it
# stands (other kinds of datasets, files elsewhere, parts of columns that have other names, names
# alike but for case) our own tasks read: as batches of Arrow, of the columns that a query uses.


_FILE_ROWS = 1 << 33
"""No file has so many rows."""
_OF_READER = {"file_row_number", "file_index", "filename"}
_GLOB = set("*?[")
_TYPES = {
    pa.bool_(): "BOOLEAN",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.date32(): "DATE",
    pa.time64("us"): "TIME",
    pa.timestamp("us"): "TIMESTAMP",
    pa.timestamp("us", tz="UTC"): "TIMESTAMPTZ",
    pa.string(): "VARCHAR",
    pa.binary(): "BLOB",
}
_WIDER = {(pa.int32(), Primitive.LONG), (pa.float32(), Primitive.DOUBLE)}


@dataclass(frozen=True, slots=True)
class DuckTable:
    """A dataset as a query of DuckDB's."""

    parts: tuple[str, ...]
    """Queries of the same columns, whose rows together are the table's."""
    files: tuple[str, ...]
    """The files that it reads."""
    registered: Mapping[str, Any]
    """Tables and scans of Arrow that it names, which a connection must know."""
    geometries: Mapping[str, Encoding]
    """Its columns of geometries, quoted, and how these are written."""

    @property
    def query(self) -> str:
        """All rows."""
        return " UNION ALL ".join(self.parts)


def identifier(name: str) -> str:
    """Return a name as SQL has it.

    >>> identifier('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """Return text as SQL has it.

    >>> text("it's")
    "'it''s'"
    """
    return "'" + value.replace("'", "''") + "'"


def duck_type(type_: pa.DataType) -> str:
    """Return the type of DuckDB's that holds what an Arrow type of ours holds."""
    if (known := _TYPES.get(type_)) is not None:
        return known
    if pa.types.is_decimal(type_):
        return f"DECIMAL({type_.precision}, {type_.scale})"
    if pa.types.is_fixed_size_binary(type_):
        return "BLOB"
    if pa.types.is_struct(type_) and type_.num_fields:
        parts = (f"{identifier(part.name)} {duck_type(part.type)}" for part in type_)
        return f"STRUCT({', '.join(parts)})"
    if pa.types.is_map(type_):
        return f"MAP({duck_type(type_.key_type)}, {duck_type(type_.item_type)})"
    if pa.types.is_list(type_):
        return f"{duck_type(type_.value_type)}[]"
    raise UnsupportedTypeError("a column", f"DuckDB has nothing for {type_}")


def _type_of(field: Field) -> str:
    if field.type is Primitive.UUID:
        return "UUID"
    return duck_type(arrow_schema(Schema((field,))).field(0).type)


def told_apart(columns: Iterable[str]) -> list[str]:
    """Return what columns are called where case does not count: `a`, `A_1`."""
    taken: set[str] = set()
    names = []
    for first in columns:
        name, numbers = first, count(1)
        while name.lower() in taken:
            name = f"{first}_{next(numbers)}"
        taken.add(name.lower())
        names.append(name)
    return names


def duck_table(view: Dataset, label: str) -> DuckTable:
    """Return a dataset as a query; `label` begins the names of what is registered for it."""
    stored = view.in_files
    if stored is None:
        return _scanned_table(view, label)
    groups: dict[tuple[tuple[str | None, ...], str], list[LiveFile]] = {}
    for file in live_files(stored):
        columns = _columns(stored, file)
        if columns is None:
            return _scanned_table(view, label)
        groups.setdefault((columns, file.entry.schema), []).append(file)
    queries, registered = [], {}
    for number, ((found, _), files) in enumerate(groups.items()):
        clean = [file for file in files if not file.deletes]
        if clean:
            queries.append(_query(view.schema, found, _parquet(clean)))
        if dirty := [file for file in files if file.deletes]:
            name = f"{label} deleted {number}"
            registered[name] = pa.table({"place": _places(dirty)})
            queries.append(_query(view.schema, found, _without(dirty, name)))
    paths = tuple(file.path for files in groups.values() for file in files)
    nothing = _query(view.schema, [None] * len(view.schema.fields), "(SELECT 1) WHERE false")
    geometries = _geometries(view.schema)
    return DuckTable(tuple(queries) or (nothing,), paths, registered, geometries)


def _geometries(schema: Schema) -> dict[str, Encoding]:
    return {
        identifier(name): field.geometry.encoding
        for name, field in zip(told_apart(schema.names), schema.fields, strict=True)
        if field.geometry is not None
    }


def _query(schema: Schema, columns: Sequence[str | None], source: str) -> str:
    names = told_apart(schema.names)
    shown = (
        f"{f'CAST(NULL AS {_type_of(field)})' if column is None else column} AS {identifier(name)}"
        for column, field, name in zip(columns, schema.fields, names, strict=True)
    )
    return f"SELECT {', '.join(shown)} FROM {source}"


def _parquet(files: Sequence[LiveFile]) -> str:
    paths = ", ".join(text(file.path) for file in files)
    return f"read_parquet([{paths}], hive_partitioning=false, file_row_number=true)"


def _without(files: Sequence[LiveFile], deleted: str) -> str:
    place = f"rows.file_index::BIGINT * {_FILE_ROWS} + rows.file_row_number"
    return (
        f"{_parquet(files)} AS rows ANTI JOIN {identifier(deleted)} AS gone ON gone.place = {place}"
    )


def _places(files: Sequence[LiveFile]) -> pa.Array:
    """Return the places of deleted rows, a number each: that of the file, and that in it."""
    places = [np.empty(0, np.int64)]
    for number, file in enumerate(files):
        positions = deleted_positions(file.entry.file, file.deletes)
        if positions is not None:
            places.append(positions + number * _FILE_ROWS)
    return pa.array(np.concatenate(places))


def _columns(view: DatasetInFiles, file: LiveFile) -> tuple[str | None, ...] | None:
    """Return each column as an expression over a file, None for one that the file lacks.

    None is returned where DuckDB's reader cannot be told how to read the file.
    """
    if is_url(file.path) or any(map(is_url, file.deletes)) or _GLOB & set(file.path):
        return None
    if file.entry.origin is Origin.FOREIGN:
        with open_parquet(file.path) as opened:
            there = opened.schema_arrow
            if opened.metadata.num_row_groups and _has_geometries(opened.schema):
                return None
    else:
        there = arrow_schema(view.past_schema(file.entry.schema), physical=True)
    names = [field.name.lower() for field in there]
    by_id = {(field.metadata or {}).get(FIELD_ID): field for field in there}
    found: list[str | None] = []
    for wanted in view.schema.fields:
        if (field := by_id.get(str(wanted.id).encode())) is None:
            found.append(None)
            continue
        name = field.name.lower()
        expression = _expression(field, wanted)
        if expression is None or names.count(name) > 1 or name in _OF_READER:
            return None
        found.append(expression)
    return None if _OF_READER & set(names) else tuple(found)


def _has_geometries(schema: Any) -> bool:
    """Whether Parquet itself calls a column a geometry, which DuckDB then does as well."""
    types = (str(schema.column(index).logical_type).upper() for index in range(len(schema)))
    return any(name.startswith(("GEOMETRY", "GEOGRAPHY")) for name in types)


def _expression(field: pa.Field, wanted: Field) -> str | None:
    """Return how a column is made of that of a file; None where that is more than a cast."""
    name = identifier(field.name)
    target = arrow_schema(Schema((wanted,))).field(0)
    if field.type == target.type and _same_parts(field.type, target.type):
        return f"CAST({name} AS UUID)" if wanted.type is Primitive.UUID else name
    decimals = isinstance(wanted.type, Decimal) and pa.types.is_decimal128(field.type)
    if decimals or (field.type, wanted.type) in _WIDER:
        return f"CAST({name} AS {duck_type(arrow_type(wanted.type))})"
    return None


def _same_parts(first: pa.DataType, second: pa.DataType) -> bool:
    """Whether parts that are called alike are the same ones, told by their ids."""
    return all(
        one.name == other.name
        and (one.metadata or {}).get(FIELD_ID) == (other.metadata or {}).get(FIELD_ID)
        and _same_parts(one.type, other.type)
        for one, other in zip(_parts(first), _parts(second), strict=True)
    )


def _parts(type_: pa.DataType) -> list[pa.Field]:
    if pa.types.is_map(type_):
        return [type_.key_field, type_.item_field]
    if pa.types.is_nested(type_):
        return [type_.field(index) for index in range(type_.num_fields)]
    return []


def _scanned_table(view: Dataset, label: str) -> DuckTable:
    from havasu_vc.exchange.duckdb_scans import ScannedRows

    names = told_apart(view.schema.names)
    columns = [
        f"CAST({identifier(name)} AS UUID)" if field.type is Primitive.UUID else identifier(name)
        for name, field in zip(names, view.schema.fields, strict=True)
    ]
    name = f"{label} rows"
    query = _query(view.schema, columns, identifier(name))
    registered = {name: ScannedRows(view, names)}
    return DuckTable((query,), (), registered, _geometries(view.schema))
