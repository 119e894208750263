"""`sql --engine spark`, `shell` and `spark-conf`, in the Spark that runs for all tests."""

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.cli.conftest import Run, succeed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SQL = ("sql", "--engine", "spark")
QUERY = "SELECT id, name FROM points ORDER BY id"


@pytest.fixture(autouse=True)
def _session(spark: "SparkSession") -> None:
    """Commands take the session that runs."""


def test_text(run: Run) -> None:
    result = succeed(run(*SQL, QUERY))

    assert result.stdout == "id  name\n--  ----\n1   one\n2   TWO\n4   four\n"


def test_text_shows_the_first_rows(run: Run) -> None:
    result = succeed(run(*SQL, QUERY, "--rows", "2"))

    assert result.stdout.splitlines()[-1] == "2   TWO"
    assert "only the first 2 rows" in result.stderr


def test_csv_of_a_revision(run: Run) -> None:
    result = succeed(run(*SQL, QUERY, "--ref", "HEAD^", "--output-format", "csv"))

    assert result.stdout == "id,name\n1,one\n2,two\n3,three\n"


def test_json_with_functions(run: Run) -> None:
    query = "SELECT id, ST_X(geom) AS x, geom AS wkb FROM points WHERE id = 4"
    result = succeed(run(*SQL, query, "--output-format", "json-lines"))

    row = json.loads(result.stdout)
    assert (row["id"], row["x"]) == (4, 174.8)
    assert row["wkb"].startswith("0101000000")


def test_arrow_to_a_file(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "rows.arrows"
    succeed(run(*SQL, QUERY, "--output-format", "arrow", "--output", out))

    table = pa.ipc.open_stream(io.BytesIO(out.read_bytes())).read_all()
    assert table.to_pydict() == {"id": [1, 2, 4], "name": ["one", "TWO", "four"]}


def test_a_script_has_several_statements(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text("CREATE OR REPLACE TEMP VIEW v AS SELECT 1 AS a; -- one;\nSELECT a FROM v;\n")
    result = succeed(run(*SQL, "-f", script, "--output-format", "csv"))

    assert result.stdout == "a\n1\n"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((*SQL, "SELEC"), "Syntax error at or near 'SELEC'"),
        ((*SQL, "SELECT nope FROM points"), "`nope` cannot be resolved"),
        ((*SQL, "SELECT ST_Area('no geometry') FROM points"), "geometry"),
        ((*SQL, "SELECT raise_error('by hand') FROM points"), "by hand"),
        ((*SQL, "SELECT 1", "--ref", "nope"), "no commit is named 'nope'"),
        (SQL, "give a query"),
        ((*SQL, "-f", "nowhere.sql"), "nowhere.sql cannot be read"),
    ],
)
def test_what_goes_wrong_is_one_line(run: Run, arguments: tuple[str, ...], reason: str) -> None:
    result = run(*arguments)

    assert result.exit_code != 0
    assert reason in result.stderr
    assert "Traceback" not in result.stderr
    assert "\tat " not in result.stderr


def test_shell(run: Run) -> None:
    result = succeed(run("shell", stdin='print(read(spark, repo, "points").count() * 1000)\n'))

    assert "3000" in result.stdout


def test_settings(run: Run) -> None:
    lines = succeed(run("spark-conf")).stdout.splitlines()
    settings = json.loads(succeed(run("spark-conf", "--json")).stdout)
    arguments = succeed(run("spark-conf", "--arguments")).stdout

    assert dict(line.split(" ", 1) for line in lines) == settings
    assert settings["spark.sql.catalog.havasu.warehouse"].endswith("/tables")
    assert all(f"--conf {name}=" in arguments for name in settings)
    assert settings["spark.sql.files.openCostInBytes"] == "65536"
    assert succeed(run("spark-conf", "--no-jar")).stdout.count("iceberg") == 0
    assert run("spark-conf", "--json", "--arguments").exit_code == 2
