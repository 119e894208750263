"""The Spark engine: the same tasks, run by executors, on `local[*]` or any master.

A run goes in *windows* of consecutive tasks. A window is one Spark job: its tasks are
packed into a few chunks, executors leave the batches in spill files of a scratch
folder that every machine sees, and names and extents come back (`engine.worker`). The
consumer maps the files in task order and deletes each after use, while the next
window runs ahead (`engine.windows`). So the driver's memory holds a segment, and the
scratch folder two windows, whose size follows what the tasks before gave. Where machines
share no folder, batches come as rows of a frame, some tasks at a time.

Spark starts at the first run, not before.
"""

from __future__ import annotations

import queue
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from havasu_vc.engine.dealing import run_dealt_in
from havasu_vc.engine.java import ended, ended_here, stop
from havasu_vc.engine.local import LocalEngine
from havasu_vc.engine.partition import partition_tasks
from havasu_vc.engine.probing import probe
from havasu_vc.engine.protocol import Batches, NumberedBatches, Progress, SilentProgress
from havasu_vc.engine.session import (
    CONNECT,
    AnySession,
    BareSession,
    chosen_master,
    given_up,
    inheriting,
    is_local_master,
    master_of,
    require_spark,
    start_context,
    start_session,
)
from havasu_vc.engine.shipping import ensure_package
from havasu_vc.engine.spark_dealing import (
    dealing_frame,
    outcomes_of,
    results_of,
)
from havasu_vc.engine.spark_matching import matched
from havasu_vc.engine.spill import Scratch, read_segment
from havasu_vc.engine.worker import Chunk, ChunkOutcome, parse_error, run_chunks
from havasu_vc.errors import EngineError
from havasu_vc.model.task import Task
from havasu_vc.records import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from havasu_vc.datasets.matching import Comparison

__all__ = ["SparkEngine", "Window", "WindowedRun", "chunks_of"]

SPILL_BUDGET = 8 << 30
DEALS_IN_FOLDERS = True
"""Whether rows that tasks of this machine deal out go to their owners in files of a folder."""


class SparkEngine:
    """Runs tasks as Spark jobs, in a session that is given or that it starts."""

    distributed = True
    """Whether tasks may run on other machines than this one."""

    def __init__(
        self,
        session: SparkSession | None = None,
        master: str | None = None,
        scratch: Path | None = None,
        *,
        conf: Mapping[str, str] | None = None,
        archives: str | None = None,
        spill_budget: int = SPILL_BUDGET,
        progress: Progress | None = None,
        note: Callable[[str], None] | None = None,
    ) -> None:
        if session is None:
            self._master = chosen_master(master)
            if not self._master.startswith(CONNECT):
                require_spark()
        else:
            self._master = master_of(session)
        self.apart = not is_local_master(self._master)
        """Whether tasks run on other machines, so that no folder of this one need be there."""
        self._conf = dict(conf or {})
        self._archives = archives
        self._note = note
        self._shared = scratch is not None or not self.apart
        self._session = session
        self._bare: BareSession | None = None
        self._prepared = False
        self._here: LocalEngine | None = None
        self._owned = False
        self._scratch = Scratch(scratch)
        self._runs: set[WindowedRun] = set()
        self.spill_budget = spill_budget
        """Bytes that the scratch folder is meant to hold; single tasks may give more."""
        self.progress = progress or SilentProgress()
        """Who hears how far a run is."""

    def run(
        self,
        tasks: Sequence[Task],
        *,
        description: str = "",
        anywhere: bool = False,
        brief: bool = False,
    ) -> Batches:
        """Yield the batches of all tasks, in task order."""
        with closing(self._run(tasks, description, anywhere, brief=brief)) as results:
            for _, batch in results:
                yield batch

    def run_each(
        self, tasks: Sequence[Task], *, description: str = "", anywhere: bool = False
    ) -> NumberedBatches:
        """Yield the same batches, each with the index of its task."""
        return self._run(tasks, description, anywhere, brief=False)

    def partition(self, tasks: Sequence[Task], key: Sequence[str], parts: int) -> list[Task]:
        """Run the tasks, deal their rows out by a hash of `key`, return a task for each part."""
        if not self._shared:
            return self._near().partition(tasks, key, parts)
        folder = self._scratch.new_folder("parts")
        return partition_tasks(self, tasks, key, parts, folder=folder)

    def session(self, *, quick: bool = False) -> SparkSession:
        """Return the session, started if need be, whose executors find this package.

        A `quick` one is for tasks in Python, to which Spark's own JVM adds little.
        """
        if self._session is None:
            local = self._scratch.new_folder("spark")
            self._session, owned = start_session(
                self._master, self._conf, local, self._archives, quick=quick
            )
            self._owned = owned or self._bare is not None
        self._prepare(self._session)
        return self._session

    def _soonest(self) -> AnySession:
        """Return what runs tasks in Python: a session, or a context alone, which starts sooner."""
        if self._session is None and self._bare is None:
            local = self._scratch.new_folder("spark")
            self._bare = start_context(self._master, self._conf, local, self._archives)
        if self._session is not None or self._bare is None:
            return self.session(quick=True)
        self._prepare(self._bare)
        return self._bare

    def _prepare(self, session: AnySession) -> None:
        if self._prepared:
            return
        ensure_package(session)
        if not is_local_master(self._master):
            probe(session, self._note or (lambda text: None))
        self._prepared = True

    def run_dealt(
        self,
        dealing: Sequence[Task],
        owners: Sequence[Task],
        *,
        description: str = "",
        anywhere: bool = True,
    ) -> Batches:
        """Run tasks that deal rows out, then their owners, and yield what these yield."""
        if not self._shared and not anywhere:
            yield from self._near().run_dealt(dealing, owners, description=description)
            return
        if DEALS_IN_FOLDERS and not self.apart:
            # Rows need not pass through the JVM to reach a task of the same machine.
            folder = self._scratch.new_folder("pieces")
            try:
                yield from run_dealt_in(self, folder, dealing, owners, description)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            return
        pieces = dealing_frame(self.session(quick=True), dealing, len(owners))
        yield from self.run_owners(pieces, owners, description=description)

    def run_owners(
        self, pieces: DataFrame, owners: Sequence[Task], *, description: str = ""
    ) -> Batches:
        """Run owners of what a frame deals out (`engine.spark_dealing`), and yield what they do."""
        self.progress.start(len(owners), description)
        try:
            yield from outcomes_of(pieces, owners)
            self.progress.advance(len(owners))
        finally:
            self.progress.finish()

    def run_matched(self, comparison: Comparison) -> Batches:
        """Yield the changes between two sides that lie in no common order, by key."""
        self.progress.start(1, "Comparing")
        try:
            yield from matched(self.session(), comparison)
            self.progress.advance(1)
        finally:
            self.progress.finish()

    def close(self) -> None:
        """Stop what runs, the session too if the engine started it, and remove what was spilled."""
        for run in tuple(self._runs):
            run.stop()
        if self._owned and self._session is not None:
            stop(self._session)
        elif self._bare is not None:
            stop(self._bare.sparkContext)
        if self._owned or self._bare is not None:
            self._session = self._bare = None
            self._owned = self._prepared = False
        if self._here is not None:
            self._here.close()
        self._scratch.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        gone = ended_here(error)
        self.close()
        if gone:
            raise ended("the work") from error

    def _run(
        self, tasks: Sequence[Task], description: str, anywhere: bool, *, brief: bool
    ) -> NumberedBatches:
        if not self._shared and not anywhere:
            yield from self._near().run_each(tasks, description=description)
            return
        run = self._run_windows if self._shared else self._run_streamed
        self.progress.start(len(tasks), description)
        try:
            if tasks:
                yield from run(tasks, description, brief=brief)
        finally:
            self.progress.finish()

    def _near(self) -> LocalEngine:
        """Return the engine of this machine, for what needs its files."""
        if self._here is None:
            if self._note is not None:
                self._note(
                    f"files of this machine are needed, which those of {self._master} do not see "
                    "(havasu.spark.scratch names a folder that they share): the work is done here"
                )
            self._here = LocalEngine(progress=self.progress)
        return self._here

    def _run_streamed(
        self, tasks: Sequence[Task], description: str, *, brief: bool
    ) -> NumberedBatches:
        """Run tasks where no folder is shared: what they yield comes through Spark itself."""
        done = 0
        with closing(results_of(self.session(quick=True), tasks, brief=brief)) as rows:
            for index, batches in rows:
                self.progress.advance(index - done)
                done = index
                for batch in batches:
                    yield index, batch
        self.progress.advance(len(tasks) - done)

    def _run_windows(
        self, tasks: Sequence[Task], description: str, *, brief: bool
    ) -> NumberedBatches:
        folder = self._scratch.new_folder("run")
        run = WindowedRun(
            self._soonest(),
            tasks,
            folder,
            budget=self.spill_budget,
            description=description,
            brief=brief,
        )
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
            raise parse_error(outcome.error)
    if chunk.path is not None:
        with suppress(OSError):  # the run's folder goes as a whole at the end
            Path(chunk.path).unlink()


def _insist_visible(path: str) -> None:
    if not Path(path).exists():
        raise EngineError(
            f"what an executor wrote is not here: {path}",
            hints=("the scratch folder must be one that all machines share under one path",),
        )


# A run on Spark, window by window: what happens beside the thread that consumes it.
#
# Two threads serve a run, and all talk with the JVM is theirs, so that Ctrl-C in the
# consumer never cuts a conversation short. One submits a job per window and hands its
# outcome over; it is at most one window ahead. The other watches: it counts finished
# chunks for progress, and cancels the job when the run is to stop.

Window: TypeAlias = list[ChunkOutcome]
"""The outcome of one job, in task order."""

_CHUNKS_PER_CORE = 8
"""Enough that the last ones end at about one time; each costs some 30 ms."""
_FIRST_TASKS_PER_CORE = 4
_GROWTH = 8
_POLL_SECONDS = 0.1
_PATIENCE = 10.0
"""Seconds that a run which stops waits for Spark to cancel its job."""


@dataclass(frozen=True, slots=True)
class _Job:
    group: str
    first: int
    tasks: int
    chunks: int


class WindowedRun:
    """The jobs of one run, started by `start` and ended by `stop`."""

    def __init__(
        self,
        session: AnySession,
        tasks: Sequence[Task],
        folder: Path,
        *,
        budget: int,
        description: str,
        brief: bool = False,
    ) -> None:
        """Make a run; if its tasks are `brief` they are one job, so that no core waits."""
        self._session = session
        self._context = session.sparkContext
        self._cores = max(1, self._context.defaultParallelism)
        self._tasks = tasks
        self._folder = folder
        self._budget = budget
        self._description = description or "havasu-vc"
        self._outcomes: queue.SimpleQueue[Window | BaseException | None] = queue.SimpleQueue()
        self._slots = threading.Semaphore(2)  # the window being consumed, and the next
        self._stopping = threading.Event()
        self._finished = threading.Event()
        self._job: _Job | None = None
        self._size = len(tasks) if brief else _FIRST_TASKS_PER_CORE * self._cores
        self.done = 0
        """Tasks known to be done, as far as Spark tells."""

    def start(self) -> None:
        """Submit the first job and go on from there."""
        # The caller's Spark properties hold for our jobs too: a scheduler pool, say.
        submit = inheriting(self._session, self._submit)
        threading.Thread(target=submit, name="havasu-vc-spark", daemon=True).start()
        threading.Thread(target=self._watch, name="havasu-vc-spark-watch", daemon=True).start()

    def next_window(self, meanwhile: Callable[[], None]) -> Window | None:
        """Return the next window, None after the last; calls `meanwhile` now and then."""
        while True:
            meanwhile()
            try:
                outcome = self._outcomes.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome

    def release(self) -> None:
        """Say that the last window given is consumed: another may start."""
        self._slots.release()

    def stop(self) -> None:
        """Cancel what runs, and wait a while until nothing does."""
        self._stopping.set()
        self._slots.release()
        self._finished.wait(_PATIENCE)

    def _submit(self) -> None:
        first = 0
        try:
            while first < len(self._tasks):
                self._slots.acquire()
                if self._stopping.is_set():
                    return
                window = self._run_job(first)
                self.done = first = min(first + self._size, len(self._tasks))
                self._outcomes.put(window)
                if any(task.error for chunk in window for task in chunk.tasks):
                    return
                self._learn(window)
        except Exception as error:
            self._outcomes.put(self._translated(error, first))
        finally:
            self._finished.set()
            self._outcomes.put(None)

    def _run_job(self, first: int) -> Window:
        tasks = self._tasks[first : first + self._size]
        chunks = chunks_of(tasks, first, _CHUNKS_PER_CORE * self._cores, self._folder)
        group = f"{self._folder.name}-{first}"
        self._context.setJobGroup(group, self._description, interruptOnCancel=True)
        self._job = _Job(group, first, len(tasks), len(chunks))
        return self._context.parallelize(chunks, len(chunks)).mapPartitions(run_chunks).collect()

    def _learn(self, window: Window) -> None:
        """Choose the size of the next window from what this one gave."""
        tasks = sum(len(chunk.tasks) for chunk in window)
        size = sum(chunk.size for chunk in window)
        fitting = self._budget // 2 * tasks // max(size, 1)
        self._size = max(self._cores, min(fitting, self._size * _GROWTH))

    def _watch(self) -> None:
        tracker: Any = None
        while not self._finished.wait(_POLL_SECONDS):
            job = self._job
            if job is None:
                continue
            try:
                if self._stopping.is_set():
                    # Again and again: the job may not have been submitted yet.
                    self._context.cancelJobGroup(job.group)
                    continue
                tracker = tracker or self._context.statusTracker()
                chunks = _finished_chunks(tracker, job.group)
            except Exception:
                return  # the session was stopped; the other thread hears of it
            self.done = max(self.done, job.first + job.tasks * chunks // job.chunks)

    def _translated(self, error: Exception, first: int) -> EngineError:
        if self._stopping.is_set():
            return EngineError("the run was stopped")
        last = min(first + self._size, len(self._tasks))
        tasks = f"tasks {first + 1} to {last} of {len(self._tasks)}"
        translated = given_up(
            tasks,
            error,
            "run again with `--engine local`, or with more memory for the executors",
        )
        translated.__cause__ = error
        return translated


def chunks_of(tasks: Sequence[Task], first: int, most: int, folder: Path) -> list[Chunk]:
    """Return the tasks in at most so many chunks of about equal length, in order."""
    count = min(most, len(tasks))
    ends = [len(tasks) * (number + 1) // count for number in range(count)]
    return [
        Chunk(first + start, tuple(tasks[start:end]), str(folder))
        for start, end in zip([0, *ends], ends, strict=False)
    ]


def _finished_chunks(tracker: Any, group: str) -> int:
    done = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info is not None else ():
            stage_info = tracker.getStageInfo(stage)
            done = max(done, stage_info.numCompletedTasks if stage_info is not None else 0)
    return done
