"""The executors of a cluster, looked at by the first task: before any work, in one sentence.

A worker with another Python, without pyarrow or with a havasu-vc of its own would fail in the
middle, a page of Java for each attempt. Asked once for each cluster and process.
"""

from __future__ import annotations

import platform
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec

import pyarrow as pa

from havasu_vc.engine.session import AnySession, application_of, cores_of, is_connect, master_of
from havasu_vc.engine.shipping import shipped_name
from havasu_vc.engine.spark_dealing import collected, collected_by
from havasu_vc.errors import EngineError

__all__ = ["PATIENCE", "probe"]

PATIENCE = 20.0
"""Seconds until a person is told that no worker came; those of a cluster take some to start."""
_FACTS = "host string, place string, pyarrow string, lacking string"
_NEEDED = ("numpy", "pygit2", "shapely")
"""Packages that most tasks need besides pyarrow."""
_TASKS_A_CORE = 2
_asked: set[str] = set()


def probe(session: AnySession, note: Callable[[str], None]) -> None:
    """Note what a person should know of a session's executors; raise if no task can run there."""
    application = application_of(session)
    if application in _asked:
        return
    count = cores_of(session) * _TASKS_A_CORE
    try:
        with _telling_of_want(session, note):
            rows = _told_by(session, count)
    except EngineError as error:
        _, _, cause = error.message.partition(": ")
        if not cause:
            raise  # it says all by itself
        raise EngineError(
            f"the executors of {master_of(session)} cannot run tasks of havasu-vc: {cause}",
            hints=(
                "PYSPARK_PYTHON names their Python: of this one's version, with pyarrow",
                "or send one: `git config havasu.spark.archives ENVIRONMENT.tar.gz#environment`",
            ),
        ) from error
    sent = shipped_name(session)
    for host, place, _, lacking in rows:
        if lacking:
            said = f"the Python of the worker on {host} has no {lacking}, which tasks need"
            raise EngineError(said, hints=("have it there as `pip install havasu-vc` brings it",))
        if sent is not None and sent not in place:
            raise EngineError(
                f"the worker on {host} runs another havasu-vc: {place}",
                hints=("take it off the Python path of the workers: they are sent this one",),
            )
    _asked.add(application)
    others = sorted({(found, host) for host, _, found, _ in rows if found != pa.__version__})
    for found, host in others:
        note(
            f"the worker on {host} has pyarrow {found}, and this machine {pa.__version__}: "
            "rows are the same, names of files may not be"
        )


@contextmanager
def _telling_of_want(session: AnySession, note: Callable[[str], None]) -> Iterator[None]:
    """Note it when a cluster gives no worker for long, as Spark waits for one without a word."""

    def look() -> None:
        with suppress(Exception):  # all may have come to its end meanwhile
            # The driver is one of them.
            if session.sparkContext._jsc.sc().getExecutorMemoryStatus().size() == 1:
                note(
                    f"{master_of(session)} has given no worker for {PATIENCE:.0f} seconds, and is "
                    "waited for: all may be taken, or none has what spark.executor.memory and "
                    "spark.executor.cores ask for"
                )

    if is_connect(session):
        yield
        return
    timer = threading.Timer(PATIENCE, look)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _told_by(session: AnySession, count: int) -> list[tuple[str, str, str, str]]:
    """Return what so many tasks tell of where they run."""
    if is_connect(session):
        rows = collected(session.range(0, count, 1, count).mapInArrow(_facts_of_rows, _FACTS))
        return [(row.host, row.place, row.pyarrow, row.lacking) for row in rows]
    # Without SQL, whose first query costs the driver and each executor a second or two.
    asked = session.sparkContext.parallelize(range(count), count).mapPartitions(_facts)
    return collected_by(session, asked.collect, "the first task")


def _facts(_: Iterable[object]) -> Iterator[tuple[str, str, str, str]]:
    package = sys.modules[__name__.partition(".")[0]]
    lacking = [name for name in _NEEDED if find_spec(name) is None]
    yield platform.node(), package.__file__ or "", pa.__version__, " and no ".join(lacking)


def _facts_of_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for values in _facts(batch):
            columns = [pa.array([value], pa.string()) for value in values]
            yield pa.RecordBatch.from_arrays(columns, ["host", "place", "pyarrow", "lacking"])
