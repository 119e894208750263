"""Spill files: what is written comes back, complete or not at all."""

import errno
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from havasu_vc.engine import spill
from havasu_vc.engine.spill import SpillFile, read, read_segment
from havasu_vc.errors import StorageError
from havasu_vc.model.task import run_task, task_of
from havasu_vc.testing import kernels


def test_batches_come_back_by_segment(tmp_path: Path) -> None:
    first = list(run_task(task_of(kernels.dictionaries, ("a", "b"))))
    second = list(run_task(task_of(kernels.rows, 1, 50)))
    with SpillFile(tmp_path) as file:
        for batch in first:
            file.write(batch)
        one = file.cut()
        for batch in second:
            file.write(batch.slice(7, 20))
        two = file.cut()
        assert file.cut() == ()
        path = file.finish()
    assert path is not None
    assert list(read([(path, *extent) for extent in one])) == first
    assert list(read([(path, *extent) for extent in two])) == [b.slice(7, 20) for b in second]
    assert list(read([(path, *extent) for extent in (*two, *one)])) == [
        second[0].slice(7, 20),
        *first,
    ]
    assert file.size == Path(path).stat().st_size


def test_a_change_of_schema_begins_a_segment(tmp_path: Path) -> None:
    batches = [
        pa.record_batch({"a": [1]}),
        pa.record_batch({"b": ["x"]}),
        pa.record_batch({"b": ["y"]}),
    ]
    with SpillFile(tmp_path) as file:
        for batch in batches:
            file.write(batch)
        extents = file.cut()
        path = file.finish()
    assert path is not None
    assert len(extents) == 2
    assert list(read([(path, *extent) for extent in extents])) == batches


def test_long_output_is_cut_into_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "SEGMENT_BYTES", 10_000)
    batches = [pa.record_batch({"n": np.arange(1000) + index}) for index in range(10)]
    with SpillFile(tmp_path) as file:
        for batch in batches:
            file.write(batch)
        extents = file.cut()
        path = file.finish()
    assert path is not None
    assert len(extents) == 5
    assert all(offset % 64 == 0 for offset, _ in extents)
    assert [b for extent in extents for b in read_segment(path, *extent)] == batches


def test_batches_outlive_their_file(tmp_path: Path) -> None:
    with SpillFile(tmp_path) as file:
        file.write(pa.record_batch({"n": np.arange(100_000)}))
        (extent,) = file.cut()
        path = file.finish()
    assert path is not None
    (batch,) = read_segment(path, *extent)
    Path(path).unlink()
    assert batch.column(0).to_numpy().sum() == 99_999 * 100_000 // 2


def test_nothing_written_is_no_file(tmp_path: Path) -> None:
    with SpillFile(tmp_path) as file:
        assert file.cut() == ()
        assert file.finish() is None
    assert list(tmp_path.iterdir()) == []


def test_an_unfinished_file_is_removed(tmp_path: Path) -> None:
    with pytest.raises(KeyError), SpillFile(tmp_path) as file:
        file.write(pa.record_batch({"n": [1]}))
        assert [path.suffix for path in tmp_path.iterdir()] == [".unfinished"]
        raise KeyError
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("keep", [0, 100, 5000])
def test_a_truncated_file_is_an_error(tmp_path: Path, keep: int) -> None:
    with SpillFile(tmp_path) as file:
        file.write(pa.record_batch({"n": np.arange(1000)}))
        (extent,) = file.cut()
        path = file.finish()
    assert path is not None
    Path(path).write_bytes(Path(path).read_bytes()[:keep])
    with pytest.raises(StorageError, match="cannot read temporary file"):
        list(read_segment(path, *extent))


def test_a_full_disk_is_an_error_and_stays_one() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("there is no device that is always full")
    file = SpillFile(Path("/dev"))
    file._unfinished = full
    for _ in range(2):
        with pytest.raises(StorageError, match="No space left on device") as caught:
            file.write(pa.record_batch({"n": np.arange(1000)}))
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.ENOSPC
    with pytest.raises(StorageError):
        file.cut()
    with pytest.raises(StorageError):
        file.finish()


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with (
        SpillFile(tmp_path / "gone") as file,
        pytest.raises(StorageError, match="not see the folder"),
    ):
        file.write(pa.record_batch({"n": [1]}))
