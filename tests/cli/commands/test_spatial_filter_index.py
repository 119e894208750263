"""`havasu-vc spatial-filter index`: the boxes that Kart's index has of the same rows."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from havasu_vc.geo.envelopes import decode_envelopes, encode_envelopes
from tests.cli.conftest import invoke, succeed
from tests.support.git import run_git

ROWS = """\
id,wkt
1,POINT(1347679 5456907)
2,"POLYGON((1347679 5456907, 2532792 5456907, 2532792 5740668, 1347679 5740668, 1347679 5456907))"
3,"LINESTRING(1500000 5200000, 1500900 5200300)"
4,"POLYGON((120000 230000, 3200000 230000, 3200000 7000000, 120000 7000000, 120000 230000))"
5,
6,POINT EMPTY
7,"LINESTRING(2567196 5736624, 2567200 5736624)"
8,POINT(0 1000000000)
"""
KART = {
    1: "f8e3745b05f8e3845b06", 2: "f8d14457dc02ea74a191", 3: "fa24d4259afa275425b9",
    4: "c11f402c31356325ad95", 7: "02d8249f4902d8349f4a", 8: "c01281455ec01291455f",
}  # fmt: skip
"""The boxes that Kart 0.17 made of these rows."""
KART_MOVED = {
    1: "f07353fca9f8e3845b06", 2: "f06123e4d802ea74a191", 3: "f17083c39bfa275425b9",
    7: "fb8674206902d8349f4a",
}  # fmt: skip
"""Those that it made once the dataset was said to be in EPSG:27200."""


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "places.csv").write_text(ROWS)
    repo = tmp_path / "repo"
    succeed(invoke(["init", "--kart", repo]))
    options = ("--primary-key", "id", "--csv-wkt", "wkt", "--crs", "EPSG:2193")
    succeed(invoke(["-C", repo, "import", tmp_path / "places.csv", *options]))
    return repo


def boxes(repo: Path) -> dict[int, str]:
    """Return the boxes in the index, by the keys of rows that HEAD has."""
    with closing(sqlite3.connect(repo / ".kart" / "feature_envelopes.db")) as database:
        known = {
            blob.hex(): box.hex()
            for blob, box in database.execute("SELECT blob_id, envelope FROM feature_envelopes")
        }
    listed = run_git("--git-dir", ".kart", "ls-tree", "-r", "HEAD", "places", cwd=repo)
    ids = [line.split() for line in listed.splitlines() if "/feature/" in line]
    keys = json.loads(succeed(invoke(["-C", repo, "cat", "places", "-o", "json"])).stdout)
    # Features stand in the order of their keys, as the names of few are.
    found = zip(sorted(row["id"] for row in keys), ids, strict=True)
    return {key: known[line[2]] for key, line in found if line[2] in known}


def close(one: dict[int, str], other: dict[int, str]) -> bool:
    """Whether boxes are those of Kart, within the room that it leaves for edges that bend."""
    assert one.keys() == other.keys()
    sides = (decode_envelopes([bytes.fromhex(each[key]) for key in one]) for each in (one, other))
    first, second = sides
    return bool((np.abs((first - second + 180) % 360 - 180) < 0.01).all())


def test_boxes_are_those_of_kart(repo: Path) -> None:
    told = succeed(invoke(["-C", repo, "spatial-filter", "index"]))
    assert "Indexing from the very start up to " in told.stdout
    assert "Indexed 8 features in " in told.stdout
    found = boxes(repo)
    assert close(found, KART)
    assert {key: found[key] for key in (1, 3, 7, 8)} == {key: KART[key] for key in (1, 3, 7, 8)}
    setting = run_git("--git-dir", ".kart", "config", "uploadpack.allowAnySHA1InWant", cwd=repo)
    assert setting.strip() == "true"


def test_rows_are_where_every_later_system_has_them(repo: Path) -> None:
    columns = json.loads(
        succeed(invoke(["-C", repo, "meta", "get", "places", "schema.json", "-o", "json"])).stdout
    )["places"]["schema.json"]
    moved = json.dumps(columns).replace("EPSG:2193", "EPSG:27200")
    succeed(invoke(["-C", repo, "meta", "set", "places", f"schema.json={moved}"]))
    told = succeed(invoke(["-C", repo, "spatial-filter", "index"]))
    assert close(boxes(repo), KART_MOVED)
    assert "places: 2 features have no box" in told.stderr, "those are sent to everybody"


def test_it_goes_on_from_where_it_was(repo: Path, tmp_path: Path) -> None:
    def index(*arguments: str) -> dict[str, object]:
        told = succeed(invoke(["-C", repo, "spatial-filter", "index", *arguments, "-o", "json"]))
        value: dict[str, object] = json.loads(told.stdout)["havasu.spatial-filter-index/v1"]
        return value

    head = run_git("--git-dir", ".kart", "rev-parse", "HEAD", cwd=repo).strip()
    assert index("--dry-run") == {"known": [], "commits": [head], "features": 0, "dryRun": True}
    assert index()["features"] == 8
    assert index() == {"known": [head], "commits": [], "features": 0, "dryRun": False}
    assert "Nothing to do" in succeed(invoke(["-C", repo, "spatial-filter", "index"])).stdout
    (tmp_path / "places.csv").write_text(
        f"{ROWS}9,POINT(1700000 5400000)\n".replace("1347679", "1347680")
    )
    options = ("--csv-wkt", "wkt", "--crs", "EPSG:2193", "--replace")
    succeed(invoke(["-C", repo, "import", tmp_path / "places.csv", *options]))
    new = index()
    assert (new["known"], new["features"]) == ([head], 3), "two rows changed, one came"
    before = boxes(repo)
    assert before.keys() == {*KART, 9}
    assert index("--clear-existing")["features"] == 11
    assert boxes(repo) == before


def test_a_table_without_geometries_has_no_boxes(tmp_path: Path) -> None:
    (tmp_path / "plain.csv").write_text("id,name\n1,one\n")
    succeed(invoke(["init", "--kart", tmp_path / "repo"]))
    source: list[str | Path] = ["import", tmp_path / "plain.csv", "--primary-key", "id"]
    succeed(invoke(["-C", tmp_path / "repo", *source]))
    succeed(invoke(["-C", tmp_path / "repo", "spatial-filter", "index"]))
    with closing(sqlite3.connect(tmp_path / "repo/.kart/feature_envelopes.db")) as database:
        assert database.execute("SELECT count(*) FROM feature_envelopes").fetchone() == (0,)
        assert database.execute("SELECT count(*) FROM commits").fetchone() == (1,)


def test_where_there_are_no_datasets_of_karts_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "plain.csv").write_text("id,name\n1,one\n")
    repo = tmp_path / "repo"
    succeed(invoke(["init", repo]))
    succeed(invoke(["-C", repo, "import", tmp_path / "plain.csv", "--primary-key", "id"]))
    told = succeed(invoke(["-C", repo, "spatial-filter", "index"])).stderr
    assert "Note: the index is of Kart datasets alone, and HEAD has none\n" in told


def test_what_is_no_index_and_wrong_words(repo: Path) -> None:
    wrong: list[str | Path] = ["-C", repo, "spatial-filter", "index"]
    assert invoke([*wrong, "--all", "HEAD"]).exit_code == 2
    assert invoke([*wrong, "nowhere"]).exit_code == 47
    (repo / ".kart" / "feature_envelopes.db").write_bytes(b"no database at all, but some text")
    refused = invoke(wrong)
    assert refused.exit_code == 11 and "Traceback" not in refused.output
    assert "cannot be written: file is not a database" in refused.stderr


@pytest.mark.parametrize("bits", [20, 14])
def test_boxes_come_back_no_smaller(bits: int) -> None:
    draw = np.random.default_rng(7)
    given = np.column_stack(
        [draw.uniform(-180, 180, 500), np.sort(draw.uniform(-90, 90, (500, 2)))]
    )
    given = np.column_stack([given[:, 0], given[:, 1], draw.uniform(-180, 180, 500), given[:, 2]])
    found = decode_envelopes(encode_envelopes(given, bits))
    assert (found[:, :2] <= given[:, :2] + 1e-9).all()
    assert (found[:, 2:] >= given[:, 2:] - 1e-9).all()
    assert np.abs(found - given).max() <= 360 / (2**bits - 1)
