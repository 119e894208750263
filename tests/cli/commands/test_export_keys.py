"""`havasu-vc export` to GeoPackage: the key as what tells rows apart, as a column, as both."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Run, succeed


def exported(run: Run, file: Path, *options: str) -> tuple[list[str], list[tuple[int, ...]]]:
    """Return the columns of an exported file, and the whole numbers of its rows."""
    succeed(run("export", "points", file, *options))
    with closing(sqlite3.connect(file)) as database:
        table = database.execute("SELECT table_name FROM gpkg_contents").fetchone()[0]
        told = database.execute(f'PRAGMA table_info("{table}")').fetchall()
        names = [row[1] for row in told]
        numbers = [name for name in names if name in ("fid", "id", "mine")]
        listed = ", ".join(f'"{name}"' for name in numbers)
        rows = database.execute(f'SELECT {listed} FROM "{table}" ORDER BY 1').fetchall()
        return names, rows


@pytest.mark.parametrize(
    ("options", "numbers", "rows"),
    [
        ([], ["id"], [(1,), (2,), (4,)]),
        (["--primary-key-as-field"], ["fid", "id"], [(1, 1), (2, 2), (4, 4)]),
        (["--primary-key-as-fid"], ["fid", "id"], [(1, 1), (2, 2), (4, 4)]),
        (["--no-primary-key-as-field"], ["fid"], [(1,), (2,), (4,)]),
        (["--no-primary-key-as-fid"], ["fid", "id"], [(1, 1), (2, 2), (3, 4)]),
        (["--no-primary-key-as-field", "-lco", "FID=mine"], ["mine"], [(1,), (2,), (4,)]),
        (["--no-primary-key-as-fid", "--no-primary-key-as-field"], ["fid"], [(1,), (2,), (3,)]),
    ],
)
def test_where_the_key_goes(
    run: Run, tmp_path: Path, options: list[str], numbers: list[str], rows: list[tuple[int, ...]]
) -> None:
    names, found = exported(run, tmp_path / "out.gpkg", *options)

    assert [name for name in names if name in ("fid", "id", "mine")] == numbers
    assert found == rows
    assert set(names) - {"fid", "id", "mine"} >= {"name", "height"}


def test_a_key_called_fid_stays_one_column(run: Run, tmp_path: Path) -> None:
    (tmp_path / "lots.csv").write_text("fid,name\n3,three\n7,seven\n")
    succeed(run("import", tmp_path / "lots.csv", "--primary-key", "fid"))
    file = tmp_path / "out.gpkg"

    succeed(run("export", "lots", file, "--primary-key-as-field"))

    with closing(sqlite3.connect(file)) as database:
        assert database.execute("SELECT fid, name FROM out").fetchall() == [
            (3, "three"),
            (7, "seven"),
        ]


def test_a_key_of_text_is_no_number(run: Run, tmp_path: Path) -> None:
    (tmp_path / "lots.csv").write_text("code,name\nb,three\na,seven\n")
    succeed(run("import", tmp_path / "lots.csv", "--primary-key", "code"))
    file = tmp_path / "out.gpkg"

    result = run("export", "lots", file, "--primary-key-as-fid")
    assert result.exit_code == 2
    assert "non-integer primary keys" in result.stderr
    assert not file.exists()

    succeed(run("export", "lots", file, "--no-primary-key-as-field"))
    with closing(sqlite3.connect(file)) as database:
        told = database.execute("PRAGMA table_info(out)").fetchall()
    assert [row[1] for row in told] == ["fid", "name"]


def test_other_formats_only_leave_it_out(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "out.geojson"
    succeed(run("export", "points", file, "--no-primary-key-as-field"))

    features = json.loads(file.read_text())["features"]
    assert {tuple(each["properties"]) for each in features} == {("name", "height", "lon", "lat")}
    for name in ("a.csv", "a.parquet"):
        assert run("export", "points", tmp_path / name, "--primary-key-as-fid").exit_code == 2
