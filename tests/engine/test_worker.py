"""What an executor does with a chunk, without Spark."""

import pickle
import platform
from pathlib import Path

import pytest

from havasu_vc.engine.spark import chunks_of
from havasu_vc.engine.spill import read_segment
from havasu_vc.engine.worker import Chunk, ChunkOutcome, parse_error, pickled_error, run_chunk
from havasu_vc.errors import EngineError, StorageError
from havasu_vc.model.task import Task, task_of
from havasu_vc.testing import kernels

TASKS = tuple(task_of(kernels.numbers, 10 * index, 3, 2) for index in range(3))
FAILS = task_of(kernels.fail, "PatchError", ("no",), (), 1)


def _numbers(outcome: ChunkOutcome) -> list[tuple[int, int]]:
    return [
        (task.index, number)
        for task in outcome.tasks
        for extent in task.extents
        for batch in read_segment(outcome.path or "", *extent)
        for number in batch.column(0).to_pylist()
    ]


def test_a_chunk_that_runs_twice_leaves_two_equal_files(tmp_path: Path) -> None:
    chunk = Chunk(5, TASKS, str(tmp_path))
    first, second = run_chunk(chunk), run_chunk(chunk)
    assert first.path != second.path
    assert _numbers(first) == _numbers(second)
    assert [task.index for task in first.tasks] == [5, 6, 7]
    assert len(list(tmp_path.iterdir())) == 2


def test_what_goes_back_is_small_and_pickles(tmp_path: Path) -> None:
    outcome = run_chunk(Chunk(0, (task_of(kernels.volume, 1 << 20, 8),), str(tmp_path)))
    data = pickle.dumps(outcome)
    assert len(data) < 1000
    assert pickle.loads(data) == outcome
    assert outcome.size > 8 << 20


def test_an_error_ends_a_chunk_and_keeps_what_came_before(tmp_path: Path) -> None:
    outcome = run_chunk(Chunk(0, (TASKS[0], FAILS, TASKS[1]), str(tmp_path)))
    assert [task.index for task in outcome.tasks] == [0, 1]
    assert [number for _, number in _numbers(outcome)] == [0, 1, 2, 3, 4, 5, 0, 1, 2]
    assert str(pickle.loads(outcome.tasks[1].error or b"")) == "no"


def test_tasks_after_one_that_failed_are_spared(tmp_path: Path) -> None:
    run_chunk(Chunk(7, (FAILS,), str(tmp_path)))
    assert run_chunk(Chunk(8, TASKS, str(tmp_path))).tasks == ()
    before = run_chunk(Chunk(5, TASKS, str(tmp_path)))
    assert [task.index for task in before.tasks] == [5, 6, 7]


def test_a_scratch_folder_that_is_gone_is_an_error_of_its_own(tmp_path: Path) -> None:
    outcome = run_chunk(Chunk(3, TASKS, str(tmp_path / "gone")))
    (task,) = outcome.tasks
    assert (outcome.path, task.index, task.extents) == (None, 3, ())
    assert isinstance(pickle.loads(task.error or b""), StorageError)


def test_the_traceback_of_a_mistake_travels_along(tmp_path: Path) -> None:
    task = task_of(kernels.fail_unexpectedly, "height")
    outcome = run_chunk(Chunk(0, (task,), str(tmp_path)))
    error = pickle.loads(outcome.tasks[0].error or b"")
    assert isinstance(error, EngineError)
    assert "in fail_unexpectedly" in error.__notes__[0]


def test_chunks_are_consecutive_and_about_equal(tmp_path: Path) -> None:
    tasks: list[Task] = [task_of(kernels.numbers, index, 1) for index in range(17)]
    for most in (1, 4, 17, 40):
        chunks = chunks_of(tasks, 100, most, tmp_path)
        assert len(chunks) == min(most, 17)
        assert [task for chunk in chunks for task in chunk.tasks] == tasks
        sizes = [len(chunk.tasks) for chunk in chunks]
        assert max(sizes) - min(sizes) <= 1
        firsts = [100 + sum(sizes[:number]) for number in range(len(sizes))]
        assert [chunk.first for chunk in chunks] == firsts


def test_what_a_machine_cannot_reach_is_told_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    error = StorageError("s3://maps/a cannot be read", hints=("check the network",))
    assert str(parse_error(pickled_error(error))) == "s3://maps/a cannot be read"
    with monkeypatch.context() as patch:
        patch.setattr(platform, "node", lambda: "worker-7")
        pickled, other = pickled_error(error), pickled_error(EngineError("a task failed"))
    found = parse_error(pickled)
    assert type(found) is StorageError and found.hints == error.hints
    assert str(found) == found.message == "the worker on worker-7: s3://maps/a cannot be read"
    assert str(parse_error(other)) == "a task failed"
