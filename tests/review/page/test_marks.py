"""Rows that a reader marks on the page: kept in the browser, and told as a comment."""

from tests.review.page.conftest import Opened
from tests.review.page.pages import many
from tests.support.axe import barriers

WORDS = "document.querySelector('.marks [role=status]').textContent"


def test_rows_are_marked_and_told_in_a_comment(opened: Opened) -> None:
    path = "odd `name` <b>"
    tab = opened([many(40, path)])
    tab.run("localStorage.clear()")
    assert tab.run(WORDS) == ""
    assert tab.run("document.querySelector('.marks button').hidden")
    tab.key("v")  # no row is chosen
    assert tab.run(WORDS) == ""
    tab.key("j", "v", "j", "d", "j", "d", "d", "j", "d")
    assert tab.run(WORDS) == "1 seen, 2 in doubt"
    assert tab.run("document.querySelectorAll('#table-body .doubt').length") == 2
    assert tab.run("document.querySelectorAll('#table-body .seen').length") == 1
    keys = tab.run(
        "[...document.querySelectorAll('#table-body .doubt .key')].map((each) => each.innerText)"
    )
    tab.run("document.querySelector('.marks button').click()")
    tab.wait("!document.querySelector('.marks textarea').hidden")
    text = tab.run("document.querySelector('.marks textarea').value")
    lines = [line for line in text.splitlines() if line.startswith("- ")]
    told = [line.removeprefix("- `` ").partition(" `` ")[0] for line in lines]
    assert told == [f"{path}:{key}" for key in keys]
    assert [" `` updated: `" in line for line in lines] == ["\u2192" in line for line in lines]
    assert any("\u2192" in line for line in lines)
    assert any(line.endswith(" inserted") for line in lines)
    assert barriers(tab) == []
    # The browser keeps them.
    tab.call("Page.reload")
    tab.wait("document.querySelector('.marks [role=status]')?.textContent === '1 seen, 2 in doubt'")
    tab.run("localStorage.clear()")
