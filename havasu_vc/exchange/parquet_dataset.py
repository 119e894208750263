"""A folder of GeoParquet files, each written by a task: threads here, or executors.

    .NAME.1f3a…/attempts    files that are being written, one for each attempt of a task
    .NAME.1f3a…/parts       files that are whole; at the end this is the folder NAME

An engine may run a task twice, and either attempt may outlive the export: none writes to a
file that another has, and none finds its way into the folder once that has its name.
"""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from havasu_vc.datasets.havasu.owners import report_batch
from havasu_vc.errors import InvalidArgumentError
from havasu_vc.exchange.export import Written, outgoing_geometries
from havasu_vc.exchange.export_columns import Notes
from havasu_vc.exchange.formats import ExportFormat
from havasu_vc.exchange.parquet_writer import ParquetForm, write_parquet
from havasu_vc.exchange.side_by_side import Parts, require_arrived, require_seen, rows_of
from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.model.task import Task, kernel, task_of
from havasu_vc.records import dataclass
from havasu_vc.store.disk import fsync_folder, reporting_storage_errors, swap_folders
from havasu_vc.store.system import sync_file

__all__ = ["write_parquet_dataset"]

_ATTEMPTS, _PARTS = "attempts", "parts"
_ELSEWHERE = "choose another folder"


def write_parquet_dataset(
    folder: Path,
    header: DatasetHeader,
    parts: Parts,
    *,
    overwrite: bool = False,
    crs: str | None = None,
    form: ParquetForm | None = None,
) -> Written:
    """Write the rows of each part to a file of a folder, and give the folder its name at the end.

    Names of files are in the order of rows.
    """
    form = form or ParquetForm()
    form.check()
    notes = Notes()
    outgoing_geometries(header, ExportFormat.GEOPARQUET, crs, notes)
    rows, empty = 0, None
    with _replacing(folder, overwrite=overwrite) as beside:

        def writing(tasks: tuple[Task, ...], number: int) -> Task:
            return task_of(write_part, tasks, number, header, crs, form, str(beside))

        for part in parts.written(writing, f"Writing {header.path}"):
            require_arrived(beside / _PARTS / part.name, part.size)
            if not part.rows:
                empty = beside / _PARTS / part.name
            rows += part.rows
            for line in part.notes:
                notes.say(line)
        if rows and empty is not None:
            empty.unlink()
    return Written(rows, tuple(notes.lines))


@dataclass(frozen=True, slots=True)
class _Part:
    """A file that was written."""

    name: str
    rows: int
    size: int
    notes: tuple[str, ...]


@kernel
def write_part(
    tasks: tuple[Task, ...],
    number: int,
    header: DatasetHeader,
    crs: str | None,
    form: ParquetForm,
    beside: str,
) -> Iterator[pa.RecordBatch]:
    """Write the rows of tasks to the file of a number, and report it.

    Without rows only the first is written: a folder without any file has no columns.
    """
    folder = Path(beside, _ATTEMPTS)
    require_seen(folder, Path(beside).parent)
    notes = Notes()
    geometries = outgoing_geometries(header, ExportFormat.GEOPARQUET, crs, notes)
    batches = rows_of(tasks, number)
    if batches is None:
        return
    name = f"part-{number:05}.parquet"
    attempt = folder / f"{uuid.uuid4().hex}.parquet"
    try:
        count = write_parquet(attempt, header.schema, geometries, batches, notes=notes, form=form)
        with reporting_storage_errors(attempt.with_name(name)):
            sync_file(attempt)
            size = attempt.stat().st_size
            os.replace(attempt, Path(beside, _PARTS, name))
    finally:
        with suppress(OSError):
            attempt.unlink(missing_ok=True)
    yield report_batch(_Part(name, count, size, tuple(notes.lines)))


@contextmanager
def _replacing(folder: Path, *, overwrite: bool) -> Iterator[Path]:
    """Give a folder beside another, whose `parts` take the place of that one at the end."""
    folder = Path(os.path.abspath(folder))
    _require_place(folder, overwrite=overwrite)
    beside = folder.parent / f".{folder.name}.{uuid.uuid4().hex[:12]}"
    with reporting_storage_errors(folder):
        beside.mkdir()
    try:
        with reporting_storage_errors(folder):
            (beside / _ATTEMPTS).mkdir()
            (beside / _PARTS).mkdir()
        yield beside
        with reporting_storage_errors(folder):
            fsync_folder(beside / _PARTS)
            _place(beside / _PARTS, folder, overwrite=overwrite)
            fsync_folder(folder.parent)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _place(parts: Path, folder: Path, *, overwrite: bool) -> None:
    _require_place(folder, overwrite=overwrite)
    try:
        os.rename(parts, folder)  # also over an empty folder
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST) or not overwrite:
            raise
        swap_folders(parts, folder)


def _require_place(folder: Path, *, overwrite: bool) -> None:
    """Refuse a folder that has files, unless these are Parquet files that may be replaced."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise InvalidArgumentError(f"{folder} is no folder", hints=(_ELSEWHERE,))
    if not folder.is_dir():
        return
    with os.scandir(folder) as entries:
        there = list(entries)
    if there and not overwrite:
        raise InvalidArgumentError(
            f"{folder} is there already", hints=("--overwrite replaces the files in it",)
        )
    others = [each.name for each in there if not _is_of_parquet(each)]
    if others:
        raise InvalidArgumentError(
            f"{folder} has something else in it, such as {min(others)}: it is not replaced",
            hints=(_ELSEWHERE,),
        )


def _is_of_parquet(entry: os.DirEntry[str]) -> bool:
    """Whether a file is one that a folder of Parquet files has, or of whoever wrote it."""
    return entry.is_file(follow_symlinks=False) and (
        entry.name.endswith(".parquet") or entry.name.startswith("_") or entry.name.endswith(".crc")
    )
