"""Rasters of a repository: tables of them as GeoTIFFs, and what they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from havasu_vc.datasets.havasu.far import where_it_is
from havasu_vc.datasets.protocol import DatasetInFiles
from havasu_vc.errors import InvalidArgumentError, RowNotFoundError
from havasu_vc.geo.raster_v1_outlines import Outline, RasterSummary, parse_outlines
from havasu_vc.geo.raster_v1_pixels import ALLOWED, OpenUrl, opener
from havasu_vc.looking import Table
from havasu_vc.repo.filters import parse_key
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.results import ExportResult

__all__ = ["Rasters", "raster_column"]


class Rasters:
    """The rasters of a repository."""

    def __init__(self, repo: OpenRepo) -> None:
        self._repo = repo

    @property
    def open_url(self) -> OpenUrl:
        """Opens the files of out-db rasters that the user's own settings allow."""
        return opener(self._repo.git.config.all(ALLOWED))

    def export(
        self,
        path: str,
        out: Path,
        revision: str = "HEAD",
        *,
        keys: Sequence[str] = (),
        column: str | None = None,
        apart: bool = False,
        overwrite: bool = False,
    ) -> ExportResult:
        """Write the rasters of a dataset as GeoTIFFs, into a folder or as one file."""
        from havasu_vc.exchange.geotiff_writer import GeoTiffExport, write_geotiffs

        view = self._view(path, revision)
        name = raster_column(view, column)
        export = GeoTiffExport(view.schema, name, apart, self.open_url)
        chosen = [parse_key(key, view.schema) for key in keys] if keys else None
        columns = list(dict.fromkeys((*export.naming, name)))
        table = Table(where_it_is(view, apart=False), self._repo.settings)

        def rows() -> Iterator[pa.RecordBatch]:
            return table.to_batches(columns, keys=chosen)

        def outlines() -> Iterator[pa.RecordBatch]:
            return self._outlines(view, name, export.naming)

        written = write_geotiffs(
            out, export, rows if chosen is not None else outlines, rows, overwrite=overwrite
        )
        if chosen is not None and written.rows < len(set(chosen)):
            raise InvalidArgumentError(f"{path} lacks a row of those that --key names")
        return ExportResult(str(out), written.rows, written.notes)

    def summary(
        self, path: str, revision: str = "HEAD", *, column: str | None = None
    ) -> tuple[str, RasterSummary]:
        """Return a dataset's raster column and what its rasters are; no pixel is read."""
        view = self._view(path, revision)
        name = raster_column(view, column)
        found = RasterSummary()
        for batch in self._outlines(view, name, ()):
            found.add(parse_outlines(batch.column(name)))
        return name, found

    def rows(
        self,
        path: str,
        keys: Sequence[str],
        revision: str = "HEAD",
        *,
        column: str | None = None,
    ) -> Iterator[tuple[str, Outline | None]]:
        """Yield the rasters of some rows, None where there is none, by their keys."""
        view = self._view(path, revision)
        name = raster_column(view, column)
        wanted = {parse_key(key, view.schema): key for key in keys}
        columns = [*view.schema.key.names, name]
        found: dict[str, Outline | None] = {}
        for batch in Table(view, self._repo.settings).to_batches(columns, keys=tuple(wanted)):
            values = (batch.column(key).to_pylist() for key in view.schema.key.names)
            rasters = parse_outlines(batch.column(name))
            for key, raster in zip(zip(*values, strict=True), rasters, strict=True):
                found[wanted[key]] = raster
        for named in wanted.values():
            if named not in found:
                raise RowNotFoundError(
                    f"{path} has no row {named!r}",
                    hints=(f"the key is {', '.join(view.schema.key.names)}",),
                )
            yield named, found[named]

    def _outlines(
        self, view: DatasetInFiles, name: str, others: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows without pixels."""
        from havasu_vc.datasets.havasu.outlines import plan_outlines

        with self._repo.settings.open_engine(0) as engine:
            there = where_it_is(view, apart=engine.apart)
            yield from engine.run(
                plan_outlines(there, name, others), description=f"Looking at {view.path}"
            )

    def _view(self, path: str, revision: str) -> DatasetInFiles:
        dataset = self._repo.dataset(path, revision)
        view = dataset.in_files
        if view is None:
            kind = dataset.kind.capitalize()
            raise InvalidArgumentError(f"{path} is a {kind} dataset, which holds no rasters")
        return view


def raster_column(view: DatasetInFiles, wanted: str | None = None) -> str:
    """Return the raster column that is meant."""
    names = [field.name for field in view.schema.fields if field.raster is not None]
    if not names:
        raise InvalidArgumentError(f"{view.path} has no raster column")
    if wanted is not None and wanted not in names:
        raise InvalidArgumentError(
            f"{view.path} has no raster column {wanted!r}", hints=(f"it has {', '.join(names)}",)
        )
    if wanted is None and len(names) > 1:
        raise InvalidArgumentError(
            f"{view.path} has several raster columns: {', '.join(names)}",
            hints=("name one with --columns",),
        )
    return wanted or names[0]
