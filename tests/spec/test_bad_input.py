"""Whatever bytes come, the newer decoders give a value or an error of ours."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import HavasuError
from havasu_vc.exchange.geoparquet import GeoColumn, parse_geo
from havasu_vc.formats.delta import DeltaLog, geometry_columns, replay
from havasu_vc.formats.iceberg.metadata import format_metadata, parse_metadata
from havasu_vc.formats.iceberg.native_geometry import NativeGeometry
from havasu_vc.formats.iceberg.values import TableMetadata
from tests.formats.iceberg.test_metadata import TABLE, WHERE

LOG = "\n".join(
    json.dumps(action)
    for action in (
        {"protocol": {"minReaderVersion": 3, "readerFeatures": ["geospatial"]}},
        {
            "metaData": {
                "id": "x",
                "schemaString": json.dumps(
                    {"fields": [{"name": "g", "type": "geography(srid:4326, karney)"}]}
                ),
                "partitionColumns": [],
                "configuration": {},
            }
        },
        {"add": {"path": "a%20b", "size": 1, "modificationTime": 2, "stats": '{"numRecords": 1}'}},
        {"remove": {"path": "c"}},
    )
).encode()
GEO = json.dumps(
    {
        "version": "1.1.0",
        "primary_column": "g",
        "columns": {
            "g": {
                "encoding": "WKB",
                "geometry_types": ["Point"],
                "crs": None,
                "covering": {"bbox": {k: ["b", k] for k in ("xmin", "ymin", "xmax", "ymax")}},
            }
        },
    }
).encode()
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """Draw bytes with some changed, cut off or put in."""
    at = draw(st.integers(0, len(data)))
    return data[:at] + draw(st.binary(max_size=4)) + data[at + draw(st.integers(0, 4)) :]


@st.composite
def other_json(draw: st.DrawFn, document: Any) -> Any:
    """Draw a document in which one value, at any depth, is another."""
    if isinstance(document, dict) and document and draw(st.integers(0, 9)):
        key = draw(st.sampled_from(sorted(document)))
        return {**document, key: draw(other_json(document[key]))}
    if isinstance(document, list) and document and draw(st.integers(0, 9)):
        index = draw(st.integers(0, len(document) - 1))
        return [*document[:index], draw(other_json(document[index])), *document[index + 1 :]]
    return draw(values)


def look_at_log(data: bytes) -> None:
    try:
        log = replay([(0, data)], "t")
        assert isinstance(log, DeltaLog)
        geometry_columns(log, "t")
    except HavasuError as error:
        assert str(error)


@given(st.binary(max_size=200) | damaged(LOG))
def test_bytes_of_a_delta_log(data: bytes) -> None:
    look_at_log(data)


@given(st.data())
def test_other_values_in_a_delta_log(data: st.DataObject) -> None:
    actions = [json.loads(line) for line in LOG.splitlines()]
    changed = data.draw(other_json(actions))
    lines = changed if isinstance(changed, list) else [changed]
    look_at_log("\n".join(json.dumps(line) for line in lines).encode())


@given(st.data())
def test_other_values_in_the_schema_of_a_delta_log(data: st.DataObject) -> None:
    schema = {"fields": [{"name": "g", "type": "geometry(srid:1)"}, {"name": "s", "type": {}}]}
    text = json.dumps(data.draw(other_json(schema)))
    action = {"metaData": {"id": "x", "schemaString": text, "partitionColumns": ["g"]}}
    look_at_log(json.dumps(action).encode())


TYPE = damaged(b"geography(OGC:CRS84, karney)").map(lambda data: data.decode("latin1"))


@given(st.text(max_size=60) | TYPE)
def test_text_of_a_native_type(text: str) -> None:
    try:
        found = NativeGeometry.parse(text)
    except ValueError:
        return
    assert found is None or NativeGeometry.parse(str(found)) == found


def look_at_geo(data: bytes) -> None:
    try:
        found = parse_geo(data)
    except ValueError as error:
        assert str(error)
        return
    assert all(isinstance(column, GeoColumn) for column in found.values())


@given(st.binary(max_size=100) | damaged(GEO))
def test_bytes_of_a_geo_document(data: bytes) -> None:
    look_at_geo(data)


@given(st.data())
def test_other_values_in_a_geo_document(data: st.DataObject) -> None:
    look_at_geo(json.dumps(data.draw(other_json(json.loads(GEO)))).encode())


@given(st.data())
def test_other_values_in_metadata_of_iceberg_3(data: st.DataObject) -> None:
    document = json.loads(format_metadata(TABLE))
    document["format-version"] = 3
    schema = {"type": "struct", "schema-id": 0, "fields": [
        {"id": 1, "name": "id", "required": True, "type": "long"},
        {"id": 2, "name": "g", "required": False, "type": "geography(srid:4326, karney)"},
    ]}  # fmt: skip
    document["schemas"] = [data.draw(other_json(schema))]
    try:
        found = parse_metadata(json.dumps(document).encode(), WHERE)
    except HavasuError as error:
        assert "\n" not in str(error)
        return
    assert isinstance(found, TableMetadata)
