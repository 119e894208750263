"""How many rows a change stream touches."""

from __future__ import annotations

from havasu_vc.records import dataclass

__all__ = ["ChangeCounts"]


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """How many rows a change stream touches."""

    inserts: int = 0
    """Rows that appear."""
    updates: int = 0
    """Rows that change."""
    deletes: int = 0
    """Rows that go."""

    @property
    def total(self) -> int:
        """All changes."""
        return self.inserts + self.updates + self.deletes

    def __add__(self, other: ChangeCounts) -> ChangeCounts:
        return ChangeCounts(
            self.inserts + other.inserts,
            self.updates + other.updates,
            self.deletes + other.deletes,
        )
