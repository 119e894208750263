"""The next release of a CSV: types are those of the dataset, whatever its values look like."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Run, succeed

HEADER = "id,code,count,price,when,open\n"
FIRST = HEADER + "1,A1,1,1.5,2020-01-31,true\n2,007,2,2.5,,false\n"


@pytest.fixture
def shops(tmp_path: Path, run: Run) -> Path:
    """The file of the first release, which is imported as `shops`."""
    path = tmp_path / "shops.csv"
    path.write_text(FIRST)
    succeed(run("import", path, "shops", "--primary-key", "id"))
    return path


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        ("1,010,1,1.5,2020-01-31,true\n2,007,2,2.5,,false\n", "1,010,1,1.5,2020-01-31,true\n"),
        (
            "1,2020-01-01,1.0,1,2020-01-31 00:00:00,1\n2,,,,,\n",
            "1,2020-01-01,1,1.0,2020-01-31,true\n",
        ),
        ("1,true,,,,\n2,false,,,,\n", "1,true,,,,\n"),
        ("1,,,,,\n", "1,,,,,\n"),
    ],
)
def test_columns_keep_their_types(shops: Path, run: Run, rows: str, wanted: str) -> None:
    types = run("meta", "get", "shops", "schema.json").stdout
    shops.write_text(HEADER + rows)

    succeed(run("import", shops, "shops", "--replace"))

    assert run("cat", "shops").stdout.startswith(HEADER + wanted)
    assert run("meta", "get", "shops", "schema.json").stdout == types
    assert "No row of shops differs" in run("import", shops, "shops", "--replace").stderr


def test_a_release_without_rows(shops: Path, run: Run) -> None:
    shops.write_text(HEADER)

    succeed(run("import", shops, "shops", "--replace"))

    assert run("cat", "shops").stdout == HEADER


def test_a_value_of_another_type_is_named_and_nothing_changes(shops: Path, run: Run) -> None:
    before = run("log", "--oneline").stdout
    shops.write_text(FIRST.replace("2,2.5", "2.5,2.5"))

    done = run("import", shops, "shops", "--replace")

    assert done.exit_code == 28
    assert done.stderr.splitlines() == [
        f"Error: {shops}: row 2 has '2.5' in column 'count', which is long in the dataset",
        "Hint: mend the row, or import it as another dataset with --csv-text count",
    ]
    assert run("log", "--oneline").stdout == before


def test_what_export_wrote_is_no_change(tmp_path: Path, run: Run) -> None:
    # In Parquet columns have types that a CSV cannot tell.
    table = pa.table(
        {
            "id": [1, 2],
            "price": pa.array(["1.50", None]).cast(pa.decimal128(6, 2)),
            "size": pa.array([0.1, None], pa.float32()),
            "small": pa.array([1, 2], pa.int32()),
            "uuid": pa.array([b"0123456789abcdef", None], pa.uuid()),
            "hash": pa.array([b"\xff\x00", b"a"], pa.binary()),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    succeed(run("import", tmp_path / "t.parquet", "--primary-key", "id"))
    succeed(run("export", "t", tmp_path / "t.csv"))

    done = succeed(run("import", tmp_path / "t.csv", "t", "--replace"))

    assert "No row of t differs" in done.stderr


def test_part_of_a_release_is_read_the_same_way(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "wells.csv"
    path.write_text("id,code,lon,lat\n1,A,170,-40\n2,B,10,10\n")
    window = ("--bbox", "160,-50,180,-30", "--crs", "EPSG:4326")
    succeed(run("import", path, "--primary-key", "id", *window))
    path.write_text("id,code,lon,lat\n1,7,170,-40\n2,8,10,10\n")

    succeed(run("import", path, "--replace", *window))

    assert run("cat", "wells").stdout.splitlines()[1].startswith("1,7,170,-40")


def test_nested_columns_come_back_from_what_an_export_makes_of_them(
    tmp_path: Path, run: Run
) -> None:
    columns = {
        "id": pa.array([1, 2]),
        "tags": pa.array([["a", "b"], []]),
        "part": pa.array([{"x": 1, "y": "z"}, None]),
        "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
    }
    pq.write_table(pa.table(columns), tmp_path / "parts.parquet")
    succeed(run("import", tmp_path / "parts.parquet", "--primary-key", "id"))
    out = tmp_path / "out.csv"
    succeed(run("export", "parts", out))
    assert "Nothing changed" in succeed(run("import", out, "parts", "--replace")).output

    text = out.read_text()
    out.write_text(text.replace('"x"": 1', '"x"": 7'))
    assert "1 update" in succeed(run("import", out, "parts", "--replace")).output
    out.write_text(text.replace('"x"": 1', '"x"": 1.5'))
    refused = run("import", out, "parts", "--replace")
    assert refused.exit_code == 28
    assert "in column 'part', which is struct<x: long, y: string> in the" in refused.stderr


def test_a_header_alone_tells_no_types(tmp_path: Path, run: Run, shops: Path) -> None:
    shops.write_text(HEADER)
    said = "Note: shops has no rows that tell types: its columns are text"
    assert said in succeed(run("import", shops, "empty")).stderr
    assert said not in succeed(run("import", shops, "shops", "--replace")).stderr
