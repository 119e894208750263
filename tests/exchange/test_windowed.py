"""Rows in a box: what is read is what lies there, and what cannot lie there is not read."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.exchange import parquet_writer
from havasu_vc.exchange.export import ExportFormat, write_file
from havasu_vc.exchange.geoparquet import boxes_of, group_boxes, may_meet, sound_box
from havasu_vc.exchange.parquet_writer import ParquetForm
from havasu_vc.exchange.sources import meets
from havasu_vc.model.types import Encoding, Geometry
from tests.exchange.reading import open_one, read_all
from tests.exchange.tables import batches_of, points, stored

WHOLE = pa.table(
    {
        "id": pa.array(range(100), pa.int64()),
        "geom": points(*[None if n % 10 == 9 else (n * 3.0 - 150, n / 2) for n in range(100)]),
    }
)
BOXES = [(-10.0, 0.0, 10.0, 90.0), (-500.0, -1.0, -150.0, 0.0), (500.0, 0.0, 600.0, 1.0)]


def inside(box: tuple[float, float, float, float]) -> list[int]:
    west, south, east, north = box
    found = []
    for number in range(100):
        x, y = number * 3.0 - 150, number / 2
        across = west <= x <= east if west <= east else x >= west or x <= east
        if number % 10 != 9 and across and south <= y <= north:
            found.append(number)
    return found


def written(path: Path, *, form: ParquetForm | None = None, **how: Any) -> Path:
    """Write the table in row groups of ten, described as is asked."""
    header, rows = stored(WHOLE, geometries={"geom": Geometry(Encoding.EWKB, "OGC:CRS84")})
    write_file(path, header, batches_of(rows, 10), parquet=form, **how)
    return path


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_writer, "_GROUP_ROWS", 10)


FORMS: dict[str, dict[str, Any]] = {
    "types": {"format": ExportFormat.PARQUET},
    "boxes": {"form": ParquetForm(covering=True)},
    "nothing": {},
}


@pytest.mark.rule("PQ-20", "PQ-21")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("box", [*BOXES, (140.0, 0.0, -140.0, 90.0)])
def test_rows_in_the_box_are_read(form: str, box: Any, tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", **FORMS[form])
    source = open_one(path, bbox=box)

    rows = read_all(source)

    assert rows["id"].to_pylist() == inside(box)
    assert read_all(source, ("id",))["id"].to_pylist() == inside(box)
    tasks: list[Any] = list(source.tasks())
    read = sum(len(task.arguments[0].arguments[1]) for task in tasks)
    if form == "nothing":
        assert read == 10
    else:
        assert read == len({number // 10 for number in inside(box)})


@given(
    st.lists(st.tuples(*[st.floats(-50, 50)] * 4), max_size=12),
    st.tuples(*[st.floats(-40, 40)] * 4),
)
def test_nothing_in_the_box_is_missed(
    lines: list[tuple[float, ...]], window: tuple[float, float, float, float]
) -> None:
    window = (window[0], min(window[1], window[3]), window[2], max(window[1], window[3]))
    shapes = [shapely.LineString([line[:2], line[2:]]) for line in lines]
    bounds = np.array([shape.bounds for shape in shapes]).reshape(-1, 4)
    parts = [(window[0], 1e9), (-1e9, window[2])] if window[0] > window[2] else [window[::2]]
    boxes = [shapely.box(low, window[1], high, window[3]) for low, high in parts]

    found = meets(window, bounds)

    for shape, hit in zip(shapes, found, strict=True):
        assert hit == any(shapely.box(*shape.bounds).intersects(box) for box in boxes)
    if len(bounds):
        # A box around all of them is passed over only when none is hit.
        around = (*bounds[:, :2].min(axis=0), *bounds[:, 2:].max(axis=0))
        assert may_meet(window, sound_box(*around)) or not found.any()


@pytest.mark.rule("PQ-20")
def test_a_group_of_which_nothing_is_said_may_hold_anything() -> None:
    assert may_meet((0, 0, 1, 1), None)


@pytest.mark.rule("PQ-21", "PQ-25")
@pytest.mark.parametrize(
    "edges",
    [(0, 0, None, 1), (0, None, 1, 1), (float("nan"), 0, 1, 1), (0, 5, 1, 4), (None,) * 4],
)
def test_half_a_box_and_one_upside_down_are_none(edges: Any) -> None:
    assert sound_box(*edges) is None


@pytest.mark.rule("PQ-25")
@pytest.mark.parametrize(
    ("west", "east", "met"),
    [
        (170, 175, True),
        (-170, -165, True),
        (0, 10, False),
        (160.7, 160.8, True),
        (-159, 160, False),
    ],
)
def test_a_box_across_the_anti_meridian(west: float, east: float, met: bool) -> None:
    box = sound_box(160.6289, -10, -159.2469, 10)

    assert may_meet((west, 0, east, 1), box) is met
    assert not may_meet((west, 11, east, 12), box)


def test_a_window_across_the_anti_meridian() -> None:
    box = sound_box(164.6739, -82.7, -95.0155, -46.7)

    assert may_meet((170, -60, -170, -50), box)
    assert may_meet((-100, -60, -90, -50), box)
    assert not may_meet((-90, -60, 164, -50), box)
    assert not may_meet((170, -46, -170, 0), box)


@pytest.mark.rule("PQ-22", "PQ-23", "PQ-35")
def test_groups_are_chosen_by_x_and_y_alone(shared_data: Path, tmp_path: Path) -> None:
    # Some groups have Z or M in their boxes, some have neither, some say no types.
    path = shared_data / "parquet-geospatial" / "geospatial.parquet"
    metadata = pq.read_metadata(path)
    boxes = group_boxes(metadata, "geometry", None)
    for number, box in enumerate(boxes):
        said = metadata.row_group(number).column(2).geo_statistics
        assert box == sound_box(said.xmin, said.ymin, said.xmax, said.ymax)
    whole = read_all(open_one(path))
    found = read_all(open_one(path, bbox=(35, 35, 45, 45)))
    with np.errstate(invalid="ignore"):
        bounds = shapely.bounds(shapely.from_wkb(whole["geometry"].to_pylist()))
    hit = (bounds[:, 2] >= 35) & (bounds[:, 3] >= 35)
    assert found["wkt"].to_pylist() == whole.filter(pa.array(hit))["wkt"].to_pylist()
    assert 0 < found.num_rows < whole.num_rows


def test_other_formats_take_a_box_too(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,lon,lat\n1,10,10\n2,20,20\n3,,\n")

    assert read_all(open_one(path, bbox=(15, 15, 25, 25)))["id"].to_pylist() == [2]


def test_a_table_without_geometries_has_no_rows_in_a_box(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n")

    with pytest.raises(InvalidArgumentError, match="no geometry column"):
        open_one(tmp_path / "a.csv", bbox=(0, 0, 1, 1))


@pytest.mark.parametrize("damage", ["text", "doubles", "missing"])
def test_boxes_that_are_none_are_not_trusted(damage: str, tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", form=ParquetForm(covering=True))
    table = pq.read_table(path)
    if damage == "text":
        column = pa.StructArray.from_arrays(
            [pa.array(["x"] * 100)] * 4, names=["xmin", "ymin", "xmax", "ymax"]
        )
    elif damage == "doubles":
        column = boxes_of(WHOLE["geom"].combine_chunks()).cast(
            pa.struct([(axis, pa.float64()) for axis in ("xmin", "ymin", "xmax", "ymax")])
        )
    else:
        column = pa.StructArray.from_arrays([pa.array(range(100))], names=["other"])
    table = table.set_column(table.schema.get_field_index("bbox"), "bbox", column)
    said = pq.read_metadata(path).metadata[b"geo"]
    table = table.replace_schema_metadata({"geo": said})
    pq.write_table(table, path, row_group_size=10)

    rows = read_all(open_one(path, bbox=(-10, 0, 10, 90)))

    assert rows["id"].to_pylist() == inside((-10, 0, 10, 90))


def test_the_expected_contents_are_those_of_the_file(shared_data: Path) -> None:
    yaml = pytest.importorskip("yaml")
    folder = shared_data / "parquet-geospatial"
    expected = yaml.safe_load((folder / "geospatial.yaml").read_text())
    file = pq.ParquetFile(folder / "geospatial.parquet")
    rows = read_all(open_one(folder / "geospatial.parquet"))
    groups = list(expected)

    assert len(groups) == file.num_row_groups
    assert rows["wkt"].to_pylist() == [text for name in groups for text in expected[name]]
    assert rows["group"].to_pylist() == [name for name in groups for _ in expected[name]]
    box = json.dumps(group_boxes(file.metadata, "geometry", None)[0])
    assert box == "[10.0, 10.0, 40.0, 40.0]"
