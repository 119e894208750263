"""A person's way through the page, in a real browser."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import invoke, succeed
from tests.face.conftest import ROWS, Served
from tests.review.page.test_reach import CONTRAST
from tests.review.page.test_safety import EVIL
from tests.support.axe import barriers
from tests.support.browser import Tab
from tests.support.git import run_git

VIEWS = (
    "overview",
    "history?box=174.5,-41.1,174.6,-41",
    "data?dataset=points&row=3",
    "data?dataset=points&against=side&row=3",
    "work",
    "conflicts",
)


def shown(tab: Tab, served: Served, view: str = "overview") -> None:
    """Open a view anew."""
    place = served.address.partition("/?")[0]
    tab.call("Page.navigate", url="about:blank")
    tab.go(f"{place}/#/{view}")


@pytest.fixture
def inside(page: Tab, serving: Callable[[Path], Served], repo: Path) -> tuple[Tab, Served]:
    """A tab that came in by the address that the command printed."""
    served = serving(repo)
    page.go(served.address)
    assert "token" not in page.run("location.href")
    return page, served


@pytest.mark.smoke
def test_a_persons_way(inside: tuple[Tab, Served], repo: Path) -> None:
    tab, _ = inside
    assert tab.text("#repository") == "survey"
    assert "main" in tab.text(".glance")
    tab.wait("document.querySelector('[data-dataset=points]').innerText.includes('Names of two')")
    # By its link to the data, down to a row, and who its cells are from.
    tab.click('.plain th a[href*="points"]')
    tab.wait("document.querySelectorAll('.grid tbody tr[data-row]').length > 5")
    tab.wait("document.querySelector('.chart').dataset.drawn > 50")
    tab.key("j", "j", "j")
    tab.wait("document.querySelector('.past')?.innerText.includes('Names of two')")
    assert tab.text(".past h2") == "3"
    assert "row=3" in tab.run("location.hash")
    # To a row far away, by its key.
    tab.key("/")
    tab.run("document.activeElement.value = '200'")
    tab.key("Enter")
    tab.wait("document.querySelector('.past h2')?.innerText === '200'")
    assert tab.text("tr[aria-selected=true]").split()[:3] == ["200", "two", "hundred"]
    # The history, by keys, to a commit as a review.
    tab.key("Escape", "2")
    tab.wait("document.querySelectorAll('.commit').length === 3")
    tab.wait("document.querySelectorAll('.commit .of').length === 3")
    assert "~2" in tab.text(".commit:nth-child(2) .counts")
    tab.key("j", "j")
    assert "Names of two" in tab.run("document.activeElement.innerText")
    tab.key("Enter")
    tab.wait("document.querySelector('#table-body .row')")
    assert "points" in tab.text("main")
    tab.click(".home")
    tab.wait("document.querySelectorAll('.commit').length === 3")


def test_a_million_pixels_of_rows(inside: tuple[Tab, Served]) -> None:
    tab, served = inside
    shown(tab, served, "data?dataset=points")
    tab.wait("document.querySelector('tr[data-row] td')?.innerText.startsWith('name')")
    tab.run("document.querySelector('.grid').scrollTop = 1e9")
    tab.wait(
        f"document.querySelector('tr[data-row=\"{ROWS - 1}\"] td')?.innerText === 'name {ROWS}'"
    )
    rows = tab.run("document.querySelectorAll('tr[data-row]').length")
    assert rows < 60


def test_filters_are_part_of_the_address(inside: tuple[Tab, Served]) -> None:
    tab, served = inside
    shown(tab, served, "history?dataset=lamps&at=side")
    tab.wait("document.querySelectorAll('.commit').length === 1")
    tab.run(
        "(() => { const e = document.querySelector('#message'); e.value = 'none like it';"
        "e.dispatchEvent(new Event('change')); })()"
    )
    tab.wait("document.querySelector('.commits .waiting')")
    assert "text=none" in tab.run("location.hash")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
def test_everybody_can_read_it(inside: tuple[Tab, Served], theme: str, width: int) -> None:
    tab, served = inside
    tab.prefers(color_scheme=theme)
    tab.resize(width, 900)
    for view in VIEWS:
        shown(tab, served, view)
        tab.wait("!document.querySelector('.past') || document.querySelector('.past table')")
        assert tab.run(CONTRAST) == [], view
        assert tab.run("document.documentElement.scrollWidth") <= width, view
        assert unnamed(tab) == [], view
        assert barriers(tab) == [], view


@pytest.mark.parametrize("size", [(1400, 900), (390, 844)])
def test_the_first_screen_has_what_is_asked_for(
    inside: tuple[Tab, Served], size: tuple[int, int]
) -> None:
    tab, served = inside
    tab.resize(*size)
    bottoms = "(...all) => all.map((each) => document.querySelector(each).getBoundingClientRect())"
    for view, wanted in (
        ("overview", ["main .chart", ".glance .main", "main tbody tr:nth-child(2)"]),
        ("data?dataset=points&row=3", [".tools select", "main .chart", "tr[aria-selected=true]"]),
    ):
        shown(tab, served, view)
        tab.wait("document.querySelector('.chart').dataset.drawn > 0")
        found = tab.run(f"(({bottoms})(...{wanted})).map((each) => [each.top, each.bottom])")
        assert all(0 <= top < bottom <= size[1] for top, bottom in found), (view, found)


def test_lines_of_descent_stand_beside_the_words(inside: tuple[Tab, Served]) -> None:
    tab, served = inside
    shown(tab, served, "history?at=side")
    tab.wait("document.querySelectorAll('.commit').length === 4")
    apart = tab.run(
        "[...document.querySelectorAll('.commit')].map((each) =>"
        "each.querySelector('.what').getBoundingClientRect().left"
        "- each.querySelector('.dot').getBoundingClientRect().right)"
    )
    assert min(apart) > 0


def unnamed(tab: Tab) -> list[str]:
    """Return the roles of what is worked with and has no name for those who hear the page."""
    asked = {"button", "link", "textbox", "searchbox", "combobox", "grid", "application", "region"}
    nodes = tab.call("Accessibility.getFullAXTree")["nodes"]
    return [
        each["role"]["value"]
        for each in nodes
        if not each["ignored"]
        and each["role"]["value"] in asked
        and not each.get("name", {}).get("value")
    ]


def test_values_are_text_everywhere(
    page: Tab, serving: Callable[[Path], Served], tmp_path: Path
) -> None:
    repo, file = tmp_path / "<b>repo", tmp_path / "rows.parquet"
    succeed(invoke(["init", repo]))
    sound = [text.replace("\x00", "") for text in EVIL]
    names = [f"c{i} {text}" for i, text in enumerate(sound[:6])]
    columns = {"id": pa.array(sound), **{name: pa.array(sound) for name in names}}
    pq.write_table(pa.table(columns), file)
    run_git("config", "user.name", "<img src=x onerror=hacked=1>", cwd=repo)
    take: list[str | Path] = ["-C", repo, "import", file, "it's &lt;b", "--primary-key", "id"]
    succeed(invoke([*take, "-m", f"{EVIL[0]} {EVIL[1]}"]))
    succeed(invoke(["-C", repo, "meta", "set", "it's &lt;b", f"title={EVIL[3]}"]))
    run_git("branch", "<img/src=x/onerror=hacked=1>", cwd=repo)
    served = serving(repo)
    page.go(served.address)
    for view in ("overview", "history", "data"):
        shown(page, served, view)
        page.key("j")
        page.wait("!document.querySelector('.past') || document.querySelector('.past h3')")
        assert page.run("typeof hacked") == "undefined"
        assert page.run("document.images.length") == 0
        assert page.run("document.querySelectorAll('b, iframe, meta[http-equiv]').length") == 0
        handlers = "[...document.querySelectorAll('*')].flatMap((e) => e.getAttributeNames())"
        assert [name for name in page.run(handlers) if name.startswith("on")] == []
    assert EVIL[1] in page.run("document.querySelector('.grid').textContent")


def test_an_error_is_told_and_the_page_goes_on(inside: tuple[Tab, Served]) -> None:
    tab, served = inside
    shown(tab, served, "data?dataset=gone")
    assert "gone" in tab.text("[role=alert]")
    # What was on its way when it went wrong does not take its place.
    tab.run("new Promise((done) => setTimeout(done, 300))")
    assert "gone" in tab.text("[role=alert]")
    tab.key("1")
    tab.wait("document.querySelector('.glance')")
    # What the server refused was logged by the browser; that was wanted here.
    tab.problems.clear()
