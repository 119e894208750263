"""`git diff` with the commands that `init` and `clone` tell git to run: the real git runs them."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from havasu_vc import Repo
from havasu_vc.store.preparation import DIFF_COMMAND, TEXT_CONVERSION
from tests.cli.conftest import invoke
from tests.repo import points

ROOT = Path(__file__).parents[2]
DELTA = f"points/.havasu-dataset/files/ab/{'ab' * 20}.json"
START = {1: ("one", 1), 2: ("two", 2), 3: ("three", 3)}


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder for PATH with havasu-vc in it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "havasu-vc"
    code = "from havasu_vc.cli.main import main; main()"
    program.write_text(f"#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -c '{code}' \"$@\"\n")
    program.chmod(0o755)
    return folder


def git(repo: Repo, *arguments: str, programs: Path | None = None) -> str:
    path = os.environ["PATH"] if programs is None else f"{programs}{os.pathsep}/usr/bin:/bin"
    done = subprocess.run(
        ["git", *arguments],
        cwd=repo.path,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = points.make(tmp_path / "repo", START)
    points.write(repo, {1: ("one", 1), 2: ("TWO", 2), 4: ("four", 4)})
    return repo


ROWS = """\
--- points:feature:2
+++ points:feature:2
-                                     name = two
+                                     name = TWO
"""


def test_git_diff_prints_rows_and_nothing_else(repo: Repo, programs: Path) -> None:
    text = git(repo, "diff", "HEAD^", "HEAD", programs=programs)

    assert text.startswith(ROWS)
    assert "+++ points:feature:4" in text
    assert "edits/" not in text
    assert "files/" not in text


@pytest.mark.parametrize(
    "arguments", [("show", "--ext-diff"), ("log", "-p", "--ext-diff", "-1")], ids=" ".join
)
@pytest.mark.few(1)
def test_others_print_rows_when_asked(
    repo: Repo, programs: Path, arguments: tuple[str, ...]
) -> None:
    assert ROWS in git(repo, *arguments, programs=programs)


@pytest.mark.thorough
def test_deltas_are_found_in_older_commits(repo: Repo, programs: Path) -> None:
    points.write(repo, START)
    repo.create_branch("side", "HEAD~4")

    assert ROWS in git(repo, "diff", "side", "main~2", programs=programs)
    there_and_back = git(repo, "diff", "side", "main", "--", "points", programs=programs)
    assert "+++ points:feature:4" in there_and_back and "--- points:feature:4" in there_and_back


@pytest.mark.thorough
def test_datasets_that_come_and_go(repo: Repo, tmp_path: Path, programs: Path) -> None:
    points.add(repo, tmp_path, {7: ("seven", 7)}, "more")

    assert "+++ more:feature:7" in git(repo, "diff", "HEAD^", "HEAD", programs=programs)
    assert "--- more:feature:7" in git(repo, "diff", "HEAD", "HEAD^", programs=programs)


def renamed(repo: Repo) -> None:
    """Rename the dataset as git does it, without a work tree."""
    git(repo, "read-tree", "--prefix=other/", "HEAD:points")
    git(repo, "rm", "-r", "-q", "--sparse", "--cached", "points")
    git(repo, "commit", "-q", "-m", "Rename")


@pytest.mark.thorough
def test_a_renamed_dataset(repo: Repo, programs: Path) -> None:
    renamed(repo)
    new = {1: ("one", 1), 2: ("zwei", 2), 4: ("four", 4)}
    points.write(Repo.open(repo.path), new, dataset="other")

    alone = git(repo, "diff", "-M", "HEAD~2", "HEAD^", programs=programs)
    both = git(repo, "diff", "-M10%", "HEAD~2", "HEAD", programs=programs)
    apart = git(repo, "diff", "--no-renames", "HEAD~2", "HEAD^", programs=programs)

    assert alone == "renamed: points → other\n"
    assert both.startswith("renamed: points → other\n--- other:feature:2\n+++ other:feature:2\n")
    assert "-                                     name = TWO" in both
    assert "--- points:feature:4" in apart
    assert "+++ other:feature:4" in apart


@pytest.mark.thorough
def test_in_another_work_tree(repo: Repo, tmp_path: Path, programs: Path) -> None:
    git(repo, "worktree", "add", "-q", str(tmp_path / "tree"), "HEAD^")
    done = subprocess.run(
        ["git", "diff", "HEAD", "main"],
        cwd=tmp_path / "tree",
        env=os.environ | {"PATH": f"{programs}{os.pathsep}/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.startswith(ROWS)


@pytest.mark.thorough
def test_while_a_merge_of_git_waits(repo: Repo, programs: Path) -> None:
    git(repo, "switch", "-q", "-c", "side", "HEAD^")
    points.write(Repo.open(repo.path), START | {2: ("deux", 2)})
    merged = subprocess.run(["git", "merge", "main"], cwd=repo.path, check=False)
    assert merged.returncode == 1

    # git shows conflicts by the textconv; it must not fail, nor ask for rows.
    assert "edits/0/" in git(repo, "diff", programs=programs)
    assert "+++ points:feature:2" in git(repo, "diff", "HEAD", "main", programs=programs)


@pytest.mark.thorough
def test_a_partial_clone_of_git(repo: Repo, tmp_path: Path, programs: Path) -> None:
    git(repo, "config", "uploadpack.allowFilter", "true")
    address = repo.path.as_uri()
    git(repo, "clone", "-q", "--filter=blob:none", "--no-checkout", address, str(tmp_path / "part"))
    clone = Repo.open(tmp_path / "part")
    for name in ("command", "textconv"):
        clone.config.set(f"diff.havasu.{name}", repo.config.get(f"diff.havasu.{name}") or "")
    (clone.git.data_folder.parent / "info").mkdir(exist_ok=True)
    attributes = clone.git.data_folder.parent / "info" / "attributes"
    attributes.write_text("**/.havasu-dataset/** diff=havasu\n")
    text = git(clone, "diff", "HEAD^", "HEAD", programs=programs)

    assert text.count("\n") == 1
    assert "rows are not shown: data file" in text


def test_columns(repo: Repo, programs: Path) -> None:
    columns = repo.get_meta("points", ["schema.json"])["schema.json"]
    repo.set_meta("points", {"schema.json": [*columns, {"name": "more", "dataType": "text"}]})

    text = git(repo, "diff", "HEAD^", "HEAD", programs=programs)

    assert "points:meta:schema.json" in text and '"more"' in text
    assert "--- points:feature" not in text and "+++ points:feature" not in text


@pytest.mark.thorough
def test_a_fold_shows_the_rows_that_changed_with_it(
    repo: Repo, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("havasu_vc.datasets.havasu.edit.MOST_DELTAS", 0)
    points.write(repo, {1: ("one", 1), 2: ("deux", 2), 4: ("four", 4)})

    text = git(repo, "diff", "HEAD^", "HEAD", programs=programs)

    assert "name = deux" in text and "name = four" not in text
    repo.optimize()
    assert git(repo, "diff", "HEAD^", "HEAD", programs=programs) == ""


def test_titles(repo: Repo, programs: Path) -> None:
    repo.set_meta("points", {"title": "A \x1b[31mtitle"})
    text = git(repo, "diff", "HEAD^", "HEAD", programs=programs)

    path = "points/.havasu-dataset/meta/title"
    assert text == f"--- {path}\n\n+++ {path}\n+A [31mtitle\n"


def test_without_the_program_it_says_so_in_one_line(repo: Repo, tmp_path: Path) -> None:
    text = git(repo, "diff", "HEAD^", "HEAD", programs=tmp_path)

    assert text.startswith("points/.havasu-dataset/files/")
    assert text.endswith(".json: rows are not shown, as havasu-vc is not on the PATH\n")
    assert text.count("\n") == 1


@pytest.mark.thorough
def test_data_that_is_not_here_is_told_in_one_line(repo: Repo, programs: Path) -> None:
    for path in (repo.git.data_folder / "objects").rglob("*"):
        if path.is_file():
            path.unlink()
    text = git(repo, "diff", "HEAD^", "HEAD", programs=programs)

    assert text.count("\n") == 1
    assert "rows are not shown: data file" in text


@pytest.mark.thorough
def test_many_rows_are_not_all_printed(tmp_path: Path, programs: Path) -> None:
    repo = points.make(tmp_path / "many", {n: ("x", n) for n in range(3000)})
    start = time.monotonic()
    text = git(repo, "show", "--ext-diff", programs=programs)

    assert text.count("+++ points:feature:") == 1000
    assert text.endswith("… more rows of points: `havasu-vc diff` prints them all\n")
    assert time.monotonic() - start < 30


def test_without_ext_diff_the_sums_are_printed(repo: Repo, tmp_path: Path) -> None:
    points.write(repo, {1: ("one", 1)})
    # No program of ours is needed, nor a data file.
    text = git(repo, "show", programs=tmp_path)

    assert "\n+rows: -2\n" in text
    assert "+content of column 1: " in text
    assert '"statistics"' not in text


def test_what_the_user_set_is_kept(tmp_path: Path) -> None:
    repo = Repo.init(tmp_path / "repo")
    config = repo.config
    assert config.get("diff.havasu.command") == DIFF_COMMAND
    assert config.get("diff.havasu.textconv") == TEXT_CONVERSION
    config.set("diff.havasu.command", "mine")
    config.set("diff.havasu.textconv", "havasu() { of an older version")
    again = Repo.init(tmp_path / "repo").config

    assert again.get("diff.havasu.command") == "mine"
    assert again.get("diff.havasu.textconv") == TEXT_CONVERSION


@pytest.mark.thorough
def test_clones_have_it_too(repo: Repo, tmp_path: Path, programs: Path) -> None:
    from havasu_vc.sharing.requests import CloneRequest

    clone, _ = Repo.clone(CloneRequest(str(repo.path), tmp_path / "clone"))

    assert ROWS in git(clone, "diff", "HEAD^", "HEAD", programs=programs)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("parcels.gpkg", ".", "."), "is no delta or column of a dataset"),
        ((DELTA, "1" * 40, "."), "no commit has the delta"),
        ((DELTA, "0" * 40, "."), "no commit has the delta"),
        ((DELTA, "x", "."), "is not the id of a blob"),
        ((DELTA, "--all", "."), "No such option"),
    ],
)
def test_what_git_would_not_ask(repo: Repo, arguments: tuple[str, ...], said: str) -> None:
    assert said in invoke(["-C", repo.path, "git-diff", *arguments]).output
