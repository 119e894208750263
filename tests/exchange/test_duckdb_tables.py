"""What DuckDB reads is what our own scan reads, whatever happened to a table before."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.testing.memory import MemoryDatasets, run_all
from tests.datasets.thresholds import tiny_thresholds
from tests.spark.versions import Past
from tests.support.examples import examples

pytest.importorskip("duckdb")

import duckdb

from havasu_vc.exchange.duckdb import Database, duck_table, relation, told_apart

EXAMPLES = examples(
    25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


def by_duckdb(view: HavasuDataset, condition: str = "true") -> pa.Table:
    with Database() as database:
        database.add("t", duck_table(view, "t"))
        database.close_off()
        answer = database.ask(f"SELECT * FROM t WHERE {condition}")
        assert answer is not None
        return pa.Table.from_batches(database.rows(answer), answer.schema)


def by_scan(view: HavasuDataset) -> pa.Table:
    return pa.Table.from_batches(run_all(view.scan()), arrow_schema(view.schema))


def plain(value: Any) -> Any:
    """Return a value in a form that both have: UUIDs as bytes, maps as lists of pairs."""
    match value:
        case UUID():
            return value.bytes
        case str() if len(value) == 36 and value.count("-") == 4:
            return UUID(value).bytes
        case dict():
            return {name: plain(item) for name, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case _:
            return value


def rows(table: pa.Table) -> list[str]:
    columns = [column.to_pylist() for column in table.columns]
    return sorted(repr([plain(value) for value in row]) for row in zip(*columns, strict=True))


@EXAMPLES
@given(data=st.data())
def test_a_query_is_the_scan(tmp_path: Path, data: st.DataObject) -> None:
    with tiny_thresholds():
        past = Past(MemoryDatasets(tmp_path), data)
        for _ in range(4):
            past.step()
    for version in past.versions[-2:]:
        view = version.dataset
        found, wanted = by_duckdb(view), by_scan(view)

        assert found.column_names == told_apart(view.schema.names)
        assert found.num_rows == len(version.rows)
        assert rows(found) == rows(wanted)
        # Where DuckDB makes geometries of bytes, it forgets how these were ordered.
        with duckdb.connect() as connection:
            connection.execute("LOAD parquet; SET enable_geoparquet_conversion = false")
            connection.execute("SET TimeZone = 'UTC'")
            own = relation(view, connection).to_arrow_table()
        assert own.column_names == found.column_names
        assert rows(own) == rows(wanted)
