"""The promise of an engine: it decides where tasks run, and never what comes out.

Every engine delivers the batches of task 0, then those of task 1, and so on. Memory
is bounded by batches and a budget, not by the sum of the results. An error of the
tree in `errors.py` comes out as itself, at its task's place in the order, after the
batches before it; any other exception of a kernel becomes an `EngineError` that
names the task. Closing the iterator, or Ctrl-C, stops the work.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

import pyarrow as pa

from havasu_vc.errors import EngineError, HavasuError
from havasu_vc.model.task import Task, run_task
from havasu_vc.store.disk import no_room

if TYPE_CHECKING:
    from havasu_vc.datasets.matching import Comparison

__all__ = ["Batches", "Engine", "NumberedBatches", "Progress", "SilentProgress", "checked_batches"]

Batches = Generator[pa.RecordBatch, None, None]
"""Batches as they come; `close` stops the work behind them."""
NumberedBatches = Generator[tuple[int, pa.RecordBatch], None, None]
"""The same, each with the index of its task."""


class Progress(Protocol):
    """Hears how far a run is, always from the thread that consumes it."""

    def start(self, total_tasks: int, description: str, *, in_bytes: bool = False) -> None:
        """Hear that a run of so many tasks begins, or the moving of so many bytes."""

    def advance(self, tasks: int) -> None:
        """Hear that so many more tasks are done; they add up to the total of a full run."""

    def finish(self) -> None:
        """Hear that the run is over, whichever way it ended."""


class SilentProgress:
    """Progress that nobody watches."""

    def start(self, total_tasks: int, description: str, *, in_bytes: bool = False) -> None:
        """Do nothing."""

    def advance(self, tasks: int) -> None:
        """Do nothing."""

    def finish(self) -> None:
        """Do nothing."""


class Engine(Protocol):
    """Runs tasks. Use it as a context manager: leaving it removes what it spilled."""

    @property
    def distributed(self) -> bool:
        """Whether tasks may run on other machines than this one."""

    @property
    def apart(self) -> bool:
        """Whether they do, so that no folder of this machine need be there."""

    def run(
        self,
        tasks: Sequence[Task],
        *,
        description: str = "",
        anywhere: bool = False,
        brief: bool = False,
    ) -> Batches:
        """Yield the batches of all tasks, in task order.

        Those that need no file of this machine may run `anywhere`; others run here where the
        engine's machines share no folder with it. Tasks are `brief` if each yields little, a
        report say: then nothing is gained by giving them out some at a time.
        """

    def run_each(
        self, tasks: Sequence[Task], *, description: str = "", anywhere: bool = False
    ) -> NumberedBatches:
        """Yield the same batches, each with the index of its task."""

    def partition(self, tasks: Sequence[Task], key: Sequence[str], parts: int) -> list[Task]:
        """Run the tasks, deal their rows out by a hash of `key`, return a task for each part.

        Part i of one call and part i of another hold the same keys, on every engine
        (`engine.partition`). The parts live until the engine is closed.
        """

    def run_dealt(
        self,
        dealing: Sequence[Task],
        owners: Sequence[Task],
        *,
        description: str = "",
        anywhere: bool = True,
    ) -> Batches:
        """Run tasks that deal rows out, then their owners, and yield what these yield.

        The first tasks yield `part`, the index of an owner, `num_rows` and `piece`: rows as an
        Arrow stream. The first argument of an owner is replaced by what was dealt to it, as
        pairs of a count of rows and a task that yields them. Batches of owners come in any
        order. What needs files of this machine is not for `anywhere`, as in `run`.
        """

    def run_matched(self, comparison: Comparison) -> Batches | None:
        """Yield the changes between two sides that lie in no common order, by key.

        None where the engine has no shuffle of its own: then `partition` deals rows out.
        """

    def close(self) -> None:
        """Stop what runs and remove what was spilled; may be called again."""

    def __enter__(self) -> Self:
        """Return the engine."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the engine."""


def checked_batches(task: Task) -> Batches:
    """Yield the batches of a task; an exception that is no `HavasuError` becomes one."""
    try:
        yield from run_task(task)
    except HavasuError:
        raise
    except Exception as cause:
        full = no_room(cause)
        if full is not None:
            raise full from cause
        raise EngineError(f"task {task.kernel} failed: {one_line(cause)}") from cause


def one_line(error: BaseException) -> str:
    """Return an exception as one line: its class and the first line of its text."""
    text = str(error).strip()
    name = type(error).__name__
    return f"{name}: {text.splitlines()[0]}" if text else name
