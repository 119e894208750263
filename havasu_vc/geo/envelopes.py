"""Boxes of rows in degrees, as Kart's index of features has them: many at once, and as ten bytes.

A box is west, south, east, north in EPSG:4326; one across the antimeridian has its west above its
east. It is made of the box that a geometry has in its own system: the corners go to degrees, what
the antimeridian cut apart is put together again, and room is left for edges that bend. A row
whose box cannot be told is NaN, and counts as being anywhere.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from havasu_vc.errors import CrsError
from havasu_vc.geo.crs import Crs, parse_crs, projection

__all__ = ["decode_envelopes", "degrees_of", "encode_envelopes", "united_envelopes"]

BITS: Final = 20
"""Bits of each of the four numbers of a box, as in an index that Kart begins."""
_FAR: Final = 1000.0
"""Degrees that show the system to be another one than the coordinates are in."""

Boxes = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


def degrees_of(boxes: Boxes, crs: Crs) -> tuple[Boxes, Flags]:
    """Return the boxes in degrees of xmin, ymin, xmax, ymax in a system.

    The flags say of which rows that is clearly not the system.
    """
    import pyproj

    try:
        source, target = projection(crs), projection(parse_crs("EPSG:4326"))
        change = pyproj.Transformer.from_crs(source, target, always_xy=True)
    except pyproj.exceptions.ProjError as error:
        raise CrsError(f"{crs.identifier} cannot be transformed to EPSG:4326") from error
    points = (boxes[:, 0] == boxes[:, 2]) & (boxes[:, 1] == boxes[:, 3])
    found = np.full((len(boxes), 4), np.nan)
    wrong = np.zeros(len(boxes), bool)
    x, y = change.transform(boxes[points, 0], boxes[points, 1])
    found[points] = np.column_stack([x, y, x, y])
    wrong[points] = np.isfinite(y) & (np.abs(y) > _FAR)
    if not points.all():
        found[~points], wrong[~points] = _areas(boxes[~points], change)
    with np.errstate(invalid="ignore"):
        found[~np.isfinite(found).all(axis=1) | (np.abs(found[:, 1::2]) > 90).any(axis=1)] = np.nan
    with np.errstate(invalid="ignore"):
        found[:, 0::2] = (found[:, 0::2] + 180) % 360 - 180
    return found, wrong


def _areas(boxes: Boxes, change: Any) -> tuple[Boxes, Flags]:
    """Return the boxes of rings in degrees, not yet brought around the globe."""
    x, y = _ring(boxes, 1, change)
    x, split = _joined(x, y)
    found = _extent(x, y)
    width, height = found[:, 2] - found[:, 0], found[:, 3] - found[:, 1]
    polar = np.abs(found[:, 1::2]).max(axis=1)
    with np.errstate(invalid="ignore"):
        nowhere = ~np.isfinite(found).all(axis=1)
        wrong = ~nowhere & ((width > _FAR) | (height > _FAR) | (polar > _FAR))
        odd = nowhere | wrong | (width >= 180) | (polar > 90)
    largest = np.maximum(width, height)
    buffer = np.where(odd, 0, 0.1 * largest)
    large = ~odd & (largest >= 1)
    steps = np.maximum(16, 2 ** np.ceil(np.log2(np.where(large, largest, 1))).astype(int))
    for count in np.unique(steps[large]):
        chosen = large & (steps == count)
        x, y = _ring(boxes[chosen], int(count), change)
        x = np.where(x < split[chosen, None], x + 360, x)
        found[chosen] = _extent(x, y)
        buffer[chosen] = 0.1
    found += buffer[:, None] * np.array([-1, -1, 1, 1])
    found[:, 1::2] = np.where(odd[:, None], np.nan, np.clip(found[:, 1::2], -90, 90))
    return found, wrong


def _ring(boxes: Boxes, steps: int, change: Any) -> tuple[Boxes, Boxes]:
    """Return x and y in degrees of points around boxes, against the clock, the last one first."""
    part = np.arange(steps) / steps
    xmin, ymin, xmax, ymax = (boxes[:, side, None] for side in range(4))
    x = [xmin + (xmax - xmin) * part, xmax + 0 * part, xmax + (xmin - xmax) * part, xmin + 0 * part]
    y = [ymin + 0 * part, ymin + (ymax - ymin) * part, ymax + 0 * part, ymax + (ymin - ymax) * part]
    found = change.transform(np.concatenate(x, axis=1), np.concatenate(y, axis=1))
    return np.asarray(found[0], float), np.asarray(found[1], float)


def _extent(x: Boxes, y: Boxes) -> Boxes:
    return np.column_stack([x.min(axis=1), y.min(axis=1), x.max(axis=1), y.max(axis=1)])


def _joined(x: Boxes, y: Boxes) -> tuple[Boxes, npt.NDArray[np.float64]]:
    """Return rings that the antimeridian cut apart put together, and where each was cut.

    A ring that goes with the clock once it is in degrees was cut; its points west of the cut belong
    a turn further east.
    """
    split = np.full(len(x), -np.inf)
    with np.errstate(invalid="ignore"):
        cut = (np.ptp(x, axis=1) >= 180) & (_area(x, y) < 0)
    order = np.sort(x, axis=1)
    for place in range(x.shape[1] - 1):
        middle = (order[:, place] + order[:, place + 1]) / 2
        moved = np.where(x < middle[:, None], x + 360, x)
        fits = cut & (_area(moved, y) >= 0)
        x = np.where(fits[:, None], moved, x)
        split[fits] = middle[fits]
        cut &= ~fits
    return x, split


def _area(x: Boxes, y: Boxes) -> npt.NDArray[np.float64]:
    total: npt.NDArray[np.float64] = (x * np.roll(y, -1, axis=1) - np.roll(x, -1, axis=1) * y).sum(
        axis=1
    )
    return total


def united_envelopes(one: Boxes, other: Boxes) -> Boxes:
    """Return the smallest boxes that hold those of two systems, row by row; NaN stays so."""
    (w1, e1), (w2, e2) = (
        (each[:, 0], np.where(each[:, 2] < each[:, 0], each[:, 2] + 360, each[:, 2]))
        for each in (one, other)
    )
    west, east = w1, e1 + np.inf
    for turn in (-360, 0, 360):
        low, high = np.minimum(w1, w2 + turn), np.maximum(e1, e2 + turn)
        with np.errstate(invalid="ignore"):
            less = high - low < east - west
        west, east = np.where(less, low, west), np.where(less, high, east)
    south, north = np.minimum(one[:, 1], other[:, 1]), np.maximum(one[:, 3], other[:, 3])
    with np.errstate(invalid="ignore"):
        around = east - west >= 360
        west, east = (west + 180) % 360 - 180, (east + 180) % 360 - 180
    found = np.column_stack([west, south, east, north])
    found[around, 0], found[around, 2] = -180, 180
    return found


def encode_envelopes(boxes: Boxes, bits: int = BITS) -> list[bytes]:
    """Return boxes as bytes, each number with so many bits, outwards to the next that there is.

    >>> encode_envelopes(np.array([[-180.0, -90, 180, 90]]))[0].hex()
    '0000000000ffffffffff'
    """
    most = 2**bits - 1
    share = (boxes + np.array([180, 90, 180, 90])) / np.array([360, 180, 360, 180]) * most
    share[:, :2], share[:, 2:] = np.floor(share[:, :2]), np.ceil(share[:, 2:])
    numbers = np.clip(share, 0, most).astype(np.uint64).tolist()
    size = bits * 4 // 8
    return [
        (w << 3 * bits | s << 2 * bits | e << bits | n).to_bytes(size, "big")
        for w, s, e, n in numbers
    ]


def decode_envelopes(data: list[bytes]) -> Boxes:
    """Return the boxes that bytes stand for."""
    found = []
    for each in data:
        bits = len(each) * 8 // 4
        number, most = int.from_bytes(each, "big"), 2**bits - 1
        sides = [(number >> shift * bits) & most for shift in (3, 2, 1, 0)]
        found.append([side / most for side in sides])
    turns: Boxes = np.array(found, float).reshape(-1, 4)
    boxes: Boxes = turns * np.array([360, 180, 360, 180]) - np.array([180, 90, 180, 90])
    return boxes
