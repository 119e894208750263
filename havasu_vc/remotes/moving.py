"""Moving many files side by side, with a count of bytes, and stopping at the first failure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import IO

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


def copy_checked(source: IO[bytes], target: IO[bytes], file: WantedFile, report: Report) -> None:
    """Copy a file's bytes, and raise unless they are exactly those that its name says.

    No more is read than the file has bytes, and one, so that a source without end ends.
    """
    digest, left = hashlib.sha256(), file.size
    while data := source.read(min(BLOCK, left + 1)):
        left -= len(data)
        if left < 0:
            raise CorruptDataFileError(file.sha256, f"it has more than its {file.size} bytes")
        digest.update(data)
        target.write(data)
        report(len(data))
    if left:
        raise CorruptDataFileError(
            file.sha256, f"it has {file.size - left} bytes instead of {file.size}"
        )
    if digest.hexdigest() != file.sha256:
        raise CorruptDataFileError(file.sha256, f"its bytes have the hash {digest.hexdigest()}")
