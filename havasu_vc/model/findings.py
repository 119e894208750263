"""Findings of a check: one line for a person, and what names the thing it is about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from havasu_vc.errors import HavasuError
from havasu_vc.records import dataclass

__all__ = ["Finding", "Findings"]


MOST_FINDINGS = 1_000
"""Of one dataset: a tree of trees can name the same file a billion times."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong."""

    where: str
    """A dataset, document or file."""
    message: str
    """The fault."""
    hint: str | None = None
    """The next step."""
    column: str | None = None
    """The column whose values are wrong, where it is one."""


class Findings:
    """Collects findings; what is raised inside `catching` becomes one."""

    def __init__(self) -> None:
        self.found: list[Finding] = []
        """In the order they were found."""

    def add(
        self, where: str, message: str, hint: str | None = None, column: str | None = None
    ) -> None:
        """Add a finding; `full` once there are more than anybody reads."""
        self.found.append(Finding(where, message, hint, column))

    @property
    def full(self) -> bool:
        """Whether so much was found that looking for more is in vain."""
        return len(self.found) > MOST_FINDINGS

    @contextmanager
    def catching(self, where: str) -> Iterator[None]:
        """Turn an error of the data into a finding."""
        try:
            yield
        except HavasuError as error:
            self.add(where, error.message, error.hints[0] if error.hints else None)
