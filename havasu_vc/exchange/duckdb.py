"""DuckDB: queries about tables, and which rows an expression of SQL is false for.

What is asked runs where nothing but the tables can be reached: no other file, no network, no
extension. Expressions come from a file of the repository, and have a limited time besides.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.errors import HavasuError, InvalidArgumentError, MissingProgramError
from havasu_vc.exchange.duckdb_tables import DuckTable, duck_table, duck_type, identifier, text

if TYPE_CHECKING:
    import duckdb

    from havasu_vc.datasets.protocol import Dataset
    from havasu_vc.geo.functions.catalogue import SqlFunction

__all__ = ["Database", "NoTableError", "RowExpressions", "is_installed", "relation"]

SECONDS = 60.0
"""An expression may work so long on one batch."""
_BATCH_ROWS = 1 << 14
_MISSING = re.compile(r"Catalog Error: Table with name (.+) does not exist")
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
        self._set(*never, *settings)

    def _set(self, *settings: str) -> None:
        for setting in settings:
            self._connection.execute(f"SET {setting}")

    def add_function(self, function: SqlFunction) -> None:
        """Have a function there, which is called with values of any types."""

        def compute(*columns: pa.ChunkedArray) -> pa.Array:
            try:
                return function(*map(_plain_array, columns))
            except HavasuError as error:
                self._failures.append(error)
                raise

        self._connection.create_function(
            function.name, compute, None, duck_type(function.result.arrow_type), type="arrow"
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
            # DuckDB does not hand on what went wrong in functions of ours.
            reason = self._failures[0].message if self._failures else str(error).split("\n", 1)[0]
            raise InvalidArgumentError(f"{named} cannot be run: {reason}") from error
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

    def add(self, name: str, table: DuckTable) -> None:
        """Have a table there under a name."""
        self._files += table.files
        with self._errors():
            for label, rows in table.registered.items():
                self._scans.append(rows)
                self._connection.register(label, rows)
            self._connection.execute(f"CREATE TEMP VIEW {identifier(name)} AS {table.query}")

    def add_rows(self, name: str, rows: pa.Table) -> None:
        """Have rows there under a name."""
        with self._errors():
            self._connection.register(name, rows)

    def add_call(self, name: str, parameters: Sequence[str]) -> None:
        """Have a function there that gives the rows named `NAME() ARGUMENT ...`."""
        told = "".join(f" || ' ' || replace({each}, '\"', '\"\"')" for each in parameters)
        named = f"""'"{name}()'{told} || '"'"""
        self._connection.execute(
            f"CREATE TEMP MACRO {name}({', '.join(parameters)})"
            f" AS TABLE SELECT * FROM query_table({named})"
        )

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


def _plain_array(column: pa.ChunkedArray) -> pa.Array:
    """Return an argument of a function as an array without an extension type."""
    found = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(found, pa.ChunkedArray):
        found = pa.concat_arrays(found.chunks) if found.chunks else pa.array([], found.type)
    if pa.types.is_decimal(found.type):  # as DuckDB has 0.1; by way of text it is the double
        return found.cast(pa.string()).cast(pa.float64())
    return found.storage if isinstance(found.type, pa.BaseExtensionType) else found


def _query_error(said: str) -> Exception:
    """Return what DuckDB says of a query as an error of one line."""
    line = next((line.strip() for line in said.splitlines() if line.strip()), "it failed")
    missing = _MISSING.search(line)
    if missing is not None:
        return NoTableError(missing[1])
    return InvalidArgumentError(f"DuckDB: {_KIND_OF_ERROR.sub('', line)}")


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
