"""The spatial filter of a repository: the area whose rows its working copy has.

It stands in git's settings as Kart keeps it, below `kart.spatialfilter` in Kart's repositories
and `havasu.spatialfilter` in others:

    geometry, crs          a polygon as WKT and its system
    reference, objectid    a ref, and the object that it named when the filter was set

As text it is `CRS;POLYGON`, `CRS;WEST,SOUTH,EAST,NORTH`, `@FILE`, or what names an object of the
repository, such as the NAME of a ref `refs/filters/NAME`; `none` is no filter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.protocol import Predicate
from havasu_vc.errors import (
    CrsError,
    InvalidArgumentError,
    NoSpatialFilterError,
    NotFoundError,
    SourceNotFoundError,
)
from havasu_vc.exchange.boxes import parse_box
from havasu_vc.exchange.export_columns import Notes, outgoing_geometry
from havasu_vc.geo.areas import FilterArea, LocalArea, parse_area, require_valid
from havasu_vc.geo.buffers import Bools
from havasu_vc.history.partners import partners
from havasu_vc.model import compute as pc
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.diffs import DatasetDiff, DatasetHeader
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo

if TYPE_CHECKING:
    from havasu_vc.store.repository import GitRepository

__all__ = [
    "RowsInside",
    "SpatialFilter",
    "diffs_inside",
    "parse_spatial_filter",
    "read_spatial_filter",
    "rows_inside",
    "was_cloned",
    "write_spatial_filter",
]

_INLINE = re.compile(r"([A-Za-z0-9]{2,10}:[0-9]{1,10});(.*)", re.DOTALL)
_BLANK_LINE = re.compile(r"\r?\n[ \t]*\r?\n")
_KEYS = ("geometry", "crs", "reference", "objectid")


@dataclass(frozen=True, slots=True)
class SpatialFilter:
    """A filter as it was asked for; without an area it is none, or has to be looked up."""

    area: FilterArea | None = None
    """The area that rows are to be in."""
    reference: str | None = None
    """The ref that names the object that has it, or text that is to name one."""
    object_id: str | None = None
    """That object."""
    text: str = ""
    """The text of that object: a system, an empty line, a polygon."""

    @property
    def is_none(self) -> bool:
        """Whether it lets every row through."""
        return self.area is None and self.reference is None

    def resolved(self, git: GitRepository) -> SpatialFilter:
        """Return it with its area, looked up where an object of the repository has it."""
        if self.area is not None or self.reference is None:
            return self
        text = self.reference
        names = [text] if re.fullmatch("[0-9a-f]{40}", text) else []
        names.append(text if text.startswith("refs/") else f"refs/filters/{text}")
        for name in names:
            found = git.git("rev-parse", "--verify", "--quiet", f"{name}^{{blob}}", check=False)
            if not found.code:
                identity = found.text.strip()
                text = git.objects.read(identity)[1].decode("utf-8", "replace").strip()
                reference = name if name.startswith("refs/") else None
                return SpatialFilter(_area_of_text(text), reference, identity, text)
        raise NoSpatialFilterError(
            f"No spatial filter object was found in the repository at {' or '.join(names)}",
            hints=("a file with a filter is given as @FILE",),
        )


def parse_spatial_filter(text: str, folder: Path) -> SpatialFilter:
    """Return the filter that a text means; what an object has is looked up by `resolved`.

    >>> parse_spatial_filter("none", Path()).is_none
    True
    >>> parse_spatial_filter("EPSG:4326;170,-42,171,-41", Path()).area.degrees
    (170.0, -42.0, 171.0, -41.0)
    """
    if not text or text.lower() == "none":
        return SpatialFilter()
    inline = _INLINE.fullmatch(text)
    if inline is not None:
        return SpatialFilter(require_valid(_area(*inline.groups())))
    if text.startswith("@"):
        path = folder / text[1:]
        try:
            return SpatialFilter(require_valid(_area_of_text(path.read_text("utf-8"))))
        except OSError as error:
            raise SourceNotFoundError(f"{path} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise InvalidArgumentError(f"{path} is not text") from error
    if ";" in text or "," in text or text.endswith(")"):
        raise InvalidArgumentError(
            f"Invalid spatial filter definition {text!r}",
            hints=(
                "write CRS;POLYGON((...)), CRS;WEST,SOUTH,EAST,NORTH as EPSG:4326;174,-42,175,-41, "
                "or @FILE",
            ),
        )
    return SpatialFilter(None, text)


def _area(crs: str, geometry: str) -> FilterArea:
    if re.fullmatch(r"[-+.,eE0-9\s]+", geometry) and geometry.count(",") == 3:
        west, south, east, north = parse_box(geometry)
        if west > east:
            raise InvalidArgumentError(f"the box {geometry} has its west beyond its east")
        ring = [(west, south), (east, south), (east, north), (west, north), (west, south)]
        corners = ", ".join(f"{x!r} {y!r}" for x, y in ring)
        geometry = f"POLYGON (({corners}))"
    return parse_area(crs, geometry)


def _area_of_text(text: str) -> FilterArea:
    """Return the area of a file: a system, an empty line, a polygon."""
    parts = _BLANK_LINE.split(text.strip(), maxsplit=1)
    if len(parts) != 2:
        raise InvalidArgumentError(
            "Spatial filter file must contain the CRS, then an empty line, then the geometry."
        )
    return _area(parts[0].strip(), parts[1].strip())


def read_spatial_filter(git: GitRepository) -> SpatialFilter:
    """Return the filter that the settings have.

    Raises `NoSpatialFilterError` where they lack a part of it.
    """
    there = git.config.section(git.spatial_filter_section)
    geometry, crs, reference, identity = (there.get(key) for key in _KEYS)
    if geometry:
        if not crs:
            raise NoSpatialFilterError("Spatial filter CRS is missing from config")
        return SpatialFilter(parse_area(crs, geometry))
    if not reference:
        return SpatialFilter()
    if not identity:
        raise NoSpatialFilterError("Spatial filter object ID is missing from config")
    try:
        found = SpatialFilter(None, identity).resolved(git)
    except (NotFoundError, ValueError) as error:
        raise NoSpatialFilterError(
            f"the object {identity} of the spatial filter is not in the repository"
        ) from error
    return replace(found, reference=reference)


def write_spatial_filter(git: GitRepository, filter_: SpatialFilter) -> None:
    """Have the settings say a filter that was looked up, or none."""
    area, reference = filter_.area, filter_.reference
    values: dict[str, str | None] = dict.fromkeys(_KEYS)
    if area is not None and reference is not None:
        values |= {"reference": reference, "objectid": filter_.object_id}
    elif area is not None:
        values |= {"geometry": area.wkt, "crs": area.crs}
    there = git.config.section(git.spatial_filter_section)
    for key in _KEYS:
        value, name = values[key], f"{git.spatial_filter_section}.{key}"
        if value is not None and there.get(key) != value:
            git.config.set(name, value)
    for key in _KEYS:
        if values[key] is None and key in there:
            git.config.unset(f"{git.spatial_filter_section}.{key}")


@dataclass(frozen=True, slots=True)
class RowsInside:
    """Which rows of a dataset are inside an area."""

    column: str
    """The column of geometries that tells."""
    encoding: str
    """How it is encoded."""
    area: LocalArea
    """The area in its system."""
    here: bool = False
    """Whether rows that a partial clone left with its remote are outside."""

    @property
    def where(self) -> Predicate:
        """The predicate of a scan that gives all rows inside, and rather few outside."""
        box = self.area.bounds
        edges = (box.xmin, box.ymin, box.xmax, box.ymax)
        return Predicate(box=edges, nulls=True, here=self.here)

    def mask(self, rows: pa.RecordBatch | pa.StructArray) -> Bools:
        """Return which of some rows are inside."""
        if isinstance(rows, pa.StructArray):
            column = pc.struct_field(rows, self.column)
        else:
            column = rows.column(self.column)
        return self.area.matches(column, self.encoding)  # type: ignore[arg-type]

    def of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that are inside."""
        return pc.filter(rows, pa.array(self.mask(rows)))


def was_cloned(git: GitRepository, area: FilterArea | None) -> bool:
    """Whether Kart's own git cloned a part of a repository that holds all of an area."""
    for name, text in git.config.section("remote").items():
        kind, _, box = text.partition("=")
        if name.endswith(".partialclonefilter") and kind == "extension:spatial" and area:
            try:
                cloned, wanted = parse_box(box), area.degrees
            except (InvalidArgumentError, CrsError):
                continue
            pairs = zip((*cloned[:2], *wanted[2:]), (*wanted[:2], *cloned[2:]), strict=True)
            return all(least <= most for least, most in pairs)
    return False


def rows_inside(
    area: FilterArea | None, header: DatasetHeader, *, here: bool = False
) -> RowsInside | None:
    """Return which rows of a dataset are inside an area; None where all are.

    With `here`, rows that a partial clone does not have are outside.
    """
    geometries = header.schema.geometries
    if area is None or not geometries or geometries[0].geometry is None:
        return None
    field = geometries[0]
    crs = outgoing_geometry(field, header.crs, None, Notes()).source
    assert field.geometry is not None
    return RowsInside(field.name, field.geometry.encoding.value, area.local(crs), here)


def diffs_inside(
    repo: OpenRepo,
    diffs: Iterable[DatasetDiff],
    edited: Mapping[str, pa.RecordBatch] = MappingProxyType({}),
) -> Iterator[DatasetDiff]:
    """Yield diffs with the changes of rows that are inside, before or after, as Kart shows them.

    Rows of keys that were `edited` in a working copy are shown wherever they are, by dataset. Only
    in Kart's repositories: elsewhere a filter says what the working copy has, and nothing of
    what history shows.
    """
    area = read_spatial_filter(repo.git).area if repo.git.is_kart else None
    for diff in diffs:
        old, new = (rows_inside(area, each) if each else None for each in (diff.old, diff.new))
        if area is None or (old or new) is None:
            yield diff
            continue
        yield replace(diff, changes=_changes_inside(diff, old, new, edited.get(diff.path)))


def _changes_inside(
    diff: DatasetDiff,
    old: RowsInside | None,
    new: RowsInside | None,
    edited: pa.RecordBatch | None,
) -> Iterator[ChangeBatch]:
    for batch in diff.changes:
        found = np.zeros(len(batch), np.bool_)
        for side, inside in ((batch.old, old), (batch.new, new)):
            there = np.asarray(pc.is_valid(side))
            found |= there if inside is None else there & inside.mask(side)
            if edited is not None:
                columns = [pc.struct_field(side, name) for name in edited.schema.names]
                mine = pa.RecordBatch.from_arrays(columns, edited.schema.names)
                found |= there & np.asarray(pc.is_valid(partners(mine, edited)))
        diff.hidden.append(ChangeBatch(pc.filter(batch.data, pa.array(~found))).counts)
        if found.any():
            yield ChangeBatch(pc.filter(batch.data, pa.array(found)))
