"""Tables that git itself merges, against a model: hundreds of merges, or twenty thousand slowly.

See `plain_git` for what is done and what must hold.
"""

import pytest

from tests.stateful.plain_git import Tally, run


def check(tally: Tally, merges: int) -> None:
    """Check that enough was merged, that much of it went through, and that nothing is wrong."""
    assert tally.wrong == []
    assert tally.merges >= merges
    right = sum(
        n for what, n in tally.counts.items() if what.startswith("git ") and "right" in what
    )
    assert right > tally.merges / 2
    refused = sum(
        n for what, n in tally.counts.items() if what.startswith("git ") and "refused" in what
    )
    assert refused <= tally.merges / 1000
    assert tally.counts["by hand: refused"] > tally.counts["by hand: rows of both sides"]


def test_what_git_makes_is_the_table_of_a_model() -> None:
    check(run(iter(range(45))), 500)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(16))
def test_twenty_thousand_merges(part: int) -> None:
    first = 1_000 * (part + 1)
    check(run(iter(range(first, first + 120))), 1_250)
