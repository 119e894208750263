"""The work of an executor: run a chunk of tasks, leave their batches in a spill file.

    <folder>/<unique>.arrows    the batches of one chunk, segment by segment
    <folder>/failed             one line for each task that failed: its index

Only names and extents go back to the driver, and errors as data. An executor may run
a chunk twice; each time it writes another file, and the driver reads the one whose
name it gets. A task stops when one before it has failed. Nothing here imports Spark.
"""

import math
import pickle
import platform
import sys
import traceback
import zipimport
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from havasu_vc.engine.protocol import checked_batches, one_line
from havasu_vc.engine.spill import Extent, SpillFile
from havasu_vc.errors import EngineError, HavasuError, StorageError
from havasu_vc.model.task import Task
from havasu_vc.quick_arrow import without_pandas
from havasu_vc.records import dataclass

__all__ = [
    "Chunk",
    "ChunkOutcome",
    "TaskOutcome",
    "forget_archives",
    "parse_error",
    "pickled_error",
    "quick_task",
    "run_chunk",
    "run_chunks",
]

_FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive tasks of a run, to be run one after the other."""

    first: int
    """The index of the first task in its run."""
    tasks: tuple[Task, ...]
    """The tasks."""
    folder: str
    """Where the executor writes; every machine sees it under this path."""


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """Where the batches of one task are."""

    index: int
    """The task's index in its run."""
    extents: tuple[Extent, ...]
    """Segments of the chunk's file, in order."""
    error: bytes | None = None
    """The pickled error that ended the task, after these batches."""


@dataclass(frozen=True, slots=True)
class ChunkOutcome:
    """The outcome of a chunk."""

    path: str | None
    """The spill file; None if no task gave a batch."""
    size: int
    """Its bytes."""
    tasks: tuple[TaskOutcome, ...]
    """Tasks that were run, in order; those after an error are missing."""


def run_chunks(chunks: Iterable[Chunk]) -> Iterator[ChunkOutcome]:
    """Run the chunks of a Spark partition."""
    with quick_task():
        for chunk in chunks:
            yield run_chunk(chunk)


def run_chunk(chunk: Chunk) -> ChunkOutcome:
    """Run the tasks of a chunk up to the first that fails."""
    folder = Path(chunk.folder)
    try:
        with SpillFile(folder) as spill:
            outcomes = tuple(_outcomes(chunk, folder, spill))
            return ChunkOutcome(spill.finish(), spill.size, outcomes)
    except StorageError as error:
        # The file is lost, and with it the batches of the tasks before the one that failed.
        return ChunkOutcome(None, 0, (TaskOutcome(chunk.first, (), pickled_error(error)),))


def _outcomes(chunk: Chunk, folder: Path, spill: SpillFile) -> Iterator[TaskOutcome]:
    for index, task in enumerate(chunk.tasks, chunk.first):
        if _first_failed(folder) < index:
            return
        try:
            with closing(checked_batches(task)) as batches:
                for batch in batches:
                    spill.write(batch)
        except HavasuError as error:
            _say_failed(folder, index)
            yield TaskOutcome(index, spill.cut(), pickled_error(error))
            return
        yield TaskOutcome(index, spill.cut())


def pickled_error(error: HavasuError) -> bytes:
    """Return an error as bytes, to go back to the driver.

    What a machine could not reach is worth little without its name.
    """
    if isinstance(error, StorageError):
        error.__dict__["host"] = platform.node()
    if isinstance(error, EngineError):
        # Its cause stays behind; whoever debugs the kernel needs to see it.
        error.add_note("".join(traceback.format_exception(error)))
    try:
        return pickle.dumps(error)
    except Exception as cause:
        return pickle.dumps(EngineError(f"{one_line(error)} (not kept whole: {one_line(cause)})"))


def parse_error(pickled: bytes | bytearray) -> HavasuError:
    """Return an error that came from a task, with the name of the machine where that matters."""
    error: HavasuError = pickle.loads(bytes(pickled))
    host = error.__dict__.pop("host", platform.node())
    if host != platform.node() and "the worker on" not in error.message:
        error.message = f"the worker on {host}: {error.message}"
        error.args = (error.message, *error.args[1:])
    return error


def _say_failed(folder: Path, index: int) -> None:
    # Only spares work: without it the tasks that follow run in vain.
    with suppress(OSError), (folder / _FAILED).open("a") as lines:
        lines.write(f"{index}\n")


def _first_failed(folder: Path) -> float:
    try:
        lines = (folder / _FAILED).read_text().split()
    except OSError:
        return math.inf
    return min(map(int, lines), default=math.inf)


def forget_archives() -> None:
    """Spare each Spark task some 50 ms: before it, Spark reads all archives on the path anew.

    Jars hold no Python and leave the path for good; zip files are opened again by the
    next import that needs them.
    """
    sys.path[:] = [entry for entry in sys.path if not entry.endswith(".jar")]
    for entry, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimport.zipimporter):
            del sys.path_importer_cache[entry]


@contextmanager
def quick_task() -> Iterator[None]:
    """Run a Spark task of ours without what it has no need of: archives read anew, and pandas.

    The first task of an executor's process takes 0.35 s less where pandas is installed.
    """
    forget_archives()
    with without_pandas():
        yield
