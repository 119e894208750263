"""Cases: how long a person waits in Chromium, by the clock, until there is something to look at.

The machine is to be idle. The first view counts from the address that `open` printed, and what the
command takes until it prints that is told beside it.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.cases import Figure, case, counted
from tests.bench.scratch import Scratch, Variant

PROGRAM = "from havasu_vc.cli.main import main; main()"


@case("view")
def view(scratch: Scratch) -> Iterator[Figure]:
    """The overview and the data of a table in a browser, and a page of 100,000 changes."""
    from tests.review.page.pages import many, written
    from tests.support.browser import Browser, find_chromium

    program = find_chromium()
    if program is None:
        return
    variant = Variant("points", scratch.sizes.usual)
    rows = counted(variant.rows)
    repository = scratch.edited_repository(variant)
    page = scratch.folder / "view.html"
    page.write_text(written([many(100_000, batches=10)]), encoding="utf-8")
    browser = Browser(program)
    try:
        tab = browser.open()
        opened = [_opened(tab, repository) for _ in range(scratch.sizes.runs)]
        starts, overviews, tables = (median(times) for times in zip(*opened, strict=True))
        note = f"and {starts:.2f} s until the command prints it"
        yield Figure(f"overview of {rows}, from the address", overviews, "s", 1.0, note)
        yield Figure(f"data of {rows}: rows and map", tables, "s", 1.0)
        shown = [_page(tab, page) for _ in range(scratch.sizes.runs)]
        ready, moved = (median(times) for times in zip(*shown, strict=True))
        note = f"ready at {ready:.2f} s"
        yield Figure("page of 100k changes, until a key moves the list", moved, "s", 1.0, note)
    finally:
        browser.close()
        page.unlink()


def _opened(tab: Any, repository: Path) -> tuple[float, float, float]:
    """Return the seconds to the address, from there to the overview, and from there to the data."""
    begin = time.perf_counter()
    command = [sys.executable, "-c", PROGRAM, "-C", str(repository), "open", "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        started = time.perf_counter()
        tab.go(address)
        tab.wait("/000/.test(document.querySelector('[data-dataset]')?.innerText)")
        seen = time.perf_counter()
        tab.click('.plain th a[href*="table"]')
        tab.wait("document.querySelectorAll('.grid tbody tr[data-row]').length > 5")
        tab.wait("document.querySelector('.chart')?.dataset.drawn !== undefined")
        return started - begin, seen - started, time.perf_counter() - seen
    finally:
        server.terminate()
        server.wait(20)


def _page(tab: Any, file: Path) -> tuple[float, float]:
    """Return the seconds until a page says that it is ready, and until a key has moved the list."""
    tab.call("Page.navigate", url="about:blank")
    begin = time.perf_counter()
    tab.go(file.as_uri())
    ready = time.perf_counter() - begin
    tab.key("j")
    tab.wait("location.hash.length > 1")
    return ready, time.perf_counter() - begin
