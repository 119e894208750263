"""`havasu-vc init`."""

import ctypes
import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.conftest import invoke, succeed
from tests.support.git import run_git


def test_a_bare_repository_of_karts_takes_karts_datasets(tmp_path: Path) -> None:
    repo, source = tmp_path / "repo.git", tmp_path / "shops.csv"
    source.write_text("id,name\n1,baker\n")
    succeed(invoke(["init", "--kart", "--bare", repo]))
    for name in ("shops", "others"):
        succeed(invoke(["-C", repo, "import", source, name, "--primary-key", "id"]))
    names = run_git("ls-tree", "-r", "--name-only", "HEAD", cwd=repo).splitlines()
    assert ".kart.repostructure.version" in names
    assert {"shops/.table-dataset", "others/.table-dataset"} == {
        "/".join(each.split("/")[:2]) for each in names if "/" in each
    }


def test_it_makes_a_repository(tmp_path: Path) -> None:
    result = succeed(invoke(["init", tmp_path / "new" / "repo", "-b", "trunk"]))

    assert "Initialized repository in" in result.stderr
    assert result.stdout == ""
    status = succeed(invoke(["-C", tmp_path / "new" / "repo", "status", "-o", "json"]))
    assert '"branch": "trunk"' in status.stdout


def test_it_can_be_done_again(tmp_path: Path) -> None:
    succeed(invoke(["init", tmp_path]))
    succeed(invoke(["init", tmp_path]))

    assert invoke(["init", tmp_path, "--bare"]).exit_code == 2


def test_bare(tmp_path: Path) -> None:
    succeed(invoke(["init", "--bare", tmp_path / "repo.git"]))

    assert (tmp_path / "repo.git" / "HEAD").is_file()


def test_it_imports(tmp_path: Path, csv_file: Path) -> None:
    result = succeed(invoke(["init", tmp_path / "repo", "--import", csv_file, "-m", "Start"]))

    assert "Imported 3 rows into table" in result.stderr
    log = succeed(invoke(["-C", tmp_path / "repo", "log", "--oneline"]))
    assert log.stdout.endswith("Start\n")


def test_a_file_is_in_the_way(csv_file: Path) -> None:
    result = invoke(["init", csv_file])

    assert result.exit_code == 2
    assert "is a file." in result.stderr


@pytest.mark.parametrize("renames", [True, False])
def test_a_file_system_without_hard_links_will_do(
    tmp_path: Path, csv_file: Path, monkeypatch: pytest.MonkeyPatch, renames: bool
) -> None:
    """As a stick's, with or without a rename that replaces nothing."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    if not renames:
        monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace())
    repo, away = tmp_path / "repo", tmp_path / "away"
    away.mkdir()
    succeed(invoke(["init", repo]))
    commands: list[list[str | Path]] = [
        ["import", csv_file, "points", "--primary-key", "id"],
        ["checkout"],
        ["export", "points", away / "delta", "--to", "delta"],
        ["export", "points", away / "iceberg", "--to", "iceberg"],
        ["export", "points", away / "delta", "--to", "delta", "--overwrite"],
        ["export", "points", away / "iceberg", "--to", "iceberg", "--overwrite"],
        ["export", "points", away / "points.csv"],
        ["gc"],
        ["clone", repo, tmp_path / "clone"],
        ["fsck", "--full"],
    ]
    for command in commands:
        succeed(invoke(["-C", repo, *command]))
    assert invoke(["-C", repo, "export", "points", away / "points.csv"]).exit_code == 2
    assert not (repo / ".git/gc.pid").exists()
    assert sorted(path.name for path in away.iterdir()) == ["delta", "iceberg", "points.csv"]


@pytest.mark.parametrize(("given", "column"), [("auto", "id"), ("name", "name")])
def test_an_import_at_once_takes_a_key(
    given: str, column: str, tmp_path: Path, csv_file: Path
) -> None:
    repo = tmp_path / "repo"
    succeed(invoke(["init", repo, "--import", csv_file, "--primary-key", given]))

    assert f"key: {column}" in succeed(invoke(["-C", repo, "describe", "table"])).stdout
    refused = invoke(["init", tmp_path / "other", "--primary-key", "id"])
    assert refused.exit_code == 2 and not (tmp_path / "other").exists()
