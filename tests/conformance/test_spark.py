"""Spark with Iceberg's runtime: it writes tables and checkouts, and reads ours, by value."""

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.conformance import ours
from tests.conformance.comparing import same_rows
from tests.conformance.drawing import KINDS, Abilities, histories
from tests.conformance.ours import BY_KEY, NAME, agrees, folder, made
from tests.conformance.spark_sql import Written
from tests.conformance.tables import History, Partition, State
from tests.conformance.tally import Tally
from tests.support.templates import LOCAL, empty_repo

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAM = "Spark with Iceberg"
# Spark has neither times of day nor UUIDs nor bytes of one length.
HELD = KINDS - {"time", "uuid", "fixed"}
AVRO = [{}, {"avro.compression-codec": "snappy"}, {"avro.compression-codec": "zstd"}]
FORMS = st.one_of(
    st.just({"format.default": "orc"}),
    st.just({"format.default": "parquet"}),
    st.sampled_from(AVRO).map(lambda codec: {"format.default": "avro", **codec}),
)
# ORC's writer takes a buffer of so many bytes for each stream of each column, nested ones too.
SMALL = {"orc.compress.size": "8192", "write.orc.stripe-size-bytes": str(1 << 20)}
TRANSFORMS = ("identity", "year", "month", "day", "hour", "bucket", "truncate")
WRITES = Abilities(kinds=HELD, steps=(*ours.STEPS, Partition), transforms=TRANSFORMS)
# Arrow reads no other moments in files of ORC.
WITHIN = replace(WRITES, first_day=dt.date(1678, 1, 1), last_day=dt.date(2261, 12, 31))
COMMITS = Abilities(kinds=HELD, steps=ours.STEPS)
READS = Abilities(kinds=HELD, steps=ours.STEPS, geometries=True)

pytestmark = pytest.mark.spark
tried = settings(max_examples=12, suppress_health_check=list(HealthCheck))

Catalog = Callable[[Path | str], str]


@pytest.mark.parametrize("form", ["orc", "avro", "parquet"])
@given(
    data=st.data(),
    version=st.sampled_from([1, 2, 3]),
    way=st.sampled_from(["copy-on-write", "merge-on-read"]),
    codec=st.sampled_from(AVRO),
    deletes=FORMS,
)
@settings(tried, max_examples=3, phases=[Phase.explicit, Phase.generate])
def test_import(
    form: str,
    data: st.DataObject,
    version: int,
    way: str,
    codec: dict[str, str],
    deletes: dict[str, str],
    spark: "SparkSession",
    iceberg: Catalog,
    tally: Tally,
) -> None:
    # Files of each form have rows, in every round.
    drawn = histories(WITHIN if form == "orc" else WRITES)
    history = data.draw(drawn.filter(lambda history: bool(history.last.rows)))
    with folder() as place:
        written = Written(spark, f"{iceberg(place / 'lake')}.n.t")
        modes = {f"write.{each}.mode": way for each in ("delete", "update", "merge")}
        properties = {"format-version": str(version)} | ({} if version == 1 else modes)
        properties |= {"write.format.default": form, **SMALL}
        properties |= {f"write.{name}": value for name, value in codec.items()}
        properties |= {f"write.delete.{name}": value for name, value in deletes.items()}
        written.make(history.first, "iceberg", properties)
        for step, before in zip(history.steps, history.states, strict=False):
            written.apply(step, before)
        repo = empty_repo(place / "repo", settings=LOCAL)
        repo.import_(f"iceberg:{place / 'lake' / 'n' / 't'}", NAME, options=BY_KEY)
        count = agrees(repo, history.last, "import")
        tally.case(PROGRAM, f"import, files of {form}", count)


@given(history=histories(READS))
@tried
def test_export(history: History, spark: "SparkSession", iceberg: Catalog, tally: Tally) -> None:
    with folder() as place:
        repo = made(place, history)
        repo.export(NAME, place / "lake" / "n" / "t", format="iceberg")
        written = Written(spark, f"{iceberg(place / 'lake')}.n.t")
        tally.case(PROGRAM, "export", same_rows(written.rows(), history.last, PROGRAM))
        tally.case(PROGRAM, "statistics of an export", check_statistics(written, history.last))


def check_statistics(written: Written, state: State) -> int:
    """Check what Spark reads of the statistics of files against rows; return how many bounds."""
    files = f"SELECT record_count, readable_metrics FROM {written.name}.files WHERE content = 0"
    said = written.spark.sql(files).toArrow().to_pylist()
    held = sum(each["record_count"] for each in said)
    assert held >= len(state.rows)
    if held > len(state.rows):
        return 0  # beside deletes, files tell of rows that are gone as well
    checked = 0
    for column in state.columns:
        metrics = [each["readable_metrics"].get(column.name) for each in said]
        told = [each for each in metrics if each is not None and each["value_count"] is not None]
        if column.geo is not None or pa.types.is_nested(column.type) or len(told) < len(said):
            continue
        values = [row[column.name] for row in state.rows.values()]
        present = [value for value in values if value is not None]
        assert sum(each["value_count"] for each in told) == len(values)
        assert sum(each["null_value_count"] for each in told) == len(values) - len(present)
        bounds = [(each["lower_bound"], each["upper_bound"]) for each in told]
        numbers = [value for value in present if value == value]  # not NaN
        lower = [low for low, _ in bounds if low is not None]
        upper = [high for _, high in bounds if high is not None]
        checked += len(lower) + len(upper)
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            # Long ones are cut, so that all values are still between.
            assert not lower or min(lower) <= min(numbers)
            assert len(upper) < len(said) or not numbers or max(upper) >= max(numbers)
        elif lower or upper:
            assert (min(lower), max(upper)) == (min(numbers), max(numbers)), column
    return checked


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
