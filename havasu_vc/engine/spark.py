"""The Spark engine: the same tasks, run by executors, on `local[*]` or any master.

A run goes in *windows* of consecutive tasks. A window is one Spark job: its tasks are
packed into a few chunks, executors leave the batches in spill files of a scratch
folder that every machine sees, and names and extents come back (`engine.worker`). The
consumer maps the files in task order and deletes each after use, while the next
window runs ahead (`engine.windows`). So the driver's memory holds a segment, and the
scratch folder two windows, whose size follows what the tasks before gave.

Spark starts at the first run, not before.
"""

import pickle
import shutil
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from havasu_vc.engine.partition import partition_tasks
from havasu_vc.engine.protocol import Batches, NumberedBatches, Progress, SilentProgress
from havasu_vc.engine.scratch import Scratch
from havasu_vc.engine.session import ensure_package, is_local_master, require_spark, start_session
from havasu_vc.engine.spill import read_segment
from havasu_vc.engine.windows import WindowedRun
from havasu_vc.engine.worker import ChunkOutcome
from havasu_vc.errors import EngineError, HavasuError, InvalidArgumentError
from havasu_vc.model.task import Task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkEngine"]

SPILL_BUDGET = 8 << 30


class SparkEngine:
    """Runs tasks as Spark jobs, in a session that is given or that it starts."""

    def __init__(
        self,
        session: "SparkSession | None" = None,
        master: str | None = None,
        scratch: Path | None = None,
        *,
        spill_budget: int = SPILL_BUDGET,
        progress: Progress | None = None,
    ) -> None:
        if session is None:
            self._master = master or "local[*]"
            require_spark()
        else:
            self._master = _master_of(session)
        if scratch is None and not is_local_master(self._master):
            raise InvalidArgumentError(
                f"Spark on {self._master} needs a folder that all its machines share",
                hints=("name one with the scratch setting", "or use a local master"),
            )
        self._session = session
        self._prepared = False
        self._owned = False
        self._scratch = Scratch(scratch)
        self._runs: set[WindowedRun] = set()
        self.spill_budget = spill_budget
        """Bytes that the scratch folder is meant to hold; single tasks may give more."""
        self.progress = progress or SilentProgress()
        """Who hears how far a run is."""

    def run(self, tasks: Sequence[Task], *, description: str = "") -> Batches:
        """Yield the batches of all tasks, in task order."""
        with closing(self.run_each(tasks, description=description)) as results:
            for _, batch in results:
                yield batch

    def run_each(self, tasks: Sequence[Task], *, description: str = "") -> NumberedBatches:
        """Yield the same batches, each with the index of its task."""
        self.progress.start(len(tasks), description)
        try:
            if tasks:
                yield from self._run_windows(tasks, description)
        finally:
            self.progress.finish()

    def partition(self, tasks: Sequence[Task], key: Sequence[str], parts: int) -> list[Task]:
        """Run the tasks, deal their rows out by a hash of `key`, return a task for each part."""
        folder = self._scratch.new_folder("parts")
        return partition_tasks(self, tasks, key, parts, folder=folder)

    def session(self) -> "SparkSession":
        """Return the session, started if need be, whose executors find this package."""
        if self._session is None:
            local = self._scratch.new_folder("spark")
            self._session, self._owned = start_session(self._master, {}, local)
        if not self._prepared:
            ensure_package(self._session)
            self._prepared = True
        return self._session

    def close(self) -> None:
        """Stop what runs, the session too if the engine started it, and remove what was spilled."""
        for run in tuple(self._runs):
            run.stop()
        if self._owned and self._session is not None:
            self._session.stop()
            self._session = None
            self._owned = self._prepared = False
        self._scratch.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _run_windows(self, tasks: Sequence[Task], description: str) -> NumberedBatches:
        session = self.session()
        folder = self._scratch.new_folder("run")
        run = WindowedRun(session, tasks, folder, budget=self.spill_budget, description=description)
        reported = 0

        def report() -> None:
            nonlocal reported
            done = run.done
            if done > reported:
                self.progress.advance(done - reported)
                reported = done

        self._runs.add(run)
        try:
            run.start()
            delivered = 0
            while (window := run.next_window(report)) is not None:
                for chunk in window:
                    yield from _delivered(chunk, delivered)
                    delivered += len(chunk.tasks)
                run.release()
            if delivered < len(tasks):
                raise EngineError(f"Spark stopped after {delivered} of {len(tasks)} tasks")
            report()
        finally:
            run.stop()
            self._runs.discard(run)
            shutil.rmtree(folder, ignore_errors=True)


def _delivered(chunk: ChunkOutcome, expected: int) -> NumberedBatches:
    """Yield the batches of a chunk and delete its file; raise the error that ended it."""
    for index, outcome in enumerate(chunk.tasks, expected):
        if outcome.index != index:
            # An attempt that Spark forgot has failed and made others stop.
            raise EngineError(f"task {index} was not run; try again")
        for offset, length in outcome.extents:
            assert chunk.path is not None
            _insist_visible(chunk.path)
            for batch in read_segment(chunk.path, offset, length):
                yield index, batch
        if outcome.error is not None:
            error: HavasuError = pickle.loads(outcome.error)
            raise error
    if chunk.path is not None:
        with suppress(OSError):  # the run's folder goes as a whole at the end
            Path(chunk.path).unlink()


def _insist_visible(path: str) -> None:
    if not Path(path).exists():
        raise EngineError(
            f"what an executor wrote is not here: {path}",
            hints=("the scratch folder must be one that all machines share under one path",),
        )


def _master_of(session: "SparkSession") -> str:
    from pyspark.errors import PySparkException

    try:
        return str(session.sparkContext.master)
    except (PySparkException, AttributeError) as error:
        raise InvalidArgumentError(
            "this Spark session is a Spark Connect one, which cannot run tasks",
            hints=("start one with `SparkSession.builder.master(...)`",),
        ) from error
