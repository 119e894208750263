"""Moving many files side by side, with a count of bytes, and stopping at the first failure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Protocol

from havasu_vc.errors import CorruptDataFileError
from havasu_vc.remotes.protocol import Report, WantedFile

__all__ = ["copy_checked", "each"]

THREADS = 8
BLOCK = 1 << 20


def each(files: Iterable[WantedFile], work: Callable[[WantedFile], object]) -> None:
    """Do something with every file, several at once; the first failure ends all."""
    pool = ThreadPoolExecutor(THREADS, thread_name_prefix="havasu-vc-move")
    try:
        running = {pool.submit(work, file) for file in files}
        done, _ = wait(running, return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()
    finally:
        pool.shutdown(cancel_futures=True)


class Source(Protocol):
    """Bytes that come one after another."""

    def readinto(self, buffer: memoryview, /) -> int:
        """Put bytes into a buffer and return how many; none at the end."""


class Target(Protocol):
    """Where bytes go."""

    def write(self, data: memoryview, /) -> object:
        """Take bytes, all of them."""


def copy_checked(source: Source, target: Target, file: WantedFile, report: Report) -> None:
    """Copy a file's bytes, and raise unless they are exactly those that its name says.

    No more is read than the file has bytes, and one, so that a source without end ends.
    """
    digest, left = hashlib.sha256(), file.size
    buffer = memoryview(bytearray(min(BLOCK, file.size + 1)))
    while count := source.readinto(buffer[: min(BLOCK, left + 1)]):
        left -= count
        report(count)
        if left < 0:
            raise CorruptDataFileError(file.sha256, f"it has more than its {file.size} bytes")
        data = buffer[:count]
        digest.update(data)
        target.write(data)
    if left:
        raise CorruptDataFileError(
            file.sha256, f"it has {file.size - left} bytes instead of {file.size}"
        )
    if digest.hexdigest() != file.sha256:
        raise CorruptDataFileError(file.sha256, f"its bytes have the hash {digest.hexdigest()}")
