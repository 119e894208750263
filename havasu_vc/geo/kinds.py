"""The geometry types of WKB, how their bytes are built, and what can be wrong with them."""

from typing import Final

MAX_DEPTH: Final = 32
"""How deep collections may nest."""
KINDS: Final = {
    1: "POINT",
    2: "LINESTRING",
    3: "POLYGON",
    4: "MULTIPOINT",
    5: "MULTILINESTRING",
    6: "MULTIPOLYGON",
    7: "GEOMETRYCOLLECTION",
    8: "CIRCULARSTRING",
    9: "COMPOUNDCURVE",
    10: "CURVEPOLYGON",
    11: "MULTICURVE",
    12: "MULTISURFACE",
    15: "POLYHEDRALSURFACE",
    16: "TIN",
    17: "TRIANGLE",
}
"""The ISO names of the geometry types by number."""
ARC_KINDS: Final = (8, 9, 10, 11, 12)
"""Types that may hold arcs, whose extent is not that of their vertices."""

SRID_FLAG: Final = 0x20000000
BASE_MASK: Final = 0x1FFFFFFF

# The shape of each kind: what follows its header.
UNKNOWN, VERTEX, LINE, RINGS, PARTS = range(5)
_LISTS: Final = (PARTS,) * 4
SHAPES: Final = (
    UNKNOWN,
    VERTEX,
    LINE,
    RINGS,
    *_LISTS,
    LINE,
    *_LISTS,
    UNKNOWN,
    UNKNOWN,
    *_LISTS[:2],
    RINGS,
)
# What the parts of a collection must be; 0 where several kinds may stand.
PART_KINDS: Final = (0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 3, 17, 0)
MIN_PART: Final = 9  # bytes of the smallest geometry, an empty line

TRUNCATED: Final = "its WKB is truncated"
TOO_LONG: Final = "bytes follow the end of its WKB"
NO_ORDER: Final = "its WKB begins with neither byte order mark 0 nor 1"
NO_TYPE: Final = "its WKB holds a geometry type that is not known"
BAD_COUNT: Final = "its WKB counts more parts or vertices than there are bytes"
BAD_PART: Final = "its WKB holds a part of a type that does not belong there"
TOO_DEEP: Final = f"its collections nest deeper than {MAX_DEPTH}"
