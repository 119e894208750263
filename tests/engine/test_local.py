"""The local engine: the contract, and what only threads can get wrong."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from havasu_vc.engine.local import LocalEngine
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import EngineError, KeyViolationError
from havasu_vc.model.task import keeps_python_busy, task_of
from havasu_vc.testing import kernels
from havasu_vc.testing.engine_contract import EngineContract, RecordedProgress, settles


class TestLocalEngine(EngineContract):
    @pytest.fixture
    def engine(self, progress: RecordedProgress) -> Iterator[Engine]:
        with LocalEngine(threads=3, budget=64 << 20, progress=progress) as engine:
            yield engine


@pytest.mark.thorough
class TestLocalEngineOnOneThread(EngineContract):
    @pytest.fixture
    def engine(self, progress: RecordedProgress) -> Iterator[Engine]:
        with LocalEngine(threads=1, progress=progress) as engine:
            yield engine

    def test_closing_the_iterator_stops_the_work(self, engine: Engine, tmp_path: Path) -> None:
        log = tmp_path / "ticks"
        batches = engine.run([task_of(kernels.tick, str(log), 3000, 0.0)] * 2)
        next(batches)
        batches.close()
        assert log.stat().st_size == 1  # nothing runs ahead


def _waiting_threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("havasu-vc-task")]


def test_an_endless_task_is_streamed() -> None:
    endless = task_of(kernels.numbers, 0, 1000, 10**9)
    with LocalEngine(threads=2, budget=1 << 16) as engine:
        batches = engine.run([endless, endless, endless])
        assert [next(batches).num_rows for _ in range(100)] == [1000] * 100
        batches.close()
    assert _waiting_threads() == []


@pytest.mark.parametrize("budget", [0, 1, 10_000, 1 << 30])
def test_no_budget_is_too_small(budget: int) -> None:
    tasks = [task_of(kernels.numbers, index * 100, 20, 5) for index in range(40)]
    with LocalEngine(threads=4, budget=budget) as engine:
        got = [index for index, _ in engine.run_each(tasks)]
    assert got == [index for index in range(40) for _ in range(5)]
    assert _waiting_threads() == []


@pytest.mark.thorough
def test_work_ahead_keeps_to_the_budget(tmp_path: Path) -> None:
    log = tmp_path / "ticks"
    tasks = [task_of(kernels.numbers, 0, 1, 2)]
    tasks += [task_of(kernels.tick, str(log), 1000, 0.0) for _ in range(2)]
    # A batch costs about 2 KiB: a budget of 40 KiB is some 20 of them.
    with LocalEngine(threads=3, budget=40 << 10) as engine:
        batches = engine.run(tasks)
        next(batches)
        assert settles(log)
        assert 5 <= log.stat().st_size <= 25
        batches.close()


def test_one_task_needs_no_thread() -> None:
    with LocalEngine(threads=4) as engine:
        batches = engine.run([task_of(kernels.numbers, 0, 1, 2)])
        next(batches)
        assert _waiting_threads() == []
        batches.close()


@pytest.mark.parametrize("count", [1, 5])
def test_an_error_keeps_the_traceback_of_its_kernel(count: int) -> None:
    task = task_of(kernels.fail, "KeyViolationError", ("twice",), (), 0)
    with LocalEngine(threads=2) as engine, pytest.raises(KeyViolationError) as caught:
        list(engine.run([task] * count))
    assert any(entry.name == "fail" for entry in caught.traceback)


@pytest.mark.parametrize("count", [1, 5])
def test_an_unexpected_exception_stays_as_the_cause(count: int) -> None:
    task = task_of(kernels.fail_unexpectedly, "height")
    with LocalEngine(threads=2) as engine, pytest.raises(EngineError) as caught:
        list(engine.run([task] * count))
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_an_error_stops_the_tasks_after_it(tmp_path: Path) -> None:
    log = tmp_path / "ticks"
    tasks = [
        task_of(kernels.fail, "PatchError", ("no",), (), 0),
        task_of(kernels.tick, str(log), 3000, 0.01),
        task_of(kernels.tick, str(tmp_path / "never"), 3000, 0.01),
    ]
    started = time.monotonic()
    with LocalEngine(threads=2) as engine, pytest.raises(ValueError, match="no"):
        list(engine.run(tasks))
    assert time.monotonic() - started < 5
    assert _waiting_threads() == []
    assert not (tmp_path / "never").exists()


def test_a_forgotten_iterator_stops_the_work() -> None:
    with LocalEngine(threads=2, budget=1 << 16) as engine:
        next(engine.run([task_of(kernels.numbers, 0, 1000, 10**9)] * 3))
        assert _waiting_threads() == []


def test_parts_go_when_the_engine_is_closed(tmp_path: Path) -> None:
    with LocalEngine(threads=1, scratch=tmp_path) as engine:
        engine.partition([task_of(kernels.rows, 1, 50)], ["id"], 2)
        assert list(tmp_path.rglob("*.arrows"))
    assert list(tmp_path.iterdir()) == []


def test_a_forgotten_engine_leaves_no_files(tmp_path: Path) -> None:
    engine = LocalEngine(threads=1, scratch=tmp_path)
    engine.partition([task_of(kernels.rows, 1, 50)], ["id"], 2)
    del engine
    assert list(tmp_path.iterdir()) == []


def test_threads_are_checked() -> None:
    with pytest.raises(ValueError, match="0 threads"):
        LocalEngine(threads=0)


def test_busy_tasks_run_in_turn_with_one_who_keeps_python_busy_with_their_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("havasu_vc.engine.local._WorkAhead", None)
    busy = task_of(keeps_python_busy(kernels.nothing))
    with LocalEngine(threads=2, processes=True, alone=True) as engine:
        assert list(engine.run([busy, busy])) == []
        with pytest.raises(TypeError):
            list(engine.run([busy, task_of(kernels.numbers, 0, 5, 2)]))
