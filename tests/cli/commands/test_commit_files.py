"""`havasu-vc commit-files`, `git` and `reflog`: what Kart's repositories need beside tables."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Run, invoke, succeed
from tests.support.git import run_git

OPTIONS = ("--primary-key", "id", "--csv-lon", "lon", "--csv-lat", "lat", "--crs", "EPSG:4326")


@pytest.fixture
def repo(tmp_path: Path, csv_file: Path) -> Path:
    """A repository of Kart's with one table."""
    folder = tmp_path / "repo"
    succeed(invoke(["init", "--kart", folder]))
    succeed(invoke(["-C", folder, "import", csv_file, *OPTIONS]))
    return folder


def test_files_are_committed_amended_and_removed(run: Run, tmp_path: Path) -> None:
    (tmp_path / "picture").write_bytes(b"\xff\x00")
    said = succeed(
        run("commit-files", "-m", "Licence", "LICENSE=CC0", f"table/p=@{tmp_path}/picture")
    )
    assert said.stdout.startswith("[main ")
    shown = succeed(run("show", "--name-status")).stdout
    assert "A\tLICENSE" in shown and "A\ttable/p" in shown

    again = run("commit-files", "-m", "Again", "LICENSE=CC0")
    assert again.exit_code == 44
    succeed(run("commit-files", "--amend", "NOTES=x"))
    log = succeed(run("log", "--oneline")).stdout.splitlines()
    assert len(log) == 2 and log[0].endswith(" Licence")

    succeed(run("commit-files", "-m", "Gone", "--remove-empty-files", "LICENSE=", "NOTES=y"))
    shown = succeed(run("show", "--name-status")).stdout
    assert "D\tLICENSE" in shown and "M\tNOTES" in shown


def test_files_are_filters_of_diff_and_show(run: Run) -> None:
    succeed(run("commit-files", "-m", "Two", "LICENSE=CC0", "table/notes=x"))
    assert succeed(run("show", "--name-only", "LICENSE")).stdout.splitlines()[-1] == "LICENSE"
    shown = succeed(run("diff", "--diff-files", "HEAD^...HEAD", "table/notes")).stdout
    assert shown == "+++ table/notes\n+ x\n"
    assert run("show", "NOTHING").exit_code == 40
    assert run("diff", "HEAD^...HEAD", "NOTHING").exit_code == 40
    assert succeed(run("diff", "HEAD^...HEAD", "--", "NOTHING")).output == ""
    plain = succeed(run("log", "-o", "text:%s", "LICENSE")).stdout
    assert plain == "Two\n"


def test_another_branch_gets_the_commit(run: Run) -> None:
    succeed(run("branch", "side"))
    succeed(run("commit-files", "--ref", "refs/heads/side", "-m", "There", "a=1"))
    subjects = succeed(run("log", "--oneline", "side")).stdout
    assert " There\n" in subjects and " There\n" not in succeed(run("log", "--oneline")).stdout
    succeed(run("commit-files", "--ref", "side", "--amend", "-m", "Here", "b=1"))
    amended = succeed(run("log", "--oneline", "side")).stdout
    assert " Here\n" in amended and " There\n" not in amended
    assert len(succeed(run("log", "--oneline")).stdout.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("-m", "x", ".kart.repostructure.version=4"), 2),
        (("-m", "x", "table/.table-dataset/meta/title=y"), 2),
        (("-m", "x", "../out=y"), 2),
        (("a=1",), 2),
        (("-m", "x", "a=@nowhere"), 2),
        (("-m", "x", "--ref", "nope", "a=1"), 43),
    ],
)
def test_what_cannot_be_committed(run: Run, arguments: tuple[str, ...], code: int) -> None:
    refused = run("commit-files", *arguments)
    assert refused.exit_code == code, refused.output
    assert refused.stderr.startswith("Error: ") and "Traceback" not in refused.stderr
    assert len(succeed(run("log", "--oneline")).stdout.splitlines()) == 1


def test_in_gits_repositories_git_does_it(tmp_path: Path) -> None:
    succeed(invoke(["init", tmp_path / "plain"]))
    refused = invoke(["-C", tmp_path / "plain", "commit-files", "-m", "x", "a=1"])
    assert refused.exit_code == 30 and "git commit" in refused.stderr


def test_git_and_reflog(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    succeed(run("git", "--no-pager", "log", "-1", "--format=%s"))
    assert capfd.readouterr().out.startswith("Import")
    assert "HEAD@{0}" in succeed(run("reflog")).stdout

    refused = run("git", "-c", "x.y=z", "commit", "--allow-empty", "-m", "By git")
    assert refused.exit_code == 20 and "index" in refused.stderr
    assert succeed(run("data", "ls")).stdout == "table\n"


def test_before_the_first_commit_git_may_make_one(tmp_path: Path) -> None:
    succeed(invoke(["init", "--kart", tmp_path]))
    succeed(invoke(["-C", tmp_path, "git", "commit", "-q", "--allow-empty", "-m", "By git"]))
    assert "By git" in succeed(invoke(["-C", tmp_path, "reflog"])).stdout


def test_annotations_are_where_kart_looks_for_them(run: Run, repo: Path, tmp_path: Path) -> None:
    succeed(run("commit-files", "-m", "Licence", "LICENSE=CC0"))
    said = succeed(run("build-annotations", "--all-reachable")).stdout.splitlines()
    assert said[:2] == ["Enumerating reachable commits...", "Building feature change counts..."]
    assert said[2].startswith("(1/2): ") and said[2].endswith(" Licence") and said[4:] == ["done."]

    first, last = run_git("log", "--format=%T", "--reverse", cwd=repo).split()
    rows = {"table": len(succeed(run("cat", "table", "-o", "json-lines")).stdout.splitlines())}
    empty = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
    wanted = {"...".join(sorted((empty, first))): rows, "...".join(sorted((first, last))): {}}
    assert annotations(repo) == wanted

    asking = ["-C", str(repo), "build-annotations"]
    said = succeed(invoke(asking, stdin="HEAD^\n\n")).stdout.splitlines()
    assert len(said) == 3 and said[1].startswith("(1/1): ")
    assert annotations(repo) == wanted
    (repo / ".kart" / "annotations.db").write_bytes(b"no database")
    refused = invoke(asking, stdin="HEAD\n")
    succeed(invoke(["init", "--kart", tmp_path / "empty"]))
    none = succeed(invoke(["-C", tmp_path / "empty", "build-annotations", "--all-reachable"]))
    assert none.stdout == "Enumerating reachable commits...\ndone.\n"
    assert refused.exit_code == 11 and "annotations.db cannot be written" in refused.stderr


def annotations(repo: Path) -> dict[str, dict[str, int]]:
    with closing(sqlite3.connect(repo / ".kart" / "annotations.db")) as database:
        rows = database.execute(
            "SELECT object_id, data FROM kart_annotations"
            " WHERE annotation_type = 'feature-change-counts-exact'"
        )
        return {ends: json.loads(data) for ends, data in rows}


@pytest.mark.parametrize("name", ["helper", "lfs+"])
def test_what_is_not_needed_says_so(name: str) -> None:
    part = "fetch" if name == "lfs+" else "whatever"
    for arguments in (["--all-reachable", part], [part]):
        said = succeed(invoke([name, *arguments]))
        assert said.stderr.startswith("Note: nothing is to be done: ") and not said.stdout


def test_what_karts_commands_are_not_is_an_error() -> None:
    refused = invoke(["lfs+", "nosuch"])
    assert refused.exit_code == 2 and "lfs+ has no command 'nosuch'" in refused.stderr
    refused = invoke(["ext-run", "script.py"])
    assert refused.exit_code == 2 and "only Kart itself runs Python" in refused.stderr


def test_other_names_of_commands() -> None:
    for name in ("import", "export"):
        theirs = succeed(invoke([f"table-{name}", "--help"])).stdout
        ours = succeed(invoke([name, "--help"])).stdout
        assert theirs.replace(f"table-{name}", name) == ours
