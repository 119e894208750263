"""`commit --amend`, beside what git does with a text file."""

from pathlib import Path

import pytest

from tests.cli.conftest import Run, succeed
from tests.support.git import run_git
from tests.workspace import by_hand

NEW = {"id": 10, "name": "ten", "height": 1.0, "geom": None}


def facts(repo: Path, revision: str, form: str = "%P|%an <%ae> %ad|%B") -> str:
    return run_git("log", "-1", f"--format={form}", revision, cwd=repo)


def names(run: Run, revision: str = "HEAD") -> list[str]:
    shown = succeed(run("diff", f"[EMPTY]...{revision}", "-o", "json-lines")).stdout
    return sorted(n for n in ("one", "two", "TWO", "three", "four", "ten") if f'"{n}"' in shown)


@pytest.mark.thorough
def test_edits_of_a_table_go_into_the_commit_of_head(run: Run, repo: Path) -> None:
    succeed(run("checkout"))
    by_hand.insert(repo / "tables" / "points", [NEW])
    before = facts(repo, "HEAD")

    said = succeed(run("commit", "--amend", "--no-edit")).stderr

    assert said.splitlines()[0].endswith("] Second") and "points: 1 insert" in said
    assert facts(repo, "HEAD") == before
    assert names(run) == ["TWO", "four", "one", "ten"]
    assert names(run, "HEAD@{1}") == ["TWO", "four", "one"]
    assert "(amend)" in run_git("reflog", "-1", cwd=repo)
    assert "working copy clean" in succeed(run("status")).stdout
    assert run_git("status", "--porcelain", cwd=repo) == ""
    by_hand.delete(repo / "tables" / "points", [0])
    succeed(run("commit", "-m", "Next"))
    assert len(names(run)) == 3


def test_the_message_alone_as_git_does(run: Run, repo: Path) -> None:
    run_git("commit", "--amend", "--allow-empty", "-q", "-m", "Better", cwd=repo)
    by_git = facts(repo, "HEAD", "%T|%P|%an|%B").strip()

    succeed(run("commit", "--amend", "-m", "Best"))

    assert facts(repo, "HEAD", "%T|%P|%an|%B").strip() == by_git.replace("Better", "Best")
    assert run_git("rev-list", "--count", "HEAD", cwd=repo) == "2"


def test_the_author_stays(run: Run, repo: Path) -> None:
    who = ("-c", "user.name=Other", "-c", "user.email=o@example.com")
    run_git(*who, "commit", "--amend", "--allow-empty", "-q", "-m", "x", "--reset-author", cwd=repo)

    succeed(run("commit", "--amend", "-m", "y"))

    assert facts(repo, "HEAD", "%an %cn") == "Other Test User"


def test_the_first_commit_is_amended_too(run: Run, repo: Path) -> None:
    succeed(run("switch", "-c", "old", "HEAD^"))

    succeed(run("commit", "--amend", "-m", "Begin"))

    assert run_git("rev-list", "--count", "HEAD", cwd=repo) == "1"


def test_it_is_refused(run: Run, repo: Path, tmp_path: Path) -> None:
    head = run_git("rev-parse", "HEAD", cwd=repo)
    assert run("commit", "--amend", "--refs").exit_code == 2
    assert run("commit", "--no-edit", "-m", "x").exit_code == 2
    succeed(run("switch", "-c", "side", "HEAD^"))
    source = tmp_path / "points.csv"
    source.write_text("id,name,height,lon,lat\n2,zwei,2.5,174.6,-41.1\n")
    options = ("--primary-key", "id", "--crs", "EPSG:4326", "-m", "Side")
    succeed(run("import", source, "--replace", *options))
    succeed(run("switch", "main"))
    succeed(run("merge", "side"))

    refused = run("commit", "--amend", "-m", "x")

    assert refused.exit_code == 20
    assert "in the middle of a merge -- cannot amend" in refused.stderr
    assert "`havasu-vc merge --continue` concludes it" in refused.stderr
    assert run_git("rev-parse", "HEAD", cwd=repo) == head
    succeed(run("init", tmp_path / "new"))
    nothing = run("--repo", tmp_path / "new", "commit", "--amend", "-m", "x")
    assert nothing.exit_code == 44 and "nothing yet to amend" in nothing.stderr
