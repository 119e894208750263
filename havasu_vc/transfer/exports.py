"""Exporting: the rows of a dataset, or the rows that changed, as a file elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from havasu_vc.checkouts import require_other_file
from havasu_vc.datasets.havasu.far import as_read, as_seen, is_apart
from havasu_vc.datasets.protocol import Dataset
from havasu_vc.errors import InvalidArgumentError, UnsupportedTypeError
from havasu_vc.exchange.export import Written, write_file
from havasu_vc.exchange.formats import FOLDER_EXPORTS, ExportFormat
from havasu_vc.exchange.parquet_writer import ParquetForm
from havasu_vc.exchange.side_by_side import PART_BYTES, Parts, parts_of
from havasu_vc.looking import DiffRequest, Table, diff
from havasu_vc.model.arrow import source_type
from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.model.evolution import as_stored, has_source_type
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task
from havasu_vc.model.types import Field
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.results import ExportResult
from havasu_vc.repo.spatial_filters import (
    RowsInside,
    read_spatial_filter,
    rows_inside,
    was_cloned,
)
from havasu_vc.store.ending import last_step
from havasu_vc.store.object_urls import in_bucket, shown_url
from havasu_vc.tables.table import table_exists
from havasu_vc.transfer.requests import ExportRequest

__all__ = ["export", "export_changes"]


def _format(name: str | None) -> ExportFormat | None:
    if name is None:
        return None
    try:
        return ExportFormat(name.lower())
    except ValueError:
        raise InvalidArgumentError(
            f"there is no format {name!r}",
            hints=(f"formats are {', '.join((*ExportFormat, *FOLDER_EXPORTS))}",),
        ) from None


_PARQUET_DATASET = "parquet-dataset"
ELSEWHERE = "write to another file; `havasu-vc checkout` brings the working copy along"


def export(repo: OpenRepo, request: ExportRequest) -> ExportResult:
    """Write the rows of a dataset to a file, or to a folder as a table."""
    path, file, revision = request.dataset, Path(request.file), request.revision
    format, overwrite, columns = request.format, request.overwrite, request.columns
    crs, plain, parquet = request.crs, request.plain, request.parquet
    far = _goes_far(request)
    _check(format, crs=crs, plain=plain, parquet=parquet, part_bytes=request.part_bytes)
    _check_gdal(request)
    require_other_file(repo, file, ELSEWHERE)
    if format == "geotiff":
        return _export_images(repo, path, file, revision, columns, overwrite=overwrite)
    if format == "iceberg":
        if columns is not None:
            raise InvalidArgumentError("an Iceberg table has all columns of a dataset")
        folder = str(request.file) if far else file
        return _export_iceberg(repo, path, folder, revision, overwrite=overwrite)
    view = as_read(repo.dataset(path, revision))
    header = view.header
    if request.drop_geometry:
        plain_ones = [each.name for each in view.schema.fields if each.geometry is None]
        columns = [name for name in plain_ones if columns is None or name in columns]
    if columns is not None:
        unknown = [name for name in columns if name not in view.schema.by_name]
        if unknown:
            raise InvalidArgumentError(f"{path} has no column {unknown[0]!r}")
        twice = [name for place, name in enumerate(columns) if name in columns[:place]]
        if twice:
            raise InvalidArgumentError(f"column {twice[0]!r} is named twice")
        header = replace(header, schema=view.schema.select(tuple(columns)))
    inside = _inside(repo, view)
    if format in _IN_PARTS:
        written = _write_parts(repo, view, header, request)
    else:
        batches = partial(Table(view, repo.settings).to_batches, columns)
        if inside is not None:
            batches = partial(_batches, repo, view, columns, inside)

        def write(header: DatasetHeader) -> Written:
            return write_file(
                file,
                header,
                batches(),
                format=_format(format),
                overwrite=overwrite,
                crs=crs,
                parquet=parquet,
                gdal=request.gdal,
            )

        written = _write_outgrown(write, header)
    notes = written.notes
    if inside is not None and format in FOLDER_EXPORTS:
        notes = (*notes, "all rows are written: the spatial filter limits exports to files alone")
    elif inside is not None:
        notes = (*notes, "rows outside of the spatial filter are left out, as Kart does it")
    return ExportResult(str(request.file if far else file), written.rows, notes)


def _check_gdal(request: ExportRequest) -> None:
    gdal = request.gdal
    if gdal is None:
        return
    if request.format in FOLDER_EXPORTS:
        raise InvalidArgumentError("options for GDAL go with files that GDAL writes")
    if request.drop_geometry and (gdal.geometry_type or gdal.drop_null or gdal.drop_empty):
        raise InvalidArgumentError(
            "with --drop-geometry nothing can be asked of geometries",
            hints=("leave out --drop-geometry, or the other option for geometries",),
        )


_IN_BUCKETS = ("delta", "iceberg", "iceberg-v3", _PARQUET_DATASET)
"""Formats that are written to a bucket."""
_IN_PARTS = ("delta", "iceberg-v3", _PARQUET_DATASET)
"""Formats of several files, which are written side by side."""


def _write_parts(
    repo: OpenRepo, view: Dataset, header: DatasetHeader, request: ExportRequest
) -> Written:
    """Write the rows of a dataset as a folder of files."""
    file, overwrite = Path(request.file), request.overwrite
    place, far = str(request.file), in_bucket(str(request.file))
    if request.format == "delta":
        from havasu_vc.exchange.delta_writer import write_delta, write_delta_objects

        with _parts(repo, view, header, None, far=far) as parts:
            how: dict[str, Any] = {"plain": request.plain, "overwrite": overwrite}
            if far:
                return write_delta_objects(place, header, parts, **how)
            return write_delta(file, header, parts, **how)
    if request.format == "iceberg-v3":
        from havasu_vc.exchange.iceberg_writer import write_iceberg_3, write_iceberg_3_objects

        with _parts(repo, view, header, None, far=far) as parts:
            if far:
                return write_iceberg_3_objects(place, header, parts, overwrite=overwrite)
            return write_iceberg_3(file, header, parts, overwrite=overwrite)
    from havasu_vc.exchange.parquet_dataset import write_parquet_dataset, write_parquet_objects

    def write(header: DatasetHeader) -> Written:
        form: dict[str, Any] = {"crs": request.crs, "form": request.parquet}
        with _parts(repo, view, header, request.part_bytes, far=far) as parts:
            if far:
                return write_parquet_objects(place, header, parts, overwrite=overwrite, **form)
            return write_parquet_dataset(file, header, parts, overwrite=overwrite, **form)

    return _write_outgrown(write, header)


def _inside(repo: OpenRepo, view: Dataset) -> RowsInside | None:
    """Return which rows go out: in Kart's repositories those inside of the spatial filter."""
    git = repo.git
    if not (git.is_kart and git.config.section(git.spatial_filter_section)):
        return None
    area = read_spatial_filter(git).resolved(git).area
    return rows_inside(area, view.header, here=was_cloned(git, area))


def _batches(
    repo: OpenRepo, view: Dataset, columns: Sequence[str] | None, inside: RowsInside
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that are inside, with some columns."""
    read = None if columns is None else list(dict.fromkeys((*columns, inside.column)))
    with repo.settings.open_engine(view.size) as engine:
        for batch in engine.run(view.scan(read, inside.where), description=f"Reading {view.path}"):
            rows = inside.of(batch)
            yield rows if columns is None else rows.select(list(columns))


@contextmanager
def _parts(
    repo: OpenRepo, view: Dataset, header: DatasetHeader, size: int | None, *, far: bool = False
) -> Iterator[Parts]:
    """Give the rows of a dataset, in the columns of a header, part by part.

    Those that go `far` need no folder of this machine.
    """
    with ExitStack() as closing:
        engine = closing.enter_context(repo.settings.open_engine(view.size))
        if far and engine.apart:
            view = as_seen(view)
            far = is_apart(view)
        tasks = _sized_tasks(view, view.schema.select(header.schema.names))
        yield Parts(parts_of(tasks, size or PART_BYTES), engine, far)
        with last_step():  # a cluster takes a second to be left
            closing.close()


def _sized_tasks(view: Dataset, schema: Schema) -> list[tuple[Task, int]]:
    """Return the tasks that yield some columns of all rows, in order, and what each reads."""
    files = view.in_files
    if files is None:
        tasks = view.scan(schema.names)
        return [(task, view.size // len(tasks)) for task in tasks]
    entries = list(files.data_entries)
    files.bring(entries)
    found = ((entry, list(files.scan_file(entry, schema))) for entry in entries)
    return [(task, entry.size // len(tasks)) for entry, tasks in found for task in tasks]


def _goes_far(request: ExportRequest) -> bool:
    """Whether a bucket is written to; raises where that cannot be."""
    if not in_bucket(str(request.file)):
        return False
    if request.format not in _IN_BUCKETS:
        raise InvalidArgumentError(
            f"a bucket, as in {shown_url(str(request.file))}, takes folders of files alone",
            hints=(
                "--to parquet-dataset, delta, iceberg or iceberg-v3 writes one",
                "or write to a file here, and put that there",
            ),
        )
    return True


def _check(
    format: str | None,
    *,
    crs: str | None,
    plain: bool,
    parquet: ParquetForm | None,
    part_bytes: int | None,
) -> None:
    """Refuse what a format has no place for."""
    is_table = format in FOLDER_EXPORTS and format != _PARQUET_DATASET
    if parquet is not None and is_table:
        raise InvalidArgumentError("only GeoParquet has a version and columns of bounding boxes")
    if part_bytes is not None and format != _PARQUET_DATASET:
        raise InvalidArgumentError(
            "only a folder of Parquet files has parts of a size", hints=("--to parquet-dataset",)
        )
    if part_bytes is not None and part_bytes < 1:
        raise InvalidArgumentError(f"a part cannot have {part_bytes} bytes")
    if is_table and crs is not None:
        raise InvalidArgumentError("tables are written in the system that a dataset has")
    if plain and format != "delta":
        raise InvalidArgumentError("only Delta tables can be plain", hints=("--to delta",))


def _export_images(
    repo: OpenRepo,
    path: str,
    file: Path,
    revision: str,
    columns: Sequence[str] | None,
    *,
    overwrite: bool,
) -> ExportResult:
    from havasu_vc.transfer.rasters import Rasters

    if columns is not None and len(columns) != 1:
        raise InvalidArgumentError("a raster column is written as it is, one at a time")
    column = None if columns is None else columns[0]
    return Rasters(repo).export(path, file, revision, column=column, overwrite=overwrite)


def _write_outgrown(write: Callable[[DatasetHeader], Written], header: DatasetHeader) -> Written:
    """Write rows, some columns as they are stored: those that hold more than they came as."""
    said: list[str] = []
    while True:
        try:
            written = write(header)
        except UnsupportedTypeError as error:
            # Later rows may be none of the type that a column first came as.
            field = header.schema.by_name.get(error.column)
            if field is not None and field.geometry and not field.geometry.announces_any:
                # Nor of the one geometry type that it announces, or that its first rows have.
                header = replace(header, schema=_of_any_shape(header.schema, field))
                continue
            if field is None or not has_source_type(field):
                raise
            said.append(f"column {field.name!r} came as {source_type(field)} and has outgrown it")
            header = replace(header, schema=_outgrown(header.schema, field))
        else:
            return Written(written.rows, (*written.notes, *said))


def _outgrown(schema: Schema, column: Field) -> Schema:
    """Return a schema of which one column is given out as it is stored."""
    fields = (as_stored(each) if each == column else each for each in schema.fields)
    return replace(schema, fields=tuple(fields))


def _of_any_shape(schema: Schema, column: Field) -> Schema:
    """Return a schema of which one column announces that it holds geometries of any type."""
    assert column.geometry is not None
    given = replace(column, geometry=replace(column.geometry, shape="GEOMETRY"))
    return replace(schema, fields=tuple(given if f == column else f for f in schema.fields))


def _export_iceberg(
    repo: OpenRepo, path: str, folder: str | Path, revision: str, *, overwrite: bool
) -> ExportResult:
    """Make a table of its own of a dataset, which any reader of Iceberg opens."""
    from havasu_vc.checkouts import CheckoutToRequest, check_out_to
    from havasu_vc.formats.iceberg.values import Flavour

    dataset = repo.dataset(path, revision)
    if dataset.in_files is None:
        raise InvalidArgumentError(
            f"{path} is a {dataset.kind.capitalize()} dataset, "
            "which is no set of files that a table could have",
            hints=("export it to Parquet, or `havasu-vc convert` it first",),
        )
    request = CheckoutToRequest(
        folder, revision, dataset=path, flavour=Flavour.ICEBERG, copy=True, discard=overwrite
    )
    with _none_left(folder) if isinstance(folder, Path) else nullcontext():
        check_out_to(repo, request)
    return ExportResult(str(folder), dataset.rows)


@contextmanager
def _none_left(folder: Path) -> Iterator[None]:
    """Leave no part of a table in a folder that is new, where what is done within fails."""
    if folder.exists():
        yield
        return
    try:
        yield
    except BaseException:
        if not table_exists(folder):
            shutil.rmtree(folder, ignore_errors=True)
        raise


def export_changes(
    repo: OpenRepo,
    dataset: str,
    file: str | Path,
    revisions: str,
    *,
    format: str | None = None,
    overwrite: bool = False,
) -> ExportResult:
    """Write the rows that changed between two revisions, with a column that says how."""
    if in_bucket(str(file)):
        raise InvalidArgumentError(
            f"changes are not written to a bucket, as {shown_url(str(file))}",
            hints=("write them to a file here, and put that there",),
        )
    path, file = dataset, Path(file)
    from havasu_vc.exchange.export_changes import write_changes

    require_other_file(repo, file, ELSEWHERE)

    found = [each for each in diff(repo, DiffRequest(revisions, [path])) if each.path == path]
    if not found:
        repo.dataset(path)
        raise InvalidArgumentError(f"{path} does not differ between {revisions}")
    written = write_changes(file, found[0], format=_format(format), overwrite=overwrite)
    return ExportResult(str(file), written.rows, written.notes, written.changes)
