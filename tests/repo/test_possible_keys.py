"""Columns that can be a key, found by tasks, are those that a plain program finds."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from havasu_vc.engine.local import LocalEngine
from havasu_vc.exchange import csv, parquet
from havasu_vc.transfer import possible_keys as module
from havasu_vc.transfer.possible_keys import possible_keys
from tests.exchange.reading import open_one
from tests.support.examples import examples

NAMES = {"size": pa.int64(), "tree_id": pa.string(), "name": pa.string(), "code": pa.int32()}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Return a table some of whose columns are unique, but for a value here or there."""
    count = draw(st.integers(0, 60))
    columns = []
    for type_ in NAMES.values():
        values: list[Any] = draw(st.permutations(range(count)))
        for _ in range(draw(st.integers(0, 2)) if count else 0):
            values[draw(st.integers(0, count - 1))] = draw(st.sampled_from([None, 3, 4, 777]))
        if pa.types.is_string(type_):
            values = [None if value is None else f"v{value}" for value in values]
        columns.append(pa.array(values, type_))
    return pa.table(columns, list(NAMES))


def plain(table: pa.Table) -> list[str]:
    """Return the columns that can be a key; text is asked of what is called like one alone."""
    found = []
    for name in ("tree_id", "code", "size"):
        values = table.column(name).to_pylist()
        if values and None not in values and len(set(values)) == len(values):
            found.append(name)
    return found


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=tables(), rows=st.integers(1, 30), owner=st.integers(1, 30), flush=st.integers(1, 30))
def test_a_plain_program_finds_the_same(
    table: pa.Table, rows: int, owner: int, flush: int, tmp_path: Path
) -> None:
    path = tmp_path / "trees.parquet"
    pq.write_table(table, path, row_group_size=rows)
    with pytest.MonkeyPatch.context() as patch, LocalEngine(threads=2) as engine:
        patch.setattr(parquet, "TASK_BYTES", 1)
        patch.setattr(module, "OWNER_ROWS", owner)
        patch.setattr(module, "FLUSH_ROWS", flush)
        source = open_one(path)
        assert list(possible_keys(source, engine)) == plain(table)
        # A limit that is not reached changes nothing.
        assert list(possible_keys(source, engine, most=60)) == plain(table)


def test_more_rows_than_are_wanted_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "TASK_BYTES", 1)
    path = tmp_path / "trees.parquet"
    table = pa.table({"id": [*range(100), 99], "n": [*range(99), 7, 7]})
    pq.write_table(table, path, row_group_size=10)
    with LocalEngine(threads=2) as engine:
        source = open_one(path)
        assert len(source.tasks()) > 4
        assert possible_keys(source, engine) == ()
        assert possible_keys(source, engine, most=10) == ("id", "n")


def test_rows_that_nobody_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of which a box is wanted has tasks without rows, also the first."""
    monkeypatch.setattr(csv, "SPAN_BYTES", 200)
    path = tmp_path / "trees.csv"
    lines = [f"{number % 70},{number},{number},0" for number in range(100)]
    path.write_text("\n".join(["tree_id,number,lon,lat", *lines]) + "\n")
    with LocalEngine(threads=2) as engine:
        source = open_one(path, bbox=(60, -1, 90, 1))
        assert source.rows is None
        assert len(source.tasks()) > 4
        assert possible_keys(source, engine) == ("tree_id", "number", "lon")
        assert possible_keys(open_one(path, bbox=(0, -1, 90, 1)), engine) == ("number", "lon")
        assert possible_keys(open_one(path, bbox=(170, -1, 175, 1)), engine) == ()
