"""The page in a real browser: counts, filters, links, keyboard, map and table together."""

import base64
import json
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import shapely

from havasu_vc.geo.raster_v1 import GeoReference, format_rasters
from havasu_vc.geo.raster_v1_pixels import raster_of_pixels
from havasu_vc.model.arrow import arrow_field
from havasu_vc.model.diffs import MetaChange
from havasu_vc.model.rasters import raster_field
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Struct
from havasu_vc.review.page import PageLimits, Picture
from havasu_vc.review.page.raster_pictures import raster_pictures
from havasu_vc.review.report import DatasetFacts
from tests.review.page.conftest import Opened, settle
from tests.review.page.pages import many, places, written
from tests.support.browser import Tab
from tests.writers.cases import CASES, FID, NAME, batch, diff_of, header

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def point(x: float, y: float) -> bytes:
    return bytes(shapely.to_wkb(shapely.Point(x, y)))


def polygon(*vertices: tuple[float, float]) -> bytes:
    return bytes(shapely.to_wkb(shapely.Polygon(vertices)))


def shown(tab: Tab) -> int:
    """Return how many rows pass the filter."""
    return int(tab.text("#shown").split()[0].replace(",", ""))


def counted(tab: Tab, selector: str) -> list[int]:
    texts = tab.run(
        f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.textContent)"
    )
    return [int("".join(filter(str.isdigit, text))) for text in texts]


def choose(tab: Tab, select: str, option: str) -> None:
    """Choose the option of a list that begins so."""
    tab.run(
        f"(() => {{ const s = document.getElementById({json.dumps(select)});"
        f"const o = [...s.options].find((o) => o.text.startsWith({json.dumps(option)}));"
        "s.value = o.value; s.dispatchEvent(new Event('change')); })()"
    )


def first_rows(tab: Tab, count: int = 3) -> list[str]:
    found = tab.run(
        "[...document.querySelectorAll('#table-body .row')]"
        ".sort((a, b) => a.ariaRowIndex - b.ariaRowIndex)"
        ".map((row) => row.querySelector('.key').textContent)"
    )
    return list(found[:count])


def colours(tab: Tab) -> dict[str, int]:
    """Return how many pixels of the map have about the colour of each role."""
    found: dict[str, int] = tab.run(
        """(() => {
        const style = getComputedStyle(document.documentElement);
        const canvas = document.getElementById("canvas");
        const copy = new OffscreenCanvas(canvas.width, canvas.height)
          .getContext("2d", { willReadFrequently: true });
        copy.drawImage(canvas, 0, 0);
        const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
        const found = {};
        for (const role of ["inserted", "deleted", "before", "after"]) {
          const hex = style.getPropertyValue("--map-" + role).trim();
          const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
          found[role] = 0;
          for (let i = 0; i < data.length; i += 4)
            if (Math.abs(data[i] - r) + Math.abs(data[i + 1] - g) + Math.abs(data[i + 2] - b) < 80)
              found[role]++;
        }
        return found;
      })()"""
    )
    return found


@pytest.mark.parametrize("case", CASES)
def test_every_kind_of_diff_opens_with_its_counts(opened: Opened, case: str) -> None:
    found = [each.counts for diff in CASES[case]() for each in diff.changes]
    wanted = [
        sum(each.inserts for each in found),
        sum(each.updates for each in found),
        sum(each.deletes for each in found),
    ]
    tab = opened(CASES[case]())

    assert counted(tab, "#kinds button") == wanted
    assert counted(tab, "#sums .chip") == wanted
    assert counted(tab, ".tiles .big")[:3] == wanted
    assert shown(tab) == sum(wanted)
    assert tab.run("document.querySelectorAll('#table-body .row').length") == sum(wanted)


@pytest.mark.smoke
def test_filters_agree_with_the_diff(opened: Opened) -> None:
    tab = opened([many(1000), many(500, "lamps")])
    assert counted(tab, "#kinds button") == [150, 1200, 150]
    tab.click("#kinds button:nth-child(2)")
    assert shown(tab) == 300
    tab.click("#kinds button:nth-child(2)")
    choose(tab, "dataset", "lamps")
    assert shown(tab) == 500
    choose(tab, "column", "geom")
    assert shown(tab) == sum(1 for i in range(500) if i % 2 == 0)
    choose(tab, "column", "number 2")
    assert shown(tab) == 0
    assert tab.run("document.getElementById('no-rows').hidden") is False
    tab.click("#clear")
    assert shown(tab) == 1500
    tab.run("document.getElementById('text').focus()")
    tab.key(*"J SQUARE")
    tab.wait("document.getElementById('shown').textContent.startsWith('1,500') === false")
    wanted = sum(1 for n in (1000, 500) for i in range(n) if i % 26 == 9 and i % 10 != 7)
    assert shown(tab) == wanted


def test_flags_lead_to_their_rows(opened: Opened) -> None:
    schema = Schema((FID, NAME), (1,))
    side = header(schema)
    twins = [(None, {"fid": number, "name": "same"}) for number in range(3)]
    other = ({"fid": 7, "name": "a"}, {"fid": 7, "name": "b"})
    tab = opened([diff_of(batch(schema, schema, *twins, other), old=side, new=side)])

    assert "2 rows inserted that equal another" in tab.text("#datasets .callout")
    tab.click("#datasets .callout button")
    assert shown(tab) == 2
    assert first_rows(tab) == ["1", "2"]
    choose(tab, "flag", "Any")
    choose(tab, "order", "Flagged")
    assert first_rows(tab, 4) == ["1", "2", "0", "7"]


def test_a_link_leads_to_its_row(opened: Opened) -> None:
    tab = opened([many(300), many(300, "a/lamps: 50%")], hash="#a/lamps%3A%2050%25:42")

    assert tab.text("#detail h2").replace("\n", "").startswith("a/lamps: 50% : 42")
    assert tab.run("document.querySelector('[aria-selected=true] .key').textContent") == "42"
    tab.run("void (location.hash = '#trees:7')")
    tab.wait("document.querySelector('#detail h2').textContent.startsWith('trees : 7')")
    assert tab.run("document.querySelector('#detail a').getAttribute('href')") == "#trees:7"
    tab.run("void (location.hash = '#trees:9999')")
    tab.wait("document.getElementById('said').textContent.includes('not on the page')")


def test_old_and_new_stand_side_by_side_with_what_differs(opened: Opened) -> None:
    schema = Schema((FID, NAME), (1,))
    side = header(schema)
    changes: list[tuple[dict[str, Any] | None, dict[str, Any] | None]] = [
        ({"fid": 1, "name": "12 Cuba Street, City"}, {"fid": 1, "name": "12 Cuba St, City"}),
        ({"fid": 2, "name": None}, {"fid": 2, "name": ""}),
        ({"fid": 3, "name": "\u202eevil\x00 \U0001f600"}, None),
    ]
    tab = opened([diff_of(batch(schema, schema, *changes), old=side, new=side)], hash="#roads:1")

    assert tab.text("#detail del") == "reet"
    assert tab.run("document.querySelectorAll('#detail ins').length") == 0
    tab.key("j")
    assert [each.strip() for each in tab.text("#detail tbody").split("\t")[1:]] == [
        "null",
        "empty text",
    ]
    tab.key("j")
    assert tab.text("#detail tr:nth-child(2) td") == "RLOevil\u2400 \U0001f600"
    assert tab.text("#detail .badge") == "deleted"


def test_next_and_previous_move_list_map_and_detail_together(opened: Opened) -> None:
    apart = [(None, point(20.0 * number, 10.0)) for number in range(4)]
    tab = opened([places(*apart)])
    tab.key("j", "z")
    ringed = """(() => {
      const { width, height } = canvas;
      const often = { willReadFrequently: true };
      const copy = new OffscreenCanvas(width, height).getContext("2d", often);
      copy.drawImage(canvas, 0, 0);
      const { data } = copy.getImageData(0, 0, width, height);
      let count = 0;
      for (let i = 0; i < data.length; i += 4)
        if (data[i] === 0x17 && data[i + 1] === 0x20 && data[i + 2] === 0x33) count++;
      return count;
    })()"""
    for key, row in (("j", 1), ("j", 2), ("k", 1)):
        settle(tab)
        tab.key(key)
        settle(tab)
        assert tab.text("[aria-selected=true] .key") == f"row {row}"
        assert tab.text("#detail h2") == f"places : row {row}\ninserted"
        # Rows are thousands of kilometres apart: the ring is in sight where the map went along.
        assert tab.run(ringed) > 10, row


def test_keyboard(opened: Opened) -> None:
    tab = opened([many(200)])
    tab.run("document.getElementById('table').focus()")
    tab.key("ArrowDown", "ArrowDown", "ArrowDown")
    assert tab.run("location.hash") == "#trees:2"
    tab.key("End")
    assert tab.run("location.hash") == "#trees:199"
    tab.key("Enter")
    assert tab.run("document.activeElement.closest('#detail') !== null")
    tab.key("k", "Escape")
    assert tab.run("document.getElementById('detail').hidden")
    tab.key("/")
    assert tab.run("document.activeElement.id") == "text"
    tab.key("Escape", "1", "2")
    assert shown(tab) == 20
    tab.key("2", "?")
    assert tab.run("document.getElementById('help').open")
    tab.key("Escape")
    assert not tab.run("document.getElementById('help').open")
    tab.run("document.getElementById('map').focus()")
    before = tab.text("#scale")
    tab.key("+", "+", "+", "+")
    settle(tab)
    assert tab.text("#scale") != before
    tab.key("0", "Enter")
    assert tab.run("location.hash").startswith("#trees:")
    tab.key("m", "m", "m")
    settle(tab)
    tab.run("document.getElementById('swipe').focus()")
    tab.key("ArrowRight", "Home")
    settle(tab)
    assert tab.run("document.getElementById('swipe').ariaValueNow") == "0"


def test_every_control_can_be_reached_by_tab(opened: Opened) -> None:
    tab = opened([many(50)], hash="#trees:2")
    tab.run("document.body.focus()")
    seen = set()
    for _ in range(60):
        tab.key("Tab")
        seen.add(tab.run("document.activeElement.id || document.activeElement.tagName"))
    assert {"text", "column", "order", "map", "zoom-in", "table", "detail", "theme"} <= seen


def test_map_and_table_point_at_each_other(opened: Opened) -> None:
    tab = opened([places((point(1, 1), None), (None, point(2, 2)), (point(0, 0), point(0, 3)))])
    box = tab.run(
        "(({x, y, width, height}) => [x, y, width, height])(canvas.getBoundingClientRect())"
    )
    tab.run("document.getElementById('map').scrollIntoView()")
    settle(tab)
    box = tab.run(
        "(({x, y, width, height}) => [x, y, width, height])(canvas.getBoundingClientRect())"
    )
    # The extent is two degrees by three around the middle, and fills 80 % of the height.
    degree = box[3] * 0.8 / 3
    middle = (box[0] + box[2] / 2, box[1] + box[3] / 2)
    spot = (middle[0] + degree, middle[1] - 0.5 * degree)
    tab.mouse("mousePressed", *spot)
    tab.mouse("mouseReleased", *spot)
    assert tab.run("location.hash") == "#places:row%201"
    assert tab.run("document.querySelector('[aria-selected=true] .key').textContent") == "row 1"
    tab.click("#table-body .row:nth-child(1)")
    assert tab.run("location.hash") == "#places:row%200"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_map_shows_before_and_after(opened: Opened, tab: Tab, theme: str) -> None:
    tab.prefers(color_scheme=theme)
    square = ((0.0, 0.0), (0.0, 1.0), (1.0, 1.0), (1.0, 0.0))
    opened(
        [
            places(
                (polygon(*square), polygon(*square[:3], (2.0, -1.0))),
                (point(2, 2), None),
                (None, point(-1, 2)),
            )
        ]
    )
    tab.run("document.getElementById('explorer').scrollIntoView()")
    settle(tab)
    both = colours(tab)
    assert all(both.values()), both
    tab.click("#modes label:nth-of-type(2)")
    settle(tab)
    before = colours(tab)
    assert (before["inserted"], before["after"]) == (0, 0)
    assert before["deleted"] and before["before"]
    tab.click("#modes label:nth-of-type(3)")
    settle(tab)
    after = colours(tab)
    assert (after["deleted"], after["before"]) == (0, 0)
    assert after["inserted"] and after["after"]
    for mode in (4, 6):
        tab.click(f"#modes label:nth-of-type({mode})")
        settle(tab)
        assert colours(tab)["before"]
        assert tab.text("#pane-before") == "Before"


def test_blinking_keeps_still_where_motion_is_unwelcome(opened: Opened, tab: Tab) -> None:
    tab.prefers(reduced_motion="reduce")
    opened([places((point(1, 1), point(2, 2)))])
    tab.click("#modes label:nth-of-type(5)")
    settle(tab)
    tab.run("new Promise((done) => setTimeout(done, 1000))")
    assert tab.run("document.getElementById('pane-before').hidden")
    tab.key("b")
    settle(tab)
    assert tab.text("#pane-before") == "Before"


def test_vertices_that_moved_are_told(opened: Opened) -> None:
    square = ((0.0, 0.0), (0.0, 1.0), (1.0, 1.0), (1.0, 0.0))
    tab = opened(
        [places((polygon(*square), polygon(*square[:3], (2.0, -1.0))))], hash="#places:row%200"
    )
    assert "1 vertex moved" in tab.text("#detail .facts")


def test_a_change_around_the_antimeridian_is_in_one_place(opened: Opened) -> None:
    line = bytes(shapely.to_wkb(shapely.LineString([(179.9, -44), (-179.9, -44.1)])))
    tab = opened([places((None, point(179.95, -44)), (point(-179.95, -44), None), (None, line))])
    settle(tab)
    assert tab.text("#scale").endswith("km")
    assert int(tab.text("#scale").split()[0]) <= 5


@pytest.mark.parametrize("crs", [None, "EPSG:999999"])
def test_unknown_coordinates_are_shown_as_they_are(opened: Opened, crs: str | None) -> None:
    tab = opened(
        [places((point(1e7, 5), point(1e7, 9)), crs=crs), places((point(1, 1), None), path="b")]
    )
    assert "Choose places" in tab.text("#map-note")
    assert not tab.run("document.getElementById('locator').hidden")
    choose(tab, "dataset", "places")
    settle(tab)
    assert "system of places is not known" in tab.text("#map-note")
    assert tab.run("document.getElementById('locator').hidden")
    assert tab.text("#scale").endswith("units")


def test_places_that_are_none_do_no_harm(opened: Opened) -> None:
    nan = struct.pack("<BI2d", 1, 1, float("nan"), 5)
    odd = [
        nan,
        b"\x01\x02",
        point(1e300, -1e300),
        point(500, 95),
        bytes(shapely.to_wkb(shapely.Point())),
    ]
    tab = opened([places(*((each, point(1, 2)) for each in odd), *((None, each) for each in odd))])
    assert shown(tab) == 10
    settle(tab)
    tab.run("void (location.hash = '#places:row%206')")
    tab.wait("document.querySelector('#detail tbody')?.textContent.includes('unreadable geometry')")


def test_a_page_without_summary_or_places(opened: Opened) -> None:
    schema = Schema((FID, NAME), (1,))
    side = header(schema)
    diff = diff_of(batch(schema, schema, (None, {"fid": 1, "name": "a"})), old=side, new=side)
    tab = opened([diff], summary=False)
    assert tab.run("document.getElementById('summary').hidden")
    assert not tab.run("document.querySelector('.map-pane').checkVisibility()")
    assert tab.text("#shown") == "1 changed row"
    tab.key("j")
    table, detail = tab.run(
        "['table', 'detail'].map((id) => document.getElementById(id).getBoundingClientRect().x)"
    )
    assert detail > table, "they stand side by side where the map would be"


def test_a_change_without_rows(opened: Opened) -> None:
    schema = Schema((FID, NAME), (1,))
    described = header(schema, title="A title")
    tab = opened(
        [diff_of(old=header(schema), new=described, meta=(MetaChange("title", None, "A title"),))]
    )
    visible = "[...document.querySelectorAll('.tools, .panes')].filter((e) => e.checkVisibility())"
    assert tab.run(f"{visible}.length") == 0
    assert tab.text("#no-changes") == "No row changes."
    for key in "jkzfmb123/":
        tab.key(key)


def test_places_alone_are_headed(opened: Opened) -> None:
    tab = opened([many(20), places((point(1, 2), point(1, 2)))])
    heads = tab.run(
        "[...document.querySelectorAll('.card section')].filter((e) => e.children.length < 2"
        " || !e.children[1].textContent.trim()).map((e) => e.textContent)"
    )
    assert heads == []


def test_many_deletes_lead_to_the_deleted_rows(opened: Opened) -> None:
    deleted = [(point(n, 2), None) for n in range(12)]
    tab = opened([places(*deleted, (None, point(1, 1)))], facts=DatasetFacts(100))
    assert "12 rows are deleted" in tab.text("#datasets .callout")
    tab.click("#datasets .callout button")
    assert shown(tab) == 12


def test_what_names_a_row_comes_before_its_shape(opened: Opened) -> None:
    tab = opened([many(20)])
    words = tab.run(
        "[...document.querySelectorAll('#table-body .row')].filter((row) => row.querySelector"
        "('.sign.deleted')).map((row) => row.querySelector('.name').textContent)"
    )
    assert set(words) == {"text 0"}


@pytest.mark.parametrize("media", ["screen", "print"])
def test_paper_is_light(opened: Opened, tab: Tab, media: str) -> None:
    opened([many(10)])
    dark = {"name": "prefers-color-scheme", "value": "dark"}
    tab.call("Emulation.setEmulatedMedia", media=media, features=[dark])
    colour = tab.run("getComputedStyle(document.documentElement).getPropertyValue('--card')")
    tab.call("Emulation.setEmulatedMedia", media="")
    assert colour.strip() == ("#181e29" if media == "screen" else "#ffffff")


def test_what_is_left_out_is_said(opened: Opened) -> None:
    tab = opened([many(1000)], limits=PageLimits(rows=100, odd_rows=0))
    notice = tab.text("#notice")
    assert "100 of 1,000 changed rows" in notice
    assert "havasu-vc diff main...feature" in notice
    assert counted(tab, "#sums .chip") == [100, 800, 100]


def test_light_and_dark(opened: Opened, tab: Tab) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    tab.prefers(color_scheme="dark")
    opened([many(10)])
    dark = tab.run(ground)
    tab.key("t")
    assert tab.run(ground) != dark
    tab.click("#theme")
    assert tab.run(ground) == dark


def test_paper_has_the_summary_and_the_rows(opened: Opened) -> None:
    tab = opened([many(1000)])
    tab.run("void dispatchEvent(new Event('beforeprint'))")
    assert tab.run("document.querySelectorAll('#printed .row').length") == 300
    assert tab.run("document.querySelector('#printed h2').textContent").startswith("The first 300")
    tab.run("void dispatchEvent(new Event('afterprint'))")
    assert tab.run("document.querySelectorAll('#printed *').length") == 0


@pytest.mark.parametrize("width", [380, 1000, 1900])
def test_nothing_is_wider_than_the_window(opened: Opened, tab: Tab, width: int) -> None:
    tab.resize(width, 800)
    opened([many(30), many(3, "a/very/long/path/" + "x" * 200)], hash="#trees:4")
    assert tab.run("document.documentElement.scrollWidth") <= width


def test_two_fingers_zoom(opened: Opened) -> None:
    tab = opened([many(30)])
    tab.run("document.getElementById('explorer').scrollIntoView()")
    settle(tab)
    before = tab.text("#scale")
    box = tab.run(
        "(({x, y, width, height}) => [x, y, width, height])(canvas.getBoundingClientRect())"
    )
    x, y = box[0] + box[2] / 2, box[1] + box[3] / 2
    for kind, apart in (("touchStart", 40), ("touchMove", 90), ("touchMove", 150), ("touchEnd", 0)):
        points: list[dict[str, Any]] = [
            {"x": x - apart, "y": y, "id": 1},
            {"x": x + apart, "y": y, "id": 2},
        ]
        tab.call("Input.dispatchTouchEvent", type=kind, touchPoints=points if apart else [])
    settle(tab)
    assert tab.text("#scale") != before


def test_written_twice_it_is_the_same() -> None:
    assert written([many(100)]) == written([many(100)])


def test_rasters_can_have_pictures(opened: Opened) -> None:
    raster = Field(2, "rast", Struct(()), raster="v1")
    schema = Schema((FID, raster), (1,))
    side = header(schema, "tiles")
    names = [field.name for field in arrow_field(raster).type]
    tiles = [dict.fromkeys(names) for _ in range(2)]
    changes = batch(
        schema, schema, (None, {"fid": 1, "rast": tiles[0]}),
        ({"fid": 2, "rast": tiles[1]}, None),
    )  # fmt: skip
    asked = []

    def pictures(field: Field, old: pa.Array | None, new: pa.Array | None) -> Iterator[Picture]:
        assert old is not None and new is not None
        asked.append((field.name, old.is_valid().to_pylist(), new.is_valid().to_pylist()))
        yield Picture(1, "before", PNG)

    tab = opened([diff_of(changes, old=side, new=side)], pictures=pictures, hash="#tiles:2")
    assert asked == [("rast", [False, True], [True, False])]
    tab.wait("document.querySelector('#detail img')?.complete")
    assert tab.run("document.querySelector('#detail img').naturalWidth") == 1
    assert tab.run("document.querySelector('#detail img').alt") == "rast, before"
    tab.key("k")
    assert tab.run("document.querySelector('#detail img')") is None


def test_rasters_are_seen_before_and_after(opened: Opened) -> None:
    field = raster_field(2, "rast", 3)
    schema = Schema((FID, field), (1,))
    side = header(schema, "tiles")
    place = GeoReference.of_affine((10, 0, 0, 0, -10, 0))
    arrays = [np.zeros((20, 30), np.uint8) for _ in range(3)]
    old = raster_of_pixels(arrays, place)
    new = raster_of_pixels([arrays[0] + 7, *arrays[1:]], place)
    rows = format_rasters([old, new]).to_pylist()
    changes = batch(schema, schema, ({"fid": 1, "rast": rows[0]}, {"fid": 1, "rast": rows[1]}))

    tab = opened(
        [diff_of(changes, old=side, new=side)], pictures=raster_pictures(), hash="#tiles:1"
    )
    tab.wait("document.querySelectorAll('#detail img').length === 3")
    tab.wait("[...document.querySelectorAll('#detail img')].every((each) => each.complete)")
    found = tab.run(
        "[...document.querySelectorAll('#detail img')].map((each) => [each.naturalWidth, each.alt])"
    )
    assert [width for width, _ in found] == [30, 30, 30]
    # Nothing lies over a picture, nor a picture over what is said of it.
    pictures, words = tab.run(
        "[...document.querySelectorAll('#detail tbody tr')].map((each) => {"
        "const found = [...each.querySelectorAll('img, figcaption, th, td > bdi')];"
        "const boxes = found.map((one) => one.getBoundingClientRect());"
        "return [Math.min(...boxes.map((one) => one.top)),"
        "Math.max(...boxes.map((one) => one.bottom))]; })"
    )
    assert pictures[0] < pictures[1] <= words[0] < words[1]
    assert found[1][1].startswith("rast, after: RASTER(30 × 20 of 10 × -10, 3 × uint8")
    assert found[2][1] == "rast, difference: band 1: 600 of 600 cells differ, by up to 7"
    assert "band 1: 600 of 600 cells differ" in tab.text("#detail")
    tab.call("Emulation.setEmulatedMedia", features=[
        {"name": "prefers-color-scheme", "value": "dark"}
    ])  # fmt: skip
    assert (
        tab.run("getComputedStyle(document.querySelector('#detail img')).borderTopWidth") == "1px"
    )
    assert tab.run("document.querySelector('#detail figcaption').textContent") == "before"
