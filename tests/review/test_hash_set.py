import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.review.summarising import HashSet


@given(st.lists(st.lists(st.integers(0, 12), max_size=9), max_size=12))
def test_it_tells_what_came_before(batches: list[list[int]]) -> None:
    seen: set[int] = set()
    found = HashSet()
    for batch in batches:
        again = found.add(np.array(batch, np.uint64)).tolist()
        for value, known in zip(batch, again, strict=True):
            assert known == (value in seen)
            seen.add(value)


def test_what_it_keeps_is_bounded() -> None:
    found = HashSet(most=3)
    found.add(np.array([1, 2, 3], np.uint64))
    found.add(np.array([4], np.uint64))

    assert found.add(np.array([3, 4], np.uint64)).tolist() == [True, False]


def test_batches_are_looked_up_in_few_runs() -> None:
    found = HashSet()
    for start in range(0, 100_000, 100):
        assert not found.add(np.arange(start, start + 100, dtype=np.uint64)).any()

    assert len(found._runs) < 12


@pytest.mark.thorough
def test_large_runs_are_not_joined() -> None:
    found = HashSet()
    for start in range(0, 3 << 20, 1 << 17):
        assert not found.add(np.arange(start, start + (1 << 17), dtype=np.uint64)).any()

    assert max(map(len, found._runs)) <= 1 << 20
    assert sum(map(len, found._runs)) == 3 << 20
    assert found.add(np.array([0, 1 << 20, 3 << 20], np.uint64)).tolist() == [True, True, False]
