"""Every decoder of bytes from strangers, with valid bytes to begin from.

A decoder is a function of bytes that returns something or raises an error of ours;
`others` are the exceptions that its own contract promises instead, which its callers
turn into errors of ours. A decoder that is not here is fuzzed by nobody: whoever writes
one adds it.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgpack
import pyarrow as pa
import shapely
from pyroaring import BitMap, BitMap64

from havasu_vc.datasets.havasu.upgrading import parse_snapshot
from havasu_vc.exchange.geoarrow import extension_geometry
from havasu_vc.exchange.geoparquet import parse_geo
from havasu_vc.formats.delta import delta_columns, geometry_columns, parse_corner, replay
from havasu_vc.formats.havasu.deltas import parse_delta, parse_tombstone
from havasu_vc.formats.havasu.entry import parse_entry
from havasu_vc.formats.havasu.json_text import is_packed, parse_json
from havasu_vc.formats.havasu.properties import parse_partition, parse_properties, parse_sort_order
from havasu_vc.formats.havasu.schema import parse_schema
from havasu_vc.formats.iceberg.avro import parse_container
from havasu_vc.formats.iceberg.entries import point_of
from havasu_vc.formats.iceberg.manifests import parse_manifest, parse_manifest_list
from havasu_vc.formats.iceberg.metadata import format_metadata, parse_metadata
from havasu_vc.formats.iceberg.native_geometry import NativeGeometry
from havasu_vc.formats.iceberg.schema import parse_name_mapping
from havasu_vc.formats.iceberg.single_values import from_single_value
from havasu_vc.formats.kart.columns import (
    format_columns,
    format_legend,
    legend_of,
    parse_columns,
    parse_generated_keys,
    parse_legend,
)
from havasu_vc.formats.kart.columns import parse_schema as parse_kart_schema
from havasu_vc.formats.kart.features import FeatureDecoder
from havasu_vc.formats.kart.paths import parse_path_structure
from havasu_vc.formats.lfs import Pointer, format_pointer, parse_pointer
from havasu_vc.formats.patch import parse_patch, patch_batches
from havasu_vc.formats.repository_config import parse_repository_config
from havasu_vc.formats.roaring import (
    parse_deleted,
    parse_deletion_vector,
    parse_framed_deletion_vector,
    parse_roaring_bitmap,
    vector_of,
)
from havasu_vc.geo.bounds import bounds_of
from havasu_vc.geo.crs import parse_crs
from havasu_vc.geo.raster_v1 import format_rasters, parse_rasters
from havasu_vc.geo.wkb import Encoding, from_canonical, to_canonical
from havasu_vc.model.types import Field, Primitive
from havasu_vc.review.policy import parse_policy
from havasu_vc.store.commits import parse_commit
from havasu_vc.store.flat_trees import FlatTree
from havasu_vc.store.trees import parse_tree
from havasu_vc.workspace.state import parse_state
from tests.formats.havasu.golden import FIXTURES
from tests.formats.iceberg.test_malformed import LIST, MANIFEST
from tests.formats.iceberg.test_metadata import TABLE
from tests.formats.kart.test_features import GOOD, LEGEND, of
from tests.formats.test_patch import SCHEMA as PATCH_SCHEMA
from tests.geo.test_raster_v1_columns import EXAMPLE
from tests.review.test_policy import FULL
from tests.spec.test_bad_input import GEO, LOG

__all__ = ["DECODERS", "Decoder"]

WHERE = "somewhere"


@dataclass(frozen=True, slots=True)
class Decoder:
    """What reads bytes, and bytes that it reads."""

    name: str
    """By which it is chosen."""
    decode: Callable[[bytes], object]
    """Reads bytes."""
    seeds: tuple[bytes, ...]
    """Valid bytes."""
    others: tuple[type[Exception], ...] = ()
    """What it may raise beside errors of ours."""


def _shapes(encoding: Encoding) -> Callable[[bytes], object]:
    text = encoding in ("wkt", "geojson")

    def decode(data: bytes) -> object:
        column = pa.array([data], pa.binary())
        wkb, _ = to_canonical(column, encoding)
        bounds_of(wkb, "wkb")
        if not text:
            bounds_of(column, encoding)
        return from_canonical(wkb, None, "ewkb")

    return decode


_TEXTS = (
    "POINT (1 2)",
    "POINT Z (1 2 3)",
    "POINT EMPTY",
    "LINESTRING (1 2, 3 4)",
    "POLYGON ((0 0, 1 0, 1 1, 0 0), (0 0, 1 0, 1 1, 0 0))",
    "MULTIPOINT ZM ((1 2 3 4), (5 6 7 8))",
    "MULTIPOLYGON (((0 0, 1 0, 1 1, 0 0)), ((0 0, 1 0, 1 1, 0 0)))",
    "GEOMETRYCOLLECTION (POINT (1 2), GEOMETRYCOLLECTION (LINESTRING (1 2, 3 4)))",
)


def _geometries() -> Iterator[Decoder]:
    shapes = [shapely.from_wkt(text) for text in _TEXTS]
    wkb = [shapely.to_wkb(s, flavor="iso", byte_order=n % 2) for n, s in enumerate(shapes)]
    tagged = shapely.set_srid(shapes, 2193)
    gpkg = from_canonical(to_canonical(pa.array(wkb), "wkb")[0], None, "gpkg")
    flat = [shape for shape, text in zip(shapes, _TEXTS, strict=True) if "M" not in text.split()[1]]
    seeds: dict[Encoding, Any] = {
        "wkb": wkb,
        "ewkb": shapely.to_wkb(tagged, include_srid=True).tolist(),
        "wkt": [text.encode() for text in _TEXTS],
        "geojson": [shapely.to_geojson(s).encode() for s in flat if "ZM" not in s.wkt],
        "gpkg": gpkg.to_pylist(),
    }
    for encoding, values in seeds.items():
        yield Decoder(encoding, _shapes(encoding), tuple(values))
    yield Decoder("bound", point_of, (wkb[0], wkb[1]))


def _raster(data: bytes) -> object:
    """Read a raster whose numbers and bands are those of a JSON document."""
    column = format_rasters([EXAMPLE])
    row: dict[str, Any] = column[0].as_py()
    try:
        said = json.loads(data)
        changed = {**row, **{k: v for k, v in said.items() if k in row and k != "bands"}}
        bands = said.get("bands", [])
        changed["bands"] = [
            {**row["bands"][0], **{k: bytes.fromhex(v) if k in _BYTES else v for k, v in b.items()}}
            for b in bands
        ]
        made = pa.array([changed], column.type)
    except (
        ValueError,
        TypeError,
        AttributeError,
        RecursionError,
        OverflowError,
        pa.ArrowException,
    ):
        return None  # what Arrow cannot hold reaches no decoder
    return parse_rasters(made)


_BYTES = ("data", "nodata", "no_data")


def _features(data: bytes) -> object:
    schema = of(Field(2, "x", Primitive.STRING))
    decoder = FeatureDecoder(schema, {LEGEND: legend_of(schema)})
    return decoder.decode([[1]], [data], lambda at: f"file {at}")


def _geometry_features(data: bytes) -> object:
    from havasu_vc.model.types import Geometry

    schema = of(Field(2, "x", Primitive.BINARY, geometry=Geometry()))
    decoder = FeatureDecoder(schema, {LEGEND: legend_of(schema)})
    return decoder.decode([[1]], [data], lambda at: f"file {at}")


def _patch(data: bytes) -> object:
    patch = parse_patch(data)
    for dataset in patch.datasets:
        for _ in patch_batches(dataset, PATCH_SCHEMA, PATCH_SCHEMA):
            pass
    return patch


def _avro(data: bytes) -> object:
    return sum(1 for _ in parse_container(data).records())


def _delta_log(data: bytes) -> object:
    log = replay([(0, data)], WHERE)
    geometry_columns(log, WHERE)
    return delta_columns(list(log.schema["fields"]), log.mapping, WHERE)


def _delta_vector(data: bytes) -> object:
    value = parse_json(data, WHERE)
    if not isinstance(value, dict):
        return None
    vector = vector_of(value, WHERE)
    return parse_deleted(vector, None, 1000, WHERE) if vector.is_inline else vector


def _extension(data: bytes) -> object:
    name = {b"ARROW:extension:name": b"geoarrow.wkb", b"ARROW:extension:metadata": data}
    return extension_geometry(pa.field("g", pa.binary(), metadata=name))


def _text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: read(data.decode("utf-8", "replace"))


def _placed(read: Callable[[bytes, str], object]) -> Callable[[bytes], object]:
    return lambda data: read(data, WHERE)


def _golden(pattern: str) -> tuple[bytes, ...]:
    found = tuple(path.read_bytes() for path in sorted(FIXTURES.rglob(pattern)) if path.is_file())
    if not found:
        raise AssertionError(f"there is no golden document {pattern}")
    return found[:4]


def _unpacked(pattern: str) -> tuple[bytes, ...]:
    found = [data for data in _all(pattern) if is_packed(data)]
    return tuple(zlib.decompress(data[2:]) for data in found[:4])


def _all(pattern: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(FIXTURES.rglob(pattern)) if path.is_file()]


def _havasu_delta(data: bytes) -> object:
    identity = re.search(rb'"id":"([0-9a-f]{40})"', data)
    name = identity[1].decode() if identity else "ab" * 20
    return parse_delta(b"\0z" + zlib.compress(data), name, WHERE)


def _documents() -> Iterator[Decoder]:
    yield Decoder("snapshot.json", _placed(parse_snapshot), _golden("snapshot.json"))
    yield Decoder("schema.json", _placed(parse_schema), _golden("meta/schema.json"))
    yield Decoder("partition.json", _placed(parse_partition), _golden("meta/partition.json"))
    yield Decoder("sort-order.json", _placed(parse_sort_order), _golden("meta/sort-order.json"))
    yield Decoder("dataset.json", _placed(parse_properties), _golden("dataset.json"))
    yield Decoder(
        "entry", lambda data: parse_entry(data, "ab" * 32, WHERE), _golden("old/*/files/*/*.json")
    )
    yield Decoder("delta of a dataset", _havasu_delta, _unpacked("files/*/*.json"))
    yield Decoder("tombstone", parse_tombstone, (b"\0folded " + b"ab" * 20,))
    yield Decoder(
        "pointer", parse_pointer, (format_pointer(Pointer("ab" * 32, 12)),), (ValueError,)
    )
    yield Decoder("policy.toml", parse_policy, (FULL,))
    yield Decoder("config.toml", parse_repository_config, (b'[data]\nurl = "s3://maps/wells"\n',))
    yield Decoder("workspace.json", _placed(parse_state), (STATE,))
    yield Decoder("patch", _patch, (PATCH,))
    yield Decoder("crs", _text(parse_crs), (b"EPSG:2193", parse_crs("EPSG:4326").wkt.encode()))


STATE = json.dumps(
    {
        "format": 1,
        "root": "/tables",
        "flavour": "spark",
        "copy": False,
        "refs": False,
        "tables": {},
    }
).encode()
PATCH = json.dumps(
    {
        "kart.patch/v1": {"authorName": "A", "authorEmail": "a@b",
                          "authorTime": "2024-01-01T00:00:00Z", "authorTimeOffset": "+00:00",
                          "message": "m", "base": "ab" * 20},
        "kart.diff/v1+hexwkb": {"d": {"feature": [
            {"-": {"fid": 1}, "+": {"fid": 1, "geom": "0101000000" + "00" * 16, "name": "x",
                                    "price": "1.50", "day": "2024-01-01", "tags": [1, None]}}]}},
    }
).encode()  # fmt: skip


def _iceberg() -> Iterator[Decoder]:
    yield Decoder("metadata.json", _placed(parse_metadata), (format_metadata(TABLE),))
    yield Decoder("avro", _avro, (MANIFEST, LIST), (ValueError,))
    yield Decoder("manifest", _placed(parse_manifest), (MANIFEST,))
    yield Decoder("manifest list", _placed(parse_manifest_list), (LIST,))
    mapping = [{"field-id": 1, "names": ["a"], "fields": [{"field-id": 2, "names": ["b", "c"]}]}]
    yield Decoder(
        "name mapping",
        _text(lambda text: parse_name_mapping(text, WHERE)),
        (json.dumps(mapping).encode(),),
    )
    yield Decoder(
        "geometry type",
        _text(NativeGeometry.parse),
        (b"geography(srid:4326, karney)", b"geometry"),
        (ValueError,),
    )
    for type_, value in ((Primitive.LONG, bytes(8)), (Primitive.STRING, b"abc")):
        yield Decoder(f"single {type_}", _single(type_), (value,), (ValueError,))


def _single(type_: Primitive) -> Callable[[bytes], object]:
    return lambda data: from_single_value(data, type_)


def _delta() -> Iterator[Decoder]:
    yield Decoder("delta log", _delta_log, (LOG, MAPPED))
    yield Decoder("delta vector", _delta_vector, (VECTOR,))
    yield Decoder("delta corner", _text(parse_corner), (b"POINT Z(1 2 3)", b"POINT(-1e5 2.5)"))
    bitmap = bytes(BitMap64([1, 5, 1 << 40, *range(1000, 9000)]).serialize())
    runs = BitMap64(range(70_000))
    runs.run_optimize()
    plain = (bitmap, bytes(runs.serialize()))
    magic = struct.pack("<I", 1681511377)
    older = bytes(BitMap([1, 2]).serialize())
    vectors = tuple(magic + each for each in plain)
    framed = tuple(
        struct.pack(">I", len(v)) + v + struct.pack(">I", zlib.crc32(v)) for v in vectors
    )
    yield Decoder("roaring", parse_roaring_bitmap, plain, (ValueError,))
    yield Decoder(
        "deletion vector",
        parse_deletion_vector,
        (*vectors, struct.pack("<III", 1681511376, 1, len(older)) + older),
        (ValueError,),
    )
    yield Decoder("framed vector", parse_framed_deletion_vector, framed, (ValueError,))


MAPPED = "\n".join(
    json.dumps(action)
    for action in (
        {"protocol": {"minReaderVersion": 3, "readerFeatures": ["columnMapping"]}},
        {
            "metaData": {
                "id": "x",
                "partitionColumns": ["p"],
                "configuration": {"delta.columnMapping.mode": "id"},
                "schemaString": json.dumps(
                    {
                        "fields": [
                            {
                                "name": "p",
                                "type": {"type": "array", "elementType": "decimal(3,2)"},
                                "metadata": {
                                    "delta.columnMapping.physicalName": "c",
                                    "delta.columnMapping.id": 3,
                                },
                            }
                        ]
                    }
                ),
            }
        },
    )
).encode()
VECTOR = json.dumps(
    {
        "storageType": "i",
        "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
        "sizeInBytes": 40,
        "cardinality": 6,
    }
).encode()


def _kart() -> Iterator[Decoder]:
    schema = of(Field(2, "x", Primitive.STRING))
    legend = format_legend(legend_of(schema))
    point = b"GP\x00\x01" + bytes(4) + bytes.fromhex("0101000000" + "00" * 16)
    yield Decoder("legend", _placed(parse_legend), (legend,))
    yield Decoder("feature", _features, (GOOD,))
    shape = msgpack.packb([LEGEND, [msgpack.ExtType(71, point)]])
    yield Decoder("geometry feature", _geometry_features, (shape,))
    columns = json.dumps(
        [{"id": "ab", "name": "x", "dataType": "integer", "primaryKeyIndex": 0, "size": 64}]
    ).encode()
    columns = format_columns(parse_columns(columns, WHERE))
    yield Decoder("kart columns", _placed(parse_columns), (columns,))
    yield Decoder("kart schema", _placed(parse_kart_schema), (columns,))
    structure = {"scheme": "int", "branches": 64, "levels": 4, "encoding": "base64"}
    yield Decoder(
        "path structure",
        lambda data: parse_path_structure(data, schema, WHERE),
        (json.dumps(structure).encode(),),
    )
    keys = {"primaryKeySchema": {}, "generatedPrimaryKeys": {"1": "ab" * 20}}
    yield Decoder("generated keys", _placed(parse_generated_keys), (json.dumps(keys).encode(),))


def _others() -> Iterator[Decoder]:
    yield Decoder("geo document", parse_geo, (GEO,), (ValueError,))
    arrow = json.dumps({"crs": "EPSG:4326", "edges": "spherical"}).encode()
    yield Decoder("geoarrow", _extension, (arrow,))
    band = {"data": EXAMPLE.bands[0].data.hex() if EXAMPLE.bands[0].data else ""}
    raster = {"width": 3, "height": 2, "num_bands": 1, "crs": "EPSG:4326", "bands": [band]}
    yield Decoder("raster", _raster, (json.dumps(raster).encode(),))
    yield Decoder("git tree", parse_tree, (b"100644 a\0" + bytes(20),), (ValueError,))
    flat = b"100644 a\0" + bytes(20) + b"100644 b\0" + bytes(20)
    folders = b"40000 a\0" + bytes(20) + b"40000 b\0" + bytes(20)
    yield Decoder("git tree, flat", FlatTree.read, (flat, folders))
    who = b"A <a@b> 1 +0000"
    commit = b"tree " + b"ab" * 20 + b"\nauthor " + who + b"\ncommitter " + who + b"\n\nm\n"
    yield Decoder(
        "git commit", lambda data: parse_commit("ab" * 20, data), (commit,), (ValueError,)
    )


DECODERS = {
    each.name: each
    for make in (_geometries, _documents, _iceberg, _delta, _kart, _others)
    for each in make()
}
"""All of them by name."""
