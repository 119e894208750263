"""Havasu tables: what the files of a dataset are, and what schemas may say."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.errors import CorruptDatasetError, HavasuError, SchemaViolationError
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.formats.havasu.properties import PartitionField, PartitionSpec
from havasu_vc.formats.iceberg.metadata import format_metadata, parse_metadata
from havasu_vc.formats.iceberg.schema import schema_to_json
from havasu_vc.geo.wkb import to_canonical
from havasu_vc.model.evolution import check_evolution
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Encoding, Field, Geometry, Primitive, Struct
from tests.formats.iceberg.test_metadata import TABLE, WHERE
from tests.repo.tables import points, write
from tests.support.sound import CheckedRepo, checked

KEY = Field(1, "id", Primitive.LONG, required=True)
GEOM = Field(2, "geom", Primitive.BINARY, geometry=Geometry())
RASTER = Field(3, "rast", Struct(()), raster="v1")
TABLE_SCHEMA = Schema((KEY, GEOM, RASTER), (1,))


def data_file(repo: CheckedRepo) -> pq.ParquetFile:
    """Return the one data file of a dataset."""
    view = repo.repo.dataset("points")
    assert isinstance(view, HavasuDataset)
    (entry,) = view.entries.values()
    return pq.ParquetFile(view.file_path(entry))


@pytest.mark.rule("HAV-13", "HAV-87", "HAV-88", "HAV-89", "HAV-90", "PQ-45")
@pytest.mark.parametrize(
    ("encoding", "logical"),
    [("ewkb", "None"), ("wkb", "None"), ("wkt", "String"), ("geojson", "String")],
)
def test_each_encoding_has_its_type_in_data_files(
    encoding: str, logical: str, tmp_path: Path
) -> None:
    repo = checked(tmp_path / "repo")
    options = SourceOptions(primary_key=("id",), geometry_encoding=Encoding(encoding))
    repo.import_(write(tmp_path / "points.parquet", points(3)), options=options)

    file = data_file(repo)

    column = next(file.schema.column(i) for i in range(4) if file.schema.column(i).path == "geom")
    assert column.physical_type == "BYTE_ARRAY"
    assert json.loads(column.logical_type.to_json())["Type"] == logical
    assert (b"geo" in (file.metadata.metadata or {})) == (encoding in ("ewkb", "wkb"))
    (first,) = file.read(columns=["geom"])["geom"].to_pylist()[:1]
    wanted = shapely.Point(-180, 0)
    match encoding:
        case "ewkb" | "wkb":
            assert first == shapely.to_wkb(wanted, byte_order=1)
        case "wkt":
            assert shapely.from_wkt(first) == wanted
        case _:
            assert json.loads(first) == {"type": "Point", "coordinates": [-180, 0]}


@pytest.mark.rule("HAV-90")
def test_a_feature_is_no_geometry() -> None:
    feature = '{"type": "Feature", "properties": {}, "geometry": null}'

    with pytest.raises(HavasuError, match="row 0"):
        to_canonical(pa.array([feature]), "geojson")


@pytest.mark.rule("HAV-9", "HAV-10")
@pytest.mark.parametrize("transform", ["identity", "bucket[4]", "truncate[2]", "void"])
@pytest.mark.parametrize("column", [GEOM, RASTER], ids=lambda field: field.name)
def test_no_table_is_partitioned_by_what_is_somewhere(transform: str, column: Field) -> None:
    spec = PartitionSpec((PartitionField(column.id, 1000, "part", transform),), 7)
    schema = Schema(tuple(sorted((*TABLE.schema.fields[:1], column), key=lambda f: f.id)), (1,))
    table = replace(
        TABLE,
        schemas={0: schema},
        partition_specs={**TABLE.partition_specs, 7: spec},
        default_spec_id=7,
    )
    if transform == "void":
        assert parse_metadata(format_metadata(table), WHERE).default_spec_id == 7
        return
    with pytest.raises(ValueError, match=r"partitioned by .*, which holds"):
        format_metadata(table)
    value = json.loads(format_metadata(TABLE))
    value["schemas"] = [schema_to_json(schema, schema_id=0)]
    part = {"source-id": column.id, "field-id": 1000, "name": "part", "transform": transform}
    value["partition-specs"] = [{"spec-id": 0, "fields": [part]}]
    with pytest.raises(CorruptDatasetError, match="partitioned by"):
        parse_metadata(json.dumps(value).encode(), WHERE)


@pytest.mark.rule("HAV-134", "ICE-48", "ICE-49")
@pytest.mark.parametrize("field", [GEOM, RASTER, Field(4, "n", Primitive.INT)])
def test_a_column_that_is_required_cannot_be_added(field: Field) -> None:
    old = Schema((KEY,), (1,))

    with pytest.raises(SchemaViolationError, match="cannot be added as required"):
        check_evolution(old, Schema((KEY, replace(field, required=True)), (1,)))
    check_evolution(old, Schema((KEY, field), (1,)))
