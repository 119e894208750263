"""The rows of checkouts as DuckDB and frames have them, in the form that is compared."""

from pathlib import Path
from typing import Any

import geopandas
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import shapely

from havasu_vc.formats.iceberg.values import DataFileContent
from havasu_vc.tables.snapshots import live_files
from havasu_vc.tables.table import read_table
from tests.conformance.duckdb_iceberg import Reader
from tests.conformance.tables import Column, Row, State

__all__ = ["rows_by_duckdb", "rows_of_files"]


def rows_by_duckdb(table: Path, wanted: State, duckdb: Reader, spatial: Reader) -> list[Row]:
    """Return the rows of a table, whose columns are in order."""
    shown = table / "metadata" / "duckdb.metadata.json"
    # Only a table whose files call a column a geometry, all of them, has such a document.
    # A file with heights does not (they are kept as EWKB), and beside others the
    # extension `spatial` makes bytes of all.
    found = duckdb.read(shown) if shown.exists() else spatial.read(table)
    assert found.column_names == [column.name for column in wanted.columns]
    rows: list[Row] = in_iso_wkb(found, wanted).to_pylist()
    return rows


def in_iso_wkb(table: pa.Table, wanted: State) -> pa.Table:
    """Return a table whose geometries are as the standard has them, with heights too."""
    for place, column in enumerate(wanted.columns):
        if column.geo is not None and pa.types.is_binary(table.schema.field(place).type):
            shapes = shapely.from_wkb(table.column(place).to_pylist())
            values = pa.array(shapely.to_wkb(shapes, flavor="iso"), pa.binary())
            table = table.set_column(place, column.name, values)
    return table


def rows_of_files(folder: Path, wanted: State) -> list[Row]:
    """Return the rows of a table's data files as frames, without those that its deletes name.

    GeoPandas knows no tables of Iceberg: which files are live, and the ids of columns by which
    files of older names are read, are of the table's metadata.
    """
    table = read_table(folder)
    files: dict[DataFileContent, list[str]] = {content: [] for content in DataFileContent}
    for found in live_files(table):
        files[found.file.content].append(found.file.path)
    assert not files[DataFileContent.EQUALITY_DELETES]
    gone = {
        (path, place)
        for file in files[DataFileContent.POSITION_DELETES]
        for path, place in pd.read_parquet(file)[["file_path", "pos"]].itertuples(index=False)
    }
    ids = {field.id: field.name for field in table.metadata.schema.fields}
    return [
        row
        for file in files[DataFileContent.DATA]
        for place, row in enumerate(rows_of_file(file, ids, wanted))
        if (file, place) not in gone
    ]


def rows_of_file(file: str, ids: dict[int, str], wanted: State) -> list[Row]:
    """Return all rows of a data file, under the names and parts that columns have now."""
    schema = pq.read_schema(file)
    now = {field.name: ids.get(int(field.metadata[b"PARQUET:field_id"])) for field in schema}
    as_arrow = {"types_mapper": pd.ArrowDtype}
    if b"geo" in (pq.read_metadata(file).metadata or {}):
        frame = geopandas.read_parquet(file, to_pandas_kwargs=as_arrow)
        assert isinstance(frame, geopandas.GeoDataFrame)
    else:
        frame = pd.read_parquet(file, dtype_backend="pyarrow")
    held = {now[name]: frame[name] for name in frame.columns}
    columns = [values_of(held.get(column.name), column, len(frame)) for column in wanted.columns]
    names = [column.name for column in wanted.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def values_of(series: Any, column: Column, count: int) -> list[Any]:
    if series is None:
        return [None] * count
    if column.geo is not None:
        if not isinstance(series, geopandas.GeoSeries):
            # The file calls nothing a geometry, so a frame has its bytes.
            series = geopandas.GeoSeries.from_wkb(pa.Array.from_pandas(series).to_pylist())
        return list(shapely.to_wkb(series.array, flavor="iso"))
    values: list[Any] = pa.Array.from_pandas(series).to_pylist()
    if pa.types.is_struct(column.type):
        # Parts that came later are without a value in older files.
        parts = dict.fromkeys(field.name for field in column.type)
        return [value and {**parts, **value} for value in values]
    return values
