"""Coordinate reference systems: from whatever people and files write to one form.

`parse_crs` takes authority codes (`EPSG:2193`, `OGC:CRS84`, URNs), WKT1, WKT2,
ESRI's WKT, PROJJSON and PROJ strings. A definition that names its authority keeps
its own words; the others are written as GDAL's WKT1 where that can say it, else
as WKT2:2019. `format_wkt_definition` lays WKT out as Kart does, so that equal
definitions are equal files.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from havasu_vc.errors import CrsError
from havasu_vc.records import dataclass

if TYPE_CHECKING:
    import pyproj

__all__ = [
    "Crs",
    "common_code",
    "format_wkt_definition",
    "is_geographic",
    "keeps_system",
    "nameless_definition",
    "parse_crs",
    "projection",
    "same_crs",
]


_AUTHORITIES: Final = ("EPSG", "OGC", "ESRI", "IAU")
_MAX_TEXT: Final = 1 << 20
_CUSTOM_FIRST, _CUSTOM_COUNT = 200_000, 700_000
# What may be looked up; PROJ would take any words for a name, and guess.
_FORM: Final = re.compile(
    r"[A-Za-z0-9_]+:[A-Za-z0-9_.+]+(?<!:)|urn:.*|https?://.*|\{.*|\+?(proj|init)=.*|\+.*"
    r"|[A-Za-z_]+\s*[\[(].*",
    re.DOTALL | re.IGNORECASE,
)
_WKT: Final = re.compile(r"\s*[A-Za-z_]+\s*[\[(]")
_TOKEN: Final = re.compile(r'\s*("(?:[^"]|"")*"|[\[\](),]|[^\s\[\](),"]+)')
_SAFE_CODE: Final = re.compile(r"[A-Za-z0-9_.-]+")


def parse_crs(text: str) -> Crs:
    """Return the CRS that a code or a definition in any common form means."""
    return _parse(text.strip())


@lru_cache(maxsize=256)
def _parse(text: str) -> Crs:
    found = _read(text)
    try:
        declared = _declared(found)
    except ValueError as error:  # PROJ took it, and its JSON of it is none
        raise _unknown(text) from error
    if declared is not None and _WKT.match(text):
        return Crs(_joined(declared), format_wkt_definition(text), _srid(*declared))
    authority = declared or _identified(found)
    known = None if authority is None else _known(_joined(authority))
    if known is not None and (declared is None or known.equals(found, ignore_axis_order=True)):
        found = known
    wkt = format_wkt_definition(_definition(found))
    if authority is not None:
        return Crs(_joined(authority), wkt, _srid(*authority))
    number = _hashed(wkt)
    return Crs(f"CUSTOM:{number}", wkt, number)


@lru_cache(maxsize=64)
def projection(crs: Crs) -> pyproj.CRS:
    """Return pyproj's form of a CRS.

    The authority's own definition, which knows more ways to transform, if the
    CRS's is the same in all but the order of axes.
    """
    defined = _read(crs.wkt)
    known = None if crs.identifier.startswith("CUSTOM:") else _known(crs.identifier)
    if known is None:
        return defined
    same = format_wkt_definition(_definition(known)) == crs.wkt
    return known if same or known.equals(defined, ignore_axis_order=True) else defined


def same_crs(one: str, other: str) -> bool:
    """Whether two definitions mean the same system; the order of axes does not count."""
    if one == other:
        return True
    return projection(parse_crs(one)).equals(projection(parse_crs(other)), ignore_axis_order=True)


def keeps_system(known: str, told: str) -> bool:
    """Whether a definition states the system of another, which may say more of it.

    GDAL leaves out how a system that it knows is brought to WGS 84 (`TOWGS84`).
    """
    if known == told:
        return True
    before, after = projection(parse_crs(known)), projection(parse_crs(told))
    if not after.is_bound:
        before = before.source_crs if before.is_bound and before.source_crs else before
    return bool(before.equals(after, ignore_axis_order=True))


def is_geographic(crs: Crs) -> bool:
    """Whether coordinates are degrees of longitude and latitude."""
    return bool(projection(crs).is_geographic)


def common_code(crs: Crs) -> str | None:
    """Return the code of a system that means the same to everybody, None where none does.

    Coordinates are longitude first everywhere, so `EPSG:4326` is `OGC:CRS84`, as which
    writers and readers of Parquet know it.
    """
    authority, _, code = crs.identifier.partition(":")
    if authority not in _AUTHORITIES or not code:
        return None
    try:
        if not same_crs(crs.wkt, crs.identifier):
            return None
    except CrsError:
        return None
    return "OGC:CRS84" if crs.identifier == "EPSG:4326" else crs.identifier


def nameless_definition(crs: Crs) -> str:
    """Return the definition of a system as WKT without the code that it states for itself.

    Who looks systems up by their codes takes the authority's definition for it.
    """
    import pyproj

    described = projection(crs).to_json_dict()
    described.pop("id", None)
    return _definition(pyproj.CRS.from_json_dict(described))


def format_wkt_definition(text: str) -> str:
    """Lay WKT out: a line for each part, indented by four spaces, a newline at the end.

    >>> print(format_wkt_definition('UNIT["metre",1,AUTHORITY["EPSG","9001"]]'), end="")
    UNIT["metre", 1,
        AUTHORITY["EPSG", "9001"]]
    """
    tokens = list(_tokens(text))
    written: list[str] = []
    depth = 0
    for index, token in enumerate(tokens):
        if token == "[":
            depth += 1
            written.append("[")
        elif token == "]":
            depth -= 1
            written.append("]")
        elif token == ",":
            opens = tokens[index + 2 : index + 3] == ["["]
            written.append(",\n" + "    " * depth if opens else ", ")
        else:
            written.append(token)
    if depth != 0:
        raise CrsError("a CRS definition has brackets that do not match")
    return "".join(written) + "\n"


def _tokens(text: str) -> Iterator[str]:
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise CrsError(f"a CRS definition cannot be read: {text[position : position + 40]!r}")
        position = match.end()
        yield {"(": "[", ")": "]"}.get(match[1], match[1])


def _read(text: str) -> pyproj.CRS:
    import pyproj

    if not text:
        raise CrsError("an empty text is no CRS")
    if len(text) > _MAX_TEXT:
        raise CrsError(f"a CRS definition of {len(text):,} characters is too long")
    # Parquet's convention; and initialisation files are not for others to name.
    wanted = re.sub(r"^(srid:)?(?=\d+$)", "EPSG:", text, flags=re.IGNORECASE)
    if "\0" in wanted or not _FORM.fullmatch(wanted):
        raise _unknown(text)
    if re.search(r"\+?\binit=", wanted) and not re.fullmatch(r"\+?init=epsg:\d+", wanted):
        raise _unknown(text)
    try:
        return pyproj.CRS.from_user_input(wanted)
    except (pyproj.exceptions.ProjError, ValueError, TypeError, RecursionError) as error:
        raise _unknown(text) from error


def _known(identifier: str) -> pyproj.CRS | None:
    """Return an authority's own definition, if PROJ has it."""
    import pyproj

    try:
        return pyproj.CRS.from_user_input(identifier)
    except pyproj.exceptions.CRSError:
        return None


def _unknown(text: str) -> CrsError:
    short = text if len(text) <= 60 else text[:57] + "..."
    return CrsError(
        f"{short!r} is not a coordinate reference system that is known",
        hints=("give a code such as EPSG:2193, or a definition as WKT, PROJJSON or a PROJ string",),
    )


def _declared(crs: pyproj.CRS) -> tuple[str, str] | None:
    """Return the authority and code that a definition itself states."""
    described = crs.to_json_dict()
    if "source_crs" in described and "id" not in described:
        described = described["source_crs"]
    stated = described.get("id")
    return None if stated is None else _safe(str(stated["authority"]), str(stated["code"]))


def _identified(crs: pyproj.CRS) -> tuple[str, str] | None:
    """Return the authority and code of an equal definition, where there is no doubt."""
    found = crs.to_authority(min_confidence=90)
    if found is None and crs.datum is not None and not crs.datum.name.startswith("Unknown"):
        # Differs in name alone; without a known datum it would be a guess.
        found = crs.to_authority(min_confidence=70)
    return None if found is None else _safe(*found)


def _safe(authority: str, code: str) -> tuple[str, str] | None:
    sound = all(_SAFE_CODE.fullmatch(word) and len(word) <= 40 for word in (authority, code))
    return (authority, code) if sound and authority[0].isalnum() else None


def _definition(crs: pyproj.CRS) -> str:
    import pyproj

    try:
        return crs.to_wkt("WKT1_GDAL", pretty=True)
    except pyproj.exceptions.CRSError:
        return crs.to_wkt("WKT2_2019", pretty=True)


def _joined(authority: tuple[str, str]) -> str:
    return ":".join(authority)


def _srid(authority: str, code: str) -> int:
    if authority == "OGC" and code == "CRS84":
        return 4326
    if code.isdecimal() and len(code) <= 9:
        return int(code)
    return _hashed(f"{authority}:{code}")


def _hashed(text: str) -> int:
    digest = hashlib.sha256(text.encode()).digest()
    return _CUSTOM_FIRST + int.from_bytes(digest[:8], "big") % _CUSTOM_COUNT


# A coordinate reference system as datasets keep it: a name and a definition.
#
# The name stands in schemas and is the file name of the definition,
# `meta/crs/<identifier>.wkt`. In all stored coordinates x is longitude or easting,
# whatever order of axes the definition states.

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
        """The authority, before the colon; empty if there is none."""
        return self.identifier.rpartition(":")[0]
