"""Tables of rasters, from import to merge: a raster is one cell like any other."""

from __future__ import annotations

import io
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from havasu_vc.datasets.havasu.entries import is_outside
from havasu_vc.datasets.havasu.file_checks import ValueCheck
from havasu_vc.datasets.havasu.live import SpatialTest, live_files
from havasu_vc.errors import GeometryError, SchemaViolationError
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.geo import raster_v1_checks
from havasu_vc.geo.predicates import SpatialPredicate, Window
from havasu_vc.geo.raster_v1 import raster_headers
from havasu_vc.history.conflicts import Side
from havasu_vc.model.arrow import to_stored
from havasu_vc.model.bounds import Bounds, GeographicBounds
from havasu_vc.model.rasters import RASTER_PARTS, RASTER_TYPE, raster_ids
from havasu_vc.model.schema import Schema
from havasu_vc.writers.conflicts_json import write_conflicts_json
from havasu_vc.writers.protocol import WriterOptions
from havasu_vc.writers.registry import writer_named
from tests.repo.tables import BY_ID, NO_KEY, rows
from tests.support.sound import CheckedRepo, checked, refuses

pytestmark = pytest.mark.few(2)

WGS84 = (
    'GEOGCS["WGS 84",DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298.257223563]],'
    'PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433]]'
)
REPLACE = SourceOptions(primary_key=("id",))


def raster(
    number: int, *, bands: int = 1, x: float = 0.0, crs: str | None = WGS84, width: int = 3
) -> dict[str, Any]:
    """Return a raster of 8-bit pixels, all `number`, as Python values."""
    band = {
        "pixel_type": 4,
        "no_data": b"\xff",
        "data": bytes([number]) * (2 * width),
        "out_db_band_no": None,
        "out_db_url": None,
    }
    return {
        "width": width,
        "height": 2,
        "num_bands": bands,
        "crs_wkt": crs,
        "geo_reference": {
            "scale_x": 1.0,
            "scale_y": -1.0,
            "skew_x": 0.0,
            "skew_y": 0.0,
            "upperleft_x": x,
            "upperleft_y": 45.0,
        },
        **{f"band_{n + 1}": band if n < bands else None for n in range(4)},
        "bands": [band] * (bands - 4) if bands > 4 else None,
    }


def outside(url: str = "tiles/a.tif") -> dict[str, Any]:
    """Return a raster whose pixels are in a file elsewhere."""
    found = raster(0)
    found["band_1"] = {**found["band_1"], "data": None, "out_db_band_no": 0, "out_db_url": url}
    return found


def tiles(count: int, **changes: dict[str, Any] | None) -> pa.Table:
    """Return rows of an id, a raster and a name; `r3=…` says what raster row 3 has."""
    values = [None if i % 5 == 4 else raster(i, bands=i % 7, x=float(i)) for i in range(count)]
    for name, value in changes.items():
        values[int(name.removeprefix("r"))] = value
    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "rast": pa.array(values, RASTER_TYPE),
            "name": pa.array([f"tile {i}" for i in range(count)]),
        }
    )


def write(folder: Path, table: pa.Table, name: str = "tiles") -> Path:
    """Write rows where an import finds them."""
    folder.mkdir(exist_ok=True)
    pq.write_table(table, folder / f"{name}.parquet")
    return folder / f"{name}.parquet"


@pytest.fixture
def filled(repo: CheckedRepo, tmp_path: Path) -> CheckedRepo:
    """A repository with the dataset `tiles`, 20 rows by id."""
    repo.import_(write(tmp_path / "first", tiles(20)), options=BY_ID)
    return repo


def changed(repo: CheckedRepo, tmp_path: Path, table: pa.Table, folder: str = "next") -> None:
    repo.import_(write(tmp_path / folder, table), options=REPLACE, replace=True)


def keys(repo: CheckedRepo, spec: str = "HEAD^...HEAD") -> list[tuple[int | None, int | None]]:
    found = []
    for dataset in repo.diff(spec):
        for batch in dataset.changes:
            for old, new in zip(batch.old.to_pylist(), batch.new.to_pylist(), strict=True):
                found.append((old and old["id"], new and new["id"]))
    return found


@pytest.mark.rule("HAV-37", "HAV-107", "HAV-109", "HAV-130")
def test_a_table_of_rasters_comes_in_and_goes_out_with_every_pixel(
    filled: CheckedRepo, tmp_path: Path
) -> None:
    found = filled.table("tiles").to_arrow()
    assert found.schema.field("rast").type == RASTER_TYPE
    assert found.to_pylist() == tiles(20).to_pylist()
    filled.export("tiles", tmp_path / "out.parquet")
    out = pq.read_table(tmp_path / "out.parquet")
    assert out.schema.field("rast").type == RASTER_TYPE
    assert out.to_pylist() == tiles(20).to_pylist()
    filled.import_(tmp_path / "out.parquet", options=BY_ID)
    schema = filled.dataset("out").schema
    assert schema.by_name["rast"].raster == "v1"
    assert filled.dataset("out").snapshot.rows == 20


def test_a_second_import_of_the_same_is_no_change(filled: CheckedRepo, tmp_path: Path) -> None:
    before = filled.head().commit
    changed(filled, tmp_path, tiles(20))
    assert filled.table("tiles").to_arrow().to_pylist() == tiles(20).to_pylist()
    assert keys(filled, f"{before}...HEAD") == []


def test_rows_differ_where_a_pixel_or_a_word_of_a_raster_does(
    filled: CheckedRepo, tmp_path: Path
) -> None:
    pixel = raster(1)
    pixel["band_1"] = {**pixel["band_1"], "data": b"\x01\x01\x01\x01\x01\x02"}
    changed(
        filled,
        tmp_path,
        tiles(
            20,
            r1=pixel,
            r2=raster(2, bands=2, x=2.5),
            r3=None,
            r4=raster(4),
            r5=raster(5, bands=5, x=5.0, crs=None),
            r6=outside(),
        ),
    )
    assert keys(filled) == [(n, n) for n in range(1, 7)]


@pytest.mark.rule("HAV-101", "HAV-102", "HAV-103", "HAV-104", "HAV-105", "HAV-106")
def test_data_files_have_the_group_of_the_specification(filled: CheckedRepo) -> None:
    view = filled.dataset("tiles")
    (entry,) = view.data_entries
    shown = str(pq.ParquetFile(view.file_path(entry)).schema)
    lines = [line.strip() for line in shown.splitlines()]
    first = (raster_ids(view.schema.by_name["rast"]) or ())[0]
    for number, expected in enumerate(
        (
            "required int32 field_id={} width;",
            "required int32 field_id={} height;",
            "required int32 field_id={} num_bands;",
            "optional binary field_id={} crs_wkt (String);",
            "required group field_id={} geo_reference {{",
            "optional group field_id={} band_1 {{",
            "optional group field_id={} band_2 {{",
            "optional group field_id={} band_3 {{",
            "optional group field_id={} band_4 {{",
            "optional group field_id={} bands (List) {{",
            "required double field_id={} scale_x;",
            "required double field_id={} scale_y;",
            "required double field_id={} skew_x;",
            "required double field_id={} skew_y;",
            "required double field_id={} upperleft_x;",
            "required double field_id={} upperleft_y;",
            "required int32 field_id={} pixel_type;",
            "optional binary field_id={} no_data;",
            "optional binary field_id={} data;",
            "optional int32 field_id={} out_db_band_no;",
            "optional binary field_id={} out_db_url (String);",
        ),
        first,
    ):
        assert expected.format(number) in lines
    assert f"optional group field_id={first + 36} element {{" in lines


@pytest.mark.rule("HAV-111", "HAV-112")
def test_bands_that_are_not_asked_for_are_not_read(filled: CheckedRepo) -> None:
    view = filled.dataset("tiles")
    (entry,) = view.data_entries
    wanted = ["rast.band_2", "rast.width"]
    with pq.ParquetFile(view.file_path(entry)) as file:
        found = file.read(columns=wanted).column("rast").type
    assert [part.name for part in found] == ["width", "band_2"]


def patch_of(repo: CheckedRepo) -> bytes:
    out = io.StringIO()
    info, diffs = repo.repo.create_patch("HEAD")
    writer_named("patch")(diffs, out, WriterOptions(commit=info))
    return out.getvalue().encode()


@pytest.mark.rule("HAV-38")
def test_patches_carry_rasters(filled: CheckedRepo, tmp_path: Path) -> None:
    other = checked(tmp_path / "other")
    other.import_(tmp_path / "first" / "tiles.parquet", options=BY_ID)
    after = tiles(22, r1=raster(9, bands=6), r4=raster(4), r5=None, r7=outside())
    changed(filled, tmp_path, after)
    patch = patch_of(filled)
    other.apply_patch(patch)
    assert rows(other, "tiles") == after.to_pylist()
    wrong = json.loads(patch)
    features = wrong["kart.diff/v1+hexwkb"]["tiles"]["feature"]
    del features[1:]
    features[0]["-"] = json.loads(json.dumps(features[0]["+"]))
    features[0]["+"]["rast"]["width"] = 9
    with refuses(other.repo, GeometryError, match="band 1 has 6 bytes"):
        other.apply_patch(json.dumps(wrong).encode())


@pytest.fixture
def diverged(filled: CheckedRepo) -> CheckedRepo:
    """A repository whose branch `side` changed rasters and names of other rows and the same."""
    filled.create_branch("side")
    put(filled, {1: raster(101), 2: raster(102), 3: None, 6: raster(6, bands=6, x=9.0)})
    filled.switch("side")
    put(filled, {2: raster(202), 5: raster(105), 3: outside()})
    filled.write("tiles", pa.table({"id": [1, 7], "name": ["one", "seven"]}))
    filled.switch("main")
    return filled


def put(repo: CheckedRepo, rasters: dict[int, dict[str, Any] | None]) -> None:
    """Commit rasters of some rows."""
    values = pa.array(list(rasters.values()), RASTER_TYPE)
    repo.write("tiles", pa.table({"id": pa.array(rasters, pa.int64()), "rast": values}))


@pytest.mark.thorough
def test_merges_take_a_raster_as_one_cell(diverged: CheckedRepo) -> None:
    assert diverged.merge("side").kind == "conflicts"
    assert sum(found.unresolved for found in diverged.conflicts()) == 2
    out = io.StringIO()
    write_conflicts_json(diverged.view_conflicts(), out, WriterOptions())
    shown = json.loads(out.getvalue())
    assert "tiles" in json.dumps(shown)
    assert diverged.resolve_conflicts(["tiles:feature:2"], columns={"rast": Side.THEIRS}) == 1
    assert diverged.resolve_conflicts(["tiles:feature:3"], choice="ours") == 1
    diverged.continue_merge()
    found = {row["id"]: row for row in rows(diverged, "tiles")}
    assert found[1] == {"id": 1, "rast": raster(101), "name": "one"}
    assert found[2]["rast"] == raster(202)
    assert found[3]["rast"] is None
    assert found[5]["rast"] == raster(105)
    assert found[6]["rast"] == raster(6, bands=6, x=9.0)
    assert found[7]["name"] == "seven"


@pytest.mark.thorough
def test_a_conflict_of_rasters_is_resolved_from_a_file(diverged: CheckedRepo) -> None:
    assert diverged.merge("side").kind == "conflicts"
    value = raster(77, bands=2)
    value["band_1"] = value["band_2"] = {
        name: part.hex() if isinstance(part, bytes) else part
        for name, part in value["band_1"].items()
    }
    document = json.dumps({"id": 2, "rast": value, "name": "by hand"}).encode()
    assert diverged.resolve_conflicts(["tiles:feature:2"], document=document) == 1
    assert diverged.resolve_conflicts(["tiles:feature:3"], choice="theirs") == 1
    diverged.continue_merge()
    found = {row["id"]: row for row in rows(diverged, "tiles")}
    assert found[2] == {"id": 2, "rast": raster(77, bands=2), "name": "by hand"}
    assert found[3]["rast"] == outside()


def add_columns(repo: CheckedRepo, *columns: dict[str, Any]) -> None:
    known = repo.get_meta("tiles")["schema.json"]
    repo.set_meta("tiles", {"schema.json": [*known, *columns]})


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.few(1)
def test_rasters_that_both_sides_add_do_not_collide(
    filled: CheckedRepo, monkeypatch: pytest.MonkeyPatch, same: bool
) -> None:
    # Ids are drawn at random; here both sides draw the same.
    monkeypatch.setattr(random.SystemRandom, "randrange", lambda *_: 7)
    filled.create_branch("side")
    add_columns(filled, {"name": "ours", "dataType": "raster"})
    filled.write(
        "tiles", pa.table({"id": [1], "ours": pa.array([raster(11, bands=6)], RASTER_TYPE)})
    )
    filled.switch("side")
    kind = {"dataType": "raster"} if same else {"dataType": "integer", "size": 64}
    add_columns(filled, {"name": "count", **kind}, {"name": "theirs", "dataType": "raster"})
    theirs = pa.array([raster(12), raster(13, bands=5)], RASTER_TYPE)
    filled.write("tiles", pa.table({"id": [1, 2], "theirs": theirs}))
    filled.switch("main")
    assert filled.merge("side").kind == "merge"
    schema = filled.dataset("tiles").schema
    assert schema.names == ("id", "rast", "name", "ours", "count", "theirs")
    blocks = [raster_ids(f) or () for f in schema.fields if f.raster]
    assert len({number for block in blocks for number in block}) == len(blocks) * RASTER_PARTS
    found = {row["id"]: row for row in rows(filled, "tiles")}
    assert found[1]["ours"] == raster(11, bands=6)
    assert found[1]["theirs"] == raster(12)
    assert found[2]["theirs"] == raster(13, bands=5)
    assert found[2]["ours"] is None
    assert found[1]["rast"] == raster(1, x=1.0)


@pytest.mark.rule("HAV-66", "HAV-69", "HAV-70", "HAV-70b", "HAV-70c", "HAV-70e", "HAV-70h")
def test_files_know_where_on_the_globe_their_rasters_are(repo: CheckedRepo, tmp_path: Path) -> None:
    first = pa.table(
        {"id": [1, 2], "rast": pa.array([raster(1, x=177.5), raster(2, x=181.5)], RASTER_TYPE)}
    )
    repo.import_(write(tmp_path / "a", first, "crossing"), options=BY_ID)
    unknown = pa.table({"id": [1], "rast": pa.array([raster(1, crs=None)], RASTER_TYPE)})
    repo.import_(write(tmp_path / "b", unknown, "unknown"), options=BY_ID)
    view = repo.dataset("crossing")
    (entry,) = view.data_entries
    number = view.schema.by_name["rast"].id
    assert entry.areas == {number: GeographicBounds(177, 43.5, -176, 45.5)}
    assert [e.areas for e in repo.dataset("unknown").data_entries] == [{}]
    for box, there in (
        ((178, 44, 179, 45), True),
        ((-180, 44, -177, 45), True),
        ((0, 44, 10, 45), False),
        ((178, 46, 179, 47), False),
    ):
        assert is_outside(entry, box, view.schema) is not there
        for predicate in SpatialPredicate:
            test = SpatialTest(number, predicate, Window.of_bounds(Bounds(*box)))
            assert bool(live_files(view, tests=[test])) is there


def test_keyless_tables_of_rasters_are_multisets(repo: CheckedRepo, tmp_path: Path) -> None:
    table = pa.concat_tables([tiles(3), tiles(3)]).drop_columns(["id"])
    repo.import_(write(tmp_path / "a", table), options=NO_KEY)
    fewer = table.slice(1)
    repo.import_(write(tmp_path / "b", fewer), options=NO_KEY, replace=True)
    (dataset,) = list(repo.diff("HEAD^...HEAD"))
    changes = [
        (old and old["name"], new and new["name"])
        for batch in dataset.changes
        for old, new in zip(batch.old.to_pylist(), batch.new.to_pylist(), strict=True)
    ]
    assert changes == [("tile 0", None)]


@pytest.mark.rule("HAV-127")
def test_a_raster_that_contradicts_itself_does_not_come_in(
    repo: CheckedRepo, tmp_path: Path
) -> None:
    wrong = raster(1)
    wrong["width"] = 7
    with pytest.raises(GeometryError, match=r"row 2 .*band 1 has 6 bytes, but 7 × 2"):
        repo.import_(write(tmp_path / "a", tiles(4, r2=wrong)), options=BY_ID)
    assert repo.datasets() == ()


def test_fsck_names_a_raster_that_cannot_be_one(
    repo: CheckedRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What a writer makes that does not look, as anybody's may.
    wrong = raster(1)
    wrong["band_1"] = {**wrong["band_1"], "data": b"12345"}
    with monkeypatch.context() as patched:
        patched.setattr(raster_v1_checks, "check_rasters", raster_headers)
        repo.repo.import_(write(tmp_path / "a", tiles(9, r5=wrong)), options=BY_ID)
    (problem,) = repo.repo.fsck(full=True)
    assert "tiles" in problem.where
    assert problem.message == (
        "column 'rast' has a raster that cannot be one, in row 5: band 1 has 5 bytes, but 3 × 2"
        " pixels of PT_8BUI are 6"
    )


def test_fsck_finds_bounds_that_leave_a_raster_out(repo: CheckedRepo, tmp_path: Path) -> None:
    repo.import_(write(tmp_path / "a", tiles(3)), options=BY_ID)
    view = repo.dataset("tiles")
    (entry,) = view.data_entries
    number = view.schema.by_name["rast"].id
    for area, count in ((entry.areas[number], 0), (GeographicBounds(0, 44, 1, 45), 1)):
        check = ValueCheck(replace(entry, areas={number: area}), view.schema)
        check.add(batch_of_tiles(3, view.schema))
        assert len(list(check.problems())) == count
    nowhere = ValueCheck(entry, view.schema)
    nowhere.add(batch_of_tiles(3, view.schema, r1=raster(1, crs=None)))
    assert any("could be anywhere" in line for _, line in nowhere.problems())


def batch_of_tiles(count: int, schema: Schema, **changes: dict[str, Any] | None) -> pa.RecordBatch:
    (batch,) = tiles(count, **changes).to_batches()
    return to_stored(batch, schema)


@pytest.mark.rule("HAV-12")
def test_each_raster_column_owns_a_block_of_ids(filled: CheckedRepo) -> None:
    columns = [
        {"id": "1", "name": "id", "dataType": "integer", "size": 64, "primaryKeyIndex": 0},
        {"id": "2", "name": "photo", "dataType": "raster", "rasterEncoding": "v1"},
        {"name": "more", "dataType": "raster"},
        {"name": "count", "dataType": "integer"},
    ]
    before = filled.dataset("tiles").schema.by_name["rast"]
    filled.set_meta("tiles", {"schema.json": columns})
    view = filled.dataset("tiles")
    kept, added = view.schema.by_name["photo"], view.schema.by_name["more"]
    assert raster_ids(kept) == raster_ids(before)
    ids = raster_ids(added) or ()
    assert ids == tuple(range(ids[0], ids[0] + RASTER_PARTS))
    assert view.last_column_id >= view.schema.last_id >= max(ids)
    found = filled.table("tiles").to_arrow().to_pylist()
    assert [row["photo"] for row in found] == [row["rast"] for row in tiles(20).to_pylist()]
    assert all(row["more"] is None for row in found)


@pytest.mark.rule("HAV-82", "HAV-78")
@pytest.mark.parametrize(
    ("column", "reason"),
    [
        ({"id": "2", "dataType": "raster", "rasterEncoding": "v2"}, "no raster encoding 'v2'"),
        ({"id": "2", "dataType": "blob"}, "cannot change to or from rasters"),
        ({"id": "3", "dataType": "raster"}, "cannot change to or from rasters"),
        ({"id": "3", "dataType": "text", "rasterEncoding": "v1"}, "said of rasters alone"),
        ({"dataType": "geometry", "geometryEncoding": "twkb"}, "no geometry encoding 'twkb'"),
        (
            {"id": "2", "dataType": "struct", "fields": [{"name": "x", "dataType": "text"}]},
            "cannot change to or from rasters",
        ),
    ],
)
def test_an_encoding_is_not_changed_unchecked(
    filled: CheckedRepo, column: dict[str, Any], reason: str
) -> None:
    key = {"id": "1", "name": "id", "dataType": "integer", "size": 64, "primaryKeyIndex": 0}
    with pytest.raises(SchemaViolationError, match=reason) as caught:
        filled.set_meta("tiles", {"schema.json": [key, {"name": "x", **column}]})
    assert "\n" not in str(caught.value.message)
