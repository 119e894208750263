"""A coordinate reference system as datasets keep it: a name and a definition.

The name stands in schemas and is the file name of the definition,
`meta/crs/<identifier>.wkt`. In all stored coordinates x is longitude or easting,
whatever order of axes the definition states.
"""

import re
from typing import Final

from havasu_vc.records import dataclass

__all__ = ["Crs"]

_SAFE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*(:[A-Za-z0-9_.-]+)*")


@dataclass(frozen=True, slots=True)
class Crs:
    """One coordinate reference system.

    >>> Crs("EPSG:2193", "PROJCS[...]", 2193).authority
    'EPSG'
    """

    identifier: str
    """Its name: `EPSG:2193`, or `CUSTOM:<number>` where no authority knows it."""
    wkt: str
    """Its definition, pretty-printed, with a newline at the end."""
    srid: int
    """The number that stands for it where only a number can."""

    def __post_init__(self) -> None:
        if not _SAFE.fullmatch(self.identifier) or len(self.identifier) > 100:
            raise ValueError(f"{self.identifier!r} cannot name a CRS")

    @property
    def authority(self) -> str:
        """What is before the colon; empty if there is none."""
        return self.identifier.rpartition(":")[0]
