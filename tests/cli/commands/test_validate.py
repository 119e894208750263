"""`havasu-vc validate`."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from havasu_vc import Settings
from havasu_vc.upkeep.validation import Validation
from tests.cli.conftest import Run, succeed
from tests.exchange.tables import points
from tests.support.templates import empty_repo


def damaged(path: Path) -> Path:
    """Write a file with a key that stands twice, other SRIDs and a shape that crosses itself."""
    bowtie = shapely.to_wkb(shapely.from_wkt("POLYGON ((0 0, 1 1, 1 0, 0 1, 0 0))"))
    other = shapely.to_wkb(shapely.set_srid(shapely.Point(1, 2), 2193), include_srid=True)
    column = pa.array([*points((1, 2), None).to_pylist(), bowtie, other], pa.binary())
    geo = {"version": "1.1.0", "primary_column": "geom", "columns": {"geom": {"encoding": "WKB"}}}
    table = pa.table({"id": [1, 2, 2, 3], "geom": column})
    pq.write_table(table.replace_schema_metadata({"geo": json.dumps(geo)}), path)
    return path


def test_sound_datasets(run: Run) -> None:
    result = succeed(run("validate"))

    assert (result.stdout, result.stderr) == ("", "All data is valid\n")
    assert json.loads(succeed(run("validate", "points", "-o", "json")).stdout) == {
        "havasu.validate/v1": []
    }


def test_a_file_before_it_is_imported(run: Run, tmp_path: Path) -> None:
    path = damaged(tmp_path / "a.parquet")

    result = run("validate", path, "--primary-key", "id")

    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert sorted(lines) == [
        f"{path}:2: error: 2 rows have this key",
        f"{path}:2: warning: column 'geom': self-intersection[0.5 0.5]",
        f"{path}:3: error: column 'geom': it has the SRID 2193, its column has 4326",
    ]
    assert result.stderr == "2 errors, 1 warning\n"
    found = json.loads(run("validate", path, "--primary-key", "id", "-o", "json").stdout)
    assert {
        "dataset": str(path),
        "key": {"id": 3},
        "column": "geom",
        "level": "error",
        "rule": "srid",
        "cause": "it has the SRID 2193, its column has 4326",
    } in found["havasu.validate/v1"]


def test_warnings(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('id,wkt\n1,"POLYGON ((0 0, 1 1, 1 0, 0 1, 0 0))"\n')

    result = succeed(run("validate", path))
    assert "1 warning" in result.stderr and "0 errors" in result.stderr
    assert run("validate", path, "--strict").exit_code == 1
    assert succeed(run("validate", path, "--no-warnings")).stdout == ""


def test_a_revision_and_what_is_not_there(run: Run) -> None:
    succeed(run("validate", "points@HEAD^"))
    succeed(run("validate", "points", "--ref", "HEAD^"))

    result = run("validate", "nothing")
    assert result.exit_code != 0
    assert "there is no dataset and no file 'nothing'" in result.stderr


def test_a_file_that_is_none(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("no parquet")

    result = run("validate", tmp_path / "a.parquet")

    assert result.exit_code != 0
    assert len(result.stderr.splitlines()) <= 2


def test_statistics_and_values_of_a_dataset(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "repo")
    path = damaged(tmp_path / "a.parquet")
    repo.import_(path, "a")

    found = list(Validation(repo.opened).run())

    assert sorted((e.rule, e.column or "") for e in found) == [
        ("srid", "geom"),
        ("validity", "geom"),
    ]
    (file,) = (
        p for p in (repo.git.data_folder / "objects").glob("*/*/*") if p.read_bytes()[:4] == b"PAR1"
    )
    file.chmod(0o644)
    file.write_bytes(file.read_bytes()[:-1])
    (stored,) = [each for each in Validation(repo.opened).run() if each.rule == "stored"]
    assert (stored.dataset, stored.key) == ("a", None)


def test_a_kart_dataset(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "repo")
    repo.import_(damaged(tmp_path / "a.parquet"), "a", kind="kart")

    assert [each.rule for each in Validation(repo.opened).run(["a"])] == ["validity"]


@pytest.mark.spark
def test_both_engines_find_the_same(spark: Any, tmp_path: Path) -> None:
    path = str(damaged(tmp_path / "a.parquet"))
    found = {}
    for engine in ("local", "spark"):
        repo = empty_repo(tmp_path / engine, settings=Settings(engine=engine))
        issues = Validation(repo.opened).run([path], primary_key=("id",))
        found[engine] = sorted(map(str, issues))

    assert len(found["local"]) == 3
    assert found["local"] == found["spark"]
