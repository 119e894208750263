"""Everyone can use the page: names and roles for those who hear it, contrast for those who see."""

from itertools import pairwise

import pytest

from havasu_vc.model.schema import Schema
from tests.review.page.conftest import Opened, settle
from tests.review.page.pages import many
from tests.support.axe import barriers
from tests.support.browser import Tab
from tests.writers.cases import FID, NAME, batch, diff_of, header

ASKED = {"button", "link", "textbox", "searchbox", "combobox", "slider", "radio", "grid", "dialog"}
ASKED |= {"application", "columnheader", "region", "row", "table", "img", "search", "complementary"}

CONTRAST = """(() => {
  const parse = (text) => {
    const found = text.match(/[\\d.]+/g).map(Number);
    const unit = text.startsWith("color(") ? 255 : 1;
    return [found[0] * unit, found[1] * unit, found[2] * unit, found[3] ?? 1];
  };
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => ((c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const ground = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) {
      layers.push(parse(getComputedStyle(each).backgroundColor));
      if (layers.at(-1)[3] === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const poor = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.textContent.trim() || !element.checkVisibility()) continue;
    if (element.closest(".unseen, script, style, noscript, option, [aria-pressed=false] .sign")) continue;
    const style = getComputedStyle(element);
    const behind = ground(element);
    const [a, b] = [light(over(parse(style.color), behind)), light(behind)].sort((a, b) => b - a);
    const ratio = (a + 0.05) / (b + 0.05);
    const large = parseFloat(style.fontSize) >= 24;
    if (ratio < (large ? 3 : 4.5))
      poor.push(`${ratio.toFixed(2)} ${element.className} ${texts.currentNode.textContent.slice(0, 30)}`);
  }
  return poor;
})()"""  # noqa: E501


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_stands_out(opened: Opened, tab: Tab, theme: str) -> None:
    tab.prefers(color_scheme=theme)
    opened([many(200), many(30, "lamps")], hash="#trees:2")
    tab.click("#kinds button:nth-child(1)")
    tab.click("#modes label:nth-of-type(4)")
    settle(tab)
    assert tab.run(CONTRAST) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("rows", [0, 3])
def test_text_stands_out_where_there_is_little(
    opened: Opened, tab: Tab, theme: str, rows: int
) -> None:
    tab.prefers(color_scheme=theme)
    schema = Schema((FID, NAME), (1,))
    changes = [(None, {"fid": n, "name": "x"}) for n in range(rows)]
    side = header(schema)
    batches = [batch(schema, schema, *changes)] if rows else []
    opened([diff_of(*batches, old=side, new=side)], hash="#roads:1")
    assert tab.run(CONTRAST) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1400, 900), (390, 844)])
def test_axe_finds_no_barrier(opened: Opened, tab: Tab, theme: str, size: tuple[int, int]) -> None:
    tab.prefers(color_scheme=theme)
    tab.resize(*size)
    opened([many(200), many(30, "lamps")], hash="#trees:2")
    if size[0] < 620:
        tab.click("#more-filters")
    settle(tab)
    assert barriers(tab) == []


def test_everything_has_a_name(opened: Opened) -> None:
    tab = opened([many(50), many(30, "lamps")], hash="#trees:2")
    tab.click("#modes label:nth-of-type(4)")
    settle(tab)
    tab.call("Accessibility.enable")
    nodes = tab.call("Accessibility.getFullAXTree")["nodes"]
    heard = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node.get("ignored") and "role" in node
    ]
    roles = {role for role, _ in heard}

    assert {"button", "grid", "row", "slider", "radio", "searchbox", "combobox"} <= roles
    nameless = [role for role, name in heard if role in ASKED - {"row", "table"} and not name]
    assert nameless == []


def test_the_document_is_in_order(opened: Opened) -> None:
    tab = opened([many(50), many(30, "lamps")], hash="#trees:2")
    ids = tab.run("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))
    assert tab.run("document.documentElement.lang") == "en"
    assert tab.run("document.querySelectorAll('h1').length") == 1
    levels = tab.run(
        "[...document.querySelectorAll('h1, h2, h3')].filter((e) => e.checkVisibility())"
        ".map((e) => Number(e.localName[1]))"
    )
    assert all(after <= before + 1 for before, after in pairwise(levels))
    missing = tab.run(
        "[...document.querySelectorAll('[aria-labelledby], [aria-describedby], [for],"
        "[aria-activedescendant]')].flatMap((e) => ['aria-labelledby', 'aria-describedby', 'for',"
        "'aria-activedescendant'].map((name) => e.getAttribute(name)))"
        ".filter((id) => id && !document.getElementById(id))"
    )
    assert missing == []
    rows = tab.run(
        "[...document.querySelectorAll('[role=row]')].every((row) => [...row.children]"
        ".every((cell) => ['gridcell', 'columnheader'].includes(cell.role)))"
    )
    assert rows


def test_kinds_are_told_by_more_than_colour(opened: Opened) -> None:
    tab = opened([many(20)])
    signs = tab.run(
        "[...document.querySelectorAll('#table-body .c-kind')].map((e) => e.textContent)"
    )
    assert set(signs) == {"+inserted", "~updated", "−deleted"}


@pytest.mark.parametrize("size", [(1400, 900), (390, 844)])
def test_map_and_list_are_on_the_first_screen(
    opened: Opened, tab: Tab, size: tuple[int, int]
) -> None:
    tab.resize(*size)
    opened([many(200), many(30, "lamps")])
    assert tab.run("document.scrollingElement.scrollTop") == 0
    foot, fourth = tab.run(
        "[document.getElementById('modes'), document.querySelector('[aria-rowindex=\"5\"]')]"
        ".map((each) => each.getBoundingClientRect().bottom)"
    )
    assert max(foot, fourth) <= size[1]

    # A row that is chosen is seen in all three: on the map, in the list, and with its cells.
    tab.key("j", "j", "j")
    settle(tab)
    tab.run("document.getElementById('explorer').scrollIntoView()")
    row, cell = tab.run(
        "['#table [aria-selected=true]', '#detail tbody td'].map((each) => {"
        "const { top, bottom } = document.querySelector(each).getBoundingClientRect();"
        "return [top, bottom]; })"
    )
    assert 0 < row[0] < row[1] < cell[0] < cell[1] <= size[1]


def test_filters_are_folded_where_there_is_little_room(opened: Opened, tab: Tab) -> None:
    tab.resize(390, 844)
    opened([many(50), many(30, "lamps")])
    seen = "document.getElementById('column').checkVisibility()"
    assert not tab.run(seen)
    tab.click("#more-filters")
    assert tab.run(seen)
    assert tab.run("document.getElementById('more-filters').ariaExpanded") == "true"
    tab.run("(() => { column.value = '0'; column.dispatchEvent(new Event('change')); })()")
    tab.click("#more-filters")
    assert not tab.run(seen)
    assert tab.text("#more-filters") == "Filters: 1"
