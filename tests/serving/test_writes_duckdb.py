"""DuckDB's statements through the catalog: rows compared with a model, commits counted."""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from havasu_vc import Repo, Settings
from havasu_vc.exchange.source import SourceOptions
from tests.serving.conftest import GEO
from tests.serving.server import serving
from tests.serving.test_engines import attach, duckdb
from tests.support.templates import empty_repo

__all__ = ["duckdb"]

LOCAL = Settings(engine="local")
STATEMENTS = (
    "INSERT INTO {t} VALUES (200, 'a'), (201, NULL)",
    "UPDATE {t} SET name = 'updated' WHERE id < 5",
    "DELETE FROM {t} WHERE id = 7 OR name IS NULL",
    "INSERT INTO {t} SELECT id + 1000, name || '!' FROM {t} WHERE id < 3",
    "UPDATE {t} SET name = name || '?' WHERE id >= 15",
    "DELETE FROM {t}",
    "INSERT INTO {t} VALUES (1, 'one'), (2, 'two')",
)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    points = shapely.to_wkb(shapely.points([(n, n) for n in range(20)]))
    table = pa.table({"id": pa.array(range(20), pa.int64()), "name": [f"n{n}" for n in range(20)]})
    places = table.append_column("geom", pa.array(points)).replace_schema_metadata({"geo": GEO})
    pq.write_table(table, tmp_path / "in.parquet")
    pq.write_table(places, tmp_path / "places.parquet")
    options = SourceOptions(primary_key=("id",))
    repo.import_(tmp_path / "in.parquet", "points", options=options)
    repo.import_(tmp_path / "in.parquet", "a/other", options=options)
    repo.import_(tmp_path / "places.parquet", "places", options=options)
    return repo


@pytest.fixture
def url(repo: Repo) -> Iterator[str]:
    with serving(repo.path, "--write", "main") as found:
        yield found


def held(repo: Repo, path: str = "points") -> list[tuple[Any, ...]]:
    found = repo.table(path).to_arrow().sort_by("id").to_pylist()
    return [tuple(row.values()) for row in found]


def subjects(repo: Repo) -> list[str]:
    return [info.message.split("\n")[0] for info in repo.log()][:-3]


def test_statements_do_to_rows_what_they_do_elsewhere(
    repo: Repo, url: str, duckdb: Callable[[list[str]], list[Any]]
) -> None:
    model = sqlite3.connect(":memory:")
    model.execute("CREATE TABLE points (id INTEGER, name TEXT)")
    model.executemany("INSERT INTO points VALUES (?, ?)", held(repo))
    for number, statement in enumerate(STATEMENTS, 1):
        duckdb([attach(url, "main"), statement.format(t="served.tables.points")])
        model.execute(statement.format(t="points"))
        wanted = model.execute("SELECT id, name FROM points ORDER BY id").fetchall()
        assert held(repo) == wanted, statement
        assert len(subjects(repo)) == number
    assert list(Repo.open(repo.path, settings=LOCAL).fsck(full=True)) == []


def test_tables_transactions_and_what_is_refused(
    repo: Repo, url: str, duckdb: Callable[[list[str]], list[Any]]
) -> None:
    answers = duckdb(
        [
            attach(url, "main"),
            "BEGIN",
            "INSERT INTO served.tables.points VALUES (300, 't')",
            "DELETE FROM served.a.other WHERE id = 1",
            "COMMIT",
            "CREATE TABLE served.tables.made AS SELECT * FROM served.tables.points WHERE id < 3",
            "CREATE SCHEMA served.q",
            "CREATE TABLE served.q.t (id BIGINT, v DOUBLE)",
            "INSERT INTO served.q.t VALUES (1, 2.5)",
            "ALTER TABLE served.q.t ADD COLUMN w INTEGER",
            "DROP TABLE served.tables.made",
            "INSERT INTO served.tables.points VALUES (1, 'again')",
            "DELETE FROM served.tables.places WHERE id = 1",
            "SELECT count(*) FROM served.tables.places",
        ]
    )
    assert all(isinstance(answer, list) for answer in answers[:-3]), answers
    assert "points: two rows have the key id = 1" in answers[-3]
    assert "other engines write to it" in answers[-2]
    assert answers[-1] == [[20]]
    assert len(held(repo)) == 21 and len(held(repo, "a/other")) == 19
    assert held(repo, "q/t") == [(1, 2.5, None)]
    assert repo.datasets() == ("a/other", "places", "points", "q/t")
    assert [line.rpartition(" (")[0] for line in subjects(repo)] == [
        "drop made",
        "alter q/t",
        "append q/t",
        "create q/t",
        "create made",
        "delete, append a/other, points",
    ]
    assert list(Repo.open(repo.path, settings=LOCAL).fsck(full=True)) == []
