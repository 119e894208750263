"""The page is quick: first paint, panning, and a hundred thousand changes that do not freeze it."""

import time
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from havasu_vc.review.colours import COLOURS
from havasu_vc.review.page.document import asset
from tests.review.page.conftest import Opened
from tests.review.page.pages import many, written
from tests.support.browser import Tab

PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
WATCH = """(() => {
  window.frames = [];
  const step = (time) => { frames.push(time); requestAnimationFrame(step); };
  requestAnimationFrame(step);
})()"""


def pan(tab: Tab, seconds: float) -> list[float]:
    """Drag the map about and return how long each frame took, in milliseconds."""
    tab.run("document.getElementById('explorer').scrollIntoView()")
    tab.wait("document.getElementById('map').dataset.busy === 'false'")
    left, top, width, height = tab.run(
        "(({x, y, width, height}) => [x, y, width, height])(canvas.getBoundingClientRect())"
    )
    x, y = left + width / 2, top + height / 2
    tab.run(WATCH)
    tab.mouse("mousePressed", x, y)
    end = time.monotonic() + seconds
    step = 0
    while time.monotonic() < end:
        step += 1
        tab.mouse("mouseMoved", x + 5 * (step % 40), y + 3 * (step % 30))
    tab.mouse("mouseReleased", x, y)
    times: list[float] = tab.run("frames")
    return [after - before for before, after in pairwise(times)]


def best(measure: Any, good: float, tries: int = 4) -> float:
    """Return the best of a few measurements; the machine may be busy with other things."""
    found = float("inf")
    for _ in range(tries):
        found = min(found, measure())
        if found <= good:
            break
    return found


def test_ten_thousand_changes_open_within_a_second(opened: Opened, tab: Tab) -> None:
    opened([many(10_000)])

    def paint() -> float:
        tab.call("Page.reload")
        tab.wait("document.documentElement?.dataset.ready === 'yes'")
        tab.wait(PAINT)
        return float(tab.run(PAINT))

    assert best(paint, 1000) <= 1000


def test_ten_thousand_changes_pan_at_thirty_frames(opened: Opened) -> None:
    tab = opened([many(10_000)])

    def median() -> float:
        frames = sorted(pan(tab, 0.8))
        return frames[len(frames) // 2]

    assert best(median, 33.4) <= 33.4


def test_a_hundred_thousand_changes_do_not_freeze(opened: Opened) -> None:
    tab = opened([many(100_000, batches=10)])
    assert tab.run("document.getElementById('table').ariaRowCount") == "100001"
    assert tab.run("document.querySelectorAll('#table-body .row').length") < 60

    def slowest() -> float:
        return max(pan(tab, 0.8))

    assert best(slowest, 400) <= 400
    tab.run("document.getElementById('table').scrollTop = 1e9")
    tab.wait("document.querySelector('#table-body')?.textContent.includes('99999')")
    assert tab.run("document.querySelectorAll('#table-body .row').length") < 60

    def search() -> float:
        return float(
            tab.run(
                """(async () => {
                const text = document.getElementById("text");
                text.value = text.value === "square 17" ? "square 18" : "square 17";
                text.dispatchEvent(new Event("input"));
                let [last, longest] = [performance.now(), 0];
                for (const end = last + 700; last < end; ) {
                  const now = await new Promise(requestAnimationFrame);
                  longest = Math.max(longest, now - last);
                  last = now;
                }
                return longest;
              })()"""
            )
        )

    assert best(search, 400) <= 400
    assert tab.text("#shown").endswith("of 100,000 changed rows")


LONG = """window.tasks = [];
new PerformanceObserver((list) => tasks.push(...list.getEntries().map((each) => each.duration)))
  .observe({ type: "longtask", buffered: true });"""
CHOOSE = """window.choose = (id, value) => {
  document.getElementById(id).value = value;
  document.getElementById(id).dispatchEvent(new Event("change"));
}"""
ACTS = (
    "document.querySelector('#kinds button').click()",
    "document.querySelector('#kinds button').click()",
    "choose('order', 'moved')",
    "choose('column', '1')",
    "document.getElementById('clear').click()",
    "location.hash = `#trees:${77777 + Math.floor(Math.random() * 1000)}`",
    "document.querySelector('#modes input[value=side]').click()",
    "document.querySelector('#modes input[value=both]').click()",
    "document.getElementById('theme').click()",
)


def test_no_task_of_a_hundred_thousand_changes_is_long(opened: Opened, tab: Tab) -> None:
    made = tab.call("Page.addScriptToEvaluateOnNewDocument", source=LONG)
    opened([many(100_000, batches=10)])

    def longest(act: str) -> float:
        tab.run("tasks.length = 0")
        tab.run(f"{CHOOSE}; void ({act})")
        tab.run("new Promise((done) => setTimeout(done, 250))")
        tab.wait("document.getElementById('map').dataset.busy === 'false'")
        return float(tab.run("Math.max(0, ...tasks)"))

    def opening() -> float:
        tab.call("Page.reload")
        tab.wait("document.documentElement?.dataset.ready === 'yes'")
        return float(tab.run("Math.max(0, ...tasks)"))

    try:
        assert best(opening, 500) <= 500
        for act in ACTS:
            assert best(partial(longest, act), 300) <= 300, act
    finally:
        tab.call("Page.removeScriptToEvaluateOnNewDocument", identifier=made["identifier"])


def test_a_hundred_thousand_changes_take_little_of_the_browser(opened: Opened, tab: Tab) -> None:
    """Seconds of the page's own thread until it can be worked with, by its own clock."""
    opened([many(100_000, batches=10)])
    tab.call("Performance.enable", timeDomain="threadTicks")

    def seconds() -> float:
        tab.call("Page.reload")
        tab.wait("performance.getEntriesByName('ready').length")
        metrics = tab.call("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))

    try:
        # It is counted anew with each page; of one that does nothing it is some thousandths.
        assert 0.05 < best(seconds, 0.8) <= 0.8
    finally:
        tab.call("Performance.disable")


def test_ten_thousand_changes_are_written_within_two_seconds() -> None:
    def seconds() -> float:
        diff = many(10_000)
        start = time.process_time()
        written([diff])
        return time.process_time() - start

    assert best(seconds, 2.0) <= 2.0


@pytest.mark.parametrize("role", COLOURS)
def test_colours_are_those_of_the_other_maps(role: str) -> None:
    assert f"--map-{role}: var(--light, {COLOURS[role]})" in asset("page.css")
