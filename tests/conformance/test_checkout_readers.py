"""DuckDB and GeoPandas read checkouts of drawn histories, after each commit, by value."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import geopandas
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from hypothesis import HealthCheck, Phase, given

from havasu_vc import Repo
from havasu_vc.formats.iceberg.values import DataFileContent
from havasu_vc.tables.snapshots import live_files
from havasu_vc.tables.table import read_table
from tests.conformance import ours
from tests.conformance.comparing import same_rows
from tests.conformance.drawing import KINDS, Abilities, histories
from tests.conformance.duckdb_iceberg import Reader, reading
from tests.conformance.ours import NAME, folder, made
from tests.conformance.tables import Column, History, Row, State
from tests.conformance.tally import Tally
from tests.serving.conftest import engines
from tests.support.examples import examples

__all__ = ["engines"]

# Bytes of one length are bytes of any in DuckDB; frames are of pandas, without UUIDs of Arrow's.
FOR_DUCKDB = Abilities(
    kinds=KINDS - {"fixed"},
    steps=ours.STEPS,
    added=KINDS - {"fixed", "uuid"},
    geometries=True,
)
FOR_GEOPANDAS = Abilities(kinds=KINDS - {"uuid"}, steps=ours.STEPS, geometries=True)

pytestmark = pytest.mark.filterwarnings("ignore:The geo metadata indicate that column")
tried = examples(
    20,
    # A table that differs is told as it was drawn: a smaller one takes minutes to look for.
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def duckdb(engines: Path) -> Iterator[Reader]:
    with reading(engines) as found:
        yield found


@pytest.fixture(scope="module")
def spatial(engines: Path) -> Iterator[Reader]:
    with reading(engines, "spatial") as found:
        yield found


def checked_out(place: Path, history: History) -> Iterator[tuple[Repo, State]]:
    """Check a table out, and yield each state that it then has."""
    repo = made(place, History(history.first, history.steps[:1]))
    repo.workspace.check_out()
    before = history.states[1]
    yield repo, before
    for step in history.steps[1:]:
        ours.apply(repo, step, before)
        before = step.applied(before)
        yield repo, before


@given(history=histories(FOR_DUCKDB))
@tried
def test_duckdb(history: History, duckdb: Reader, spatial: Reader, tally: Tally) -> None:
    with folder() as place:
        for repo, state in checked_out(place, history):
            table = repo.workspace.root / NAME
            shown = table / "metadata" / "duckdb.metadata.json"
            # Only a table whose files call a column a geometry, all of them, has such a document.
            # A file with heights does not (they are kept as EWKB), and beside others the
            # extension `spatial` makes bytes of all.
            found = duckdb.read(shown) if shown.exists() else spatial.read(table)
            assert found.column_names == [column.name for column in state.columns]
            rows = in_iso_wkb(found, state).to_pylist()
            tally.case("DuckDB", "checkout", same_rows(rows, state, "DuckDB"))


def in_iso_wkb(table: pa.Table, wanted: State) -> pa.Table:
    """Return a table whose geometries are as the standard has them, with heights too."""
    for place, column in enumerate(wanted.columns):
        if column.geo is not None and pa.types.is_binary(table.schema.field(place).type):
            shapes = shapely.from_wkb(table.column(place).to_pylist())
            values = pa.array(shapely.to_wkb(shapes, flavor="iso"), pa.binary())
            table = table.set_column(place, column.name, values)
    return table


@given(history=histories(FOR_GEOPANDAS))
@tried
def test_geopandas(history: History, tally: Tally) -> None:
    with folder() as place:
        for repo, state in checked_out(place, history):
            found = rows_of_files(repo.workspace.root / NAME, state)
            tally.case("GeoPandas", "checkout", same_rows(found, state, "GeoPandas"))


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
