"""ST_ and RS_ functions for Spark: registered for SQL, and as Python functions of columns.

They are Arrow UDFs over the catalogue of `havasu_vc.geo.functions`, so a batch of
rows is one call. What a session has already under a name (Sedona's functions, or the
few that Spark itself brings) stays, unless `replace` says otherwise.

    functions.register(spark)
    spark.sql("SELECT * FROM parcels WHERE ST_Intersects(geom, 'POINT (174.8 -41.3)')")
    parcels.where(functions.ST_Area("geom") > 100)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql.functions import col

from havasu_vc.engine.session import is_local_master, ship_package
from havasu_vc.geo.functions.all_functions import FUNCTIONS, compute, function_named
from havasu_vc.geo.functions.catalogue import SqlFunction
from havasu_vc.spark.series import series_udf

__all__ = ["names", "register"]

Udf: TypeAlias = Callable[..., Column]

_TYPES: Final = {
    pa.binary(): "binary",
    pa.string(): "string",
    pa.float64(): "double",
    pa.int32(): "int",
    pa.bool_(): "boolean",
}


def register(
    spark: SparkSession,
    *,
    replace: bool = False,
    names: Iterable[str] | None = None,
    lenient: bool = False,
) -> tuple[str, ...]:
    """Register functions for the SQL of a session, by default all; return their names.

    Names that the session has already are left alone, unless `replace`. With `lenient`,
    a value that cannot be read or computed gives null instead of an error.
    """
    wanted = list(FUNCTIONS.values()) if names is None else [function_named(n) for n in names]
    there = set() if replace else _present(spark)
    chosen = [one for one in wanted if one.name.lower() not in there]
    if chosen and not is_local_master(spark.sparkContext.master or ""):
        ship_package(spark)
    for one in chosen:
        spark.udf.register(one.name, _udf(one.name, lenient))
    return tuple(one.name for one in chosen)


def names() -> tuple[str, ...]:
    """Return the names of all functions."""
    return tuple(FUNCTIONS)


def __getattr__(name: str) -> Udf:
    if name not in FUNCTIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return partial(_apply, FUNCTIONS[name])


def __dir__() -> list[str]:
    return [*__all__, *FUNCTIONS]


def _apply(function: SqlFunction, *columns: Column | str) -> Column:
    """Return a function of columns, or of the columns of names, as a column."""
    function.check_arity(len(columns))
    given = [col(one) if isinstance(one, str) else one for one in columns]
    made: Column = _udf(function.name, False)(*given)
    return made


def _present(spark: SparkSession) -> set[str]:
    """Return the names of the functions that a session has, in lower case."""
    rows = spark.sql("SHOW ALL FUNCTIONS").collect()
    return {str(row[0]).rpartition(".")[2].lower() for row in rows}


@lru_cache(maxsize=512)
def _udf(name: str, lenient: bool) -> Any:
    function = FUNCTIONS[name]
    returned = _spark_type(function.result.arrow_type)
    kernel = _aggregate_kernel(name) if function.aggregate else _kernel(name, lenient)
    kernel.__name__ = name  # what plans and error messages call it
    try:
        from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]
    except ImportError:  # before Spark 4.1
        made = series_udf(kernel, returned, aggregate=function.aggregate)
    else:
        made = arrow_udf(kernel, returned)
    return made


def _kernel(name: str, lenient: bool) -> Callable[..., pa.Array]:
    def kernel(*columns: pa.Array) -> pa.Array:
        return compute(name, columns, lenient=lenient)

    return kernel


def _aggregate_kernel(name: str) -> Callable[..., Any]:
    def kernel(column: pa.Array) -> Any:
        return compute(name, (column,), lenient=False)[0].as_py()

    return kernel


def _spark_type(kind: pa.DataType) -> str:
    """Return an Arrow type in Spark's own words."""
    if not pa.types.is_struct(kind):
        return _TYPES[kind]
    fields = (kind.field(index) for index in range(kind.num_fields))
    inside = ", ".join(f"{field.name}: {_TYPES[field.type]}" for field in fields)
    return f"struct<{inside}>"
