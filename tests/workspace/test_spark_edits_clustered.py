"""Edits by Spark, with the real Iceberg runtime, of clustered tables."""

import copy
import random
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from havasu_vc.checkouts import clustered_versions
from havasu_vc.checkouts.requests import CheckoutRequest
from havasu_vc.model.commits import ChangeCounts
from tests.repo.checkouts import assert_shows_head
from tests.repo.tables import BY_ID, points, rows, write
from tests.support.sound import LOCAL, assert_sound
from tests.support.templates import empty_repo
from tests.workspace.sheets import Sheet, compared, counts_of, in_order, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("spec", [None, "bucket(3, id), truncate(5, name)"])
def test_random_edits_are_those_of_a_plain_model(
    spark: "SparkSession",
    iceberg: Callable[[Path], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spec: str | None,
) -> None:
    monkeypatch.setattr(clustered_versions, "SMALL", 0)
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    repo.import_(write(tmp_path / "points.parquet", points(100)), options=BY_ID)
    repo.workspace.check_out(CheckoutRequest(clustered=True, partition_by=spec))
    model = {row["id"]: row for row in rows(repo, "points")}
    sheet = Sheet(spark, iceberg(repo.workspace.root), "points", model)
    sheet.draw = random.Random(7)
    base = copy.deepcopy(sheet.rows)
    done: list[str] = []
    names = ["merge", "other_mode", "update", "delete", "rewrite", "append"]
    for number, name in enumerate([*names, *islice(sheet.everything(), 3)], 1):
        getattr(sheet, name)()
        done.append(name)
        if number % 3:
            continue
        counts = compared(base, sheet.rows)
        assert counts_of(repo, "points") == counts, done
        assert rows_of(repo, "points") == in_order(list(sheet.rows.values())), done
        assert repo.workspace.commit(message="Edit").changes["points"] == counts
        assert rows(repo, "points") == in_order(list(sheet.rows.values())), done
        assert_shows_head(repo)
        seen = {row.id: row.asDict() for row in spark.table(sheet.table).collect()}
        assert seen == {
            key: {**row, "geom": row["geom"] and bytearray(row["geom"])}
            for key, row in sheet.rows.items()
        }
        base = copy.deepcopy(sheet.rows)
        assert counts_of(repo, "points") == ChangeCounts()
    assert not list(repo.fsck(full=True))
    assert_sound(repo)
