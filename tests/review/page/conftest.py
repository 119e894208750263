"""A browser for the tests of the page, and pages opened in it."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from havasu_vc.model.diffs import DatasetDiff
from tests.review.page.pages import written
from tests.support.browser import Browser, Tab

Opened = Callable[..., Tab]


def settle(tab: Tab) -> None:
    """Wait until the map is drawn."""
    tab.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    tab.wait("document.getElementById('map').dataset.busy === 'false'")


@pytest.fixture(scope="session")
def only_tab(browser: Browser) -> Tab:
    return browser.open()


@pytest.fixture
def tab(only_tab: Tab) -> Iterator[Tab]:
    """The tab; whatever was done in it, nothing went wrong and nothing was asked for."""
    only_tab.forget()
    yield only_tab
    only_tab.run("void 0")  # so that all that was said before is heard
    assert only_tab.problems == []
    assert [each for each in only_tab.requests if not each.startswith(("file:", "data:"))] == []


@pytest.fixture
def opened(tab: Tab, tmp_path: Path) -> Opened:
    """Write a page of some diffs and open it: `opened([diff], hash="#a:1", limits=…)`."""

    def open_page(diffs: Iterable[DatasetDiff], *, hash: str = "", **options: Any) -> Tab:
        path = tmp_path / "review.html"
        path.write_text(written(diffs, **options), encoding="utf-8")
        tab.go(path.as_uri() + hash)
        return tab

    return open_page
