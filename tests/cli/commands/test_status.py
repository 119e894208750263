"""`havasu-vc status`."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run, invoke, succeed
from tests.repo.points import make
from tests.support.git import run_git


def test_text(run: Run) -> None:
    result = succeed(run("status"))

    assert result.stdout.startswith("On branch main\n")
    assert result.stderr == ""


def test_json(run: Run) -> None:
    status = json.loads(succeed(run("status", "-o", "json")).stdout)

    assert list(status) == ["kart.status/v2"]
    assert status["kart.status/v2"]["branch"] == "main"
    assert len(status["kart.status/v2"]["commit"]) == 40


def test_a_merge_that_stopped_is_told(run: Run, repo: Path) -> None:
    head = json.loads(run("status", "-o", "json").stdout)["kart.status/v2"]["commit"]
    (repo / ".git" / "MERGE_HEAD").write_text(head + "\n")

    told = succeed(run("status")).stdout
    assert "A git merge is not finished" in told
    assert "havasu-vc merge --continue" in told
    status = json.loads(run("status", "-o", "json").stdout)
    assert status["havasu.status/v1"]["state"] == "merge"


@pytest.mark.parametrize(
    ("how", "letter", "said"),
    [
        (("rm", "-r", "--sparse", "-q", "points"), "D", "the removal of points"),
        (
            ("rm", "--sparse", "-q", "points/.havasu-dataset/columns/1.json"),
            "M",
            "a change of points",
        ),
    ],
)
def test_what_git_has_staged_of_a_dataset_is_told(
    tmp_path: Path, how: tuple[str, ...], letter: str, said: str
) -> None:
    """The next commit would take it along, also one of other things."""
    path = make(tmp_path / "repo", {1: ("a", 1)}).path
    (path / "note.txt").write_text("mine")
    run_git("add", "note.txt", cwd=path)
    assert "staged" not in succeed(invoke(["-C", path, "status"])).stdout
    run_git(*how, cwd=path)

    told = succeed(invoke(["-C", path, "status"])).stdout
    status = json.loads(succeed(invoke(["-C", path, "status", "-o", "json"])).stdout)

    assert f"git has staged {said}" in told and "`git reset -- points`" in told
    assert said in status["havasu.status/v1"]["problems"][0]
    hint = f"Hint: git has staged {said}: `git commit` commits it, `git reset -- points` takes"
    for line in (["commit", "-m", "x"], ["commit", "-n", "-m", "x"]):
        assert hint in invoke(["-C", path, *line]).stderr
    succeed(invoke(["-C", path, "checkout"]))
    assert hint in invoke(["-C", path, "commit", "-m", "x"]).stderr
    assert succeed(invoke(["-C", path, "status", "-s"])).stdout == f"{letter}  points\n"
    run_git("reset", "--", "points", cwd=path)
    assert "staged" not in succeed(invoke(["-C", path, "status"])).stdout
    assert run_git("status", "--porcelain", cwd=path) == "A  note.txt"


def test_before_the_first_commit(tmp_path: Path) -> None:
    succeed(invoke(["init", tmp_path]))

    assert "Empty repository" in succeed(invoke(["-C", tmp_path, "status"])).stdout


def test_the_host_calls_another_branch_its_first(repo: Path, tmp_path: Path) -> None:
    hub, clone = tmp_path / "hub.git", tmp_path / "clone"
    run_git("clone", "--quiet", "--bare", str(repo), str(hub), cwd=tmp_path)
    run_git("symbolic-ref", "HEAD", "refs/heads/trunk", cwd=hub)
    run_git("clone", "--quiet", str(hub), str(clone), cwd=tmp_path)

    hint = "main has commits: `havasu-vc switch main`"
    assert hint in succeed(invoke(["-C", clone, "status"])).stdout
    status = json.loads(succeed(invoke(["-C", clone, "status", "-o", "json"])).stdout)
    assert status["havasu.status/v1"]["notes"] == [hint]
    log = invoke(["-C", clone, "log"])
    assert log.exit_code == 40 and "main has some: `havasu-vc switch main`" in log.stderr
    succeed(invoke(["-C", clone, "switch", "main"]))
    assert "On branch main" in succeed(invoke(["-C", clone, "status"])).stdout
