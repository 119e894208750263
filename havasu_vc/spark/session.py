"""Spark sessions for people: quiet, on this Python, with a checkout as catalog `havasu`.

A session that runs is used as it is. It gets the catalog too, unless it has one of that
name over another folder: then a new session of the same application has it.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from havasu_vc.engine.choose import EngineSettings, configured
from havasu_vc.engine.session import (
    CONNECT,
    chosen_master,
    is_local_master,
    require_spark,
    start_session,
)
from havasu_vc.engine.shipping import ship_package
from havasu_vc.errors import (
    EngineError,
    InvalidArgumentError,
    MissingProgramError,
    StateError,
    UnsupportedVersionError,
)
from havasu_vc.library import Repo
from havasu_vc.records import dataclass
from havasu_vc.spark import functions
from havasu_vc.spark.jars import (
    BUCKET_JAR_SETTING,
    JAR_SETTING,
    JAR_VARIABLE,
    NONE,
    NamedJar,
    bucket_jars,
    bucket_settings,
    jar_settings,
    named_jar,
    runtime_coordinates,
)
from havasu_vc.spark.reading import register
from havasu_vc.store.object_urls import is_url
from havasu_vc.workspace.state import read_state

__all__ = [
    "CATALOG",
    "Query",
    "SparkRows",
    "catalog_settings",
    "jar_wanted",
    "open_query",
    "query_error",
    "run_statement",
    "session",
    "session_settings",
    "warehouse_of",
]

CATALOG = "havasu"
"""SQL's name for the tables that are checked out: `havasu.parcels`, `havasu.nz.roads`."""
_CATALOG_CLASS = "org.apache.iceberg.spark.SparkCatalog"
_UNFIT = re.compile(
    r"NoSuchMethod|NoSuchField|NoClassDef|ClassNotFound|IncompatibleClassChange|AbstractMethod"
    r"|UnsupportedClassVersion|VerifyError|LinkageError|Cannot find catalog plugin class"
)
"""Words of a JVM where classes were not made for each other."""
_JARS = Path(pyspark.__file__).parent / "jars"
_MANY_FILES = {
    # Commits leave small files. Together they are one task, and no job goes to look at them.
    "spark.sql.files.openCostInBytes": "65536",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "2000",
}


def session(
    repo: Repo | str | Path | None = None,
    *,
    jar: bool = True,
    master: str | None = None,
    tables: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a Spark session; with a repository, its checkout is the catalog `havasu`.

    Without `jar`, or without a repository, no Iceberg is fetched: `read`, `register`,
    `changes`, `history` and `write` need none. With `tables`, the catalog is over the tables
    below that URL, which `checkout --to` made, instead of the checkout. `settings` are Spark's,
    as `{"spark.driver.memory": "4g"}`. `master` may be a server of Spark Connect, `sc://HOST`.
    """
    opened = _opened(repo)
    told = EngineSettings() if opened is None else configured(opened.config)
    place = chosen_master(master or (settings or {}).get("spark.master") or told.master)
    if place.startswith(CONNECT):
        # Jars and catalogs are the server's own matter.
        every = {**told.conf, **session_settings(None, jar=False), **(settings or {})}
        return start_session(place, every, Path())[0]
    require_spark()
    wanted = jar and opened is not None
    every = session_settings(opened, jar=wanted, tables=tables) | dict(settings or {})
    if SparkContext._active_spark_context is not None:
        running = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
        if not wanted or opened is None:
            return running
        return _with_catalog(running, tables or warehouse_of(opened))
    scratch = Path(tempfile.mkdtemp(prefix="havasu-vc-spark-"))
    atexit.register(shutil.rmtree, scratch, True)
    every = {**told.conf, **every}
    try:
        started, _ = start_session(place, every, scratch, told.archives)
    except EngineError as error:
        raise _without_jar(error, jar_wanted(opened)) from error
    if not is_local_master(place):
        ship_package(started)
    if wanted:
        _require_iceberg(started, jar_wanted(opened))
        _require_catalog(started)
    return started


def jar_wanted(repo: Repo | None) -> NamedJar | None:
    """Return the jar that a setting names, in the environment or in a repository, if any."""
    named = named_jar(None if repo is None else repo.config.get(JAR_SETTING))
    return None if named is None or named.text == NONE else named


def session_settings(
    repo: Repo | None, *, jar: bool = True, tables: str | None = None
) -> dict[str, str]:
    """Return what a session needs: the Iceberg runtime, and the catalog over the checkout.

    With `tables`, the catalog is over that URL, and what Spark needs to read there comes along.
    """
    settings = dict(_MANY_FILES)
    if jar:
        named = None if repo is None else repo.config.get(JAR_SETTING)
        settings |= jar_settings(pyspark.__version__, named)
        place = tables if tables is not None or repo is None else warehouse_of(repo)
        if isinstance(place, str):
            settings |= bucket_settings(place, os.environ)
            wanted = () if repo is None else repo.config.all(BUCKET_JAR_SETTING)
            for name, value in bucket_jars(_JARS, wanted).items():
                settings[name] = f"{settings[name]},{value}" if name in settings else value
        if place is not None:
            settings |= catalog_settings(place)
    return settings


def catalog_settings(warehouse: Path | str, name: str = CATALOG) -> dict[str, str]:
    """Return the settings of an Iceberg catalog over a folder of tables.

    Nothing is cached, so that a session sees a checkout at once.
    """
    catalog = f"spark.sql.catalog.{name}"
    return {
        catalog: _CATALOG_CLASS,
        f"{catalog}.type": "hadoop",
        f"{catalog}.warehouse": (
            warehouse if isinstance(warehouse, str) else warehouse.resolve().as_uri()
        ),
        f"{catalog}.cache-enabled": "false",
    }


def warehouse_of(repo: Repo) -> Path | str:
    """Return the folder that holds the tables of a repository's checkout, or their URL."""
    state = read_state(repo.git.git_directory)
    if state is not None:
        return state.root
    configured = repo.config.get("havasu.workspace.path") or "tables"
    if is_url(configured):
        return repo.workspace.place
    return Path(configured) if Path(configured).is_absolute() else repo.path / configured


def _opened(repo: Repo | str | Path | None) -> Repo | None:
    return repo if repo is None or isinstance(repo, Repo) else Repo.open(repo)


def _with_catalog(running: SparkSession, warehouse: Path | str) -> SparkSession:
    """Return a session of the running application that has the catalog."""
    _require_iceberg(running)
    settings = catalog_settings(warehouse)
    if isinstance(warehouse, str):
        _require_bucket(running, warehouse)
    place = f"spark.sql.catalog.{CATALOG}.warehouse"
    there = running.conf.get(place, None)
    chosen = running if there in (None, settings[place]) else running.newSession()
    _configure(chosen, settings)
    return chosen


def _require_bucket(running: SparkSession, url: str) -> None:
    """Raise unless a session that runs was started so that it reads a bucket."""
    wanted = bucket_settings(url, os.environ)
    if any(running.conf.get(name, None) != value for name, value in wanted.items()):
        raise StateError(
            f"the Spark session that runs was not started for tables at {url}",
            hints=("stop it first: `session(repo)` starts one with what `spark-conf` prints",),
        )


def _configure(chosen: SparkSession, settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        chosen.conf.set(name, value)


def _require_iceberg(running: SparkSession, named: NamedJar | None = None) -> None:
    """Raise unless the JVM of a session has the Iceberg runtime.

    `named` is what a session that was started here was to have.
    """
    jvm = running.sparkContext._jvm
    assert jvm is not None
    try:
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        found = loader.loadClass(_CATALOG_CLASS)
        jvm.java.lang.Class.forName(found.getName(), True, loader)
    except Exception as error:
        text = str(error)
        if "ClassNotFound" in text or "NoClassDefFound" in text:
            if named is not None:
                raise InvalidArgumentError(
                    f"{named.text} is not Iceberg's runtime for Spark",
                    hints=(
                        f"have {named.setting} name {runtime_coordinates(pyspark.__version__)}",
                    ),
                ) from error
            raise StateError(
                "the Spark that runs here was started without the Iceberg runtime",
                hints=(
                    "stop it and let `havasu_vc.spark.session(repo)` start one",
                    "or start yours with the settings that `havasu-vc spark-conf` prints",
                ),
            ) from error
        raise _wrong_jar(error) from error


def _require_catalog(running: SparkSession) -> None:
    """Raise where the Iceberg runtime of a session was made for another Spark.

    It must be the active one: a catalog is made with that one's settings.
    """
    try:
        running._jsparkSession.sessionState().catalogManager().catalog(CATALOG)
    except Exception as error:
        # What else is wrong, as with a bucket, is for the query to say.
        if _UNFIT.search(str(error)):
            raise _wrong_jar(error) from error


def _wrong_jar(error: Exception) -> UnsupportedVersionError:
    line = str(getattr(error, "java_exception", error)).splitlines()[0]
    return UnsupportedVersionError(
        f"the Iceberg runtime does not fit Spark {pyspark.__version__}: {line}",
        hints=(f"use {runtime_coordinates(pyspark.__version__)}",),
    )


def _without_jar(error: EngineError, named: NamedJar | None) -> Exception:
    """Return what to raise where Spark did not start: often a jar that cannot be fetched."""
    if "unresolved dependency" in error.message or "not found" in error.message:
        return MissingProgramError(
            f"the Iceberg runtime could not be fetched: {error.message.rpartition(': ')[2]}",
            hints=(
                "connect to the network once; what was fetched is kept"
                if named is None
                else f"{named.setting} names {named.text}: is that right, and is there a network?",
                f"or point {JAR_VARIABLE} at a copy of {runtime_coordinates(pyspark.__version__)}",
                "or work without it: `havasu_vc.spark.read` needs no jar",
            ),
        )
    return error


# Queries by people: a session with everything set, errors in one line.
#
# Where a workspace is checked out and the Iceberg runtime can be had, SQL works on the
# tables of the checkout, which it may also change. Else, or at another revision, every
# dataset is a view, which is read only.


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
    state = read_state(repo.git.git_directory) if jar and ref is None else None
    told = master or configured(repo.config).master
    if state is not None and chosen_master(told).startswith(CONNECT):
        note(
            "a server of Spark Connect has no catalog of the checkout; "
            "the datasets of HEAD are views instead"
        )
    elif state is not None:
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
