"""A request that is sent again is answered as before, whatever happened on the branch since."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pyarrow as pa
import pytest

from havasu_vc import Repo
from tests.serving.server import ask, serving
from tests.serving.test_writes_bad_input import (
    POINTS,
    appended,
    assert_sound,
    commits,
    held,
    repo,
    send,
)

__all__ = ["repo"]

SHORT = "import havasu_vc.serving.commits as commits; commits._MOST_LOOKED_AT = 2"
"""Of the last commits only two are looked at."""
KEY = {"idempotency-key": "0190b5c5-7c7b-7e5a-9d1c-1f2e3d4c5b6a"}
PAUSED = """
import os, time, havasu_vc.serving.commits as commits
make = commits.message_of
def wait(*arguments, **options):
    place = os.environ["PAUSED_AT"]
    open(place, "x").close()
    while os.path.exists(place):
        time.sleep(0.01)
    return make(*arguments, **options)
commits.message_of = wait
"""
"""The server has looked for the commit of a request, and waits before it makes it."""


@pytest.fixture
def url(repo: Repo) -> Iterator[str]:
    with serving(repo.path, "--write", "main", first=SHORT) as found:
        yield found


def others_commit(repo: Repo) -> None:
    """Take the row 100 away again, and commit more than the last commits are."""
    repo.write("points", pa.table({"id": [100]}), mode="delete", message="Not 100")
    for number in range(3):
        repo.write("points", pa.table({"id": [number], "name": ["other"]}), message="Other")


@pytest.mark.few(1)
@pytest.mark.parametrize("key", [{}, KEY], ids=["no key", "key"])
def test_after_other_commits(repo: Repo, url: str, key: dict[str, str]) -> None:
    body = appended(url, 100)
    assert send(url, body, **key) == (200, "")
    others_commit(repo)
    assert (commits(repo), held(repo)) == (7, 20)
    with serving(repo.path, "--write", "main", first=SHORT) as other:
        for each in (url, other):
            assert send(each, body, **key) == (200, "")
    assert (commits(repo), held(repo)) == (7, 20)
    assert_sound(repo)


@pytest.mark.thorough
def test_after_a_merge_that_brought_it_in(repo: Repo, url: str) -> None:
    body = appended(url, 100)
    assert send(url, body) == (200, "")
    git = repo.git.git
    tree = git("rev-parse", "main^{tree}").text
    merge = git("commit-tree", tree, "-p", "main^", "-p", "main", "-m", "Merge").text
    git("update-ref", "refs/heads/main", merge)
    repo.write("points", pa.table({"id": [100]}), mode="delete", message="Not 100")
    count = commits(repo)
    assert send(url, body) == (200, "")
    assert (commits(repo), held(repo)) == (count, 20)


@pytest.mark.thorough
@pytest.mark.parametrize("key", [{}, KEY], ids=["no key", "key"])
def test_after_a_server_that_was_killed(repo: Repo, url: str, key: dict[str, str]) -> None:
    body = appended(url, 100)
    dying = "import os, havasu_vc.serving.writes as m; m.load_answer = lambda *a, **o: os._exit(9)"
    with (
        serving(repo.path, "--write", "main", first=dying) as other,
        pytest.raises((URLError, ConnectionError)),
    ):
        send(other, body, **key)
    others_commit(repo)
    with serving(repo.path, "--write", "main", first=SHORT) as other:
        for each in (url, other):
            assert send(each, body, **key) == (200, "")
    assert (commits(repo), held(repo)) == (7, 20)
    assert_sound(repo)


@pytest.mark.few(1)
@pytest.mark.parametrize("key", [{}, KEY], ids=["no key", "key"])
def test_while_another_server_is_at_it(
    repo: Repo, url: str, key: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body, place = appended(url, 100), tmp_path / "paused"
    monkeypatch.setenv("PAUSED_AT", str(place))
    with (
        serving(repo.path, "--write", "main", first=PAUSED) as other,
        ThreadPoolExecutor() as pool,
    ):
        first = pool.submit(send, other, body, **key)
        while not place.exists():
            assert not first.done(), first.result()
            time.sleep(0.01)
        second = pool.submit(send, url, body, **key)
        time.sleep(1)
        if second.done():
            repo.write("points", pa.table({"id": [100]}), mode="delete", message="Not 100")
        os.unlink(place)
        assert first.result(60) == second.result(60) == (200, "")
    assert (commits(repo), held(repo)) == (3, 21)


@pytest.mark.thorough
def test_what_makes_no_snapshot_needs_a_key(repo: Repo, url: str) -> None:
    table: Any = ask(url, "main", "GET", POINTS)[1]["metadata"]
    schema = table["schemas"][-1]
    field = {"id": table["last-column-id"] + 1, "name": "size", "required": False, "type": "int"}
    body = {
        "requirements": [
            {"type": "assert-current-schema-id", "current-schema-id": table["current-schema-id"]}
        ],
        "updates": [
            {"action": "add-schema", "schema": {**schema, "fields": [*schema["fields"], field]}},
            {"action": "set-current-schema", "schema-id": -1},
        ],
    }
    assert send(url, body, **KEY) == (200, "")
    repo.write("points", pa.table({"id": [0], "name": ["other"]}), message="Other")
    assert send(url, body, **KEY) == (200, "")
    assert commits(repo) == 4
    assert send(url, body)[0] == 409
