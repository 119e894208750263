"""GeoJSON of which GDAL would read other values than it has is refused, and says why."""

import json
from pathlib import Path
from typing import Any

import pytest

from havasu_vc.errors import InvalidFileError
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.exchange.sources import open_sources
from tests.exchange.reading import read_all

POINT = {"type": "Point", "coordinates": [1, 2]}


def feature(geometry: Any = POINT, **more: Any) -> dict[str, Any]:
    properties = {name: value for name, value in more.items() if name != "id"}
    ids = {"id": more["id"]} if "id" in more else {}
    return {"type": "Feature", **ids, "properties": properties, "geometry": geometry}


def named(name: str) -> dict[str, Any]:
    return {"crs": {"type": "name", "properties": {"name": name}}}


def written(path: Path, *features: dict[str, Any], **members: Any) -> Path:
    if path.suffix == ".geojsonl":
        path.write_text("".join(json.dumps(each) + "\n" for each in features))
    else:
        whole = {"type": "FeatureCollection", **members, "features": list(features)}
        path.write_text(json.dumps(whole))
    return path


def rows(path: Path, crs: str | None = None) -> list[dict[str, Any]]:
    (source,) = open_sources(str(path), options=SourceOptions(crs=crs))
    found: list[dict[str, Any]] = read_all(source).to_pylist()
    return found


REFUSED: list[tuple[list[dict[str, Any]], str]] = [
    ([feature(a="x\0y")], "NUL"),
    ([feature(d="2024-02-29"), feature(d="2023-02-29")], "2023-02-29"),
    ([feature(d="2024-04-31T12:00:00")], "2024-04-31"),
    ([feature(id=2**40), feature(id=-1)], "id 1099511627776"),
    ([feature({"type": "Blob", "coordinates": [1, 2]}), feature(None)], "1 of its geometries"),
    ([feature({"type": "Point", "coordinates": ["x", 2]})], "1 of its geometries"),
]


@pytest.mark.parametrize("extension", [".geojson", ".geojsonl"])
@pytest.mark.parametrize(("features", "said"), REFUSED)
def test_other_values_are_refused(
    features: list[dict[str, Any]], said: str, extension: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidFileError, match=said):
        rows(written(tmp_path / f"a{extension}", *features))


def test_ids_that_come_twice_are_refused(tmp_path: Path) -> None:
    twice = written(tmp_path / "a.geojson", feature(id=3), feature(id=4), feature(id=3))
    with pytest.raises(InvalidFileError, match="two features have the id 3"):
        rows(twice)


def test_systems_that_are_unknown_are_refused(tmp_path: Path) -> None:
    for crs in (named("EPSG:999999"), {"crs": {"type": "link", "properties": {"href": "x"}}}):
        path = written(tmp_path / "a.geojson", feature(), **crs)
        with pytest.raises(InvalidFileError, match="is unknown") as caught:
            rows(path)
        assert "--crs" in caught.value.hints[0]
        assert len(rows(path, "EPSG:2193")) == 1
    path.write_text(path.read_text()[:-1] + ', "crs": ' + json.dumps(named("X")["crs"]) + "}")
    with pytest.raises(InvalidFileError, match="is unknown"):
        rows(path)


def test_what_only_looks_odd_is_read(tmp_path: Path) -> None:
    crs = named("urn:ogc:def:crs:OGC:1.3:CRS84")
    features = [
        feature(a="x\\u0000", d="2024-02-29", t="2023-02-29", n={"id": 3}, id=3),
        feature(None, a="", d=None, t="no day", n={"id": 3}, id=4, crs={"x": 1}),
        feature({"type": "Point", "coordinates": []}, id=5),
        {"type": "Feature", "properties": {}, "id": 6},
    ]
    found = rows(written(tmp_path / "a.geojson", *features, **crs))
    assert [row["id"] for row in found] == [3, 4, 5, 6]
    assert found[0]["t"] == "2023-02-29" and found[0]["a"] == "x\\u0000"
    assert [row["geom"] is None for row in found] == [False, True, True, True]
