"""GDAL (by pyogrio): layers that it writes come in, and it reads what goes out, by value."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyogrio
import pytest
import shapely
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from havasu_vc import Repo
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.model.types import Encoding, Geometry
from tests.conformance import ours
from tests.conformance.comparing import same_rows
from tests.conformance.drawing import Abilities, histories
from tests.conformance.ours import NAME, agrees, folder, made, same_system
from tests.conformance.tables import (
    KEY,
    Append,
    Column,
    Delete,
    Geo,
    History,
    MoveFirst,
    Row,
    State,
    Step,
    Update,
    arrow,
)
from tests.conformance.tally import Tally
from tests.support.examples import examples
from tests.support.templates import LOCAL, empty_repo

PROGRAM = "GDAL"
FORMATS = {"fgb": "FlatGeobuf", "gpkg": "GPKG"}
# Text of GDAL ends at a NUL, and its registers have no system of two parts for 3D.
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=24)
KINDS = frozenset({"int", "long", "double", "string", "boolean", "binary"})
SYSTEMS = ("EPSG:4326", "EPSG:2193", "EPSG:3857", "ESRI:54030", "OGC:CRS84")
NAMES = ("name", "n", "höhe", "a b", "select", "x-y", "value", "e")
IN_ALL = Abilities(
    kinds=KINDS,
    steps=(Append, Update, Delete),
    geometries=True,
    systems=SYSTEMS,
    spherical=False,
    names=NAMES,
    text=TEXT,
    first_key=1,
    odd_floats=False,
)
# FlatGeobuf holds heights where all rows have them, and has no dates.
HELD = {
    "gpkg": replace(IN_ALL, kinds=KINDS | {"date"}),
    "fgb": replace(IN_ALL, always_geometries=True, tall=False),
}
tried = examples(20, suppress_health_check=list(HealthCheck))


def write(file: Path, state: State, **how: Any) -> None:
    """Write a layer by GDAL's Arrow interface."""
    table = arrow(list(state.rows.values()), state.schema)
    if file.suffix == ".fgb":
        # Its index would have no place for rows without a geometry.
        how["SPATIAL_INDEX"] = "NO"
    geo = next((column for column in state.columns if column.geo is not None), None)
    if geo is None or geo.geo is None:
        pyogrio.write_arrow(table, file, driver=FORMATS[file.suffix[1:]], layer=NAME, **how)
        return
    pyogrio.write_arrow(
        table,
        file,
        driver=FORMATS[file.suffix[1:]],
        layer=NAME,
        geometry_name=geo.name,
        geometry_type="Unknown",
        crs=geo.geo.crs,
        **how,
    )


def read(file: Path, wanted: State) -> list[Row]:
    """Return the rows that GDAL reads of a layer, whose system must be that of the table."""
    meta, table = pyogrio.read_arrow(file, layer=NAME, return_fids=True)
    renamed = {meta["geometry_name"] or "wkb_geometry": "geom"}
    if KEY not in table.column_names:
        # A key of whole numbers is the number of a feature.
        renamed[meta["fid_column"]] = KEY
    table = table.rename_columns([renamed.get(each, each) for each in table.column_names])
    for column in wanted.columns:
        if column.geo is not None:
            assert same_system(meta["crs"], column.geo.crs), meta["crs"]
    rows: list[Row] = table.select([column.name for column in wanted.columns]).to_pylist()
    return rows


def geometry_first(state: State) -> State:
    """Return a table as layers come in, which tell their geometry apart from their fields."""
    named = [column.name for column in state.columns if column.geo is not None]
    return MoveFirst(named[0]).applied(state) if named else state


def taken(repo: Repo, file: Path, **how: Any) -> None:
    """Import a layer, without the numbers of features that GDAL gave."""
    left = ("fid",) if file.suffix == ".gpkg" else ()
    options = SourceOptions(primary_key=(KEY,), leave_out=left)
    repo.import_(file, NAME, options=options, **how)


@pytest.mark.few(1)
@pytest.mark.parametrize("suffix", FORMATS)
@given(data=st.data())
@tried
def test_import_and_each_release(suffix: str, data: st.DataObject, tally: Tally) -> None:
    history = data.draw(histories(HELD[suffix]))
    program = f"{PROGRAM}, {FORMATS[suffix]}"
    with folder() as place:
        repo = empty_repo(place / "repo", settings=LOCAL)
        for number, state in enumerate(history.states[1:]):
            file = place / f"{number}" / f"t.{suffix}"
            file.parent.mkdir()
            write(file, state)
            taken(repo, file, replace=number > 0)
            direction = "import --replace" if number else "import"
            tally.case(
                program,
                direction,
                agrees(repo, geometry_first(state), direction, in_order=number == 0),
            )


@pytest.mark.few(1)
@pytest.mark.parametrize("suffix", FORMATS)
@given(data=st.data())
@tried
def test_export(suffix: str, data: st.DataObject, tally: Tally) -> None:
    able = replace(HELD[suffix], steps=ours.STEPS)
    history = data.draw(histories(able))
    with folder() as place:
        repo = made(place, history)
        repo.export(NAME, place / f"t.{suffix}")
        count = same_rows(read(place / f"t.{suffix}", history.last), history.last, suffix)
        tally.case(f"{PROGRAM}, {FORMATS[suffix]}", "export", count)


@pytest.mark.thorough
@given(history=histories(HELD["gpkg"]))
@tried
def test_checkout_and_commit(history: History, tally: Tally) -> None:
    """A copy to edit: GDAL adds rows, SQLite removes some."""
    program = f"{PROGRAM}, GPKG"
    with folder() as place:
        repo = made(place, History(history.first, history.steps[:1]))
        file = place / "copy.gpkg"
        repo.checkout_as(file, [NAME])
        for step, before in zip(history.steps[1:], history.states[1:], strict=False):
            count = same_rows(read(file, before), before, "checkout --as")
            tally.case(program, "checkout --as", count)
            edit(file, step, before)
            after = step.applied(before)
            repo.commit_from(file, allow_empty=True)
            tally.case(program, "commit --from", agrees(repo, after, "commit"))


def edit(file: Path, step: Step, before: State) -> None:
    if isinstance(step, Update | Delete):
        gone = step.keys if isinstance(step, Delete) else [row[KEY] for row in step.rows]
        with closing(sqlite3.connect(file)) as database, database:
            triggers = database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
            for (name,) in triggers.fetchall():
                database.execute(f'DROP TRIGGER "{name}"')
            database.executemany(f"DELETE FROM {NAME} WHERE {KEY} = ?", [(key,) for key in gone])
            # As the triggers would have: where it is wrong, GDAL gives rows twice.
            count = f"(SELECT count(*) FROM {NAME})"
            database.execute(f"UPDATE gpkg_ogr_contents SET feature_count = {count}")
    if isinstance(step, Append) and step.rows:
        come = replace(before, rows={row[KEY]: row for row in step.rows})
        write(file, come, append=True)


def test_later_rows_of_another_type_of_geometry_go_to_flatgeobuf() -> None:
    shapes = shapely.Point(1, 2), shapely.box(0, 0, 1, 1)
    point, square = (bytes(shapely.to_wkb(each)) for each in shapes)
    first = State((Column(KEY, pa.int64()), Column("geom", pa.binary(), Geo("EPSG:2193"))), {})
    rows = tuple({KEY: key, "geom": point} for key in (3, 5, 6))
    history = History(first, (Append(rows), Update(({KEY: 3, "geom": square},))))
    with folder() as place:
        repo = made(place, history)
        repo.export(NAME, place / "t.fgb")
        same_rows(read(place / "t.fgb", history.last), history.last, "fgb")


def test_rows_of_another_type_than_a_column_announces_go_to_flatgeobuf(tmp_path: Path) -> None:
    shapes = [shapely.Point(1, 2), shapely.box(0, 0, 1, 1)]
    wkb = [bytes(shapely.to_wkb(each)) for each in shapes]
    layer = pa.table({KEY: [1], "geom": wkb[:1]})
    pyogrio.write_arrow(
        layer,
        tmp_path / "t.gpkg",
        driver="GPKG",
        layer=NAME,
        geometry_name="geom",
        geometry_type="Point",
        crs="EPSG:2193",
    )
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    taken(repo, tmp_path / "t.gpkg")
    assert repo.dataset(NAME).schema.geometries[0].geometry == Geometry(
        Encoding.EWKB, "EPSG:2193", "POINT"
    )

    repo.write(NAME, pa.table({KEY: [2], "geom": wkb[1:]}))
    repo.export(NAME, tmp_path / "t.fgb")

    _, read_back = pyogrio.read_arrow(tmp_path / "t.fgb")
    assert [shapely.from_wkb(each.as_py()) for each in read_back["wkb_geometry"]] == shapes
