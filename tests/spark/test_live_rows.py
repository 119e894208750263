"""Whatever rows are deleted, the table says so of them alone, and Spark reads the others."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.datasets.havasu import edit
from havasu_vc.datasets.havasu.live import LiveFile, live_files
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.engine.session import setting
from havasu_vc.spark import live_rows
from havasu_vc.spark.reading import read_view
from havasu_vc.testing.dataset_contract import changes_between, stream_of
from havasu_vc.testing.memory import MemoryDatasets, run_all
from havasu_vc.testing.tables import Row
from tests.datasets.thresholds import tiny_thresholds
from tests.spark.test_reading import BEFORE
from tests.support.examples import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

positions = st.lists(st.integers(0, 499), unique=True).map(sorted)


@given(st.lists(positions, min_size=1, max_size=5), st.integers(0, 12))
def test_a_row_is_found_where_it_is_deleted(
    tmp_path_factory: pytest.TempPathFactory, gone: list[list[int]], shift: int
) -> None:
    folder = tmp_path_factory.mktemp("bits")
    files = [live_file(folder, number, each) for number, each in enumerate(gone)]
    with pytest.MonkeyPatch.context() as patch:
        # A delete file that names rows that are not there must not take rows of other files.
        there = {str(number): np.array([-1, *each, 500, 9999]) for number, each in enumerate(gone)}
        patch.setattr(live_rows, "deleted_positions", lambda file, _: there[file])
        table = live_rows._table(files, shift)

    for file, first in zip(files, table.firsts, strict=True):
        found = [row for row in range(500) if is_gone(table, first, row)]
        assert found == gone[int(file.entry.file)]
    few = len(files) * 1024 >> shift
    assert len(table.words) <= few // 64 + 1


def is_gone(table: live_rows._Table, first: int, row: int) -> bool:
    """Look a row up as the plan does."""
    bit = first | row >> table.shift
    if not int(table.words[bit >> 6]) >> (bit & 63) & 1:
        return False
    return not table.shift or (first << table.shift | row) in table.places.tolist()


def live_file(folder: Path, number: int, gone: list[int]) -> LiveFile:
    """Return a file of 500 rows."""
    view = MemoryDatasets(folder).new(BEFORE, [{1: 1, 2: "x"}])
    (entry,) = view.data_entries
    entry = replace(entry, file=str(number), rows=500, size=1000 + number)
    return LiveFile(entry, str(folder / str(number)), ("some",) if gone else (), len(gone))


def test_files_go_along_where_folders_and_sizes_tell_them_apart(tmp_path: Path) -> None:
    plain = live_file(tmp_path, 1, [])

    def file(folder: str, size: int, gone: bool) -> LiveFile:
        entry = replace(plain.entry, size=size)
        return LiveFile(entry, f"/{folder}/f", ("d",) if gone else (), int(gone))

    def groups(*files: LiveFile) -> list[list[int]]:
        return live_rows.apart(files, range(len(files)))

    assert groups(file("a", 1, False), file("a", 1, False)) == [[0, 1]]
    assert groups(file("a", 1, False), file("b", 2, True), file("c", 3, True)) == [[1, 2, 0]]
    assert groups(file("a", 1, False), file("b", 1, True)) == [[1], [0]]
    assert groups(file("a", 1, True), file("a", 2, True), file("a", 3, False)) == [[0], [1], [2]]
    many = [file("a", size, True) for size in range(9)]
    assert groups(*many) == [list(range(9))]


ROWS, GROUP, APART = 3000, 500, 5000
borders = st.sampled_from([0, 1, 499, 500, 501, 999, 1000, 2499, 2500, 2998, 2999])
whole_groups = st.sets(st.integers(0, 5), max_size=3).map(
    lambda groups: {number * GROUP + row for number in groups for row in range(GROUP)}
)
gone_of_a_file = st.one_of(
    st.sampled_from([range(0), range(1, ROWS), range(ROWS)]),
    st.sets(st.integers(0, ROWS - 1), max_size=30),
    st.sets(borders),
    whole_groups,
).map(sorted)
WAYS = {"bits": (9999, 9999), "places": (0, 99_999), "join": (0, 0), "no code": (9999, 9999)}


@examples(5)
@given(gone=st.lists(gone_of_a_file, min_size=1, max_size=3))
def test_spark_reads_what_our_own_scan_reads(spark: "SparkSession", gone: list[list[int]]) -> None:
    with tempfile.TemporaryDirectory() as made:
        view = files_with_deletes(Path(made), gone)
        kept = sorted(i for batch in run_all(view.scan()) for i in batch.column("id").to_pylist())
        assert len(kept) == sum(ROWS - len(each) for each in gone)
        inside = [i for i in kept if 490 <= i % APART < 510]
        for way in WAYS:
            with way_of(spark, way):
                frame = read_view(spark, view)
                few = frame.where(f"id % {APART} BETWEEN 490 AND 509").select("id").collect()

                assert sorted(frame.select("id").toArrow()["id"].to_pylist()) == kept
                assert sorted(row.id for row in few) == inside
                plan = str(frame._jdf.queryExecution().executedPlan())
            if any(file.deletes for file in live_files(view)):
                assert ("binarySearch" in plan, "Join" in plan) == (way == "places", way == "join")
                assert ("BitSet" in plan) == (way != "join")


@contextmanager
def way_of(spark: "SparkSession", way: str) -> Iterator[None]:
    """Have deleted rows left out in one of the ways there are."""
    bits, table = WAYS[way]
    names = "spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode"
    values = ("false", "NO_CODEGEN") if way == "no code" else ("true", "FALLBACK")
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setattr(live_rows, "_MOST_BITS", bits)
        patch.setattr(live_rows, "_MOST_TABLE", table)
        for name, value in zip(names, values, strict=True):
            stack.enter_context(setting(spark, name, value))
        yield


def files_with_deletes(folder: Path, gone: list[list[int]]) -> HavasuDataset:
    """Return a dataset of files of 3,000 rows each, from which some rows were deleted."""
    datasets = MemoryDatasets(folder)
    rows: list[list[Row]] = [
        [{1: number * APART + row, 2: "x"} for row in range(ROWS)] for number in range(len(gone))
    ]
    out: list[Row] = [rows[number][row] for number, each in enumerate(gone) for row in each]
    with tiny_thresholds(group_rows=GROUP, most_deltas=99), pytest.MonkeyPatch.context() as patch:
        # However many rows a file loses, it is not written anew.
        patch.setattr(edit, "MOSTLY_DELETED", 2.0)
        view = datasets.new(BEFORE, rows[0])
        for more in rows[1:]:
            view = datasets.apply(view, stream_of(changes_between([], more, BEFORE), BEFORE))
        return datasets.apply(view, stream_of(changes_between(out, [], BEFORE), BEFORE))
