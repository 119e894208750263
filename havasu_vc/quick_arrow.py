"""pyarrow without pandas, which no command needs, nor a task of ours on an executor.

pyarrow imports pandas, where it is installed, the first time that it is given a Python
list. That takes longer than most commands do. It tries once, and again only when
something asks for a DataFrame, so here it tries while pandas cannot be found.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType

import pyarrow as pa

__all__ = ["leave_pandas_out", "without_pandas"]


class _NoPandas:
    """Finds every module but pandas, and `dateutil`, which Arrow asks for with it."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Refuse them, and leave all else to others."""
        if name in ("pandas", "dateutil"):
            raise ModuleNotFoundError(f"{name} is left out", name=name)
        return None


def leave_pandas_out() -> None:
    """Let pyarrow find out that there is no pandas; a module that imports it still gets it."""
    if "pandas" in sys.modules:
        return
    sys.meta_path.insert(0, _NoPandas)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(_NoPandas)


@contextmanager
def without_pandas() -> Iterator[None]:
    """Leave pandas out for a while, in a process where code of others may want it after."""
    if "pandas" in sys.modules:
        yield
        return
    leave_pandas_out()
    try:
        yield
    finally:
        # Else Arrow would take a series that it is given for any list. This forgets that it tried.
        pa.lib._pandas_api.__init__()
