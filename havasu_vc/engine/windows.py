"""A run on Spark, window by window: what happens beside the thread that consumes it.

Two threads serve a run, and all talk with the JVM is theirs, so that Ctrl-C in the
consumer never cuts a conversation short. One submits a job per window and hands its
outcome over; it is at most one window ahead. The other watches: it counts finished
chunks for progress, and cancels the job when the run is to stop.
"""

import queue
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from havasu_vc.engine.protocol import one_line
from havasu_vc.engine.worker import Chunk, ChunkOutcome, run_chunks
from havasu_vc.errors import EngineError
from havasu_vc.model.task import Task
from havasu_vc.records import dataclass

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Window", "WindowedRun", "chunks_of"]

Window: TypeAlias = list[ChunkOutcome]
"""The outcome of one job, in task order."""

_CHUNKS_PER_CORE = 3
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
        session: "SparkSession",
        tasks: Sequence[Task],
        folder: Path,
        *,
        budget: int,
        description: str,
    ) -> None:
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
        self._size = _FIRST_TASKS_PER_CORE * self._cores
        self.done = 0
        """Tasks known to be done, as far as Spark tells."""

    def start(self) -> None:
        """Submit the first job and go on from there."""
        from pyspark import inheritable_thread_target

        # The caller's Spark properties hold for our jobs too: a scheduler pool, say.
        submit = inheritable_thread_target(self._session)(self._submit)
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
        translated = EngineError(
            f"Spark gave up on tasks {first + 1} to {last} of {len(self._tasks)}: {_cause(error)}",
            hints=("run again with `--engine local`, or with more memory for the executors",),
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


def _cause(error: Exception) -> str:
    """Return the line of Spark's many that says what happened."""
    java = getattr(error, "java_exception", None)
    text = str(java.toString()) if java is not None else str(error)
    _, traceback, python = text.partition("Traceback (most recent call last):")
    if traceback:
        for line in python.splitlines():
            if line and not line[0].isspace():
                return line
    _, failure, last = text.partition("most recent failure: ")
    lines = (last if failure else text).strip().splitlines()
    return lines[0] if lines else one_line(error)
