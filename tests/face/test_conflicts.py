"""Conflicts of a merge, answered from the page."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import invoke, succeed
from tests.face.conftest import Served
from tests.face.test_page import shown, unnamed
from tests.face.test_work import act, enter
from tests.review.page.test_reach import CONTRAST
from tests.support.axe import barriers
from tests.support.browser import Tab

BASE = "id,name,height\n1,one,1\n2,two,2\n3,three,3\n4,four,4\n"
OURS = "id,name,height\n1,ONE,1\n2,two ours,20\n3,three ours,3\n4,four,4\n"
THEIRS = "id,name,height\n1,one,10\n2,two theirs,22\n4,four,44\n"


@pytest.fixture
def torn(tmp_path: Path) -> Path:
    """A merge that waits: two cells of one row, and a row that one side deleted."""
    repo, file = tmp_path / "torn", tmp_path / "trees.csv"
    succeed(invoke(["init", repo]))
    take: list[str | Path] = ["-C", repo, "import", file, "--primary-key", "id"]
    file.write_text(BASE, encoding="utf-8")
    succeed(invoke([*take, "-m", "Trees"]))
    succeed(invoke(["-C", repo, "branch", "dev"]))
    for branch, text in (("dev", THEIRS), ("main", OURS)):
        succeed(invoke(["-C", repo, "switch", branch]))
        file.write_text(text, encoding="utf-8")
        succeed(invoke([*take, "--replace", "-m", branch]))
    succeed(invoke(["-C", repo, "merge", "dev"]))
    return repo


@pytest.mark.thorough
def test_conflicts_are_listed(serving: Callable[[Path], Served], torn: Path) -> None:
    found = enter(serving, torn).get("conflicts")
    assert found["sides"] == {"ours": "main", "theirs": "dev"}
    (dataset,) = found["datasets"]
    assert (dataset["dataset"], dataset["count"]) == ("trees", 2)
    second, third = dataset["listed"]
    assert second["cells"] == [
        {"name": "name", "ancestor": "two", "ours": "two ours", "theirs": "two theirs"},
        {"name": "height", "ancestor": "2", "ours": "20", "theirs": "22"},
    ]
    assert third["there"] == {"ancestor": True, "ours": True, "theirs": False}
    assert third["cells"] == []


def test_answers_by_cell_and_row(serving: Callable[[Path], Served], torn: Path) -> None:
    served = enter(serving, torn)
    columns = {"name": "ours", "height": "theirs"}
    answers = [
        {"filters": ["trees:feature:2"], "columns": columns},
        {"filters": ["trees:feature:3"], "choice": "theirs"},
    ]
    wrong: list[Any] = [[], [{"filters": []}], [{"filters": ["trees"], "choice": "x"}], "all", [1]]
    for bad in wrong:
        assert act(served, "resolve", answers=bad)[0] == 400
    status, said = act(served, "conclude")
    assert (status, said.startswith("The merge is committed")) == (400, False), said
    assert act(served, "resolve", answers=answers) == (200, "Answered 2 conflicts")
    assert served.get("conflicts")["merge"]["conflicts"] == []
    assert act(served, "conclude")[1].startswith("The merge is committed")
    rows = served.get("rows", dataset="trees")
    assert rows["cells"]["name"] == ["ONE", "two ours", "four"]
    assert rows["cells"]["height"] == ["10", "22", "44"]
    assert served.get("conflicts")["merge"] is None


def test_a_person_merges(page: Tab, serving: Callable[[Path], Served], torn: Path) -> None:
    served = serving(torn)
    page.go(served.address)
    assert "2 conflicts" in page.text(".glance")
    page.key("5")
    page.wait("document.querySelectorAll('.choices tbody tr').length === 3")
    assert page.run(CONTRAST) == []
    assert unnamed(page) == []
    assert barriers(page) == []
    assert "3 of 3 answers undecided" in page.text("section[aria-label=Merge]")
    page.click("[aria-label='ours for name of 2']")
    page.click("[aria-label='theirs for height of 2']")
    assert "1 of 3 answers undecided" in page.text("section[aria-label=Merge]")
    page.click(".main-button")
    page.wait("document.querySelectorAll('.choices tbody tr').length === 1")
    # By keys, one after another, whatever has the focus; the chosen row stays a row of the table.
    page.key("j", "o", "h")
    page.wait("document.activeElement.getAttribute('aria-label') === 'theirs for the row of 3'")
    assert page.run("getComputedStyle(document.querySelector('tr.current')).display") == "table-row"
    page.click(".main-button")
    page.wait("document.querySelector('.main-button')?.innerText === 'Conclude the merge'")
    page.click(".main-button")
    page.wait("document.querySelector('.callout.done')?.innerText.includes('committed')")
    assert served.address
    page.prefers(color_scheme="dark")
    page.resize(390, 900)
    shown(page, served, "overview")
    assert page.run("document.documentElement.scrollWidth") <= 390
