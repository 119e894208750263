"""Files of an export that tasks write side by side: threads of this process, or executors.

An engine may run a task twice. Names of files begin with those of the run and of the part, and
end in what each attempt draws, so that none writes to a file of another; what nobody reported
is removed at the end.

In a bucket a mark stands beside the files until all of them are there. It says which export wrote
them, and who that is: so those of an export that was killed are known for nobody else's.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import posixpath
import re
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pyarrow as pa
from pyarrow import fs

from havasu_vc.datasets.havasu.owners import parse_value
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import HavasuError, InvalidArgumentError, LockedError, StorageError
from havasu_vc.model.task import Task, run_task
from havasu_vc.records import dataclass
from havasu_vc.store.disk import reporting_storage_errors
from havasu_vc.store.locks import has_ended, still_runs, this_process
from havasu_vc.store.object_systems import (
    object_size,
    object_system,
    put_object,
    remove_object,
    reporting_store_errors,
)
from havasu_vc.store.object_urls import in_bucket, shown_url

__all__ = [
    "MARK",
    "PART_BYTES",
    "Mark",
    "Parts",
    "keeping",
    "keeping_objects",
    "left_behind",
    "object_below",
    "objects_below",
    "parts_of",
    "put_written",
    "require_arrived",
    "require_marked",
    "require_seen",
    "require_written",
    "rows_of",
    "take_away",
    "writing_to",
]

PART_BYTES = 128 << 20
"""About how much of a dataset each part has, as the dataset stores it."""
_SHARED = ("export to a folder that all machines share, or with --engine local",)


@dataclass(frozen=True, slots=True)
class Parts:
    """The rows of a dataset, part by part, and where tasks run that write them."""

    tasks: Sequence[tuple[Task, ...]]
    """Of each part the tasks that yield its rows, in order."""
    engine: Engine
    """The engine that runs the tasks that write."""
    anywhere: bool = False
    """Whether they need no file of this machine, to read or to write."""

    def written(
        self, make: Callable[[tuple[Task, ...], int], Task], description: str
    ) -> Iterator[Any]:
        """Yield what tasks report, of which there is one for each part, in order."""
        tasks = [make(part, number) for number, part in enumerate(self.tasks or [()])]
        for batch in self.engine.run(tasks, description=description, anywhere=self.anywhere):
            yield parse_value(batch)


def parts_of(tasks: Sequence[tuple[Task, int]], part_bytes: int) -> list[tuple[Task, ...]]:
    """Return tasks, each with the bytes that it reads, as parts of about some size, in order.

    >>> read = Task("havasu_vc.engine.spill:read")
    >>> [len(part) for part in parts_of([(read, 3), (read, 3), (read, 3), (read, 9)], 6)]
    [2, 1, 1]
    """
    parts: list[list[Task]] = []
    held = 0
    for task, size in tasks:
        if not parts or held + size > part_bytes:
            parts.append([])
            held = 0
        parts[-1].append(task)
        held += size
    return [tuple(part) for part in parts]


def rows_of(tasks: Sequence[Task], number: int) -> Iterator[pa.RecordBatch] | None:
    """Return the rows of a part; None where it has none and is not the first.

    Of a dataset without rows one file may have to say which columns it has.
    """
    batches = (batch for task in tasks for batch in run_task(task) if batch.num_rows)
    first = next(batches, None)
    if first is None:
        return None if number else iter(())
    return chain([first], batches)


def require_seen(folder: Path, place: Path) -> None:
    """Refuse to write on a machine that does not see a folder, which is to be in some place."""
    if not folder.is_dir():
        raise StorageError(
            f"{platform.node()} does not see {place}, where the files are to be", hints=_SHARED
        )


def require_arrived(file: Path, size: int) -> None:
    """Refuse a file that its task has written, and that is not here."""
    if not file.is_file() or file.stat().st_size != size:
        raise StorageError(
            f"{file.name} was written on another machine and is not in {file.parent}",
            hints=_SHARED,
        )


@contextmanager
def keeping(folder: Path) -> Iterator[tuple[str, set[str]]]:
    """Make a folder, give a run a name, and take the names of its files that are to stay.

    Files whose names have the run's after a number, as in `part-00000-RUN-…`, go at the end, and
    so do folders that were made and hold nothing then.
    """
    run, kept = uuid.uuid4().hex[:12], set[str]()
    with reporting_storage_errors(folder):
        made = [each for each in (folder, *folder.parents) if not each.exists()]
        folder.mkdir(parents=True, exist_ok=True)
    try:
        yield run, kept
    finally:
        for path in folder.glob(f"*-{run}-*"):
            if path.name not in kept:
                with suppress(OSError):
                    path.unlink()
        for each in made:
            with suppress(OSError):
                each.rmdir()


# The same in a bucket, where a file is put when it is whole on the disk of whoever writes it.


@contextmanager
def writing_to(place: str) -> Iterator[Path]:
    """Give the folder to write to, which is that of a place or, for a bucket, one of its own."""
    if not in_bucket(place):
        folder = Path(place)
        require_seen(folder, folder)
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="havasu-vc-") as given:
        yield Path(given)


def put_written(folder: Path, place: str, run: str) -> None:
    """Put the files that a run wrote to a folder into a bucket, if that is where they go."""
    if in_bucket(place):
        require_marked(place, run)
        for file in sorted(folder.iterdir()):
            put_object(object_below(place, file.name), file)


def require_written(place: str, name: str, size: int) -> None:
    """Refuse a file that its task has written, and that is not in its place."""
    if not in_bucket(place):
        require_arrived(Path(place, name), size)
    elif object_size(object_below(place, name)) != size:
        raise StorageError(f"{name} is not in {shown_url(place)}, where its task has put it")


@contextmanager
def keeping_objects(
    url: str, run: str, *, before: int = -1, left: Mark | None = None
) -> Iterator[set[str]]:
    """Mark a URL as a run's, and take the names of its files that stay; the others go at the end.

    With them go files of a run that was killed, which its executors may have put a moment ago.
    `before` is the version of the table that is there.
    """
    mark = _mark_of(run, before)
    kept = set[str]()
    _AT_WORK.add(run)
    try:
        _put_mark(url, mark)
        yield kept
        # What cannot be swept keeps its mark, for the next export to know it by.
        _sweep(url, mark, kept, left)
    except BaseException:
        with suppress(HavasuError):
            _sweep(url, mark, kept, None)
        raise
    finally:
        _AT_WORK.discard(run)


def _sweep(url: str, mark: Mark, kept: set[str], left: Mark | None) -> None:
    for name in objects_below(url):
        if name not in kept and (mark.made(name) or (left is not None and left.made(name))):
            remove_object(object_below(url, name))
    _unmark(url, mark)


# The mark of an export that is going on. Readers pass over a name that begins so.

MARK = "_havasu_vc_export.json"
"""The name of the object that says whose files are beside it."""
_MARK_BYTES = 10_000
_RUN = re.compile("[0-9a-f]{12}")
_AT_WORK: set[str] = set()
"""Exports of this process that go on: one that failed may have left its mark, and lives."""


@dataclass(frozen=True, slots=True)
class Mark:
    """An export that writes below a URL, or was killed amid that."""

    run: str
    """The id that the names of its files hold."""
    owner: str
    """Its process, as locks name one."""
    said: str
    """The same for people."""
    before: int = -1
    """The version of the table that it found."""

    def made(self, name: str) -> bool:
        """Whether a file is one that the export wrote.

        >>> mark = Mark("0123456789ab", "", "")
        >>> mark.made("part-00000-0123456789ab.parquet"), mark.made("part-0123456789ab.parquet")
        (True, False)
        """
        return re.fullmatch(rf"part-\d{{5,}}-{self.run}[-.][^/]*parquet", name) is not None


def left_behind(url: str, names: Iterable[str], *, overwrite: bool) -> Mark | None:
    """Return the export whose mark is among the names below a URL, if that was killed.

    Raises `LockedError` while it runs. Where that cannot be told, as of another machine, only
    somebody who overwrites passes.
    """
    if MARK not in names:
        return None
    mark = _mark_at(url)
    if mark is None:
        return None
    failed = mark.owner == this_process() and mark.run not in _AT_WORK
    if not failed and still_runs(mark.owner):
        raise LockedError(
            f"{mark.said} exports to {shown_url(url)}",
            hints=("wait until it has ended, then try again",),
        )
    if not (failed or overwrite or has_ended(mark.owner)):
        raise InvalidArgumentError(
            f"{shown_url(url)} has files already, of an export by {mark.said} "
            "that did not end, and may go on",
            hints=("--overwrite replaces them",),
        )
    return mark


def take_away(url: str, mark: Mark, names: Iterable[str]) -> list[str]:
    """Remove an export's mark, and before it those of some files that it wrote; return the rest."""
    rest = []
    for name in names:
        if mark.made(name):
            remove_object(object_below(url, name))
        elif name != MARK:
            rest.append(name)
    _unmark(url, mark)
    return rest


def require_marked(url: str, run: str) -> None:
    """Refuse to go on where an export has ended, or another took its place."""
    mark = _mark_at(url)
    if mark is None or mark.run != run:
        whose = "the export has ended" if mark is None else f"{mark.said} exports there"
        raise LockedError(
            f"nothing more is written to {shown_url(url)}: {whose}",
            hints=("wait until others have ended, then export again",),
        )


def _mark_of(run: str, before: int) -> Mark:
    """Return the mark of an export by this process."""
    began = dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M")
    said = f"process {os.getpid()} on {platform.node()} (since {began} UTC)"
    return Mark(run, this_process(), said, before)


def _put_mark(url: str, mark: Mark) -> None:
    """Put a mark below a URL; raises `LockedError` where there is another's."""
    told = {"run": mark.run, "owner": mark.owner, "said": mark.said, "before": mark.before}
    put_object(object_below(url, MARK), json.dumps(told).encode())
    require_marked(url, mark.run)


def _unmark(url: str, mark: Mark) -> None:
    """Remove a mark, if it is still the one that is there."""
    found = _mark_at(url)
    if found is not None and found.run == mark.run:
        remove_object(object_below(url, MARK))


def _mark_at(url: str) -> Mark | None:
    """Return the mark below a URL; None where there is none.

    Raises `InvalidArgumentError` where something else has its name.
    """
    place = object_below(url, MARK)
    system, path = object_system(place)
    with reporting_store_errors(shown_url(place), "looked at"):
        if system.get_file_info(path).type is not fs.FileType.File:
            return None
        with system.open_input_stream(path) as file:
            text = file.read(_MARK_BYTES)
    try:
        told = json.loads(text)
        mark = Mark(told["run"], told["owner"], told["said"], told["before"])
        texts = (mark.run, mark.owner, mark.said)
        if all(isinstance(each, str) for each in texts) and isinstance(mark.before, int):
            if _RUN.fullmatch(mark.run) and mark.said.isprintable():
                return mark
    except (ValueError, LookupError, TypeError):
        pass
    raise InvalidArgumentError(
        f"{shown_url(place)} is no mark of an export",
        hints=("remove it, or choose another folder",),
    )


def object_below(url: str, name: str) -> str:
    """Return the URL of what is below another.

    >>> object_below("s3://bucket/maps/?region=x", "a.parquet")
    's3://bucket/maps/a.parquet?region=x'
    """
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=posixpath.join(parts.path or "/", name)))


def objects_below(url: str) -> list[str]:
    """Return the names of what is below a URL."""
    system, base = object_system(url)
    with reporting_store_errors(shown_url(url), "looked into"):
        if system.get_file_info(base).type is fs.FileType.File:
            raise InvalidArgumentError(
                f"{shown_url(url)} is no folder", hints=("choose another folder",)
            )
        found = system.get_file_info(fs.FileSelector(base, recursive=True, allow_not_found=True))
    files = (each.path for each in found if each.type is fs.FileType.File)
    return sorted(posixpath.relpath(path, base) for path in files)
