"""`havasu-vc clean`: what nothing tracks goes, and what is checked out stays."""

from pathlib import Path

import pyogrio
import pytest

from tests.cli.commands.test_workingcopy import editor
from tests.cli.conftest import Run, invoke, succeed
from tests.support.git import run_git
from tests.workspace import by_hand


def told(text: str) -> set[str]:
    return {line for line in text.splitlines() if line.startswith(("Would remove", "Removed"))}


@pytest.fixture
def left(repo: Path) -> Path:
    """A work tree in which files are left behind: one of the root, one in a folder, one ignored."""
    (repo / "notes.txt").write_text("mine")
    (repo / "drafts").mkdir()
    (repo / "drafts" / "über [1].txt").write_text("mine")
    with (repo / ".git" / "info" / "exclude").open("a") as excluded:
        excluded.write("*.log\n")
    (repo / "run.log").write_text("mine")
    return repo


def test_files_as_git_cleans_them(run: Run, left: Path) -> None:
    refused = run("clean")
    assert refused.exit_code != 0 and "neither -n nor -f" in refused.stderr
    for options in ([], ["-d"], ["-x"], ["-d", "-x"]):
        by_git = run_git("clean", "-n", *options, cwd=left)
        assert told(succeed(run("clean", "-n", *options)).stderr) == told(by_git)

    said = succeed(run("clean", "-f")).stderr
    assert told(said) == {"Removed notes.txt"}
    assert not (left / "notes.txt").exists()
    assert (left / "drafts" / "über [1].txt").exists() and (left / "run.log").exists()
    succeed(run("clean", "-fdx"))
    assert not (left / "drafts").exists() and not (left / "run.log").exists()
    assert run_git("status", "--porcelain", "--ignored", cwd=left) == ""


def test_below_a_folder_alone(run: Run, left: Path) -> None:
    (left / "drafts" / "known.txt").write_text("git's")
    run_git("add", "drafts/known.txt", cwd=left)
    succeed(invoke(["-C", left / "drafts", "clean", "-f"]))
    assert (left / "notes.txt").exists()
    assert [each.name for each in (left / "drafts").iterdir()] == ["known.txt"]
    outside = run("clean", "-f", "..")
    assert outside.exit_code != 0 and "outside of the work tree" in outside.stderr


def test_git_may_be_told_to_ask_for_no_option(run: Run, left: Path) -> None:
    run_git("config", "clean.requireForce", "false", cwd=left)
    succeed(run("clean"))
    assert not (left / "notes.txt").exists()


def test_tables_that_are_checked_out_stay(run: Run, repo: Path) -> None:
    succeed(run("checkout"))
    by_hand.delete(repo / "tables" / "points", [0])
    for name in ("mine", "deep/er"):
        (repo / "tables" / name / "metadata").mkdir(parents=True)
    before = succeed(run("diff", "-o", "json-lines")).stdout

    assert told(succeed(run("clean", "-n", "-x")).stderr) == set()
    shown = told(succeed(run("clean", "-n", "-d", "-x")).stderr)
    assert shown == {"Would remove table mine", "Would remove table deep/er"}
    deep = told(succeed(run("clean", "-n", "tables/deep")).stderr)
    assert deep == {"Would remove table deep/er"}
    succeed(run("clean", "-f", "-d", "-x"))

    assert [each.name for each in (repo / "tables").iterdir()] == ["points"]
    assert before and succeed(run("diff", "-o", "json-lines")).stdout == before


@pytest.mark.parametrize("kart", [False, True])
def test_layers_that_are_no_dataset(kart: bool, tmp_path: Path, csv_file: Path) -> None:
    repo = tmp_path / "new"
    succeed(invoke(["init", repo, *["--kart"] * kart]))
    common: list[str | Path] = ["-C", repo]
    succeed(invoke([*common, "import", csv_file, "points", "--primary-key", "id", "-m", "First"]))
    succeed(invoke([*common, "create-workingcopy", "work.gpkg"]))
    file = repo / "work.gpkg"
    with editor(file) as database:
        database.execute("CREATE TABLE other (id INTEGER PRIMARY KEY, a TEXT)")
        database.execute(
            "INSERT INTO gpkg_contents (table_name, data_type, identifier)"
            " VALUES ('other', 'attributes', 'other')"
        )
        database.execute("UPDATE points SET name = 'edited' WHERE id = 2")
    (repo / "notes.txt").write_text("mine")

    files = set() if kart else {"Would remove notes.txt"}
    shown = succeed(invoke([*common, "clean", "-n", "-x"])).output
    assert told(shown) == {"Would remove layer other", *files}
    succeed(invoke([*common, "clean", "-f", "-x"]))

    assert {name for name, _ in pyogrio.list_layers(file)} == {"points"}
    assert (repo / "notes.txt").exists() == kart
    assert "edited" in succeed(invoke([*common, "diff", "-o", "json-lines"])).stdout
    assert told(succeed(invoke([*common, "clean", "-n", "-x"])).output) == set()


def test_a_bare_repository_has_nothing_to_clean(tmp_path: Path) -> None:
    succeed(invoke(["init", "--bare", tmp_path / "bare"]))
    refused = invoke(["-C", tmp_path / "bare", "clean", "-f"])
    assert refused.exit_code != 0 and "no work tree" in refused.stderr
