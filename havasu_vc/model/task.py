"""Tasks: pieces of work as plain values that any engine can run, on any machine.

A *kernel* is a generator function that yields record batches, marked with `@kernel`
beside the thing that it reads or writes. Its name is `module:function`, which is
enough for a process that has just started to find it. Only marked functions of
modules below `havasu_vc` are ever found, so a task can name no other code.

Kernels are idempotent, because an engine may run one twice, and safe to run in
several threads at once.
"""

import importlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ParamSpec, Protocol, TypeAlias

import pyarrow as pa

from havasu_vc.records import dataclass

__all__ = [
    "Kernel",
    "RunsEach",
    "Task",
    "is_busy",
    "keeps_python_busy",
    "kernel",
    "kernel_named",
    "run_task",
    "task_of",
]

Kernel: TypeAlias = Callable[..., Iterator[pa.RecordBatch]]
"""The function of a task: called with its arguments, yields batches."""

Parameters = ParamSpec("Parameters")
Marked: TypeAlias = Callable[Parameters, Iterator[pa.RecordBatch]]

_NAME = re.compile(r"havasu_vc(?:\.[a-z][a-z0-9_]*)+:[a-z][a-z0-9_]*")
_KERNELS: dict[str, Kernel] = {}
_BUSY: set[str] = set()


@dataclass(frozen=True, slots=True)
class Task:
    """A kernel and what to call it with.

    >>> Task("havasu_vc.engine.spill:read", (("a.arrows", 0, 64),)).kernel
    'havasu_vc.engine.spill:read'
    """

    kernel: str
    """The kernel's name, `module:function`."""
    arguments: tuple[object, ...] = ()
    """Plain values that pickle; other tasks too."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.kernel):
            raise ValueError(f"{self.kernel!r} is not the name of a kernel")
        if not isinstance(self.arguments, tuple):
            raise TypeError(f"the arguments of {self.kernel} are not a tuple")


def kernel(function: Marked[Parameters]) -> Marked[Parameters]:
    """Mark a generator function as one that tasks may name."""
    name = _name_of(function)
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot be found by its name: not a public function here")
    _KERNELS[name] = function
    return function


def keeps_python_busy(function: Marked[Parameters]) -> Marked[Parameters]:
    """Mark a kernel that works row by row, so that threads cannot run it side by side."""
    _BUSY.add(_name_of(function))
    return function


def is_busy(task: Task) -> bool:
    """Whether a task runs a kernel that keeps Python busy, itself or within another."""
    return task.kernel in _BUSY or any(map(_holds_busy, task.arguments))


def _holds_busy(argument: object) -> bool:
    if isinstance(argument, Task):
        return is_busy(argument)
    return isinstance(argument, tuple | list) and any(map(_holds_busy, argument))


def task_of(
    function: Marked[Parameters], *arguments: Parameters.args, **named: Parameters.kwargs
) -> Task:
    """Return the task that calls a kernel with these arguments, all given by position."""
    if named:
        raise TypeError("the arguments of a task are given by position")
    name = _name_of(function)
    if _KERNELS.get(name) is not function:
        raise ValueError(f"{name!r} is not marked as a kernel")
    return Task(name, arguments)


def kernel_named(name: str) -> Kernel:
    """Return the kernel of that name, importing its module if need be."""
    found = _KERNELS.get(name)
    if found is not None:
        return found
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of a kernel")
    module = name.partition(":")[0]
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # the module is there and lacks something itself
        raise ValueError(f"there is no kernel {name!r}") from error
    if name not in _KERNELS:
        raise ValueError(f"there is no kernel {name!r}")
    return _KERNELS[name]


def run_task(task: Task) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a task; closing the generator closes the kernel's."""
    yield from kernel_named(task.kernel)(*task.arguments)


def _name_of(function: Callable[..., Any]) -> str:
    return f"{function.__module__}:{function.__qualname__}"


class RunsEach(Protocol):
    """Runs tasks and says whose batch each is, such as an engine."""

    def run_each(
        self, tasks: Sequence[Task], *, description: str = "", anywhere: bool = False
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the batches of all tasks in order, each with the index of its task.

        Those that need no file of this machine may run `anywhere`.
        """

    def run_dealt(
        self,
        dealing: Sequence[Task],
        owners: Sequence[Task],
        *,
        description: str = "",
        anywhere: bool = True,
    ) -> Iterator[pa.RecordBatch]:
        """Run tasks that deal rows out, then their owners, and yield what these yield.

        What needs files of this machine is not for `anywhere`.
        """
