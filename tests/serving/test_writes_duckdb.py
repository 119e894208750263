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
from tests.serving.server import catalog, serving
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


@pytest.mark.thorough
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


@pytest.mark.thorough
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
        ]
    )
    assert all(isinstance(answer, list) for answer in answers[:-1]), answers
    assert "points: two rows have the key id = 1" in answers[-1]
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


def test_geometries_are_written_as_geometries(
    repo: Repo, url: str, duckdb: Callable[[list[str]], list[Any]]
) -> None:
    model = {row[0]: list(row[1:]) for row in held(repo, "places")}
    answers = duckdb(
        [
            attach(url, "main"),
            "INSERT INTO served.tables.places VALUES (100, 'x', 'POINT (1 2)'::GEOMETRY), "
            "(101, 'y', NULL)",
            "UPDATE served.tables.places SET geom = 'POINT (7 8)'::GEOMETRY WHERE id < 2",
            "DELETE FROM served.tables.places WHERE id = 4",
            "ALTER TABLE served.tables.places ADD COLUMN door GEOMETRY",
            "UPDATE served.tables.places SET door = 'POINT (5 5)'::GEOMETRY WHERE id = 3",
            "CREATE TABLE served.tables.bare (id BIGINT, line GEOMETRY)",
            "INSERT INTO served.tables.bare VALUES (1, 'LINESTRING (0 0, 1 1)'::GEOMETRY)",
            "CREATE TABLE served.tables.copy AS SELECT id, geom FROM served.tables.places",
            "SELECT typeof(geom) FROM served.tables.copy LIMIT 1",
            "SELECT typeof(line), line::VARCHAR FROM served.tables.bare",
            "SELECT geom::VARCHAR, door::VARCHAR FROM served.tables.places WHERE id = 3",
        ]
    )
    assert all(isinstance(answer, list) for answer in answers), answers
    assert answers[-3:] == [
        [["GEOMETRY('OGC:CRS84')"]],
        [["GEOMETRY('OGC:CRS84')", "LINESTRING (0 0, 1 1)"]],
        [["POINT (3 3)", "POINT (5 5)"]],
    ]
    moved, door = (shapely.to_wkb(shapely.Point(*xy)) for xy in ((7, 8), (5, 5)))
    model |= {100: ["x", shapely.to_wkb(shapely.Point(1, 2))], 101: ["y", None]}
    model |= {number: [model[number][0], moved] for number in (0, 1)}
    del model[4]
    wanted = [(n, *row, door if n == 3 else None) for n, row in sorted(model.items())]
    assert held(repo, "places") == wanted
    assert held(repo, "copy") == [row[:1] + row[2:3] for row in wanted]
    for path, name in (("copy", "geom"), ("bare", "line"), ("places", "door")):
        dataset = repo.dataset(path)
        geometry = dataset.schema.by_name[name].geometry
        assert geometry is not None and geometry.crs == "OGC:CRS84"
        assert "OGC:CRS84" in dataset.crs
    rows = catalog(url, "main").load_table("tables.bare").scan().to_arrow().to_pylist()
    assert rows == [{"id": 1, "line": shapely.to_wkb(shapely.from_wkt("LINESTRING (0 0, 1 1)"))}]
    assert list(Repo.open(repo.path, settings=LOCAL).fsck(full=True)) == []


@pytest.mark.thorough
def test_columns_are_altered_one_after_another_under_the_key(
    repo: Repo, url: str, duckdb: Callable[[list[str]], list[Any]]
) -> None:
    table = "ALTER TABLE served.tables.points"
    answers = duckdb(
        [
            attach(url, "main"),
            f"{table} ADD COLUMN a INTEGER",
            f"{table} ADD COLUMN b VARCHAR",
            f"{table} RENAME COLUMN name TO label",
            f"{table} DROP COLUMN a",
            "UPDATE served.tables.points SET b = label WHERE id < 2",
            f"{table} DROP COLUMN id",
        ]
    )
    assert all(isinstance(answer, list) for answer in answers[:-1]), answers
    assert "points: the key column 'id' is not among the columns" in answers[-1]
    schema = repo.dataset("points").schema
    assert [field.name for field in schema.fields] == ["id", "label", "b"]
    assert [field.name for field in schema.key.fields] == ["id"]
    assert held(repo)[1:3] == [(1, "n1", "n1"), (2, "n2", None)]
