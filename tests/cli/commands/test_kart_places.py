"""Kart's repositories, cloned, fetched into, made V3, and what version they say they are."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from havasu_vc import Repo
from tests.cli.conftest import invoke, succeed
from tests.compat.kart import git, needs_data, unpacked
from tests.support.git import run_git

OPTIONS = ("--primary-key", "id", "--csv-lon", "lon", "--csv-lat", "lat", "--crs", "EPSG:4326")


@pytest.fixture
def survey(tmp_path: Path, csv_file: Path) -> Path:
    """A repository of Kart's with one dataset, `table`."""
    repo = tmp_path / "survey"
    succeed(invoke(["init", "--kart", repo]))
    succeed(invoke(["-C", repo, "import", csv_file, *OPTIONS]))
    return repo


def head(repo: Path) -> str:
    return run_git("rev-parse", "HEAD", cwd=repo).strip()


def test_a_clone_as_karts_has_its_folder_and_its_working_copy(survey: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    succeed(invoke(["clone", "--kart", survey, copy]))
    assert (copy / ".kart" / "HEAD").is_file() and not (copy / ".git").is_dir()
    repo = Repo.open(copy)
    assert repo.git.is_kart and head(copy) == head(survey)
    assert git(copy, "rev-parse", "--abbrev-ref", "@{upstream}") == "origin/main"
    assert git(copy, "config", "kart.workingcopy.location") == "copy.gpkg"
    with closing(sqlite3.connect(copy / "copy.gpkg")) as file:
        assert file.execute('SELECT count(*) FROM "table"').fetchone() == (3,)
    assert "Nothing to commit" in succeed(invoke(["-C", copy, "status"])).output
    assert not (copy / ".kart" / "havasu" / "cloning").exists()

    bare = tmp_path / "bare"
    succeed(invoke(["clone", "--kart", "--bare", survey, bare]))
    assert git_config(bare, "kart.repostructure.version") == "3"


def git_config(folder: Path, key: str) -> str:
    return run_git("config", key, cwd=folder).strip()


def test_without_a_checkout_a_clone_has_no_working_copy(survey: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    succeed(invoke(["clone", "--kart", "--no-checkout", survey, copy]))
    assert not list(copy.glob("*.gpkg"))
    assert succeed(invoke(["-C", copy, "count", "table"])).output.split()[0] == "3"


def test_a_filter_of_gits_leaves_rows_until_they_are_read(survey: Path, tmp_path: Path) -> None:
    subprocess.run(["git", "-C", survey, "config", "uploadpack.allowFilter", "true"], check=True)
    copy = tmp_path / "copy"
    url = (survey / ".kart").as_uri()
    succeed(invoke(["clone", "--kart", "--filter=blob:none", "--no-checkout", url, copy]))
    assert git_config(copy, "remote.origin.partialclonefilter") == "blob:none"
    missing = git(copy, "rev-list", "--objects", "--all", "--missing=print").count("?")
    assert missing > 0
    assert succeed(invoke(["-C", copy, "cat", "table", "-o", "csv"])).output.count("\n") == 4


def test_a_bare_clone_is_called_as_git_calls_it(survey: Path, tmp_path: Path) -> None:
    succeed(invoke(["-C", tmp_path, "clone", "--bare", f"{survey}/.kart"]))
    assert (tmp_path / "survey.git" / "HEAD").is_file()


def test_fetch_brings_commits_into_a_repository_whose_index_is_locked(
    survey: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    succeed(invoke(["clone", "--kart", "--no-checkout", survey, copy]))
    succeed(invoke(["-C", survey, "meta", "set", "table", "title=New"]))
    index = (copy / ".kart" / "index").read_bytes()
    fetched = succeed(invoke(["-C", copy, "fetch", "--no-progress", "origin"]))
    assert "main" in fetched.output
    assert git(copy, "rev-parse", "origin/main") == head(survey)
    succeed(invoke(["-C", copy, "pull"]))
    assert head(copy) == head(survey)
    assert (copy / ".kart" / "index").read_bytes() == index


def version(repo: Path) -> dict[str, object]:
    found = succeed(invoke(["-C", repo, "data", "version", "-o", "json"]))
    value: dict[str, object] = json.loads(found.stdout)
    return value


def test_the_version_is_what_the_repository_says(survey: Path, repo: Path, tmp_path: Path) -> None:
    assert version(survey) == {"repostructure.version": 3, "localconfig.branding": "kart"}
    assert version(repo) == {"repostructure.version": 1, "localconfig.branding": "havasu"}
    empty = tmp_path / "empty"
    succeed(invoke(["init", "--kart", empty]))
    assert version(empty)["repostructure.version"] == 3


@pytest.mark.parametrize(
    ("path", "number"), [("layer/.sno-table/meta/version", 1), ("layer/meta/version", 0)]
)
def test_forms_that_no_file_names_are_told_by_their_folders(
    tmp_path: Path, path: str, number: int
) -> None:
    old = tmp_path / "old"
    old.mkdir()
    run_git("init", "--quiet", cwd=old)
    for each in (path, f"{path.rpartition('/meta/')[0]}/features/00/1"):
        (old / each).parent.mkdir(parents=True, exist_ok=True)
        (old / each).write_text("x")
    run_git("add", ".", cwd=old)
    run_git("commit", "--quiet", "-m", "Old", cwd=old)
    assert version(old) == {"repostructure.version": number, "localconfig.branding": "sno"}


@needs_data
def test_a_repository_of_the_older_form_becomes_v3_in_place(tmp_path: Path) -> None:
    old = unpacked("v2/points", tmp_path)
    assert version(old)["repostructure.version"] == 2
    succeed(invoke(["upgrade", old, tmp_path / "new"]))
    for file in old.glob("*.gpkg"):
        file.unlink()
    again = succeed(invoke(["upgrade", "--in-place", old]))
    assert "Upgraded 1 ref" in again.output
    assert version(old) == {"repostructure.version": 3, "localconfig.branding": "kart"}
    assert head(old) == git(tmp_path / "new", "rev-parse", "HEAD")
    refused = invoke(["upgrade", "--in-place", old])
    assert refused.exit_code == 20 and "V3 already" in refused.output
    refused = invoke(["upgrade", old, tmp_path / "another"])
    assert refused.exit_code == 20 and not (tmp_path / "another").exists()


@needs_data
def test_the_older_form_is_shown_with_its_file_and_its_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = unpacked("v2/points", tmp_path)
    shown = json.loads(succeed(invoke(["-C", old, "show", "HEAD^", "-o", "json"])).stdout)
    assert list(shown["kart.diff/v1+hexwkb"]["<files>"]) == [".sno.repository.version"]
    monkeypatch.setattr(sys, "argv", ["kart"])
    lines = succeed(invoke(["-C", old, "meta", "get"])).stdout.splitlines()
    (text,) = (line for line in lines if '"text/xml"' in line)
    assert len(text) > 10_000 and text.endswith('</gmd:MD_Metadata>"')


def test_upgrade_takes_two_places_at_most(tmp_path: Path) -> None:
    assert invoke(["upgrade", tmp_path, tmp_path, tmp_path]).exit_code == 2
    other = tmp_path / "other"
    assert invoke(["upgrade", "--in-place", tmp_path, other]).exit_code == 2


def test_called_kart_upgrade_takes_the_places_that_kart_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo, new = tmp_path / "repo", tmp_path / "new"
    succeed(invoke(["init", "--kart", repo]))
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kart"])
    both = invoke(["upgrade", "--in-place", repo, new])
    assert both.exit_code == 20 and "already at latest known version" in both.stderr
    assert not new.exists()
    nowhere = invoke(["upgrade", tmp_path / "nosuch", new])
    assert nowhere.exit_code == 2
    assert f"'SOURCE': Directory '{tmp_path / 'nosuch'}' does not exist." in nowhere.stderr


def test_places_are_reckoned_from_here_whichever_repository_is_named(
    survey: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kart"])
    succeed(invoke(["-C", survey, "create-workingcopy", "rows.gpkg"]))
    succeed(invoke(["-C", survey, "init", "new"]))
    succeed(invoke(["-C", survey, "clone", survey, "copy"]))
    assert sorted(each.name for each in here.iterdir()) == ["copy", "new", "rows.gpkg"]
    assert git_config(survey, "kart.workingcopy.location") == "../here/rows.gpkg"
