"""Rows of a program: upsert, append, delete, overwrite."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from havasu_vc.errors import (
    InvalidArgumentError,
    InvalidInputError,
    KeyViolationError,
    PatchError,
    SchemaViolationError,
)
from havasu_vc.exchange.source import SourceOptions
from tests.repo.points import make
from tests.repo.tables import NO_KEY, points, rows, write
from tests.support.sound import CheckedRepo, refuses


def counts(result: object, path: str = "points") -> tuple[int, int, int]:
    found = result.changes[path]  # type: ignore[attr-defined]
    return found.inserts, found.updates, found.deletes


def test_an_upsert_changes_the_columns_that_it_has(filled: CheckedRepo) -> None:
    result = filled.write("points", pa.table({"name": ["new", "x"], "id": [500, 3]}))

    assert counts(result) == (1, 1, 0)
    found = {row["id"]: row for row in rows(filled, "points")}
    assert found[3] == {**points(100).to_pylist()[3], "name": "x"}
    assert found[500] == {"id": 500, "geom": None, "name": "new", "number": None}
    assert len(found) == 101


def test_an_upsert_of_what_is_there_makes_no_commit(filled: CheckedRepo) -> None:
    assert filled.write("points", points(100)).commit is None
    assert filled.write("points", points(100).select(["id", "name"])).commit is None
    assert filled.write("points", points(0)).commit is None
    assert filled.write("points", pa.table({"id": pa.array([], pa.int64())})).commit is None
    assert len(filled.log()) == 1


def test_rows_may_come_in_batches_of_any_size(filled: CheckedRepo) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from points(300, name="b").to_batches(max_chunksize=7)

    assert counts(filled.write("points", batches())) == (200, 100, 0)
    assert rows(filled, "points") == points(300, name="b").to_pylist()
    assert filled.write("points", iter(())).commit is None
    assert filled.write("points", points(1).to_batches()[0]).commit is not None


def test_ids_may_be_of_a_narrower_type(filled: CheckedRepo) -> None:
    given = pa.table({"id": pa.array([1, 2], pa.int8()), "number": pa.array([5, 6], pa.uint8())})
    assert counts(filled.write("points", given)) == (0, 2, 0)


def test_an_append_refuses_what_is_there(filled: CheckedRepo) -> None:
    assert counts(filled.write("points", points(5, start=200), mode="append")) == (5, 0, 0)
    with refuses(filled.repo, PatchError, KeyViolationError, match="204"):
        filled.repo.write("points", points(3, start=204), mode="append")


def test_a_delete_passes_over_what_is_not_there(filled: CheckedRepo) -> None:
    result = filled.write("points", pa.table({"id": [1, 99, 500]}), mode="delete")
    assert counts(result) == (0, 0, 2)
    assert [row["id"] for row in rows(filled, "points")] == [
        i for i in range(100) if i not in (1, 99)
    ]
    assert filled.write("points", pa.table({"id": [1]}), mode="delete").commit is None


def test_an_overwrite_leaves_only_its_rows(filled: CheckedRepo) -> None:
    result = filled.write("points", points(50, start=80), mode="overwrite")
    assert counts(result) == (30, 0, 80)
    assert rows(filled, "points") == points(50, start=80).to_pylist()
    filled.write("points", points(0), mode="overwrite")
    assert rows(filled, "points") == []


def test_rows_without_a_key_are_only_appended(repo: CheckedRepo, tmp_path: Path) -> None:
    table = pa.table({"a": [1, 1, None]})
    repo.import_(write(tmp_path / "t.parquet", table), options=NO_KEY)
    for mode in ("upsert", "delete"):
        with refuses(repo.repo, InvalidArgumentError, hint=True):
            repo.repo.write("t", table, mode=mode)
    repo.write("t", pa.table({"a": [1, 7]}), mode="append")
    assert sorted(map(str, repo.table("t").to_arrow()["a"].to_pylist())) == [
        "1",
        "1",
        "1",
        "7",
        "None",
    ]
    repo.write("t", pa.table({"a": [7]}), mode="overwrite")
    assert repo.table("t").to_arrow()["a"].to_pylist() == [7]


@pytest.mark.parametrize("mode", ["upsert", "append", "delete", "overwrite"])
@pytest.mark.few(1)
def test_a_key_that_comes_twice_is_refused(filled: CheckedRepo, mode: str) -> None:
    twice = pa.concat_tables([points(1), points(1)])
    with refuses(filled.repo, InvalidInputError):
        filled.repo.write("points", twice, mode=mode)
    far = pa.concat_tables([points(70_000), points(1, start=69_999)])
    with refuses(filled.repo, InvalidInputError):
        filled.repo.write("points", far, mode=mode)


@pytest.mark.thorough
def test_many_edits_keep_every_row(filled: CheckedRepo) -> None:
    expected = {row["id"]: row for row in points(100).to_pylist()}
    for number in range(40):
        filled.repo.write("points", pa.table({"id": [number * 3], "name": [f"edit {number}"]}))
        row = expected.setdefault(
            number * 3, {"id": number * 3, "geom": None, "name": None, "number": None}
        )
        row["name"] = f"edit {number}"
    assert rows(filled, "points") == [expected[key] for key in sorted(expected)]
    assert list(filled.fsck(full=True)) == []
    assert rows(filled, "points", "HEAD~40") == points(100).to_pylist()


@pytest.mark.parametrize("inside", ["struct", "list", "map", "deeper"])
def test_parts_that_have_no_place_are_refused(tmp_path: Path, inside: str) -> None:
    def nested(parts: dict[str, int]) -> pa.Array:
        inner = pa.array([parts], pa.struct([(name, pa.int32()) for name in parts]))
        match inside:
            case "list":
                return pa.ListArray.from_arrays([0, 1], inner)
            case "map":
                return pa.MapArray.from_arrays([0, 1], pa.array(["k"]), inner)
            case "deeper":
                return pa.StructArray.from_arrays([inner], names=["in"])
            case _:
                return inner

    repo = make(tmp_path / "repo", {1: ("one", 1)})
    rows = pa.table({"id": pa.array([1], pa.int64()), "all": nested({"x": 1})})
    pq.write_table(rows, tmp_path / "t.parquet")
    repo.import_(tmp_path / "t.parquet", options=SourceOptions(primary_key=("id",)))

    more = pa.table({"id": pa.array([2], pa.int64()), "all": nested({"x": 1, "more": 5})})
    with pytest.raises(SchemaViolationError, match=r"all.*more', which the dataset has not"):
        repo.write("t", more)
