"""Marks of exports that go on: whose files stand in a folder, here or in a bucket.

A mark stands beside the files until all of them are there. It says which export wrote them, and
who that is: so those of an export that was killed are known for nobody else's, and the same
command takes them away and does the work.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from havasu_vc.errors import InvalidArgumentError, LockedError
from havasu_vc.records import dataclass
from havasu_vc.store.disk import replace_file, reporting_storage_errors
from havasu_vc.store.locks import has_ended, still_runs, this_process

__all__ = [
    "MARK",
    "MOST_BYTES",
    "TAKEN",
    "Mark",
    "Version",
    "mark_folder",
    "mark_of",
    "parse_mark",
    "require_ended",
    "take_away_of",
    "take_left",
]

MARK = "_havasu_vc_export.json"
"""The name of the mark. Readers of Parquet pass over a name that begins so."""
MOST_BYTES = 10_000
"""A mark is shorter."""
TAKEN = "files of an export that was cut off were there: they are removed"
"""Said of them."""
_RUN = re.compile("[0-9a-f]{12}")
_AT_WORK: set[str] = set()
"""Exports of this process that go on: one that failed may have left its mark, and lives."""


@dataclass(frozen=True, slots=True)
class Mark:
    """An export that writes to a folder, or was killed amid that."""

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
        own = rf"(data/)?(part-)?\d{{5,}}-{self.run}[-.][^/]*parquet"
        return re.fullmatch(own, name) is not None

    def began(self, name: str) -> bool:
        """Whether a file is one that the export wrote where no table stood before."""
        return self.made(name) or _OF_THE_TABLE.fullmatch(name) is not None

    def text(self) -> bytes:
        """Return what stands in the mark."""
        told = {"run": self.run, "owner": self.owner, "said": self.said, "before": self.before}
        return json.dumps(told).encode()

    def end(self) -> None:
        """Take note that the export goes on no more."""
        _AT_WORK.discard(self.run)


def mark_of(run: str, before: int = -1) -> Mark:
    """Return the mark of an export that this process begins."""
    began = dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M")
    said = f"process {os.getpid()} on {platform.node()} (since {began} UTC)"
    _AT_WORK.add(run)
    return Mark(run, this_process(), said, before)


def parse_mark(text: bytes, place: str) -> Mark:
    """Return the mark that is at a place; raises where something else has its name."""
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
        f"{place} is no mark of an export", hints=("remove it, or choose another folder",)
    )


def require_ended(mark: Mark, folder: str, *, overwrite: bool) -> None:
    """Raise while the export of a mark goes on, or may, unless somebody overwrites then."""
    failed = mark.owner == this_process() and mark.run not in _AT_WORK
    if not failed and still_runs(mark.owner):
        raise LockedError(
            f"{mark.said} exports to {folder}",
            hints=("wait until it has ended, then try again",),
        )
    if not (failed or overwrite or has_ended(mark.owner)):
        raise InvalidArgumentError(
            f"{folder} has files already, of an export by {mark.said} "
            "that did not end, and may go on",
            hints=("--overwrite replaces them",),
        )


# A folder where a table begins. One that stands needs no mark: others may write versions of it at
# the same time, and files of none are passed over, until somebody vacuums.

_OF_THE_TABLE = re.compile(
    r"metadata/(\.[^/]+|[^/]+\.avro|v\d+\.metadata\.json|version-hint\.text)"
    r"|_delta_log/(\.[^/]+|\d{20}\.json)"
)
"""Documents that make a table of files; where there is no table, an export began them."""


def mark_folder(folder: Path, mark: Mark) -> None:
    """Put a mark into a folder."""
    replace_file(folder / MARK, mark.text())


Version = Callable[[Path], int]
"""Tells the version of the table in a folder; -1 where there is none."""


def take_left(folder: Path, version: Version, *, overwrite: bool) -> bool:
    """Take away what an export left in a folder that was killed; return whether that was done.

    Where it came to its version its files are of the table; and where anything else is in the
    folder beside what began, nothing goes.
    """
    place = folder / MARK
    if place.is_symlink() or not place.is_file():
        _take_begun(folder)
        return False
    with reporting_storage_errors(folder):
        mark = parse_mark(place.read_bytes(), str(place))
        require_ended(mark, str(folder), overwrite=overwrite)
        return take_away_of(folder, mark, version)


def take_away_of(folder: Path, mark: Mark, version: Version) -> bool:
    """Take away the mark of an export that has ended, and what it left; return whether it did."""
    place = folder / MARK
    if version(folder) >= 0:
        place.unlink(missing_ok=True)
        return False
    found = [path for path in sorted(folder.rglob("*"), reverse=True) if path != place]
    files = [path for path in found if path.is_symlink() or not path.is_dir()]
    if not all(_is_of(mark, path.relative_to(folder)) for path in files):
        return False
    for path in files:
        path.unlink(missing_ok=True)
    for path in found:
        with suppress(OSError):
            path.rmdir()
    place.unlink(missing_ok=True)
    return True


def _take_begun(folder: Path) -> None:
    """Take marks away that were begun and got no name, where nothing else is in a folder."""
    with reporting_storage_errors(folder):
        found = list(folder.iterdir()) if folder.is_dir() and not folder.is_symlink() else []
        if all(path.name.startswith(f".{MARK}-") and path.is_file() for path in found):
            for path in found:
                path.unlink(missing_ok=True)


def _is_of(mark: Mark, path: Path) -> bool:
    name = path.as_posix()
    return mark.began(name) or name.startswith(f".{MARK}-")
