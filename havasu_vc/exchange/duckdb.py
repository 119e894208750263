"""DuckDB: rows as a relation of its, and which rows an expression of SQL is false for.

Expressions come from a file of the repository, so they run where nothing but the rows can
be reached: no file, no network, no extension, and for a limited time.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.errors import InvalidArgumentError, MissingProgramError

if TYPE_CHECKING:
    import duckdb

__all__ = ["RowExpressions", "relation"]

SECONDS = 60.0
"""An expression may work so long on one batch."""


def relation(table: pa.Table, connection: duckdb.DuckDBPyConnection | None = None) -> Any:
    """Return rows as a relation of a connection, or of the default one."""
    return (connection or _module()).from_arrow(table)


class RowExpressions:
    """Evaluates expressions on batches of rows. Use it as a context manager."""

    def __init__(self) -> None:
        self._connection = _module().connect(
            ":memory:", config={"enable_external_access": "false", "threads": "2"}
        )
        for setting in (
            "memory_limit = '1GB'",
            "autoinstall_known_extensions = false",
            "autoload_known_extensions = false",
            "lock_configuration = true",
        ):
            self._connection.execute(f"SET {setting}")

    def __enter__(self) -> RowExpressions:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop what it holds."""
        self._connection.close()

    def false_rows(self, rows: pa.RecordBatch, expression: str) -> npt.NDArray[np.bool_]:
        """Return the rows for which an expression is false; null counts as true."""
        query = f"SELECT NOT coalesce(CAST((\n{expression}\n) AS BOOLEAN), true) FROM havasu_rows"
        duckdb = _module()
        timer = threading.Timer(SECONDS, self._connection.interrupt)
        timer.start()
        try:
            if len(duckdb.extract_statements(query)) != 1:
                raise InvalidArgumentError(f"the check {expression!r} is not one expression")
            self._connection.register("havasu_rows", pa.Table.from_batches([rows]))
            found = self._connection.execute(query).fetchnumpy()
        except duckdb.InterruptException as error:
            raise InvalidArgumentError(
                f"the check {expression!r} took more than {SECONDS:.0f} s"
            ) from error
        except duckdb.Error as error:
            reason = str(error).split("\n", 1)[0]
            raise InvalidArgumentError(
                f"the check {expression!r} cannot be run: {reason}"
            ) from error
        finally:
            timer.cancel()
        (column,) = found.values()
        flags = np.asarray(column, np.bool_)
        if len(flags) != rows.num_rows:
            raise InvalidArgumentError(f"the check {expression!r} is not one value per row")
        return flags


def _module() -> Any:
    try:
        import duckdb
    except ImportError as error:
        raise MissingProgramError(
            "duckdb is not installed", hints=("pip install 'havasu-vc[duckdb]'",)
        ) from error
    return duckdb
