"""Rows put aside until they are needed: in memory while they are few, then in a file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa

__all__ = ["Spool"]

MOST_BYTES = 64 * 1024 * 1024


class Spool:
    """Batches of one schema, kept in order. Use it as a context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = 0
        self._path: Path | None = None
        self._writer: pa.RecordBatchFileWriter | None = None
        self.rows = 0
        """Rows put aside so far."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    @property
    def spilled(self) -> bool:
        """Whether there are too many to keep in memory."""
        return self._path is not None

    def add(self, batch: pa.RecordBatch) -> None:
        """Put a batch aside."""
        if not batch.num_rows:
            return
        self._waiting.append(batch)
        self._bytes += batch.nbytes
        self.rows += batch.num_rows
        if self._bytes > MOST_BYTES:
            self._spill()

    def _spill(self) -> None:
        if self._writer is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                dir=self._folder, prefix="spool-", suffix=".arrows", delete=False
            ) as file:
                self._path = Path(file.name)
            self._writer = pa.ipc.new_file(str(self._path), self._waiting[0].schema)
        for batch in self._waiting:
            self._writer.write_batch(batch)
        self._waiting, self._bytes = [], 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield what was put aside; nothing may be added after."""
        if self._writer is not None:
            self._spill()
            self._writer.close()
            self._writer = None
        if self._path is not None:
            # Not mapped: pages that are read would count as memory of the process.
            with pa.OSFile(str(self._path)) as source:
                reader = pa.ipc.open_file(source)
                for index in range(reader.num_record_batches):
                    yield reader.get_batch(index)
        yield from self._waiting
