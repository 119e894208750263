"""Rows dealt out to owners: tasks that yield pieces, and tasks that each take those for them.

Where all tasks see one folder, pieces wait there in files, and their owners map them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from havasu_vc.engine.protocol import Batches, Engine
from havasu_vc.engine.spill import read
from havasu_vc.model.task import Task, kernel, run_task, task_of
from havasu_vc.store.disk import reporting_storage_errors

__all__ = ["OwnedPiece", "given_to", "held_piece", "run_dealt_in", "spill_pieces"]

OwnedPiece: TypeAlias = tuple[int, Task]
"""How many rows a piece has, and the task that yields them."""

_PLACES = pa.schema(
    [
        ("part", pa.int32()),
        ("num_rows", pa.int64()),
        ("path", pa.string()),
        ("offset", pa.int64()),
        ("length", pa.int64()),
    ]
)
_ALIGNMENT = 64


def run_dealt_in(
    engine: Engine,
    folder: Path,
    dealing: Sequence[Task],
    owners: Sequence[Task],
    description: str = "",
) -> Batches:
    """Run what deals on an engine, with pieces in a folder, then the owners."""
    spilling = [task_of(spill_pieces, task, str(folder)) for task in dealing]
    pieces: list[list[OwnedPiece]] = [[] for _ in owners]
    for places in engine.run(spilling, description="Dealing rows out", brief=True):
        for place in places.to_pylist():
            segment = (place["path"], place["offset"], place["length"])
            pieces[place["part"]].append((place["num_rows"], task_of(read, (segment,))))
    given = [given_to(owner, each) for owner, each in zip(owners, pieces, strict=True)]
    yield from engine.run(given, description=description or "Writing", brief=True)


def given_to(owner: Task, pieces: Sequence[OwnedPiece]) -> Task:
    """Return the task of an owner that takes some pieces."""
    return replace(owner, arguments=(tuple(pieces), *owner.arguments[1:]))


@kernel
def held_piece(piece: bytes) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a piece that is in memory."""
    with pa.ipc.open_stream(piece) as stream:
        yield from stream


@kernel
def spill_pieces(task: Task, folder: str) -> Iterator[pa.RecordBatch]:
    """Run a task that deals, write its pieces to one file, yield where each is."""
    path = Path(folder) / f"{uuid.uuid4().hex}.pieces"
    places: list[dict[str, object]] = []
    # Errors of the source are its own: only what is written here is said to be written.
    sink = None
    try:
        for batch in run_task(task):
            for row in batch.to_pylist():
                with reporting_storage_errors(path):
                    sink = sink or path.open("xb")
                    sink.write(b"\0" * (-sink.tell() % _ALIGNMENT))
                    offset = sink.tell()
                    sink.write(row["piece"])
                place = {"path": str(path), "offset": offset, "length": len(row["piece"])}
                places.append({"part": row["part"], "num_rows": row["num_rows"], **place})
    finally:
        if sink is not None:
            with reporting_storage_errors(path):
                sink.close()
    if places:
        yield pa.RecordBatch.from_pylist(places, schema=_PLACES)
