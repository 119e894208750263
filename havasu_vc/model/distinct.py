"""Numbers without repeats, in order.

`numpy.unique` imports `numpy.ma` the first time that it is called, which takes longer
than a small diff does.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["distinct"]

_T = TypeVar("_T", bound=np.integer)


def distinct(numbers: npt.NDArray[_T]) -> npt.NDArray[_T]:
    """Return the numbers that there are, ascending, each once.

    >>> distinct(np.array([3, 1, 3, 2])).tolist()
    [1, 2, 3]
    """
    ordered = np.sort(numbers)
    if len(ordered) < 2:
        return ordered
    first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]
