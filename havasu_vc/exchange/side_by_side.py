"""Files of an export that tasks write side by side: threads of this process, or executors.

An engine may run a task twice. Names of files begin with those of the run and of the part, and
end in what each attempt draws, so that none writes to a file of another; what nobody reported
is removed at the end.

In a bucket a mark stands beside the files until all of them are there. It says which export wrote
them, and who that is: so those of an export that was killed are known for nobody else's.
"""

from __future__ import annotations

import platform
import posixpath
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
from havasu_vc.exchange.export_marks import (
    MARK,
    MOST_BYTES,
    Mark,
    Version,
    mark_folder,
    mark_of,
    parse_mark,
    require_ended,
    take_away_of,
)
from havasu_vc.model.task import Task, run_task
from havasu_vc.records import dataclass
from havasu_vc.store.disk import reporting_storage_errors
from havasu_vc.store.ending import last_step
from havasu_vc.store.object_systems import (
    object_size,
    object_system,
    put_object,
    remove_object,
    reporting_store_errors,
)
from havasu_vc.store.object_urls import in_bucket, shown_url

__all__ = [
    "PART_BYTES",
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
    "take_over",
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
        for batch in self.engine.run(
            tasks, description=description, anywhere=self.anywhere, brief=True
        ):
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
def keeping(folder: Path, version: Version, inside: str = "") -> Iterator[tuple[str, set[str]]]:
    """Make a folder, give a run a name, and take the names of its files that are to stay.

    They are `inside` of it, and those of no other name go at the end. Where the work fails all
    goes that was made, unless the table got a new `version` nevertheless. Where there is no table
    yet the folder is marked until there is.
    """
    run, kept = uuid.uuid4().hex[:12], set[str]()
    files = folder / inside
    with reporting_storage_errors(folder):
        made = [each for each in (files, *files.parents) if not each.exists()]
        folder.mkdir(parents=True, exist_ok=True)
    before = version(folder)
    mark = mark_of(run)
    try:
        if before < 0:
            mark_folder(folder, mark)
        files.mkdir(exist_ok=True)
        yield run, kept
        with last_step():
            _sweep_folder(files, run, kept)
            (folder / MARK).unlink(missing_ok=True)
    except BaseException:
        with suppress(OSError, HavasuError):
            if before < 0:
                take_away_of(folder, mark, version)
            elif version(folder) == before:
                _sweep_folder(files, run, set())
        raise
    finally:
        mark.end()
        for each in made:
            with suppress(OSError):
                each.rmdir()


def _sweep_folder(files: Path, run: str, kept: set[str]) -> None:
    for path in files.glob(f"*-{run}-*"):
        if path.name not in kept:
            with suppress(OSError):
                path.unlink()


# The same in a bucket, where a file is put when it is whole on the disk of whoever writes it.


@contextmanager
def writing_to(place: str, inside: str = "") -> Iterator[Path]:
    """Give the folder to write to: one `inside` of a place or, for a bucket, one of its own."""
    if not in_bucket(place):
        folder = Path(place, inside)
        require_seen(folder, Path(place))
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="havasu-vc-") as given:
        yield Path(given)


def put_written(folder: Path, place: str, run: str, inside: str = "") -> None:
    """Put the files that a run wrote to a folder inside of a bucket's, if that is where they go."""
    if in_bucket(place):
        require_marked(place, run)
        for file in sorted(folder.iterdir()):
            put_object(object_below(place, posixpath.join(inside, file.name)), file)


def require_written(place: str, name: str, size: int) -> None:
    """Refuse a file that its task has written, and that is not in its place."""
    if not in_bucket(place):
        require_arrived(Path(place, name), size)
    elif object_size(object_below(place, name)) != size:
        raise StorageError(f"{name} is not in {shown_url(place)}, where its task has put it")


@contextmanager
def keeping_objects(
    url: str, run: str, *, before: int = -1, left: Mark | None = None, as_table: bool = False
) -> Iterator[set[str]]:
    """Mark a URL as a run's, and take the names of its files that stay; the others go at the end.

    With them go files of a run that was killed, which its executors may have put a moment ago.
    `before` is the version of the table that is there. Where work on a table fails once files are
    to stay, a version may name them: nothing goes then, and the mark tells the next export.
    """
    mark = mark_of(run, before)
    kept = set[str]()
    try:
        _put_mark(url, mark)
        yield kept
        with last_step():
            # What cannot be swept keeps its mark, for the next export to know it by.
            _sweep(url, mark, kept, left)
    except BaseException:
        if not (as_table and kept):
            with suppress(HavasuError):
                _sweep(url, mark, kept, None)
        raise
    finally:
        mark.end()


def _sweep(url: str, mark: Mark, kept: set[str], left: Mark | None) -> None:
    for name in objects_below(url):
        if name not in kept and (mark.made(name) or (left is not None and left.made(name))):
            remove_object(object_below(url, name))
    _unmark(url, mark)


# The mark of an export to a bucket.


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
    require_ended(mark, shown_url(url), overwrite=overwrite)
    return mark


def take_away(
    url: str, mark: Mark, names: Iterable[str], *, with_documents: bool = False
) -> list[str]:
    """Remove an export's mark, and before it those of some files that it wrote; return the rest.

    `with_documents` where no table stood before, and those that are there are its own.
    """
    is_its_own = mark.began if with_documents else mark.made
    rest = []
    for name in names:
        if is_its_own(name):
            remove_object(object_below(url, name))
        elif name != MARK:
            rest.append(name)
    _unmark(url, mark)
    return rest


def take_over(
    url: str,
    names: Sequence[str],
    left: Mark | None,
    version: int,
    *,
    by_left: bool,
    overwrite: bool,
) -> Mark | None:
    """Have a place for the version of a table after one, -1 for none; files there have names.

    What an export `left` that was killed goes, unless that came to its version; it is returned
    then, as its executors may still write. Its first version, `by_left`, needs no overwriting.
    """
    if version >= 0 and not (overwrite or by_left):
        raise InvalidArgumentError(
            f"there is a table at {shown_url(url)} already",
            hints=("--overwrite makes another version of it",),
        )
    if version < 0 and names:
        if left is None or not all(name == MARK or left.began(name) for name in names):
            raise InvalidArgumentError(
                f"something else is at {shown_url(url)}", hints=("choose another folder",)
            )
    if left is None:
        return None
    if version >= 0 and version != left.before:
        take_away(url, left, ())  # it may have made a version, to which its files belong
        return None
    take_away(url, left, names, with_documents=version < 0)
    return left


def require_marked(url: str, run: str) -> None:
    """Refuse to go on where an export has ended, or another took its place."""
    mark = _mark_at(url)
    if mark is None or mark.run != run:
        whose = "the export has ended" if mark is None else f"{mark.said} exports there"
        raise LockedError(
            f"nothing more is written to {shown_url(url)}: {whose}",
            hints=("wait until others have ended, then export again",),
        )


def _put_mark(url: str, mark: Mark) -> None:
    """Put a mark below a URL; raises `LockedError` where there is another's."""
    put_object(object_below(url, MARK), mark.text())
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
            text = file.read(MOST_BYTES)
    return parse_mark(text, shown_url(place))


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
