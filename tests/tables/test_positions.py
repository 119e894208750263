"""Position delete files: what is written is read, and what others write too."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import CorruptionError
from havasu_vc.formats.iceberg.values import DataFileContent
from havasu_vc.tables.positions import (
    FILE_PATH_ID,
    positions_of,
    read_position_deletes,
    write_position_deletes,
)
from tests.support.examples import examples

deletes = st.dictionaries(
    st.sampled_from([f"/t/data/{name}" for name in ("a", "b", "é", "a b", "z" * 40)]),
    st.sets(st.integers(0, 1 << 40), min_size=1, max_size=20),
    min_size=1,
)


@given(deletes)
@examples(30)
@pytest.mark.rule("ICE-77", "ICE-78")
def test_what_is_written_is_read(wanted: dict[str, set[int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        written = write_position_deletes(
            Path(folder), {path: np.array(sorted(rows)) for path, rows in wanted.items()}
        )

        found = read_position_deletes(written.path)
        one = positions_of(written.path, min(wanted))

    assert {path: set(rows.tolist()) for path, rows in found.items()} == wanted
    assert all(rows.tolist() == sorted(rows.tolist()) for rows in found.values())
    assert one is not None
    assert one.tolist() == sorted(wanted[min(wanted)])
    assert written.content is DataFileContent.POSITION_DELETES
    assert written.record_count == sum(map(len, wanted.values()))
    assert (written.referenced_data_file is None) == (len(wanted) > 1)
    lower, upper = (written.lower_bounds or {}), (written.upper_bounds or {})
    assert lower[FILE_PATH_ID].decode() == min(wanted)
    assert upper[FILE_PATH_ID].decode() == max(wanted)


def test_equal_deletes_are_one_file_named_by_its_hash(tmp_path: Path) -> None:
    rows = np.array([5, 1, 5], np.int64)

    first = write_position_deletes(tmp_path, {"/a": rows})
    second = write_position_deletes(tmp_path, {"/a": np.array([1, 5])})

    assert first.path == second.path
    assert [each.name for each in tmp_path.iterdir()] == [Path(first.path).name]
    assert first.record_count == 2


def test_no_deletes_make_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="without deletes"):
        write_position_deletes(tmp_path, {"/a": np.empty(0, np.int64)})
    assert list(tmp_path.iterdir()) == []


def test_one_of_many_in_many_row_groups(tmp_path: Path) -> None:
    paths = [f"/t/{number:04}" for number in range(50) for _ in range(100)]
    path = tmp_path / "d.parquet"
    pq.write_table(
        pa.table({"file_path": paths, "pos": list(range(100)) * 50}), path, row_group_size=300
    )

    assert list(read_position_deletes(path, ("/t/0007", "/none"))) == ["/t/0007"]
    assert read_position_deletes(path, ("/t/0007",))["/t/0007"].tolist() == list(range(100))
    assert len(read_position_deletes(path)) == 50


def test_columns_are_found_by_id_before_name(tmp_path: Path) -> None:
    path = tmp_path / "d.parquet"
    schema = pa.schema(
        [
            pa.field("pos", pa.string(), metadata={b"PARQUET:field_id": b"2147483546"}),
            pa.field("file_path", pa.int64(), metadata={b"PARQUET:field_id": b"2147483545"}),
        ]
    )
    pq.write_table(pa.table([pa.array(["/a"]), pa.array([3])], schema=schema), path)

    assert {k: v.tolist() for k, v in read_position_deletes(path).items()} == {"/a": [3]}


@pytest.mark.rule("ICE-79")
def test_rows_of_the_deletes_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "d.parquet"
    pq.write_table(
        pa.table(
            {"file_path": ["/b", "/a", "/b"], "pos": [2, 1, 0], "row": [{"x": 1, "y": 2}] * 3}
        ),
        path,
    )

    found = read_position_deletes(path, ("/b",))

    assert {k: v.tolist() for k, v in found.items()} == {"/b": [0, 2]}


@pytest.mark.parametrize(
    "columns",
    [
        {"file_path": ["/a"]},
        {"file_path": ["/a"], "pos": ["x"]},
        {"file_path": ["/a"], "pos": pa.array([None], pa.int64())},
        {"file_path": pa.array([None], pa.string()), "pos": [1]},
    ],
)
def test_what_is_no_delete_file(tmp_path: Path, columns: dict[str, object]) -> None:
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table(columns), path)

    with pytest.raises(CorruptionError, match=r"d\.parquet"):
        read_position_deletes(path)


def test_a_delete_file_that_is_cut_short_or_gone(tmp_path: Path) -> None:
    written = Path(write_position_deletes(tmp_path, {"/a": np.array([1])}).path)
    written.write_bytes(written.read_bytes()[:-9])

    with pytest.raises(CorruptionError) as damaged:
        positions_of(str(written), "/a")
    with pytest.raises(CorruptionError, match="is missing"):
        positions_of(str(tmp_path / "none.parquet"), "/a")
    assert damaged.value.hints
