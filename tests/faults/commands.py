"""Our command line in this process, with what a command needs loaded beforehand."""

import gc
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import import_module

import pyarrow as pa

from havasu_vc.cli.main import cli, run

__all__ = ["call", "load", "loaded_by"]


def call(*arguments: str) -> int:
    """Run a command line and return its exit code."""
    return run(cli, arguments)


def loaded_by(work: Callable[[], object]) -> list[str]:
    """Do something, and return what was imported for it."""
    known = set(sys.modules)
    work()
    return [name for name in sys.modules if name not in known]


def load(names: Iterable[str]) -> None:
    """Import what forked processes will need, so that they need not."""
    for name in names:
        with suppress(ImportError):
            import_module(name)
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    # Looking for garbage would copy every page that a forked process shares with this one.
    gc.freeze()
    gc.disable()
