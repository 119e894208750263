"""The samples of a review on a map that GitHub draws: GeoJSON within a budget of bytes.

Coordinates are longitude and latitude, rounded to about a decimetre and simplified
until they fit. Nothing of a value stands in the map but the key of a row.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from havasu_vc.model.changes import ChangeKind
from havasu_vc.review.report import DatasetReview, Sample

if TYPE_CHECKING:
    from shapely import Geometry

__all__ = ["COLOURS", "map_of"]

COLOURS = {"deleted": "#d55e00", "inserted": "#009e73", "before": "#cc79a7", "after": "#0072b2"}
"""Of Okabe and Ito: people of any sight tell them apart."""
LEAST = 300
"""A map of fewer bytes would show nothing."""
_TOLERANCES = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)


def map_of(review: DatasetReview, room: int) -> str | None:
    """Return a FeatureCollection of at most `room` bytes; None when there is nothing to show."""
    if room < LEAST:
        return None
    shapes = [each for sample in review.samples for each in _shapes(sample)]
    for tolerance in _TOLERANCES:
        features = [_feature(label, key, shape, tolerance) for label, key, shape in shapes]
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


def _shapes(sample: Sample) -> list[tuple[str, str, Geometry]]:
    import shapely

    labels = {
        ChangeKind.DELETE: ("deleted", None),
        ChangeKind.INSERT: (None, "inserted"),
        ChangeKind.UPDATE: ("before", "after"),
    }[sample.kind]
    sides = [sample.old_geometry, sample.new_geometry]
    if sides[0] == sides[1]:
        sides[0] = None  # the row changed where it stands
    found = []
    for label, wkb in zip(labels, sides, strict=True):
        if label is None or wkb is None:
            continue
        shape = shapely.force_2d(shapely.from_wkb(wkb, on_invalid="ignore"))
        if shape is not None and not shape.is_empty and _is_on_the_globe(shape):
            found.append((label, sample.key, shape))
    return found


def _is_on_the_globe(shape: Geometry) -> bool:
    xmin, ymin, xmax, ymax = shape.bounds
    return bool(-180 <= xmin <= xmax <= 180 and -90 <= ymin <= ymax <= 90)


def _feature(label: str, key: str, shape: Geometry, tolerance: float) -> dict[str, Any]:
    import shapely

    if tolerance:
        shape = shape.simplify(tolerance, preserve_topology=False) or shape
    # Rounded as text: snapping to a grid could make a shape vanish.
    geometry = json.loads(shapely.to_geojson(shape))
    colour = COLOURS[label]
    return {
        "type": "Feature",
        "properties": {
            "row": key[:60],
            "change": label,
            "marker-color": colour,
            "stroke": colour,
            "fill": colour,
        },
        "geometry": _rounded(geometry),
    }


def _rounded(value: Any) -> Any:
    match value:
        case float():
            return round(value, 6)
        case list():
            return [_rounded(part) for part in value]
        case dict():
            return {name: _rounded(part) for name, part in value.items()}
        case _:
            return value
