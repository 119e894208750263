"""A statistics office: counties that are divided, joined and moved over the years.

Each year's release is a GeoPackage of all counties, as such offices publish them. People ask then
what became of one, where a border moved, and how it was in another year.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely

from tests.cli.conftest import invoke
from tests.weeks.week import Row, Rows, User, compared, made_by_kart

LAYER = "nz_waca_adjustments"
geopandas = pytest.importorskip("geopandas")


def shape(row: Row) -> Any:
    return shapely.from_wkb(bytes.fromhex(row["geom"]))


def county(key: int, geometry: Any, name: str) -> Row:
    many = geometry if geometry.geom_type == "MultiPolygon" else shapely.MultiPolygon([geometry])
    return {"id": key, "geom": shapely.to_wkb(many, hex=True, byte_order=1), "name": name}


def publish(file: Path, model: Rows) -> Path:
    """Write a year's release, in an order of its own."""
    rows = sorted(model.values(), key=lambda row: row["name"])
    frame = geopandas.GeoDataFrame(
        {"id": [row["id"] for row in rows], "name": [row["name"] for row in rows]},
        geometry=[shape(row) for row in rows],
        crs="EPSG:4167",
    ).rename_geometry("geom")
    file.unlink(missing_ok=True)
    frame.to_file(file, layer="counties", driver="GPKG")
    return file


def halves(geometry: Any) -> tuple[Any, Any]:
    west, south, east, north = geometry.bounds
    middle = (west + east) / 2
    parts = shapely.box(west, south, middle, north), shapely.box(middle, south, east, north)
    one, other = (shapely.intersection(geometry, part) for part in parts)
    return one, other


class Office(User):
    def takes(self, file: Path, *options: str) -> str:
        # The file's own number of a row is another in each release.
        return self.does("import", file, "counties", "--leave-out", "fid", *options).output

    def holds(self, model: Rows, revision: str = "HEAD") -> None:
        """Hold a year against the model: names by value, shapes vertex by vertex."""
        found = self.rows("counties", revision)
        assert found.keys() == model.keys()
        for key, row in model.items():
            assert found[key]["name"] == row["name"]
            assert shape(found[key]).normalize() == shape(row).normalize()

    def moved(self, before: Rows, after: Rows, spec: str) -> None:
        assert self.changed("counties", spec) == compared(before, after)


@pytest.mark.thorough
def test_a_week(tmp_path: Path, shared_data: Path) -> None:
    kart = User(made_by_kart(shared_data, "polygons", tmp_path / "kart"), "id")
    model: Rows = {
        key: county(key, shape(row), f"County {number}")
        for number, (key, row) in enumerate(sorted(kart.rows(LAYER).items()))
    }
    assert len(model) > 200
    file = tmp_path / "counties.gpkg"
    assert invoke(["init", tmp_path / "office"]).exit_code == 0
    office = Office(tmp_path / "office")
    years: dict[str, Rows] = {}

    def release(year: str, *options: str) -> None:
        publish(file, model)
        office.takes(file, "-m", f"Counties of {year}", *options)
        office.does("tag", year)
        years[year] = dict(model)
        office.holds(model)

    # Monday: the first year. Its key is the office's number, not the file's row, as it is told.
    publish(file, model)
    tried = office.does("import", file, "counties", "--primary-key", "id", "--dry-run").output
    assert "--leave-out fid" in tried
    release("1990", "--primary-key", "id")
    keys = sorted(model)
    told = office.does("describe", "counties").stdout
    assert "key: id" in told and "EPSG:4167" in told

    # Tuesday: one is divided; the west keeps the number, the east has a new one.
    big = max(model, key=lambda key: shape(model[key]).area)
    west, east = halves(shape(model[big]))
    model[big] = county(big, west, model[big]["name"])
    model[9_000_001] = county(9_000_001, east, "East County")
    release("2000", "--replace")
    office.moved(years["1990"], model, "1990...2000")

    # Wednesday: two are joined, one is renamed, and nothing else may change.
    first, second = [key for key in keys if key != big][:2]
    joined = shapely.union(shape(model[first]), shape(model[second]))
    model[first] = county(first, joined, "Joined County")
    del model[second]
    model[keys[-1]] = {**model[keys[-1]], "name": "Ōtākou"}
    release("2010", "--replace")
    office.moved(years["2000"], model, "2000...2010")
    said = json.loads(office.does("diff", "2000...2010", "-o", "geojson").stdout)
    ids = {each["properties"]["id"] for each in said["features"]}
    assert ids == {first, second, keys[-1]}

    # The same release once more changes nothing, whatever the order of its rows and vertices.
    head = office.does("log", "-1", "--format", "%H").stdout
    office.takes(publish(file, dict(reversed(model.items()))), "--replace")
    assert office.does("log", "-1", "--format", "%H").stdout == head

    # Thursday: a border is corrected in a branch while another office renames what it borders.
    office.does("switch", "-c", "border")
    moved = shapely.transform(shape(model[big]), lambda at: at + np.array([0.001, 0]))
    theirs = {**model, big: county(big, moved, model[big]["name"])}
    office.takes(publish(file, theirs), "--replace", "-m", "A border")
    office.does("switch", "main")
    model[big] = {**model[big], "name": "West County"}
    office.takes(publish(file, model), "--replace", "-m", "A name")
    page = tmp_path / "border.html"
    office.does("review", "main...border", "-o", "html", "--output", page)
    assert "A border" in page.read_text("utf-8")
    office.does("merge", "border", "-m", "The border")
    model[big] = county(big, moved, "West County")
    office.holds(model)
    years["2020"] = dict(model)
    office.does("tag", "2020")

    # Friday: what people ask.
    for year, then in years.items():
        office.holds(then, year)
        assert int(office.does("count", f"counties@{year}").stdout.split()[-1]) == len(then)
    told = office.does("log", "--format", "%s", "--", f"counties:feature:{big}").stdout
    assert {"A name", "A border", "Counties of 2000", "Counties of 1990"} <= set(told.splitlines())
    assert not {"Counties of 2010", "Back again"} & set(told.splitlines())
    blamed = office.does("blame", f"counties:feature:{big}").stdout.split()[0]
    said = office.does("log", "-1", "--format", "%s", blamed).stdout.strip()
    assert said in ("A name", "A border", "The border")
    assert "Counties of 2010" in office.does("log", "-S", "Ōtākou", "--format", "%s").stdout
    office.does("export", "counties@1990", tmp_path / "then.parquet")
    then = geopandas.read_parquet(tmp_path / "then.parquet").set_index("id")
    assert {key: row["name"] for key, row in years["1990"].items()} == dict(then["name"])
    areas = shapely.area(then.geometry.to_numpy())
    assert areas.sum() == pytest.approx(sum(shape(row).area for row in years["1990"].values()))
    # What was joined comes back as it was, if anybody wants it.
    office.does("restore", "-s", "2000", f"counties:feature:{second}", "-m", "Back again")
    model[second] = years["2000"][second]
    office.holds(model)
    office.does("fsck", "--full")
