"""Samples of keys cut them into parts of about as many rows, whatever order they come in."""

from bisect import bisect_right
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from havasu_vc.datasets.dealing import MOST, cuts_between, sample
from havasu_vc.model.task import task_of
from havasu_vc.testing.kernels import given_rows

COUNT = 50_000


def values(kind: str) -> list[Any]:
    numbers: list[Any] = np.random.default_rng(1).permutation(COUNT).tolist()
    match kind:
        case "in order":
            return list(range(COUNT))
        case "text":
            return [f"key {number:06}" for number in numbers]
        case "few values":
            return [number % 3 for number in numbers]
    return numbers


@pytest.mark.parametrize("kind", ["in order", "shuffled", "text", "few values"])
@pytest.mark.parametrize("parts", [1, 2, 7])
def test_parts_have_about_as_many_rows(kind: str, parts: int) -> None:
    every = values(kind)
    samples = []
    for start, end in ((0, COUNT // 5), (COUNT // 5, COUNT)):
        task = task_of(given_rows, pa.record_batch({"key": every[start:end]}))
        (found,) = sample((), task, "key")
        assert found.equals(next(sample((), task, "key"))), "the same rows give the same"
        assert len(found) <= MOST
        samples.append(found)
    cuts = list(cuts_between(samples, parts))
    assert cuts == sorted(set(cuts))
    held = Counter(bisect_right(cuts, value) for value in every)
    if kind == "few values":
        assert len(held) == min(parts, 3)
        return
    assert len(held) == parts
    assert max(held.values()) < 1.2 * COUNT / parts
    assert min(held.values()) > 0.8 * COUNT / parts


def test_nothing_is_cut_nowhere() -> None:
    empty = task_of(given_rows, pa.record_batch({"key": pa.array([], pa.int64())}))
    assert cuts_between(list(sample((), empty, "key")), 5) == ()
    nulls = task_of(given_rows, pa.record_batch({"key": pa.nulls(9, pa.int64())}))
    assert cuts_between(list(sample((), nulls, "key")), 5) == ()
