"""The reference of the SQL functions as Markdown, made from the catalogue itself.

`docs/reference/sql-functions.md` is this text; a test fails when it is out of date,
and `make golden` writes it anew.
"""

from __future__ import annotations

from havasu_vc.geo.functions.all_functions import GROUPS
from havasu_vc.geo.functions.catalogue import Result, SqlFunction

__all__ = ["format_functions"]

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
