"""The executors of a cluster, looked at by the first task: before any work, in one sentence.

A worker with another Python, without pyarrow or with a havasu-vc of its own would fail in the
middle, a page of Java for each attempt. Asked once for each cluster and process.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import pyarrow as pa

from havasu_vc.engine.session import shipped_name
from havasu_vc.engine.spark_dealing import collected
from havasu_vc.errors import EngineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["probe"]

_FACTS = "host string, place string, pyarrow string, obstore string"
_TASKS_A_CORE = 2
_asked: set[str] = set()


def probe(session: SparkSession) -> list[str]:
    """Return what a person should know of a session's executors; raise if no task can run there."""
    context = session.sparkContext
    if context.applicationId in _asked:
        return []
    count = max(context.defaultParallelism, 1) * _TASKS_A_CORE
    try:
        rows = collected(session.range(0, count, 1, count).mapInArrow(_facts, _FACTS))
    except EngineError as error:
        _, _, cause = error.message.partition(": ")
        if not cause:
            raise  # it says all by itself
        raise EngineError(
            f"the executors of {context.master} cannot run tasks of havasu-vc: {cause}",
            hints=(
                "PYSPARK_PYTHON names their Python: of this one's version, with pyarrow",
                "or send one: `git config havasu.spark.archives ENVIRONMENT.tar.gz#environment`",
            ),
        ) from error
    sent = shipped_name(session)
    for row in rows:
        if sent is not None and sent not in row.place:
            raise EngineError(
                f"the worker on {row.host} runs another havasu-vc: {row.place}",
                hints=("take it off the Python path of the workers: they are sent this one",),
            )
    _asked.add(context.applicationId)
    others = sorted({(row.pyarrow, row.host) for row in rows if row.pyarrow != pa.__version__})
    return [
        f"the worker on {host} has pyarrow {found}, and this machine {pa.__version__}: rows are "
        "the same, names of files may not be"
        for found, host in others
    ]


def _facts(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    package = sys.modules[__name__.partition(".")[0]]
    for _ in batches:
        try:
            obstore = version("obstore")
        except PackageNotFoundError:
            obstore = None
        values = [platform.node(), package.__file__ or "", pa.__version__, obstore]
        columns = [pa.array([value], pa.string()) for value in values]
        yield pa.RecordBatch.from_arrays(columns, ["host", "place", "pyarrow", "obstore"])
