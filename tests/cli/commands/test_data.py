"""`havasu-vc data`."""

import json
import tarfile
from pathlib import Path

from tests.cli.conftest import Run, invoke, succeed


def test_ls(run: Run) -> None:
    assert succeed(run("data", "ls")).stdout == "points\n"
    assert json.loads(succeed(run("data", "ls", "-o", "json")).stdout) == {
        "kart.data.ls/v1": ["points"]
    }


def test_ls_with_types(run: Run) -> None:
    value = json.loads(succeed(run("data", "ls", "-o", "json", "--with-dataset-types")).stdout)

    (item,) = value["kart.data.ls/v2"]
    assert (item["path"], item["type"]) == ("points", "table")


def test_ls_of_a_repository_of_karts(shared_data: Path, tmp_path: Path) -> None:
    with tarfile.open(shared_data / "kart" / "points.tgz") as archive:
        archive.extractall(tmp_path, filter="data")
    value = json.loads(
        succeed(
            invoke(["-C", tmp_path / "points", "data", "ls", "-o", "json", "--with-dataset-types"])
        ).stdout
    )

    (item,) = value["kart.data.ls/v2"]
    assert item == {"path": "nz_pa_points_topo_150k", "type": "table", "version": 3}


def test_ls_long(run: Run) -> None:
    path, kind, rows, _size = succeed(run("data", "ls", "-l", "HEAD^")).stdout.strip().split("\t")

    assert (path, kind, rows) == ("points", "havasu", "3 rows")


def test_ls_of_nothing(tmp_path: Path, run: Run) -> None:
    succeed(invoke(["init", tmp_path]))
    result = succeed(invoke(["-C", tmp_path, "data", "ls"]))

    assert result.stdout == ""
    assert "there are no datasets" in result.stderr
    assert run("data", "ls", "nope").exit_code == 47


def test_version(run: Run) -> None:
    assert "Havasu" in succeed(run("data", "version")).stdout
    value = json.loads(succeed(run("data", "version", "-o", "json")).stdout)
    assert value == {"repostructure.version": 1, "localconfig.branding": "havasu"}
