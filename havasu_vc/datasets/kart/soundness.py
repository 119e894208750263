"""Whether a Kart dataset can be read, which is all in its meta items."""

from __future__ import annotations

from pathlib import Path

from havasu_vc.datasets.folder import Folder, TreeFolder
from havasu_vc.datasets.storage import Storage
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.sound import is_sound, remember_sound

__all__ = ["check_folder"]


def check_folder(folder: Folder, path: str, revision: str, marker: str, memory: Path) -> None:
    """Raise when a dataset cannot be read; what was found sound is remembered below `memory`."""
    known = f"{marker}/meta:{folder.tree_id('meta')}"
    if is_sound(memory, known) or not isinstance(folder, TreeFolder):
        return
    # Columns are told by what loads Arrow, so they are looked at once.
    from havasu_vc.datasets.kart.view import open_view

    files = DataFileStore(memory)
    storage = Storage(files, memory / "keys", files)
    open_view(path, folder, storage, revision, marker).check_guard()
    remember_sound(memory, known)
