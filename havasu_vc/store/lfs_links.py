"""What git-lfs sees of the data files here: a link to each, where it keeps its own files.

    <common git directory>/lfs/objects/<aa>/<bb>/<sha256>    a symbolic link into our store

By these `git lfs fsck`, `fetch`, `ls-files` and `push` know the files. Our store itself is not
given to git-lfs (`lfs.storage`), for two reasons: `git lfs prune` deletes all that it does not
find named by branches, which would be edits, stashes and unfinished merges; and our garbage
collection would delete what git-lfs keeps for other files of the repository. Of links nothing
is lost, and `data fetch` makes them anew. Where links cannot be made, git-lfs sees less.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from havasu_vc.store.repository import GitRepository

__all__ = ["LfsLinks", "lfs_folder"]

_ALL_MADE = "lfs-links"
"""A file of the data folder: what was there before there were links has them, too."""


def lfs_folder(repository: GitRepository) -> Path:
    """Return where git-lfs keeps its files."""
    return repository.common_directory / (repository.config.get("lfs.storage") or "lfs")


class LfsLinks:
    """The links to the files of one store."""

    __slots__ = ("_objects", "_relative", "_root", "folder")

    def __init__(self, root: Path, folder: Path) -> None:
        """Link to files of the store at `root` from the folder of git-lfs."""
        self._root = root
        self.folder = folder
        self._objects = folder / "objects"
        self._relative = folder.parent == root.parent

    def add(self, names: Iterable[str]) -> None:
        """Link to files where git-lfs has nothing of that name."""
        if self._objects == self._root / "objects":
            return  # the user has told it to use the store itself
        for name in names:
            place = self.place(name)
            with suppress(OSError):
                if not os.path.lexists(place):
                    place.parent.mkdir(parents=True, exist_ok=True)
                    os.symlink(self._target(name), place)

    def replace(self, name: str) -> None:
        """Link to a file that was taken from what git-lfs has, instead of keeping both."""
        place = self.place(name)
        temporary = place.with_name(f".{secrets.token_hex(8)}")
        with suppress(OSError):
            os.symlink(self._target(name), temporary)
            os.replace(temporary, place)

    def remove(self, name: str) -> None:
        """Remove the link to a file; a file of git-lfs's own stays."""
        place = self.place(name)
        with suppress(OSError):
            if place.is_symlink():
                place.unlink()
                for folder in (place.parent, place.parent.parent):
                    folder.rmdir()  # works when it is empty

    def is_ours(self, name: str) -> bool:
        """Whether git-lfs has no file of its own of a name."""
        place = self.place(name)
        return place.is_symlink() or not place.exists()

    def place(self, name: str) -> Path:
        """Return where git-lfs looks for a file."""
        return self._objects / name[:2] / name[2:4] / name

    @property
    def noted(self) -> bool:
        """Whether it is written down that every file has its link."""
        return (self._root / _ALL_MADE).exists()

    @property
    def all_made(self) -> bool:
        """Whether files from before there were links have theirs."""
        return self.noted or not (self._root / "objects").exists()

    def note(self) -> None:
        """Write down that every file has its link, or gets it when it comes."""
        with suppress(OSError):
            self._root.mkdir(parents=True, exist_ok=True)
            (self._root / _ALL_MADE).touch()

    def _target(self, name: str) -> Path:
        ours = Path("objects", name[:2], name[2:4], name)
        return Path("../../../..", self._root.name) / ours if self._relative else self._root / ours
