"""Folders that live as long as a block does.

They have a name of their own below some folder, so that what a killed command left behind is
known for what it is, and `gc` removes it by its age.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from havasu_vc.store.durability import reporting_storage_errors

__all__ = ["short_lived_folder"]


@contextmanager
def short_lived_folder(parent: Path, prefix: str = "") -> Iterator[Path]:
    """Yield a new folder below another, which goes with all that is in it when the block ends."""
    folder = parent / f"{prefix}{secrets.token_hex(8)}"
    try:
        with reporting_storage_errors(parent):
            folder.mkdir(parents=True)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
