"""A place that holds data files for others, and what every kind of it promises.

Files are named by the sha256 of their content. A remote takes a file under its name only
when all of its bytes are there and are right, so what it says it has can be relied on;
what comes from it is checked again before the store takes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from havasu_vc.store.files import DataFileStore

__all__ = ["DataRemote", "Report", "WantedFile", "total_size"]

Report = Callable[[int], None]
"""Hears how many more bytes have been moved, from any thread."""


@dataclass(frozen=True, slots=True, order=True)
class WantedFile:
    """A data file as a pointer names it."""

    sha256: str
    """Its name."""
    size: int
    """Its bytes."""


class DataRemote(Protocol):
    """Somewhere that data files can be sent to and had from."""

    @property
    def name(self) -> str:
        """What people call it, without any password."""

    def lacking(self, files: Sequence[WantedFile]) -> list[WantedFile]:
        """Return those files that it does not have, or has with another size."""

    def upload(self, files: Sequence[WantedFile], store: DataFileStore, report: Report) -> None:
        """Send files; each is there for good when this returns, whatever became of others."""

    def download(self, files: Sequence[WantedFile], store: DataFileStore, report: Report) -> None:
        """Bring files into the store, checked; raise for the first that cannot be had."""


def total_size(files: Iterable[WantedFile]) -> int:
    """Return the bytes of some files together."""
    return sum(file.size for file in files)


def by_name(files: Iterable[WantedFile]) -> Mapping[str, WantedFile]:
    """Return files by their name."""
    return {file.sha256: file for file in files}
