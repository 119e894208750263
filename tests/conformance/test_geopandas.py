"""GeoPandas: frames that it writes come in, and it reads what goes out, by value."""

import json
from pathlib import Path
from typing import Any

import geopandas
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from hypothesis import HealthCheck, given

from tests.conformance import ours
from tests.conformance.comparing import same_rows
from tests.conformance.drawing import KINDS, Abilities, histories
from tests.conformance.ours import BY_KEY, NAME, agrees, folder, made, same_system, write_file
from tests.conformance.tables import (
    KEY,
    Append,
    Column,
    Delete,
    Geo,
    History,
    Row,
    State,
    Update,
    arrow,
)
from tests.conformance.tally import Tally
from tests.support.examples import examples
from tests.support.templates import LOCAL, empty_repo

PROGRAM = "GeoPandas"
# Its frames are of pandas, which has no UUIDs of Arrow's.
HELD = KINDS - {"uuid"}
# Edges on the globe are not said by frames.
WRITES = Abilities(kinds=HELD, geometries=True, spherical=False)
CHANGES = Abilities(kinds=HELD, geometries=True, spherical=False, steps=(Append, Update, Delete))
READS = Abilities(kinds=HELD, geometries=True, steps=ours.STEPS)

pytestmark = pytest.mark.filterwarnings("ignore:The geo metadata indicate that column")
tried = examples(20, suppress_health_check=list(HealthCheck))


def framed(state: State) -> Any:
    """Return a table as a frame; without a geometry as one of pandas."""
    table = arrow(list(state.rows.values()), state.schema)
    frame = table.to_pandas(types_mapper=pd.ArrowDtype)
    for column in state.columns:
        if column.geo is not None:
            shapes = shapely.from_wkb([row[column.name] for row in state.rows.values()])
            array = geopandas.array.from_shapely(shapes, crs=column.geo.crs)
            frame[column.name] = geopandas.GeoSeries(array, index=frame.index)
            frame = geopandas.GeoDataFrame(frame, geometry=column.name, crs=column.geo.crs)
    return frame


def written(file: Path, state: State) -> Path:
    framed(state).to_parquet(file, index=False)
    return file


@given(history=histories(CHANGES))
@tried
def test_import_and_commit(history: History, tally: Tally) -> None:
    with folder() as place:
        repo = empty_repo(place / "repo", settings=LOCAL)
        states = history.states[1:]
        repo.import_(written(place / "t.parquet", states[0]), NAME, options=BY_KEY)
        tally.case(PROGRAM, "import", agrees(repo, states[0], "import"))
        for state in states[1:]:
            file = written(place / "t.parquet", state)
            repo.commit_from(file, dataset=NAME, allow_empty=True)
            tally.case(PROGRAM, "commit --from", agrees(repo, state, "commit"))


@given(history=histories(READS))
@tried
def test_export(history: History, tally: Tally) -> None:
    last = history.last
    with folder() as place:
        repo = made(place, history)
        repo.export(NAME, place / "t.parquet")
        shapes = [column for column in last.columns if column.geo is not None]
        if shapes:
            options = {"types_mapper": pd.ArrowDtype}
            frame = geopandas.read_parquet(place / "t.parquet", to_pandas_kwargs=options)
            check_metadata(place / "t.parquet", frame, shapes[0].geo)
        else:
            frame = pd.read_parquet(place / "t.parquet", dtype_backend="pyarrow")
        tally.case(PROGRAM, "export", same_rows(rows_of(frame, last), last, PROGRAM))


def rows_of(frame: Any, wanted: State) -> list[Row]:
    """Return the rows of a frame, geometries as WKB."""
    columns = {}
    for column in wanted.columns:
        series = frame[column.name]
        if column.geo is not None:
            columns[column.name] = list(shapely.to_wkb(series.array, flavor="iso"))
        else:
            columns[column.name] = pa.Array.from_pandas(series).to_pylist()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def check_metadata(file: Path, frame: Any, geo: Geo | None) -> None:
    assert geo is not None
    assert same_system(frame.crs, geo.crs), (frame.crs, geo)
    # An empty table keeps it in the footer, not in the schema of Arrow's.
    said = json.loads(pq.read_metadata(file).metadata[b"geo"])["columns"]["geom"]
    assert (said.get("edges") == "spherical") is geo.spherical
    box = said.get("bbox")
    if box is not None and not geo.spherical:
        flat = [*box[:2], *box[len(box) // 2 :][:2]]
        assert flat == list(frame.total_bounds), (box, frame.total_bounds)
    kinds = {shapely.to_wkt(each).split(" ")[0] for each in frame.geometry if each is not None}
    if said["geometry_types"]:
        assert {each.split(" ")[0].upper() for each in said["geometry_types"]} == kinds


ACROSS = {
    1: "POLYGON ((179.5 -17, -179.5 -17, -179.5 -16, 179.5 -16, 179.5 -17))",
    2: "LINESTRING (179 -10, -179 -11)",
    3: "POINT (180 -12)",
    4: "MULTIPOINT (179.25 -12, -179.75 -13)",
}
"""Shapes on the globe on both sides of 180°."""


def test_geographies_across_180(tally: Tally) -> None:
    geom = Column("geom", pa.binary(), Geo("OGC:CRS84", spherical=True))
    columns = (Column(KEY, pa.int64()), geom)
    rows = {
        key: {KEY: key, "geom": shapely.to_wkb(shapely.from_wkt(text), flavor="iso")}
        for key, text in ACROSS.items()
    }
    state = State(columns, rows)
    with folder() as place:
        repo = empty_repo(place / "repo", settings=LOCAL)
        repo.import_(write_file(place / "in.parquet", state), NAME, options=BY_KEY)
        tally.case(PROGRAM, "import", agrees(repo, state, "import"))
        repo.export(NAME, place / "out.parquet")
        frame = geopandas.read_parquet(place / "out.parquet")
        tally.case(PROGRAM, "export", same_rows(rows_of(frame, state), state, PROGRAM))
        said = json.loads(pq.read_metadata(place / "out.parquet").metadata[b"geo"])
        west, _, east, _ = said["columns"]["geom"]["bbox"]
        # A box whose west is greater than its east lies across 180°; a narrow one, not the world.
        assert 178.9 <= west <= 179 and -179 <= east <= -178.9, (west, east)
