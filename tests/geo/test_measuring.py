"""How much ground shapes cover."""

import pyarrow as pa
import shapely

from havasu_vc.geo.sketching import total_area


def test_shapes_are_summed_and_what_is_none_covers_nothing() -> None:
    shapes = [
        shapely.box(0, 0, 2, 3),
        shapely.Point(1, 1),
        shapely.Polygon(),
        shapely.box(0, 0, 1, 1),
    ]
    column = pa.array([*shapely.to_wkb(shapes), None, b"no shape"], pa.binary())

    assert total_area(column) == 7.0


def test_nothing_covers_nothing() -> None:
    assert total_area(pa.array([], pa.binary())) == 0.0
