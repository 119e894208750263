"""Tables of a repository as the library gives them: what is asked for wrongly is said."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from havasu_vc.errors import InvalidArgumentError, SchemaViolationError
from havasu_vc.looking import spread_batches
from havasu_vc.looking.tables import Table
from tests.datasets.thresholds import tiny_thresholds
from tests.repo import points
from tests.support.sound import CheckedRepo

THREE: Any = (3, 4, 1)
WEST: Any = ("west", 2, 3, 4)
WRONG: list[tuple[Callable[[Table], object], str]] = [
    (lambda table: table.to_arrow(["nope"]), "has no column 'nope'"),
    (lambda table: table.to_pandas(["id", "nope"]), "has no column 'nope'"),
    (lambda table: table.to_geopandas(["nope"]), "has no column 'nope'"),
    (lambda table: list(table.to_batches(["nope"])), "has no column 'nope'"),
    (lambda table: table.to_arrow(keys=[("x",)]), "'x' cannot be a key: 'id' is long"),
    (lambda table: table.to_arrow(keys=[(1 << 70,)]), "cannot be a key"),
    (lambda table: table.to_arrow(keys=[(1, 2)]), "a key has 1 values"),
    (lambda table: table.to_arrow(box=THREE), r"\(3, 4, 1\) is not a box"),
    (lambda table: table.to_arrow(box=WEST), "is not a box"),
    (lambda table: table.to_arrow(box=(0, 4, 1, 3)), "is a box that holds nothing"),
]


@pytest.mark.parametrize(("ask", "said"), WRONG)
def test_what_is_not_there(filled: CheckedRepo, ask: Callable[[Table], object], said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        ask(filled.table("points"))


def test_columns_are_not_one_name(filled: CheckedRepo) -> None:
    with pytest.raises(TypeError, match="sequence of names"):
        filled.table("points").to_arrow("id")


def test_keys_of_a_table(filled: CheckedRepo) -> None:
    found = filled.table("points").to_arrow(["id"], keys=[(3,), (1,), (777,)])
    assert sorted(found["id"].to_pylist()) == [1, 3]


def test_a_value_that_does_not_fit_names_its_column(filled: CheckedRepo) -> None:
    with pytest.raises(SchemaViolationError, match="'number' is int32"):
        filled.repo.write("points", pa.table({"id": [1], "number": [1 << 40]}))


@pytest.mark.parametrize("rows", [1, 9, 20, 100])
def test_some_rows_are_from_all_over_a_table(tmp_path: Path, rows: int) -> None:
    with tiny_thresholds():
        repo = points.make(tmp_path / "repo", dict.fromkeys(range(60), ("a", 1)))
        everywhere = (-180.0, -90.0, 180.0, 90.0)
        batches = list(spread_batches(repo.table("points"), ["id"], everywhere, rows))
    keys = [key for batch in batches for key in batch.column("id").to_pylist()]
    assert len(set(keys)) == len(keys) >= min(rows, 60)
    # Three rows lie together, and no more are taken than make up the number.
    assert len(keys) < rows + 3 or rows > 60
    assert {key // 20 for key in keys} == {0, 1, 2} or rows < 9
