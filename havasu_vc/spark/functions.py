"""ST_ and RS_ functions for Spark: registered for SQL, and as Python functions of columns.

They are Arrow UDFs over the catalogue of `havasu_vc.geo.functions`, so a batch of
rows is one call. What a session has already under a name (Sedona's functions, or the
few that Spark itself brings) stays, unless `replace` says otherwise.

    functions.register(spark)
    spark.sql("SELECT * FROM parcels WHERE ST_Intersects(geom, 'POINT (174.8 -41.3)')")
    parcels.where(functions.ST_Within("geom", shapely.box(174, -42, 175, -41)))

A constant of SQL travels with every row, as Spark has it; a geometry of shapely's in a
Python call goes to the workers once, which matters for one of many vertices.

The reference of the SQL functions as Markdown, made from the catalogue itself.

`docs/reference/sql-functions.md` is this text; a test fails when it is out of date,
and `make golden` writes it anew.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType

from havasu_vc.engine.shipping import ensure_package
from havasu_vc.engine.worker import forget_archives
from havasu_vc.errors import InvalidArgumentError
from havasu_vc.geo.functions.all_functions import FUNCTIONS, GROUPS, compute, function_named
from havasu_vc.geo.functions.catalogue import Result, SqlFunction, constant_bytes, repeated
from havasu_vc.geo.raster_v1 import RASTER_TYPE

__all__ = ["format_functions", "names", "register", "series_udf"]

Udf: TypeAlias = Callable[..., Column]


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
    if chosen:
        ensure_package(spark)
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


def _apply(function: SqlFunction, *arguments: Any) -> Column:
    """Return a function of columns, of names of columns, and of shapely's geometries."""
    function.check_arity(len(arguments))
    fixed = [not isinstance(one, Column | str) for one in arguments]
    constants = tuple(
        (place, constant_bytes(one)) for place, one in enumerate(arguments) if fixed[place]
    )
    columns = [one for one, known in zip(arguments, fixed, strict=True) if not known]
    if not columns:
        raise InvalidArgumentError(
            f"{function.name} takes at least one column",
            hints=("what has constants alone, shapely computes",),
        )
    given = [col(one) if isinstance(one, str) else one for one in columns]
    made: Column = _udf(function.name, False, constants)(*given)
    return made


def _present(spark: SparkSession) -> set[str]:
    """Return the names of the functions that a session has, in lower case."""
    rows = spark.sql("SHOW ALL FUNCTIONS").collect()
    return {str(row[0]).rpartition(".")[2].lower() for row in rows}


@lru_cache(maxsize=512)
def _udf(name: str, lenient: bool, constants: tuple[tuple[int, bytes], ...] = ()) -> Any:
    function = FUNCTIONS[name]
    returned = from_arrow_type(function.result.arrow_type)
    formula = _aggregate_formula(name) if function.aggregate else _formula(name, lenient, constants)
    formula.__name__ = name  # what plans and error messages call it
    try:
        from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]
    except ImportError:  # before Spark 4.1
        made = series_udf(formula, returned, aggregate=function.aggregate)
    else:
        made = arrow_udf(formula, returned)
    return made


def _formula(
    name: str, lenient: bool, constants: tuple[tuple[int, bytes], ...]
) -> Callable[..., pa.Array]:
    def formula(*columns: pa.Array) -> pa.Array:
        forget_archives()
        arguments = list(columns)
        for place, wkb in constants:
            arguments.insert(place, repeated(wkb, len(columns[0])))
        return compute(name, arguments, lenient=lenient)

    return formula


def _aggregate_formula(name: str) -> Callable[..., Any]:
    def formula(column: pa.Array) -> Any:
        return compute(name, (column,), lenient=False)[0].as_py()

    return formula


# Functions of Arrow arrays as UDFs over pandas series, for Spark before 4.1.
#
# Spark 4.0 hands Python nothing but pandas: a column is a series, a struct a data
# frame. They are turned into Arrow arrays and back, which costs time and nothing else.


def series_udf(formula: Callable[..., Any], returned: DataType, *, aggregate: bool) -> Any:
    """Return a formula of Arrow arrays as a pandas UDF of Spark's."""
    from pyspark.sql.pandas.functions import PandasUDFType, pandas_udf

    def scalar(*columns: Any) -> Any:
        return _series(formula(*map(_array, columns)))

    def grouped(column: Any) -> Any:
        return formula(_array(column))

    scalar.__name__ = grouped.__name__ = formula.__name__
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


_INTRODUCTION = """\
# SQL functions

Geometry and raster functions for Spark, for when Sedona is not at hand:

```text
from havasu_vc.spark import functions

functions.register(spark)
spark.sql("SELECT * FROM parcels WHERE ST_Intersects(geom, 'POINT (174.8 -41.3)')")
parcels.where(functions.ST_Within("geom", shapely.box(174, -42, 175, -41)))
```

- **A geometry** is binary (EWKB or WKB) or a string (WKT or GeoJSON), as columns of any
  encoding are stored; the functions tell which. What they make is EWKB, with the SRID of
  their first argument.
- **Coordinates are taken as they are**, in the plane, and measures are in their units.
  Relations do not compare SRIDs. x is longitude or easting, always.
- **Null** in any argument gives null. A value that is no geometry is an error that names
  the function; with `register(spark, lenient=True)` it gives null.
- **Names that a session has already stay**: Sedona's functions, and Spark 4.1's own
  `ST_GeomFromWKB`, `ST_AsBinary`, `ST_SRID` and `ST_SetSRID`, which know Spark's own type
  only. `register(spark, names=["ST_AsBinary"], replace=True)` replaces them.
- **A window of many vertices** is best given to the Python functions as a geometry of
  shapely's: it goes to the workers once, while Spark copies a constant of SQL for each row.
- **Rasters** are columns of the [raster group](../format/index.md); bands count from 1. A
  geometry that has an SRID is brought to the raster's system. Pixels in files of their own
  (out-db) are not read. Where only the header matters, `rast.width` in plain SQL reads less
  than `RS_Width(rast)`.
"""


def format_functions() -> str:
    """Return the reference of all functions."""
    parts = [_INTRODUCTION]
    for title, functions in GROUPS.items():
        rows = "\n".join(map(_row, functions))
        parts.append(f"## {title}\n\n| Function | Gives | |\n|---|---|---|\n{rows}\n")
    fields = Result.METADATA.arrow_type
    names = ", ".join(f"`{fields.field(index).name}`" for index in range(fields.num_fields))
    parts.append(f"The struct of `RS_Metadata` has {names}.\n")
    return "\n".join(parts)


def _row(function: SqlFunction) -> str:
    kind = "aggregate, " if function.aggregate else ""
    gives = f"{kind}{function.result.label}"
    return f"| `{function.name}({function.signature})` | {gives} | {function.summary} |"
