"""A table from elsewhere as an import sees it: one layer of one file.

A source has looked at its file's header before it exists, so whatever is wrong with
the file as a whole (missing, damaged, of a type that cannot be kept) was raised when
it was opened, before anything is written. Rows come from tasks: plain values that
any engine can run, each yielding bounded batches in the stored types of `schema`,
in the order of the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Protocol

from havasu_vc.exchange.boxes import Box
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task
from havasu_vc.model.types import Encoding
from havasu_vc.records import dataclass

__all__ = [
    "MOST_BATCH_BYTES",
    "MOST_BATCH_ROWS",
    "TASK_BYTES",
    "Box",
    "RasterReading",
    "Source",
    "SourceOptions",
]

MOST_BATCH_ROWS = 65_536
"""No batch of a source has more rows."""
MOST_BATCH_BYTES = 32 * 1024 * 1024
"""Batches of a source are cut at about this size."""
TASK_BYTES = 64 * 1024 * 1024
"""A task reads about this much, uncompressed, where the format lets a file be cut."""


class Source(Protocol):
    """One layer of one file, ready to be read."""

    @property
    def name(self) -> str:
        """Layer or file stem: the dataset path unless one is given."""

    @property
    def schema(self) -> Schema:
        """Its columns in stored types, with ids from 1."""

    @property
    def crs(self) -> Mapping[str, str]:
        """Coordinate reference systems of its geometry columns as WKT, by identifier."""

    @property
    def title(self) -> str | None:
        """Its title in the file."""

    @property
    def description(self) -> str | None:
        """Its description in the file."""

    @property
    def rows(self) -> int | None:
        """How many rows, where that is known without reading them."""

    @property
    def input_bytes(self) -> int:
        """Size on disk, by which an engine is chosen."""

    @property
    def key_hint(self) -> tuple[str, ...]:
        """The columns that the format itself tells rows apart by; empty when there are none."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for a person on how the file was taken, one line each."""

    def tasks(self, columns: Sequence[str] | None = None) -> list[Task]:
        """Return tasks that yield all rows in file order; with `columns`, those columns."""


@dataclass(frozen=True, slots=True)
class RasterReading:
    """How images become rasters."""

    tile: tuple[int, int] | None = None
    """Columns and rows of the tiles that an image is cut into; None for those that an earlier
    release was cut into, or for one raster."""
    out_db: bool = False
    """Whether rasters name their file instead of holding its pixels."""
    url_base: str | None = None
    """The URL below which such files are found; None for where they are now."""
    mixed_crs: bool = False
    """Whether images may be in different coordinate reference systems."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """How a source is to be read."""

    primary_key: tuple[str, ...] | None = None
    """Key columns; None for what the format says, `()` for no key."""
    crs: str | None = None
    """The coordinate reference system to use instead of the file's."""
    geometry_encoding: Encoding = Encoding.EWKB
    """How geometries are to be stored."""
    keep_encoding: bool = False
    """Whether geometries of a table stay as its files have them instead."""
    allowed: tuple[str, ...] = ()
    """Folders outside of a table that files of it may be in."""
    columns: tuple[str, ...] | None = None
    """The columns to keep, in the file's order; None for all."""
    leave_out: tuple[str, ...] = ()
    """Columns to leave out."""
    snapshot: int | None = None
    """The snapshot of an Iceberg table, or version of a Delta table; None for the newest."""
    columns_of_now: bool = False
    """Whether a snapshot that is named is read in the columns that its table has now."""
    bbox: Box | None = None
    """Where rows are taken, in the coordinates of the source; None for everywhere."""
    csv_wkt: str | None = None
    """The CSV column that holds geometries as WKT; None to find it by name."""
    csv_lon: str | None = None
    """The CSV column that holds longitudes or eastings; None to find it by name."""
    csv_lat: str | None = None
    """The CSV column that holds latitudes or northings; None to find it by name."""
    csv_drop_coordinates: bool = False
    """Whether the two coordinate columns of a CSV leave once they are a geometry."""
    csv_text: tuple[str, ...] = ()
    """The CSV columns that are text, whatever their values look like."""
    csv_delimiter: str | None = None
    """The text between CSV values; None for a tab in `.tsv` and `.tab`, else found out."""
    csv_encoding: str = "utf-8"
    """The character encoding of a CSV."""
    raster: RasterReading = field(default_factory=RasterReading)
    """How images become rasters."""
