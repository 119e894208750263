"""Called kart: what git tells of a push, what an editor is shown, and commands of Kart alone."""

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import invoke, succeed
from tests.support.git import run_git

ROWS = "id,name\n1,one\n2,two\n3,three\n"


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository of Kart's with a working copy; the program is called kart from here."""
    (tmp_path / "table.csv").write_text(ROWS)
    repo = tmp_path / "repo"
    succeed(invoke(["init", "--kart", repo]))
    succeed(invoke(["-C", repo, "import", tmp_path / "table.csv", "--primary-key", "id"]))
    succeed(invoke(["-C", repo, "create-workingcopy", "copy.gpkg"]))
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kart"])
    return repo


def _write(repo: Path, statement: str) -> None:
    with closing(sqlite3.connect(repo / "copy.gpkg")) as file, file:
        file.execute(statement)


@pytest.fixture
def remote(repo: Path, tmp_path: Path) -> Path:
    place = tmp_path / "remote.git"
    run_git("init", "--bare", str(place), cwd=tmp_path)
    succeed(invoke(["-C", repo, "remote", "add", "origin", str(place)]))
    return place


def test_a_push_is_told_as_git_tells_it(repo: Path, remote: Path) -> None:
    def told(*words: str) -> str:
        result = succeed(invoke(["-C", repo, "push", *words]))
        assert not result.stdout
        return result.stderr

    assert told("origin", "main") == f"To {remote}\n * [new branch]      main -> main\n"
    assert told("origin", "main") == "Everything up-to-date\n"
    assert told("--atomic", "--follow-tags", "origin", "main:new") == (
        f"To {remote}\n * [new branch]      main -> new\n"
    )
    assert told("origin", ":new") == f"To {remote}\n - [deleted]         new\n"


def test_a_push_for_programs(repo: Path, remote: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = f"To {remote}\n*\trefs/heads/main:refs/heads/{{}}\t[new branch]\nDone\n"
    for name, program in (("a", "kart"), ("b", "havasu-vc")):
        monkeypatch.setattr(sys, "argv", [program])
        found = succeed(invoke(["-C", repo, "push", "--porcelain", "origin", f"main:{name}"]))
        assert found.stdout == expected.format(name)


def test_tags_that_are_reached_go_along(repo: Path, remote: Path) -> None:
    succeed(invoke(["-C", repo, "tag", "-m", "First", "v1"]))
    succeed(invoke(["-C", repo, "push", "--follow-tags", "origin", "main"]))
    assert "refs/tags/v1" in run_git("for-each-ref", cwd=remote)


def test_the_editor_is_shown_karts_page(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_EDITOR", "true")
    _write(repo, "UPDATE \"table\" SET name = 'zwei' WHERE id = 2")
    assert invoke(["-C", repo, "commit"]).exit_code == 2
    assert (repo / ".kart" / "COMMIT_EDITMSG").read_text() == (
        "\n# Please enter the commit message for your changes. Lines starting\n"
        "# with '#' will be ignored, and an empty message aborts the commit.\n#\n"
        "# On branch main\n#\n# Changes to be committed:\n#\n"
        "#   table:\n#     feature:\n#       1 updates\n#\n"
    )
    _write(repo, "UPDATE \"table\" SET name = 'two' WHERE id = 2")
    assert invoke(["-C", repo, "commit", "--allow-empty"]).exit_code == 2
    assert "#   No changes (empty commit)\n" in (repo / ".kart" / "COMMIT_EDITMSG").read_text()


@pytest.mark.parametrize("command", ["branch", "tag"])
def test_a_style_of_json(repo: Path, command: str) -> None:
    succeed(invoke(["-C", repo, "tag", "v1"]))
    compact = succeed(invoke(["-C", repo, command, "-o", "json:compact"])).stdout
    pretty = succeed(invoke(["-C", repo, command, "-o", "json"])).stdout
    assert compact.count("\n") == 1 < pretty.count("\n")
    assert json.loads(compact) == json.loads(pretty)


def test_a_script_is_refused(repo: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("raise SystemExit(0)")
    found = invoke(["-C", repo, "ext-run", script])
    assert found.exit_code and "Kart's own Python" in found.stderr


def test_conflicts_are_decided_one_at_a_time(repo: Path) -> None:
    for branch, name in (("side", "a"), ("main", "b")):
        if branch == "side":
            succeed(invoke(["-C", repo, "switch", "-c", branch]))
        else:
            succeed(invoke(["-C", repo, "switch", branch]))
        _write(repo, f"UPDATE \"table\" SET name = '{name}' WHERE id < 3")
        succeed(invoke(["-C", repo, "commit", "-m", branch]))
    succeed(invoke(["-C", repo, "merge", "side"]))
    before = succeed(invoke(["-C", repo, "conflicts"])).stdout
    assert invoke(["-C", repo, "resolve", "table", "--with=ours"]).exit_code == 50
    assert succeed(invoke(["-C", repo, "conflicts"])).stdout == before
    sys.argv = ["havasu-vc"]
    assert "0 conflicts" in succeed(invoke(["-C", repo, "resolve", "table", "--with=ours"])).stdout
