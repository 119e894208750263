"""Giving free memory back to the system, where large and small things came and went.

glibc keeps what is free between things that stay. Work that makes large arrays for a
moment, over and over beside what it collects, would hold far more than it uses.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

__all__ = ["release_free_memory"]


def release_free_memory() -> None:
    """Give back what is free; takes about a millisecond. Other C libraries need no asking."""
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Any:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None
