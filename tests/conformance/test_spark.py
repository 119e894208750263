"""Spark with Iceberg's runtime: it writes tables and checkouts, and reads ours, by value."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conformance import ours
from tests.conformance.comparing import same_rows
from tests.conformance.drawing import KINDS, Abilities, histories
from tests.conformance.ours import BY_KEY, NAME, agrees, folder, made
from tests.conformance.tables import (
    KEY,
    AddColumn,
    Append,
    Delete,
    DropColumn,
    History,
    MoveFirst,
    Partition,
    RenameColumn,
    Row,
    State,
    Step,
    Update,
    Widen,
    arrow,
)
from tests.conformance.tally import Tally
from tests.support.templates import LOCAL, empty_repo

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAM = "Spark with Iceberg"
# Spark has neither times of day nor UUIDs nor bytes of one length.
HELD = KINDS - {"time", "uuid", "fixed"}
TRANSFORMS = ("identity", "year", "month", "day", "hour", "bucket", "truncate")
WRITES = Abilities(kinds=HELD, steps=(*ours.STEPS, Partition), transforms=TRANSFORMS)
COMMITS = Abilities(kinds=HELD, steps=ours.STEPS)
READS = Abilities(kinds=HELD, steps=ours.STEPS, geometries=True)

pytestmark = pytest.mark.spark
tried = settings(max_examples=12, suppress_health_check=list(HealthCheck))

Catalog = Callable[[Path | str], str]


class Written:
    """A table that Spark changes by SQL."""

    def __init__(self, spark: "SparkSession", name: str) -> None:
        self.spark = spark
        self.name = name

    def make(self, first: State, version: int, way: str) -> None:
        self._view(first, [])
        modes = ", ".join(
            f"'write.{each}.mode' = '{way}'" for each in ("delete", "update", "merge")
        )
        self.spark.sql(
            f"CREATE TABLE {self.name} USING iceberg TBLPROPERTIES"
            f" ('format-version' = '{version}', {modes}) AS SELECT * FROM given"
        )

    def _view(self, state: State, rows: list[Row]) -> None:
        from pyspark.sql.pandas.types import from_arrow_schema

        # Moments without a zone would be taken as those of the session's.
        schema = from_arrow_schema(state.schema, prefer_timestamp_ntz=True)
        frame = self.spark.createDataFrame(arrow(rows, state.schema), schema)
        frame.createOrReplaceTempView("given")

    def _type(self, state: State, name: str, parent: str | None = None) -> str:
        from pyspark.sql.types import StructType

        self._view(state, [])
        schema = self.spark.table("given").schema
        if parent is not None:
            inner = schema[parent].dataType
            assert isinstance(inner, StructType)
            schema = inner
        ddl = StructType([schema[name]]).toDDL()
        # The name is before the type, quoted where that is needed.
        return ddl.removeprefix(f"`{name}`").removeprefix(name).strip()

    def rows(self) -> list[Row]:
        found: list[Row] = self.spark.sql(f"SELECT * FROM {self.name}").toArrow().to_pylist()
        return found

    def apply(self, step: Step, before: State) -> None:
        sql = self.spark.sql
        table = f"ALTER TABLE {self.name}"
        match step:
            case Update(rows):
                self._view(before, list(rows))
                sql(
                    f"MERGE INTO {self.name} t USING given g ON t.{KEY} = g.{KEY}"
                    " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
                )
            case Append(rows):
                self._view(before, list(rows))
                sql(f"INSERT INTO {self.name} BY NAME SELECT * FROM given")
            case Delete(keys):
                sql(f"DELETE FROM {self.name} WHERE {KEY} IN ({', '.join(map(str, keys))})")
            case AddColumn(column, parent):
                type_ = self._type(step.applied(before), column.name, parent)
                path = f"`{column.name}`" if parent is None else f"`{parent}`.`{column.name}`"
                sql(f"{table} ADD COLUMN {path} {type_}")
            case DropColumn(name):
                sql(f"{table} DROP COLUMN `{name}`")
            case RenameColumn(old, new):
                sql(f"{table} RENAME COLUMN `{old}` TO `{new}`")
            case Widen(name):
                sql(f"{table} ALTER COLUMN `{name}` TYPE {self._type(step.applied(before), name)}")
            case MoveFirst(name):
                sql(f"{table} ALTER COLUMN `{name}` FIRST")
            case Partition(name, transform):
                how = {
                    "identity": f"`{name}`",
                    "bucket": f"bucket(3, `{name}`)",
                    "truncate": f"truncate(4, `{name}`)",
                }.get(transform, f"{transform}(`{name}`)")
                sql(f"{table} ADD PARTITION FIELD {how}")


@given(
    history=histories(WRITES),
    version=st.sampled_from([1, 2, 3]),
    way=st.sampled_from(["copy-on-write", "merge-on-read"]),
)
@tried
def test_import(
    history: History, version: int, way: str, spark: "SparkSession", iceberg: Catalog, tally: Tally
) -> None:
    with folder() as place:
        written = Written(spark, f"{iceberg(place / 'lake')}.n.t")
        written.make(history.first, version, "copy-on-write" if version == 1 else way)
        for step, before in zip(history.steps, history.states, strict=False):
            written.apply(step, before)
        repo = empty_repo(place / "repo", settings=LOCAL)
        repo.import_(f"iceberg:{place / 'lake' / 'n' / 't'}", NAME, options=BY_KEY)
        tally.case(PROGRAM, "import", agrees(repo, history.last, "import"))


@given(history=histories(READS))
@tried
def test_export(history: History, spark: "SparkSession", iceberg: Catalog, tally: Tally) -> None:
    with folder() as place:
        repo = made(place, history)
        repo.export(NAME, place / "lake" / "n" / "t", format="iceberg")
        found = Written(spark, f"{iceberg(place / 'lake')}.n.t").rows()
        tally.case(PROGRAM, "export", same_rows(found, history.last, PROGRAM))


@given(history=histories(READS))
@tried
def test_checkout(history: History, spark: "SparkSession", iceberg: Catalog, tally: Tally) -> None:
    with folder() as place:
        repo = made(place, History(history.first, history.steps[:1]))
        table = Written(spark, f"{iceberg(repo.workspace.check_out().root)}.{NAME}")
        for step, before in zip(history.steps[1:], history.states[1:], strict=False):
            ours.apply(repo, step, before)
            count = same_rows(table.rows(), step.applied(before), PROGRAM)
            tally.case(PROGRAM, "checkout", count)


@given(history=histories(COMMITS))
@tried
def test_commit(history: History, spark: "SparkSession", iceberg: Catalog, tally: Tally) -> None:
    with folder() as place:
        repo = made(place, History(history.first, history.steps[:1]))
        table = Written(spark, f"{iceberg(repo.workspace.check_out().root)}.{NAME}")
        for step, before in zip(history.steps[1:], history.states[1:], strict=False):
            table.apply(step, before)
            repo.workspace.commit(allow_empty=True)
            tally.case(PROGRAM, "commit", agrees(repo, step.applied(before), "commit"))
