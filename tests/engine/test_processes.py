"""The local engine with processes: the contract, whatever a task does to the one that runs it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from havasu_vc.engine import local, processes
from havasu_vc.engine.local import LocalEngine
from havasu_vc.engine.processes import Workers
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import EngineError
from havasu_vc.model.task import is_busy, keeps_python_busy, task_of
from havasu_vc.testing import kernels
from havasu_vc.testing.engine_contract import EngineContract, RecordedProgress


@pytest.fixture(autouse=True)
def all_are_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (local, processes):
        monkeypatch.setattr(module, "is_busy", lambda _: True)


@pytest.mark.slow
class TestProcesses(EngineContract):
    @pytest.fixture
    def engine(self, progress: RecordedProgress) -> Iterator[Engine]:
        with LocalEngine(threads=2, progress=progress, processes=True) as engine:
            yield engine


@pytest.mark.thorough
def test_processes_are_used_again_and_end_with_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    start = Workers._started

    def counted(workers: Workers) -> object:
        worker = start(workers)
        started.append(worker.pid)
        return worker

    monkeypatch.setattr(Workers, "_started", counted)
    with LocalEngine(threads=2, scratch=tmp_path, processes=True) as engine:
        for _ in range(2):
            tasks = [task_of(kernels.numbers, index, 5) for index in range(6)]
            found = [batch.column(0)[0].as_py() for batch in engine.run(tasks)]
            assert found == list(range(6))
        assert 1 <= len(started) <= 2
        assert list(tmp_path.rglob("*.arrows")) == []
    for pid in started:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.thorough
def test_a_process_that_dies_is_an_error(tmp_path: Path) -> None:
    tasks = [task_of(kernels.crash_once, str(tmp_path / "mark"), 1)] * 2
    with (
        LocalEngine(threads=2, processes=True) as engine,
        pytest.raises(EngineError, match=r"a process that ran task \d ended"),
    ):
        list(engine.run(tasks))


def test_a_task_is_busy_when_one_within_it_is() -> None:
    plain = task_of(kernels.numbers, 1, 1)
    busy = task_of(keeps_python_busy(kernels.nothing))
    assert is_busy(busy) and not is_busy(plain)
    assert is_busy(task_of(kernels.numbers, [plain, [busy]], 1))  # type: ignore[arg-type]
    assert not is_busy(task_of(kernels.numbers, [plain, "x", (1,)], 1))  # type: ignore[arg-type]
