"""A folder of GeoParquet files, here or in a bucket, each written by a task: threads, or executors.

    .NAME.1f3a…/attempts    files that are being written, one for each attempt of a task
    .NAME.1f3a…/parts       files that are whole; at the end this is the folder NAME

An engine may run a task twice, and either attempt may outlive the export: none writes to a
file that another has, and none finds its way into the folder once that has its name.

In a bucket nothing can be renamed: a file is whole on the disk of whoever writes it, and is then
put under a name that no other export has.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from havasu_vc.datasets.havasu.owners import report_batch
from havasu_vc.errors import InvalidArgumentError
from havasu_vc.exchange.export import Written, outgoing_geometries
from havasu_vc.exchange.export_columns import Notes
from havasu_vc.exchange.export_marks import MARK, TAKEN
from havasu_vc.exchange.formats import ExportFormat
from havasu_vc.exchange.parquet_writer import ParquetForm, write_parquet
from havasu_vc.exchange.side_by_side import (
    Parts,
    keeping_objects,
    left_behind,
    object_below,
    objects_below,
    require_arrived,
    require_marked,
    require_seen,
    require_written,
    rows_of,
    take_away,
)
from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.model.task import Task, kernel, task_of
from havasu_vc.records import dataclass
from havasu_vc.store.disk import fsync_folder, reporting_storage_errors, swap_folders
from havasu_vc.store.ending import last_step
from havasu_vc.store.object_systems import (
    object_size,
    put_object,
    remove_object,
)
from havasu_vc.store.object_urls import shown_url, with_endpoint
from havasu_vc.store.system import sync_file

__all__ = ["write_parquet_dataset", "write_parquet_objects"]

_ATTEMPTS, _PARTS = "attempts", "parts"
_ELSEWHERE = "choose another folder"
_REPLACES = "--overwrite replaces them"


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
    form, notes = _begun(header, crs, form)
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


def _begun(
    header: DatasetHeader, crs: str | None, form: ParquetForm | None
) -> tuple[ParquetForm, Notes]:
    """Return the form of files and where notes go, of which each may be written so."""
    form = form or ParquetForm()
    form.check()
    notes = Notes()
    outgoing_geometries(header, ExportFormat.GEOPARQUET, crs, notes)
    return form, notes


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
        with reporting_storage_errors(folder), last_step():
            fsync_folder(beside / _PARTS)
            _place(beside / _PARTS, folder, overwrite=overwrite)
            fsync_folder(folder.parent)
    finally:
        with last_step():
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


# The same in a bucket, where readers see each file as soon as it is there.


def write_parquet_objects(
    url: str,
    header: DatasetHeader,
    parts: Parts,
    *,
    overwrite: bool = False,
    crs: str | None = None,
    form: ParquetForm | None = None,
) -> Written:
    """Write the rows of each part to a file below a URL; what was there goes at the end."""
    form, notes = _begun(header, crs, form)
    url = with_endpoint(url, os.environ)
    before = objects_below(url)
    left = left_behind(url, before, overwrite=overwrite)
    if left is not None and not overwrite and all(map(left.made, {*before} - {MARK})):
        before = take_away(url, left, before)
        notes.say(TAKEN)
    if before and not overwrite:
        raise InvalidArgumentError(f"{shown_url(url)} has files already", hints=(_REPLACES,))
    others = [name for name in before if not name.endswith(".parquet") and name[0] != "_"]
    if others:
        raise InvalidArgumentError(
            f"{shown_url(url)} has something else in it, such as {min(others)}: it is not replaced",
            hints=(_ELSEWHERE,),
        )
    if left is not None and before:
        take_away(url, left, ())  # its files go at the end, with all that are there
        before.remove(MARK)
    run = uuid.uuid4().hex[:12]

    def writing(tasks: tuple[Task, ...], number: int) -> Task:
        return task_of(put_part, tasks, number, header, crs, form, url, run)

    with keeping_objects(url, run, left=left) as kept:
        written: dict[str, int] = {}
        for part in parts.written(writing, f"Writing {header.path}"):
            require_written(url, part.name, part.size)
            written[part.name] = part.rows
            for line in part.notes:
                notes.say(line)
        rows = sum(written.values())
        require_marked(url, run)
        # Of a part without rows the file only says which columns there are.
        kept |= {name for name, count in written.items() if count or not rows}
        for name in before:
            remove_object(object_below(url, name))
    return Written(rows, tuple(notes.lines))


@kernel
def put_part(
    tasks: tuple[Task, ...],
    number: int,
    header: DatasetHeader,
    crs: str | None,
    form: ParquetForm,
    url: str,
    run: str,
) -> Iterator[pa.RecordBatch]:
    """Put the rows of tasks into the file of a number below a URL, and report it.

    Of attempts that write it, one puts it there. Without rows only the first is written.
    """
    notes = Notes()
    geometries = outgoing_geometries(header, ExportFormat.GEOPARQUET, crs, notes)
    batches = rows_of(tasks, number)
    if batches is None:
        return
    name = f"part-{number:05}-{run}.parquet"
    with tempfile.TemporaryDirectory(prefix="havasu-vc-") as folder:
        file = Path(folder, name)
        count = write_parquet(file, header.schema, geometries, batches, notes=notes, form=form)
        place = object_below(url, name)
        require_marked(url, run)
        put_object(place, file)
    yield report_batch(_Part(name, count, object_size(place) or 0, tuple(notes.lines)))
