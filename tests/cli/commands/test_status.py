"""`havasu-vc status`."""

import json
from pathlib import Path

from tests.cli.conftest import Run, invoke, succeed
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
