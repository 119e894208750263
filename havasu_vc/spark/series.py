"""Functions of Arrow arrays as UDFs over pandas series, for Spark before 4.1.

Spark 4.0 hands Python nothing but pandas: a column is a series, a struct a data
frame. They are turned into Arrow arrays and back, which costs time and nothing else.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql.types import DataType

from havasu_vc.geo.raster_v1 import RASTER_TYPE

__all__ = ["series_udf"]


def series_udf(kernel: Callable[..., Any], returned: DataType, *, aggregate: bool) -> Any:
    """Return a kernel of Arrow arrays as a pandas UDF of Spark's."""
    from pyspark.sql.pandas.functions import PandasUDFType, pandas_udf

    def scalar(*columns: Any) -> Any:
        return _series(kernel(*map(_array, columns)))

    def grouped(column: Any) -> Any:
        return kernel(_array(column))

    scalar.__name__ = grouped.__name__ = kernel.__name__
    made: Any = pandas_udf  # its overloads know no return type that is computed
    with warnings.catch_warnings():
        # Spark would rather have type hints, for which pandas would have to be loaded here.
        warnings.simplefilter("ignore", UserWarning)
        if aggregate:
            return made(grouped, returned, PandasUDFType.GROUPED_AGG)
        return made(scalar, returned, PandasUDFType.SCALAR)


def _array(column: Any) -> pa.Array:
    if column.ndim == 1:
        return pa.Array.from_pandas(column)
    # The only structs are rasters; one that is null has nothing inside.
    rows = column.to_dict("records")
    there = column["width"].notna() if "width" in column else [True] * len(rows)
    values = [_plain(row) if known else None for row, known in zip(rows, there, strict=True)]
    return pa.array(values, RASTER_TYPE)


def _plain(value: Any) -> Any:
    """Return rows of Spark's and what is inside them as dicts and lists."""
    if hasattr(value, "asDict"):
        return value.asDict(recursive=True)
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, float) and value != value:
        return None
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _series(array: pa.Array) -> Any:
    if not pa.types.is_struct(array.type):
        return array.to_pandas()
    return pa.table(array.flatten(), names=[field.name for field in array.type]).to_pandas()
