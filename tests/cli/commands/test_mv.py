"""`mv` and `rm`: datasets get another path, or go, and what is told of them follows."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import SECOND, Run, succeed
from tests.support.git import run_git
from tests.workspace import by_hand


def rows(run: Run, dataset: str, folder: Path) -> str:
    succeed(run("export", dataset, folder / "rows.csv", "--overwrite"))
    return (folder / "rows.csv").read_text()


def subjects(run: Run, *arguments: str) -> list[str]:
    commits = json.loads(succeed(run("log", "-o", "json", *arguments)).stdout)
    return [commit["message"].partition("\n")[0] for commit in commits]


def test_a_dataset_moves_with_its_rows_and_its_history(
    run: Run, repo: Path, tmp_path: Path
) -> None:
    before = rows(run, "points", tmp_path)
    said = succeed(run("mv", "points", "maps/places")).output

    assert "] Move points to maps/places" in said
    assert succeed(run("data", "ls")).output == "maps/places\n"
    assert rows(run, "maps/places", tmp_path) == before
    assert run_git("status", "--porcelain", cwd=repo) == ""
    assert subjects(run, "maps/places") == ["Move points to maps/places", "Second", "First"]
    assert subjects(run, "maps/places:feature:1") == ["First"]
    assert subjects(run, "maps/places:feature:2") == ["Second", "First"]
    assert succeed(run("blame", "maps/places:feature:2")).output.endswith(" 2\n")
    assert succeed(run("fsck", "--full")).exit_code == 0
    second = json.loads(succeed(run("log", "-o", "json")).stdout)[1]["abbrevCommit"]
    assert succeed(run("blame", "maps/places:feature:2")).output.startswith(second)


def test_a_kart_dataset_moves_too(run: Run, tmp_path: Path) -> None:
    succeed(run("convert", "points", "--to", "kart"))
    before = rows(run, "points", tmp_path)
    succeed(run("mv", "points", "places", "-m", "Elsewhere"))

    assert rows(run, "places", tmp_path) == before
    assert subjects(run, "places")[0] == "Elsewhere" and len(subjects(run, "places")) > 2


def test_edits_of_a_branch_that_knows_the_old_path_are_merged(run: Run, tmp_path: Path) -> None:
    succeed(run("branch", "side"))
    succeed(run("mv", "points", "places"))
    succeed(run("switch", "side"))
    source = tmp_path / "points.csv"
    source.write_text(SECOND.replace("TWO", "zwei"))
    key = ("--primary-key", "id", "--crs", "EPSG:4326")
    succeed(run("import", source, "points", *key, "--replace", "-m", "Two"))
    succeed(run("switch", "main"))
    succeed(run("merge", "side", "-m", "Both"))

    assert succeed(run("data", "ls")).output == "places\n"
    assert "zwei" in rows(run, "places", tmp_path)
    assert subjects(run, "places:feature:2")[:1] == ["Two"]


def test_files_beside_go_along(run: Run, repo: Path) -> None:
    blob = run_git("hash-object", "-w", "--stdin", cwd=repo, stdin="about points")
    for name in ("points/README.md", "points/docs/more.txt"):
        run_git("update-index", "--add", "--cacheinfo", f"100644,{blob},{name}", cwd=repo)
    run_git("commit", "-q", "-m", "Notes", cwd=repo)
    run_git("sparse-checkout", "reapply", cwd=repo)
    succeed(run("mv", "points", "places"))

    names = run_git("ls-tree", "-r", "--name-only", "HEAD", cwd=repo).splitlines()
    assert {"places/README.md", "places/docs/more.txt"} <= set(names)
    assert not [name for name in names if name.startswith("points/")]
    said = succeed(run("rm", "places")).output
    assert "places/README.md is no part of the dataset and stays" in said
    assert run_git("cat-file", "-p", "HEAD:places/README.md", cwd=repo) == "about points"


def test_tables_follow_and_edits_are_not_left_behind(run: Run, repo: Path) -> None:
    succeed(run("checkout"))
    succeed(run("mv", "points", "maps/places"))
    assert (repo / "tables" / "maps" / "places" / "metadata").is_dir()
    assert not (repo / "tables" / "points").exists()

    by_hand.delete(repo / "tables" / "maps" / "places", [0])
    for command in (("mv", "maps/places", "points"), ("rm", "maps/places")):
        refused = run(*command)
        assert refused.exit_code == 29
        assert "maps/places has edits that are not committed" in refused.output
    succeed(run("commit", "-m", "One less"))
    succeed(run("rm", "maps/places"))
    assert not (repo / "tables" / "maps" / "places").exists()
    assert "Nothing to commit" in succeed(run("status")).output


@pytest.mark.parametrize("command", [("rm",), ("data", "rm")], ids=" ".join)
def test_a_dataset_is_removed_and_brought_back(
    run: Run, command: tuple[str, ...], tmp_path: Path
) -> None:
    before = rows(run, "points", tmp_path)
    assert "] Remove points" in succeed(run(*command, "points")).output
    assert succeed(run("data", "ls", "-o", "json")).stdout.count("points") == 0
    assert run("diff", "HEAD^...HEAD", "--exit-code").exit_code == 1

    succeed(run("restore", "-s", "HEAD^", "points"))
    assert rows(run, "points", tmp_path) == before


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("mv", "nothing", "x"), 49, "there is no dataset 'nothing'"),
        (("mv", "points", "points"), 2, "is where it is already"),
        (("mv", "points", "../x"), 2, "'..'"),
        (("mv", "points", "a/.git"), 2, "belongs to git"),
        (("rm", "points", "nothing"), 49, "there is no dataset 'nothing'"),
        (("rm",), 2, "Missing argument"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(
    run: Run, repo: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    head = run_git("rev-parse", "HEAD", cwd=repo)
    refused = run(*arguments)

    assert (refused.exit_code, words in refused.output) == (code, True), refused.output
    assert run_git("rev-parse", "HEAD", cwd=repo) == head
    assert run_git("status", "--porcelain", cwd=repo) == ""


def test_a_path_that_is_taken_is_refused(run: Run, csv_file: Path) -> None:
    succeed(run("import", csv_file, "others", "--primary-key", "id", "--crs", "EPSG:4326"))
    refused = run("mv", "points", "others")
    assert refused.exit_code == 2 and "there is a dataset of that name" in refused.output
    assert run("mv", "points", "others/inside").exit_code == 2
    succeed(run("rm", "points", "others", "-m", "All"))
    assert subjects(run)[0] == "All" and succeed(run("data", "ls")).stdout == ""


@pytest.mark.parametrize("verb", ["mv", "rm"])
def test_git_is_not_asked_for_a_dataset(run: Run, repo: Path, verb: str) -> None:
    (repo / "notes.txt").write_text("x")
    run_git("add", "notes.txt", cwd=repo)
    new = ("places",) if verb == "mv" else ()
    for path in ("points", "points/"):
        refused = run("git", verb, "-f", path, *new)
        assert (refused.exit_code, f"`havasu-vc {verb} points" in refused.stderr) == (20, True)
    succeed(run("git", verb, "-f", "notes.txt", *new))
    assert not (repo / "notes.txt").exists()


def test_a_move_is_told_as_one(run: Run, tmp_path: Path) -> None:
    succeed(run("mv", "points", "maps/places"))
    head = succeed(run("show")).output.partition("Move points to maps/places\n\n")[2]
    assert head == "rename from points\nrename to maps/places\n"
    source = tmp_path / "points.csv"
    source.write_text(SECOND.replace("TWO", "zwei"))
    key = ("--primary-key", "id", "--crs", "EPSG:4326")
    succeed(run("import", source, "maps/places", *key, "--replace"))

    told = {
        "--stat": " points => maps/places | moved; 1 row updated\n"
        " 1 dataset changed, 1 row updated\n",
        "--shortstat": " 1 dataset changed, 1 row updated\n",
        "--name-status": "R\tpoints\tmaps/places\n",
        "--name-only": "maps/places\n",
    }
    assert {each: succeed(run("diff", "HEAD~2..HEAD", each)).output for each in told} == told
    text = succeed(run("diff", "HEAD~2..HEAD", "maps/places")).output
    assert text.count(":feature:") == 2 and "= zwei" in text
    # Moved alone is a difference, and back again is one.
    assert run("diff", "HEAD~2", "HEAD~1", "--exit-code").exit_code == 1
    assert "R\tmaps/places\tpoints" in succeed(run("diff", "HEAD..HEAD~2", "--name-status")).output
    # A patch has to make it anew where it is applied.
    patch = json.loads(succeed(run("diff", "HEAD~2..HEAD", "-o", "json")).output)
    assert set(patch["kart.diff/v1+hexwkb"]) == {"points", "maps/places"}
    # What each commit changed, where the dataset has another name since.
    commits = succeed(run("log", "--name-status", "--oneline")).output.splitlines()
    assert commits[1::2] == ["M\tmaps/places", "R\tpoints\tmaps/places", "M\tpoints", "A\tpoints"]
    assert subjects(run, "-S", "zwei") == [subjects(run)[0]]
    assert "places" not in succeed(run("revert", "HEAD~1")).output.partition("\n")[2]


def test_a_copy_beside_the_old_path_is_no_move(run: Run, repo: Path) -> None:
    tree = run_git("rev-parse", "HEAD:points", cwd=repo)
    run_git("read-tree", "--prefix=copy/", tree, cwd=repo)
    run_git("commit", "-q", "-m", "Copy", cwd=repo)
    assert succeed(run("show", "--name-status")).output.endswith("\n\nA\tcopy\n")
    succeed(run("rm", "points"))
    assert succeed(run("show", "--name-status")).output.endswith("\n\nD\tpoints\n")
    assert succeed(run("diff", "HEAD~2..HEAD", "--name-status")).output == "R\tpoints\tcopy\n"
