"""A table from elsewhere as an import sees it: one layer of one file.

A source has looked at its file's header before it exists, so whatever is wrong with
the file as a whole (missing, damaged, of a type that cannot be kept) was raised when
it was opened, before anything is written. Rows come from tasks: plain values that
any engine can run, each yielding bounded batches in the stored types of `schema`,
in the order of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import field
from typing import Protocol

import pyarrow as pa

from havasu_vc.exchange.boxes import Box
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, run_task
from havasu_vc.model.types import Encoding
from havasu_vc.records import dataclass

__all__ = [
    "MOST_BATCH_BYTES",
    "MOST_BATCH_ROWS",
    "ONE_BY_ONE",
    "TASK_BYTES",
    "Box",
    "EngineOf",
    "RasterReading",
    "Running",
    "Source",
    "SourceOptions",
]

MOST_BATCH_ROWS = 65_536
"""No batch of a source has more rows."""
MOST_BATCH_BYTES = 32 * 1024 * 1024
"""Batches of a source are cut at about this size."""
TASK_BYTES = 64 * 1024 * 1024
"""A task reads about this much, uncompressed, where the format lets a file be cut."""


class Running(Protocol):
    """Runs tasks, such as an engine."""

    def run(
        self, tasks: Sequence[Task], *, description: str = "", anywhere: bool = False
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yield the batches of all tasks, in task order."""


class _OneByOne:
    """Runs tasks one after another, here."""

    def run(
        self, tasks: Sequence[Task], *, description: str = "", anywhere: bool = False
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yield the batches of all tasks, in task order."""
        for task in tasks:
            yield from run_task(task)


ONE_BY_ONE: Running = _OneByOne()
"""For whoever has no engine."""
EngineOf = Callable[[int], Running]
"""Returns the engine for so many bytes of input; what it gave is open until its owner closes it."""


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
    """Cut images into tiles of this many columns and rows, a row of the table each; by default as
    an earlier release was cut, or not."""
    out_db: bool = False
    """Leave the pixels of images where they are; rasters name the file."""
    url_base: str | None = None
    """The same, with files named by their path below this URL."""
    mixed_crs: bool = False
    """Let images of one table be in different systems."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """How a source is to be read."""

    primary_key: tuple[str, ...] | None = None
    """Key columns; None for what the format says, `()` for no key."""
    crs: str | None = None
    """Use this CRS instead of the file's; such as EPSG:2193."""
    geometry_encoding: Encoding = Encoding.EWKB
    """How geometries are stored."""
    keep_encoding: bool = False
    """Whether geometries of a table stay as its files have them instead."""
    allowed: tuple[str, ...] = ()
    """Folders outside of a table that files of it may be in."""
    columns: tuple[str, ...] | None = None
    """Take only these columns."""
    leave_out: tuple[str, ...] = ()
    """Leave these columns out."""
    snapshot: int | None = None
    """Take this snapshot of an Iceberg table, or version of a Delta table."""
    columns_of_now: bool = False
    """Whether a snapshot that is named is read in the columns that its table has now."""
    bbox: Box | None = None
    """Take only the rows whose geometry's box meets this one, in the source's coordinates."""
    csv_wkt: str | None = None
    """The CSV column with geometries as WKT; by default found by its name."""
    csv_lon: str | None = None
    """The CSV column with longitudes or eastings; by default found by its name."""
    csv_lat: str | None = None
    """The CSV column with latitudes or northings; by default found by its name."""
    csv_drop_coordinates: bool = False
    """Leave the two coordinate columns out once they are a geometry."""
    csv_text: tuple[str, ...] = ()
    """CSV columns that are text, such as codes, whatever their values look like."""
    csv_delimiter: str | None = None
    """The text between CSV values; by default a tab in .tsv and .tab, else found out."""
    csv_encoding: str = "utf-8"
    """How a CSV is encoded."""
    for_kart: bool = False
    """Whether a file of shapes comes as Kart takes it: the key first, one part as several."""
    raster: RasterReading = field(default_factory=RasterReading)
    """How images become rasters."""
