"""`havasu-vc sql` over the tables of a checkout: asked, changed, and what is refused."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import Run, succeed
from tests.support.git import run_git

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SQL = ("sql", "--engine", "spark")
QUERY_OF_HEAD = 'SELECT id, name FROM "points@HEAD" ORDER BY id'


@pytest.fixture(autouse=True)
def _session(spark: "SparkSession", iceberg: Callable[[Path], str]) -> Iterator[None]:
    """Commands take the session that runs, and what they set in it goes again."""
    from pyspark.sql import SparkSession

    for session in (spark, SparkSession.getActiveSession() or spark):
        # A view of another test would stand before the table of its name.
        session.catalog.dropTempView("points")
    yield
    for each in (spark, SparkSession.getActiveSession()):
        if each is not None:
            each.catalog.setCurrentCatalog("spark_catalog")


def test_a_checkout_is_asked_and_changed(run: Run) -> None:
    succeed(run("checkout"))
    for statement, reason in WRONG.items():
        assert_is_one_line(run, statement, reason)
    query = (*SQL, "SELECT id, name FROM points ORDER BY id", "--output-format", "csv")

    assert succeed(run(*query)).stdout == "id,name\n1,one\n2,TWO\n4,four\n"
    update = "UPDATE points SET name = 'uno' WHERE id = 1"
    changed = succeed(run("sql", f"{update}; DELETE FROM points WHERE id = 4"))
    assert "UPDATE changes tables, which Spark does" in changed.stderr
    assert succeed(run(*query)).stdout == "id,name\n1,uno\n2,TWO\n"
    # DuckDB shows the edits as well, which no commit has yet.
    assert succeed(run("sql", *query[3:])).stdout == "id,name\n1,uno\n2,TWO\n"
    before = succeed(run("sql", QUERY_OF_HEAD, "-o", "csv")).stdout
    assert before == "id,name\n1,one\n2,TWO\n4,four\n"
    assert "points: feature: 1 updates 1 deletes" in " ".join(succeed(run("status")).stdout.split())
    succeed(run("sql", "ALTER TABLE points RENAME COLUMN name TO title"))
    succeed(run("commit", "-m", "By SQL"))

    shown = succeed(run(*SQL, "SELECT title FROM points ORDER BY id", "--ref", "HEAD"))
    assert shown.stdout.split()[2:] == ["uno", "TWO"]
    assert "nothing" in succeed(run("status")).stdout.lower()

    # A table that is made beside the datasets is none of them yet.
    result = succeed(run("sql", "CREATE TABLE more AS SELECT id, title FROM points"))
    line = next(
        line for line in result.stderr.splitlines() if "the table more is no dataset" in line
    )
    command = line.split("`havasu-vc ")[1].split("`")[0].split()
    succeed(run(*command, "--primary-key", "id"))
    assert "more" in succeed(run("data", "ls")).stdout.split()


WRONG = {
    "SELECT * FROM nowhere": "`nowhere` cannot be found",
    "UPDATE points SET nope = 1": "`nope`",
    "ALTER TABLE points DROP COLUMN nope": "nope",
    "INSERT INTO points VALUES (1)": "points",
}


def assert_is_one_line(run: Run, statement: str, reason: str) -> None:
    """Check what is said of a statement that goes wrong, and that it changes nothing."""
    result = run(*SQL, statement)

    assert result.exit_code != 0
    assert reason in result.stderr
    assert "Traceback" not in result.stderr
    assert len([line for line in result.stderr.splitlines() if "rror" in line]) <= 1
    assert "nothing" in succeed(run("status")).stdout.lower()


@pytest.mark.parametrize("command", [(*SQL, "SELECT 1"), ("shell",), ("spark-conf",)])
def test_a_jar_that_is_named_and_is_not_there(
    run: Run, repo: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    succeed(run("checkout"))
    for number, place in enumerate(("environment", "git")):
        if number:
            monkeypatch.delenv("HAVASU_ICEBERG_JAR")
            run_git("config", "havasu.spark.jar", "nowhere.jar", cwd=repo)
        else:
            monkeypatch.setenv("HAVASU_ICEBERG_JAR", "nowhere.jar")
        result = run(*command)

        assert result.exit_code == 51, place
        assert result.stdout == ""
        error, *hints = result.stderr.splitlines()
        assert error.startswith("Error: the Iceberg runtime is not where ")
        assert ("HAVASU_ICEBERG_JAR", "`git config havasu.spark.jar`")[number] in error
        assert all(line.startswith(("Hint: ", "  ")) for line in hints)
        assert "iceberg-spark-runtime-4" in result.stderr and "--no-jar" in result.stderr


def test_without_the_jar_there_are_views(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    succeed(run("checkout"))
    monkeypatch.setenv("HAVASU_ICEBERG_JAR", "nowhere.jar")

    assert succeed(run("sql", "SELECT count(*) FROM points", "--no-jar")).stdout.split()[-1] == "3"
