"""The Git LFS pointer: the small text that stands in git for a large file.

    version https://git-lfs.github.com/spec/v1
    oid sha256:<64 hex digits>
    size <bytes>

We write it as git-lfs does and read only that form, so a pointer has one spelling.
"""

import re

from havasu_vc.records import dataclass

__all__ = ["LONGEST_POINTER", "Pointer", "format_pointer", "parse_pointer"]

LONGEST_POINTER = 1024
"""Bytes beyond which a blob is no pointer (git-lfs's own limit)."""

_HEAD = b"version https://git-lfs.github.com/spec/v1\n"
_FORM = re.compile(re.escape(_HEAD) + rb"oid sha256:([0-9a-f]{64})\nsize (0|[1-9][0-9]{0,18})\n")
_NAME = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Pointer:
    """A file that is kept outside of git."""

    oid: str
    """The sha256 of its bytes, as 64 hex digits."""
    size: int
    """How many bytes it has."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.oid):
            raise ValueError(f"{self.oid!r} is not a sha256")
        if not 0 <= self.size < 2**63:
            raise ValueError(f"{self.size} is not the size of a file")


def format_pointer(pointer: Pointer) -> bytes:
    """Return the bytes of a pointer."""
    return _HEAD + f"oid sha256:{pointer.oid}\nsize {pointer.size}\n".encode()


def parse_pointer(data: bytes) -> Pointer:
    """Return the pointer that `data` is; raise ValueError if it is none.

    >>> parse_pointer(format_pointer(Pointer("ab" * 32, 12))).size
    12
    """
    match = _FORM.fullmatch(data) if len(data) <= LONGEST_POINTER else None
    if match is None:
        raise ValueError("it is not a Git LFS pointer")
    return Pointer(match[1].decode(), int(match[2]))
