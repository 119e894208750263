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


def arrow_array(values: npt.NDArray[Any]) -> pa.Array:
    """Return numbers or truth values as an array without nulls.

    >>> arrow_array(np.array([2, 1])).to_pylist()
    [2, 1]
    """
    if values.dtype == np.bool_:
        bits = np.packbits(values, bitorder="little")
        return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(bits)])
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, data])
