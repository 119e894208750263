"""Tasks: plain values that find their kernel by name, and no other code."""

import pickle
import subprocess
import sys

import pytest

from havasu_vc.model.task import Task, kernel, kernel_named, run_task, task_of
from havasu_vc.testing import kernels


def test_a_task_is_a_value() -> None:
    task = task_of(kernels.numbers, 3, 4)
    assert task == Task("havasu_vc.testing.kernels:numbers", (3, 4))
    assert pickle.loads(pickle.dumps(task)) == task
    assert hash(task) == hash(Task("havasu_vc.testing.kernels:numbers", (3, 4)))


def test_a_task_runs_its_kernel() -> None:
    (batch,) = run_task(task_of(kernels.numbers, 3, 4))
    assert batch.column("number").to_pylist() == [3, 4, 5, 6]


@pytest.mark.thorough
def test_a_fresh_process_finds_a_kernel_by_name() -> None:
    task = task_of(kernels.numbers, 3, 2)
    program = (
        "import pickle, sys; task = pickle.loads(bytes.fromhex(sys.argv[1]));"
        "assert 'havasu_vc.testing.kernels' not in sys.modules;"
        "from havasu_vc.model.task import run_task;"
        "print([batch.num_rows for batch in run_task(task)])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, pickle.dumps(task).hex()],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[2]"


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "havasu_vc:kernel",
        "havasu_vc.model.task",
        "havasu_vc.model.task:",
        "havasu_vc.model.task:_name_of",
        "havasu_vc.model.task:Task.kernel",
        "havasu_vc..task:run",
        "havasu_vc.model.__init__:run",
        "havasu_vc_evil.model:run",
        "havasu_vc.model/../x:run",
        "havasu_vc.testing.kernels:numbers\n",
    ],
)
def test_other_names_are_refused_before_any_import(name: str) -> None:
    with pytest.raises(ValueError, match="not the name of a kernel"):
        Task(name)
    with pytest.raises(ValueError, match="not the name of a kernel"):
        kernel_named(name)


@pytest.mark.parametrize(
    "name",
    [
        "havasu_vc.model.task:run_task",  # there, and not marked
        "havasu_vc.model.task:nowhere",
        "havasu_vc.model.nowhere:run",
        "havasu_vc.nowhere.at_all:run",
    ],
)
def test_only_marked_functions_are_found(name: str) -> None:
    with pytest.raises(ValueError, match="there is no kernel"):
        kernel_named(name)


def test_arguments_must_be_a_tuple() -> None:
    with pytest.raises(TypeError, match="not a tuple"):
        Task("havasu_vc.testing.kernels:numbers", [1, 2])  # type: ignore[arg-type]


def test_only_functions_that_can_be_found_again_are_marked() -> None:
    def local() -> kernels.Batches:
        yield from ()

    with pytest.raises(ValueError, match="cannot be found"):
        kernel(local)
    with pytest.raises(ValueError, match="not marked"):
        task_of(local)


def test_closing_a_run_closes_the_kernel() -> None:
    batches = run_task(task_of(kernels.numbers, 0, 1, 5))
    assert next(batches).num_rows == 1
    batches.close()  # type: ignore[attr-defined]
    assert list(batches) == []
