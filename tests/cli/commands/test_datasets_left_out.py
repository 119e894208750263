"""`checkout --not-dataset`: datasets that the working copy is not to have."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from havasu_vc.errors import StorageError
from havasu_vc.repo.transaction import Transaction
from tests.cli.conftest import invoke, succeed
from tests.support.git import run_git


@pytest.fixture(params=["havasu", "kart"])
def repo(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A repository of either kind with the datasets `one` and `two`, and a working copy."""
    repo = tmp_path / "repo"
    (tmp_path / "points.csv").write_text("id,name\n1,one\n2,two\n3,three\n")
    succeed(invoke(["init", repo, *(["--kart"] if request.param == "kart" else [])]))
    for name in ("one", "two"):
        source: list[str | Path] = ["import", tmp_path / "points.csv", name, "--primary-key", "id"]
        succeed(invoke(["-C", repo, *source]))
    succeed(invoke(["-C", repo, "create-workingcopy"]))
    return repo


def sql(repo: Path, statement: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(repo / "repo.gpkg")) as database:
        found = database.execute(statement).fetchall()
        database.commit()
    return found


def tables(repo: Path) -> list[object]:
    return [name for (name,) in sql(repo, "SELECT table_name FROM gpkg_contents ORDER BY 1")]


def status(repo: Path) -> dict[str, object]:
    told = json.loads(succeed(invoke(["-C", repo, "status", "-o", "json"])).stdout)
    found: dict[str, object] = told["kart.status/v2"]["workingCopy"]
    return found


@pytest.mark.few(1)
def test_a_dataset_goes_and_comes_back(repo: Path) -> None:
    succeed(invoke(["-C", repo, "checkout", "--not-dataset", "one"]))
    assert tables(repo) == ["two"]
    assert status(repo)["nonCheckoutDatasets"] == ["one"] and status(repo)["changes"] == {}
    text = succeed(invoke(["-C", repo, "status"])).stdout
    assert "prevents the following datasets from being checked out\n" in text
    assert "\none\n" in text and "working copy clean" in text
    assert invoke(["-C", repo, "diff", "--exit-code"]).exit_code == 0
    assert invoke(["-C", repo, "commit", "-m", "Nothing"]).exit_code == 44

    sql(repo, "UPDATE two SET name = 'zwei' WHERE id = 2")
    succeed(invoke(["-C", repo, "commit", "-m", "Two"]))
    assert succeed(invoke(["-C", repo, "data", "ls"])).stdout == "one\ntwo\n"
    for revision in ("HEAD^", "main"):
        succeed(invoke(["-C", repo, "switch", *(["-d"] * (revision != "main")), revision]))
        assert tables(repo) == ["two"]
    succeed(invoke(["-C", repo, "create-workingcopy", "--delete-existing"]))
    assert tables(repo) == ["two"], "a file made anew is without it as well"

    succeed(invoke(["-C", repo, "checkout", "--dataset", "one"]))
    assert tables(repo) == ["one", "two"] and status(repo)["nonCheckoutDatasets"] == []
    assert sql(repo, "SELECT count(*) FROM one") == [(3,)]
    sql(repo, "UPDATE one SET name = 'eins' WHERE id = 1")
    assert status(repo)["changes"] == {"one": {"feature": {"updates": 1}}}


def test_edits_are_in_the_way(repo: Path) -> None:
    sql(repo, "UPDATE one SET name = 'eins' WHERE id = 1")
    refused = invoke(["-C", repo, "checkout", "--not-dataset", "one"])
    assert refused.exit_code == 29 and tables(repo) == ["one", "two"]
    assert "dataset.one" not in run_git("config", "--file", str(config(repo)), "--list", cwd=repo)
    succeed(invoke(["-C", repo, "checkout", "--not-dataset", "one", "--discard-changes"]))
    assert tables(repo) == ["two"]


def config(repo: Path) -> Path:
    return next(repo / name / "config" for name in (".kart", ".git") if (repo / name).is_dir())


def test_the_settings_are_those_of_kart(repo: Path) -> None:
    succeed(invoke(["-C", repo, "checkout", "main", "--not-dataset", "one"]))
    listed = run_git("config", "--file", str(config(repo)), "--list", cwd=repo)
    assert "dataset.one.checkout=false" in listed.splitlines()
    names = [str(name) for (name,) in sql(repo, "SELECT name FROM sqlite_master")]
    state = next(name for name in names if name.endswith("_state"))
    found = sql(repo, f"SELECT * FROM {state} WHERE key = 'checkout'")
    assert found == [("one", "checkout", "false")]


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--not-dataset", "three"], "No dataset three"),
        (["--dataset", "three"], "No dataset three"),
        (["--dataset", "one", "--not-dataset", "one"], "is to be checked out, and not to be"),
        (["--dataset", "one", "--copy"], "--dataset goes with"),
        (["--not-dataset", "one", "--relocate"], "--not-dataset is of the working copy"),
    ],
)
def test_what_cannot_be_is_refused(repo: Path, arguments: list[str], why: str) -> None:
    refused = invoke(["-C", repo, "checkout", *arguments])
    assert refused.exit_code == 2 and why in refused.stderr
    assert tables(repo) == ["one", "two"]


def _imported(repo: Path, name: str, *options: str) -> None:
    source = repo.parent / "points.csv"
    succeed(invoke(["-C", repo, "import", source, name, "--primary-key", "id", *options]))


def test_an_import_leaves_a_new_dataset_out(repo: Path) -> None:
    _imported(repo, "three", "--no-checkout")
    assert tables(repo) == ["one", "two"] and status(repo)["nonCheckoutDatasets"] == ["three"]
    assert status(repo)["changes"] == {}
    _imported(repo, "two", "--replace", "--no-checkout")
    assert tables(repo) == ["one", "two"], "a dataset that was there stays where it is"

    succeed(invoke(["-C", repo, "checkout", "--dataset", "three"]))
    assert tables(repo) == ["one", "three", "two"] and status(repo)["nonCheckoutDatasets"] == []


@pytest.mark.parametrize("how", ["--link", "--history"])
def test_a_table_that_is_linked_or_has_a_history_is_left_out_too(tmp_path: Path, how: str) -> None:
    repo = tmp_path / "repo"
    (tmp_path / "points.csv").write_text("id,name\n1,one\n2,two\n")
    succeed(invoke(["init", repo]))
    _imported(repo, "one")
    succeed(invoke(["-C", repo, "checkout"]))
    succeed(invoke(["-C", repo, "checkout", "--to", tmp_path / "tables"]))
    succeed(invoke(["-C", repo, "create-workingcopy"]))
    table = f"iceberg:{tmp_path / 'tables' / 'one'}"
    succeed(invoke(["-C", repo, "import", table, "three", how, "--no-checkout"]))
    assert tables(repo) == ["one"] and status(repo)["nonCheckoutDatasets"] == ["three"]
    succeed(invoke(["-C", repo, "checkout", "--dataset", "three"]))
    assert tables(repo) == ["one", "three"]


def test_a_dataset_that_was_left_out_comes_anew(repo: Path) -> None:
    succeed(invoke(["-C", repo, "checkout", "--not-dataset", "one"]))
    succeed(invoke(["-C", repo, "data", "rm", "one", "-m", "It goes"]))
    _imported(repo, "one")
    assert tables(repo) == ["one", "two"] and status(repo)["nonCheckoutDatasets"] == []
    names = [str(name) for (name,) in sql(repo, "SELECT name FROM sqlite_master")]
    state = next(name for name in names if name.endswith("_state"))
    assert sql(repo, f"SELECT * FROM {state} WHERE key = 'checkout'") == []
    sql(repo, "UPDATE one SET name = 'eins' WHERE id = 1")
    assert status(repo)["changes"] == {"one": {"feature": {"updates": 1}}}
    succeed(invoke(["-C", repo, "commit", "-m", "One"]))
    assert tables(repo) == ["one", "two"] and status(repo)["changes"] == {}


def test_settings_stay_where_no_dataset_comes(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(Transaction, "commit", refuse)
    words = ("three", "--primary-key", "id", "--no-checkout")
    refused = invoke(["-C", repo, "import", repo.parent / "points.csv", *words])
    assert refused.exit_code != 0 and "the disk is full" in refused.output
    assert "dataset.three" not in run_git("config", "--file", str(config(repo)), "--list", cwd=repo)


@pytest.mark.few(1)
def test_restoring_passes_over_them(repo: Path) -> None:
    sql(repo, "UPDATE one SET name = 'eins' WHERE id = 1")
    sql(repo, "UPDATE two SET name = 'zwei' WHERE id = 2")
    succeed(invoke(["-C", repo, "commit", "-m", "Both"]))
    succeed(invoke(["-C", repo, "checkout", "--not-dataset", "one"]))
    sql(repo, "UPDATE two SET name = 'drei' WHERE id = 3")
    if (repo / ".kart").exists():  # elsewhere edits are not overwritten
        succeed(invoke(["-C", repo, "restore", "-s", "main"]))
        assert status(repo)["changes"] == {}
    else:
        succeed(invoke(["-C", repo, "restore"]))
    succeed(invoke(["-C", repo, "restore", "one"]))
    told = succeed(invoke(["-C", repo, "restore", "-s", "HEAD^"]))
    assert "one is left out of the working copy, so it stays as it is" in told.stderr
    assert status(repo)["changes"] == {"two": {"feature": {"updates": 1}}}
    assert tables(repo) == ["two"]
