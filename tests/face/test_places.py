"""Rows and commits by a box on the map, and two revisions beside each other."""

import base64
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import invoke, succeed
from tests.face.conftest import ROWS, Served, points
from tests.face.test_page import shown
from tests.support.browser import Tab
from tests.support.rasters import ortho_folder

IN_SIGHT = (
    "(() => { const row = document.querySelector('tr[aria-selected=true]');"
    "const grid = document.querySelector('.grid').getBoundingClientRect();"
    "const { top, bottom } = row?.getBoundingClientRect() ?? { top: -1 };"
    "return grid.top < top && bottom <= grid.bottom; })()"
)
"""Whether the chosen row is in sight."""

# Points have the longitude 174.5 + i / 1000 and the latitude -41 - i / 2000.
THIRD = "174.5029,-41.0016,174.5031,-41.0014"


@pytest.mark.thorough
def test_rows_in_a_box(served: Served) -> None:
    found = served.get("rows", dataset="points", box=THIRD)
    assert (found["total"], found["keys"]) == (1, ["3"])
    wide = "174.5099,-42,174.6001,-40"
    found = served.get("rows", dataset="points", box=wide, start=80, count=5)
    assert found["total"] == 91
    assert found["keys"] == ["90", "91", "92", "93", "94"]
    assert served.get("rows", dataset="points", box=wide, key="50", count=2)["keys"][1] == "50"
    assert served.get("rows", dataset="points", box="0,0,1,1")["total"] == 0
    assert served.get("rows", dataset="lamps", box=wide)["total"] == 0


@pytest.mark.parametrize("box", ["1,2,3", "a,b,c,d", "1,5,2,4", "nan,0,1,1", "0,0,inf,1"])
def test_what_is_no_box_is_refused(served: Served, box: str) -> None:
    for what in ("rows?dataset=points", "history?at=main", "places?dataset=points"):
        assert served.ask(f"/api/v1/{what}&box={box}")[0] == 400


def test_commits_by_place_and_by_row(served: Served) -> None:
    def subjects(**query: str) -> list[str]:
        return [each["subject"] for each in served.get("history", **query)["commits"]]

    assert subjects(box=THIRD) == ["Names of two", "First points"]
    assert subjects(box="174.5069,-41.0036,174.5071,-41.0034", at="side") == [
        "Seven",
        "First points",
    ]
    assert subjects(box="0,0,1,1") == []
    assert subjects(box=THIRD, dataset="lamps") == []
    assert subjects(dataset="points", key="200") == ["Names of two", "First points"]
    assert served.ask("/api/v1/history?key=3")[0] == 400


def test_places_are_shapes_or_counts(served: Served) -> None:
    found = served.get("places", dataset="points")
    assert (found["kind"], found["total"], len(found["keys"])) == ("globe", ROWS, ROWS)
    assert found["box"] == pytest.approx([174.501, -41.125, 174.75, -41.0005])
    few = served.get("places", dataset="points", count=100)
    assert few["shapes"] is None
    assert sum(count for _, _, count in few["cells"]) == ROWS
    assert all(0 <= i < few["grid"][0] and 0 <= j < few["grid"][1] for i, j, _ in few["cells"])
    # They run from the north-west to the south-east.
    assert {(0, 47), (71, 0)} <= {(i, j) for i, j, _ in few["cells"]}
    assert (0, 0) not in {(i, j) for i, j, _ in few["cells"]}
    assert served.get("places", dataset="lamps")["total"] == 0


@pytest.mark.thorough
def test_own_coordinates_have_places_too(serving: Callable[[Path], Served], tmp_path: Path) -> None:
    repo, file = tmp_path / "own", tmp_path / "own.geojsonl.csv"
    succeed(invoke(["init", repo]))
    file.write_text("id,wkt\n1,POINT (10 20)\n2,POINT (500000 7)\n3,\n", encoding="utf-8")
    succeed(invoke(["-C", repo, "import", file, "own", "--primary-key", "id", "-m", "Own"]))
    served = serving(repo)
    served.enter()
    columns = served.get("dataset", dataset="own")["columns"]
    assert any(each["geometry"] for each in columns)
    found = served.get("places", dataset="own")
    assert (found["kind"], found["total"], found["box"]) == ("own", 2, [10, 7, 500000, 20])
    assert served.get("rows", dataset="own", box="0,0,100,100")["keys"] == ["1"]


def test_a_person_draws_a_box(page: Tab, serving: Callable[[Path], Served], repo: Path) -> None:
    served = serving(repo)
    page.go(served.address)
    shown(page, served, "data?dataset=points")
    page.wait("document.querySelector('.chart').dataset.drawn >= 250")
    page.run("document.querySelector('.box-tools button').click()")
    x, y, width, height = page.run(
        "(() => { const b = document.querySelector('.chart').getBoundingClientRect();"
        "return [b.x, b.y, b.width, b.height]; })()"
    )
    page.mouse("mousePressed", x + 3, y + 3)
    page.mouse("mouseMoved", x + width / 3, y + height / 3)
    page.mouse("mouseMoved", x + width / 2, y + height / 2)
    page.mouse("mouseReleased", x + width / 2, y + height / 2)
    page.wait("location.hash.includes('box=')")
    page.wait("document.querySelector('.foot')?.innerText.includes('in the box')")
    text = page.text(".foot")
    assert 80 < int(text.split(" of ")[1].split()[0]) < 180, text
    # And by the keyboard: everywhere again, then what is in sight.
    page.key("b")
    everywhere = "/of 250/.test(t) && !/in the box/.test(t)"
    page.wait(f"((t) => {everywhere})(document.querySelector('.foot')?.innerText ?? '')")
    page.wait("document.querySelector('.chart').dataset.drawn >= 250")
    page.key("b")
    page.wait("document.querySelector('.foot')?.innerText.includes('250 in the box')")
    # The same box serves the history.
    shown(page, served, f"history?box={THIRD}")
    page.wait("document.querySelectorAll('.commit').length === 2")
    assert "First points" in page.text(".commits")


def test_two_revisions_are_swiped(
    page: Tab, serving: Callable[[Path], Served], tmp_path: Path
) -> None:
    repo, file = tmp_path / "moved", tmp_path / "points.csv"
    succeed(invoke(["init", repo]))
    take: list[str | Path] = ["-C", repo, "import", file, "--primary-key", "id"]
    take += ["--crs", "EPSG:4326"]
    points(file, rows=30)
    succeed(invoke([*take, "-m", "First"]))
    succeed(invoke(["-C", repo, "branch", "old"]))
    text = file.read_text("utf-8").replace("7,name 7,174.507", "7,name 7,174.508")
    file.write_text(text, encoding="utf-8")
    succeed(invoke([*take, "--replace", "-m", "Seven moves"]))
    served = serving(repo)
    page.go(served.address)
    shown(page, served, "data?dataset=points&against=old")
    page.wait("document.querySelector('.chart-note')?.innerText.startsWith('Left 30 rows')")
    assert page.run("document.querySelector('.swipe').getAttribute('aria-valuenow')") == "50"
    page.key("s", "ArrowRight", "ArrowRight")
    assert page.run("document.querySelector('.swipe').getAttribute('aria-valuenow')") == "60"
    page.key("Home")
    assert page.run("document.querySelector('.swipe').getAttribute('aria-valuenow')") == "0"
    assert page.text(".pane-name.right") == "old"


def test_what_differs_is_told_by_row(
    page: Tab, serving: Callable[[Path], Served], repo: Path
) -> None:
    served = serving(repo)
    served.enter()
    found = served.get("differing", dataset="points", against="side")
    assert found == {"keys": ["7"], "more": False}
    assert served.get("differing", dataset="points", at="side", against="side")["keys"] == []
    served = serving(repo)
    page.go(served.address)
    # The address of a row leads there however far down it is, with both values where they differ.
    for row in ("7", "200", "61&box=174.5,-42,174.7001,-40"):
        shown(page, served, f"data?dataset=points&against=side&row={row}")
        page.wait("document.querySelector('.past h3')")
        page.wait(IN_SIGHT)
        assert ("\u2192 seven" in page.text(".past")) == (row == "7")
        # And stays in sight when the window gets lower.
        page.resize(800, 600)
        page.wait(f"innerHeight === 600 && {IN_SIGHT}")
        page.resize(1280, 860)
    page.wait("document.querySelector('.chart-note')?.innerText.startsWith('Left 250 rows')")


def test_rasters_lie_where_they_cover(
    page: Tab, serving: Callable[[Path], Served], tmp_path: Path
) -> None:
    repo = tmp_path / "flights"
    succeed(invoke(["init", repo]))
    take: list[str | Path] = ["-C", repo, "import", "--replace", tmp_path / "sheets", "orthos"]
    for changed, message in ((False, "First flight"), (True, "Second flight")):
        ortho_folder(tmp_path, changed=changed)
        succeed(invoke([*take, "-m", message]))
    served = serving(repo)
    served.enter()
    about = served.get("dataset", dataset="orthos")
    assert about["placed"]
    assert not any(each["geometry"] for each in about["columns"])
    found = served.get("places", dataset="orthos")
    assert (found["kind"], found["total"], found["keys"][1]) == ("globe", 3, "sheet_1.tif")
    (kind, x, y) = found["shapes"]["rows"][1][0]
    assert (kind, len(x)) == (2, 4)
    # Five hundred metres across and seven hundred up, by the grid of EPSG:2193.
    assert (max(x) - min(x)) * 111_320 * np.cos(np.radians(y[0])) == pytest.approx(500, rel=0.02)
    assert (max(y) - min(y)) * 111_050 == pytest.approx(700, rel=0.02)
    middle = ((x[0] + x[1]) / 2, (y[0] + y[2]) / 2)
    box = ",".join(map(str, (middle[0] - 1e-4, middle[1] - 1e-4, middle[0] + 1e-4, middle[1])))
    assert served.get("rows", dataset="orthos", box=box)["keys"] == ["sheet_1.tif"]
    assert served.get("places", dataset="orthos", box="0,0,1,1")["total"] == 0
    # Of commits those that changed a raster there: the second changed the one in the middle.
    told = [each["subject"] for each in served.get("history", box=box)["commits"]]
    assert told == ["Second flight", "First flight"]
    west = f"{min(x) - 0.005},{min(y)},{min(x) - 0.004},{max(y)}"
    told = [each["subject"] for each in served.get("history", box=west)["commits"]]
    assert told == ["First flight"]
    extent = served.get("overview")["datasets"][0]["extent"]
    every = [
        path for row in served.get("places", dataset="orthos")["shapes"]["rows"] for path in row
    ]
    assert extent[0] == pytest.approx(min(min(each[1]) for each in every))
    assert extent[3] == pytest.approx(max(max(each[2]) for each in every))
    # Pictures of both revisions, and of where they differ; which rasters do is told by row.
    asked = {"dataset": "orthos", "at": "HEAD^", "against": "HEAD"}
    assert served.get("differing", **asked) == {"keys": ["sheet_1.tif"], "more": False}
    found = served.get("pictures", key="sheet_1.tif", **asked)["pictures"]
    assert [each["side"] for each in found] == ["before", "after", "difference"]
    assert base64.b64decode(found[2]["png"]).startswith(b"\x89PNG")
    assert "10 of" in found[2]["words"]
    (alone,) = served.get("pictures", dataset="orthos", key="sheet_1.tif")["pictures"]
    assert alone["png"] == found[1]["png"] != found[0]["png"]
    assert served.ask("/api/v1/pictures?dataset=orthos&key=none")[0] == 404
    # The address was used up above; another server has another.
    page.go(serving(repo).address)
    page.run("void (location.hash = '#/data?dataset=orthos&against=HEAD%5E&row=sheet_1.tif')")
    page.wait("document.querySelectorAll('.past .pictures img').length === 3")
    page.wait("document.querySelector('.past .pictures img').naturalWidth > 40")
    # On the map the middle one has its colours on either side of the line.
    page.run("document.querySelector('.swipe').focus()")
    seen = []
    for side in ("Home", "End"):
        page.key(side)
        page.wait("document.querySelector('.chart')?.dataset.pictures === '6'")
        page.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        seen.append(page.run("document.querySelector('.chart canvas').toDataURL()"))
    assert seen[0] != seen[1]
    page.run("void (location.hash = '#/data?dataset=orthos&row=sheet_2.tif')")
    page.wait("document.querySelector('.chart')?.dataset.drawn === '3'")
    page.wait("document.querySelector('.past h2')?.innerText === 'sheet_2.tif'")


@pytest.mark.thorough
def test_a_dataset_that_keeps_no_bounds_is_on_the_small_map(
    page: Tab, serving: Callable[[Path], Served], tmp_path: Path
) -> None:
    repo, file = tmp_path / "kart", tmp_path / "points.csv"
    succeed(invoke(["init", "--kart", repo]))
    points(file, rows=5)
    take: list[str | Path] = ["-C", repo, "import", file, "--primary-key", "id"]
    succeed(invoke([*take, "--crs", "EPSG:4326", "-m", "Points"]))
    served = serving(repo)
    page.go(served.address)
    page.wait("document.querySelector('[aria-label=Map] .chart')?.dataset.drawn === '1'")
