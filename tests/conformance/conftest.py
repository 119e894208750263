"""The count of what is compared with whom, which is said at the end of a run."""

from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest
from hypothesis import seed
from hypothesis.internal.conjecture.providers import HypothesisProvider

from tests.conformance.tally import Tally

TOLD: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)


@pytest.fixture(params=["once", *(pytest.param(n, marks=pytest.mark.slow) for n in "2345")])
def tally() -> Iterator[Tally]:
    """Count cases and rows by program and direction; where all tests run, of five times as many."""
    found = Tally()
    yield found
    for key, counts in found.counts.items():
        TOLD[key].update(counts)


@pytest.fixture(autouse=True)
def same_cases(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the one round of every run draw the same cases each time; slow ones draw others."""
    drawn = request.function
    if request.node.get_closest_marker("slow") is not None or not hasattr(drawn, "hypothesis"):
        return
    seed(1)(drawn)
    # Hypothesis also draws constants of the modules that are loaded, which a run may choose.
    monkeypatch.setattr(HypothesisProvider, "_maybe_draw_constant", no_constant, raising=False)


def no_constant(self: HypothesisProvider, *wanted: object, **how: object) -> None:
    """Find no constant that fits."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not TOLD:
        return
    terminalreporter.section("conformance")
    terminalreporter.write_line("| program | direction | cases | rows | differences of theirs |")
    terminalreporter.write_line("|---|---|---|---|---|")
    for (program, direction), counts in sorted(TOLD.items()):
        numbers = " | ".join(str(counts[what]) for what in ("cases", "rows", "theirs"))
        terminalreporter.write_line(f"| {program} | {direction} | {numbers} |")
