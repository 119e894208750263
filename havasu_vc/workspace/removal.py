"""A table goes: from one instant to the next, and its empty parent folders with it."""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

from havasu_vc.store.durability import reporting_storage_errors
from havasu_vc.workspace.linking import TEMPORARY

__all__ = ["remove_leftovers", "remove_table"]


def remove_table(root: Path, location: Path) -> None:
    """Remove the folder of a table below a root; nobody sees half of it."""
    doomed = root / f"{TEMPORARY}removed-{secrets.token_hex(8)}"
    with reporting_storage_errors(location):
        try:
            os.rename(location, doomed)
        except FileNotFoundError:
            return
        shutil.rmtree(doomed, ignore_errors=True)
    for folder in location.relative_to(root).parents[:-1]:
        with suppress(OSError):
            (root / folder).rmdir()  # works when it is empty


def remove_leftovers(root: Path) -> None:
    """Remove what a removal that died left behind."""
    with suppress(OSError):
        for item in root.iterdir():
            if item.name.startswith(f"{TEMPORARY}removed-"):
                shutil.rmtree(item, ignore_errors=True)
