"""Merges into a branch that is not checked out, and how the status stands in Kart's place."""

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import FIRST, invoke, succeed
from tests.support.git import run_git


@pytest.fixture(params=["--kart", "--havasu"])
def repo(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A repository of either kind with `points` on main and its branches `left` and `right`."""
    source, repo = tmp_path / "points.csv", tmp_path / "repo"
    source.write_text(FIRST)
    succeed(invoke(["init", repo, *([] if request.param == "--havasu" else ["--kart"])]))
    options = ("--primary-key", "id", "--crs", "EPSG:4326")
    succeed(invoke(["-C", repo, "import", source, *options]))
    for name in ("left", "right"):
        succeed(invoke(["-C", repo, "branch", name]))
    return repo


def rename(repo: Path, branch: str, row: int, name: str) -> None:
    """Commit another name of a row to a branch."""
    header = {"message": name, "authorName": "Ann", "authorEmail": "ann@example.com"}
    header["base"] = head(repo, branch)
    diff = {"points": {"feature": [{"+": {"id": row, "name": name}}]}}
    patch = json.dumps({"kart.patch/v1": header, "kart.diff/v1+hexwkb": diff})
    succeed(invoke(["-C", repo, "apply", "--ref", branch, "-"], stdin=patch))


def head(repo: Path, name: str) -> str:
    return run_git("rev-parse", name, cwd=repo).strip()


def names(repo: Path, branch: str) -> list[str]:
    shown = succeed(invoke(["-C", repo, "cat", f"points@{branch}", "-o", "csv"])).stdout
    return [line.split(",")[1] for line in shown.splitlines()[1:]]


def test_a_new_branch_of_one_that_a_remote_alone_has_is_that_one_to_kart(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not (repo / ".kart").exists():
        pytest.skip("Kart looks in its own repositories alone")
    clone = tmp_path / "clone"
    succeed(invoke(["clone", "--kart", repo, clone]))
    refused = invoke(["-C", clone, "checkout", "-b", "new", "left"])
    assert refused.exit_code != 0 and "left" in refused.stderr
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kart"])
    told = succeed(invoke(["-C", clone, "checkout", "-b", "new", "left"])).stdout
    assert "Creating new branch 'left' to track 'origin/left'..." in told
    assert invoke(["-C", clone, "checkout", "--no-guess", "-b", "new", "right"]).exit_code == 47
    assert run_git("branch", "--format=%(refname:short)", cwd=clone).split() == ["left", "main"]


def test_a_merge_goes_into_another_branch_and_head_stays(repo: Path) -> None:
    rename(repo, "left", 1, "uno")
    before = head(repo, "main")
    told = succeed(invoke(["-C", repo, "merge", "--into=right", "left", "-o", "json"])).stdout
    assert json.loads(told)["kart.merge/v1"]["branch"] == "right"
    assert head(repo, "right") == head(repo, "left") and head(repo, "HEAD") == before

    rename(repo, "left", 2, "due")
    rename(repo, "right", 3, "tre")
    succeed(invoke(["-C", repo, "merge", "--into", "right", "left", "-m", "Both"]))
    assert names(repo, "right") == ["uno", "due", "tre"]
    assert names(repo, "main") == ["one", "two", "three"]
    assert run_git("log", "-1", "--format=%s %P", "right", cwd=repo).split()[0] == "Both"
    assert len(run_git("log", "-1", "--format=%P", "right", cwd=repo).split()) == 2
    assert head(repo, "HEAD") == before


def test_conflicts_of_another_branch_end_the_merge(repo: Path) -> None:
    rename(repo, "left", 1, "uno")
    rename(repo, "right", 1, "eins")
    before = head(repo, "right")
    result = invoke(["-C", repo, "merge", "--into", "right", "left"])
    assert result.exit_code == 21
    assert head(repo, "right") == before
    assert "merging" not in succeed(invoke(["-C", repo, "status"])).stdout
    assert invoke(["-C", repo, "merge", "--into", "nowhere", "left"]).exit_code == 43
    result = invoke(["-C", repo, "merge", "--into", "right", "left", "--ff-only"])
    assert "right cannot be fast-forwarded to left" in result.stderr


@pytest.mark.parametrize("repo", ["--kart"], indirect=True)
def test_the_status_is_karts(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kart"])
    succeed(invoke(["-C", repo, "create-workingcopy", repo / "edits.gpkg"]))
    with closing(sqlite3.connect(repo / "edits.gpkg")) as file, file:
        file.execute("CREATE TABLE owners (number INTEGER PRIMARY KEY)")

    def status(*options: str) -> str:
        return succeed(invoke(["-C", repo, "status", *options])).stdout

    value = json.loads(status("-o", "json"))
    assert list(value) == ["kart.status/v2"]
    assert value["kart.status/v2"]["workingCopy"] == {
        "parts": {
            "tabular": {"location": "edits.gpkg", "type": "gpkg", "status": "ok"},
            "workdir": {"status": "notFound"},
        },
        "changes": {},
        "nonCheckoutDatasets": [],
    }
    assert status() == "On branch main\n\nNothing to commit, working copy clean\n"
    assert status("--list-untracked-tables").endswith("\n\nUntracked tables:\n  owners\n")
    with closing(sqlite3.connect(repo / "edits.gpkg")) as file, file:
        file.execute("DROP TABLE owners")
    assert status("--list-untracked-tables").endswith("\n\nNo untracked tables found.\n")


@pytest.mark.parametrize("repo", ["--kart"], indirect=True)
def test_geojson_warns_of_meta_items(repo: Path) -> None:
    succeed(invoke(["-C", repo, "meta", "set", "points", "title=Points", "description=Three"]))
    shown = succeed(invoke(["-C", repo, "diff", "HEAD^...HEAD", "-o", "geojson"]))
    warning = "Warning: points meta changes aren't included in GeoJSON output: "
    assert shown.stderr.strip() in (warning + "description, title", warning + "title, description")
    assert json.loads(shown.stdout)["features"] == []


@pytest.mark.parametrize("repo", ["--kart"], indirect=True)
def test_a_checkout_makes_the_working_copy_that_is_missing(repo: Path) -> None:
    run_git("config", "--unset", "kart.workingcopy.location", cwd=repo / ".kart")
    made = succeed(invoke(["-C", repo, "checkout"]))
    assert made.stdout == "Creating GPKG working copy at repo.gpkg ...\n"
    assert run_git("config", "kart.workingcopy.location", cwd=repo / ".kart").strip() == "repo.gpkg"
    with closing(sqlite3.connect(repo / "repo.gpkg")) as file:
        assert file.execute("SELECT count(*) FROM points").fetchone() == (3,)
    assert "Checked out 1 table" in succeed(invoke(["-C", repo, "checkout"])).stdout


@pytest.mark.parametrize("repo", ["--kart"], indirect=True)
def test_called_kart_a_switch_tells_that_the_working_copy_followed(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kart"])
    rename(repo, "left", 1, "uno")
    succeed(invoke(["-C", repo, "create-workingcopy", repo / "edits.gpkg"]))

    def told(*arguments: str) -> list[str]:
        return succeed(invoke(["-C", repo, *arguments])).stdout.splitlines()

    assert told("switch", "left")[0] == "Updating edits.gpkg ..."
    assert told("checkout", "main")[0] == "Updating edits.gpkg ..."
    assert told("switch", "right") == []


@pytest.mark.parametrize("repo", ["--kart"], indirect=True)
def test_called_kart_what_stands_in_the_way_is_told_in_karts_words(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kart"])
    rename(repo, "left", 1, "uno")
    rename(repo, "right", 1, "eins")
    merged = invoke(["-C", repo, "merge", "--into", "right", "left"])
    assert merged.exit_code == 21 and merged.stderr == "Error: Merge failed due to conflicts\n"

    succeed(invoke(["-C", repo, "create-workingcopy", repo / "edits.gpkg"]))
    with closing(sqlite3.connect(repo / "edits.gpkg")) as file, file:
        file.execute("DELETE FROM points WHERE id = 1")
    switched = invoke(["-C", repo, "switch", "left"])
    assert switched.exit_code == 29
    assert switched.stderr == (
        "Error: You have uncommitted changes in your working copy.\n"
        "Commit these changes first (`kart commit`) or just discard them by adding the option "
        "`--discard-changes`.\n"
    )


def changed_names(repo: Path, revisions: str) -> list[str]:
    """Return the names that a diff shows as new."""
    lines = succeed(invoke(["-C", repo, "diff", revisions, "-o", "json"])).stdout
    diff = json.loads(lines)["kart.diff/v1+hexwkb"].get("points", {})
    return sorted(each["+"]["name"] for each in diff.get("feature", []))


def test_dots_mean_what_they_mean_in_either_program(repo: Path) -> None:
    """With three dots Kart compares two versions as they are, and git from where they parted."""
    rename(repo, "left", 1, "uno")
    rename(repo, "right", 2, "zwei")
    apart, as_they_are = ["zwei"], ["one", "zwei"]
    of_kart = (repo / ".kart").is_dir()
    two, three = (apart, as_they_are) if of_kart else (as_they_are, apart)
    assert changed_names(repo, "left..right") == two
    assert changed_names(repo, "left...right") == three
    text = json.loads(succeed(invoke(["-C", repo, "create-patch", "right"])).stdout)[
        "kart.diff/v1+hexwkb"
    ]
    assert text["points"]["feature"][0]["+"]["name"] == "zwei"


@pytest.mark.parametrize("repo", ["--kart"], indirect=True)
def test_a_repository_of_karts_with_a_working_copy_is_fetched_pulled_and_pushed(
    repo: Path, tmp_path: Path
) -> None:
    """Kart leaves an index there that no git reads, and a hook that says why."""
    server = tmp_path / "server.git"
    run_git("clone", "-q", "--bare", str(repo / ".kart"), str(server), cwd=tmp_path)
    run_git("--git-dir", str(repo / ".kart"), "remote", "add", "origin", str(server), cwd=tmp_path)
    other = tmp_path / "other"
    succeed(invoke(["clone", server, other]))
    rename(other, "main", 1, "uno")
    succeed(invoke(["-C", other, "push", "origin", "main"]))

    succeed(invoke(["-C", repo, "create-workingcopy", repo / "edits.gpkg"]))
    index = (repo / ".kart" / "index").read_bytes()
    succeed(invoke(["-C", repo, "fetch", "origin"]))
    assert head(repo, "refs/remotes/origin/main") == head(other, "main")
    succeed(invoke(["-C", repo, "pull", "origin", "main"]))
    assert names(repo, "main") == ["uno", "two", "three"]
    with closing(sqlite3.connect(repo / "edits.gpkg")) as file:
        assert file.execute("SELECT name FROM points WHERE id = 1").fetchone() == ("uno",)
    assert (repo / ".kart" / "index").read_bytes() == index

    rename(repo, "main", 2, "due")
    here = repo / ".kart" / "hooks" / "pre-push"
    before = here.read_bytes() if here.exists() else None
    here.write_text("#!/bin/sh\necho 'ask Ann first' >&2\nexit 1\n")
    here.chmod(0o755)
    refused = invoke(["-C", repo, "push", "origin", "main"])
    assert refused.exit_code == 1 and "ask Ann first" in refused.stderr
    # Kart, which its own hook runs, stops where git's variable names a work tree.
    here.write_text('#!/bin/sh\n[ -z "$GIT_WORK_TREE" ] || { env | grep GIT_ >&2; exit 1; }\n')
    succeed(invoke(["-C", repo, "push", "origin", "main"]))
    here.unlink()
    if before is not None:
        here.write_bytes(before)
    assert run_git("rev-parse", "main", cwd=server).strip() == head(repo, "main")
