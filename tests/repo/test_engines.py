"""Spark and the local engine do the same work: equal tables, equal changes."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from havasu_vc import Repo, Settings
from havasu_vc.datasets.kinds import require_files
from havasu_vc.engine import choose
from havasu_vc.errors import KeyViolationError
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.tables.table import read_table
from tests.repo.checkouts import rows_of
from tests.repo.tables import BY_ID, points, rows, write
from tests.support.sound import LOCAL, assert_sound, refuses
from tests.support.templates import empty_repo

pytestmark = pytest.mark.spark


@pytest.fixture
def engines(spark: Any) -> Iterator[dict[str, Settings]]:
    yield {"local": LOCAL, "spark": Settings(engine="spark")}


def changes(repo: Repo, revisions: str) -> list[Any]:
    return [
        row
        for diff in repo.diff(revisions)
        for batch in diff.changes
        for row in batch.data.to_pylist()
    ]


@pytest.mark.parametrize("order", ["key", "hilbert"])
def test_both_engines_give_the_same(
    engines: dict[str, Settings], tmp_path: Path, order: str
) -> None:
    file = write(tmp_path / "points.parquet", points(3000))
    release = write(
        tmp_path / "release.parquet",
        pa.concat_tables([points(40, name="new"), points(2900, start=60), points(9, start=9000)]),
    )
    found = {}
    for name, settings in engines.items():
        repo = empty_repo(tmp_path / name, settings=settings)
        repo.import_(file, options=BY_ID, order=order)
        result = repo.import_(release, "points", replace=True)
        repo.write("points", pa.table({"id": [61, 62], "name": ["a", "b"]}))
        assert list(repo.fsck(full=True)) == []
        assert_sound(repo)
        found[name] = (
            result.datasets,
            rows(repo, "points"),
            changes(repo, "HEAD~2...HEAD"),
            changes(repo, "HEAD~2...HEAD^"),
            changes(repo, "[EMPTY]...HEAD~2"),
            set(require_files(repo.dataset("points", "HEAD~2")).snapshot.digests.items()),
        )
        # What one engine wrote the other reads alike.
        other = Repo.open(
            tmp_path / name, settings=engines["local" if name == "spark" else "spark"]
        )
        assert changes(other, "HEAD~2...HEAD") == found[name][2]
        assert rows(other, "points") == found[name][1]
    assert found["local"] == found["spark"]


def test_an_error_is_the_same_and_changes_nothing(
    engines: dict[str, Settings], tmp_path: Path
) -> None:
    twice = pa.concat_tables([points(50), points(1, start=7)])
    file = write(tmp_path / "points.parquet", twice)
    messages = []
    for name, settings in engines.items():
        repo = empty_repo(tmp_path / name, settings=settings)
        with refuses(repo, KeyViolationError, hint=True):
            repo.import_(file, options=BY_ID)
        try:
            repo.import_(file, options=BY_ID)
        except KeyViolationError as error:
            messages.append(error.message)
    assert messages[0] == messages[1]


def test_tables_are_clustered_alike(engines: dict[str, Settings], tmp_path: Path) -> None:
    file = write(tmp_path / "points.parquet", points(500))
    repo = empty_repo(tmp_path / "repo", settings=engines["local"])
    repo.import_(file, "points", options=BY_ID)
    for count, partition in ((1, None), (2, "bucket(2, id)")):
        made = {}
        for name, settings in engines.items():
            place = tmp_path / f"{name}{count}"
            found = repo.with_settings(settings)
            found.workspace.check_out_to(
                place, dataset="points", clustered=True, partition_by=partition
            )
            made[name] = {path.name for path in (place / "data").iterdir()}
        assert made["local"] == made["spark"] and len(made["local"]) == count


@pytest.mark.parametrize("key", ["id", "name"])
def test_tables_of_kart_datasets_are_made_alike(
    engines: dict[str, Settings], tmp_path: Path, key: str
) -> None:
    """By tasks over folders that do not meet, on either engine or in processes."""
    file = write(tmp_path / "points.parquet", points(9000))
    repo = empty_repo(tmp_path / "repo", kart=True, settings=engines["local"])
    repo.import_(file, options=SourceOptions(primary_key=(key,)))
    repo.write("points", pa.table({"id": [7], "name": ["row 7"], "number": [70]}))
    made = {}
    for name in (*engines, "processes"):
        clone = tmp_path / f"{name}-repo"
        shutil.copytree(repo.path, clone)  # tables are kept in a repository
        with pytest.MonkeyPatch.context() as patch:
            if name == "processes":
                patch.setattr(choose, "PROCESS_THRESHOLD", 0)
            found = Repo.open(clone, settings=engines.get(name, Settings(engine="local")))
            found.workspace.check_out_to(tmp_path / name, "HEAD", dataset="points")
            read = found.table("points").to_arrow()
        table = read_table(tmp_path / name)
        assert rows_of(table) == sorted(read.to_pylist(), key=repr)
        assert read.sort_by("id").column("number")[7].as_py() == 70
        made[name] = {path.name for path in (tmp_path / name / "data").iterdir()}
    assert made["spark"] == made["local"] == made["processes"]
