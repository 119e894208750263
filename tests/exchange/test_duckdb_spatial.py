"""DuckDB's spatial extension answers as our functions do, where both have a function.

The same queries run in two processes with one DuckDB: one has the extension's package beside it.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pytest
import shapely

from havasu_vc.exchange.duckdb_functions import SAME
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.geo.functions.all_functions import FUNCTIONS
from havasu_vc.model.types import Encoding
from tests.support.templates import empty_repo

ROOT = Path(__file__).parents[2]
ODD = """
    POINT EMPTY|LINESTRING EMPTY|POLYGON EMPTY|GEOMETRYCOLLECTION EMPTY|MULTIPOINT EMPTY
    POINT Z (1 2 3)|LINESTRING Z (0 0 1, 3 4 5)|POLYGON Z ((0 0 1, 4 0 2, 4 4 3, 0 0 1))
    LINESTRING (0 0, 3 4, 3 0, 0 0)|LINESTRING (0 0, 2 2, 0 2, 2 0)|MULTIPOINT (0 0, 0 0)
    MULTIPOINT (EMPTY, (1 1))|MULTILINESTRING ((0 0, 1 1, 1 0, 0 0), (5 5, 6 6))
    POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0), (1 1, 2 1, 2 2, 1 2, 1 1))
    GEOMETRYCOLLECTION (POLYGON ((0 0, 1 0, 1 1, 0 0)), POINT (9 9))|POINT (0.1 0.3)
"""
SHAPES = [
    shapely.from_wkt(each.strip())
    for line in ODD.split("\n")
    for each in line.split("|")
    if each.strip()
]
WINDOW = "'POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))'"
ASK = """
import json, sys
from havasu_vc import Repo
from havasu_vc.errors import HavasuError

repo = Repo.open(sys.argv[1])
for query in json.load(sys.stdin):
    try:
        found = {"rows": [list(row.values()) for row in repo.sql(query).to_pylist()]}
    except HavasuError as error:
        found = {"error": error.message, "hints": list(error.hints)}
    print(json.dumps(found, default=lambda value: value.hex()))
"""
Ask = Callable[..., list[Any]]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(7)
    places = random.integers(0, 6, (24, 2, 2))
    drawn = [shapely.Point(place[0]) for place in places[:8]]
    drawn += [shapely.box(*place[0], *(place[0] + place[1] + 1)) for place in places[8:16]]
    drawn += [shapely.LineString([*place, (9, 1)]) for place in places[16:]]
    shapes = [*drawn, *SHAPES, None]
    repo = empty_repo(tmp_path_factory.mktemp("spatial") / "repo")
    frame = geopandas.GeoDataFrame({"id": range(len(shapes))}, geometry=shapes, crs="EPSG:2193")
    for encoding in ("ewkb", "wkt", "geojson"):
        of = frame if encoding == "ewkb" else frame[frame.id < 16]
        options = SourceOptions(geometry_encoding=Encoding(encoding))
        repo.import_(of.set_index("id"), encoding, options=options)
    return repo.path


@pytest.fixture(scope="module")
def ask(path: Path, tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Return what answers queries, with the extension or without."""
    packages = (
        ROOT / ".engines/lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    )
    if not (packages / "duckdb_extension_spatial").is_dir():
        pytest.skip("there is no spatial extension: scripts/engines.sh .engines")
    folder = tmp_path_factory.mktemp("packages")
    for wanted, names in {
        "with": ("duckdb*", "_duckdb*"),
        "without": ("duckdb", "_duckdb*"),
    }.items():
        (folder / wanted).mkdir()
        for package in (each for name in names for each in packages.glob(name)):
            (folder / wanted / package.name).symlink_to(package)

    def answers(*queries: str, extension: bool = True) -> list[Any]:
        there = folder / ("with" if extension else "without")
        program = f"import sys; sys.path[:0] = [{str(there)!r}, {str(ROOT)!r}]\n{ASK}"
        done = subprocess.run(
            [sys.executable, "-c", program, path],
            input=json.dumps(queries),
            stdout=subprocess.PIPE,
            check=True,
            text=True,
            env={"HOME": str(folder)},
        )
        return [json.loads(line) for line in done.stdout.splitlines()]

    return answers


def calls(name: str) -> list[str]:
    """Return queries that call a function of ours with each of its numbers of arguments."""
    function = FUNCTIONS[name]
    one = "FROM ewkb ORDER BY id"
    two = "FROM ewkb a, ewkb b WHERE b.id % 5 = 0 ORDER BY a.id, b.id"
    few = "WHERE id < 24 ORDER" if function.result.label == "geometry" else "ORDER"
    if function.result.label == "geometry":  # GEOS combines no collections
        two = two.replace("WHERE", "WHERE a.id < 24 AND b.id < 24 AND")
    match function.signature:
        case "a, b":
            return [
                f"SELECT a.id, b.id, {name}(a.geometry, b.geometry) {two}",
                f"SELECT id, {name}(geometry, {WINDOW}) {one.replace('ORDER', few)}",
                f"SELECT id, {name}({WINDOW}, geometry) {one.replace('ORDER', few)}",
            ]
        case "a, b, distance":
            return [f"SELECT a.id, b.id, {name}(a.geometry, b.geometry, 1.5) {two}"]
        case "geometry":
            return [f"SELECT id, {name}(geometry) {one}", f"SELECT 0, {name}({WINDOW})"]
        case signature if signature.startswith(("geometry, distance", "geometry, tolerance")):
            return [f"SELECT id, {name}(geometry, 1) {one}"]
        case signature if signature.startswith("geometry, [source"):
            return [f"SELECT id, {name}(geometry, 'EPSG:2193', 'EPSG:3857') {one}"]
        case "geometry, srid":
            return [f"SELECT id, {name}(geometry, 2193) {one}"]
        case signature if signature.startswith("wkt"):
            return [f"SELECT 0, {name}({WINDOW})"]
        case signature if signature.startswith(("wkb", "ewkb")):
            return [f"SELECT id, {name}(ST_AsBinary(geometry)) {one}"]
        case signature if signature.startswith("geojson"):
            return [f"""SELECT 0, {name}('{{"type": "Point", "coordinates": [1, 2.5]}}')"""]
        case signature:
            numbers = ", ".join(str(n) for n in range(1, function.arity[0] + 1))
            assert "geometry" not in signature
            return [f"SELECT 0, {name}({numbers})"]


def comparable(value: Any) -> Any:
    """Return a value as it is compared: geometries as points, numbers to twelve digits."""
    if isinstance(value, float):
        return float(f"{value:.12g}")
    if isinstance(value, str):
        try:
            shape = shapely.from_wkb(bytes.fromhex(value))
        except (ValueError, shapely.errors.GEOSException):
            return value
        return shapely.normalize(shape).wkt
    return value


def test_each_function_gives_the_same(ask: Ask) -> None:
    names = [f.name for f in FUNCTIONS.values() if f.name.startswith("ST_") and not f.aggregate]
    queries = [(name, query) for name in names for query in calls(name)]
    sides = [ask(*(q for _, q in queries), extension=extension) for extension in (True, False)]

    rows = 0
    for (name, query), one, other in zip(queries, *sides, strict=True):
        assert "error" not in one and "error" not in other, (query, one, other)
        for found, wanted in zip(one["rows"], other["rows"], strict=True):
            assert [*map(comparable, found)] == [*map(comparable, wanted)], (query, name)
            rows += 1
    assert rows > 5_000
    assert {name.lower() for name in names} >= SAME


def test_what_the_extension_alone_has(ask: Ask) -> None:
    queries = (
        "SELECT ST_AsText(ST_Union_Agg(geometry)) FROM ewkb WHERE id < 2",
        "SELECT count(*) FROM ewkb WHERE NOT ST_IsEmpty(ST_VoronoiDiagram(geometry))",
        "SELECT count(*) FROM ewkb a JOIN wkt b ON ST_Intersects(a.geometry, b.geometry)",
        "SELECT ST_Union_Agg(ST_Transform(geometry, 'EPSG:2193', 'EPSG:4326')) IS NULL FROM ewkb",
    )
    there, gone = ask(*queries), ask(*queries, extension=False)

    assert there[0]["rows"][0][0].startswith(("MULTIPOINT", "POINT"))
    assert there[1]["rows"][0][0] > 5
    assert there[2] == gone[2]
    assert there[3]["rows"] == [[False]]
    for each in (gone[0], gone[1], gone[3]):
        assert "havasu-vc[spatial]" in each["hints"][0]


@pytest.mark.parametrize("encoding", ["ewkb", "wkt", "geojson"])
def test_geometries_come_out_as_they_are_stored(ask: Ask, encoding: str) -> None:
    stored = f"SELECT geometry FROM {encoding} ORDER BY id"
    queries = (stored, stored.replace(" FROM", ", ST_IsEmpty(geometry) FROM"))
    (there, beside), (wanted, _) = ask(*queries), ask(*queries, extension=False)

    assert there == wanted
    assert [row[:1] for row in beside["rows"]] == wanted["rows"]


def test_only_a_query_that_calls_a_function_loads_it(ask: Ask) -> None:
    queries = (
        "SELECT typeof(geometry) AS st_type FROM ewkb LIMIT 1",
        "SELECT typeof(geometry) FROM ewkb WHERE NOT ST_IsEmpty(geometry) LIMIT 1",
        "SELECT typeof(geometry), ST_SRID(geometry) FROM ewkb LIMIT 1",
    )
    assert [each["rows"][0][0] for each in ask(*queries)] == ["BLOB", "GEOMETRY", "BLOB"]


def test_nothing_outside_is_read_or_written(ask: Ask, tmp_path: Path) -> None:
    frame = geopandas.GeoDataFrame({"a": ["secret"]}, geometry=[shapely.Point(1, 2)], crs=4326)
    for name in ("a.gpkg", "a.geojson", "a.shp", "a.fgb"):
        frame.to_file(tmp_path / name)
    queries = [
        f"SELECT *, ST_X(ST_Point(1, 2)) FROM ST_Read('{tmp_path}/{name}')"
        for name in ("a.gpkg", "a.geojson", "a.shp", "a.fgb")
    ]
    queries += [
        f"SELECT *, ST_X(ST_Point(1, 2)) FROM {reader}('{tmp_path}/a.shp')"
        for reader in ("ST_ReadSHP", "ST_ReadOSM", "ST_Read_Meta")
    ]
    queries += [
        f"COPY (SELECT ST_Point(1, 2) AS g) TO '{tmp_path}/new' WITH (FORMAT gdal, DRIVER 'GPKG')"
    ]
    for found in ask(*queries):
        assert "secret" not in json.dumps(found)
        assert "error" in found
    assert not (tmp_path / "new").exists()
