"""Processes of this machine, for tasks that hold Python's lock while they work.

    driver   pickled chunk ->  worker runs it, batches go to a spill file
             <- pickled names and extents, errors as data

Threads run side by side only while they are in Arrow or numpy. What works row by row is
sent to processes instead: each thread of the local engine has one, sends it a task and
waits. Workers are plain Python with this package, started when first needed, and do what
an executor of Spark does (`engine.worker`); they end with their engine, or when it dies.
"""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from havasu_vc.engine.protocol import Batches
from havasu_vc.engine.spill import read_segment
from havasu_vc.engine.worker import Chunk, ChunkOutcome, parse_error, run_chunk
from havasu_vc.errors import EngineError
from havasu_vc.model.task import Task, is_busy, kernel, task_of

__all__ = ["Workers", "elsewhere", "serve"]

_PACKAGE = Path(__file__).parents[2]
_SIZE = struct.Struct("<Q")
_PROGRAM = (
    "import sys; sys.path.insert(0, {folder!r}); "
    "from havasu_vc.engine.processes import serve; serve()"
)


class Workers:
    """The processes of one engine."""

    def __init__(self) -> None:
        self._idle: list[subprocess.Popen[bytes]] = []
        self._all: list[subprocess.Popen[bytes]] = []
        self._stopped = False
        self._lock = threading.Lock()

    def sent(self, tasks: Sequence[Task], folder: Path) -> list[Task]:
        """Return tasks for threads; those that would hold Python's lock run in processes."""
        place = str(folder)
        self._stopped = False
        return [
            task_of(elsewhere, self, task, index, place) if is_busy(task) else task
            for index, task in enumerate(tasks)
        ]

    def run(self, chunk: Chunk) -> ChunkOutcome:
        """Run a chunk in a process that is free, or in a new one."""
        with self._lock:
            if self._stopped:
                raise EngineError("the run was stopped")
            worker = self._idle.pop() if self._idle else self._started()
        assert worker.stdin is not None and worker.stdout is not None
        try:
            _send(worker.stdin, pickle.dumps(chunk))
            outcome = pickle.loads(_received(worker.stdout))
        except (EOFError, BrokenPipeError) as error:
            raise EngineError(
                f"a process that ran task {chunk.first} ended with {worker.wait()}",
                hints=("it may have been killed because memory ran out",),
            ) from error
        assert isinstance(outcome, ChunkOutcome)
        with self._lock:
            self._idle.append(worker)
        return outcome

    def stop(self) -> None:
        """End the processes that are at work, and let none begin before the next run."""
        with self._lock:
            self._stopped = True
            busy = [worker for worker in self._all if worker not in self._idle]
            self._all = list(self._idle)
        _end(busy)

    def close(self) -> None:
        """End all processes, whatever they do."""
        with self._lock:
            self._stopped = True
            workers, self._all, self._idle = self._all, [], []
        _end(workers)

    def _started(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", _PROGRAM.format(folder=str(_PACKAGE))]
        # Signals of the terminal are for the engine, which ends its workers.
        worker = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0
        )
        self._all.append(worker)
        return worker


def _end(workers: Sequence[subprocess.Popen[bytes]]) -> None:
    for worker in workers:
        worker.kill()
    for worker in workers:
        worker.wait()
        for pipe in (worker.stdin, worker.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()


@kernel
def elsewhere(workers: Workers, task: Task, index: int, folder: str) -> Batches:
    """Yield the batches of a task that runs in a process."""
    chunk = workers.run(Chunk(index, (task,), folder))
    try:
        for outcome in chunk.tasks:
            for offset, length in outcome.extents:
                assert chunk.path is not None
                yield from read_segment(chunk.path, offset, length)
            if outcome.error is not None:
                raise parse_error(outcome.error)
    finally:
        if chunk.path is not None:
            Path(chunk.path).unlink(missing_ok=True)


def serve() -> None:
    """Run the chunks that come in, until no more do: what a worker does."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    # What a kernel may print is not for the engine to read.
    os.dup2(2, 1)
    while True:
        try:
            chunk = pickle.loads(_received(requests))
        except EOFError:
            return
        _send(answers, pickle.dumps(run_chunk(chunk)))


def _send(pipe: IO[bytes] | None, data: bytes) -> None:
    assert pipe is not None
    pipe.write(_SIZE.pack(len(data)))
    pipe.write(data)
    pipe.flush()


def _received(pipe: IO[bytes] | None) -> bytes:
    assert pipe is not None
    head = pipe.read(_SIZE.size)
    if len(head) < _SIZE.size:
        raise EOFError
    (size,) = _SIZE.unpack(head)
    data = pipe.read(size)
    if len(data) < size:
        raise EOFError
    return data
