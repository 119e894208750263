"""Arrow arrays over the memory of numpy arrays; numbers without repeats, among others, in order.

`pa.array` imports `numpy.ma` the first time that it is given a numpy array, which takes
longer than reading the rows of a small diff does. What small work passes through makes
its arrays here; numbers are shared, not copied.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.model import compute as pc

__all__ = ["among", "arrow_array", "ascending_order", "distinct"]


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


# Numbers without repeats, in order, and which numbers are among others.
#
# `numpy.unique`, and `numpy.isin` which calls it, import `numpy.ma` the first time that
# they are called, which takes longer than reading the rows of a small diff does.

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


def among(numbers: npt.NDArray[_T], ascending: npt.NDArray[_T]) -> npt.NDArray[np.bool_]:
    """Return which numbers are in an ascending array.

    >>> among(np.array([3, 1, 2]), np.array([1, 3])).tolist()
    [True, True, False]
    """
    if not len(ascending):
        return np.zeros(len(numbers), bool)
    places = np.searchsorted(ascending, numbers)
    # What is greater than all is compared with the last, and differs from it.
    np.minimum(places, len(ascending) - 1, out=places)
    found: npt.NDArray[np.bool_] = ascending[places] == numbers
    return found


def ascending_order(keys: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Return the places of rows in the order of all their columns, the first one first.

    Keys are mostly one column of whole numbers, which numpy sorts as well as Arrow does; of
    Arrow's library that takes another megabyte into memory.

    >>> ascending_order(pa.record_batch({"id": [3, 1, 2]})).tolist()
    [1, 2, 0]
    """
    if keys.num_columns == 1 and pa.types.is_integer(keys.column(0).type):
        (column,) = keys.columns
        if not column.null_count:
            return np.argsort(column.to_numpy(), kind="stable")
    # By place, as columns of one name would be mistaken for each other.
    named = pa.RecordBatch.from_arrays(keys.columns, [str(at) for at in range(keys.num_columns)])
    by = [(name, "ascending") for name in named.schema.names]
    found: npt.NDArray[np.int64] = pc.sort_indices(named, sort_keys=by).to_numpy().astype(np.int64)
    return found
