"""A place that holds data files for others, and what every kind of it promises.

Files are named by the sha256 of their content. What is sent is hashed before it goes, and
what comes is hashed before the store takes it, so wrong bytes pass in neither direction.
While a push goes on, from looking what the other side lacks until its refs have moved, it
is inside of `sending`: nothing that it relies on is pruned there meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from havasu_vc.records import dataclass
from havasu_vc.store.files import DataFileStore

__all__ = ["Claim", "DataRemote", "Report", "WantedFile", "total_size"]

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
    """What keeps files of a remote from being pruned while a push relies on them."""

    outlasting: bool = False
    """Whether to leave it for days: refs may move after all, whatever becomes of the push."""


class DataRemote(Protocol):
    """Somewhere that data files can be sent to and had from."""

    @property
    def name(self) -> str:
        """What people call it, without any password."""

    @property
    def knows(self) -> bool:
        """Whether it can say what it has; if not, `lacking` returns all that it is asked."""

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
