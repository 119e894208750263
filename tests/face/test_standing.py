"""Two tabs and a terminal at once: what is stale is refused by its name, and work can be ended."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from havasu_vc import Repo
from havasu_vc.face.application import CancelledError, Job, Jobs
from tests.cli.conftest import invoke, succeed
from tests.face.conftest import Served
from tests.face.test_work import act, edit, edited, enter, post
from tests.support.browser import Tab
from tests.support.git import run_git
from tests.support.templates import copy_tree
from tests.workspace import by_hand

__all__ = ["edited"]


def head(repo: Path) -> str:
    return run_git("rev-parse", "HEAD", cwd=repo).strip()


@pytest.mark.thorough
def test_an_action_on_what_is_seen_no_more_is_refused(
    serving: Callable[[Path], Served], edited: Path, tmp_path: Path
) -> None:
    served = enter(serving, edited)
    seen = served.get("work")["seen"]
    assert served.get("work")["seen"] == seen
    edit(tmp_path / "copy.gpkg", "update points set name = 'again' where id = 5")
    before = head(edited)
    status, said = act(served, "commit", filters=[], message="x", seen=seen)
    assert (status, "what is edited has changed" in said) == (409, True)
    assert act(served, "drop", filters=["points:feature:5"], seen=seen)[0] == 409
    assert head(edited) == before
    # Somebody else commits in a terminal.
    seen = served.get("work")["seen"]
    succeed(invoke(["-C", edited, "commit", "lamps", "-m", "Lamps alone"]))
    status, said = act(served, "commit", filters=[], message="x", seen=seen)
    assert (status, "HEAD has moved" in said, head(edited)[:7] in said) == (409, True, True)
    seen = served.get("work")["seen"]
    run_git("branch", "-f", "side", "HEAD", cwd=edited)
    assert "a branch has moved" in act(served, "merge", branch="side", seen=seen)[1]
    seen = served.get("work")["seen"]
    assert act(served, "commit", filters=[], message="Now", seen=seen)[0] == 200
    for wrong in ("all", ["head"], {"head": 1}, {"colour": "red"}):
        assert act(served, "branch", name="new", seen=wrong)[0] == 400


@pytest.mark.thorough
def test_one_rows_edit_is_dropped(
    serving: Callable[[Path], Served], edited: Path, tmp_path: Path
) -> None:
    served = enter(serving, edited)
    asked = {"filters": ["lamps:feature:2"]}
    assert act(served, "drop", **asked) == (200, "Dropped the edits of 1 row of lamps")
    left = {each["dataset"]: each["listed"] for each in served.get("work")["datasets"]}
    assert [row["key"] for row in left["lamps"]] == ["3"]
    assert [row["key"] for row in left["points"]] == ["5"]
    assert act(served, "drop", **asked) == (200, "Nothing of that was edited")
    assert act(served, "drop", filters=[])[0] == 400
    succeed(invoke(["-C", edited, "commit", "-m", "The rest"]))
    assert served.get("rows", dataset="lamps")["cells"]["watts"] == [None, "40", "61"]


def test_one_rows_edit_is_dropped_in_tables(repo: Path, tmp_path: Path) -> None:
    place = tmp_path / "survey"
    copy_tree(repo, place)
    succeed(invoke(["-C", place, "checkout"]))
    opened = Repo.open(place)
    table = opened.workspace.root / "lamps"
    by_hand.insert(table, [{"id": 7, "watts": 70}, {"id": 8, "watts": 80}])
    assert opened.workspace.discard_rows(["lamps:feature:7"]) == {"lamps": 1}
    again = Repo.open(place)
    (diff,) = again.workspace.diff()
    rows = [row for batch in diff.changes for row in batch.new_rows().to_pylist()]
    assert rows == [{"id": 8, "watts": 80}]
    assert again.workspace.discard_rows(["lamps:feature:7"]) == {}
    assert again.workspace.discard_rows(["lamps:feature:8"]) == {"lamps": 1}
    assert list(Repo.open(place).workspace.diff()) == []
    assert Repo.open(place).workspace.stashes() == ()


@pytest.mark.thorough
def test_a_row_comes_back_as_an_edit(serving: Callable[[Path], Served], edited: Path) -> None:
    served = enter(serving, edited)
    succeed(invoke(["-C", edited, "restore"]))
    first = served.get("history", dataset="points", key="3")["commits"][-1]["id"]
    status, said = act(served, "restore", dataset="points", key="3", commit=first)
    assert (status, said.endswith("in the working copy, not committed")) == (200, True)
    (found,) = served.get("work")["datasets"]
    assert found["listed"][0]["cells"] == [["name", "THREE", "name 3"]]


def test_a_job_is_told_of_and_ended() -> None:
    jobs = Jobs()
    with jobs.running("one") as job:
        job.start(4, "Reading")
        job.advance(1)
        value = jobs.value("one")
        assert value is not None
        assert (value["what"], value["done"], value["total"]) == ("Reading", 1, 4)
        assert jobs.cancel("one")
        with pytest.raises(CancelledError, match="cancelled"):
            job.advance(1)
    assert jobs.value("one") is None
    assert not jobs.cancel("one")


class Ends(Job):
    """A job that is cancelled at some step."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left

    def start(self, total_tasks: int, description: str, *, in_bytes: bool = False) -> None:
        """Count this as a step."""
        self.advance(0)

    def advance(self, tasks: int) -> None:
        """Be cancelled when no step is left."""
        self.left -= 1
        if self.left < 0:
            self.cancel()
        super().advance(tasks)


def test_work_that_is_cancelled_changes_nothing(repo: Path, tmp_path: Path) -> None:
    """Cancelled at each step at which that can be, a commit is there or it is not."""
    place = tmp_path / "survey"
    copy_tree(repo, place)
    before, ended = head(place), 0
    for left in range(200):
        opened = Repo.open(place)
        changed = opened.with_settings(replace(opened.settings, progress=Ends(left)))
        try:
            changed.restore(["points:feature"], source="HEAD~2", message="As at first")
        except CancelledError:
            ended += 1
            assert head(place) == before
            assert Repo.open(place).row("points", "3")["name"] == "THREE"
        else:
            break
    assert 0 < ended < 200
    assert Repo.open(place).row("points", "3")["name"] == "name 3"


def test_cancelling_comes_by_post_alone(served: Served) -> None:
    assert post(served, "/api/v1/do/cancel", {"job": "none"}) == (
        200,
        {"said": "It is done already"},
    )
    assert post(served, "/api/v1/do/cancel", {}, method="GET")[0] == 405
    assert post(served, "/api/v1/do/cancel", {}, **{"x-havasu-word": ""})[0] == 403
    assert json.loads(served.ask("/api/v1/job?name=none")[2]) == {"job": None}


def test_a_tab_hears_of_a_terminal(
    page: Tab, serving: Callable[[Path], Served], edited: Path
) -> None:
    served = serving(edited)
    page.go(served.address)
    page.key("4")
    page.wait("document.querySelectorAll('.edits tbody tr').length === 3")
    page.click("#commit-message")
    page.call("Input.insertText", text="Mine")
    succeed(invoke(["-C", edited, "commit", "lamps", "-m", "In a terminal"]))
    page.click("#commit")
    page.wait("document.querySelector('main .callout')?.innerText.includes('HEAD has moved')")
    assert run_git("log", "-1", "--format=%s", cwd=edited).strip() == "In a terminal"
    # The refusal was logged by the browser; that was wanted here.
    page.problems.clear()
    # It is told without a click as well.
    page.wait("!document.getElementById('news').hidden")
    page.run("document.querySelector('main .callout button').click()")
    page.wait("document.querySelectorAll('.edits tbody tr').length === 1")
    assert page.run("document.querySelector('#commit-message').value") == "Mine"
    page.click("#commit")
    page.wait("document.querySelector('.callout.done')?.innerText.startsWith('Committed 1 row')")
