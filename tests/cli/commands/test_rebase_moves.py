"""Rebases and ranges of picks and reverts over a move of the dataset, which git cannot follow."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Run, succeed
from tests.support.git import run_git

BASE = {1: "a", 2: "b", 3: "c", 4: "d"}
Write = Callable[..., None]


@pytest.fixture
def release(tmp_path: Path, run: Run) -> Write:
    """Commit the rows that a dataset then has."""

    def commit(path: str, rows: dict[int, str], *options: str) -> None:
        file = tmp_path / "rows.csv"
        file.write_text("id,name\n" + "".join(f"{key},{name}\n" for key, name in rows.items()))
        succeed(run("import", file, path, *options, "-m", f"{path} {sorted(rows.values())}"))

    return commit


@pytest.fixture
def moved(run: Run, release: Write) -> None:
    """`side` has two edits of `lines`, and `main` another, which then moves it to `roads`."""
    release("lines", BASE, "--primary-key", "id")
    succeed(run("switch", "-c", "side"))
    release("lines", BASE | {3: "SIDE"}, "--replace")
    release("lines", BASE | {3: "SIDE", 5: "new"}, "--replace")
    succeed(run("switch", "main"))
    release("lines", BASE | {4: "MAIN"}, "--replace")
    succeed(run("mv", "lines", "roads"))


def rows(run: Run, dataset: str) -> dict[int, str]:
    """Return the rows of the dataset that is not `points`, once everything is sound."""
    assert succeed(run("data", "ls")).stdout.split() == sorted([dataset, "points"])
    succeed(run("fsck"))
    lines = succeed(run("cat", dataset, "-o", "csv")).stdout.splitlines()[1:]
    return {int(key): name for key, name in (line.split(",") for line in lines)}


ALL = BASE | {3: "SIDE", 4: "MAIN", 5: "new"}


@pytest.mark.usefixtures("moved")
def test_a_rebase_goes_where_the_dataset_went(run: Run) -> None:
    succeed(run("switch", "side"))

    succeed(run("rebase", "main"))

    assert rows(run, "roads") == ALL
    assert len(succeed(run("log", "--oneline", "main..HEAD")).stdout.splitlines()) == 2
    assert "nothing" in succeed(run("status")).stdout.lower()


@pytest.mark.usefixtures("moved")
def test_what_was_picked_before_is_not_made_again(run: Run) -> None:
    succeed(run("cherry-pick", "side^"))
    succeed(run("switch", "side"))

    succeed(run("rebase", "main"))

    assert rows(run, "roads") == ALL
    assert len(succeed(run("log", "--oneline", "main..HEAD")).stdout.splitlines()) == 1


@pytest.mark.usefixtures("moved")
def test_a_move_is_rebased_upon_edits(run: Run) -> None:
    succeed(run("rebase", "side"))

    assert rows(run, "roads") == ALL
    assert "Move lines to roads" in run("log", "--oneline").stdout


@pytest.mark.usefixtures("moved")
def test_a_range_is_picked_and_reverted_where_the_dataset_went(run: Run) -> None:
    succeed(run("cherry-pick", "side~2..side"))
    assert rows(run, "roads") == ALL

    succeed(run("mv", "roads", "ways"))
    succeed(run("revert", "HEAD~3..HEAD~1"))
    assert rows(run, "ways") == BASE | {4: "MAIN"}


@pytest.mark.parametrize(("side", "kept"), [("theirs", "SIDE"), ("ours", "MAIN")])
@pytest.mark.few(1)
def test_conflicts_over_a_move_wait_and_are_resolved(
    run: Run, release: Write, moved: None, side: str, kept: str
) -> None:
    release("roads", BASE | {3: "MAIN", 4: "MAIN"}, "--replace")
    succeed(run("switch", "side"))

    result = run("rebase", "main")
    assert "roads: 1 conflict" in result.output
    succeed(run("resolve", "--all", f"--with={side}"))
    succeed(run("rebase", "--continue"))

    assert rows(run, "roads") == ALL | {3: kept}


@pytest.mark.usefixtures("moved")
def test_a_rebase_over_a_move_is_dropped(run: Run, release: Write, repo: Path) -> None:
    release("roads", BASE | {3: "MAIN"}, "--replace")
    (repo / "README").write_text("mine\n")
    succeed(run("switch", "side"))
    before = run_git("rev-parse", "HEAD", cwd=repo)

    run("rebase", "main")
    succeed(run("rebase", "--abort"))

    assert run_git("rev-parse", "HEAD", cwd=repo) == before
    assert rows(run, "lines") == BASE | {3: "SIDE", 5: "new"}
    assert (repo / "README").read_text() == "mine\n"


@pytest.mark.usefixtures("moved")
def test_files_beside_the_datasets_come_along(run: Run, repo: Path) -> None:
    (repo / "MAIN.md").write_text("main\n")
    run_git("add", "MAIN.md", cwd=repo)
    run_git("commit", "-m", "main", cwd=repo)
    succeed(run("switch", "side"))
    (repo / "SIDE.md").write_text("side\n")
    run_git("add", "SIDE.md", cwd=repo)
    run_git("commit", "-m", "side", cwd=repo)

    succeed(run("rebase", "main"))

    assert rows(run, "roads") == ALL
    assert [(repo / name).exists() for name in ("MAIN.md", "SIDE.md")] == [True, True]
    assert run_git("status", "--porcelain", cwd=repo) == ""


@pytest.mark.usefixtures("moved")
def test_merges_over_a_move_are_refused_with_what_to_do(run: Run) -> None:
    succeed(run("switch", "side"))

    result = run("rebase", "--rebase-merges", "main")

    assert result.exit_code == 20
    assert "lines is roads on the other side" in result.stderr
    assert "leave --rebase-merges out" in result.stderr


@pytest.mark.usefixtures("moved")
def test_a_branch_that_is_named_is_to_be_switched_to_first(run: Run) -> None:
    result = run("rebase", "main", "side")

    assert result.exit_code == 20
    assert "`havasu-vc switch side` first" in result.stderr


@pytest.mark.usefixtures("moved")
def test_files_that_are_edited_are_kept(run: Run, repo: Path) -> None:
    succeed(run("switch", "side"))
    (repo / "README").write_text("side\n")
    run_git("add", "README", cwd=repo)
    run_git("commit", "-m", "readme", cwd=repo)
    (repo / "README").write_text("edited\n")

    result = run("rebase", "main")

    assert result.exit_code == 20
    assert "README" in result.stderr
    assert (repo / "README").read_text() == "edited\n"
    assert run_git("log", "-1", "--format=%s", cwd=repo).strip() == "readme"
    assert run("rebase", "--abort").exit_code == 20
    assert (repo / "README").read_text() == "edited\n"
