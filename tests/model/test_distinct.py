import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.model.arrays import among, distinct

NUMBERS = st.lists(st.integers(-5, 5), max_size=20)


@given(NUMBERS)
def test_distinct_is_what_a_set_holds(numbers: list[int]) -> None:
    assert distinct(np.array(numbers, np.int64)).tolist() == sorted(set(numbers))


@given(NUMBERS, NUMBERS)
def test_among_is_membership(numbers: list[int], others: list[int]) -> None:
    ascending = np.array(sorted(others), np.int64)

    found = among(np.array(numbers, np.int64), ascending)

    assert found.tolist() == [number in others for number in numbers]
