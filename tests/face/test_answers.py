"""What the page is told about a repository, as JSON."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import invoke, succeed
from tests.face.conftest import ROWS, Served
from tests.support.git import run_git


def test_overview(served: Served, repo: Path) -> None:
    found = served.get("overview")
    assert (found["name"], found["branch"], found["state"]) == ("survey", "main", "clean")
    assert found["commit"] == run_git("rev-parse", "HEAD", cwd=repo).strip()
    assert found["last"]["subject"] == "Lamps"
    branches = {each["name"]: (each["ahead"], each["behind"]) for each in found["branches"]}
    assert branches == {"main": (None, None), "side": (1, 0)}
    datasets = {each["path"]: each for each in found["datasets"]}
    assert datasets["lamps"]["rows"] == 3
    assert datasets["lamps"]["extent"] is None
    west, south, east, north = datasets["points"]["extent"]
    assert west == pytest.approx(174.501, abs=1e-4)
    assert (south, north) == (pytest.approx(-41.125, abs=1e-4), pytest.approx(-41.0005, abs=1e-4))
    assert east == pytest.approx(174.75, abs=1e-4)
    assert found["merge"] is None


@pytest.mark.thorough
def test_a_merge_that_waits_shows(serving: Callable[[Path], Served], tmp_path: Path) -> None:
    repo, file = tmp_path / "both", tmp_path / "a.csv"
    succeed(invoke(["init", repo]))
    take: list[str | Path] = ["-C", repo, "import", file, "--primary-key", "id"]
    for branch, text, more in (
        ("", "a", ()),
        ("dev", "b", ["--replace"]),
        ("main", "c", ["--replace"]),
    ):
        if branch == "dev":
            succeed(invoke(["-C", repo, "branch", "dev"]))
        if branch:
            succeed(invoke(["-C", repo, "switch", branch]))
        file.write_text(f"id,x\n1,{text}\n", encoding="utf-8")
        succeed(invoke([*take, *more, "-m", text]))
    invoke(["-C", repo, "merge", "dev"])
    served = serving(repo)
    served.enter()
    found = served.get("overview")
    assert found["state"] == "merge"
    assert found["merge"]["conflicts"] == [{"dataset": "a", "count": 1}]
    assert [(e["ahead"], e["behind"]) for e in found["branches"] if e["name"] == "dev"] == [(1, 1)]


def test_history(served: Served) -> None:
    commits = served.get("history")["commits"]
    assert [each["subject"] for each in commits] == ["Lamps", "Names of two", "First points"]
    assert commits[0]["parents"] == [commits[1]["id"]]
    of_lamps = served.get("history", dataset="lamps")["commits"]
    assert [each["subject"] for each in of_lamps] == ["Lamps"]
    assert served.get("history", author="nobody at all")["commits"] == []
    found = served.get("history", limit=2)
    assert (len(found["commits"]), found["more"]) == (2, True)
    found = served.get("history", limit=2, skip=2)
    assert (len(found["commits"]), found["more"]) == (1, False)


def test_refs_at_commits_are_plain_names(served: Served) -> None:
    assert served.get("history")["commits"][0]["refs"] == ["main"]


def test_what_commits_changed(served: Served) -> None:
    lamps, names, first = (each["id"] for each in served.get("history")["commits"])
    added = {"dataset": "lamps", "what": "added", "rows": [3, 0, 0], "meta": []}
    assert served.get("changes", commit=lamps)["datasets"] == [added]
    (found,) = served.get("changes", commit=names)["datasets"]
    assert (found["dataset"], found["what"], found["rows"]) == ("points", "changed", [0, 2, 0])
    assert served.get("changes", commit=first)["datasets"][0]["rows"] == [ROWS, 0, 0]


def test_rows_come_by_page_in_the_order_of_keys(served: Served) -> None:
    found = served.get("rows", dataset="lamps")
    assert found["keys"] == ["1", "2", "3"]
    assert found["cells"]["watts"] == [None, "40", "60"]
    assert found["shapes"] is None
    seen = []
    for start in range(0, ROWS, 60):
        page = served.get("rows", dataset="points", start=start, count=60)
        assert page["start"] == start
        assert page["total"] == ROWS
        seen += page["keys"]
    assert seen == [str(i) for i in range(1, ROWS + 1)]
    beyond = served.get("rows", dataset="points", start=10 * ROWS)
    assert beyond["keys"] == []


def test_rows_have_places(served: Served) -> None:
    found = served.get("rows", dataset="points", start=9, count=1)
    assert found["shapes"]["kind"] == "globe"
    assert found["shapes"]["rows"] == [[[0, [174.51], [-41.005]]]]


def test_a_row_is_found_by_its_key(served: Served) -> None:
    found = served.get("rows", dataset="points", key="200", count=3)
    assert found["keys"] == ["199", "200", "201"]
    assert found["cells"]["name"][1] == "two hundred"
    before = served.get("rows", dataset="points", at="main~2", key="200", count=1)
    assert before["cells"]["name"] == ["name 200"]


def test_a_row_has_a_past(served: Served) -> None:
    found = served.get("row", dataset="points", key="3")
    subjects = {each["id"]: each["subject"] for each in found["commits"]}
    assert list(subjects.values()) == ["Names of two", "First points"]
    cells = {name: subjects[commit] for name, commit in found["cells"].items()}
    assert cells["name"] == "Names of two"
    assert cells["id"] == "First points"
    assert not found["more"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("rows?dataset=none", 404),
        ("rows?dataset=points&at=nowhere", 404),
        ("rows?dataset=points&key=9999", 404),
        ("rows?dataset=points&key=abc", 400),
        ("rows?dataset=points&start=-1", 400),
        ("rows?dataset=points&start=1e9", 400),
        ("rows?dataset=../points", 404),
        ("row?dataset=lamps&key=x", 400),
        ("history?at=--output=x", 400),
        ("history?at=main..side", 400),
        ("changes?commit=-1", 400),
        ("dataset", 404),
    ],
)
def test_bad_questions_get_one_line(served: Served, path: str, status: int) -> None:
    got, _, body = served.ask(f"/api/v1/{path}")
    message = json.loads(body)["error"]["message"]
    assert got == status, message
    assert message
    assert "\n" not in message
    assert "Traceback" not in message


@pytest.mark.thorough
def test_what_a_terminal_does_is_seen_at_once(
    serving: Callable[[Path], Served], tmp_path: Path
) -> None:
    repo = tmp_path / "new"
    succeed(invoke(["init", repo]))
    served = serving(repo)
    served.enter()
    assert served.get("overview")["datasets"] == []
    assert served.get("overview")["commit"] is None
    assert served.get("history")["commits"] == []
    file = tmp_path / "a.csv"
    file.write_text("id,x\n1,a\n", encoding="utf-8")
    take: list[str | Path] = ["-C", repo, "import", file, "--primary-key", "id"]
    succeed(invoke([*take, "-m", "One"]))
    assert served.get("rows", dataset="a")["cells"]["x"] == ["a"]
    file.write_text("id,x\n1,b\n2,c\n", encoding="utf-8")
    succeed(invoke([*take, "--replace", "-m", "Two"]))
    assert served.get("rows", dataset="a")["cells"]["x"] == ["b", "c"]
    assert served.get("rows", dataset="a", at="HEAD~1")["cells"]["x"] == ["a"]
    succeed(invoke(["-C", repo, "checkout"]))
    assert served.get("overview")["edited"]["tables"] == []


def test_a_commit_opens_as_a_review(served: Served) -> None:
    status, headers, body = served.ask("/review?commit=HEAD~1")
    assert status == 200
    assert b"Review" in body
    assert "script-src 'sha256-" in headers["content-security-policy"]
    assert served.ask("/review?base=main&head=side")[0] == 200
    assert served.ask("/review?base=main&head=none")[0] == 404
