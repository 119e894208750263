"""Edits of checked-out tables beside a broken dataset: told of, refused, carried on if asked."""

import json
import shutil
from pathlib import Path

import pytest

from havasu_vc import Repo
from tests.cli.conftest import succeed
from tests.cli.test_broken import SOME, havasu, named
from tests.repo.points import read, table
from tests.support.broken import BREAKS, FIRST, listed, make_sound
from tests.support.git import run_git
from tests.workspace import by_hand

pytestmark = pytest.mark.few(3)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sound(tmp_path_factory.mktemp("broken"))


@pytest.mark.few(1)
@pytest.mark.parametrize("checked_out", ["before it broke", "since"])
@pytest.mark.parametrize("way", SOME)
def test_edits_of_tables_are_committed_beside_it(
    sound: Path, way: str, checked_out: str, tmp_path: Path
) -> None:
    place = Path(shutil.copytree(sound, tmp_path / "repo", symlinks=True))
    if checked_out == "since":
        BREAKS[way](place)
    done = succeed(havasu(place, "checkout"))
    assert named(done.stderr, way) == (checked_out == "since")
    if checked_out != "since":
        BREAKS[way](place)
    tables = Repo.open(place).workspace.root
    by_hand.insert(tables / "good", table({50: ("fifty", 50)}).to_pylist())
    before = run_git("rev-parse", "HEAD", cwd=place)

    status = json.loads(succeed(havasu(place, "status", "-o", "json")).stdout)
    changes = status["kart.status/v2"]["workingCopy"]["changes"]
    assert changes == {"good": {"feature": {"inserts": 1}}}
    refused = havasu(place, "commit", "-m", "More")
    assert refused.exit_code == 20
    assert named(refused.stderr, way) == 1 and "--allow-broken" in refused.stderr
    assert run_git("rev-parse", "HEAD", cwd=place) == before
    # Nothing of the edit is lost by that.
    allowed = succeed(havasu(place, "commit", "-m", "More", "--allow-broken"))

    assert named(allowed.stderr, way) >= 1
    assert read(Repo.open(place), dataset="good") == {**FIRST, 50: ("fifty", 50)}
    assert succeed(havasu(place, "diff")).stdout == ""
    files, then = listed(place), listed(place, before)
    assert {p: b for p, b in files.items() if p[:4] != "good"} == {
        p: b for p, b in then.items() if p[:4] != "good"
    }
