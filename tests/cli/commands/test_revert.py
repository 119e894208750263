"""`revert` and `cherry-pick` on the command line."""

import json
from pathlib import Path

from tests.cli.conftest import Run, succeed
from tests.support.git import run_git


def write(run: Run, folder: Path, text: str, message: str) -> None:
    source = folder / "points.csv"
    source.write_text("id,name,height,lon,lat\n" + text)
    succeed(
        run(
            "import",
            source,
            "--primary-key",
            "id",
            "--crs",
            "EPSG:4326",
            "--replace",
            "-m",
            message,
        )
    )


THIRD = "1,ONE,1.5,174.5,-41.0\n2,zwei,2.5,174.6,-41.1\n4,four,4.5,174.8,-41.3\n"


def test_a_commit_is_reverted(run: Run, repo: Path) -> None:
    result = succeed(run("revert", "HEAD"))

    assert '] Revert "Second"' in result.output
    assert "points: 1 insert, 1 update, 1 delete" in result.output
    assert run_git("status", "--porcelain", cwd=repo) == ""
    assert run("diff", "HEAD~2...HEAD", "--exit-code").exit_code == 0
    assert run_git("log", "-1", "--format=%b", cwd=repo).startswith("This reverts commit ")


def test_the_message_may_be_another(run: Run, repo: Path) -> None:
    # Scripts say so to git wherever it might ask.
    succeed(run("revert", "--no-edit", "HEAD", "-m", "Undo it"))

    assert run_git("log", "-1", "--format=%B", cwd=repo).strip() == "Undo it"


def test_conflicts_wait_and_are_concluded(run: Run, repo: Path, tmp_path: Path) -> None:
    write(run, tmp_path, THIRD, "Third")

    said = succeed(run("revert", "HEAD^")).output
    assert "points: 1 conflict" in said
    assert "revert --continue" in said
    assert run("revert", "HEAD^").exit_code == 20
    assert run("revert", "--continue").exit_code == 21
    succeed(run("resolve", "--all", "--with", "ours"))
    result = succeed(run("revert", "--continue"))

    assert '] Revert "Second"' in result.output
    assert run_git("rev-list", "--count", "HEAD", cwd=repo) == "4"
    assert run_git("status", "--porcelain", cwd=repo) == ""


def test_trying_and_dropping(run: Run, repo: Path, tmp_path: Path) -> None:
    assert "no conflicts" in succeed(run("revert", "-n", "HEAD")).output
    write(run, tmp_path, THIRD, "Third")
    head = run_git("rev-parse", "HEAD", cwd=repo)

    assert "There would be conflicts" in succeed(run("revert", "-n", "HEAD^")).output
    succeed(run("revert", "HEAD^"))
    assert "HEAD is where it was" in succeed(run("revert", "--abort")).output

    assert run_git("rev-parse", "HEAD", cwd=repo) == head
    succeed(run("revert", "HEAD^", "-X", "theirs"))


def test_a_commit_is_picked(run: Run, repo: Path) -> None:
    picked = run_git("rev-parse", "HEAD", cwd=repo)
    succeed(run("switch", "-c", "other", "HEAD^"))

    result = succeed(run("cherry-pick", "-x", picked))

    assert "[other " in result.output
    assert run_git("rev-parse", "HEAD^{tree}", cwd=repo) == run_git(
        "rev-parse", f"{picked}^{{tree}}", cwd=repo
    )
    info = json.loads(succeed(run("log", "-n1", "-o", "json")).stdout)[0]
    assert f"(cherry picked from commit {picked})" in info["message"]
    assert "has it like that already" in succeed(run("cherry-pick", picked)).output


def test_what_makes_no_sense_is_refused(run: Run) -> None:
    for command in ("revert", "cherry-pick"):
        assert run(command).exit_code == 2
        assert run(command, "HEAD", "--abort").exit_code == 2
        assert run(command, "--abort").exit_code == 20
        assert run(command, "nothing").exit_code == 47
        assert run(command, "HEAD", "--mainline", "1").exit_code == 2


def test_what_came_of_it_as_json(run: Run, repo: Path, tmp_path: Path) -> None:
    value = json.loads(succeed(run("revert", "HEAD", "-o", "json")).stdout)["havasu.revert/v1"]

    assert value["commit"] == run_git("rev-parse", "HEAD", cwd=repo)
    assert value["message"].startswith('Revert "Second"')
    assert value["changes"] == {"points": {"feature": {"inserts": 1, "updates": 1, "deletes": 1}}}
    assert value["conflicts"] is None and not value["noOp"] and not value["dryRun"]

    succeed(run("reset", "--hard", "HEAD^"))
    write(run, tmp_path, THIRD, "Third")
    value = json.loads(succeed(run("revert", "HEAD^", "-o", "json")).stdout)["havasu.revert/v1"]
    assert value["commit"] is None and set(value["conflicts"]) == {"points"}
    succeed(run("resolve", "--all", "--with", "ours"))
    value = json.loads(succeed(run("revert", "--continue", "-o", "json")).stdout)
    assert value["havasu.revert/v1"]["commit"] == run_git("rev-parse", "HEAD", cwd=repo)


def test_a_pick_that_changes_nothing_as_json(run: Run, repo: Path) -> None:
    value = json.loads(succeed(run("cherry-pick", "HEAD", "-o", "json")).stdout)

    assert value["havasu.cherry-pick/v1"]["noOp"]
    assert value["havasu.cherry-pick/v1"]["commit"] is None


def test_a_range_with_a_merge_is_refused_before_anything_is_made(run: Run, repo: Path) -> None:
    succeed(run("switch", "-c", "side", "HEAD^"))
    succeed(run("meta", "set", "points", "title=Points"))
    succeed(run("merge", "main"))
    succeed(run("meta", "set", "points", "title=Places"))
    head = run_git("rev-parse", "HEAD", cwd=repo)
    for command in ("revert", "cherry-pick"):
        for more in ((), ("--mainline", "1")):
            refused = run(command, "HEAD~2..HEAD", *more)
            assert refused.exit_code == 2, refused.output
            assert "is a merge, and others of HEAD~2..HEAD are none" in refused.stderr
    assert run_git("rev-parse", "HEAD", cwd=repo) == head
    assert succeed(run("status")).stdout == "On branch side\n\nNothing to commit\n"
    assert (
        run_git("rev-list", "-n1", "--merges", "HEAD", cwd=repo)
        in succeed(run("log", "--merges", "-o", "json")).stdout
    )
    assert succeed(run("log", "--graph", "--merges", "--oneline")).stdout.count("Merge") == 1
    succeed(run("revert", "HEAD^", "-m", "1"))


def test_what_changes_beside_rows_is_named(run: Run, repo: Path) -> None:
    succeed(run("switch", "-c", "titled"))
    succeed(run("meta", "set", "points", "title=Other", "-m", "Title"))
    assert "  points: title\n" in succeed(run("revert", "HEAD")).stderr
    assert "  points: title\n" in succeed(run("cherry-pick", "HEAD~1")).stderr
    succeed(run("switch", "main"))
    succeed(run("meta", "set", "points", "description=Here", "-m", "Text"))
    assert "  points: title\n" in succeed(run("merge", "titled", "-m", "Both")).stderr


def test_a_column_comes_back_to_a_table_without_a_key(run: Run, tmp_path: Path) -> None:
    """The way that the hint names, where rows were written since."""
    file = tmp_path / "lines.csv"
    file.write_text("a,b\n1,x\n1,y\n")
    succeed(run("import", file, "lines", "-m", "Lines"))
    columns = json.loads(succeed(run("meta", "get", "lines", "schema.json", "-o", "json")).stdout)
    kept = json.dumps(columns["lines"]["schema.json"][:1])
    succeed(run("meta", "set", "lines", f"schema.json={kept}", "-m", "Dropped"))
    succeed(run("branch", "back"))
    file.write_text("a\n1\n1\n9\n")
    succeed(run("import", file, "lines", "--replace", "-m", "More"))

    refused = run("revert", "HEAD^")
    assert refused.exit_code and "from a branch that has the column" in refused.stderr
    succeed(run("switch", "back"))
    succeed(run("revert", "HEAD"))
    succeed(run("merge", "main", "-m", "Both"))

    shown = succeed(run("cat", "lines", "-o", "csv")).stdout.splitlines()
    assert sorted(shown) == ["1,x", "1,y", "9,", "a,b"]
