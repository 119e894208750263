"""Spill files: record batches on disk, written once, read back memory-mapped.

    <name>.arrows = segment, padding, segment, …

A *segment* is a complete Arrow IPC stream at an offset that is a multiple of 64. One
schema per segment, about 64 MiB at most unless one batch is larger: whoever reads
maps one segment at a time, so memory does not grow with the file. Streams, not IPC
files, because dictionaries may differ from batch to batch.

A file gets a unique name, and only once it is complete: a task that runs twice
leaves two files, and whoever ran it says which one counts.
"""

from __future__ import annotations

import mmap
import os
import platform
import shutil
import tempfile
import uuid
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

import pyarrow as pa

from havasu_vc.engine.protocol import Batches
from havasu_vc.errors import StorageError
from havasu_vc.model.task import kernel

__all__ = ["Extent", "Scratch", "Segment", "SpillFile", "read", "read_segment"]


Extent: TypeAlias = tuple[int, int]
"""Offset and length of a segment in its file."""
Segment: TypeAlias = tuple[str, int, int]
"""A file's path, and the offset and length of a segment in it."""

SEGMENT_BYTES = 64 << 20
_ALIGNMENT = 64


class SpillFile:
    """A spill file while it is written. Nothing is made on disk before the first batch."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / f"{uuid.uuid4().hex}.arrows"
        self.size = 0
        """Bytes written so far."""
        self._unfinished = self.path.with_suffix(".unfinished")
        self._sink: Any = None
        self._stream: Any = None
        self._schema: pa.Schema | None = None
        self._start = 0
        self._extents: list[Extent] = []
        self._failure: StorageError | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Add a batch to the segment at hand, or to a new one."""
        self._insist_sound()
        try:
            if self._stream is not None and (
                self.size - self._start >= SEGMENT_BYTES or self._schema != batch.schema
            ):
                self._end_segment()
            if self._stream is None:
                self._begin_segment(batch.schema)
            self._stream.write_batch(batch)
            self.size = self._sink.tell()
        except OSError as error:
            raise self._cannot_write(error) from error

    def cut(self) -> tuple[Extent, ...]:
        """End the segment at hand and return the segments since the last cut."""
        self._insist_sound()
        try:
            self._end_segment()
        except OSError as error:
            raise self._cannot_write(error) from error
        extents = tuple(self._extents)
        self._extents.clear()
        return extents

    def finish(self) -> str | None:
        """Give the complete file its name and return it; None if nothing was written."""
        if self._sink is None:
            return None
        self._insist_sound()
        try:
            self._end_segment()
            self._sink.close()
            self._unfinished.rename(self.path)
        except OSError as error:
            raise self._cannot_write(error) from error
        self._sink = None
        return str(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Remove the file unless it was finished."""
        if self._sink is not None:
            with suppress(OSError):
                self._sink.close()
            self._sink = None
            self._unfinished.unlink(missing_ok=True)

    def _begin_segment(self, schema: pa.Schema) -> None:
        if self._sink is None:
            self._sink = pa.OSFile(str(self._unfinished), "wb")
        self._sink.write(b"\0" * (-self._sink.tell() % _ALIGNMENT))
        self._start = self._sink.tell()
        self._stream = pa.ipc.new_stream(self._sink, schema)
        self._schema = schema

    def _end_segment(self) -> None:
        if self._stream is None:
            return
        self._stream.close()
        self._stream = None
        self.size = self._sink.tell()
        self._extents.append((self._start, self.size - self._start))

    def _insist_sound(self) -> None:
        # After a failure the end of the file is anyone's guess.
        if self._failure is not None:
            raise self._failure

    def _cannot_write(self, error: OSError) -> StorageError:
        folder = self.path.parent
        if folder.is_dir():
            message = f"cannot write temporary file {self.path}: {error.strerror or error}"
            hint = "free some space, or name another folder with TMPDIR or the scratch setting"
        else:
            message = f"the worker on {platform.node()} does not see the folder {folder}"
            hint = "the scratch folder must be one that all machines share under one path"
        self._failure = StorageError(message, hints=(hint,))
        return self._failure


def read_segment(path: str, offset: int, length: int) -> Batches:
    """Yield the batches of one segment without copying; they keep it mapped while they live."""
    start = offset - offset % mmap.ALLOCATIONGRANULARITY
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        try:
            mapped = mmap.mmap(
                descriptor, offset + length - start, access=mmap.ACCESS_READ, offset=start
            )
        finally:
            os.close(descriptor)
        with pa.ipc.open_stream(pa.py_buffer(mapped).slice(offset - start, length)) as stream:
            yield from stream
    except (OSError, ValueError, pa.ArrowInvalid) as error:
        raise StorageError(f"cannot read temporary file {path}: {error}") from error


@kernel
def read(segments: Sequence[Segment]) -> Batches:
    """Yield the batches of some segments, one after the other."""
    for path, offset, length in segments:
        yield from read_segment(path, offset, length)


# A folder for what an engine spills, made when first needed and removed at the end.
#
# It is removed by `close`, when the object is forgotten and when the program ends,
# whichever comes first. It stands under the system's temporary folder, readable by
# its owner alone, or under a folder that the user names, with the user's own umask.


class Scratch:
    """A folder that lives as long as its engine."""

    def __init__(self, parent: Path | None = None) -> None:
        self._parent = parent
        self._path: Path | None = None
        self._finalizer: weakref.finalize[[str, bool], Scratch] | None = None

    def new_folder(self, purpose: str) -> Path:
        """Make an empty folder below and return it."""
        folder = self._root() / f"{purpose}-{uuid.uuid4().hex[:12]}"
        try:
            folder.mkdir()
        except OSError as error:
            raise _cannot_make(folder, error) from error
        return folder

    def close(self) -> None:
        """Remove the folder with all that is in it."""
        if self._finalizer is not None:
            self._finalizer()
        self._path = self._finalizer = None

    def _root(self) -> Path:
        if self._path is None:
            try:
                self._path = self._make()
            except OSError as error:
                raise _cannot_make(self._parent or Path(tempfile.gettempdir()), error) from error
            self._finalizer = weakref.finalize(self, shutil.rmtree, str(self._path), True)
        return self._path

    def _make(self) -> Path:
        if self._parent is None:
            return Path(tempfile.mkdtemp(prefix="havasu-vc-"))
        path = self._parent.absolute() / f"havasu-vc-{uuid.uuid4().hex}"
        path.mkdir(parents=True)
        return path


def _cannot_make(folder: Path, error: OSError) -> StorageError:
    return StorageError(
        f"cannot make a folder for temporary files at {folder}: {error.strerror or error}",
        hints=("name another folder with TMPDIR or the scratch setting",),
    )
