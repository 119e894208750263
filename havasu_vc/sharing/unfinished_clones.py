"""A clone that is being made, so that one that was cut off goes on when it is asked for again.

git clones into a folder of ours inside of the one that was asked for. What it made is moved up
when it is whole, with a mark in the git directory that says what was asked for, and the mark
goes when everything is done. The folder is locked meanwhile, by the system.

    <folder>/.git.cloning/clone     what git makes
    <folder>/.git.cloning/whole     git has made it
    <git directory>/havasu/cloning  data and tables are still to come
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from havasu_vc.errors import InvalidArgumentError, LockedError
from havasu_vc.store.durability import replace_file, reporting_storage_errors

__all__ = ["UnfinishedClone", "being_cloned"]

PART = ".git.cloning"
_MARK = Path("havasu", "cloning")


class UnfinishedClone:
    """A folder in which a clone is made, or was begun."""

    def __init__(self, folder: Path, wanted: str, *, bare: bool) -> None:
        """Make a clone in a folder that is there; `wanted` says which."""
        self.folder = folder
        self.git_directory = folder if bare else folder / ".git"
        self.clone = folder / PART / "clone"
        """Where git is to make it."""
        self._wanted = wanted
        self._inner = self.clone if bare else self.clone / ".git"

    @property
    def has_git(self) -> bool:
        """Whether git has done its part."""
        return (self.folder / PART / "whole").exists() or self._mark.exists()

    @property
    def _mark(self) -> Path:
        return self.git_directory / _MARK

    def require_mine(self) -> None:
        """Raise unless the folder is empty, or a clone as this one was begun in it."""
        names = set(os.listdir(self.folder))
        if not names or (names == {PART} and not self.has_git):
            return
        for mark in (self._mark, self._inner / _MARK):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                if mark.read_text("utf-8", "replace") == self._wanted:
                    return
                raise InvalidArgumentError(
                    f"{self.folder} is there already: another clone of it was cut off",
                    hints=("`havasu-vc fetch` and `havasu-vc checkout` go on there",),
                )
        raise InvalidArgumentError(f"{self.folder} is there already, and is not an empty folder")

    def begin(self) -> None:
        """Forget what another git had begun."""
        with reporting_storage_errors(self.folder):
            shutil.rmtree(self.folder / PART, ignore_errors=True)
            self.clone.parent.mkdir(exist_ok=True)

    def settle(self) -> None:
        """Put what git has made, when it is whole, where it belongs."""
        part = self.folder / PART
        with reporting_storage_errors(self.folder):
            if not self.has_git:
                replace_file(self._inner / _MARK, self._wanted.encode())
                replace_file(part / "whole", b"")
            if self.clone.is_dir():
                # Without HEAD, which comes last, it is no repository yet.
                for name in sorted(os.listdir(self.clone), key=lambda name: name == "HEAD"):
                    os.rename(self.clone / name, self.folder / name)
            shutil.rmtree(part, ignore_errors=True)

    def drop(self) -> None:
        """Leave nothing of it."""
        shutil.rmtree(self.folder / PART, ignore_errors=True)

    def finish(self) -> None:
        """Note that everything is done."""
        self._mark.unlink(missing_ok=True)


@contextlib.contextmanager
def being_cloned(folder: Path, wanted: str, *, bare: bool) -> Iterator[UnfinishedClone]:
    """Hold a folder, which is made if need be, while a clone is made in it."""
    if folder.exists() and not folder.is_dir():
        raise InvalidArgumentError(f"{folder} is there already, and is not an empty folder")
    made = not folder.exists()
    with reporting_storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LockedError(f"another process is cloning into {folder}") from error
        unfinished = UnfinishedClone(folder, wanted, bare=bare)
        unfinished.require_mine()
        yield unfinished
    finally:
        os.close(number)
        if made:
            with contextlib.suppress(OSError):
                folder.rmdir()  # works when nothing came of it
