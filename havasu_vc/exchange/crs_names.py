"""The coordinate reference systems that the columns of one file name.

Files say them as PROJJSON, WKT or `EPSG:2193`; a dataset has an identifier on the
column and the WKT in a file of its own. A system given by the user stands for every
column, whatever the file says.
"""

from __future__ import annotations

from dataclasses import field

from havasu_vc.errors import CrsError
from havasu_vc.geo.crs import parse_crs
from havasu_vc.records import dataclass

__all__ = ["CrsNames"]


@dataclass(slots=True)
class CrsNames:
    """Collects systems by identifier while a file's columns are looked at."""

    override: str | None = None
    """What the user gave instead."""
    wkt: dict[str, str] = field(default_factory=dict)
    """WKT by identifier."""
    _known: dict[str, str] = field(default_factory=dict)

    def name(self, text: str | None, where: str) -> str | None:
        """Return the identifier of a system as a file says it; None when it says none.

        Raises `CrsError` for one that is unknown.
        """
        said = self.override or text
        if not said:
            return None
        if said not in self._known:
            self._known[said] = self._add(said, where)
        return self._known[said]

    def _add(self, said: str, where: str) -> str:
        try:
            crs = parse_crs(said)
        except CrsError as error:
            if self.override is not None:
                raise
            raise CrsError(
                f"{where}: its coordinate reference system is unknown",
                hints=(error.message, "name one with --crs, such as --crs EPSG:4326"),
            ) from error
        # Two columns may word one system differently; the first wording stands.
        self.wkt.setdefault(crs.identifier, crs.wkt)
        return crs.identifier
