"""`havasu-vc checkout`."""

import json
import sqlite3
from pathlib import Path

import pytest

from tests.cli.conftest import Run, invoke, succeed
from tests.repo.checkouts import delete_like_others


def test_a_revision_by_itself(run: Run) -> None:
    result = succeed(run("checkout", "HEAD^"))

    assert result.stderr.startswith("HEAD is now at ")
    assert succeed(run("branch", "--show-current")).stdout == ""
    assert succeed(run("checkout", "main")).stderr == "Switched to branch 'main'\n"


def test_a_new_branch(run: Run) -> None:
    result = succeed(run("checkout", "-b", "new", "HEAD^"))

    assert result.stderr == "Switched to a new branch 'new'\n"
    assert succeed(run("log", "--oneline")).stdout.count("\n") == 1


def test_a_copy_to_edit(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "edit.gpkg"
    result = succeed(run("checkout", "--as", path, "points", "--ref", "HEAD^"))

    assert f"Wrote 3 rows to {path}" in result.stderr
    with sqlite3.connect(path) as database:
        names = {name for (name,) in database.execute("SELECT name FROM points")}
    database.close()
    assert names == {"one", "two", "three"}
    assert run("checkout", "--as", path).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("nope",), 47),
        (("main", "HEAD^"), 2),
        (("--ref", "HEAD"), 2),
        (("--as", "x.gpkg", "-b", "y"), 2),
        (("--as", "x.gpkg", "--flavour", "spark"), 2),
        (("--dataset", "points"), 2),
        (("--to", "x", "--refs"), 2),
        (("--relocate", "main"), 2),
        (("--to", "x", "--dataset", "nope"), 49),
    ],
)
def test_bad_input(run: Run, arguments: tuple[str, ...], code: int) -> None:
    assert run("checkout", *arguments).exit_code == code


def test_tables_are_made_and_follow(run: Run, repo: Path) -> None:
    result = succeed(run("checkout"))

    assert result.stdout == ""
    assert result.stderr.startswith("Checked out 1 table at ")
    assert (repo / "tables" / "points" / "metadata" / "v1.metadata.json").is_file()
    assert succeed(run("checkout")).stderr.startswith("Nothing to do: 1 table at ")
    assert succeed(run("checkout", "HEAD^")).stderr.startswith("HEAD is now at ")
    assert (repo / "tables" / "points" / "metadata" / "v2.metadata.json").is_file()
    assert succeed(run("switch", "main")).stderr == "Switched to branch 'main'\n"
    assert (repo / "tables" / "points" / "metadata" / "version-hint.text").read_text() == "3"
    again = succeed(run("checkout", "main", "--flavour", "havasu"))
    assert "Checked out 1 table at " in again.stderr


def test_edits_are_in_the_way_until_they_are_told_to_go(run: Run, repo: Path) -> None:
    succeed(run("checkout"))
    delete_like_others(repo / "tables" / "points")

    refused = run("switch", "-c", "old", "HEAD^")
    assert refused.exit_code == 29
    assert "points has edits that are not committed" in refused.stderr
    assert run("reset", "--hard").exit_code == 29
    assert run("reset", "--soft", "--discard-changes").exit_code == 2
    succeed(run("reset", "--discard-changes"))
    succeed(run("switch", "-c", "old", "HEAD^"))


def test_a_table_elsewhere(run: Run, repo: Path, tmp_path: Path) -> None:
    place = tmp_path / "elsewhere"
    result = succeed(run("checkout", "HEAD^", "--to", place, "--dataset", "points", "--copy"))

    assert result.stderr.startswith("Checked out 1 table at ")
    assert (place / "metadata" / "v1.metadata.json").is_file()
    assert not (repo / "tables").exists()
    succeed(run("checkout", "--to", tmp_path / "all"))
    assert (tmp_path / "all" / "points" / "metadata").is_dir()


def test_a_repository_that_moved(run: Run, repo: Path, tmp_path: Path) -> None:
    succeed(run("checkout"))
    moved = tmp_path / "moved"
    repo.rename(moved)
    refused = invoke(["-C", moved, "checkout"])
    assert refused.exit_code == 20
    assert "--relocate" in refused.stderr
    assert succeed(invoke(["-C", moved, "checkout", "--relocate"])).stderr.startswith(
        "Nothing to do: 1 table at "
    )


def test_layouts_of_the_workspace(run: Run, repo: Path) -> None:
    options = ("checkout", "--layout", "clustered", "--dataset", "points")
    told = succeed(run(*options, "--partition-by", "bucket(2, id)"))

    assert told.stderr.startswith("Checked out 1 table at ")
    assert "Nothing to commit" in succeed(run("status")).stdout
    assert succeed(run("checkout")).stderr.startswith("Nothing to do: 1 table at ")
    assert succeed(run("checkout", "--layout", "linked")).stderr.startswith("Checked out 1 table")
    for wrong in (
        ("--dataset", "points"),
        ("--partition-by", "id"),
        ("--layout", "linked", "--partition-by", "id"),
    ):
        assert run("checkout", *wrong).exit_code == 2
    missing = run("checkout", "--layout", "clustered", "--dataset", "nothing")
    assert missing.exit_code == 49


def test_two_checkouts_of_a_commit_differ_in_ids_times_and_places_alone(
    run: Run, tmp_path: Path
) -> None:
    found = []
    for name in ("one", "two"):
        succeed(run("checkout", "--to", tmp_path / name))
        folder = tmp_path / name / "points"
        (file,) = folder.glob("metadata/v*.metadata.json")
        metadata = json.loads(file.read_text())
        (snapshot,) = metadata.pop("snapshots")
        assert metadata.pop("current-snapshot-id") == snapshot["snapshot-id"]
        high = max(field["id"] for field in metadata["schemas"][-1]["fields"])
        assert 0 <= metadata.pop("last-column-id") - high < 1 << 20
        for key in ("location", "last-updated-ms", "snapshot-log", "refs"):
            del metadata[key]
        counts = {k: v for k, v in snapshot["summary"].items() if k.startswith("total-")}
        names = sorted(path.name for path in folder.glob("data/**/*.parquet"))
        data = [name for name in names if not name.endswith("-deletes.parquet")]  # has places
        assert data and len(names) > len(data)
        found.append((metadata, counts, data, snapshot["schema-id"]))
    assert found[0] == found[1]
