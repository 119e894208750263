"""The pictures of the guides are those that `scripts/screenshots.py` takes."""

import re
import struct
from pathlib import Path

import numpy as np
import shapely

from havasu_vc.model.diffs import DatasetDiff
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Encoding, Field, Geometry, Primitive
from tests.review.page.conftest import Opened
from tests.review.page.pages import many
from tests.support.browser import Tab
from tests.writers.cases import batch, header

ROOT = Path(__file__).parents[3]
GUIDES = ROOT / "docs" / "guides"
PARCELS = Schema(
    (
        Field(1, "id", Primitive.LONG, required=True),
        Field(2, "geom", Primitive.BINARY, geometry=Geometry(Encoding.WKB, "OGC:CRS84", "POLYGON")),
        Field(3, "zone", Primitive.STRING),
        Field(4, "owner", Primitive.STRING),
    ),
    (1,),
)


def parcels() -> DatasetDiff:
    """Return a block of parcels of which some were surveyed again."""
    chance = np.random.default_rng(4)
    corners = np.stack(np.meshgrid(np.arange(8.0), np.arange(6.0)), axis=-1)
    corners += chance.uniform(-0.18, 0.18, corners.shape)
    newer = corners.copy()
    newer[3, 4] += (0.25, 0.2)
    newer[2, 2] += (-0.2, 0.15)

    def parcel(grid: np.ndarray, row: int, column: int, zone: str) -> dict[str, object]:
        ring = [
            grid[row, column],
            grid[row, column + 1],
            grid[row + 1, column + 1],
            grid[row + 1, column],
        ]
        places = np.array([174.77, -41.29]) + np.array(ring) * (0.0006, 0.00045)
        return {
            "id": 100 * row + column,
            "geom": shapely.to_wkb(shapely.Polygon(places)),
            "zone": zone,
            "owner": f"{row * 7 + column} Aro Street",
        }

    changes: list[tuple[dict[str, object] | None, dict[str, object] | None]] = []
    for row in range(5):
        for column in range(7):
            old = parcel(corners, row, column, "Residential 1")
            new = parcel(newer, row, column, "Residential 2" if row == 2 else "Residential 1")
            if (row, column) in {(0, 5), (4, 1)}:
                changes.append((old, None))
            elif (row, column) in {(1, 0), (4, 5)}:
                changes.append((None, new))
            elif old != new:
                changes.append((old, new))
    side = header(PARCELS, "parcels")
    return DatasetDiff("parcels", side, side, (), iter([batch(PARCELS, PARCELS, *changes)]))


def test_vertices_that_moved_are_counted(opened: Opened, tab: Tab) -> None:
    opened([parcels(), many(40)], hash="#parcels:203")
    assert "1 vertex moved" in tab.text("#detail .facts")


def test_the_guides_show_the_pictures_that_the_script_takes() -> None:
    script = (ROOT / "scripts" / "screenshots.py").read_text("utf-8")
    named = set(re.findall(r'^    "([a-z-]+\.png)",$', script, re.MULTILINE))
    shown = {
        name
        for guide in ("review-page.md", "browser.md")
        for name in re.findall(r"!\[[^]]*\]\(([a-z-]+\.png)\)", (GUIDES / guide).read_text("utf-8"))
    }
    assert named == shown
    for name in named:
        size = struct.unpack(">II", (GUIDES / name).read_bytes()[16:24])
        assert size == ((390, 844) if "phone" in name else (1400, 900)), name
