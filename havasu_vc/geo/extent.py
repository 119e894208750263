"""The extent of every value of a scanned column, from the bytes themselves.

A vertex whose x or y is NaN counts nothing, so an empty point and a hole in the
data never make a bound; z is taken from whatever z is a number. What has arcs
has no extent that its vertices tell: its flag is set and callers decide.
"""

import numpy as np

from havasu_vc.geo.buffers import ARC_KINDS, Bools, Floats, Ints, overlapping, ranges
from havasu_vc.geo.layout import GeometryLayout
from havasu_vc.records import dataclass

__all__ = ["Extents", "extents", "vertex_numbers"]


@dataclass(frozen=True, slots=True)
class Extents:
    """One element per value of the scanned column."""

    envelopes: Floats
    """(n, 6): min x, max x, min y, max y, min z, max z; NaN where there is none."""
    empty: Bools
    """Whether it has no vertex at all (an empty point is one with NaN for x and y)."""
    arcs: Bools
    """Whether it holds arcs, which reach beyond their vertices."""


def extents(layout: GeometryLayout) -> Extents:
    """Return the extent of every value."""
    count = len(layout.column.starts)
    envelopes = np.full((count, 6), np.nan)
    empty = np.ones(count, np.bool_)
    arcs = np.zeros(count, np.bool_)
    arcs[layout.value[np.isin(layout.kind, ARC_KINDS)]] = True
    runs = np.flatnonzero(layout.count)
    if runs.size:
        at = vertex_positions(layout, runs)
        owner = np.repeat(layout.value[runs], layout.count[runs])
        big = np.repeat(layout.big[runs], layout.count[runs]) if layout.big.any() else None
        x, y = vertex_numbers(layout, at, big), vertex_numbers(layout, at + 8, big)
        point = np.repeat(layout.kind[runs] == 1, layout.count[runs])
        nowhere = np.isnan(x) | np.isnan(y)
        there = ~(point & np.isnan(x) & np.isnan(y)) if nowhere.any() else slice(None)
        empty[owner[there]] = False
        x[nowhere] = y[nowhere] = np.nan
        _reduce(envelopes, owner, x, y)
        _reduce_z(envelopes, layout, runs, at, big)
    return Extents(envelopes, empty, arcs)


def vertex_positions(layout: GeometryLayout, runs: Ints) -> Ints:
    """Return where every vertex of the items `runs` begins."""
    return ranges(layout.start[runs], layout.count[runs], 8 * layout.ordinates[runs])


def vertex_numbers(layout: GeometryLayout, positions: Ints, big: Bools | None) -> Floats:
    """Read a number at each position; `big` says which are big-endian, None that none is."""
    numbers = overlapping(layout.column.data, "<f8")[positions]
    if big is not None:
        numbers = np.where(big, numbers.byteswap(), numbers)
    return np.asarray(numbers, np.float64)


def _reduce(envelopes: Floats, owner: Ints, *axes: Floats) -> None:
    """Set the least and greatest of each axis per owner; owners come in order."""
    firsts = np.flatnonzero(np.diff(owner, prepend=-1))
    values = owner[firsts]
    for index, axis in enumerate(axes):
        envelopes[values, 2 * index] = np.fmin.reduceat(axis, firsts)
        envelopes[values, 2 * index + 1] = np.fmax.reduceat(axis, firsts)


def _reduce_z(
    envelopes: Floats, layout: GeometryLayout, runs: Ints, at: Ints, big: Bools | None
) -> None:
    has_z = np.repeat((layout.dimensions[runs] & 1) == 1, layout.count[runs])
    if not has_z.any():
        return
    owner = np.repeat(layout.value[runs], layout.count[runs])[has_z]
    z = vertex_numbers(layout, at[has_z] + 16, None if big is None else big[has_z])
    upright = np.full((len(envelopes), 2), np.nan)
    _reduce(upright, owner, z)
    envelopes[:, 4:] = upright
