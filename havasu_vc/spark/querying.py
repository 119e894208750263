"""Queries by people: a session with everything set, errors in one line.

Where a workspace is checked out and the Iceberg runtime can be had, SQL works on the
tables of the checkout, which it may also change. Else, or at another revision, every
dataset is a view, which is read only.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from havasu_vc.errors import EngineError, InvalidArgumentError, MissingProgramError, StateError
from havasu_vc.library import Repo
from havasu_vc.records import dataclass
from havasu_vc.spark import functions
from havasu_vc.spark.reading import register
from havasu_vc.spark.session import CATALOG, jar_wanted, session
from havasu_vc.workspace.state import read_state

__all__ = ["Query", "SparkRows", "open_query", "query_error", "run_statement"]

_CHUNK = 8192


@dataclass(frozen=True, slots=True)
class Query:
    """A session to ask."""

    spark: SparkSession
    """The session."""
    tables: tuple[str, ...]
    """The tables that can be asked, as SQL names them."""
    catalog: bool
    """Whether these are the tables of the checkout, rather than views."""


def open_query(
    repo: Repo,
    ref: str | None = None,
    *,
    jar: bool = True,
    master: str | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> Query:
    """Start a session over a checkout, or over the datasets of a revision as views."""
    # PySpark logs each error of a query as a page of JSON beside raising it.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    state = read_state(repo.git.git_directory)
    if state is not None and jar and ref is None:
        try:
            spark = session(repo, master=master)
        except (MissingProgramError, StateError) as error:
            if "Iceberg" not in error.message or jar_wanted(repo) is not None:
                raise  # whoever names a jar wants that one
            note(f"{error.message}; the datasets of HEAD are views instead")
        else:
            spark.catalog.setCurrentCatalog(CATALOG)
            functions.register(spark)
            return Query(spark, tuple(state.tables), catalog=True)
    spark = session(repo, jar=False, master=master)
    views = register(spark, repo, ref or "HEAD")
    functions.register(spark)
    return Query(spark, tuple(views.values()), catalog=False)


def run_statement(spark: SparkSession, statement: str) -> DataFrame:
    """Run a statement; what is wrong with it comes as an error of ours."""
    try:
        return spark.sql(statement)
    except PySparkException as error:
        raise query_error(error) from error


class SparkRows:
    """The rows of a statement, a partition at a time; errors are ours."""

    def __init__(self, frame: DataFrame) -> None:
        self._frame = frame

    @property
    def names(self) -> Sequence[str]:
        """The columns' names."""
        return self._frame.columns

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema that holds the rows."""
        return to_arrow_schema(self._frame.schema)

    def rows(self, most: int | None = None) -> Iterator[Row]:
        """Yield the rows, or the first ones."""
        frame = self._frame if most is None else self._frame.limit(most)
        try:
            yield from frame.toLocalIterator()
        except (PySparkException, Py4JError) as error:
            raise query_error(error) from error

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches."""
        found, schema = self.rows(), self.schema
        while chunk := list(islice(found, _CHUNK)):
            columns = [
                pa.array([_native(row[index]) for row in chunk], field.type)
                for index, field in enumerate(schema)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _native(value: Any) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    if hasattr(value, "asDict"):
        return {name: _native(item) for name, item in value.asDict().items()}
    if isinstance(value, dict):
        return [(_native(key), _native(item)) for key, item in value.items()]
    return [_native(item) for item in value] if isinstance(value, list) else value


def query_error(error: Exception) -> Exception:
    """Return what Spark says of a query as an error of one line."""
    text = str(error)
    ours = re.search(r"havasu_vc\.errors\.\w+: ([^\n]+)", text)
    if ours is not None:
        return InvalidArgumentError(ours[1])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if isinstance(error, PySparkException) and error.getCondition() is not None:
        return InvalidArgumentError(f"Spark: {lines[0].rstrip(';')}")
    causes = re.findall(r"(?:Caused by|Exception|Error): ([^\n]+)", text)
    return EngineError(f"Spark: {causes[-1] if causes else lines[0]}")
