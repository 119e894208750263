"""What lies behind the changes on the map: unchanged rows, footprints of rasters, tiles."""

import http.server
import io
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyproj
import pytest
import shapely

from havasu_vc import Repo
from havasu_vc.errors import InvalidArgumentError
from havasu_vc.geo.raster_v1 import GeoReference, format_rasters
from havasu_vc.geo.raster_v1_pixels import raster_of_pixels
from havasu_vc.model.rasters import raster_field
from havasu_vc.model.schema import Schema
from havasu_vc.review import Page, write_page
from havasu_vc.review.page import collecting
from havasu_vc.review.page.document import Tiles, parse_tiles
from tests.cli.conftest import invoke, succeed
from tests.review.page.conftest import Opened, settle
from tests.review.page.pages import ReadPage, written
from tests.review.page.test_browser import PNG
from tests.support.browser import Tab
from tests.support.git import run_git
from tests.writers.cases import FID, batch, diff_of, header

SIDE = 30
WGS84 = pyproj.CRS("OGC:CRS84").to_wkt()


def cell(column: int, row: int, *, grown: float = 0) -> str:
    return str(shapely.box(column, row, column + 1 + grown, row + 1 + grown).wkt)


def lines(changed: dict[int, str]) -> str:
    """Return a grid of squares as CSV."""
    shapes = {key: cell(key % SIDE, key // SIDE) for key in range(SIDE * SIDE)} | changed
    found = (f'{key},"{shape}"' for key, shape in shapes.items())
    return "\n".join(["id,shape", *found, ""])


@pytest.fixture(scope="module")
def squares(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Squares beside each other, of which a branch changed two."""
    folder = tmp_path_factory.mktemp("squares")
    repo, file = folder / "squares", folder / "squares.csv"
    succeed(invoke(["init", repo]))
    take: list[str | Path] = [
        "-C",
        repo,
        "import",
        file,
        "--primary-key",
        "id",
        "--crs",
        "EPSG:4326",
    ]
    file.write_text(lines({}), "utf-8")
    succeed(invoke([*take, "-m", "First"]))
    run_git("switch", "-q", "-c", "side", cwd=repo)
    changed = {SIDE * 5 + 5: cell(5, 5, grown=0.25), SIDE * 20 + 20: cell(20, 20, grown=0.25)}
    file.write_text(lines(changed), "utf-8")
    succeed(invoke([*take, "--replace", "-m", "Second"]))
    return repo


def page_of(repo: Path) -> str:
    page, out = Page(), io.StringIO()
    review = Repo.open(repo).review("main...side", page=page)
    write_page(out, page, review, more="havasu-vc diff")
    return out.getvalue()


def shown(text: str) -> set[tuple[int, int]]:
    """Return the lower left corners of the unchanged squares of a page."""
    page = ReadPage.of(text)
    around = page.manifest["datasets"][0]["around"]
    if around is None:
        return set()
    x, y = (np.array(page.differences(part)) * 2e-7 for part in around["places"]["places"])
    sizes = page.numbers(around["places"]["counts"])
    assert set(sizes.tolist()) == {5}
    low = [np.rint(axis.reshape(-1, 5).min(axis=1)).astype(int).tolist() for axis in (x, y)]
    found = set(zip(*low, strict=True))
    assert len(found) == around["count"]
    return found


def test_unchanged_neighbours_are_on_the_page(squares: Path) -> None:
    found = shown(page_of(squares))
    for column, row in ((5, 5), (20, 20)):
        beside = {(column + i, row + j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)}
        assert beside <= found
    assert not found & {(5, 5), (20, 20)}
    far = {(x, y) for x, y in found if max(abs(x - 5), abs(y - 5)) > 4}
    assert all(max(abs(x - 20), abs(y - 20)) <= 4 for x, y in far)


def test_beside_many_changes_there_are_none(squares: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "MOST_CHANGES", 1)
    assert shown(page_of(squares)) == set()


def test_of_very_many_neighbours_some_are_shown(
    squares: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = shown(page_of(squares))
    monkeypatch.setattr(collecting, "MOST", 10)
    text = page_of(squares)
    assert shown(text) < whole
    around = ReadPage.of(text).manifest["datasets"][0]["around"]
    assert around["total"] == len(whole)
    assert around["count"] <= 10


def test_they_are_drawn(
    squares: Path, tab: Tab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, pictures = tmp_path / "review.html", []
    for most in (collecting.MOST_CHANGES, 0):
        monkeypatch.setattr(collecting, "MOST_CHANGES", most)
        path.write_text(page_of(squares), "utf-8")
        tab.go(path.as_uri() + f"#squares:{SIDE * 5 + 5}")
        tab.run("document.querySelector('[aria-label^=\"Show on the map\"]').click()")
        settle(tab)
        assert ("unchanged" in tab.text("#legend")) == bool(most)
        pixels = tab.run(
            "[...canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data]"
        )
        pictures.append(np.array(pixels).reshape(-1, 4))
        tab.call("Page.navigate", url="about:blank")
        tab.wait("location.href === 'about:blank'")
    assert (pictures[0] != pictures[1]).any(axis=1).sum() > 500


def test_rasters_are_on_the_map(opened: Opened) -> None:
    field = raster_field(2, "rast", 3)
    schema = Schema((FID, field), (1,))
    side = header(schema, "sheets")
    place = GeoReference.of_affine((0.01, 0, 174, 0, -0.01, -41))
    old, new = (
        raster_of_pixels([np.full((20, 30), value, np.uint8)], place, crs_wkt=WGS84)
        for value in (1, 2)
    )
    rows = format_rasters([old, new]).to_pylist()
    changes = batch(schema, schema, ({"fid": 1, "rast": rows[0]}, {"fid": 1, "rast": rows[1]}))
    diff = diff_of(changes, old=side, new=side)
    page = ReadPage.of(written([diff]))
    places = page.manifest["datasets"][0]["places"]
    assert places["kind"] == "globe"
    assert list(page.raw(places["sides"])) == [3]
    x, y = (np.array(page.differences(part)) * 2e-7 for part in places["places"])
    assert (x.min(), x.max(), y.min(), y.max()) == pytest.approx((174, 174.3, -41.2, -41))


def test_tiles_are_asked_for_where_they_are_wanted_alone(squares: Path, tmp_path: Path) -> None:
    target = tmp_path / "review.html"
    write: list[str | Path] = [
        "-C",
        squares,
        "review",
        "main...side",
        "-o",
        "html",
        "--output",
        target,
    ]
    succeed(invoke(write))
    assert "img-src data:; base-uri" in target.read_text("utf-8")
    run_git("config", "havasu.review.tiles", "https://t.example.org/{z}/{x}/{y}.png", cwd=squares)
    try:
        succeed(invoke(write))
        text = target.read_text("utf-8")
        assert "img-src data: https://t.example.org; base-uri" in text
        assert "default-src 'none'; script-src 'sha256-" in text
        run_git(
            "config", "havasu.review.tiles", "https://e.org/{z}/{x}/{y};script-src *", cwd=squares
        )
        refused = invoke(write)
        assert (refused.exit_code, refused.stderr.count("Error")) == (2, 1)
    finally:
        run_git("config", "--unset", "havasu.review.tiles", cwd=squares)


@pytest.mark.parametrize(
    "url",
    [
        "http://tiles.example.org/{z}/{x}/{y}.png",
        "https://tiles.example.org/{z}/{x}.png",
        "https://tiles.example.org *.evil.org/{z}/{x}/{y}",
        "https://a@b/{z}/{x}/{y}",
        "https://tiles.example.org/{z}/{x}/{y}'\n",
        "javascript:alert(1)/{z}/{x}/{y}",
    ],
)
def test_what_is_no_address_of_tiles_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgumentError):
        parse_tiles(url)


class _Tiles(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "image/png")
        self.end_headers()
        self.wfile.write(PNG)

    def log_message(self, format: str, *args: object) -> None:
        """Be silent."""


@pytest.fixture
def tiles() -> Iterator[Tiles]:
    """A server of tiles, each one point."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Tiles)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield parse_tiles(f"http://127.0.0.1:{server.server_port}/{{z}}/{{x}}/{{y}}.png", "<b>A map")
    server.shutdown()
    server.server_close()


def test_tiles_lie_behind_the_changes(
    only_tab: Tab, tiles: Tiles, squares: Path, tmp_path: Path
) -> None:
    page, out = Page(), io.StringIO()
    review = Repo.open(squares).review("main...side", page=page)
    write_page(out, page, review, more="havasu-vc diff", tiles=tiles)
    path = tmp_path / "review.html"
    path.write_text(out.getvalue(), "utf-8")
    only_tab.forget()
    only_tab.go(path.as_uri())
    only_tab.wait("performance.getEntriesByType('resource').length > 2")
    asked = [each for each in only_tab.requests if not each.startswith(("file:", "data:"))]
    assert asked
    assert all(each.startswith(tiles.origin + "/") for each in asked)
    assert only_tab.text("#tiles-words") == "<b>A map"
    assert only_tab.problems == []
    only_tab.forget()
