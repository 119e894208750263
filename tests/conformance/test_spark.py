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
from tests.conformance.spark_sql import Written
from tests.conformance.tables import History, Partition
from tests.conformance.tally import Tally
from tests.support.templates import LOCAL, empty_repo

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAM = "Spark with Iceberg"
# Spark has neither times of day nor UUIDs nor bytes of one length.
HELD = KINDS - {"time", "uuid", "fixed"}
FORMS = [
    {"format.default": "parquet"},
    {"format.default": "orc"},
    {"format.default": "avro"},
    {"format.default": "avro", "avro.compression-codec": "snappy"},
    {"format.default": "avro", "avro.compression-codec": "zstd"},
]
TRANSFORMS = ("identity", "year", "month", "day", "hour", "bucket", "truncate")
WRITES = Abilities(kinds=HELD, steps=(*ours.STEPS, Partition), transforms=TRANSFORMS)
COMMITS = Abilities(kinds=HELD, steps=ours.STEPS)
READS = Abilities(kinds=HELD, steps=ours.STEPS, geometries=True)

pytestmark = pytest.mark.spark
tried = settings(max_examples=12, suppress_health_check=list(HealthCheck))

Catalog = Callable[[Path | str], str]


@given(
    history=histories(WRITES),
    version=st.sampled_from([1, 2, 3]),
    way=st.sampled_from(["copy-on-write", "merge-on-read"]),
    form=st.sampled_from(FORMS),
    deletes=st.sampled_from(FORMS),
)
@tried
def test_import(
    history: History,
    version: int,
    way: str,
    form: dict[str, str],
    deletes: dict[str, str],
    spark: "SparkSession",
    iceberg: Catalog,
    tally: Tally,
) -> None:
    with folder() as place:
        written = Written(spark, f"{iceberg(place / 'lake')}.n.t")
        modes = {f"write.{each}.mode": way for each in ("delete", "update", "merge")}
        properties = {"format-version": str(version)} | ({} if version == 1 else modes)
        properties |= {f"write.{name}": value for name, value in form.items()}
        properties |= {f"write.delete.{name}": value for name, value in deletes.items()}
        written.make(history.first, "iceberg", properties)
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
