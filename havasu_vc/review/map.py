"""The samples of a review on a map that GitHub draws: GeoJSON within a budget of bytes.

Coordinates are longitude and latitude, rounded to about a decimetre and simplified
until they fit. Nothing of a value stands in the map but the key of a row.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TypeAlias

from havasu_vc.geo.sketching import sketch
from havasu_vc.model.changes import ChangeKind
from havasu_vc.review.colours import COLOURS, SIDES
from havasu_vc.review.conflicts import DatasetInConflict
from havasu_vc.review.report import DatasetReview, Sample

__all__ = ["conflict_map", "map_of"]

LEAST = 300
"""A map of fewer bytes would show nothing."""
_Shape: TypeAlias = tuple[str, tuple[str, str], str, bytes]
"""The key of a row, a property of the feature, its colour, and WKB."""
_TOLERANCES = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)


def map_of(review: DatasetReview, room: int) -> str | None:
    """Return a FeatureCollection of at most `room` bytes; None when there is nothing to show."""
    sides = [
        (key, ("change", label), COLOURS[label], wkb)
        for sample in review.samples
        for label, key, wkb in _sides(sample)
    ]
    return _drawn(sides, room)


def conflict_map(review: DatasetInConflict, room: int) -> str | None:
    """Return the rows in conflict as all versions have them, of at most `room` bytes."""
    sides = [
        (row.key, ("side", side), SIDES[side], wkb)
        for row in review.samples
        for side, wkb in zip(
            SIDES, (row.base_geometry, row.ours_geometry, row.theirs_geometry), strict=True
        )
        if wkb is not None
    ]
    return _drawn(sides, room)


def _drawn(shapes: list[_Shape], room: int) -> str | None:
    if room < LEAST:
        return None
    features: list[dict[str, Any]] = []
    for tolerance in _TOLERANCES:
        features = list(_features(shapes, tolerance))
        text = _collection(features)
        if len(text) <= room:
            return text if features else None
    while features and len(_collection(features)) > room:
        features = features[: len(features) * 3 // 4]
    return _collection(features) if features else None


def _collection(features: list[dict[str, Any]]) -> str:
    return json.dumps(
        {"type": "FeatureCollection", "features": features},
        separators=(",", ":"),
        ensure_ascii=True,
    ).replace("`", "\\u0060")


def _sides(sample: Sample) -> list[tuple[str, str, bytes]]:
    labels = {
        ChangeKind.DELETE: ("deleted", None),
        ChangeKind.INSERT: (None, "inserted"),
        ChangeKind.UPDATE: ("before", "after"),
    }[sample.kind]
    old, new = sample.old_geometry, sample.new_geometry
    if old == new:
        old = None  # the row changed where it stands
    return [
        (label, sample.key, wkb)
        for label, wkb in zip(labels, (old, new), strict=True)
        if label is not None and wkb is not None
    ]


def _features(shapes: list[_Shape], tolerance: float) -> Iterator[dict[str, Any]]:
    for key, (name, what), colour, wkb in shapes:
        geometry = sketch(wkb, tolerance=tolerance)
        if geometry is None:
            continue
        yield {
            "type": "Feature",
            "properties": {
                "row": key[:60],
                name: what,
                "marker-color": colour,
                "stroke": colour,
                "fill": colour,
            },
            "geometry": geometry,
        }
