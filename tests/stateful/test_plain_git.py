"""Tables that git itself merges, against a model: hundreds of merges, or twenty thousand slowly.

See `plain_git` for what is done and what must hold.
"""

import os
import subprocess
from itertools import count
from pathlib import Path

import pytest

from tests.stateful.jgit import fetched
from tests.stateful.plain_git import Tally, run
from tests.support.examples import some

GITS = Path(__file__).parents[2] / ".engines" / "git"


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


@pytest.mark.slow
def test_what_jgit_makes_is_the_table_of_a_model(tmp_path: Path) -> None:
    jars = fetched(tmp_path)
    if jars is None:
        pytest.skip("this needs Java and Maven, which fetches JGit")
    tally = run(count(50_000), merges=1_000, jars=jars)

    check(tally, 1_000)
    assert tally.counts["JGit made the same"] > 500


@pytest.mark.slow
@pytest.mark.parametrize("suite", ["trixie", "sid"])
def test_what_newer_gits_make_is_the_table_of_a_model(
    suite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2.47 and the newest; JGit and libgit2 stand for what hosts run otherwise."""
    other = GITS / suite
    if not (other / "git").exists():
        pytest.skip("there is no other git; `scripts/gits.sh .engines/git` fetches them")
    monkeypatch.setenv("PATH", f"{other}{os.pathsep}{os.environ['PATH']}")
    mine, its = (subprocess.check_output([git, "--version"]) for git in ("git", str(other / "git")))
    assert mine == its
    check(run(count(80_000), merges=1_000), 1_000)


@pytest.mark.parametrize("merges", some((100, 500), 100))
def test_what_git_makes_is_the_table_of_a_model(merges: int) -> None:
    check(run(count(), merges=merges), merges)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(16))
def test_twenty_thousand_merges(part: int) -> None:
    check(run(count(1_000 * (part + 1)), merges=1_250), 1_250)
