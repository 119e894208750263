"""The count of what is compared with whom, which is said at the end of a run."""

from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest
from hypothesis import seed

from tests.conformance.tally import Tally

TOLD: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)


@pytest.fixture(params=["once", *(pytest.param(n, marks=pytest.mark.slow) for n in "2345")])
def tally() -> Iterator[Tally]:
    """Count cases and rows by program and direction; where all tests run, of five times as many."""
    found = Tally()
    yield found
    for key, counts in found.counts.items():
        TOLD[key].update(counts)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Have the one round of every run draw the same cases each time; slow ones draw others."""
    if not isinstance(item, pytest.Function) or not hasattr(item.obj, "hypothesis"):
        return
    if item.get_closest_marker("slow") is None:
        seed(1)(item.obj)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not TOLD:
        return
    terminalreporter.section("conformance")
    terminalreporter.write_line("| program | direction | cases | rows | differences of theirs |")
    terminalreporter.write_line("|---|---|---|---|---|")
    for (program, direction), counts in sorted(TOLD.items()):
        numbers = " | ".join(str(counts[what]) for what in ("cases", "rows", "theirs"))
        terminalreporter.write_line(f"| {program} | {direction} | {numbers} |")
