"""A place that holds data files for others, and what every kind of it promises.

Files are named by the sha256 of their content. What is sent is hashed before it goes, and
what comes is hashed before the store takes it, so wrong bytes pass in neither direction.
While a push goes on, from looking what the other side lacks until its refs have moved, it
is inside of `sending`: nothing that it relies on is pruned there meanwhile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from typing import Protocol

from havasu_vc.errors import CorruptDataFileError
from havasu_vc.records import dataclass
from havasu_vc.store.files import DataFileStore

__all__ = ["Claim", "DataRemote", "Report", "WantedFile", "copy_checked", "each", "total_size"]


Report = Callable[[int], None]
"""Hears how many more bytes have been moved, from any thread."""


@dataclass(frozen=True, slots=True, order=True)
class WantedFile:
    """A data file as a pointer names it."""

    sha256: str
    """Its name."""
    size: int
    """Its bytes."""


@dataclass(slots=True)
class Claim:
    """A claim that keeps files of a remote from being pruned while a push relies on them."""

    outlasting: bool = False
    """Whether to leave it for days: refs may move after all, whatever becomes of the push."""


class DataRemote(Protocol):
    """Somewhere that data files can be sent to and had from."""

    @property
    def name(self) -> str:
        """Its name for people, without any password."""

    @property
    def knows(self) -> bool:
        """Whether it can say what it has; if not, `lacking` returns all that it is asked."""

    @property
    def has_url(self) -> bool:
        """Whether it has a URL of its own, which somebody said."""

    def sending(
        self, files: Sequence[WantedFile], commits: Sequence[str] = ()
    ) -> AbstractContextManager[Claim]:
        """Keep files, and all that commits name, from being pruned until refs have moved.

        What the remote's refs reach is looked at inside of it.
        """

    def lacking(self, files: Sequence[WantedFile]) -> list[WantedFile]:
        """Return those files that it does not have, or has with another size."""

    def upload(
        self, files: Sequence[WantedFile], store: DataFileStore, report: Report
    ) -> Sequence[WantedFile]:
        """Send files, and return those that it lacked.

        Each is there for good when this returns, whatever became of others.
        """

    def download(self, files: Sequence[WantedFile], store: DataFileStore, report: Report) -> None:
        """Bring files into the store, checked; raise for the first that cannot be had."""


def total_size(files: Iterable[WantedFile]) -> int:
    """Return the bytes of some files together."""
    return sum(file.size for file in files)


# Moving many files side by side, with a count of bytes, and stopping at the first failure.

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


class ByteSource(Protocol):
    """Bytes that come one after another."""

    def readinto(self, buffer: memoryview, /) -> int:
        """Put bytes into a buffer and return how many; none at the end."""


class ByteTarget(Protocol):
    """Where bytes go."""

    def write(self, data: memoryview, /) -> object:
        """Take bytes, all of them."""


def copy_checked(source: ByteSource, target: ByteTarget, file: WantedFile, report: Report) -> None:
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
