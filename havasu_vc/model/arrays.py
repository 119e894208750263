"""Arrow arrays over the memory of numpy arrays.

`pa.array` imports `numpy.ma` the first time that it is given a numpy array, which takes
longer than reading the rows of a small diff does. What small work passes through makes
its arrays here; numbers are shared, not copied.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["arrow_array"]


def arrow_array(
    values: npt.NDArray[Any], *, absent: npt.NDArray[np.bool_] | None = None
) -> pa.Array:
    """Return numbers or truth values as an array, with nulls where they are absent.

    >>> arrow_array(np.array([2, 1]), absent=np.array([True, False])).to_pylist()
    [None, 1]
    """
    valid = None if absent is None else _bits(~absent)
    if values.dtype == np.bool_:
        return pa.Array.from_buffers(pa.bool_(), len(values), [valid, _bits(values)])
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [valid, data])


def _bits(values: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(values, bitorder="little"))
