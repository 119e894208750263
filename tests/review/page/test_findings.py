"""What the policy finds, and what could not be read, is on the page."""

import io
from dataclasses import replace
from pathlib import Path

from havasu_vc.model.commits import ChangeCounts
from havasu_vc.review.page import Page, write_page
from havasu_vc.review.report import (
    DatasetReview,
    Flag,
    FlagKind,
    PolicyFinding,
    Review,
    ReviewedCommit,
)
from havasu_vc.review.summarising import Means, summarise
from tests.review.page.pages import many
from tests.review.page.test_picture import parcels
from tests.support.browser import Tab


def test_findings_notes_and_what_is_unread(tab: Tab, tmp_path: Path) -> None:
    page = Page()
    diff = many(40)
    each = summarise(diff, Means(), [page.dataset(diff, None)])
    flag = Flag(FlagKind.UNVERIFIED, "rows are not shown: `3` files are not here")
    unread = replace(each, unread="`3` files are not here", flags=(flag, *each.flags))
    # One that cannot be opened has no rows on the page.
    broken = DatasetReview(
        "away", None, "changed", 3, 0, ChangeCounts(), flags=(flag,), unread="damaged"
    )
    review = Review(
        "main",
        "feature",
        (broken, unread),
        ("`a` does not come after `b`",),
        findings=(
            PolicyFinding("max-deletes", "`trees` loses <b>too</b> much", True, "trees", 4, ("7",)),
            PolicyFinding("bounds", "2 rows lie outside", False),
        ),
    )
    out = io.StringIO()
    write_page(out, page, review, more="havasu-vc diff main...feature")
    path = tmp_path / "review.html"
    path.write_text(out.getvalue(), encoding="utf-8")
    tab.go(path.as_uri())

    refuses, warns, note = tab.run(
        "[...document.querySelectorAll('#notes > *')].map((each) => each.textContent)"
    )
    assert refuses.startswith("Against the policytrees: trees loses <b>too</b> much (max-deletes)")
    assert warns.startswith("Policy warns2 rows lie outside")
    assert note == "a does not come after b"
    assert "3 files are not here" in tab.text("#datasets")
    assert tab.text(".tile.warn .big").endswith("4")
    ids = tab.run("[...document.querySelectorAll('details.card')].map((each) => each.id)")
    assert ids == ["dataset-0", "dataset-1"]
    assert tab.text("#dataset-0 h2") == "away"
    tab.click("tbody tr:nth-child(2) a")
    assert tab.run("document.getElementById('dataset-1').open")
    tab.click("#notes a")
    assert tab.run("location.hash") == "#trees:7"


def test_who_changed_what_and_how_it_is_undone(tab: Tab, tmp_path: Path) -> None:
    page = Page()
    diff = many(40)
    each = summarise(diff, Means(), [page.dataset(diff, None)])
    commits = (
        ReviewedCommit("1" * 40, "Ann <b>", "2026-11-20", "Names & heights"),
        ReviewedCommit("2" * 40, "Bob", "2026-11-19", ""),
    )
    review = Review("it's", "feature", (each,), commits=commits, commit_count=7)
    path = tmp_path / "review.html"
    shown = {}
    for base in ("it's", "a\u202eb"):
        out = io.StringIO()
        write_page(out, page, replace(review, base=base), more="havasu-vc diff")
        path.write_text(out.getvalue(), encoding="utf-8")
        tab.go(path.as_uri())
        tab.wait("document.documentElement.dataset.ready")
        tab.key("j")
        shown[base] = tab.run("document.querySelector('.undo')?.textContent ?? ''")

    text = tab.text(".commits summary").replace("\n", "")
    assert text == "7 commits by Ann <b>, Bob2026-11-20 \u00b7 Names & heights"
    lines = tab.run("[...document.querySelectorAll('.commits li')].map((each) => each.textContent)")
    assert lines[1] == "empty textBob \u00b7 2026-11-19 \u00b7 2222222222"
    assert tab.run("document.querySelector('.commits > p').textContent") == "and 5 before these"
    command = "havasu-vc restore --source 'it'\\''s' -- "
    assert f"This row{command}trees:feature:" in shown["it's"]
    assert f"All of the dataset{command}treesCopy" in shown["it's"]
    changed = "havasu-vc restore --source 'it'\\''s' --column 'text 0' -- trees"
    assert f"Column text 0 of all rows{changed}Copy" in shown["it's"]
    # A name that does not show as it is stands in no command.
    assert shown["a\u202eb"] == ""


def test_worth_a_look_tells_a_name_and_what_became_what(tab: Tab, tmp_path: Path) -> None:
    page = Page()
    diff = parcels()
    each = summarise(diff, Means(), [page.dataset(diff, None)])
    assert {sample.label for sample in each.samples} >= {"16 Aro Street", "29 Aro Street"}
    out = io.StringIO()
    write_page(out, page, Review("main", "b", (each,)), more="m", repository="<i>Wellington")
    path = tmp_path / "review.html"
    path.write_text(out.getvalue(), encoding="utf-8")
    tab.go(path.as_uri())
    assert tab.text("#what") == "<i>Wellington \u00b7 Review"
    lines = tab.run("[...document.querySelectorAll('.samples li')].map((li) => li.textContent)")
    assert "~updated 201 15 Aro Street zone Residential 1 \u2192 Residential 2 " in lines
    assert "\u2212deleted 5 5 Aro Street deleted " in lines
