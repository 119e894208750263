"""Edits by Spark, with the real Iceberg runtime, as versions of the dataset."""

import copy
import random
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from havasu_vc.model.counts import ChangeCounts
from havasu_vc.repo import Repo
from havasu_vc.repo.workspace_edits import commit_edits_of
from tests.repo.tables import BY_ID, points, rows, write
from tests.support.sound import LOCAL
from tests.workspace.sheets import Sheet, check_out, compared, counts_of, in_order, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Catalog = Callable[[Path], str]


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A repository with `points`, 100 rows by id, checked out."""
    made = Repo.init(tmp_path / "repo", settings=LOCAL)
    made.import_(write(tmp_path / "points.parquet", points(100)), options=BY_ID)
    check_out(made, tmp_path / "tables")
    return made


@pytest.fixture
def sheet(repo: Repo, spark: "SparkSession", iceberg: Catalog, tmp_path: Path) -> Sheet:
    model = {row["id"]: row for row in rows(repo, "points")}
    return Sheet(spark, iceberg(tmp_path / "tables"), "points", model)


@pytest.mark.parametrize("seed", range(3))
def test_random_edits_are_those_of_a_plain_model(
    repo: Repo, sheet: Sheet, tmp_path: Path, seed: int
) -> None:
    sheet.draw = random.Random(seed)
    base = copy.deepcopy(sheet.rows)
    done: list[str] = []
    for number, name in enumerate(islice(sheet.everything(), 12), 1):
        getattr(sheet, name)()
        done.append(name)
        if number % 3:
            continue
        assert counts_of(repo, "points") == compared(base, sheet.rows), done
        assert rows_of(repo, "points") == in_order(list(sheet.rows.values())), done
        if number % 6 == 0:
            counts = compared(base, sheet.rows)
            result = commit_edits_of(repo.opened, message="Edit")
            assert result.changes["points"] == counts
            assert rows(repo, "points") == in_order(list(sheet.rows.values())), done
            check_out(repo, tmp_path / "tables")
            base = copy.deepcopy(sheet.rows)
            assert counts_of(repo, "points") == ChangeCounts()
    assert not list(repo.fsck(full=True))
