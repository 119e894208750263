from itertools import pairwise
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.datasets.sorting import LAST, hilbert_index
from havasu_vc.model.bounds import Bounds

SQUARE = Bounds(0, 0, 1, 1)


def walk(order_bits: int) -> list[tuple[int, int]]:
    """Return the cells of a grid of 2^bits by 2^bits in the order of the curve."""
    size = 2**order_bits
    x, y = (axis.ravel() for axis in np.meshgrid(np.arange(size), np.arange(size)))
    index = hilbert_index((x + 0.5) / size, (y + 0.5) / size, SQUARE)
    order = np.argsort(index)
    return list(zip(x[order].tolist(), y[order].tolist(), strict=True))


@pytest.mark.parametrize("bits", [1, 2, 3, 5, 6])
def test_the_curve_visits_every_cell_and_only_ever_steps_to_a_neighbour(bits: int) -> None:
    cells = walk(bits)

    assert len(set(cells)) == 4**bits
    assert all(abs(a - c) + abs(b - d) == 1 for (a, b), (c, d) in pairwise(cells))


@pytest.mark.parametrize("order", [16, 32])
def test_both_orders_are_one_curve_of_unlike_resolution(order: Literal[16, 32]) -> None:
    generator = np.random.default_rng(7)
    x, y = generator.random(1000), generator.random(1000)

    index = hilbert_index(x, y, SQUARE, order)

    assert index.dtype == np.uint64
    assert index.max() < np.uint64(2 ** (2 * order) - 1)
    assert np.array_equal(
        index >> np.uint64(2 * order - 20), hilbert_index(x, y, SQUARE) >> np.uint64(12)
    )


@pytest.mark.parametrize("order", [16, 32])
def test_neighbouring_cells_at_full_resolution(order: Literal[16, 32]) -> None:
    cell = 2.0**-order
    start = hilbert_index(np.array([cell / 2]), np.array([cell / 2]), SQUARE, order)[0]
    beside = hilbert_index(np.array([1.5, 0.5]) * cell, np.array([0.5, 1.5]) * cell, SQUARE, order)

    assert start == 0
    assert 1 in beside.tolist()
    assert sorted(beside.tolist()) == [1, 3]


def test_what_is_nowhere_is_last() -> None:
    x = np.array([0.5, np.nan, 1, np.nan])
    y = np.array([0.5, 0.5, 1, np.nan])

    index = hilbert_index(x, y, SQUARE)

    assert (index == LAST).tolist() == [False, True, False, True]


def test_bounds_without_extent_and_points_outside() -> None:
    points = np.array([0.0, 5.0, -3.0])

    assert hilbert_index(points, points, Bounds(5, 5, 5, 5)).tolist() == [0, 0, 0]
    inside = hilbert_index(np.clip(points, 0, 1), np.clip(points, 0, 1), SQUARE)
    assert hilbert_index(points, points, SQUARE).tolist() == inside.tolist()
    assert hilbert_index(points[:0], points[:0], SQUARE).tolist() == []


@given(st.lists(st.tuples(st.floats(), st.floats()), max_size=5))
def test_any_numbers_have_an_index(points: list[tuple[float, float]]) -> None:
    x, y = (np.array([p[axis] for p in points], np.float64) for axis in (0, 1))

    index = hilbert_index(x, y, SQUARE)

    assert ((index == LAST) == (np.isnan(x) | np.isnan(y))).all()
