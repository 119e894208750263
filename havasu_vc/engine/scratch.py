"""A folder for what an engine spills, made when first needed and removed at the end.

It is removed by `close`, when the object is forgotten and when the program ends,
whichever comes first. It stands under the system's temporary folder, readable by
its owner alone, or under a folder that the user names, with the user's own umask.
"""

import shutil
import tempfile
import uuid
import weakref
from pathlib import Path

from havasu_vc.errors import StorageError

__all__ = ["Scratch"]


class Scratch:
    """A folder that lives as long as its engine."""

    def __init__(self, parent: Path | None = None) -> None:
        self._parent = parent
        self._path: Path | None = None
        self._finalizer: weakref.finalize[[str, bool], Scratch] | None = None

    def new_folder(self, purpose: str) -> Path:
        """Make an empty folder below and return it."""
        folder = self._root() / f"{purpose}-{uuid.uuid4().hex[:12]}"
        try:
            folder.mkdir()
        except OSError as error:
            raise _cannot_make(folder, error) from error
        return folder

    def close(self) -> None:
        """Remove the folder with all that is in it."""
        if self._finalizer is not None:
            self._finalizer()
        self._path = self._finalizer = None

    def _root(self) -> Path:
        if self._path is None:
            try:
                self._path = self._make()
            except OSError as error:
                raise _cannot_make(self._parent or Path(tempfile.gettempdir()), error) from error
            self._finalizer = weakref.finalize(self, shutil.rmtree, str(self._path), True)
        return self._path

    def _make(self) -> Path:
        if self._parent is None:
            return Path(tempfile.mkdtemp(prefix="havasu-vc-"))
        path = self._parent.absolute() / f"havasu-vc-{uuid.uuid4().hex}"
        path.mkdir(parents=True)
        return path


def _cannot_make(folder: Path, error: OSError) -> StorageError:
    return StorageError(
        f"cannot make a folder for temporary files at {folder}: {error.strerror or error}",
        hints=("name another folder with TMPDIR or the scratch setting",),
    )
