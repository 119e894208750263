"""Where rows are that differ, by hashes alone: what is left is what counting rows leaves."""

from collections import Counter
from collections.abc import Iterator
from itertools import chain

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.datasets import places
from havasu_vc.datasets.matching import Comparison, TaskSource
from havasu_vc.engine.dealing import OwnedPiece, given_to
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, run_task, task_of
from havasu_vc.model.types import Field, Primitive
from havasu_vc.testing import kernels

KEYLESS = Schema((Field(1, "number", Primitive.LONG, required=True),))
KEYED = Schema(KEYLESS.fields, (1,))
Stretches = list[tuple[int, int]]
"""Sources: of each its first number, and how many follow it."""
SIDE = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), max_size=4)


def sources(side: Stretches) -> tuple[TaskSource, ...]:
    return tuple(TaskSource(task_of(kernels.numbers, *s), s[1], 8 * s[1]) for s in side)


def rows_left(old: Stretches, new: Stretches, schema: Schema) -> tuple[Counter[int], Counter[int]]:
    """Return the numbers at the places that are found on either side."""
    comparison = Comparison(sources(old), sources(new), schema, schema)
    dealing, owners = comparison.hashing()
    given: dict[int, list[OwnedPiece]] = {}
    for part, piece in chain.from_iterable(map(dealt_by, reversed(dealing))):
        (batch,) = pa.ipc.open_stream(piece)
        given.setdefault(part, []).append((len(batch), task_of(kernels.given_rows, batch)))
    left = Counter[int](), Counter[int]()
    for part, pieces in given.items():
        for _, piece in dealt_by(given_to(owners[part], pieces)):
            for row in rows_in(piece):
                first, count = (*old, *new)[row["source"]]
                assert row["pos"] < count
                left[row["source"] >= len(old)][first + row["pos"]] += row["times"]
    return left


def dealt_by(task: Task) -> Iterator[tuple[int, bytes]]:
    for batch in run_task(task):
        yield from zip(batch["part"].to_pylist(), batch["piece"].to_pylist(), strict=True)


def rows_in(piece: bytes) -> list[dict[str, int]]:
    with pa.ipc.open_stream(piece) as stream:
        return [row for batch in stream for row in batch.to_pylist()]


def counted(side: Stretches) -> Counter[int]:
    return Counter(n for first, count in side for n in range(first, first + count))


@pytest.fixture(params=["one owner", "many owners", "hashes of one sum"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Take few rows through the paths of many, and of hashes that collide."""
    if request.param == "many owners":
        monkeypatch.setattr("havasu_vc.datasets.matching.PART_ROWS", 3)
        monkeypatch.setattr(places, "_FLUSH_ROWS", 2)
    if request.param == "hashes of one sum":
        monkeypatch.setattr(places, "_ODD", np.uint64(0))
        monkeypatch.setattr(places, "hash_keys_and_rows", same_keys)
    return str(request.param)


def same_keys(rows: pa.RecordBatch, schema: Schema) -> tuple[object, object]:
    """Hash keys so that many have one, and rows by what they are."""
    numbers = rows.column(0).to_numpy().astype(np.uint64)
    return numbers % np.uint64(3), numbers


@pytest.mark.parametrize("schema", [KEYLESS, KEYED], ids=["no key", "key"])
def test_as_many_are_left_as_counting_leaves(way: str, schema: Schema) -> None:
    @given(SIDE, SIDE)
    def check(old: Stretches, new: Stretches) -> None:
        before, after = counted(old), counted(new)
        assert rows_left(old, new, schema) == (before - after, after - before)

    check()


def test_rows_alike_are_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a key a million rows that are the same go to one owner as a few numbers."""
    monkeypatch.setattr(places, "hash_keys_and_rows", lambda rows, _: (zeros(rows), zeros(rows)))
    (task,), _ = Comparison(sources([(0, 1 << 20)]), (), KEYLESS, KEYLESS).hashing()
    (batch,) = run_task(task)
    assert batch.nbytes < 2000
    (row,) = rows_in(batch.column("piece")[0].as_py())
    assert row["times"] == 1 << 20


def zeros(rows: pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.zeros(rows.num_rows, np.uint64)
