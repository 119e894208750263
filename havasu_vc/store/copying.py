"""Data files on their way: what comes is hashed, and wrong bytes stop it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Protocol

from havasu_vc.errors import CorruptDataFileError

__all__ = ["copy_checked"]

BLOCK = 1 << 20


class ByteSource(Protocol):
    """Bytes that come one after another."""

    def readinto(self, buffer: memoryview, /) -> int:
        """Put bytes into a buffer and return how many; none at the end."""


class ByteTarget(Protocol):
    """Where bytes go."""

    def write(self, data: memoryview, /) -> object:
        """Take bytes, all of them."""


def copy_checked(
    source: ByteSource,
    target: ByteTarget,
    sha256: str,
    size: int,
    report: Callable[[int], None] = lambda count: None,
) -> None:
    """Copy a file's bytes, and raise unless they are exactly those that its name says.

    No more is read than the file has bytes, and one, so that a source without end ends. `report`
    hears how many more have come.
    """
    digest, left = hashlib.sha256(), size
    buffer = memoryview(bytearray(min(BLOCK, size + 1)))
    while count := source.readinto(buffer[: min(BLOCK, left + 1)]):
        left -= count
        report(count)
        if left < 0:
            raise CorruptDataFileError(sha256, f"it has more than its {size} bytes")
        data = buffer[:count]
        digest.update(data)
        target.write(data)
    if left:
        raise CorruptDataFileError(sha256, f"it has {size - left} bytes instead of {size}")
    if digest.hexdigest() != sha256:
        raise CorruptDataFileError(sha256, f"its bytes have the hash {digest.hexdigest()}")
