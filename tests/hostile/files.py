"""Files to import and patches to apply that were made to do harm."""

from __future__ import annotations

import gzip
import io
import json
import random
import sqlite3
import struct
import zipfile
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.hostile.items import Item
from tests.hostile.scene import Scene, rows

__all__ = ["ITEMS"]

_TAKE = "list dry-run import init from-points"
_KEYLESS = ("--no-primary-key",)


def _file(name: str, data: bytes | Callable[[], bytes], *options: str) -> Callable[[Scene], None]:
    """Put a file to import; OUT and URL in it are places."""

    def make(scene: Scene) -> None:
        content = data() if callable(data) else data
        for word, place in ((b"OUT", str(scene.outside)), (b"URL", scene.url)):
            content = content.replace(word, place.encode())
        scene.source = scene.folder / name
        scene.source.write_bytes(content)
        scene.options = options or scene.options

    return make


def _parquet(table: pa.Table, **how: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **how)
    return sink.getvalue()


def _good() -> bytes:
    return _parquet(rows(2))


def _footer_of(size: int) -> Callable[[], bytes]:
    return lambda: _good()[:-8] + struct.pack("<I", size) + b"PAR1"


def _numbers_changed(seed: int) -> Callable[[], bytes]:
    """Varints of the footer made huge, as counts of rows, pages and groups are."""

    def make() -> bytes:
        data = bytearray(_good())
        begin = len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]
        chance = random.Random(seed)
        for _ in range(3):
            at = chance.randrange(begin, len(data) - 16)
            data[at : at + 5] = b"\xff\xff\xff\xff\x0f"
        return bytes(data)

    return make


def _pages_changed(seed: int) -> Callable[[], bytes]:
    """Headers of pages with sizes and counts that lie."""

    def make() -> bytes:
        data = bytearray(_good())
        end = len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]
        chance = random.Random(seed)
        for _ in range(6):
            at = chance.randrange(4, end - 8)
            data[at : at + 5] = b"\xff\xff\xff\xff\x0f"
        return bytes(data)

    return make


def _deep(depth: int) -> Callable[[], bytes]:
    def make() -> bytes:
        kind: pa.DataType = pa.int32()
        for _ in range(depth):
            kind = pa.struct([("a", kind)])
        return _parquet(pa.table({"id": [1], "deep": pa.nulls(1, kind)}))

    return make


def _texts(lengths: list[int], **how: Any) -> Callable[[], bytes]:
    """Texts that repeat themselves, so that zstd packs them into next to nothing."""

    def make() -> bytes:
        names = pa.array([str(n).zfill(length) for n, length in enumerate(lengths)])
        table = pa.table({"id": range(len(lengths)), "name": names})
        return _parquet(table, compression="zstd", **how)

    return make


def _one_text_often(length: int, count: int) -> bytes:
    """A column in which a text stands once and every row names it."""
    texts = pa.array(["0" * length])
    names = pa.DictionaryArray.from_arrays(pa.nulls(count, pa.int32()).fill_null(0), texts)
    return _parquet(pa.table({"id": range(count), "name": names}), compression="zstd")


def _many_columns(count: int) -> bytes:
    return _parquet(pa.table({f"c{n}": [n] for n in range(count)}))


def _many_groups(count: int) -> bytes:
    return _parquet(pa.table({"id": range(count)}), row_group_size=1)


def _geo(value: bytes) -> Callable[[], bytes]:
    return lambda: _parquet(rows(0).replace_schema_metadata({b"geo": value}))


def _named(*names: str) -> Callable[[], bytes]:
    def make() -> bytes:
        arrays = [pa.array([1, 2]), *(pa.array(["a", "b"]) for _ in names)]
        return _parquet(pa.Table.from_arrays(arrays, names=["id", *names]))

    return make


def _geometry(value: bytes) -> Callable[[], bytes]:
    def make() -> bytes:
        table = rows(0)
        at = table.schema.get_field_index("geom")
        return _parquet(table.set_column(at, "geom", pa.array([value] * 3)))

    return make


def _arrow_schema(data: bytes) -> Callable[[], bytes]:
    return lambda: _parquet(
        rows(0).replace_schema_metadata({b"ARROW:schema": data}), store_schema=False
    )


# GeoPackages


def _gpkg(*statements: str, late: str = "") -> Callable[[Scene], None]:
    """A GeoPackage of two points with more statements; OUT and URL in them are places."""

    def make(scene: Scene) -> None:
        import numpy as np
        import pyogrio.raw
        import shapely

        path = scene.folder / "evil.gpkg"
        pyogrio.raw.write(
            path,
            geometry=shapely.to_wkb([shapely.Point(0, 0), shapely.Point(1, 1)]),
            field_data=[np.array(["a", "b"], dtype=object)],
            fields=["name"],
            geometry_type="Point",
            crs="EPSG:4326",
            layer="points",
            driver="GPKG",
        )
        connection = sqlite3.connect(path)
        connection.create_function("ST_IsEmpty", 1, lambda g: 0)
        connection.create_function("ST_MinX", 1, lambda g: 0.0)
        connection.create_function("ST_MaxX", 1, lambda g: 0.0)
        connection.create_function("ST_MinY", 1, lambda g: 0.0)
        connection.create_function("ST_MaxY", 1, lambda g: 0.0)
        connection.execute("PRAGMA writable_schema = on")
        for statement in statements:
            connection.execute(
                statement.replace("OUT", str(scene.outside)).replace("URL", scene.url)
            )
        connection.commit()
        connection.close()
        scene.source = path
        scene.options = ("--layer", "points:new") if late == "points" else ()

    return make


_SHOW = (
    "INSERT INTO gpkg_contents(table_name, data_type, identifier, srs_id)"
    " VALUES ('{0}', 'attributes', '{0}', 0)"
)
_GPKG = "list import init from"


_ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT {} FROM n{}"


def _view(query: str, name: str = "evil") -> tuple[str, str]:
    return f'CREATE VIEW "{name}" AS {query}', _SHOW.format(name)


def _edited_copy(statement: str) -> Callable[[Scene], None]:
    """A copy to edit of ours, with statements of others in it."""

    def make(scene: Scene) -> None:
        path = scene.folder / "copy.gpkg"
        done = scene.ground.run(("checkout", "--as", str(path), "points"), folder=scene.repo)
        assert done.code == 0, done.errors
        connection = sqlite3.connect(path)
        for name in ("ST_IsEmpty", "ST_MinX", "ST_MaxX", "ST_MinY", "ST_MaxY"):
            connection.create_function(name, 1, lambda g: 0)
        for each in statement.split(";;"):
            connection.execute(each.replace("OUT", str(scene.outside)))
        connection.commit()
        connection.close()
        scene.source = path

    return make


def _sqlite_header(at: int, value: bytes) -> Callable[[Scene], None]:
    def make(scene: Scene) -> None:
        _gpkg()(scene)
        assert scene.source is not None
        data = bytearray(scene.source.read_bytes())
        data[at : at + len(value)] = value
        scene.source.write_bytes(bytes(data))

    return make


# Zips


def _zip(name: str, *members: tuple[str, bytes]) -> Callable[[Scene], None]:
    def make(scene: Scene) -> None:
        scene.source = scene.folder / name
        with zipfile.ZipFile(scene.source, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, data in members:
                archive.writestr(member, data)

    return make


def _zip_of_zeros() -> bytes:
    sink = io.BytesIO()
    with (
        zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("a.csv", "w", force_zip64=True) as member,
    ):
        member.write(b"id,name\n")
        for _ in range(500):
            member.write(b"0" * (1 << 20))
    return sink.getvalue()


# Text

_CSV = "dry-run import from-points"


def _geojson(value: Any) -> bytes:
    return json.dumps(value).encode()


def _feature(**facts: Any) -> dict[str, Any]:
    point = {"type": "Point", "coordinates": [1, 2]}
    return {"type": "Feature", "properties": {"id": 1}, "geometry": point} | facts


def _features(*features: dict[str, Any], **more: Any) -> bytes:
    return _geojson({"type": "FeatureCollection", "features": features} | more)


_VRT = b"""<OGRVRTDataSource><OGRVRTLayer name="x">
<SrcDataSource>OUT/secret.csv</SrcDataSource><SrcLayer>secret</SrcLayer>
</OGRVRTLayer></OGRVRTDataSource>"""
_RASTER_VRT = b"""<VRTDataset rasterXSize="2" rasterYSize="2">
<VRTRasterBand dataType="Byte" band="1">
<SimpleSource><SourceFilename>OUT/secret.txt</SourceFilename></SimpleSource>
</VRTRasterBand></VRTDataset>"""
_XML = b"""<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a SYSTEM "file://OUT/secret.txt">]>
<kml><Document><name>&a;</name></Document></kml>"""


# Patches


def _patch(datasets: Any, **header: Any) -> Callable[[Scene], None]:
    value = {"kart.patch/v1": {"message": "m"} | header, "kart.diff/v1+hexwkb": datasets}
    return _file("evil.json", json.dumps(value).encode())


def _points(**parts: Any) -> Callable[[Scene], None]:
    return _patch({"points": parts})


_NEW = {
    "meta": {
        "schema.json": {
            "+": [{"id": "1", "name": "id", "dataType": "integer", "primaryKeyIndex": 0}]
        }
    },
    "feature": [{"++": {"id": 1}}],
}
_APPLY = "apply"


def _geotiff(width: int, height: int, *tags: tuple[int, int, int, int]) -> bytes:
    """A TIFF of one strip with these numbers and nothing behind them."""
    entries = [
        (256, 4, 1, width),
        (257, 4, 1, height),
        (258, 3, 1, 8),
        (259, 3, 1, 1),
        (262, 3, 1, 1),
        (273, 4, 1, 8),
        (277, 3, 1, 1),
        (278, 4, 1, height),
        (279, 4, 1, 16),
        *tags,
    ]
    body = b"".join(struct.pack("<HHII", *each) for each in sorted(entries))
    return (
        b"II*\0"
        + struct.pack("<I", 24)
        + bytes(16)
        + struct.pack("<H", len(entries))
        + body
        + bytes(4)
    )


ITEMS = [
    *(
        Item("parquet", what, _file("evil.parquet", data), commands)
        for what, data, commands in (
            ("a footer of 2 GB", _footer_of(0x7FFFFFFF), _TAKE),
            ("a footer of 4 GB", _footer_of(0xFFFFFFFF), _TAKE),
            ("a footer of no bytes", _footer_of(0), _TAKE),
            *((f"counts that lie, {n}", _numbers_changed(n), "import") for n in range(12)),
            *((f"pages that lie, {n}", _pages_changed(n), "import replace") for n in range(12)),
            ("structs 90 deep", _deep(90), "list import"),
            ("structs 900 deep", _deep(900), "list import"),
            ("a text of 400 MB", _texts([400 << 20], use_dictionary=False), _TAKE),
            ("400 texts of 1 MB", _texts([1 << 20] * 400, use_dictionary=False), _TAKE),
            (
                "a dictionary of 400 MB",
                _texts([4000] * 100_000, dictionary_pagesize_limit=1 << 30),
                "import list",
            ),
            (
                "a text of 100 kB, 4,000,000 times",
                lambda: _one_text_often(100_000, 4_000_000),
                "import",
            ),
            ("4,000 row groups", lambda: _many_groups(4_000), "import"),
            ("geo nested deep", _geo(b"[" * 100_000), _TAKE),
            ("geo that is a number", _geo(b"9" * 1_000_000), _TAKE),
            (
                "geo of another file",
                _geo(b'{"version":"1.0.0","primary_column":"../x","columns":{}}'),
                _TAKE,
            ),
            (
                "a CRS nested deep",
                _geo(
                    b'{"version":"1.0.0","primary_column":"geom","columns":{"geom":{"encoding":"WKB","geometry_types":[],"crs":'
                    + b'{"base_crs":' * 50_000
                    + b"1"
                    + b"}" * 50_000
                    + b"}}}"
                ),
                _TAKE,
            ),
            (
                "a CRS that is a file",
                _geo(
                    b'{"version":"1.0.0","primary_column":"geom","columns":{"geom":{"encoding":"WKB","geometry_types":[],"crs":"OUT/secret.txt"}}}'
                ),
                _TAKE,
            ),
            (
                "a CRS by http",
                _geo(
                    b'{"version":"1.0.0","primary_column":"geom","columns":{"geom":{"encoding":"WKB","geometry_types":[],"crs":"URL/crs"}}}'
                ),
                _TAKE,
            ),
            ("an Arrow schema of nonsense", _arrow_schema(b"////" * 1000), _TAKE),
            ("columns that are paths", _named("../../x", "/etc/passwd", ".git"), "import"),
            ("columns of one name", _named("a", "a", "A"), "import dry-run"),
            ("a column without a name", _named(""), "import"),
            (
                "columns with colours",
                _named("\x1b[31mred", "\u202eevil", "a\nb", "a\x00b"),
                "list import",
            ),
            (
                "a line of 2^31 points",
                _geometry(struct.pack("<BII", 1, 2, 2**31) + bytes(64)),
                "import",
            ),
            (
                "a polygon of 2^32 - 1 rings",
                _geometry(struct.pack("<BII", 1, 3, 2**32 - 1)),
                "import",
            ),
            (
                "collections 100,000 deep",
                _geometry(struct.pack("<BII", 1, 7, 1) * 100_000),
                "import",
            ),
            ("geometry of an unknown type", _geometry(struct.pack("<BI", 1, 4711)), "import"),
        )
    ),
    *(
        Item("geopackage", what, _gpkg(*statements), _GPKG)
        for what, statements in {
            "a trigger": (
                "CREATE TRIGGER evil AFTER INSERT ON points BEGIN"
                " SELECT load_extension('OUT/evil'); END",
            ),
            "a view that loads an extension": _view(
                "SELECT 1 AS fid, load_extension('OUT/evil') AS x"
            ),
            "a view that reads a file": _view("SELECT 1 AS fid, readfile('OUT/secret.txt') AS x"),
            "a view that writes a file": _view("SELECT 1 AS fid, writefile('OUT/x', 'y') AS x"),
            "a view of itself": ("CREATE VIEW evil AS SELECT * FROM evil", _SHOW.format("evil")),
            "a view that opens a file of GDAL": _view(
                "SELECT 1 AS fid, ogr_datasource_load_layers('OUT/secret.csv') AS x"
            ),
            "a view by http": _view(
                "SELECT 1 AS fid, gdal_get_pixel_value('/vsicurl/URL/x.tif',1,'georef',0,0) AS x"
            ),
            "a view that never ends": _view(_ENDLESS.format("x AS fid, 1 AS y", "")),
            "a view that never gives a row": _view(
                _ENDLESS.format("x AS fid, 1 AS y", " WHERE x < 0")
            ),
            "a view that never ends, by GDAL's functions": _view(
                _ENDLESS.format("x AS fid, ST_Transform(x, 1) AS y", " WHERE ST_Area(x) IS NULL")
            ),
            "a view of a value of 900 MB": _view("SELECT 1 AS fid, hex(zeroblob(450000000)) AS x"),
            "a view of bytes of 900 MB": _view("SELECT 1 AS fid, zeroblob(900000000) AS x"),
            "a generated column of 900 MB": (
                "CREATE TABLE evil(fid INTEGER PRIMARY KEY, a, b AS (hex(zeroblob(a))))",
                "INSERT INTO evil(a) VALUES (450000000)",
                _SHOW.format("evil"),
            ),
            "a virtual table": (
                "INSERT INTO sqlite_master VALUES ('table', 'evil', 'evil', 0,"
                " 'CREATE VIRTUAL TABLE evil USING VirtualOGR(''OUT/secret.csv'')')",
                _SHOW.format("evil"),
            ),
            "a virtual table of text": (
                "INSERT INTO sqlite_master VALUES ('table', 'evil', 'evil', 0,"
                " 'CREATE VIRTUAL TABLE evil USING VirtualText(''OUT/secret.csv'', ''UTF-8'')')",
                _SHOW.format("evil"),
            ),
            "a generated column": (
                "CREATE TABLE evil(fid INTEGER PRIMARY KEY, a, b AS (hex(zeroblob(a))))",
                "INSERT INTO evil(a) VALUES (1000)",
                _SHOW.format("evil"),
            ),
            "a column by default": (
                "CREATE TABLE evil(fid INTEGER PRIMARY KEY, a"
                " DEFAULT (load_extension('OUT/evil')))",
                "INSERT INTO evil(a) VALUES (1)",
                _SHOW.format("evil"),
            ),
            "an index of a function": (
                "CREATE TABLE evil(fid INTEGER PRIMARY KEY, a)",
                "CREATE INDEX evil_i ON evil(abs(a))",
                _SHOW.format("evil"),
            ),
            "a layer called by SQL": (
                'CREATE TABLE "x\'; DROP TABLE points; --"(fid INTEGER PRIMARY KEY, a)',
                "INSERT INTO gpkg_contents(table_name, data_type, identifier, srs_id)"
                " VALUES ('x''; DROP TABLE points; --', 'attributes', 'x', 0)",
            ),
            "a layer that is a path": (
                'CREATE TABLE "../../x"(fid INTEGER PRIMARY KEY, a)',
                _SHOW.format("../../x"),
            ),
            "a layer with colours": (
                'CREATE TABLE "\x1b[31m\u202ered"(fid INTEGER PRIMARY KEY, a)',
                _SHOW.format("\x1b[31m\u202ered"),
            ),
            "a layer that is not there": (_SHOW.format("nothing"),),
            "a layer of SQLite's own": (_SHOW.format("sqlite_master"),),
            "geometries of nonsense": ("UPDATE points SET geom = x'4750000100000000ffff'",),
            "a CRS of nonsense": (
                "UPDATE gpkg_spatial_ref_sys SET definition = 'A[' || hex(zeroblob(50000))",
            ),
            "values of other types": ("UPDATE points SET name = zeroblob(100)",),
            "text that is no text": ("UPDATE points SET name = CAST(x'fffe00ff' AS TEXT)",),
            "2,000 columns": (
                "CREATE TABLE evil(fid INTEGER PRIMARY KEY, "
                + ",".join(f"c{n}" for n in range(1990))
                + ")",
                _SHOW.format("evil"),
            ),
        }.items()
    ),
    Item("geopackage", "a page size of nothing", _sqlite_header(16, b"\0\0"), _GPKG),
    Item("geopackage", "a write-ahead log that is not there", _sqlite_header(18, b"\2\2"), _GPKG),
    Item("geopackage", "2^31 pages", _sqlite_header(28, b"\x7f\xff\xff\xff"), _GPKG),
    *(
        Item("copy", what, _edited_copy(statement), "from")
        for what, statement in {
            "a trigger of its state": "CREATE TRIGGER evil AFTER UPDATE ON gpkg_havasu_vc_state"
            " BEGIN DELETE FROM points; END",
            "a trigger without end": "CREATE TRIGGER evil AFTER UPDATE ON gpkg_havasu_vc_state"
            " BEGIN INSERT INTO points(name) WITH n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n"
            " LIMIT 5000000) SELECT x FROM n; END",
            "a dataset that is a path": "UPDATE gpkg_havasu_vc_state SET dataset = '../../x'",
            "a commit that is an option": "UPDATE gpkg_havasu_vc_state"
            " SET commit_id = '--output=x'",
            "a dataset that is bytes": "UPDATE gpkg_havasu_vc_state SET schema = x'ff00'",
            "a schema nested deep": "UPDATE gpkg_havasu_vc_state SET schema ="
            " replace(hex(zeroblob(100000)), '00', '[')",
            "systems nested deep": "UPDATE gpkg_havasu_vc_state SET crs ="
            " replace(hex(zeroblob(100000)), '00', '[')",
            "columns of nonsense": "UPDATE gpkg_havasu_vc_state SET columns = '[[1]]'",
            "a state that is a view": "ALTER TABLE gpkg_havasu_vc_state RENAME TO s;;"
            "CREATE VIEW gpkg_havasu_vc_state AS SELECT *, load_extension('OUT/evil') FROM s",
            "a huge version": "UPDATE gpkg_havasu_vc_state SET version = 9223372036854775807",
        }.items()
    ),
    *(
        Item("csv", what, _file("evil.csv", data), _CSV)
        for what, data in {
            "formulas": b"id,name\n1,=cmd|' /C calc'!A0\n2,@SUM(1)\n",
            "a number of 1e6 digits": b"id,name\n" + b"9" * 1_000_000 + b",a\n",
            "20,000 columns": b",".join(b"c%d" % n for n in range(20_000)) + b"\n",
            "a quote that is open": b'id,name\n1,"' + b"x\n" * 1_000_000,
            "columns with colours": b"id,\x1b[31mred,\xe2\x80\xaeevil\n1,a,b\n",
            "zero bytes": b"id,name\n1,a\0b\n" * 3,
            "no text": b"id,name\n1,\xff\xfe\n",
            "a key of markup": b"id,name\n<img>\x1b[31m,a\n<img>\x1b[31m,b\n",
            "dates of nonsense": b"id,when\n1,99999-99-99T99:99:99\n2,2020-01-01\n",
        }.items()
    ),
    *(
        Item("geojson", what, _file("evil.geojson", data, "--primary-key", "id"), "list import")
        for what, data in {
            "nested 100,000 deep": b'{"type":"FeatureCollection","features":' + b"[" * 100_000,
            "coordinates nested deep": b'{"type":"FeatureCollection","features":[{"type":"Feature",'
            b'"properties":{"id":1},"geometry":{"type":"Polygon","coordinates":'
            + b"[" * 50_000
            + b"]" * 50_000
            + b"}}]}",
            "collections nested deep": b'{"type":"FeatureCollection","features":[{"type":"Feature",'
            b'"properties":{"id":1},"geometry":'
            + b'{"type":"GeometryCollection","geometries":[' * 5_000
            + b"]}" * 5_000
            + b"}]}",
            "a number of 1e6 digits": b'{"type":"FeatureCollection","features":[{"type":"Feature",'
            b'"properties":{"id":' + b"9" * 1_000_000 + b'},"geometry":null}]}',
            "coordinates of 1e999": b'{"type":"FeatureCollection","features":[{"type":"Feature",'
            b'"properties":{"id":1},"geometry":{"type":"Point","coordinates":[1e999,-1e999]}}]}',
            "properties of objects": _features(
                _feature(properties={"id": 1, "x": {"y": [{}] * 1000}})
            ),
            "a CRS by http": _features(
                _feature(), crs={"type": "link", "properties": {"href": "URL/crs", "type": "proj4"}}
            ),
            "a CRS that is a file": _features(
                _feature(),
                crs={"type": "link", "properties": {"href": "OUT/secret.txt", "type": "ogcwkt"}},
            ),
            "a CRS by name": _features(
                _feature(), crs={"type": "name", "properties": {"name": "OUT/secret.txt"}}
            ),
            "ids of all kinds": _features(
                _feature(id={"a": 1}), _feature(id=[1]), _feature(id=2**70)
            ),
        }.items()
    ),
    *(
        Item("driver", what, _file(name, data), "list import init")
        for what, name, data in (
            ("a VRT that names a file, as a shapefile", "evil.shp", _VRT),
            ("a VRT that names a file, as GeoJSON", "evil.geojson", _VRT),
            ("a VRT that names a file, as a GeoPackage", "evil.gpkg", _VRT),
            ("a VRT that names a file, as a FlatGeobuf", "evil.fgb", _VRT),
            ("a VRT that names a file", "evil.vrt", _VRT),
            ("a VRT of rasters", "evil.tif", _RASTER_VRT),
            ("an entity of XML", "evil.kml", _XML),
            ("an entity of XML, as GeoJSON", "evil.geojson", _XML),
            ("a web service", "evil.geojson", b"<GDAL_WFS><URL>URL/wfs</URL></GDAL_WFS>"),
            ("a list of files", "evil.gpkg", b"MSSQL:server=x;database=OUT"),
            ("GeoJSON of a URL", "evil.geojson", b'"URL/x.geojson"'),
            (
                "an ESRI service",
                "evil.geojson",
                b'{"currentVersion":1,"serviceDescription":"x","url":"URL"}',
            ),
            ("a FlatGeobuf of nonsense", "evil.fgb", b"fgb\x03fgb\x01" + b"\xff" * 500),
            ("a gzip of 300 MB", "evil.csv", lambda: gzip.compress(b"0" * (300 << 20))),
        )
    ),
    Item(
        "zip",
        "a path outside",
        _zip("evil.zip", ("../../outside/x.csv", b"id\n1\n")),
        "list import",
    ),
    Item("zip", "a shapefile in parts", _zip("evil.shp", ("a.shp", b"\0")), "list import"),
    Item("zip", "500 MB of zeros", _file("evil.zip", _zip_of_zeros), "list import", slow=True),
    Item(
        "zip",
        "500 MB of zeros, as a GeoPackage",
        _file("evil.gpkg", _zip_of_zeros),
        "list",
        slow=True,
    ),
    *(
        Item("geotiff", what, _file("evil.tif", data, *_KEYLESS), "list import")
        for what, data in {
            "10^9 by 10^9 pixels": _geotiff(10**9, 10**9),
            "no pixels": _geotiff(0, 0),
            "a strip outside of the file": _geotiff(8, 8, (330, 4, 1, 8)),
            "a directory that names itself": b"II*\0"
            + struct.pack("<I", 8)
            + struct.pack("<H", 0)
            + struct.pack("<I", 8),
            "10^6 strips": _geotiff(8, 10**6, (273, 4, 10**6, 8)),
            "a header alone": b"II*\0\xff\xff\xff\xff",
            "text that names a file": b"/vsicurl/URL/x.tif",
        }.items()
    ),
    *(
        Item("patch", f"a dataset called {ascii(name)[:40]}", _patch({name: _NEW}), _APPLY)
        for name in (
            "../x",
            "/etc/x",
            "a/../../x",
            ".git",
            "a/.git/hooks",
            "a\nb",
            "a:b",
            "a\0b",
            "CON",
            "\x1b[31m",
            "x" * 5000,
            "\ud800",
            "points/inside",
            "",
        )
    ),
    *(
        Item("patch", what, make, _APPLY)
        for what, make in {
            "a CRS that is a path": _points(meta={"crs/../../../x.wkt": {"+": "GEOGCS"}}),
            "a meta item that is a path": _points(meta={"../../x": {"+": "y"}}),
            "a key of 1e5 digits": _file(
                "evil.json",
                b'{"kart.patch/v1":{"message":"m"},"kart.diff/v1+hexwkb":{"points":{"feature":'
                b'[{"++":{"id":' + b"9" * 100_000 + b"}}]}}}",
            ),
            "objects 100,000 deep": _file("evil.json", b'{"a":' * 100_000),
            "a text of 20 MB": _file(
                "evil.json", b'{"kart.patch/v1":"' + b"x" * 20_000_000 + b'"}'
            ),
            "a key twice": _file("evil.json", b'{"kart.patch/v1":{},"kart.patch/v1":{}}'),
            "a number of 400 digits": _points(feature=[{"+": {"id": 1, "height": 10**400}}]),
            "NaN": _file("evil.json", b'{"kart.patch/v1":NaN}'),
            "a message of colours": _patch(
                {"points": {"feature": [{"+": {"id": 1, "name": "x"}}]}},
                message="\x1b[31mred\x1b]0;t\x07\u202e",
                authorName="\x1b[31m<script>",
                authorEmail="a>\nparent " + "ab" * 20,
            ),
            "an author of two lines": _patch(
                {"points": {"feature": [{"+": {"id": 1, "name": "x"}}]}},
                authorName="a\nparent " + "ab" * 20,
                authorEmail="b\ntree " + "ab" * 20,
            ),
            "a time of 1e30": _patch(
                {"points": {"feature": [{"+": {"id": 1, "name": "x"}}]}},
                authorName="a",
                authorEmail="b",
                authorTime="9" * 30,
                authorTimeOffset="+99:99",
            ),
            "a base that is an option": _patch({"points": {}}, base="--output=/x"),
            "markup in a value": _points(
                feature=[{"+": {"id": 1, "name": "</script><script>alert(1)</script>"}}]
            ),
            "geometry of 2^32 points": _points(
                feature=[{"+": {"id": 1, "geom": "0102000000ffffffff"}}]
            ),
            "geometry nested deep": _points(
                feature=[{"+": {"id": 1, "geom": "010700000001000000" * 50_000}}]
            ),
            "a binary message": _patch({"points": {"feature": [{"+": {"id": 1}}]}}, message="a\0b"),
        }.items()
    ),
    Item(
        "parquet",
        "10,000 columns",
        _file("evil.parquet", lambda: _many_columns(10_000)),
        "list dry-run",
        columns=10_000,
    ),
]
