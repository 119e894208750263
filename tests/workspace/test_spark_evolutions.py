"""Random edits and random schemas through Spark SQL, names swapped and used again among them.

A plain model does the same. What is committed, and what Iceberg, Spark without a jar and our
own scan read then, is what the model holds.
"""

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from havasu_vc import Repo
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.spark import read
from tests.repo.tables import BY_ID, write
from tests.support.sound import LOCAL, assert_sound
from tests.support.templates import empty_repo
from tests.workspace.sheets import counts_of, literal, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = dict[int, dict[str, Any]]


class Evolving:
    """A checked-out table, and the columns and rows that it must have."""

    def __init__(self, spark: "SparkSession", repo: Repo, catalog: str, seed: int) -> None:
        self.spark, self.repo, self.draw = spark, repo, random.Random(seed)
        self.table = f"{catalog}.things"
        self.columns = {"a": "string", "b": "string", "n": "int"}
        self.rows: Rows = rows_of_model(repo)
        self.fresh = 1000

    def sql(self, text: str) -> None:
        self.spark.sql(text.replace("TABLE_", self.table))

    def alter(self, text: str) -> None:
        self.sql(f"ALTER TABLE TABLE_ {text}")

    def value(self, kind: str) -> Any:
        number = self.draw.randrange(100)
        return self.draw.choice([None, f"v{number}" if kind == "string" else number])

    def row(self, key: int) -> dict[str, Any]:
        return {"id": key} | {name: self.value(kind) for name, kind in self.columns.items()}

    def insert(self) -> None:
        rows = [self.row(self.fresh + number) for number in range(6)]
        self.fresh += 6
        values = ", ".join(f"({', '.join(map(literal, row.values()))})" for row in rows)
        self.sql(f"INSERT INTO TABLE_ ({', '.join(rows[0])}) VALUES {values}")
        self.rows |= {row["id"]: row for row in rows}

    def update(self) -> None:
        name, kind = self.draw.choice(sorted(self.columns.items()))
        by, value = self.draw.randrange(2, 6), self.value(kind)
        self.sql(f"UPDATE TABLE_ SET {name} = {literal(value)} WHERE id % {by} = 1")
        for key, row in self.rows.items():
            if key % by == 1:
                row[name] = value

    def delete(self) -> None:
        by = self.draw.randrange(7, 13)
        self.sql(f"DELETE FROM TABLE_ WHERE id % {by} = 2")
        self.rows = {key: row for key, row in self.rows.items() if key % by != 2}

    def rename(self, old: str, new: str) -> None:
        self.alter(f"RENAME COLUMN {old} TO {new}")
        self.columns = {new if n == old else n: kind for n, kind in self.columns.items()}
        for key, row in self.rows.items():
            self.rows[key] = {new if name == old else name: v for name, v in row.items()}

    def swap(self) -> None:
        one, other = self.draw.sample(sorted(self.columns), 2)
        self.rename(one, "between")
        self.rename(other, one)
        self.rename("between", other)

    def reuse(self) -> None:
        """Give a column another name and its old one to a new column."""
        name = self.draw.choice(sorted(self.columns))
        self.rename(name, f"was_{name}_{self.draw.randrange(10**6)}")
        self.add(name)

    def replace(self) -> None:
        """Drop a column and add one of the same name, perhaps of another type."""
        name = self.draw.choice(sorted(self.columns))
        self.alter(f"DROP COLUMN {name}")
        del self.columns[name]
        for row in self.rows.values():
            del row[name]
        self.add(name)

    def add(self, name: str | None = None) -> None:
        name = name or f"x{self.draw.randrange(10**6)}"
        kind = self.draw.choice(["string", "int"])
        self.alter(f"ADD COLUMN {name} {kind}{self.draw.choice([' FIRST', ' AFTER id', ''])}")
        self.columns[name] = kind
        for row in self.rows.values():
            row[name] = None

    def widen(self) -> None:
        for name, kind in sorted(self.columns.items()):
            if kind == "int":
                self.alter(f"ALTER COLUMN {name} TYPE bigint")
                self.columns[name] = "bigint"
                return

    def check_edits(self) -> None:
        assert by_name(rows_of(self.repo, "things")) == by_name(list(self.rows.values()))

    def check_commit(self) -> None:
        """Commit, and read what was committed in every way."""
        self.repo.workspace.commit(message="Edit")
        assert counts_of(self.repo, "things") == ChangeCounts()
        wanted = by_name(list(self.rows.values()))
        assert by_name(list(rows_of_model(self.repo).values())) == wanted
        assert of_frame(read(self.spark, self.repo, "things")) == wanted
        assert of_frame(self.spark.table(self.table)) == wanted


def rows_of_model(repo: Repo) -> Rows:
    return {row["id"]: row for row in repo.table("things").to_arrow().to_pylist()}


def of_frame(frame: Any) -> list[dict[str, Any]]:
    return by_name(frame.toArrow().to_pylist())


def by_name(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    ordered = sorted(rows, key=lambda row: row["id"])
    return [dict(sorted(row.items())) for row in ordered]


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 3))])
def test_edits_and_schemas_by_spark_are_those_of_a_plain_model(
    spark: "SparkSession", iceberg: Callable[[Path], str], tmp_path: Path, seed: int
) -> None:
    ids = range(40)
    table = {"id": ids, "a": [f"a{n}" for n in ids], "b": [f"b{n}" for n in ids]}
    made = pa.table({**table, "n": pa.array(ids, pa.int32())})
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    repo.import_(write(tmp_path / "things.parquet", made), options=BY_ID)
    evolving = Evolving(spark, repo, iceberg(Path(repo.workspace.check_out().root)), seed)
    changes = ["swap", "reuse", "replace", "add", "widen", "swap"]
    evolving.draw.shuffle(changes)
    for number, change in enumerate(changes if seed else changes[:4], 1):
        getattr(evolving, change)()
        for edit in evolving.draw.sample(["insert", "update", "delete"], 2):
            getattr(evolving, edit)()
        evolving.check_edits()
        if number % 2 == 0:
            evolving.check_commit()
    assert not list(repo.fsck(full=True))
    assert_sound(repo)
