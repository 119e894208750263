"""A box that a person names rows by: where they lie, in some system.

It stands by itself because a clone takes one, and loads nothing that reads tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsFloat, TypeAlias

from havasu_vc.errors import InvalidArgumentError

__all__ = ["Box", "box_of", "parse_box"]

Box: TypeAlias = tuple[float, float, float, float]
"""West, south, east and north in some system; with west beyond east around the globe."""


def parse_box(text: str) -> Box:
    """Return a box as people write it; one whose west is east of its east crosses 180 degrees.

    >>> parse_box("174, -42, 175, -41")
    (174.0, -42.0, 175.0, -41.0)
    """
    return box_of(text.split(","), text)


def box_of(values: Sequence[SupportsFloat | str], shown: object = None) -> Box:
    """Return four numbers as a box; errors show them as they were given."""
    shown = values if shown is None else shown
    try:
        west, south, east, north = (float(value) for value in values)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"{shown!r} is not a box", hints=("write WEST,SOUTH,EAST,NORTH",)
        ) from error
    # Also false for NaN.
    if not (south <= north and (west <= east or west > east)):
        raise InvalidArgumentError(f"{shown!r} is a box that holds nothing")
    return west, south, east, north
