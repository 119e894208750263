"""Rows brought back beside edits of others, logs of several revisions, labels of conflicts."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from havasu_vc.store.objects import EMPTY_TREE
from tests.cli.conftest import FIRST, invoke, succeed
from tests.support.git import run_git
from tests.support.templates import again


def _sql(repo: Path, statement: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(repo / "copy.gpkg", isolation_level=None)) as database:
        return database.execute(statement).fetchall()


def _make(repo: Path) -> None:
    """Two branches that change the same row, of a dataset of Kart's with a working copy."""
    succeed(invoke(["init", "--kart", repo]))
    source = repo.parent / f"{repo.name}-shops.csv"
    source.write_text("id,name\n1,baker\n2,butcher\n3,tailor\n")
    succeed(invoke(["-C", repo, "import", source, "shops", "--primary-key", "id"]))
    succeed(invoke(["-C", repo, "create-workingcopy", "copy.gpkg"]))
    for branch, name in (("side", "cobbler"), ("main", "smith")):
        if branch == "side":
            succeed(invoke(["-C", repo, "switch", "-c", "side"]))
        else:
            succeed(invoke(["-C", repo, "switch", "main"]))
        _sql(repo, f"UPDATE shops SET name = '{name}' WHERE id = 1")
        succeed(invoke(["-C", repo, "commit", "-m", branch]))


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    again("kart-rows-and-logs", _make, tmp_path / "repo")
    return tmp_path / "repo"


def _told(repo: Path, *words: str) -> str:
    return succeed(invoke(["-C", repo, *words])).stdout


def _rows(repo: Path) -> dict[object, object]:
    return {row[0]: row[1] for row in _sql(repo, "SELECT id, name FROM shops")}


def test_a_row_comes_back_beside_edits_of_others(repo: Path) -> None:
    _sql(repo, "UPDATE shops SET name = 'mine' WHERE id = 2")
    _sql(repo, "INSERT INTO shops (id, name) VALUES (9, 'new')")
    succeed(invoke(["-C", repo, "restore", "-s", "side", "shops:1"]))
    assert _rows(repo) == {1: "cobbler", 2: "mine", 3: "tailor", 9: "new"}
    succeed(invoke(["-C", repo, "restore", "-s", "HEAD^", "shops:feature:2"]))
    assert _rows(repo) == {1: "cobbler", 2: "butcher", 3: "tailor", 9: "new"}
    succeed(invoke(["-C", repo, "restore", "-s", "HEAD^", "shops:9"]))
    assert _rows(repo) == {1: "cobbler", 2: "butcher", 3: "tailor"}
    assert invoke(["-C", repo, "restore", "-s", "HEAD^", "shops:77"]).exit_code == 40


def test_what_cannot_be_restored_drops_no_edit(repo: Path) -> None:
    _sql(repo, "UPDATE shops SET name = 'mine' WHERE id = 2")
    empty = run_git("commit-tree", EMPTY_TREE, "-m", "nothing", cwd=repo)
    for words in (("nosuch", "shops:2"), (empty, "shops:2"), ("HEAD^", "shops:2", "towns:1")):
        assert invoke(["-C", repo, "restore", "-s", *words]).exit_code != 0
        assert _rows(repo)[2] == "mine"


def test_a_dry_run_drops_nothing_and_takes_no_file(repo: Path) -> None:
    _sql(repo, "UPDATE shops SET name = 'mine' WHERE id = 2")
    with closing(sqlite3.connect(repo / "copy.gpkg", isolation_level=None)) as editor:
        editor.execute("BEGIN IMMEDIATE")  # an editor is writing
        for filters in ((), ("shops:feature:2",)):
            told = _told(repo, "restore", "-n", *filters)
            assert "Would drop" in told
        editor.execute("ROLLBACK")
    assert _rows(repo)[2] == "mine"


def test_a_log_of_several_revisions_has_what_any_reaches(repo: Path) -> None:
    def subjects(*words: str) -> set[str]:
        told = _told(repo, "log", "-o", "json", *words)
        return {each["message"].partition("\n")[0] for each in json.loads(told)}

    first = subjects("HEAD^")
    assert subjects("main", "side") == subjects("side", "main") == {"main", "side", *first}
    assert subjects("HEAD^..main", "side") == {"main", "side"}
    for words in (("main", "^side"), ("^side", "main"), ("^side", "main", "--", "shops:1")):
        assert subjects(*words) == {"main"}
    assert subjects("^side") == subjects("main", "^main") == set()
    assert _told(repo, "log", "--graph", "--format=%s", "^side", "main") == "* main\n"
    assert invoke(["-C", repo, "log", "main", "^nosuch"]).exit_code == 40
    assert subjects("main", "side", "--", "shops:1") == {"main", "side", *first}
    assert subjects("main", "side", "--", "shops:3") == first
    by_line = _told(repo, "log", "--oneline", "main", "side")
    assert len(by_line.splitlines()) == 2 + len(first)
    drawn = _told(repo, "log", "--graph", "--oneline", "main", "side")
    assert " side" in drawn and " main" in drawn


def test_labels_of_conflicts_name_their_versions(repo: Path) -> None:
    invoke(["-C", repo, "merge", "side"])
    told = json.loads(_told(repo, "conflicts", "--flat", "-o", "json"))
    names = {"ancestor": "baker", "ours": "smith", "theirs": "cobbler"}
    assert told["kart.conflicts/v1"] == {
        f"shops:feature:1:{side}": {"id": 1, "name": name} for side, name in names.items()
    }
    assert _told(repo, "conflicts", "--flat", "-ss") == "1 conflicts\n"
    number = _told(repo, "conflicts", "--flat", "-ss", "-o", "json")
    assert json.loads(number) == {"kart.conflicts/v1": 1}


def test_imports_take_karts_options(repo: Path, tmp_path: Path) -> None:
    source = tmp_path / "places.csv"
    source.write_text(FIRST)
    begin = ["-C", str(repo), "import", str(source), "--primary-key", "id", "--no-checkout"]
    succeed(invoke([*begin, "--dataset-path", "maps/places", "--num-workers", "2"]))
    assert "maps/places" in _told(repo, "data", "ls")
    again_ = [*begin, "maps/places", "--replace"]
    before = _told(repo, "log", "--oneline").count("\n")
    succeed(invoke(again_))
    assert _told(repo, "log", "--oneline").count("\n") == before
    succeed(invoke([*again_, "--allow-empty", "-m", "As it was"]))
    assert _told(repo, "log", "--oneline").count("\n") == before + 1
