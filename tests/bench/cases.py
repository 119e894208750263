"""What a case is: a function that takes the scratch folder and yields figures.

    @case("import")
    def import_tables(scratch: Scratch) -> Iterator[Figure]:
        yield Figure("import of 1M points", 1.2, "s", at_most=2.0)

A module of cases is named in `MODULES`; the figures come out in the order of the cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module

from tests.bench.scratch import Scratch

MODULES = (
    "importing",
    "changing",
    "comparing",
    "querying",
    "reviewing",
    "merging",
    "checkouts",
    "serving",
    "serving_clients",
    "storing",
    "viewing",
    "ledger",
    "sharing",
    "kart",
    "encoding",
    "sparking",
    "rastering",
)


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value, beside the one asked for."""

    name: str
    """What was measured."""
    value: float | None
    """The value; None when it could not be measured, and `note` says why."""
    unit: str
    """`s`, `s CPU`, `ms CPU`, `MB`, `kB`, `%`, or `x` for a ratio."""
    at_most: float | None = None
    """What is asked for; None when it is measured for the record."""
    note: str = ""
    """What else is worth knowing, such as the two sides of a ratio."""

    @property
    def verdict(self) -> str:
        """`ok`, `MISS`, `-` where nothing is asked, or `skip`."""
        if self.value is None:
            return "skip"
        if self.at_most is None:
            return "-"
        return "ok" if self.value <= self.at_most else "MISS"


@dataclass(frozen=True, slots=True)
class Case:
    """A group of figures that are measured together."""

    name: str
    """By which `--only` finds it."""
    measure: Callable[[Scratch], Iterator[Figure]]
    """Yields the figures."""


_CASES: list[Case] = []


def case(
    name: str,
) -> Callable[[Callable[[Scratch], Iterator[Figure]]], Callable[[Scratch], Iterator[Figure]]]:
    """Add a function to the cases."""

    def add(
        measure: Callable[[Scratch], Iterator[Figure]],
    ) -> Callable[[Scratch], Iterator[Figure]]:
        _CASES.append(Case(name, measure))
        return measure

    return add


def all_cases() -> list[Case]:
    """Return the cases of all modules, in order."""
    for module in MODULES:
        import_module(f"tests.bench.{module}")
    return list(_CASES)


def counted(rows: int) -> str:
    """Return a number of rows as people say it.

    >>> counted(5_000_000), counted(100_000)
    ('5M', '100k')
    """
    return f"{rows // 1_000_000}M" if rows >= 1_000_000 else f"{rows // 1000}k"
