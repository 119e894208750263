"""Values that SQLite took and a column cannot hold are named, not cut or read as others."""

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pyogrio.raw
import pytest
import shapely

from tests.cli.conftest import invoke, succeed
from tests.support.git import run_git

COLUMNS = (
    "id INTEGER PRIMARY KEY, word TEXT(5), tiny TINYINT, small SMALLINT, many INTEGER, "
    "bits BLOB(3), day DATE, at DATETIME, half REAL, note TEXT"
)
ROW = "'abc', 1, 2, 3, x'6162', '2020-01-01', '2020-01-01T00:00:00Z', 0.5, 'x'"
KARTS = "Error: Schema violation - values do not match schema"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.gpkg"
    point, name = shapely.to_wkb([shapely.Point(0, 0)]), np.array(["a"], dtype=object)
    options = {"geometry_type": "Point", "crs": "EPSG:4326", "layer": "p", "driver": "GPKG"}
    pyogrio.raw.write(path, geometry=point, field_data=[name], fields=["name"], **options)
    with closing(sqlite3.connect(path)) as file:
        file.execute(f"CREATE TABLE t ({COLUMNS})")
        file.execute("INSERT INTO gpkg_contents (table_name, data_type) VALUES ('t', 'attributes')")
        file.executemany(f"INSERT INTO t VALUES (?, {ROW})", [(n,) for n in range(1, 5)])
        file.commit()
    return path


def made(source: Path, *options: str) -> Path:
    repo = source.with_name("repo")
    succeed(invoke(["init", *options, repo]))
    succeed(invoke(["-C", repo, "import", source, "t"]))
    succeed(invoke(["-C", repo, "create-workingcopy"]))
    return repo


def edit(repo: Path, statement: str) -> None:
    with closing(sqlite3.connect(repo / "repo.gpkg")) as file:
        file.execute(statement)
        file.commit()


def head(repo: Path) -> str:
    return run_git("rev-parse", "HEAD", cwd=repo).strip()


@pytest.mark.parametrize("kind", [(), ("--kart",)], ids=["havasu", "kart"])
@pytest.mark.parametrize(
    ("column", "value", "shown"),
    [
        ("many", "1.5", "1.5"),
        ("many", "3.25", "3.25"),
        ("many", "'x'", "'x'"),
        ("note", "x'6162'", "b'ab'"),
        ("bits", "'ab'", "'ab'"),
        ("day", "5", "5"),
        ("half", "'much'", "'much'"),
    ],
)
def test_a_value_of_another_type_is_named_and_stays(
    source: Path, kind: tuple[str, ...], column: str, value: str, shown: str
) -> None:
    repo = made(source, *kind)
    before = head(repo)
    edit(repo, f"UPDATE t SET {column} = {value} WHERE id = 3")
    refused = invoke(["-C", repo, "commit", "-m", "x"])
    assert refused.exit_code == 23 and f"column '{column}' cannot be kept" in refused.stderr
    assert shown in refused.stderr
    assert head(repo) == before
    edit(repo, f"UPDATE t SET {column} = NULL WHERE id = 3")
    succeed(invoke(["-C", repo, "commit", "-m", "x"]))


@pytest.mark.parametrize(
    ("edits", "lines"),
    [
        ("word = 'toolong'", ["t: In column 'word' value 'toolong' exceeds limit of 5 characters"]),
        ("word = 'éééééé'", ["t: In column 'word' value 'éééééé' exceeds limit of 5 characters"]),
        ("tiny = 300", ["t: In column 'tiny' value 300 does not fit into an int8: -128 to 127"]),
        ("tiny = -129", ["t: In column 'tiny' value -129 does not fit into an int8: -128 to 127"]),
        (
            "bits = x'01020304'",
            [r"t: In column 'bits' value b'\x01\x02\x03\x04' exceeds limit of 3 bytes"],
        ),
        (
            "word = 'toolong', small = 40000",
            [
                "t: In column 'word' value 'toolong' exceeds limit of 5 characters",
                "t: In column 'small' value 40000 does not fit into an int16: -32768 to 32767",
            ],
        ),
        ("many = 1.5", ["t: In column 'many' value 1.5 doesn't match schema type integer"]),
        ("day = 'soon'", ["t: In column 'day' value 'soon' is not an ISO 8601 date ie YYYY-MM-DD"]),
        ("note = x'61'", ["t: In column 'note' value b'a' doesn't match schema type text"]),
    ],
)
def test_called_kart_it_is_told_as_kart_tells_it(
    source: Path, edits: str, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = made(source, "--kart")
    before = head(repo)
    edit(repo, f"UPDATE t SET {edits} WHERE id = 2")
    own = invoke(["-C", repo, "commit", "-m", "x"])
    monkeypatch.setattr(sys, "argv", ["kart"])
    refused = invoke(["-C", repo, "commit", "-m", "x"])
    assert (own.exit_code, refused.exit_code) == (23, 23)
    assert own.stderr.startswith("Error: ") and "Hint: mend" in own.stderr
    assert refused.stderr.splitlines() == [*lines, KARTS]
    assert head(repo) == before


def test_limits_hold_for_patches_and_not_for_imports(source: Path) -> None:
    with closing(sqlite3.connect(source)) as file:
        file.execute("UPDATE t SET word = 'imported', tiny = 300 WHERE id = 1")
        file.commit()
    repo = made(source, "--kart")
    assert "imported" in succeed(invoke(["-C", repo, "show", "t:1", "-o", "json"])).stdout
    patch = json.loads(succeed(invoke(["-C", repo, "create-patch", "HEAD"])).stdout)
    rows = (row for each in patch["kart.diff/v1+hexwkb"]["t"]["feature"] for row in each.values())
    old = next(row for row in rows if row["id"] == 2)
    patch["kart.diff/v1+hexwkb"]["t"] = {"feature": [{"-": old, "+": {**old, "word": "patched"}}]}
    written = repo.with_name("patch.json")
    written.write_text(json.dumps(patch))
    refused = invoke(["-C", repo, "apply", written])
    assert refused.exit_code == 23 and "value 'patched' exceeds limit of 5" in refused.stderr
    # An edit of another column asks for the row as it is now, as Kart does.
    edit(repo, "UPDATE t SET note = 'y' WHERE id = 1")
    assert invoke(["-C", repo, "commit", "-m", "x"]).exit_code == 23
    succeed(invoke(["-C", repo, "diff", "HEAD"]))
    succeed(invoke(["-C", repo, "diff"]))
    edit(repo, "UPDATE t SET word = 'short', tiny = 3 WHERE id = 1")
    succeed(invoke(["-C", repo, "commit", "-m", "x"]))
