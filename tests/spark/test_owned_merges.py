"""A merge by owners of intervals of keys is the same on Spark as on threads, file for file."""

import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from havasu_vc import Repo, Settings
from havasu_vc.datasets.kinds import require_files
from havasu_vc.engine.choose import EngineSettings
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.history import dealt_merges, merge_datasets, owned_edits, owned_merges
from havasu_vc.history.conflicts import MergePolicy, Side
from tests.datasets.thresholds import tiny_thresholds
from tests.repo.tables import BY_ID, points, rows, write
from tests.support.templates import empty_repo

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 2000


@pytest.fixture(autouse=True)
def many_owners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_datasets, "LEAST_ROWS", -1)
    monkeypatch.setattr(owned_edits, "FEW_ROWS", 0)
    monkeypatch.setattr(owned_edits, "OWNER_BYTES", 60_000)
    for name in ("LEAST_BYTES", "MOST_BYTES"):
        monkeypatch.setattr(owned_merges, name, 30_000)


def forked(folder: Path, options: SourceOptions = BY_ID, order: str = "key") -> Path:
    """Return a repository whose branches both edit a third of the rows, some of them both."""
    repo = empty_repo(folder / "repo")
    with tiny_thresholds(group_rows=128):
        file = write(folder / "points.parquet", points(COUNT))
        repo.import_(file, "points", options=options, order=order)
        repo.create_branch("side")
        for branch, step in (("main", 3), ("side", 5)):
            repo.switch(branch)
            table = points(COUNT).to_pylist()
            for row in table[::step]:
                row["name"] = f"{branch} {row['id']}"
            kept = [row for row in table if row["id"] % 97 != step]
            more = points(9, start=COUNT + 10 * step).to_pylist()
            found = pa.Table.from_pylist(kept + more, schema=points(1).schema)
            repo.import_(write(folder / "points.parquet", found), "points", replace=True)
        repo.switch("main")
    return repo.path


def merged(path: Path, settings: Settings, policy: MergePolicy | None) -> tuple[Any, ...]:
    repo = Repo.open(path, settings=settings)
    result = repo.merge("side", policy=policy)
    conflicts = [each.rows for each in result.conflicts]
    view = require_files(repo.dataset("points"))
    files = sorted(entry.file for entry in view.data_entries)
    return result.changes, conflicts, files, view.snapshot.digests, rows(repo, "points")


@pytest.mark.parametrize("side", [pytest.param(Side.THEIRS, marks=pytest.mark.slow), None])
def test_spark_merges_as_threads_do(
    tmp_path: Path, spark: "SparkSession", side: Side | None
) -> None:
    repo = forked(tmp_path)
    policy = None if side is None else MergePolicy(side=side)
    there = Settings(engine="spark", engine_settings=EngineSettings(session=spark))
    found = []
    for name, settings in (("threads", Settings(engine="local")), ("spark", there)):
        shutil.copytree(repo, tmp_path / name)
        found.append(merged(tmp_path / name, settings, policy))
    assert found[0] == found[1]
    changes, conflicts, files, _, held = found[0]
    clashes = {k for k in range(0, COUNT, 15) if k % 97 not in (3, 5)}
    if side is None:
        (table,) = conflicts
        assert {"same-cell"} < set(table["kind"].to_pylist())
        both = [row["base"]["id"] for row in table.to_pylist() if row["kind"] == "same-cell"]
        assert both == sorted(clashes)
        return
    assert len(files) > 3, "there were several owners"
    names = {row["id"]: row["name"] for row in held}
    assert all(names[key] == f"side {key}" for key in clashes)
    assert list(Repo.open(tmp_path / "spark").fsck(full=True)) == []
    back = [k for k in range(0, COUNT, 5) if k % 97 == 3]
    assert changes["points"].inserts == 9 + len(back), "theirs, with what ours alone deleted"


@pytest.mark.parametrize(
    ("options", "order", "side"),
    [
        (BY_ID, "hilbert", None),
        (SourceOptions(), "key", Side.THEIRS),
        pytest.param(SourceOptions(), "hilbert", Side.THEIRS, marks=pytest.mark.slow),
    ],
)
def test_spark_merges_rows_in_any_order_as_threads_do(
    tmp_path: Path, spark: "SparkSession", options: SourceOptions, order: str, side: Side | None
) -> None:
    repo = forked(tmp_path, options, order)
    policy = None if side is None else MergePolicy(side=side)
    there = Settings(engine="spark", engine_settings=EngineSettings(session=spark))
    made: list[int] = []
    merge = dealt_merges.dealt_merge

    def counted(*arguments: Any) -> list[pa.RecordBatch]:
        made.append(1)
        return merge(*arguments)

    found = []
    for name, settings in (("threads", Settings(engine="local")), ("spark", there)):
        shutil.copytree(repo, tmp_path / name)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(owned_merges, "dealt_merge", counted)
            found.append(merged(tmp_path / name, settings, policy))
    assert len(made) == 2, "owners were asked"
    assert found[0] == found[1]
    changes, conflicts, files, _, held = found[0]
    assert list(Repo.open(tmp_path / "spark").fsck(full=True)) == []
    if side is None:
        (table,) = conflicts
        assert {"same-cell"} < set(table["kind"].to_pylist())
        return
    # Without a key no row was edited on both sides: both took the same away, and brought others.
    names = Counter(row["name"] for row in held)
    assert set(names.values()) == {1}
    assert len(files) > 3, "there were several owners"
    assert changes["points"].inserts
