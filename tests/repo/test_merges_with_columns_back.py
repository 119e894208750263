"""A merge by owners that keeps a column which one side dropped agrees with a plain model."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import shapely

from havasu_vc import Repo, Settings
from havasu_vc.datasets.kinds import require_files
from havasu_vc.engine.choose import EngineSettings
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.history import merge_datasets, owned_edits, owned_merges, summing
from havasu_vc.history.conflicts import MergePolicy, Side
from tests.datasets.thresholds import tiny_thresholds
from tests.repo.tables import write
from tests.repo.test_column_conflicts import change, dropped
from tests.support.templates import empty_repo

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = dict[int, tuple[str, int | None]]
"""By key: a name, and the height that one side drops."""
BASE: Rows = {key: (f"n{key}", key * 7 % 50) for key in range(0, 900, 2)}


@pytest.fixture(autouse=True)
def many_owners(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have many owners of a small table."""
    monkeypatch.setattr(owned_edits, "FEW_ROWS", 0)
    monkeypatch.setattr(owned_edits, "OWNER_BYTES", 8000)
    for name in ("LEAST_BYTES", "MOST_BYTES"):
        monkeypatch.setattr(owned_merges, name, 4000)
    monkeypatch.setattr(owned_merges, "READ_BYTES", 2000)


def table_of(rows: Rows, *, whole: bool) -> pa.Table:
    columns = {
        "id": pa.array(rows, pa.int64()),
        "geom": pa.array([shapely.to_wkb(shapely.Point(k % 83, k % 41)) for k in rows]),
        "name": pa.array([name for name, _ in rows.values()], pa.string()),
        "height": pa.array([height for _, height in rows.values()], pa.int32()),
    }
    return pa.table({n: each for n, each in columns.items() if whole or n != "height"})


def dropping_side(random_: random.Random, share: float) -> tuple[Rows, set[int]]:
    """Return rows that were edited without the column, and the keys that went or were edited."""
    found = dict(BASE)
    touched = {key for key in BASE if random_.random() < share}
    for key in touched:
        if random_.random() < 0.2:
            del found[key]
        else:
            found[key] = (random_.choice("abc"), BASE[key][1])
    found.update({key: (f"new {key}", None) for key in random_.sample(range(1, 900, 4), 30)})
    return found, touched


def editing_side(random_: random.Random, share: float) -> tuple[Rows, set[int]]:
    """Return rows that were edited, in the column too, and the keys that went or were edited."""
    found = dict(BASE)
    touched = {key for key in BASE if random_.random() < share}
    for key in touched:
        name, height = BASE[key]
        chance = random_.random()
        if chance < 0.2:
            del found[key]
        elif chance < 0.6:
            found[key] = (name, -height if height else 99)
        else:
            found[key] = (random_.choice("xyz"), 7)
    found.update({key: (f"more {key}", 1) for key in random_.sample(range(3, 900, 4), 30)})
    return found, touched


def model(drops: tuple[Rows, set[int]], edits: tuple[Rows, set[int]]) -> Rows:
    """Return the rows of a merge in which the side wins that kept the column."""
    (one, one_touched), (other, other_touched) = drops, edits
    found = {**{key: row for key, row in other.items() if key not in BASE}}
    found |= {key: row for key, row in one.items() if key not in BASE}
    for key, row in BASE.items():
        if key not in other_touched:
            if key in one:
                found[key] = one[key] if key in one_touched else row
        elif key in other:
            name, height = other[key]
            alone = key in one_touched and key in one and name == row[0]
            found[key] = (one[key][0] if alone else name, height)
    return found


def forked(folder: Path, order: str, drops: Rows, edits: Rows, dropped_on: str) -> Path:
    """Return a repository of which one branch dropped a column and the other changed it."""
    repo = empty_repo(folder / "repo")
    options = SourceOptions(primary_key=("id",))
    file = write(folder / "points.parquet", table_of(BASE, whole=True))
    with tiny_thresholds(group_rows=48):  # of the base alone: executors have sizes of their own
        repo.import_(file, "points", options=options, order=order)
    repo.create_branch("side")
    for branch in ("main", "side"):
        repo.switch(branch)
        without = branch == dropped_on
        if without:
            change(repo, dropped)
        found = table_of(drops if without else edits, whole=not without)
        repo.import_(
            write(folder / "points.parquet", found), "points", options=options, replace=True
        )
    repo.switch("main")
    return repo.path


def outcome(path: Path, settings: Settings, side: Side | None, answer: str) -> tuple[Any, ...]:
    """Merge, and return all that may be seen of it: conflicts are resolved with a side."""
    repo = Repo.open(path, settings=settings)
    seen = None
    policy = None if side is None else MergePolicy(side=side)
    result = repo.merge("side", policy=policy)
    if result.kind == "conflicts":
        seen = [(each.path, each.rows, dict(each.columns)) for each in result.conflicts]
        repo.resolve_conflicts(["points:meta:schema.json"], choice=answer)
        repo.resolve_conflicts(choice=answer)
        repo.continue_merge()
    assert list(repo.fsck(full=True)) == []
    view = require_files(repo.dataset("points"))
    table = repo.table("points").to_arrow().sort_by("id")
    return seen, table.to_pylist(), view.snapshot.digests, sorted(view.entries)


CASES = [
    ("key", "main", 0.3, 0.3),
    ("hilbert", "main", 0.5, 0.05),
    ("key", "side", 0.4, 0.4),
    ("hilbert", "side", 0.1, 0.6),
]


def watched(patch: pytest.MonkeyPatch, made: list[str]) -> None:
    """Have every merge made by owners, and note how."""
    patch.setattr(merge_datasets, "LEAST_ROWS", -1)
    for module, name in ((owned_merges, "owned_merge"), (owned_merges, "dealt_merge")):
        merge = getattr(module, name)

        def noted(*arguments: Any, merge: Any = merge, name: str = name) -> list[pa.RecordBatch]:
            made.append(name)
            found: list[pa.RecordBatch] = merge(*arguments)
            return found

        patch.setattr(module, name, noted)


def refused(*_: object) -> None:
    raise AssertionError("changes come to the driver")


def check(
    folder: Path, case: tuple[str, str, float, float], *, asks: bool, spark: SparkSession | None
) -> None:
    order, dropped_on, *shares = case
    random_ = random.Random(f"{case}")
    drops, edits = dropping_side(random_, shares[0]), editing_side(random_, shares[1])
    path = forked(folder, order, drops[0], edits[0], dropped_on)
    side = Side.THEIRS if dropped_on == "main" else Side.OURS
    local = Settings(engine="local")
    ways = {"one": local, "threads": local}
    if spark is not None:
        ways["spark"] = Settings(engine="spark", engine_settings=EngineSettings(session=spark))
    found = {}
    for name, settings in ways.items():
        shutil.copytree(path, folder / name)
        made: list[str] = []
        with pytest.MonkeyPatch.context() as patch:
            if name != "one":
                watched(patch, made)
                # Whether the other side edited what one dropped is for tasks to see.
                patch.setattr(summing, "row_changes", refused)
            found[name] = outcome(folder / name, settings, None if asks else side, str(side))
        if name != "one":
            assert "owned_merge" in made
            assert ("dealt_merge" in made) == (order == "hilbert")
    rows = {row["id"]: (row["name"], row["height"]) for row in found["one"][1]}
    assert rows == model(drops, edits)
    assert (found["one"][0] is not None) == asks
    assert found["threads"][:3] == found["one"][:3]
    assert found.get("spark", found["threads"]) == found["threads"]


@pytest.mark.parametrize("asks", [False, pytest.param(True, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}, dropped on {case[1]}")
def test_owners_give_a_column_back(
    tmp_path: Path, case: tuple[str, str, float, float], asks: bool
) -> None:
    check(tmp_path, case, asks=asks, spark=None)


@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize(
    ("case", "asks"), [(CASES[0], False), (CASES[1], True)], ids=["by key", "along a curve"]
)
def test_spark_gives_a_column_back(
    tmp_path: Path, spark: SparkSession, case: tuple[str, str, float, float], asks: bool
) -> None:
    check(tmp_path, case, asks=asks, spark=spark)
