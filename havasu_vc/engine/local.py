"""The local engine: threads of this process, working ahead within a budget of bytes.

Tasks start in order and are delivered in order. Threads work ahead of the consumer
while finished batches that wait fit the budget; beyond that they hold one batch each
and wait. The task being consumed is never held up while its own queue is empty, so
the run always moves on, and a task of any size is streamed.

One task or one thread runs in the consumer's own thread, so that small commands pay
nothing. With `processes`, what threads could not run side by side is sent to processes
(`engine.processes`).
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from havasu_vc.engine.protocol import (
    Batches,
    NumberedBatches,
    Progress,
    SilentProgress,
    checked_batches,
)
from havasu_vc.engine.spill import Scratch
from havasu_vc.model.task import Task, is_busy

if TYPE_CHECKING:
    from havasu_vc.datasets.matching import Comparison
    from havasu_vc.engine.processes import Workers

__all__ = ["LocalEngine"]

BUDGET = 96 << 20
_BATCH_COST = 2048
"""The cost of a batch beside its data: many tiny ones are not free."""
_PATIENCE = 5.0
"""Seconds that a run which stops waits for kernels to come to their next batch."""


class LocalEngine:
    """Runs tasks in threads of this process."""

    distributed = False
    """Whether tasks may run on other machines than this one."""
    apart = False
    """Whether they do, so that no folder of this machine need be there."""

    def __init__(
        self,
        *,
        threads: int | None = None,
        budget: int = BUDGET,
        scratch: Path | None = None,
        progress: Progress | None = None,
        processes: bool = False,
        alone: bool = False,
    ) -> None:
        if threads is not None and threads < 1:
            raise ValueError(f"cannot work with {threads} threads")
        self.threads = threads or os.cpu_count() or 1
        """How many tasks run at once."""
        self.budget = budget
        """Bytes of finished batches that may wait for the consumer."""
        self.progress = progress or SilentProgress()
        """Who hears how far a run is."""
        self.processes = processes
        """Whether tasks that keep Python busy run in processes, which take a moment to start."""
        self.alone = alone
        """Whether tasks that keep Python busy run one by one: who takes their rows does so too."""
        self._scratch = Scratch(scratch)
        self._workers: Workers | None = None

    def run(
        self,
        tasks: Sequence[Task],
        *,
        description: str = "",
        anywhere: bool = False,
        brief: bool = False,
    ) -> Batches:
        """Yield the batches of all tasks, in task order."""
        with closing(self.run_each(tasks, description=description)) as results:
            for _, batch in results:
                yield batch

    def run_each(
        self, tasks: Sequence[Task], *, description: str = "", anywhere: bool = False
    ) -> NumberedBatches:
        """Yield the same batches, each with the index of its task."""
        self.progress.start(len(tasks), description)
        try:
            if len(tasks) <= 1 or self.threads == 1 or (self.alone and all(map(is_busy, tasks))):
                yield from self._run_here(tasks)
            else:
                yield from self._run_ahead(self._spread(tasks))
        finally:
            self.progress.finish()

    def partition(self, tasks: Sequence[Task], key: Sequence[str], parts: int) -> list[Task]:
        """Run the tasks, deal their rows out by a hash of `key`, return a task for each part."""
        from havasu_vc.engine.partition import partition_tasks

        folder = self._scratch.new_folder("parts")
        return partition_tasks(self, tasks, key, parts, folder=folder)

    def run_dealt(
        self,
        dealing: Sequence[Task],
        owners: Sequence[Task],
        *,
        description: str = "",
        anywhere: bool = True,
    ) -> Batches:
        """Run tasks that deal rows out, then their owners, and yield what these yield."""
        from havasu_vc.engine.dealing import run_dealt_in

        folder = self._scratch.new_folder("dealt")
        yield from run_dealt_in(self, folder, dealing, owners, description)

    def run_matched(self, comparison: Comparison) -> None:
        """Return None: parts in files of the scratch folder cost less here."""

    def close(self) -> None:
        """End processes and remove what was spilled."""
        if self._workers is not None:
            self._workers.close()
            self._workers = None
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

    def _spread(self, tasks: Sequence[Task]) -> Sequence[Task]:
        """Return tasks for threads, with those sent to processes that had better be."""
        if not self.processes or not any(map(is_busy, tasks)):
            return tasks
        from havasu_vc.engine.processes import Workers

        self._workers = self._workers or Workers()
        return self._workers.sent(tasks, self._scratch.new_folder("processes"))

    def _run_here(self, tasks: Sequence[Task]) -> NumberedBatches:
        for index, task in enumerate(tasks):
            for batch in checked_batches(task):
                yield index, batch
            self.progress.advance(1)

    def _run_ahead(self, tasks: Sequence[Task]) -> NumberedBatches:
        work = _WorkAhead(tasks, self.budget)
        try:
            work.start(min(self.threads, len(tasks)))
            for index in range(len(tasks)):
                work.turn_to(index)
                while (batch := work.next_batch(index)) is not None:
                    yield index, batch
                self.progress.advance(1)
        finally:
            work.let_none_begin()
            if self._workers is not None:
                self._workers.stop()
            work.stop()


class _Result:
    """The batches that a task has given so far."""

    __slots__ = ("batches", "done", "error")

    def __init__(self) -> None:
        self.batches: deque[tuple[pa.RecordBatch, int]] = deque()
        self.done = False
        self.error: BaseException | None = None


class _WorkAhead:
    """The state that the threads of one run and its consumer share, under one lock."""

    def __init__(self, tasks: Sequence[Task], budget: int) -> None:
        self._tasks = tasks
        self._budget = budget
        self._threads: list[threading.Thread] = []
        lock = threading.Lock()
        self._arrived = threading.Condition(lock)  # the consumer waits for it
        self._room = threading.Condition(lock)  # threads with a batch too many wait for it
        self._results: dict[int, _Result] = {}
        self._next = 0
        self._current = 0
        self._held = 0
        self._end = len(tasks)  # no task from here on matters: stopped, or one before failed

    def start(self, count: int) -> None:
        for number in range(count):
            name = f"havasu-vc-task-{number}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def turn_to(self, index: int) -> None:
        """Say that task `index` is the one consumed from now on."""
        with self._room:
            self._current = index
            self._room.notify_all()

    def next_batch(self, index: int) -> pa.RecordBatch | None:
        """Return the next batch of the task being consumed, None after its last."""
        with self._arrived:
            while True:
                result = self._results.get(index)
                if result is not None and result.batches:
                    batch, cost = result.batches.popleft()
                    self._held -= cost
                    self._room.notify_all()
                    return batch
                if result is not None and result.done:
                    del self._results[index]
                    break
                self._arrived.wait()
        if result.error is not None:
            raise result.error
        return None

    def let_none_begin(self) -> None:
        """Let no task begin, nor one go on that comes to its next batch."""
        with self._room:
            self._end = 0
            self._results.clear()
            self._room.notify_all()

    def stop(self) -> None:
        """Wait a while until no task goes on."""
        deadline = time.monotonic() + _PATIENCE
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _work(self) -> None:
        while (index := self._begin_next()) is not None:
            error: BaseException | None = None
            try:
                with closing(checked_batches(self._tasks[index])) as batches:
                    for batch in batches:
                        if not self._offer(index, batch):
                            break
            except BaseException as caught:
                error = caught
            self._end_task(index, error)

    def _begin_next(self) -> int | None:
        with self._room:
            index = self._next
            if index >= self._end:
                return None
            self._next += 1
            self._results[index] = _Result()
            return index

    def _offer(self, index: int, batch: pa.RecordBatch) -> bool:
        """Hand a batch over once there is room; False when nobody wants it any more."""
        cost = batch.nbytes + _BATCH_COST
        with self._room:
            while index < self._end:
                batches = self._results[index].batches
                wanted = index == self._current and not batches
                if wanted or self._held + cost <= self._budget:
                    batches.append((batch, cost))
                    self._held += cost
                    self._arrived.notify()
                    return True
                self._room.wait()
            return False

    def _end_task(self, index: int, error: BaseException | None) -> None:
        with self._room:
            result = self._results.get(index)
            if result is None:
                return  # stopped
            result.done = True
            result.error = error
            if error is not None:
                # Tasks before this one go on, so that the first error in task order is raised.
                self._end = min(self._end, index)
                self._room.notify_all()
            self._arrived.notify()
