"""Patches and new tables in Kart's place: exit codes, texts and JSON that scripts for Kart read."""

import json
import sqlite3
import subprocess
import sys
from base64 import b64encode
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import msgpack
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import FIRST, invoke, succeed
from tests.compat.kart import needs_data, unpacked
from tests.support.git import run_git

LEFT_OUT = "dataset.points.checkout"
"""The setting by which an import left the dataset out of working copies."""
HEADER = {"message": "By hand", "authorName": "Ann", "authorEmail": "ann@example.com"}


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of Kart's with the dataset `points`, and this program called `kart`."""
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kart"])
    source, repo = tmp_path / "points.csv", tmp_path / "repo"
    source.write_text(FIRST)
    succeed(invoke(["init", repo]))
    options = ("--primary-key", "id", "--crs", "EPSG:4326", "--no-checkout")
    succeed(invoke(["-C", repo, "import", source, *options]))
    return repo


def patch_of(*features: dict[str, object], base: str | None = None) -> str:
    """Return a patch that changes rows of `points`."""
    diff = {"points": {"feature": list(features)}}
    header = HEADER if base is None else {**HEADER, "base": base}
    return json.dumps({"kart.patch/v1": header, "kart.diff/v1+hexwkb": diff})


def head_of(repo: Path) -> str:
    """Return the id of HEAD's commit."""
    return run_git("rev-parse", "HEAD", cwd=repo)


def said_of(repo: Path, patch: str, code: int) -> list[str]:
    """Return the lines by which a patch is refused."""
    refused = invoke(["-C", repo, "apply", "-"], stdin=patch)
    assert refused.exit_code == code, refused.stderr
    return refused.stderr.splitlines()


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        ("[1, 2", 1, "Could not open file 'Failed to parse JSON patch file': unknown error"),
        (
            json.dumps({"kart.patch/v1": HEADER}),
            1,
            "Could not open file 'Failed to parse JSON patch file: patch contains no "
            "`kart.diff/v1+hexwkb` object': unknown error",
        ),
        (
            json.dumps({"kart.diff/v1+hexwkb": {}}),
            2,
            "Patch contains no author or head information",
        ),
    ],
)
def test_what_is_no_patch_ends_as_in_kart(repo: Path, text: str, code: int, told: str) -> None:
    result = invoke(["-C", repo, "apply", "-"], stdin=text)
    assert result.exit_code == code
    assert told in result.stderr


def test_a_dataset_that_is_not_there_is_told_before_rows_that_do_not_fit(repo: Path) -> None:
    patch = json.loads(patch_of({"-": {"id": 99, "name": "x"}, "+": {"id": 99, "name": "y"}}))
    patch["kart.diff/v1+hexwkb"]["spots"] = {"feature": []}
    result = invoke(["-C", repo, "apply", "-"], stdin=json.dumps(patch))
    assert result.exit_code == 49
    assert "changes for dataset 'spots' which is not in this repository" in result.stderr


def test_a_new_row_in_part_is_refused_in_a_dataset_of_karts(repo: Path) -> None:
    part = patch_of({"+": {"id": 77, "name": "seven"}})
    result = invoke(["-C", repo, "apply", "-"], stdin=part)
    assert result.exit_code == 20
    assert "Cannot insert new feature 77 with missing fields: geom, height" in result.stderr
    known = patch_of({"+": {"id": 1, "name": "eins"}}, base=head_of(repo))
    succeed(invoke(["-C", repo, "apply", "-"], stdin=known))
    assert "eins" in succeed(invoke(["-C", repo, "show"])).stdout


@pytest.mark.parametrize("name", ["kart", "havasu-vc"])
def test_a_new_half_alone_writes_over_nothing_that_came_since(
    repo: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """What was there is what the commit has that the patch names as its base."""
    monkeypatch.setattr(sys, "argv", [f"/usr/local/bin/{name}"])
    base = head_of(repo)
    one = {"id": 1, "name": "uno"}
    succeed(invoke(["-C", repo, "apply", "-"], stdin=patch_of({"+": one}, base=base)))
    late = said_of(repo, patch_of({"+": {"id": 1, "name": "eins"}}, base=base), 22)
    assert "points: Feature was modified since patch: 1" in late[0]
    unknown = said_of(repo, patch_of({"+": {"id": 1, "name": "eins"}}, base="1" * 40), 22)
    assert "points: Trying to create feature that already exists: 1" in unknown[0]
    bare = invoke(["-C", repo, "apply", "-"], stdin=patch_of({"+": {"id": 1, "name": "eins"}}))
    assert bare.exit_code == (22 if name == "kart" else 0)


def test_a_patch_that_makes_a_dataset_changes_none_that_is_there(repo: Path) -> None:
    made = succeed(invoke(["-C", repo, "create-patch", "HEAD"])).stdout
    rows_left_out = ["create-patch", "HEAD", "--diff-format", "no-data-changes"]
    for patch in (made, succeed(invoke(["-C", repo, *rows_left_out])).stdout):
        assert said_of(repo, patch, 20) == [
            "Error: Patch creates dataset 'points' which already exists in this repository"
        ]


def test_each_dataset_is_named_where_only_changes_are_told(repo: Path, tmp_path: Path) -> None:
    spots = tmp_path / "spots.csv"
    spots.write_text("id\n1\n")
    succeed(invoke(["-C", repo, "import", spots, "--primary-key", "id", "--no-checkout"]))
    for command in (["create-patch", "HEAD"], ["show", "-o", "json"]):
        told = succeed(invoke(["-C", repo, *command, "--diff-format", "no-data-changes"])).stdout
        datasets = json.loads(told)["kart.diff/v1+hexwkb"]
        assert {path: each["data_changes"] for path, each in datasets.items()} == {
            "points": False,
            "spots": True,
        }


def test_each_meta_item_that_a_patch_does_not_fit_is_named(repo: Path) -> None:
    patch = json.loads(patch_of())
    patch["kart.diff/v1+hexwkb"]["points"]["meta"] = {
        "title": {"-": "x"},
        "description": {"-": "x", "+": "y"},
        "crs/EPSG:4326.wkt": {"+": "x"},
    }
    lines = said_of(repo, json.dumps(patch), 22)
    assert lines[-1] == "Error: Patch does not apply"
    assert set(lines[:-1]) == {
        "points: Trying to delete nonexistent meta item: title",
        "points: Trying to update nonexistent meta item: description",
        "points: Trying to create meta item that already exists: crs/EPSG:4326.wkt",
    }


def test_a_patch_that_is_not_committed_needs_a_working_copy(repo: Path) -> None:
    change = patch_of({"+": {"id": 1, "name": "uno"}}, base=head_of(repo))
    result = invoke(["-C", repo, "apply", "--no-commit", "-"], stdin=change)
    assert result.exit_code == 45 and "--no-commit requires a working copy" in result.stderr

    run_git("config", "--file", str(repo / ".kart/config"), "--unset", LEFT_OUT, cwd=repo)
    succeed(invoke(["-C", repo, "create-workingcopy", repo / "edits.gpkg"]))
    result = succeed(invoke(["-C", repo, "apply", "--no-commit", "-"], stdin=change))
    assert result.stdout.splitlines()[0] == "Updating edits.gpkg ..."
    succeed(invoke(["-C", repo, "restore"]))
    title = {"points": {"meta": {"title": {"+": "Some points"}}}}
    described = json.dumps({"kart.patch/v1": HEADER, "kart.diff/v1+hexwkb": title})
    result = succeed(invoke(["-C", repo, "apply", "--no-commit", "-"], stdin=described))
    assert result.stdout == "Updating edits.gpkg ...\n"
    assert "+ Some points" in succeed(invoke(["-C", repo, "diff"])).stdout
    succeed(invoke(["-C", repo, "restore"]))
    lines = succeed(invoke(["-C", repo, "apply", "-"], stdin=change)).stdout.splitlines()
    assert lines[0].startswith("Commit ") and lines[1] == "Updating edits.gpkg ..."


@pytest.mark.parametrize(("edit", "code"), [("RENAME COLUMN name TO called", 0), ("ADD note", 30)])
def test_a_version_is_restored_over_a_renamed_column_alone(
    repo: Path, edit: str, code: int
) -> None:
    run_git("config", "--file", str(repo / ".kart/config"), "--unset", LEFT_OUT, cwd=repo)
    succeed(invoke(["-C", repo, "create-workingcopy", repo / "edits.gpkg"]))
    change = patch_of({"+": {"id": 1, "name": "uno"}}, base=head_of(repo))
    succeed(invoke(["-C", repo, "apply", "-"], stdin=change))
    with closing(sqlite3.connect(repo / "edits.gpkg")) as file, file:
        file.execute(f"ALTER TABLE points {edit}")
    assert invoke(["-C", repo, "restore", "-s", "HEAD^"]).exit_code == code
    with closing(sqlite3.connect(repo / "edits.gpkg")) as file:
        names = [each[1] for each in file.execute("PRAGMA table_info(points)")]
        assert "called" not in names and ("note" in names) == bool(code)


def test_columns_are_added_by_a_commit_alone(repo: Path) -> None:
    run_git("config", "--file", str(repo / ".kart/config"), "--unset", LEFT_OUT, cwd=repo)
    succeed(invoke(["-C", repo, "create-workingcopy", repo / "edits.gpkg"]))
    columns = json.loads(succeed(invoke(["-C", repo, "meta", "get", "-o", "json"])).stdout)
    old = columns["points"]["schema.json"]
    new = [*old, {"id": "a-new-one", "name": "note", "dataType": "text"}]
    patch = json.loads(patch_of())
    patch["kart.diff/v1+hexwkb"]["points"]["meta"] = {"schema.json": {"-": old, "+": new}}
    asked: list[str | Path] = ["-C", repo, "apply", "-"]
    refused = invoke([*asked, "--no-commit"], stdin=json.dumps(patch))
    assert refused.exit_code == 30
    assert refused.stderr.splitlines()[-1] == "points"
    assert "note" not in succeed(invoke(["-C", repo, "diff"])).stdout
    succeed(invoke(asked, stdin=json.dumps(patch)))


def test_a_diff_while_a_merge_waits_tells_of_the_files_that_it_brings(repo: Path) -> None:
    run_git("config", "--file", str(repo / ".kart/config"), "--unset", LEFT_OUT, cwd=repo)
    succeed(invoke(["-C", repo, "create-workingcopy", repo / "edits.gpkg"]))
    base = head_of(repo)
    succeed(invoke(["-C", repo, "checkout", "-b", "side"]))
    for branch, name in (("side", "uno"), ("main", "eins")):
        succeed(invoke(["-C", repo, "checkout", branch]))
        change = patch_of({"+": {"id": 1, "name": name}}, base=base)
        succeed(invoke(["-C", repo, "apply", "-"], stdin=change))
        succeed(invoke(["-C", repo, "commit-files", "-m", "A file", f"{branch}.txt=1"]))
    assert "Conflicts found" in succeed(invoke(["-C", repo, "merge", "side"])).stdout
    shown = json.loads(succeed(invoke(["-C", repo, "diff", "-o", "json"])).stdout)
    assert list(shown["kart.diff/v1+hexwkb"]["<files>"]) == ["side.txt"]


def test_a_table_made_by_sql_alone_is_added(repo: Path) -> None:
    """No program that makes a table so enters it among the contents of the GeoPackage."""
    succeed(invoke(["-C", repo, "create-workingcopy", repo / "edits.gpkg"]))
    with closing(sqlite3.connect(repo / "edits.gpkg")) as file, file:
        file.execute("CREATE TABLE owners (number INTEGER PRIMARY KEY, called TEXT)")
        file.execute("INSERT INTO owners VALUES (1, 'Ann'), (2, 'Ben')")
    status = succeed(invoke(["-C", repo, "status", "--list-untracked-tables", "-o", "json"]))
    assert json.loads(status.stdout)["kart.status/v2"]["workingCopy"]["untrackedTables"] == [
        "owners"
    ]

    added = succeed(invoke(["-C", repo, "add-dataset", "owners", "-m", "Owners", "-o", "json"]))
    told = json.loads(added.stdout)["kart.commit/v1"]
    assert (told["message"], told["branch"]) == ("Owners", "main")
    assert told["changes"] == {"owners": {"meta": {"inserts": 1}, "feature": {"inserts": 2}}}

    with closing(sqlite3.connect(repo / "edits.gpkg")) as file, file:
        file.execute("DELETE FROM owners WHERE number = 1")
        file.execute("CREATE TABLE parcels (number INTEGER PRIMARY KEY)")
        file.execute("INSERT INTO parcels VALUES (5)")
    assert "1 deletes" in succeed(invoke(["-C", repo, "status"])).stdout
    succeed(invoke(["-C", repo, "commit", "-m", "One less"]))
    lines = succeed(invoke(["-C", repo, "add-dataset", "parcels", "-m", "Parcels"])).stdout
    assert lines.splitlines()[0].startswith("[main ") and "Parcels" in lines
    assert "      1 inserts" in lines.splitlines()


def test_every_row_that_a_patch_does_not_fit_is_named(repo: Path) -> None:
    one, two = ({"id": n, "name": name} for n, name in ((1, "uno"), (2, "two")))
    patch = patch_of(
        {"++": {**one, "geom": None, "height": 1.0}},
        {"--": {"id": 9, "name": "nine"}},
        {"-": two, "+": {**two, "name": "dos"}},
        {"-": {"id": 3, "name": "drei"}, "+": {"id": 3, "name": "tres"}},
        {"-": {"id": 8, "name": "eight"}, "+": {"id": 8, "name": "ocho"}},
    )
    refused = invoke(["-C", repo, "apply", "-"], stdin=patch)
    assert refused.exit_code == 22
    lines = refused.stderr.splitlines()
    assert {line.removeprefix("Note: ") for line in lines[:-1]} == {
        "points: Trying to create feature that already exists: 1",
        "points: Trying to delete nonexistent feature: 9",
        "points: Trying to update already-changed feature: 3",
        "points: Trying to update nonexistent feature: 8",
    }
    assert lines[-1] == "Error: Patch does not apply"


def test_rows_that_a_patch_to_other_columns_does_not_fit_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kart"])
    repo, source = tmp_path / "columns", tmp_path / "points.csv"
    source.write_text("id,name\n1,a\n2,b\n")
    succeed(invoke(["init", repo, "--kart"]))

    def run(*words: str | Path, stdin: str = "", code: int = 0) -> list[str]:
        result = invoke(["-C", repo, *words], stdin=stdin)
        assert result.exit_code == code, result.output
        return (result.stderr if code else result.stdout).splitlines()

    def edit(*statements: str) -> None:
        with closing(sqlite3.connect(repo / "columns.gpkg")) as file, file:
            for statement in statements:
                file.execute(statement)

    run("import", source, "--primary-key", "id")
    run("switch", "-c", "columns")
    edit("ALTER TABLE points RENAME COLUMN name TO label")
    edit("UPDATE points SET label = 'x' WHERE id = 1")
    run("commit", "-m", "Columns")
    patch = "\n".join(run("create-patch", "HEAD"))
    run("switch", "main")
    edit("UPDATE points SET name = 'c' WHERE id = 1")
    run("commit", "-m", "Row")
    assert run("apply", "-", stdin=patch, code=22) == [
        "points: Trying to update already-changed feature: 1",
        "Error: Patch does not apply",
    ]
    edit("ALTER TABLE points RENAME COLUMN name TO word")
    run("commit", "-m", "Word")
    assert run("apply", "-", stdin=patch, code=22) == [
        "points: Trying to update out-of-date meta item: schema.json",
        "Error: Patch does not apply",
    ]


def test_a_dataset_that_is_not_there_is_named(repo: Path) -> None:
    patch = json.dumps(
        {"kart.diff/v1+hexwkb": {"roads": {"featureChanges": []}}, "kart.patch/v1": HEADER}
    )
    refused = invoke(["-C", repo, "apply", "-"], stdin=patch)
    assert refused.exit_code == 49
    why = "Patch contains changes for dataset 'roads' which is not in this repository"
    assert refused.stderr == f"Error: {why}\n"
    refused = invoke(["-C", repo, "apply", "-"], stdin=patch.replace("roads", "points"))
    assert refused.exit_code == 22 and "'featureChanges', which is not understood" in refused.stderr


@pytest.fixture
def moments(tmp_path: Path) -> Path:
    """A repository of Kart's with rows of a moment, a local one, a time and a number."""
    repo, source = tmp_path / "moments", tmp_path / "moments.parquet"
    first = datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)
    table = pa.table(
        {
            "id": pa.array([1, 2], pa.int64()),
            "at": pa.array([first, first], pa.timestamp("us", "UTC")),
            "local": pa.array([first.replace(tzinfo=None)] * 2, pa.timestamp("us")),
            "hour": pa.array([first.time()] * 2, pa.time64("us")),
            "sum": pa.array([Decimal("1.5")] * 2, pa.decimal128(10, 5)),
            "note": ["Z", "0"],
        }
    )
    pq.write_table(table, source)
    succeed(invoke(["init", repo, "--kart"]))
    succeed(invoke(["-C", repo, "import", source, "--primary-key", "id", "--no-checkout"]))
    return repo


def stored(repo: Path, key: int) -> list[object]:
    """Return what the file of a row holds."""
    name = b64encode(msgpack.packb([key])).decode()
    path = f"moments/.table-dataset/feature/A/A/A/A/{name}"
    data = subprocess.run(
        ["git", "cat-file", "blob", f"HEAD:{path}"], cwd=repo, check=True, capture_output=True
    ).stdout
    values: list[object] = msgpack.unpackb(data)[1]
    return values


def test_texts_of_a_patch_are_stored_as_they_are_spelled(moments: Path) -> None:
    """As Kart does, so both have one tree; what they mean is the same, whoever reads them."""
    usual = ["2020-01-02T03:04:05", "2020-01-02T03:04:05", "03:04:05", "1.5", "Z"]
    assert stored(moments, 1) == usual
    new = {
        "at": "2021-01-02T03:04:05Z",
        "local": "2021-01-02T03:04:05.250000",
        "hour": "05:06:07Z",
        "sum": "123.45600",
        "note": "5.00Z",
    }
    old = dict(zip(new, ["2020-01-02T03:04:05Z", *usual[1:]], strict=True))
    diff = [{"-": {"id": 1, **old}, "+": {"id": 1, **new}}, {"+": {"id": 9, **new}}]
    patch = json.dumps(
        {"kart.patch/v1": HEADER, "kart.diff/v1+hexwkb": {"moments": {"feature": diff}}}
    )
    succeed(invoke(["-C", moments, "apply", "-"], stdin=patch))

    assert stored(moments, 1) == stored(moments, 9) == list(new.values())
    assert stored(moments, 2) == [*usual[:4], "0"]
    told = succeed(invoke(["-C", moments, "cat", "moments", "-o", "json"])).stdout
    meant = {
        "at": "2021-01-02T03:04:05Z",
        "local": "2021-01-02T03:04:05.25",
        "hour": "05:06:07",
        "sum": "123.45600",
        "note": "5.00Z",
    }
    rows = {row["id"]: row for row in json.loads(told)}
    assert rows[1] == {"id": 1, **meant} and rows[9] == {"id": 9, **meant}
    succeed(invoke(["-C", moments, "fsck"]))
    # Whoever changes another column leaves them as they are.
    change = {"moments": {"feature": [{"+": {"id": 9, "note": "other"}}]}}
    patch = json.dumps({"kart.patch/v1": HEADER, "kart.diff/v1+hexwkb": change})
    succeed(invoke(["-C", moments, "apply", "-"], stdin=patch))
    assert stored(moments, 9) == [*list(new.values())[:4], "other"]


@needs_data
def test_a_patch_with_moments_gives_karts_tree(tmp_path: Path) -> None:
    """The id of the tree is what Kart 0.17 had of the same patch."""
    repo = unpacked("polygons", tmp_path)
    new = {"geom": None, "survey_reference": "Z", "adjusted_nodes": 7}
    features = [
        {"+": {"id": 1443053, **new, "date_adjusted": "2012-01-02T03:04:05Z"}},
        {
            "+": {
                "id": 9,
                "geom": None,
                "date_adjusted": "2013-01-02T03:04:05.250000Z",
                "survey_reference": "new",
                "adjusted_nodes": 8,
            }
        },
    ]
    header = {**HEADER, "base": "3f7166eebd11876a9b473a67ed2f66a200493b69"}
    diff = {"nz_waca_adjustments": {"feature": features}}
    patch = json.dumps({"kart.patch/v1": header, "kart.diff/v1+hexwkb": diff})
    succeed(invoke(["-C", repo, "apply", "-"], stdin=patch))
    tree = run_git("--git-dir", str(repo / ".kart"), "rev-parse", "HEAD^{tree}", cwd=repo)
    assert tree.strip() == "b4657182e848fc7b4887d3dcce6571a6ed444587"
