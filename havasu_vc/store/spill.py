"""A file without a name, for what does not stay in memory."""

from __future__ import annotations

import tempfile
import weakref
from pathlib import Path
from typing import IO

from havasu_vc.store.disk import reporting_storage_errors
from havasu_vc.store.system import read_at, write_at

__all__ = ["Spill"]


class Spill:
    """Bytes that were put away, each piece known by where it begins."""

    def __init__(self, prefix: str) -> None:
        """Make a file in the folder for temporary ones; it is gone with this object."""
        self._place = Path(tempfile.gettempdir())
        with reporting_storage_errors(self._place):
            self._file: IO[bytes] = tempfile.TemporaryFile(prefix=prefix, buffering=0)
        weakref.finalize(self, self._file.close)
        self._size = 0

    def append(self, data: bytes) -> int:
        """Write bytes, and return where they stand."""
        start = self.room(len(data))
        self.write(start, data)
        return start

    def room(self, size: int) -> int:
        """Return where so many bytes can be written piece by piece."""
        self._size += size
        return self._size - size

    def write(self, start: int, data: bytes) -> None:
        """Write bytes where there is room for them."""
        with reporting_storage_errors(self._place):
            write_at(self._file.fileno(), data, start)

    def read(self, start: int, size: int) -> bytes:
        """Return bytes that were written."""
        with reporting_storage_errors(self._place):
            return read_at(self._file.fileno(), size, start)
