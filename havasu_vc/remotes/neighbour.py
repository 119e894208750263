"""Another repository on this machine, or on a shared folder: its data files as they lie.

Between two stores of one file system a file is linked, not copied: it is named by its
content and never changes. Its hash was checked when it came in; it is checked again where
`verify` is asked for, as for a folder that others write to.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from havasu_vc.errors import DataFileNotFoundError, HavasuError, StorageError
from havasu_vc.remotes.moving import copy_checked, each
from havasu_vc.remotes.protocol import Report, WantedFile
from havasu_vc.store.files import DataFileStore

__all__ = ["NeighbourRemote"]


class NeighbourRemote:
    """The data files of another repository that is a folder here."""

    def __init__(self, data_folder: Path, name: str) -> None:
        self._store = DataFileStore(data_folder)
        self._name = name

    @property
    def name(self) -> str:
        """What people call it."""
        return self._name

    def lacking(self, files: Sequence[WantedFile]) -> list[WantedFile]:
        """Return those files that it does not have."""
        return [file for file in files if not _has(self._store, file)]

    def upload(self, files: Sequence[WantedFile], store: DataFileStore, report: Report) -> None:
        """Put files into its store."""
        each(files, lambda file: _bring(file, store, self._store, report))
        self._store.commit_all()

    def download(self, files: Sequence[WantedFile], store: DataFileStore, report: Report) -> None:
        """Bring files from its store."""
        each(files, lambda file: _bring(file, self._store, store, report))
        store.commit_all()


def _has(store: DataFileStore, file: WantedFile) -> bool:
    try:
        return store.has(file.sha256) and store.size(file.sha256) == file.size
    except HavasuError:
        return False


def _bring(file: WantedFile, source: DataFileStore, target: DataFileStore, report: Report) -> None:
    """Link or copy one file from store to store."""
    place = source.path(file.sha256)
    temporary = target.temporary()
    try:
        if not _linked(place, temporary):
            with place.open("rb") as old, temporary.open("xb") as new:
                copy_checked(old, new, file, report)
        else:
            source.check_size(file.sha256, file.size)
            report(file.size)
        target.put(temporary, sha256=file.sha256)
    except FileNotFoundError as error:
        raise DataFileNotFoundError(file.sha256) from error
    except OSError as error:
        if isinstance(error, HavasuError):
            raise
        raise StorageError(f"{place} cannot be copied: {error.strerror}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _linked(place: Path, temporary: Path) -> bool:
    """Link a file of ours to a new name; False where that cannot be."""
    try:
        # Only a file that nobody may write to is shared.
        if place.stat().st_mode & 0o222:
            return False
        os.link(place, temporary, follow_symlinks=False)
    except OSError:
        return False
    return True
