"""Rows that differ, sought by sums of hashes: none is missed, few equal ones are proposed."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.datasets import matching, slots
from havasu_vc.datasets.matching import Comparison, TaskSource
from havasu_vc.engine.dealing import OwnedPiece, given_to
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, run_task, task_of
from havasu_vc.model.types import Field, Primitive
from havasu_vc.testing import kernels

SCHEMA = Schema(
    (Field(1, "id", Primitive.LONG, required=True), Field(2, "value", Primitive.LONG)), (1,)
)
SIDE = st.dictionaries(st.integers(0, 40), st.one_of(st.none(), st.integers(0, 2)))
Side = dict[int, int | None]


def sources(side: Side, files: int) -> tuple[TaskSource, ...]:
    """Return a side's rows in so many files, in no order."""
    found = []
    for n in range(files):
        ids = sorted((key for key in side if key % files == n), key=lambda key: key * 7 % 41)
        values = pa.array([side[key] for key in ids], pa.int64())
        batch = pa.record_batch({"id": pa.array(ids, pa.int64()), "value": values})
        found.append(TaskSource(task_of(kernels.given_rows, batch), len(ids), 16 * len(ids)))
    return tuple(found)


def dealt(tasks: Sequence[Task]) -> dict[int, list[OwnedPiece]]:
    """Return what tasks deal out, by owner."""
    given: dict[int, list[OwnedPiece]] = {}
    for batch in chain.from_iterable(map(run_task, reversed(tasks))):
        for part, piece in zip(batch["part"].to_pylist(), batch["piece"].to_pylist(), strict=True):
            for rows in pa.ipc.open_stream(piece).read_all().combine_chunks().to_batches():
                found = (len(rows), task_of(kernels.given_rows, rows))
                given.setdefault(part, []).append(found)
    return given


def unlike(comparison: Comparison, tasks: int, owners: int) -> slots.Slots:
    adding, adding_up = comparison.adding(tasks, owners)
    assert len(adding) <= tasks
    given = dealt(adding)
    found = [
        batch["slot"].to_numpy()
        for number, owner in enumerate(adding_up)
        for batch in run_task(given_to(owner, given.get(number, [])))
    ]
    return np.concatenate(found)


def proposed(comparison: Comparison, tasks: int, found: slots.Slots) -> Iterator[tuple[int, int]]:
    """Yield the sources and positions that are proposed."""
    for pieces in dealt(comparison.proposing(tasks, found)).values():
        for _, task in pieces:
            for batch in run_task(task):
                yield from zip(batch["source"].to_pylist(), batch["pos"].to_pylist(), strict=True)


@given(SIDE, SIDE, st.integers(1, 3), st.integers(1, 4), st.integers(1, 3))
def test_rows_that_differ_are_proposed(
    old: Side, new: Side, files: int, tasks: int, owners: int
) -> None:
    sides = sources(old, files), sources(new, files)
    comparison = Comparison(*sides, SCHEMA, SCHEMA)
    found = unlike(comparison, tasks, owners)
    differing = {key for key in old.keys() | new.keys() if has(old, key) != has(new, key)}
    assert bool(len(found)) == bool(differing)
    assert len(found) <= len(differing)
    assert sorted(found.tolist()) == sorted(set(found.tolist()))

    every = [next(run_task(each.task))["id"].to_pylist() for side in sides for each in side]
    rows = Counter((n >= files, every[n][at]) for n, at in proposed(comparison, tasks, found))
    assert set(rows.values()) <= {1}
    for is_new, side in ((False, old), (True, new)):
        assert {key for key in differing if key in side} <= {
            key for of_new, key in rows if of_new is is_new
        }


@given(SIDE, SIDE, st.integers(1, 3), st.integers(1, 4), st.sampled_from([1, 1 << 20]))
def test_very_few_are_fetched_at_once_and_paired(
    old: Side, new: Side, files: int, tasks: int, dense: int
) -> None:
    """Whether all columns are read at once, or the keys first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "_DENSE", dense)
        check_picked(old, new, files, tasks)


def check_picked(old: Side, new: Side, files: int, tasks: int) -> None:
    comparison = Comparison(sources(old, files), sources(new, files), SCHEMA, SCHEMA)
    picking = comparison.picking(tasks, unlike(comparison, tasks, 2))
    assert picking is not None and len(picking) <= tasks
    given = dealt(picking)
    assert given.keys() <= {0}
    (pairing,) = comparison.pairing(())
    changes = chain.from_iterable(
        batch.to_pylist() for batch in run_task(given_to(pairing, given.get(0, [])))
    )
    found = [tuple(change[side] for side in ("old", "new")) for change in changes]
    wanted = [
        tuple({"id": key, "value": side[key]} if key in side else None for side in (old, new))
        for key in sorted(old.keys() | new.keys())
        if has(old, key) != has(new, key)
    ]
    assert found == wanted


def test_many_are_not_fetched_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = (sources(dict.fromkeys(range(40), n), 1) for n in (1, 2))
    comparison = Comparison(old, new, SCHEMA, SCHEMA)
    found = unlike(comparison, 2, 2)
    monkeypatch.setattr(matching, "INTERVAL_BYTES", 40 * 2 * 16 * 4)
    assert comparison.picking(2, found) is not None
    monkeypatch.setattr(matching, "INTERVAL_BYTES", 40 * 2 * 16 * 3)
    assert comparison.picking(2, found) is None


def has(side: Side, key: int) -> tuple[bool, int | None]:
    return key in side, side.get(key)


def test_equal_rows_are_rarely_proposed() -> None:
    """A hundred rows of 40,000 that differ are in as many slots, each of some sixteen rows."""
    old: Side = dict.fromkeys(range(20_000), 1)
    new: Side = {key: 1 if key % 200 else 2 for key in old}
    comparison = Comparison(sources(old, 2), sources(new, 3), SCHEMA, SCHEMA)
    found = unlike(comparison, 4, 2)
    assert 90 < len(found) <= 100
    rows = list(proposed(comparison, 4, found))
    assert 200 < len(rows) < 3000


def test_the_sums_do_not_grow_with_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [slots.slots_for(count) for count in (0, 16, 1 << 24, 1 << 40)] == [1, 1, 20, 20]


def test_a_row_that_one_side_has_twice_is_seen() -> None:
    """A dataset that is broken has a key twice; the sums of its slot say so."""
    side: Side = {1: 5, 2: None}
    twice = (*sources(side, 1), *sources({2: None}, 1))
    comparison = Comparison(sources(side, 1), twice, SCHEMA, SCHEMA)
    assert len(unlike(comparison, 2, 1)) == 1
