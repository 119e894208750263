"""What is edited, and what is done about it from the page."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import invoke, succeed
from tests.face.conftest import Served
from tests.face.test_page import shown, unnamed
from tests.review.page.test_reach import CONTRAST
from tests.support.axe import barriers
from tests.support.browser import Tab
from tests.support.git import run_git
from tests.support.postgres import has_postgis, postgres
from tests.support.templates import copy_tree

ACTIONS = ("commit", "discard", "stash", "unstash", "switch", "branch", "merge", "abort", "restore")


@pytest.fixture
def edited(repo: Path, tmp_path: Path) -> Path:
    """A living working copy with edits in two tables."""
    place = tmp_path / "survey"
    copy_tree(repo, place)
    succeed(invoke(["-C", place, "create-workingcopy", tmp_path / "copy.gpkg"]))
    edit(tmp_path / "copy.gpkg", "update lamps set watts = 61 where id = 3")
    edit(tmp_path / "copy.gpkg", "delete from lamps where id = 2")
    edit(tmp_path / "copy.gpkg", "update points set name = 'edited' where id = 5")
    return place


def edit(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    for name in ("ST_IsEmpty", "ST_MinX", "ST_MaxX", "ST_MinY", "ST_MaxY"):
        connection.create_function(name, 1, lambda _: 0)
    with connection:
        connection.execute(statement)
    connection.close()


def enter(serving: Callable[[Path], Served], repo: Path) -> Served:
    served = serving(repo)
    served.enter()
    return served


def act(served: Served, what: str, **asked: Any) -> tuple[int, str]:
    """Do something as the page does it; return the status and what is said."""
    status, body = post(served, f"/api/v1/do/{what}", asked)
    return status, body.get("said") or body["error"]["message"]


def post(
    served: Served, path: str, asked: Any, *, method: str = "POST", **headers: str
) -> tuple[int, Any]:
    place = served.address.removeprefix("http://").partition("/")[0]
    word = served.get("word")["word"]
    sent = {"origin": f"http://{place}", "content-type": "application/json"}
    sent |= {"x-havasu-word": word} | headers
    sent = {name: value for name, value in sent.items() if value}
    status, _, body = served.ask(path, method=method, body=json.dumps(asked), **sent)
    return status, json.loads(body)


def test_edits_are_listed(serving: Callable[[Path], Served], edited: Path) -> None:
    found = enter(serving, edited).get("work")
    datasets = {each["dataset"]: each for each in found["datasets"]}
    assert datasets["lamps"]["rows"] == [0, 1, 1]
    assert datasets["lamps"]["listed"] == [
        {"key": "2", "what": "deleted", "cells": [["id", "2", None], ["watts", "40", None]]},
        {"key": "3", "what": "updated", "cells": [["watts", "60", "61"]]},
    ]
    (row,) = datasets["points"]["listed"]
    assert row["cells"] == [["name", "name 5", "edited"]]


def test_ticked_rows_are_committed_and_the_rest_stays(
    serving: Callable[[Path], Served], edited: Path
) -> None:
    served = enter(serving, edited)
    status, said = act(served, "commit", filters=["lamps:feature:3", "points"], message="Ticked")
    assert (status, said[:16]) == (200, "Committed 2 rows")
    assert run_git("log", "-1", "--format=%s", cwd=edited).strip() == "Ticked"
    assert served.get("rows", dataset="lamps")["cells"]["watts"] == [None, "40", "61"]
    (left,) = served.get("work")["datasets"]
    assert [(each["key"], each["what"]) for each in left["listed"]] == [("2", "deleted")]


@pytest.mark.thorough
@pytest.mark.skipif(not has_postgis(), reason="there is no PostGIS")
def test_edits_in_postgis_are_worked_on_alike(
    serving: Callable[[Path], Served], repo: Path, tmp_path: Path
) -> None:
    place = tmp_path / "survey"
    copy_tree(repo, place)
    with postgres() as server:
        succeed(invoke(["-C", place, "create-workingcopy", server.address("wc")]))
        server.run(
            "UPDATE wc.lamps SET watts = 61 WHERE id = 3",
            "DELETE FROM wc.lamps WHERE id = 2",
            "UPDATE wc.points SET name = '<b>edited' WHERE id IN (5, 6)",
        )
        served = enter(serving, place)
        found = served.get("work")
        assert "postgresql" in found["edited"]["place"]
        datasets = {each["dataset"]: each for each in found["datasets"]}
        assert [each["key"] for each in datasets["lamps"]["listed"]] == ["2", "3"]
        assert datasets["points"]["listed"][0]["cells"] == [["name", "name 5", "<b>edited"]]
        assert b"workspace" in served.ask("/review?work=1")[2]
        filters = ["lamps:feature:3", "points:feature:5"]
        status, said = act(served, "commit", filters=filters, message="Ticked", seen=found["seen"])
        assert (status, said[:16]) == (200, "Committed 2 rows"), said
        assert act(served, "drop", filters=["lamps:feature:2"])[0] == 200
        assert list(server.rows("SELECT id FROM wc.lamps ORDER BY 1")) == [(1,), (2,), (3,)]
        assert act(served, "discard", datasets=["points"])[0] == 200
        assert served.get("work")["datasets"] == []
        found = served.get("rows", dataset="points", key="5", count=1)
        assert found["cells"]["name"] == ["<b>edited"]


@pytest.mark.thorough
def test_edits_are_set_aside_and_dropped(serving: Callable[[Path], Served], edited: Path) -> None:
    served = enter(serving, edited)
    assert act(served, "stash", datasets=["lamps"], message="for later")[0] == 200
    assert [each["dataset"] for each in served.get("work")["datasets"]] == ["points"]
    (stash,) = served.get("work")["stashes"]
    assert act(served, "unstash", stash=stash["name"]) == (200, f"Brought back: {stash['message']}")
    assert act(served, "discard", datasets=["lamps"]) == (200, "Dropped the edits of lamps")
    assert [each["dataset"] for each in served.get("work")["datasets"]] == ["points"]
    status, said = act(served, "discard", datasets=[])
    assert (status, said) == (400, "no dataset is named")


@pytest.mark.thorough
def test_branches_are_made_switched_to_and_merged(
    serving: Callable[[Path], Served], repo: Path, tmp_path: Path
) -> None:
    place = tmp_path / "survey"
    copy_tree(repo, place)
    served = enter(serving, place)
    assert act(served, "branch", name="mine")[0] == 200
    assert served.get("refs")["head"] == "mine"
    assert act(served, "switch", branch="main")[0] == 200
    assert act(served, "switch", branch="HEAD~1")[0] == 400
    assert act(served, "merge", branch="side") == (
        200,
        "main is brought up to side, without a merge: 1 commit came",
    )
    assert served.get("rows", dataset="points", key="7", count=1)["cells"]["name"] == ["seven"]
    first = served.get("history")["commits"][-1]["id"]
    assert act(served, "restore", dataset="points", key="3", commit=first)[0] == 200
    assert served.get("rows", dataset="points", key="3", count=1)["cells"]["name"] == ["name 3"]


@pytest.mark.thorough
def test_a_refusal_changes_nothing(serving: Callable[[Path], Served], edited: Path) -> None:
    served = enter(serving, edited)
    before = run_git("rev-parse", "HEAD", cwd=edited)
    for what, asked in (
        ("commit", {"filters": ["lamps"]}),
        ("commit", {"filters": ["none"], "message": "x"}),
        ("commit", {"filters": "lamps", "message": "x"}),
        ("switch", {"branch": "--detach"}),
        ("merge", {"branch": "--abort"}),
        ("branch", {"name": "a..b"}),
        ("unstash", {"stash": "7"}),
        ("conclude", {}),
        ("restore", {"dataset": "lamps", "key": "99", "commit": "nowhere"}),
    ):
        status, said = act(served, what, **asked)
        assert status in (400, 404), said
        assert "\n" not in said
        assert "Traceback" not in said
    assert run_git("rev-parse", "HEAD", cwd=edited) == before
    assert len(served.get("work")["datasets"]) == 2


@pytest.mark.thorough
def test_only_our_own_page_acts(serving: Callable[[Path], Served], edited: Path) -> None:
    served = enter(serving, edited)
    before = run_git("for-each-ref", cwd=edited)
    for what in ACTIONS:
        path = f"/api/v1/do/{what}"
        asked = {"message": "x", "filters": ["lamps"], "datasets": ["lamps"], "name": "mine"}
        for wrong, status in (
            ({"method": "GET"}, 405),
            ({"method": "HEAD"}, 405),
            ({"method": "PUT"}, 405),
            ({"x-havasu-word": ""}, 403),
            ({"x-havasu-word": "guessed"}, 403),
            ({"origin": ""}, 403),
            ({"origin": "http://example.org"}, 403),
            ({"origin": "null"}, 403),
            ({"cookie": "x=y"}, 403),
            ({"sec-fetch-site": "cross-site"}, 403),
            ({"content-type": "text/plain"}, 415),
            ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ):
            if wrong == {"method": "HEAD"}:
                assert served.ask(path, method="HEAD")[0] == status
                continue
            assert post(served, path, asked, **wrong)[0] == status, (what, wrong)
    assert post(served, "/api/v1/do/none", {})[0] == 404
    assert post(served, "/api/v1/do/commit", [])[0] == 400
    assert run_git("for-each-ref", cwd=edited) == before
    assert len(served.get("work")["datasets"]) == 2


def test_a_person_commits_what_they_ticked(
    page: Tab, serving: Callable[[Path], Served], edited: Path
) -> None:
    served = serving(edited)
    page.go(served.address)
    page.click("nav [data-view=work]")
    page.wait("document.querySelectorAll('.edits tbody tr').length === 3")
    assert page.run(CONTRAST) == []
    assert unnamed(page) == []
    assert barriers(page) == []
    page.click("section[aria-label=lamps] [aria-label='Row 2']")
    assert "2 of 3 edited rows" in page.text("section[aria-label=Commit]")
    page.click("#commit-message")
    page.call("Input.insertText", text="From the page")
    page.click("#commit")
    page.wait("document.querySelector('.callout.done')?.innerText.startsWith('Committed 2 rows')")
    page.wait("document.querySelectorAll('.edits tbody tr').length === 1")
    assert run_git("log", "-1", "--format=%s", cwd=edited).strip() == "From the page"
    # What was left out is not ticked now.
    assert "0 of 1 edited row" in page.text("section[aria-label=Commit]")
    assert not page.run('document.querySelector("section[aria-label=lamps] input").checked')
    # Dropping asks once more.
    page.click("section[aria-label=lamps] .quiet")
    assert "really?" in page.text("section[aria-label=lamps] .quiet")
    page.click("section[aria-label=lamps] .quiet")
    page.wait("document.querySelectorAll('.edits tbody tr').length === 0")
    page.prefers(color_scheme="dark")
    page.resize(390, 900)
    shown(page, served, "work")
    assert page.run(CONTRAST) == []
    assert page.run("document.documentElement.scrollWidth") <= 390
