"""What an item of the corpus is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.hostile.scene import Scene

__all__ = ["Item", "Maker"]

Maker = Callable[[Scene], None]


@dataclass(frozen=True)
class Item:
    """One hostile thing."""

    kind: str
    """What it is: a repository, a file, a table, ..."""
    name: str
    """What is wrong with it."""
    make: Maker
    """Puts it into a scene."""
    commands: str
    """The commands that are most likely to fall for it."""
    good: bool = True
    """Whether the other dataset of its repository must stay readable."""
    may_open: tuple[str, ...] = ()
    """Files outside that may be opened, as the user named them."""
    may_call: bool = False
    """Whether the server on loopback may be asked."""
    unpacked: int = 0
    """Bytes of its input beyond those of its files, of texts that git packs."""
    columns: int = 0
    """Columns of its tables, of items that are about very many."""
    slow: bool = False
    """Whether making it takes more than a moment."""

    @property
    def id(self) -> str:
        """Return what the test is called by."""
        return f"{self.kind}: {self.name}"
