"""Edits by Spark, with the real Iceberg runtime, as versions of the dataset."""

import copy
import random
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from havasu_vc import Repo
from havasu_vc.errors import GeometryError, KeyViolationError
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.model.commits import ChangeCounts
from tests.repo.tables import BY_ID, NO_KEY, points, rows, write
from tests.support.git import run_git
from tests.support.sound import LOCAL, assert_sound, refuses
from tests.support.templates import empty_repo
from tests.workspace.sheets import Sheet, compared, counts_of, in_order, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Catalog = Callable[[Path], str]


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A repository with `points`, 100 rows by id, checked out."""
    made = empty_repo(tmp_path / "repo", settings=LOCAL)
    made.import_(write(tmp_path / "points.parquet", points(100)), options=BY_ID)
    made.workspace.check_out()
    return made


@pytest.fixture
def sheet(repo: Repo, spark: "SparkSession", iceberg: Catalog) -> Sheet:
    model = {row["id"]: row for row in rows(repo, "points")}
    return Sheet(spark, iceberg(repo.workspace.root), "points", model)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_random_edits_are_those_of_a_plain_model(repo: Repo, sheet: Sheet, seed: int) -> None:
    sheet.draw = random.Random(seed)
    base = copy.deepcopy(sheet.rows)
    done: list[str] = []
    for number, name in enumerate(islice(sheet.everything(), 12), 1):
        getattr(sheet, name)()
        done.append(name)
        if number % 3:
            continue
        assert counts_of(repo, "points") == compared(base, sheet.rows), done
        assert rows_of(repo, "points") == in_order(list(sheet.rows.values())), done
        if number % 6 == 0:
            counts = compared(base, sheet.rows)
            result = repo.workspace.commit(message="Edit")
            assert result.changes["points"] == counts
            assert rows(repo, "points") == in_order(list(sheet.rows.values())), done
            base = copy.deepcopy(sheet.rows)
            assert counts_of(repo, "points") == ChangeCounts()
    assert not list(repo.fsck(full=True))
    assert_sound(repo)


def test_altered_columns_are_the_datasets(repo: Repo, sheet: Sheet) -> None:
    base = copy.deepcopy(sheet.rows)
    before = repo.dataset("points").schema
    sheet.sql("ALTER TABLE TABLE_ ADD COLUMN owner string COMMENT 'who has it'")
    sheet.sql("ALTER TABLE TABLE_ RENAME COLUMN name TO title")
    sheet.sql("ALTER TABLE TABLE_ ALTER COLUMN number TYPE bigint")
    sheet.sql("UPDATE TABLE_ SET owner = 'me', number = 9999999999 WHERE id < 3")
    sheet.sql("ALTER TABLE TABLE_ ALTER COLUMN number FIRST")
    for key, row in sheet.rows.items():
        number = 9999999999 if key < 3 else row["number"]
        named = {"number": number, "id": key, "geom": row["geom"], "title": row["name"]}
        sheet.rows[key] = named | {"owner": "me" if key < 3 else None}

    assert counts_of(repo, "points") == ChangeCounts(updates=3)
    assert rows_of(repo, "points") == in_order(list(sheet.rows.values()))
    repo.workspace.commit(message="Columns")

    after = repo.dataset("points").schema
    assert rows(repo, "points") == in_order(list(sheet.rows.values()))
    assert [field.name for field in after.fields] == ["number", "id", "geom", "title", "owner"]
    assert after.by_name["geom"] == before.by_name["geom"]
    assert after.by_name["title"].id == before.by_name["name"].id
    assert after.by_name["title"].stored_name == "name"
    assert after.by_name["owner"].doc == "who has it"
    assert after.by_name["owner"].id > before.last_id
    assert after.identifier_ids == before.identifier_ids

    # What was dropped does not come back under a new column of its name.
    sheet.sql("ALTER TABLE TABLE_ DROP COLUMN title")
    sheet.sql("ALTER TABLE TABLE_ ADD COLUMN title string")
    sheet.sql("DELETE FROM TABLE_ WHERE id = 5")
    assert counts_of(repo, "points") == ChangeCounts(deletes=1)
    repo.workspace.commit(message="More columns")
    assert {row["title"] for row in rows(repo, "points")} == {None}
    assert compared(base, {row["id"]: row for row in rows(repo, "points")}).deletes == 1
    assert not list(repo.fsck(full=True))


EVERYTHING = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "flag": pa.array([True, None, False]),
        "small": pa.array([1, None, 3], pa.int16()),
        "single": pa.array([1.5, None, float("nan")], pa.float32()),
        "double": pa.array([1.5, None, -0.0]),
        "price": pa.array([Decimal("1.25"), None, Decimal("-99999999.99")], pa.decimal128(10, 2)),
        "wide": pa.array([Decimal(10) ** 30, None, Decimal(-1)], pa.decimal128(38, 0)),
        "day": pa.array([date(2020, 2, 29), None, date(1850, 1, 1)]),
        "local": pa.array([datetime(2020, 1, 2, 3, 4, 5, 678901), None, None], pa.timestamp("us")),
        "moment": pa.array([1, None, -1], pa.timestamp("us", tz="UTC")),
        "text": pa.array(["a", None, "ünï"]),
        "bytes": pa.array([b"\0\1", None, b""], pa.binary()),
        "sixteen": pa.array([bytes(16), None, b"x" * 16], pa.binary(16)),
        "uuid": pa.array([bytes(range(16)), None, bytes(16)], pa.uuid()),
        "place": pa.array([{"x": 1, "y": "a"}, None, {"x": None, "y": "b"}]),
        "numbers": pa.array([[1, 2], None, []], pa.list_(pa.int64())),
        "names": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    }
)


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_values_of_every_type_go_through_spark_unchanged(
    spark: "SparkSession", iceberg: Catalog, tmp_path: Path, mode: str
) -> None:
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    pq.write_table(EVERYTHING, tmp_path / "all.parquet")
    repo.import_(tmp_path / "all.parquet", options=BY_ID)
    repo.workspace.check_out()
    before = rows(repo, "all")
    sheet = Sheet(spark, iceberg(repo.workspace.root), "all", {})
    sheet.set_mode(mode)

    sheet.sql("UPDATE TABLE_ SET text = 'changed' WHERE id < 3")
    sheet.sql("INSERT INTO TABLE_ SELECT * FROM TABLE_ WHERE id = 1")
    sheet.sql("UPDATE TABLE_ SET id = 10 WHERE id = 1 AND text = 'changed'")
    with pytest.raises(KeyViolationError, match="two rows have the key id = 10"):
        repo.workspace.commit(message="Twice")
    sheet.sql("DELETE FROM TABLE_ WHERE id = 10")
    assert counts_of(repo, "all") == ChangeCounts(updates=1, deletes=1)
    sheet.sql("INSERT INTO TABLE_ SELECT * FROM TABLE_ VERSION AS OF 'havasu-base' WHERE id = 1")

    assert counts_of(repo, "all") == ChangeCounts(updates=1)
    repo.workspace.commit(message="Edit")
    expected = [row | ({"text": "changed"} if row["id"] == 2 else {}) for row in before]
    assert repr(rows(repo, "all")) == repr(expected)
    assert repo.dataset("all").schema == repo.dataset("all", "HEAD^").schema
    assert not list(repo.fsck(full=True))


def test_several_datasets_with_composite_keys_and_none(
    spark: "SparkSession", iceberg: Catalog, tmp_path: Path
) -> None:
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    table = pa.table({"a": ["x", "x", "y"], "b": [1, 2, 1], "v": [1.0, 2.0, 3.0]})
    pq.write_table(table, tmp_path / "pairs.parquet")
    repo.import_(tmp_path / "pairs.parquet", "nz/pairs", options=SourceOptions(("a", "b")))
    repo.import_(tmp_path / "pairs.parquet", "bag", options=NO_KEY)
    repo.workspace.check_out()
    pairs, bag = (
        Sheet(spark, iceberg(repo.workspace.root), name, {}) for name in ("nz/pairs", "bag")
    )
    pairs.sql(
        "MERGE INTO TABLE_ t USING (SELECT 'x' a, 2 b, 20.0D v UNION SELECT 'z', 1, 5.0D) s "
        "ON t.a = s.a AND t.b = s.b WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    bag.sql("INSERT INTO TABLE_ VALUES ('x', 1, 1.0), ('x', 1, 1.0)")
    bag.sql("UPDATE TABLE_ SET v = 4.0 WHERE a = 'y'")

    assert counts_of(repo, "nz/pairs") == ChangeCounts(inserts=1, updates=1)
    assert counts_of(repo, "bag") == ChangeCounts(inserts=3, deletes=1)
    result = repo.workspace.commit(message="Both")
    assert result.changes == {
        "nz/pairs": ChangeCounts(inserts=1, updates=1),
        "bag": ChangeCounts(inserts=3, deletes=1),
    }
    assert spark.table(pairs.table).count() == 4 and spark.table(bag.table).count() == 5
    assert run_git("status", "--porcelain", cwd=repo.path) == ""
    assert_sound(repo)
    assert not list(repo.fsck(full=True))


@pytest.mark.parametrize("inside", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_files_of_others_are_taken_in_as_copies(
    repo: Repo, sheet: Sheet, tmp_path: Path, inside: bool
) -> None:
    source = repo.workspace.root / "points" / "data" / "given" if inside else tmp_path / "given"
    source.mkdir()
    if not inside:
        repo.config.set("havasu.linked.allow", str(source))
    new = [sheet.row(key) for key in (1000, 1001)]
    columns = pa.schema(
        [
            ("id", pa.int64()),
            ("geom", pa.binary()),
            ("name", pa.string()),
            ("number", pa.int32()),
        ]
    )
    pq.write_table(pa.Table.from_pylist(new, schema=columns), source / "a.parquet")
    sheet.sql(
        f"CALL CATALOG_.system.add_files(table => 'points', source_table => '`parquet`.`{source}`')"
    )
    sheet.sql("DELETE FROM TABLE_ WHERE id = 1001")
    given = (source / "a.parquet").stat()

    sheet.rows[1000] = new[0]
    assert counts_of(repo, "points") == ChangeCounts(inserts=1)
    repo.workspace.commit(message="Given")

    assert rows(repo, "points") == in_order(list(sheet.rows.values()))
    now = (source / "a.parquet").stat()
    assert (now.st_mode, now.st_nlink, now.st_mtime) == (given.st_mode, 1, given.st_mtime)
    assert_sound(repo)


def test_what_spark_inserts_and_cannot_be_kept_is_told(repo: Repo, sheet: Sheet) -> None:
    sheet.sql("INSERT INTO TABLE_ SELECT * FROM TABLE_ WHERE id = 7")
    with refuses(repo, KeyViolationError, match="7", hint=True):
        repo.workspace.commit(message="Twice")
    sheet.sql("DELETE FROM TABLE_ WHERE id = 7")
    sheet.sql("INSERT INTO TABLE_ VALUES (7, X'0102', 'seven', 7)")
    with refuses(repo, GeometryError, match="row 7", hint=True):
        repo.workspace.commit(message="Broken")
    assert len(sheet.spark.table(sheet.table).collect()) == 100
    sheet.sql("UPDATE TABLE_ SET geom = NULL WHERE id = 7")
    # Its file still holds what cannot be read, in a row that is deleted.
    assert repo.workspace.commit(message="Mended").changes["points"].updates == 1
    assert_sound(repo)
