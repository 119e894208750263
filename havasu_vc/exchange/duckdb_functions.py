"""Functions of geometries and rasters in a query of DuckDB's: ours, and those of its extension.

DuckDB's spatial extension answers where it is installed: then geometries are of its type, all its
functions are there, and joins by place have its index. What it computes otherwise than ours
(`ST_Transform` takes y first, `ST_GeometryType` says `POINT`) ours go on to answer, so that no
answer depends on what is installed. The extension is loaded for queries alone that call a function
of geometries, and nothing is ever fetched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from havasu_vc.model.types import Encoding

if TYPE_CHECKING:
    from havasu_vc.geo.functions.catalogue import SqlFunction

__all__ = [
    "SAME",
    "called_functions",
    "geometry_values",
    "load_extension",
    "macro",
    "made_geometry",
    "own_functions",
    "plain_answer",
    "plain_array",
    "wants_extension",
]

_CALLED = re.compile(r'\b((?:st|rs)_\w+)"?\s*\(', re.IGNORECASE)

SAME = frozenset(
    """
    st_area st_asbinary st_boundary st_buffer st_contains st_convexhull st_coveredby st_covers
    st_crosses st_disjoint st_dwithin st_envelope st_equals st_force2d st_geomfromgeojson
    st_geomfromtext st_geomfromwkb st_intersects st_isempty st_isvalid st_length st_makeenvelope
    st_makevalid st_normalize st_npoints st_overlaps st_perimeter st_point st_pointonsurface
    st_reverse st_simplify st_simplifypreservetopology st_touches st_within
    st_xmax st_xmin st_ymax st_ymin
    """.split()
)
"""The functions of ours that the extension has and computes alike."""
_OF_SRIDS = frozenset({"st_asewkb", "st_geomfromewkb", "st_setsrid", "st_srid", "st_transform"})
"""They know the SRID of a value, which a geometry of DuckDB's has not."""
_OF_POINTS = ("ST_X", "ST_Y")


def called_functions(*texts: str) -> frozenset[str]:
    """Return the functions of geometries and rasters that some SQL may call, in lower case.

    >>> sorted(called_functions('SELECT ST_X(geom), "RS_Width" (rast), st_name FROM trees'))
    ['rs_width', 'st_x']
    """
    return frozenset(name.lower() for text in texts for name in _CALLED.findall(text))


def own_functions(called: Iterable[str]) -> list[SqlFunction]:
    """Return those of ours that are called; DuckDB takes no sums of groups from Python."""
    wanted = frozenset(called)
    if not wanted:
        return []
    from havasu_vc.geo.functions.all_functions import FUNCTIONS

    return [f for f in FUNCTIONS.values() if f.name.lower() in wanted and not f.aggregate]


def wants_extension(called: frozenset[str]) -> bool:
    """Whether the extension answers what is called, where there is one."""
    geometric = {name for name in called if name.startswith("st_")}
    if not geometric & _OF_SRIDS:
        return bool(geometric)
    return not geometric <= {function.name.lower() for function in own_functions(geometric)}


def load_extension(connection: Any, library: Any) -> bool:
    """Have the extension in a connection of DuckDB's; return whether it is installed.

    It is a package of Python's, or else in the user's folder of extensions.
    """
    found = find_spec("duckdb_extension_spatial")
    folders = [] if found is None else (found.submodule_search_locations or [])
    (version,) = connection.execute("SELECT version()").fetchone()
    files = [Path(each, "extensions", version, "spatial.duckdb_extension") for each in folders]
    quoted = [str(file).replace("'", "''") for file in files if file.is_file()]
    for place in [*(f"'{each}'" for each in quoted), "spatial"]:
        try:
            connection.execute(f"LOAD {place}")
        except library.Error:  # it is not there, or of another version
            continue
        return True
    return False


def macro(function: SqlFunction, hidden: str) -> str:
    """Return what has one of ours answer under its name, before the extension's does.

    >>> from havasu_vc.geo.functions.all_functions import FUNCTIONS
    >>> macro(FUNCTIONS["ST_Transform"], "ours")
    'CREATE TEMP MACRO ST_Transform(a, b) AS ours(a, b), (a, b, c) AS ours(a, b, c)'

    The coordinates of points are asked of the extension, which refuses all else, where ours say
    null: a column of points is read some three times as fast by it.
    """
    least, most = function.arity
    forms = [", ".join("abcdefgh"[:count]) for count in range(least, most + 1)]
    made = [f"({form}) AS {hidden}({form})" for form in forms]
    if function.name in _OF_POINTS:
        value = f"system.main.{function.name}(a)"
        point = "system.main.ST_GeometryType(a) = 'POINT'"
        made.insert(0, f"(a GEOMETRY) AS CASE WHEN {point} AND NOT isnan({value}) THEN {value} END")
    return f"CREATE TEMP MACRO {function.name}" + ", ".join(made)


_READERS: Mapping[Encoding, str] = {
    Encoding.WKT: "ST_GeomFromText",
    Encoding.GEOJSON: "ST_GeomFromGeoJSON",
}


def geometry_values(query: str, columns: Mapping[str, Encoding]) -> str:
    """Return a query of the same rows whose geometries are of DuckDB's type; names are quoted.

    >>> geometry_values("FROM t", {'"geom"': Encoding.EWKB})
    'SELECT * REPLACE (system.main.ST_GeomFromWKB("geom") AS "geom") FROM (FROM t)'
    """
    made = ", ".join(
        f"system.main.{_READERS.get(encoding, 'ST_GeomFromWKB')}({name}) AS {name}"
        for name, encoding in columns.items()
    )
    return f"SELECT * REPLACE ({made}) FROM ({query})" if made else query


class _GeometryType(pa.ExtensionType):  # type: ignore[misc]
    """A geometry in what functions of Python hand to DuckDB."""

    def __init__(self) -> None:
        super().__init__(pa.binary(), "geoarrow.wkb")

    def __arrow_ext_serialize__(self) -> bytes:
        return b"{}"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, written: bytes) -> _GeometryType:
        return cls()


def plain_array(column: pa.ChunkedArray) -> pa.Array:
    """Return an argument of a function as an array without an extension type."""
    found = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(found, pa.ChunkedArray):
        found = pa.concat_arrays(found.chunks) if found.chunks else pa.array([], found.type)
    if pa.types.is_decimal(found.type):  # as DuckDB has 0.1; by way of text it is the double
        return found.cast(pa.string()).cast(pa.float64())
    return found.storage if isinstance(found.type, pa.BaseExtensionType) else found


def made_geometry(ewkb: pa.Array) -> pa.Array:
    """Return geometries that a function of ours made, as DuckDB takes them for its type."""
    from havasu_vc.geo.wkb import to_canonical

    return pa.ExtensionArray.from_storage(_GeometryType(), to_canonical(ewkb, "ewkb")[0])


def plain_answer(
    schema: pa.Schema, encodings: Mapping[str, Encoding]
) -> tuple[pa.Schema, Callable[[pa.RecordBatch], pa.RecordBatch]]:
    """Return the columns of an answer with geometries as ours are, and what makes batches so.

    They are in the encoding that their name has, else EWKB, as functions of ours give them.
    """
    made = {
        place: encodings.get(field.name, Encoding.EWKB)
        for place, field in enumerate(schema)
        if _is_geometry(field)
    }
    if not made:
        return schema, lambda batch: batch
    from havasu_vc.geo.wkb import from_canonical, to_canonical

    plain = pa.schema(
        [
            pa.field(field.name, pa.binary() if made[place].is_binary else pa.string())
            if place in made
            else field
            for place, field in enumerate(schema)
        ]
    )

    def converted(batch: pa.RecordBatch) -> pa.RecordBatch:
        columns: list[Any] = list(batch.columns)
        for place, encoding in made.items():
            column = columns[place]
            wkb, _ = to_canonical(plain_array(column), "wkb")
            columns[place] = from_canonical(wkb, None, encoding).cast(plain.field(place).type)
        return pa.RecordBatch.from_arrays(columns, schema=plain)

    return plain, converted


def _is_geometry(field: pa.Field) -> bool:
    if isinstance(field.type, pa.BaseExtensionType):
        return bool(field.type.extension_name == "geoarrow.wkb")
    return (field.metadata or {}).get(b"ARROW:extension:name") == b"geoarrow.wkb"
