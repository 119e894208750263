"""Lines of Markdown within a budget of bytes."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["Lines", "size_of"]


class Lines:
    """Lines within a budget of bytes; what does not fit is not added."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.texts: list[str] = []

    def add(self, *texts: str) -> bool:
        """Add some lines, all or none, and tell which."""
        size = size_of(texts)
        if size > self.room:
            return False
        self.room -= size
        self.texts += texts
        return True

    def add_each(self, texts: Iterable[str]) -> int:
        """Add lines for as long as they fit; return how many did not."""
        rest = iter(texts)
        left = 0
        for text in rest:
            if not self.add(text):
                left = 1 + sum(1 for _ in rest)
        return left


def size_of(texts: Iterable[str]) -> int:
    """Return how many bytes some lines are."""
    return sum(len(text.encode()) + 1 for text in texts)
