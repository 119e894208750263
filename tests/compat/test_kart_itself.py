"""Kart as it is, on repositories that we made and that we changed: it opens all of them.

Needs a command that runs Kart, named by `HAVASU_VC_KART`; where there is none, the tests of
Kart's own repositories and of what it printed on them stand for these. Kart 0.17 runs from
its source with GDAL's Python module and a plain pygit2, but for `Odb.refresh` and the codes
of missing paths, which its own pygit2 adds.
"""

import json
import os
import random
import shutil
import sqlite3
import subprocess
from contextlib import closing
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyogrio.raw
import pytest
import shapely
from pytest import MonkeyPatch

from havasu_vc import Repo
from havasu_vc.cli.main import cli, run
from havasu_vc.exchange.source import SourceOptions
from tests.compat.kart import needs_data, unpacked
from tests.support.templates import empty_repo

KART = os.environ.get("HAVASU_VC_KART")

pytestmark = [
    pytest.mark.kart,
    pytest.mark.skipif(not KART, reason="HAVASU_VC_KART names no command that runs Kart"),
]

BY_ID = SourceOptions(primary_key=("id",))


def kart(folder: Path, *arguments: str, status: int = 0, seed: int | None = None) -> str:
    """Return what Kart says; `seed` is of the order of what it keeps in sets of Python's."""
    assert KART is not None
    environment = {**os.environ} if seed is None else {**os.environ, "PYTHONHASHSEED": str(seed)}
    found = subprocess.run(
        [KART, *arguments], cwd=folder, capture_output=True, text=True, env=environment
    )
    assert found.returncode == status, found.stderr[-2000:]
    return found.stdout


def table(rows: int = 200) -> pa.Table:
    """Return rows of every type that Kart has."""
    numbers = list(range(1, rows + 1))
    points = [b"\1\1\0\0\0" + pa.array([n * 0.5, -n], pa.float64()).buffers()[1].to_pybytes()
              for n in numbers]  # fmt: skip
    stamps = [datetime(2020, 1, 1, 12, n % 60, 1, n, tzinfo=UTC) for n in numbers]
    columns: dict[str, Any] = {
        "id": pa.array(numbers, pa.int64()),
        "geom": pa.array([None if n % 7 == 0 else p for n, p in zip(numbers, points, strict=True)]),
        "name": pa.array([None if n % 5 == 0 else f"Ort Ä {n}" for n in numbers]),
        "small": pa.array([n % 100 for n in numbers], pa.int8()),
        "middle": pa.array(numbers, pa.int32()),
        "height": pa.array([n / 3 for n in numbers], pa.float64()),
        "low": pa.array([n / 2 for n in numbers], pa.float32()),
        "ok": pa.array([n % 2 == 0 for n in numbers]),
        "day": pa.array([date(2020, 1, 1 + n % 28) for n in numbers]),
        "hour": pa.array([time(n % 24, 2, 3) for n in numbers], pa.time64("us")),
        "at": pa.array(stamps, pa.timestamp("us", "UTC")),
        "local": pa.array([s.replace(tzinfo=None) for s in stamps], pa.timestamp("us")),
        # As many digits as the column has: Kart prints what is stored, and we all digits.
        "price": pa.array([Decimal(n) + Decimal("0.25") for n in numbers], pa.decimal128(10, 2)),
        "raw": pa.array([bytes([n % 256, 0, 255]) for n in numbers], pa.binary()),
    }
    found = pa.table(columns)
    geo = {
        "version": "1.0.0",
        "primary_column": "geom",
        "columns": {"geom": {"encoding": "WKB", "geometry_types": ["Point"]}},
    }
    return found.replace_schema_metadata({"geo": json.dumps(geo)})


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    found = empty_repo(tmp_path / "repo", kart=True)
    pq.write_table(table(), tmp_path / "places.parquet")
    found.import_(str(tmp_path / "places.parquet"), options=BY_ID)
    return found


def place(repo: Repo) -> Path:
    return repo.path


def same_output(
    repo: Repo,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: MonkeyPatch,
    *arguments: str,
    loose: bool = False,
) -> None:
    """Insist that Kart and we print the same.

    What it prints in another order with each seed of Python's hashes is `loose`: meta items
    of a dataset that comes. There is a seed with which it has them in order, as we do.
    """
    monkeypatch.chdir(place(repo))
    assert run(cli, list(arguments)) == 0
    mine = capsys.readouterr().out
    for seed in range(60 if loose else 1):
        theirs = kart(place(repo), *arguments, seed=seed)
        if mine == theirs:
            return
        if loose:
            assert json.loads(mine) == json.loads(theirs)
    assert mine == theirs


def checked(repo: Repo) -> None:
    """Insist that Kart finds nothing wrong with its own copy of HEAD."""
    kart(place(repo), "create-workingcopy", "--delete-existing", "--discard-changes")
    assert json.loads(kart(place(repo), "status", "-o", "json"))["kart.status/v2"]["workingCopy"][
        "changes"
    ] in (None, {})
    kart(place(repo), "checkout", "main")


def test_what_we_import_it_shows_as_we_do(
    repo: Repo, capsys: pytest.CaptureFixture[str], monkeypatch: MonkeyPatch
) -> None:
    assert kart(place(repo), "data", "ls").split() == ["places"]
    everything = "[EMPTY]...HEAD"
    same_output(repo, capsys, monkeypatch, "diff", everything, "-o", "json", loose=True)
    same_output(repo, capsys, monkeypatch, "diff", everything, "-o", "geojson")
    same_output(repo, capsys, monkeypatch, "show", "-o", "json", loose=True)
    checked(repo)


def test_rows_written_anew_without_a_dropped_column_are_shown_as_it_does(
    repo: Repo, capsys: pytest.CaptureFixture[str], monkeypatch: MonkeyPatch
) -> None:
    columns = json.loads(kart(place(repo), "meta", "get", "places", "schema.json", "-o", "json"))
    without = [c for c in columns["places"]["schema.json"] if c["name"] not in ("small", "price")]
    monkeypatch.chdir(place(repo))
    assert run(cli, ["meta", "set", "places", f"schema.json={json.dumps(without)}"]) == 0
    for name in ("other", "Ort Ä 3"):
        repo.write("places", pa.table({"id": [3], "name": [name]}))
    repo.write("places", pa.table({"id": [4], "name": ["four"]}))
    capsys.readouterr()
    for revisions in (
        ("HEAD~4", "HEAD"),
        ("HEAD", "HEAD~4"),
        ("HEAD~4", "HEAD", "places:feature:3"),
    ):
        for form in ("json", "geojson", "json-lines", "text"):
            if form != "json-lines" or len(revisions) == 2:
                ends = "...".join(revisions[:2])
                same_output(repo, capsys, monkeypatch, "diff", ends, *revisions[2:], "-o", form)


def test_our_edits_are_its_own(
    repo: Repo, capsys: pytest.CaptureFixture[str], monkeypatch: MonkeyPatch, tmp_path: Path
) -> None:
    repo.write("places", pa.table({"id": [3, 900], "name": ["drei", "neu"]}))
    repo.write("places", pa.table({"id": [5, 6]}), mode="delete")
    for revisions in ("HEAD^...HEAD", "HEAD^^...HEAD"):
        for form in ("json", "geojson", "json-lines", "text"):
            same_output(repo, capsys, monkeypatch, "diff", revisions, "-o", form)
    checked(repo)
    twin = tmp_path / "twin"
    shutil.copytree(place(repo), twin)
    patch = kart(place(repo), "create-patch", "HEAD")
    (tmp_path / "patch.json").write_text(patch)
    for folder in (place(repo), twin):
        repository = Repo.open(folder)
        repository.git.git("update-ref", "refs/heads/main", "HEAD^")
    kart(twin, "create-workingcopy", "--delete-existing", "--discard-changes")
    kart(twin, "apply", str(tmp_path / "patch.json"))
    Repo.open(place(repo)).apply_patch(patch.encode())
    trees = {
        Repo.open(folder).git.git("rev-parse", "HEAD:places").text for folder in (twin, place(repo))
    }
    assert len(trees) == 1


def test_columns_that_we_change(
    repo: Repo, capsys: pytest.CaptureFixture[str], monkeypatch: MonkeyPatch
) -> None:
    columns = repo.get_meta("places")["schema.json"]
    columns = [c for c in columns if c["name"] != "raw"]
    columns.append({"id": "0b1f", "name": "more", "dataType": "text"})
    columns[2]["name"] = "label"
    repo.set_meta("places", {"schema.json": json.dumps(columns), "title": "Orte"})
    repo.write("places", pa.table({"id": [3], "more": ["x"]}))
    same_output(repo, capsys, monkeypatch, "diff", "HEAD^...HEAD", "-o", "json")
    same_output(repo, capsys, monkeypatch, "diff", "HEAD^^...HEAD", "-o", "json", loose=True)
    checked(repo)


def test_it_merges_our_branches_and_opens_our_merges(
    repo: Repo, capsys: pytest.CaptureFixture[str], monkeypatch: MonkeyPatch
) -> None:
    repo.git.git("branch", "side")
    repo.write("places", pa.table({"id": [1], "name": ["ours"]}))
    repo.switch("side")
    repo.write("places", pa.table({"id": [2], "name": ["theirs"]}))
    repo.write("places", pa.table({"id": [1], "middle": pa.array([77], pa.int32())}))
    repo.switch("main")
    repo.git.git("branch", "before")
    assert "Merge" in kart(place(repo), "merge", "side^", "-m", "Merge by Kart")
    opened = Repo.open(place(repo))
    rows = {r["id"]: r for r in opened.table("places").to_arrow(["id", "name"]).to_pylist()}
    assert (rows[1]["name"], rows[2]["name"]) == ("ours", "theirs")
    # Two cells of one row: a conflict for Kart, none for us, and Kart opens what comes of it.
    opened.merge("side")
    row = opened.table("places").to_arrow().to_pylist()[0]
    assert (row["name"], row["middle"]) == ("ours", 77)
    same_output(opened, capsys, monkeypatch, "diff", "before...HEAD", "-o", "json")
    checked(opened)
    assert "Merge" in kart(place(repo), "log")


@needs_data
@pytest.mark.parametrize("first", ["kart", "havasu-vc"])
def test_one_merge_is_resolved_by_both_in_turn(
    first: str, tmp_path: Path, monkeypatch: MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever stopped, either lists what is left, resolves some of it and ends the merge."""
    place = unpacked("conflicts/points", tmp_path)
    monkeypatch.chdir(place)
    layer = "nz_pa_points_topo_150k"

    def ours(*words: str) -> str:
        assert run(cli, list(words)) == 0
        return capsys.readouterr().out

    kart(place, "create-workingcopy", "copy.gpkg")
    if first == "kart":
        kart(place, "merge", "theirs_branch")
    else:
        ours("merge", "theirs_branch")
    keys = ["3", "4", "5", "98001"]
    waiting = [f"{layer}:feature:{key}" for key in keys]
    assert ours("conflicts", "-s", "--flat").split() == waiting
    ours("resolve", waiting[3], "--renumber=theirs")
    left = json.loads(kart(place, "conflicts", "-s", "-o", "json"))["kart.conflicts/v1"]
    assert left == {layer: {"feature": [3, 4, 5]}}
    kart(place, "resolve", waiting[0], "--with=theirs")
    ours("resolve", waiting[1], "--with=delete")
    assert ours("conflicts", "-s", "--flat").split() == [waiting[2]]
    if first == "kart":
        kart(place, "resolve", waiting[2], "--with=ours")
        ours("merge", "--continue")
    else:
        ours("resolve", waiting[2], "--with=ours")
        kart(place, "merge", "--continue", "--no-editor")
    assert "working copy clean" in kart(place, "status")
    assert "working copy clean" in ours("status")
    kart(place, "fsck")
    repo = Repo.open(place)
    assert repo.commit_info().message.strip() == 'Merge branch "theirs_branch" into ours_branch'
    names = [repo.row(layer, int(key), revision="HEAD")["name"] for key in ("3", "5", "98001")]
    theirs = repo.row(layer, 3, revision="theirs_branch")["name"]
    assert names[0] == theirs != repo.row(layer, 3, revision="HEAD^")["name"]
    assert names[1] == repo.row(layer, 5, revision="HEAD^")["name"]
    assert names[2] == repo.row(layer, 98001, revision="HEAD^")["name"]


def test_a_conflict_of_its_own_is_told_and_finished_by_it(repo: Repo) -> None:
    repo.git.git("branch", "side")
    repo.write("places", pa.table({"id": [1], "name": ["ours"]}))
    repo.switch("side")
    repo.write("places", pa.table({"id": [1], "name": ["theirs"]}))
    repo.switch("main")
    kart(place(repo), "create-workingcopy", "--delete-existing", "--discard-changes")
    kart(place(repo), "merge", "side")
    waiting = Repo.open(place(repo)).status().waiting
    assert waiting is not None and waiting.context.theirs.branch == "side"
    kart(place(repo), "resolve", "places:feature:1", "--with=theirs")
    kart(place(repo), "merge", "--continue", "-m", "Merge by Kart")
    names = Repo.open(place(repo)).table("places").to_arrow(["id", "name"]).to_pylist()
    assert names[0] == {"id": 1, "name": "theirs"}


def test_a_repository_that_it_made(
    repo: Repo, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: MonkeyPatch
) -> None:
    repo.export("places", str(tmp_path / "places.gpkg"))
    kart(tmp_path, "init", "theirs")
    kart(tmp_path / "theirs", "import", str(tmp_path / "places.gpkg"), "places")
    opened = Repo.open(tmp_path / "theirs")
    assert opened.table("places").to_arrow(["id"]).num_rows == 200
    assert list(opened.fsck(full=True)) == []
    opened.write("places", pa.table({"id": [4], "name": ["vier"]}))
    kart(tmp_path / "theirs", "create-workingcopy", "--delete-existing", "--discard-changes")
    same_output(opened, capsys, monkeypatch, "diff", "HEAD^...HEAD", "-o", "json")


def test_what_was_a_havasu_dataset(tmp_path: Path) -> None:
    found = empty_repo(tmp_path / "repo", kart=True)
    pq.write_table(table(), tmp_path / "places.parquet")
    found.import_(str(tmp_path / "places.parquet"), options=BY_ID, kind="havasu")
    found.write("places", pa.table({"id": [3], "name": ["drei"]}))
    found.convert("places", "kart", history=True)
    assert kart(place(found), "data", "ls").split() == ["places"]
    checked(found)


def scattered(chance: random.Random, rows: int) -> list[list[Any]]:
    """Return rows of few values, so that many are alike to more than one other."""
    return [
        [chance.choice("xyz"), chance.randrange(3), chance.choice([0.5, None]), chance.choice("pq")]
        for _ in range(rows)
    ]


def edited_somehow(chance: random.Random, rows: list[list[Any]]) -> list[list[Any]]:
    """Return rows of which some changed, came, went or stand elsewhere."""
    found = [list(row) for row in rows]
    for fresh in scattered(chance, chance.choice([2, 8, 20])):
        at, what = chance.randrange(len(found)), chance.random()
        if what < 0.7:
            for column in chance.sample(range(4), chance.choice([1, 1, 2])):
                found[at][column] = fresh[column]
        elif what < 0.85:
            found.insert(at, fresh)
        elif len(found) > 3:
            del found[at]
    return found if chance.random() < 0.6 else chance.sample(found, len(found))


@pytest.mark.parametrize("seed", range(3))
def test_rows_without_a_key_get_the_numbers_that_it_gives_them(seed: int, tmp_path: Path) -> None:
    from pyogrio.raw import write

    def shapefile(name: str, rows: list[list[Any]]) -> None:
        columns = [np.array(column, object) for column in zip(*rows, strict=True)]
        columns[1], columns[2] = columns[1].astype(np.int64), columns[2].astype(np.float64)
        points = np.array([b"\1\1\0\0\0" + bytes(16)] * len(rows), object)
        place, kind = tmp_path / f"{name}.shp", {"geometry_type": "Point", "crs": "EPSG:4326"}
        write(place, points, columns, list("abcd"), driver="ESRI Shapefile", **kind)

    chance = random.Random(seed)
    rows = scattered(chance, 60)
    shapefile("first", rows)
    kart(tmp_path, "init", "its", "--no-checkout")
    its, mine = tmp_path / "its", tmp_path / "mine"
    kart(its, "import", "--no-checkout", "../first.shp", "first:t")
    shutil.copytree(its, mine, symlinks=True)
    for number, limit in enumerate((10_000, 24, 10_000)):
        rows = edited_somehow(chance, rows)
        shapefile(f"next{number}", rows)
        option = f"--similarity-detection-limit={limit}"
        layer = f"next{number}:t"
        over = ("import", "--replace-existing", option)
        kart(its, *over, "--no-checkout", f"../next{number}.shp", layer)
        Repo.open(mine).import_(
            str(tmp_path / f"next{number}.shp"),
            layers=[layer],
            replace=True,
            similarity_detection_limit=limit,
        )
        for what in ("t", "t:generated-pks.json"):
            path = what.replace(":", "/.table-dataset/meta/")
            ids = {Repo.open(f).git.git("rev-parse", f"HEAD:{path}").text for f in (its, mine)}
            assert len(ids) == 1, what


def test_files_beside_datasets(
    repo: Repo, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: MonkeyPatch
) -> None:
    (tmp_path / "image").write_bytes(bytes(range(256)))
    kart(place(repo), "commit-files", "-m", "Some", "README.md=Hello\n", "places/metadata.xml=<Ä/>")
    files = ("README.md=@" + str(tmp_path / "image"), "places/metadata.xml=<Ö/>", "a/b.txt=")
    kart(place(repo), "commit-files", "-m", "Others", *files)
    for form in ("json", "json-lines", "text"):
        for more in ((), ("--diff-files",)):
            same_output(repo, capsys, monkeypatch, "diff", "HEAD^...HEAD", "-o", form, *more)
    same_output(repo, capsys, monkeypatch, "diff", "HEAD^^...HEAD", "places", "-o", "json")
    same_output(repo, capsys, monkeypatch, "show", "HEAD", "-o", "json")
    same_output(repo, capsys, monkeypatch, "create-patch", "HEAD^")
    trees = [repo.git.git("rev-parse", f"HEAD{up}^{{tree}}").text for up in ("^", "")]
    patches = [kart(place(repo), "create-patch", revision) for revision in ("HEAD^", "HEAD")]
    repo.git.git("update-ref", "refs/heads/main", "HEAD^^")
    for patch, tree in zip(patches, trees, strict=True):
        Repo.open(place(repo)).apply_patch(patch.encode())
        assert repo.git.git("rev-parse", "HEAD^{tree}").text == tree


def test_json_lines_name_datasets_that_do_not_differ(
    repo: Repo, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: MonkeyPatch
) -> None:
    pq.write_table(table(3), tmp_path / "others.parquet")
    repo.import_(str(tmp_path / "others.parquet"), options=BY_ID)
    repo.write("places", pa.table({"id": [3], "name": ["drei"]}))
    for revisions in ("HEAD^...HEAD", "HEAD^^...HEAD^"):
        for filters in ((), ("others",), ("*:feature",)):
            same_output(repo, capsys, monkeypatch, "diff", revisions, *filters, "-o", "json-lines")


@needs_data
def test_what_we_upgraded(tmp_path: Path) -> None:
    old = unpacked("v2/points", tmp_path)
    Repo.open(old).upgrade(tmp_path / "new")
    made = Repo.open(tmp_path / "new")
    checked(made)
    assert made.git.git("rev-parse", "HEAD").text.startswith("1582725")


def test_a_geopackage_is_imported_as_it_does(tmp_path: Path) -> None:
    """Keys of text, and systems of coordinates in the words of the file."""
    shapes = shapely.to_wkb([shapely.Point(n, 0) for n in range(3)])
    table: dict[str, Any] = {"geometry": shapes, "fields": [], "field_data": []}
    file = tmp_path / "places.gpkg"
    for layer, crs in (("one", "EPSG:2193"), ("two", "EPSG:4326")):
        pyogrio.raw.write(
            file, **table, geometry_type="Point", crs=crs, layer=layer, driver="GPKG", append=True
        )
    with closing(sqlite3.connect(file)) as database:
        database.executescript(
            "CREATE TABLE codes (code TEXT PRIMARY KEY NOT NULL, name TEXT);"
            "INSERT INTO codes VALUES ('b', 'x'), ('a', NULL);"
            "INSERT INTO gpkg_contents (table_name, data_type, identifier)"
            " VALUES ('codes', 'attributes', 'Codes')"
        )
    said = []
    for name in ("ours", "theirs"):
        place = empty_repo(tmp_path / name, kart=True).path
        if name == "ours":
            assert run(cli, ["-C", str(place), "import", str(file), "--all-layers"]) == 0
        else:
            kart(place, "import", str(file), "--all-tables")
        found = json.loads(kart(place, "meta", "get", "-o", "json"))
        for meta in found.values():
            for column in meta["schema.json"]:
                del column["id"]  # drawn anew by Kart
        said.append(found)
    assert said[0] == said[1]
