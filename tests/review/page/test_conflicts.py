"""Conflicts on the page: rows with both sides, both on a map, and commands to copy."""

import io
from pathlib import Path

from havasu_vc.model.commits import ChangeCounts
from havasu_vc.review.page import Page, write_page
from havasu_vc.review.report import Conflicts, DatasetReview, Review
from tests.review.reviews import HOSTILE, conflicts
from tests.support.browser import Tab


def show(tab: Tab, path: Path, found: Conflicts | None) -> None:
    each = DatasetReview("parcels", None, "changed", 3, 3, ChangeCounts())
    out = io.StringIO()
    review = Review("main", "survey", (each,), conflicts=found)
    write_page(out, Page(), review, more="havasu-vc diff main...survey")
    path.write_text(out.getvalue(), encoding="utf-8")
    tab.go(path.as_uri())


def test_both_sides_on_the_page(tab: Tab, tmp_path: Path) -> None:
    show(tab, tmp_path / "review.html", conflicts())

    head = tab.text("#conflicts .callout")
    assert head.startswith("1,201 rows, 2 meta items, 1 file are in conflict with main.")
    assert "README.md" in head
    first = tab.run("[...document.querySelectorAll('.sides tbody')].map((each) => each.innerText)")
    assert [" ".join(each.split()) for each in first] == [
        "12 Aro Street owner A. Owner 12 Aro Street B. Buyer zone Residential 1 null Residential 1",
        "204 the row there changed deleted owner C. Clerk D. Doe",
        "9 owner 12 Aro Street B. Buyer",
    ]
    marks = tab.run("[...document.querySelectorAll('.sides mark')].map((each) => each.className)")
    assert marks == ["ours", "theirs", "ours", "ours", "theirs"]
    assert "3 of 1,200 rows in conflict are shown" in tab.text("#conflicts")
    assert "height (name, type)" in tab.text("#conflicts")
    assert tab.text(".settle pre").splitlines() == list(conflicts().commands)


def test_each_side_has_its_colour_on_the_map(tab: Tab, tmp_path: Path) -> None:
    show(tab, tmp_path / "review.html", conflicts())
    colours = """(() => {
      const shown = document.querySelector(".conflict-map > canvas");
      const canvas = new OffscreenCanvas(shown.width, shown.height);
      const context = canvas.getContext("2d", { willReadFrequently: true });
      context.drawImage(shown, 0, 0);
      const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
      const near = (r, g, b) => {
        for (let i = 0; i < data.length; i += 4)
          if (Math.hypot(data[i] - r, data[i + 1] - g, data[i + 2] - b) < 30) return true;
        return false;
      };
      return [near(0xcc, 0x79, 0xa7), near(0x00, 0x72, 0xb2), near(0xd5, 0x5e, 0x00)];
    })()"""
    tab.wait("document.querySelectorAll('ul.sides li').length === 3")
    assert tab.run(colours) == [True, True, True]
    legend = tab.run("[...document.querySelectorAll('ul.sides li')].map((each) => each.innerText)")
    assert legend == ["base", "ours", "theirs"]
    tab.click(".sides tbody:nth-of-type(2) button")
    tab.wait("!document.querySelector('.conflict-map .map-foot button').hidden")
    assert tab.run(colours) == [True, True, False]  # theirs deleted it


def test_values_are_words(tab: Tab, tmp_path: Path) -> None:
    for text in HOSTILE[:4]:
        show(tab, tmp_path / "review.html", conflicts(text))
        assert text in tab.text(".sides")
        assert tab.run("document.querySelectorAll('#conflicts script, #conflicts img').length") == 0


def test_without_conflicts_there_is_nothing(tab: Tab, tmp_path: Path) -> None:
    show(tab, tmp_path / "review.html", None)
    assert tab.run("document.getElementById('conflicts').childElementCount") == 0
