"""Another repository on this machine, or on a shared folder: its data files as they lie.

Between two stores of one file system a file of our own is linked, not copied: it is named
by its content and never changes. It is hashed all the same before it gets its name, for
the folder may be anybody's. A push holds the other repository's lock shared, as a commit
there would, so no garbage is collected there before its refs have moved.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from havasu_vc.errors import CorruptDataFileError, DataFileNotFoundError, HavasuError, StorageError
from havasu_vc.remotes.protocol import Claim, Report, WantedFile, each
from havasu_vc.store.copying import copy_checked
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.locks import shared_lock
from havasu_vc.store.system import is_mine, open_binary

__all__ = ["NeighbourRemote", "bring_all", "take_from_lfs"]


class NeighbourRemote:
    """The data files of another repository that is a folder here."""

    knows = True
    """It is looked into."""
    has_url = False
    """It is where the git remote is."""

    def __init__(self, data_folder: Path, name: str) -> None:
        self._folder = data_folder
        self._store = DataFileStore(data_folder, data_folder.parent / "lfs")
        self._name = name

    @property
    def name(self) -> str:
        """Its name for people."""
        return self._name

    @contextmanager
    def sending(self, files: Sequence[WantedFile], commits: Sequence[str] = ()) -> Iterator[Claim]:
        """Hold its lock together with those who commit there.

        What is to outlast it is made young, which its garbage collection spares. Where no
        data goes and none is, nothing is made for it.
        """
        claim = Claim()
        used = bool(files) or self._folder.exists()
        with shared_lock(self._folder / "lock") if used else nullcontext():
            yield claim
            for file in files if claim.outlasting else ():
                with suppress(OSError, HavasuError):
                    os.utime(self._store.path(file.sha256))

    def lacking(self, files: Sequence[WantedFile]) -> list[WantedFile]:
        """Return those files that it does not have."""
        return [file for file in files if not _has(self._store, file)]

    def upload(
        self, files: Sequence[WantedFile], store: DataFileStore, report: Report
    ) -> Sequence[WantedFile]:
        """Put files into its store."""
        bring_all(files, store, self._store, report)
        return files

    def download(self, files: Sequence[WantedFile], store: DataFileStore, report: Report) -> None:
        """Bring files from its store."""
        bring_all(files, self._store, store, report)


def _has(store: DataFileStore, file: WantedFile) -> bool:
    try:
        return store.size(file.sha256) == file.size
    except HavasuError:
        return False


def bring_all(
    files: Sequence[WantedFile], source: DataFileStore, target: DataFileStore, report: Report
) -> None:
    """Link or copy files from store to store, each checked against its hash."""
    each(files, lambda file: _bring(file, source, target, report))
    target.commit_all()


def take_from_lfs(files: Sequence[WantedFile], store: DataFileStore) -> list[WantedFile]:
    """Take in what the real git-lfs has fetched here, and return what it has not.

    It sees our file from then on, so that there are not two. What is wrong of its files stays
    with it.
    """
    links, left = store.lfs_links, []
    for file in files:
        if links is None or links.is_ours(file.sha256):
            left.append(file)
            continue
        try:
            _bring(file, DataFileStore(links.folder), store, lambda count: None)
        except HavasuError:
            left.append(file)
        else:
            links.replace(file.sha256)
    store.commit_all()
    return left


def _bring(file: WantedFile, source: DataFileStore, target: DataFileStore, report: Report) -> None:
    """Link or copy one file from store to store."""
    place, temporary = source.path(file.sha256), target.temporary()
    try:
        if _linked(place, temporary):
            _check(temporary, file)
            report(file.size)
        else:
            number = open_binary(place)
            with os.fdopen(number, "rb") as old, temporary.open("xb") as new:
                copy_checked(old, new, file.sha256, file.size, report)
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
        status = place.lstat()
        # Only a file that nobody may write to is shared, and whose owner is who asks.
        if not is_mine(status):
            return False
        os.link(place, temporary, follow_symlinks=False)
    except OSError:
        return False
    return True


def _check(path: Path, file: WantedFile) -> None:
    """Raise unless a file's bytes are those that its name says."""
    size = path.stat().st_size
    if size != file.size:
        raise CorruptDataFileError(file.sha256, f"it has {size} bytes instead of {file.size}")
    with path.open("rb", buffering=0) as content:
        found = hashlib.file_digest(content, "sha256").hexdigest()
    if found != file.sha256:
        raise CorruptDataFileError(file.sha256, f"its bytes have the hash {found}")
