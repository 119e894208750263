"""Two people and a host that knows nothing of tables: pull requests merge by its own button.

The host is git's `http-backend` with Git LFS, over HTTP. Ana cloned with our program, Ben with
plain `git clone`. The host merges in its bare repository, by a merge, a squash or a rebase, as
hosts do; both sides then have the rows of both, which a dict says, data fetched as usual.
"""

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import invoke, succeed
from tests.support.git import run_git
from tests.support.web import WebServer, serving

pytestmark = pytest.mark.few(1)

Rows = dict[int, tuple[str, int]]
BUTTONS = ("merge", "squash", "rebase")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[WebServer]:
    (tmp_path / "host").mkdir()
    run_git("init", "-q", "--bare", tmp_path / "host" / "points.git", cwd=tmp_path)
    with serving(tmp_path / "host") as found:
        yield found


@pytest.fixture
def host(server: WebServer) -> Path:
    return server.root / "points.git"


def release(path: Path, rows: Rows, *options: str) -> None:
    """Commit that the table of a clone holds just these rows."""
    source = path.parent / f"{path.name}.csv"
    with source.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(("id", "name", "height"))
        writer.writerows((key, *row) for key, row in sorted(rows.items()))
    say = ("--primary-key", "id") if not options else options
    succeed(invoke(["-C", path, "import", source, "points", *say, "-m", f"By {path.name}"]))


def change(path: Path, branch: str, rows: Rows) -> None:
    """Push a branch with these rows, as a pull request has it."""
    release(path, rows, "--replace")
    succeed(invoke(["-C", path, "push", "-u", "origin", branch]))


def rows_of(path: Path) -> Rows:
    """Return the rows that a clone has, as an export tells them, once it has the data."""
    succeed(invoke(["-C", path, "data", "fetch"]))
    out = path.parent / "export.csv"
    out.unlink(missing_ok=True)
    succeed(invoke(["-C", path, "export", "points", out]))
    with out.open(newline="", encoding="utf-8") as lines:
        return {int(r["id"]): (r["name"], int(r["height"])) for r in csv.DictReader(lines)}


def press(host: Path, button: str, branch: str) -> bool:
    """Merge a pull request in the host's bare repository; return whether that went through."""
    if button == "rebase":
        place = host.parent / f"rebase-{branch}"
        run_git("worktree", "add", "-q", "--detach", place, branch, cwd=host)
        try:
            done = run_git("rebase", "-q", "main", cwd=place, check=False)
            if run_git("ls-files", "-u", cwd=place) or "CONFLICT" in done:
                return False
            tip = run_git("rev-parse", "HEAD", cwd=place)
        finally:
            run_git("worktree", "remove", "--force", place, cwd=host)
    else:
        said = run_git("merge-tree", "--write-tree", "main", branch, cwd=host, check=False)
        if "CONFLICT" in said:
            return False
        parents = ["-p", "main", *(["-p", branch] if button == "merge" else [])]
        tip = run_git("commit-tree", said.split()[0], *parents, "-m", f"{branch} (#1)", cwd=host)
    run_git("update-ref", "refs/heads/main", tip, cwd=host)
    return True


@pytest.fixture
def people(server: WebServer, host: Path, tmp_path: Path) -> tuple[Path, Path, Rows]:
    """Ana, Ben, and the rows that both cloned."""
    rows: Rows = {key: (f"row {key}", key) for key in range(1, 9)}
    ana, ben = tmp_path / "ana", tmp_path / "ben"
    succeed(invoke(["clone", "-n", server.url("points.git"), ana]))
    release(ana, rows)
    succeed(invoke(["-C", ana, "push", "-u", "origin", "main"]))
    run_git("symbolic-ref", "HEAD", "refs/heads/main", cwd=host)
    run_git("clone", "-q", server.url("points.git"), ben, cwd=tmp_path)
    assert rows_of(ben) == rows
    return ana, ben, rows


@pytest.mark.thorough
@pytest.mark.parametrize("button", BUTTONS)
def test_two_pull_requests_on_one_table_merge_twice(
    button: str, people: tuple[Path, Path, Rows], host: Path, server: WebServer, tmp_path: Path
) -> None:
    ana, ben, rows = people
    for turn in (1, 2):
        first, second = f"ana-{turn}", f"ben-{turn}"
        succeed(invoke(["-C", ana, "switch", "-c", first]))
        run_git("switch", "-q", "-c", second, cwd=ben)
        hers = {**rows, turn: (f"Ana {turn}", 1), 20 + turn: ("Ana's", turn)}
        his = {**rows, 4 + turn: (f"Ben {turn}", 2), 30 + turn: ("Ben's", turn)}
        del his[3 if turn == 1 else 4]
        change(ana, first, hers)
        change(ben, second, his)

        # Neither is touched between the one button and the other.
        assert press(host, button, second)
        assert press(host, button, first)

        rows = {**his, turn: hers[turn], 20 + turn: hers[20 + turn]}
        succeed(invoke(["-C", ana, "switch", "main"]))
        succeed(invoke(["-C", ana, "pull"]))
        run_git("switch", "-q", "main", cwd=ben)
        run_git("pull", "-q", "--ff-only", cwd=ben)
        assert rows_of(ana) == rows_of(ben) == rows
    fresh = tmp_path / "fresh"
    run_git("clone", "-q", server.url("points.git"), fresh, cwd=tmp_path)
    assert rows_of(fresh) == rows
    assert "Everything is sound" in succeed(invoke(["-C", fresh, "fsck"])).stderr
    # Who goes on sees each person's work, commit by commit.
    if button != "squash":
        names = run_git("log", "--no-merges", "--format=%s", "--", "points", cwd=fresh)
        assert names.split("\n").count("By ben") == names.split("\n").count("By ana") - 1 == 2


@pytest.mark.parametrize("button", BUTTONS)
def test_one_row_in_two_pull_requests_is_settled_by_whom_it_concerns(
    button: str, people: tuple[Path, Path, Rows], host: Path
) -> None:
    ana, ben, rows = people
    succeed(invoke(["-C", ana, "switch", "-c", "ana"]))
    run_git("switch", "-q", "-c", "ben", cwd=ben)
    change(ana, "ana", {**rows, 1: ("Ana", 1)})
    change(ben, "ben", {**rows, 1: ("row 1", 100), 2: ("Ben", 2)})
    assert press(host, button, "ana")
    assert not press(host, button, "ben")

    # Two columns of one row: our merge puts them together.
    run_git("fetch", "-q", cwd=ben)
    merged = succeed(invoke(["-C", ben, "merge", "origin/main"]))
    assert "that git had left at the remote came" in merged.stderr
    succeed(invoke(["-C", ben, "push", "origin", "ben"]))

    assert press(host, "merge" if button == "rebase" else button, "ben")
    succeed(invoke(["-C", ana, "switch", "main"]))
    succeed(invoke(["-C", ana, "pull"]))
    assert rows_of(ana) == {**rows, 1: ("Ana", 100), 2: ("Ben", 2)}


@pytest.mark.thorough
def test_what_was_merged_is_reverted_by_the_host(
    people: tuple[Path, Path, Rows], host: Path
) -> None:
    ana, ben, rows = people
    run_git("switch", "-q", "-c", "ben", cwd=ben)
    change(ben, "ben", {**rows, 2: ("Ben", 2)})
    assert press(host, "squash", "ben")
    succeed(invoke(["-C", ana, "pull"]))
    succeed(invoke(["-C", ana, "switch", "-c", "ana"]))
    change(ana, "ana", {**rows, 2: ("Ben", 2), 5: ("Ana", 5)})
    place = host.parent / "revert"
    run_git("worktree", "add", "-q", "--detach", place, "main", cwd=host)
    run_git("revert", "--no-edit", "HEAD", cwd=place)
    run_git("update-ref", "refs/heads/main", run_git("rev-parse", "HEAD", cwd=place), cwd=host)

    assert press(host, "merge", "ana")

    run_git("switch", "-q", "main", cwd=ben)
    run_git("pull", "-q", "--ff-only", cwd=ben)
    assert rows_of(ben) == {**rows, 5: ("Ana", 5)}
