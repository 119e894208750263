import html
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import cmarkgfm  # type: ignore[import-untyped]
import pytest
from cmarkgfm.cmark import Options  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.model.changes import ChangeKind
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.review.markdown import (
    COMMENT_LIMIT,
    LEAST_LIMIT,
    MARKER,
    SUMMARY_LIMIT,
    format_markdown,
)
from havasu_vc.review.markdown_parts import (
    ROWS_HEADER,
    code_span,
    marked,
    sample_row,
    sentence,
    table_row,
)
from havasu_vc.review.report import Cell, DatasetReview, Flag, FlagKind, Review, Sample
from tests.review.reviews import HOSTILE, dataset, harmless, hostile
from tests.support.examples import examples
from tests.support.golden import Golden

GOLDEN = Path(__file__).parents[2] / "fixtures" / "golden" / "review"
ALLOWED = {
    *("h2", "h3", "p", "table", "thead", "tbody", "tr", "th", "td", "ul", "li"),
    *("code", "pre", "strong", "br", "sub", "blockquote", "details", "summary"),
}
ODD_TEXT = st.text(
    st.one_of(st.sampled_from("`|\\*_[]()<>!&@#~$:-\n\r \u202e\x1b."), st.characters()),
    max_size=30,
)


class Page(HTMLParser):
    """What a renderer of GitHub's makes of a page: its elements, and text outside of code."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.outside: list[str] = []
        self.codes: list[str] = []
        self.rows: list[int] = []
        self._inside = 0
        self.feed(cmarkgfm.github_flavored_markdown_to_html(text, Options.CMARK_OPT_UNSAFE))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag == "code":
            self._inside += 1
            self.codes.append("")
        elif tag == "tr":
            self.rows.append(0)
        elif tag in ("td", "th"):
            self.rows[-1] += 1

    def handle_endtag(self, tag: str) -> None:
        self._inside -= tag == "code"

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.codes[-1] += data
        else:
            self.outside.append(data)


def shape(text: str) -> tuple[int, ...]:
    """Return how many cells each row of a page's tables has."""
    return tuple(Page(text).rows)


def assert_safe(text: str) -> None:
    page = Page(text)
    outside = " ".join(page.outside)
    assert page.elements <= ALLOWED
    assert text.count("<details>") == text.count("</details>")
    assert page.attributes <= {"align", "lang"}
    assert not re.search(r"@|https?:|www\.|#\d|<|\$", outside)
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", text
    )


def test_page(golden: Golden) -> None:
    golden(format_markdown(harmless()), GOLDEN / "expected.md")


def test_page_in_little_room(golden: Golden) -> None:
    text = format_markdown(harmless(), limit=LEAST_LIMIT)
    golden(text, GOLDEN / "expected-in-little-room.md")


def test_nothing_changed() -> None:
    assert "No dataset changes." in format_markdown(Review("main", "HEAD", ()))


@pytest.mark.few(20)
@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text[:20]))
def test_values_cannot_break_the_page(text: str) -> None:
    page = format_markdown(hostile(text))

    assert_safe(page)
    assert shape(page) == shape(format_markdown(hostile("plain")))
    assert len(page.encode()) <= COMMENT_LIMIT


@given(ODD_TEXT)
def test_no_value_breaks_the_page(text: str) -> None:
    page = format_markdown(hostile(text))

    assert_safe(page)
    assert shape(page) == shape(format_markdown(hostile("plain")))


@given(st.lists(ODD_TEXT, min_size=1, max_size=4))
def test_a_row_shows_its_values_and_nothing_else(texts: list[str]) -> None:
    cells = [code_span(text) for text in texts]
    columns = len(texts)
    page = Page("\n".join(["|" + "a|" * columns, "|" + "-|" * columns, table_row(cells)]))

    assert page.rows == [columns, columns]
    for text, code in zip((t for t in texts if t), page.codes, strict=True):
        if text.isprintable() and text.strip() and len(text) < 100:
            assert code == html.unescape(html.escape(text))


@given(ODD_TEXT, ODD_TEXT)
def test_marked_texts_read_as_they_are(old: str, new: str) -> None:
    for text, shown in zip((old, new), marked(old, new), strict=True):
        if text.isprintable() and text.strip() == text and text:
            assert "".join(Page(f"x {shown}").codes) == text


@given(ODD_TEXT)
def test_a_sentence_is_words_and_code(text: str) -> None:
    assert_safe(f"- {sentence(text)}")


@examples(30)
@given(
    st.integers(0, 60),
    st.integers(0, 60),
    st.sampled_from(["short", "Ünïcödé 漢字 " * 30, "`|" * 100, "x" * 3000]),
    st.sampled_from([LEAST_LIMIT, 5_000, 9_999, 20_000, COMMENT_LIMIT]),
)
@pytest.mark.thorough
def test_a_page_is_never_too_long(datasets: int, samples: int, text: str, limit: int) -> None:
    found = tuple(dataset(text, path=f"{text}{n}", samples=samples) for n in range(datasets))
    page = format_markdown(Review("main", text, found), limit=limit)

    assert len(page.encode()) <= limit
    assert_safe(page)
    assert all(cells in (4, 7) for cells in shape(page))


@pytest.mark.thorough
def test_a_step_summary_shows_more() -> None:
    review = Review("main", "HEAD", (dataset("value " * 20, samples=300),))
    comment, summary = (
        format_markdown(review, limit=limit) for limit in (COMMENT_LIMIT, SUMMARY_LIMIT)
    )

    assert len(comment.encode()) <= COMMENT_LIMIT < len(summary.encode()) <= SUMMARY_LIMIT
    assert "900 of 900" not in comment


@pytest.mark.thorough
def test_what_is_left_out_is_told() -> None:
    review = Review("main", "HEAD", (dataset("x", samples=500),), three_dots=True)
    page = format_markdown(review, limit=8_000)
    shown = sum(line.startswith(("| new", "| changed", "| deleted")) for line in page.splitlines())

    assert 0 < shown < 1500
    assert f"{shown} of 1,500 changed rows are shown" in page
    assert "`havasu-vc diff main...HEAD`" in page
    assert format_markdown(review, limit=8_000, more="look at the page").count("look at the page")


def test_many_datasets_keep_the_first_summaries_and_count_the_rest() -> None:
    found = tuple(
        DatasetReview(f"d{n}", None, "changed", 1, 1, ChangeCounts(1)) for n in range(5000)
    )
    page = format_markdown(Review("a", "b", found))

    assert len(page.encode()) <= COMMENT_LIMIT
    assert re.search(r"[\d,]+ more datasets are not in this table; rows of all: 5,000", page)
    assert re.search(r"[\d,]+ datasets are left out here", page)
    assert "### `d0`" in page


def row(number: int, kind: ChangeKind, reason: str, *cells: Cell) -> Sample:
    return Sample(kind, str(number), reason, cells or (Cell("name", str(number), "x"),))


def test_a_few_rows_of_each_reason_are_open_and_others_are_folded() -> None:
    same = Cell("zone", "Rural", "GRUZ")
    samples = (
        *(row(n, ChangeKind.UPDATE, "far from the rest") for n in range(20)),
        *(row(n, ChangeKind.UPDATE, f"moved {n:,}.5 km") for n in range(30, 50)),
        *(row(n, ChangeKind.UPDATE, "`zone` changed", same) for n in range(60, 80)),
    )
    each = replace(dataset("x"), samples=samples)
    text = format_markdown(Review("a", "b", (each,)))
    seen, folded = text.split("<details><summary>")

    assert re.findall(r"\| changed \| `(\d+)`", seen) == [
        *("0", "1", "2", "3"),
        *("30", "31", "32"),
        "60",
    ]
    assert folded.startswith("52 more rows</summary>\n\n| |")
    assert len(re.findall(r"\| changed \| `(\d+)`", folded)) == 52
    assert folded.count("</details>") == 1
    assert set(Page(text).rows) == {4, 7}


def test_the_key_is_said_once_and_the_shape_last() -> None:
    cells = (
        Cell("id", None, "7"),
        Cell("geom", None, "POLYGON of 5 vertices around 1748042.5 5427122.5"),
        Cell("name", None, "Lot 7"),
    )
    line = sample_row(row(7, ChangeKind.INSERT, "inserted", *cells))

    assert line.endswith(
        "| `name` = `Lot 7`<br>`geom` = `POLYGON of 5 vertices around 1748042.5 5427122.5` |"
    )


def test_a_row_is_called_as_people_call_it() -> None:
    cells = (Cell("zone", "Rural", "`Town` | @all"),)
    changed = replace(row(7, ChangeKind.UPDATE, "`zone` changed", *cells), label="12 `High` | St")
    page = Page("\n".join(("| a | b | c | d |", "|---|---|---|---|", sample_row(changed))))

    assert page.codes[:2] == ["7", "12 `High` | St"]
    # What came or went tells it among its cells.
    for kind in (ChangeKind.INSERT, ChangeKind.DELETE):
        assert "High" not in sample_row(replace(changed, kind=kind))
    assert sample_row(replace(changed, label="7")).count("`7`") == 1


def test_ids_are_told_by_ten_digits() -> None:
    commit = "0123456789abcdef" * 2 + "01234567"
    text = format_markdown(Review(f"{commit}^", commit, ()))

    assert "From `0123456789^` to `0123456789`." in text
    assert "no row changed" in format_markdown(
        Review("a", "b", (replace(dataset("x"), counts=ChangeCounts(), samples=()),))
    )


def test_the_first_line_tells_how_much_and_whether_to_look() -> None:
    plain = replace(dataset("x"), flags=())
    counts = "rows: 1 inserted, 1 updated, 1 deleted"

    assert f"1 dataset, {counts}. Nothing odd was seen." in format_markdown(
        Review("a", "b", (plain,))
    )
    assert f"1 dataset, {counts}. ⚠️ **1 thing to look at.**" in format_markdown(
        Review("a", "b", (dataset("x"),))
    )


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("2 rows far away", "**2 rows far away**"),
        ("rows are not shown: `a` is not here", "**rows are not shown**: `a` is not here"),
        ("column `a: b` is removed", "**column `a: b` is removed**"),
    ],
)
def test_what_a_flag_is_about_is_bold(message: str, shown: str) -> None:
    each = replace(dataset("x"), flags=(Flag(FlagKind.UNVERIFIED, message),))

    assert f"- ⚠️ {shown}\n" in format_markdown(Review("a", "b", (each,)))


def test_a_page_is_found_again_by_its_marker() -> None:
    assert format_markdown(harmless()).startswith(MARKER + "\n")


def test_rows_have_a_header_or_are_not_there() -> None:
    lines = format_markdown(harmless()).splitlines()

    assert lines[lines.index(ROWS_HEADER[1]) + 1].startswith("| deleted")


def test_too_little_room_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="no room"):
        format_markdown(harmless(), limit=100)
