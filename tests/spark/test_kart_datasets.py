"""Kart datasets in Spark: reads, changelogs and histories, and what Spark does not do with them."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from havasu_vc import Repo, Settings
from havasu_vc.datasets.kinds import require_files
from havasu_vc.engine.choose import EngineSettings
from havasu_vc.errors import NotYetSupportedError
from havasu_vc.spark import changes, history, read, write
from tests.repo.tables import BY_ID, points
from tests.repo.tables import write as write_file
from tests.support.templates import empty_repo

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    """A Kart dataset with an edit, a new column, and a last commit that makes it a Havasu one."""
    folder = tmp_path_factory.mktemp("kart")
    found = empty_repo(folder / "repo", kart=True)
    found.import_(write_file(folder / "points.parquet", points(300)), options=BY_ID)
    found.write("points", pa.table({"id": [3, 1000], "name": ["drei", "tausend"]}))
    found.write("points", pa.table({"id": [7]}), mode="delete")
    columns = found.get_meta("points", ["schema.json"])["schema.json"]
    added = {"name": "added", "dataType": "text"}
    found.set_meta("points", {"schema.json": [*columns, added]})
    found.create_branch("kart")
    found.convert("points", "havasu")
    return found


def kinds(frame: "DataFrame") -> list[tuple[Any, ...]]:
    return sorted((row._change_type, row.id, row.name) for row in frame.collect())


def test_a_read_is_the_scan(spark: "SparkSession", repo: Repo) -> None:
    found = read(spark, repo, "points", "kart").toArrow().sort_by("id").to_pylist()

    assert found == repo.table("points", "kart").to_arrow().sort_by("id").to_pylist()
    some = read(spark, repo, "points", "kart", columns=["name"], where={"id": (2, 3)})
    assert sorted(row.name for row in some.collect()) == ["drei", "row 2"]


def test_changes_of_a_range(spark: "SparkSession", repo: Repo) -> None:
    before = read(spark, repo, "points", "kart~3", where={"id": (3, 7)})
    names = {row.id: row.name for row in before.collect()}

    assert kinds(changes(spark, repo, "points", "kart~3...kart")) == [
        ("DELETE", 7, names[7]),
        ("INSERT", 1000, "tausend"),
        ("UPDATE_AFTER", 3, "drei"),
        ("UPDATE_BEFORE", 3, names[3]),
    ]
    assert changes(spark, repo, "points", "[EMPTY]...kart").count() == 300
    assert changes(spark, repo, "points", "kart...[EMPTY]").count() == 300


def test_changes_to_another_kind(spark: "SparkSession", repo: Repo) -> None:
    assert changes(spark, repo, "points", "kart...HEAD").collect() == []
    assert kinds(changes(spark, repo, "points", "kart~2...HEAD")) == [
        ("DELETE", 7, points(300).to_pylist()[7]["name"])
    ]


@pytest.mark.parametrize("revision", ["kart", "HEAD"])
def test_a_history_has_every_change_once(spark: "SparkSession", repo: Repo, revision: str) -> None:
    found = history(spark, repo, "points", revision).collect()

    assert len(found) == 303
    assert len({row.commit for row in found}) == 3
    later = {(row._change_type, (row.new or row.old).id) for row in found if not row.new or row.old}
    assert later == {("DELETE", 7), ("UPDATE", 3)}
    assert all(row.new.id is not None for row in found if row.new)


def test_a_kart_dataset_is_not_written(spark: "SparkSession", repo: Repo) -> None:
    repo.switch("kart")
    with pytest.raises(NotYetSupportedError, match="Spark writes no others yet"):
        write(read(spark, repo, "points"), repo, "points")
    repo.switch("main")


def test_executors_make_files_of_rows_in_git(
    spark: "SparkSession", repo: Repo, tmp_path: Path
) -> None:
    found = []
    there = Settings(engine="spark", engine_settings=EngineSettings(session=spark))
    for name, settings in (("threads", Settings(engine="local")), ("spark", there)):
        shutil.copytree(repo.path, tmp_path / name)
        other = Repo.open(tmp_path / name, settings=settings)
        other.switch("kart")
        other.convert("points", "havasu")
        view = require_files(other.dataset("points"))
        assert list(other.fsck(full=True)) == []
        files = sorted(entry.file for entry in view.data_entries)
        found.append((files, view.snapshot.digests))
    assert found[0] == found[1]
    assert found[0][0]
