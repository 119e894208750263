"""Which trees of datasets were looked at and are sound, so that nobody looks twice.

    <common git directory>/havasu/sound     trees of internals, one per line, as `<tree>@<blob>`
                                            where they are of a table which this blob names;
                                            `<tree>!` for a tree of `files` in which no row is
                                            deleted twice;
                                            `.table-dataset/meta:<tree>` for the meta items
                                            of a Kart dataset

A line is added, never changed; a tree's id says all of what is in it, so a line stays
true. The last tree of a table is what the next one is compared with. The file is derived: without
it trees are looked at again, no more.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from havasu_vc.store.disk import replace_file, reporting_storage_errors

__all__ = [
    "MOST",
    "RECORDS",
    "forget_complete",
    "is_sound",
    "keeps_records",
    "last_sound",
    "read_complete",
    "remember_sound",
    "settled_mark",
    "write_complete",
]


RECORDS = "standing"
"""The folder of what was found in tables of many files."""
_NAME = "sound"
_MOST = 1 << 20
"""Bytes after which the file begins anew."""


def keeps_records(folder: Path) -> bool:
    """Whether a data folder has records of tables of many files; what reads them needs Arrow."""
    return (folder / RECORDS).is_dir()


def settled_mark(files: str) -> str:
    """Return what is remembered of a tree of `files` in which no row is deleted twice."""
    return f"{files}!"


class _Known:
    """The memory of one data folder."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = f"\n{text}"
        """The lines, each with a line end and after one."""

    def says(self, mark: str) -> bool:
        """Whether a line is this mark, or of a tree so named; those of late are found first."""
        return self.text.rfind(f"\n{mark}\n") >= 0 or self.text.rfind(f"\n{mark}@") >= 0


@lru_cache(maxsize=16)
def _known(folder: Path) -> _Known:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return _Known((folder / _NAME).read_bytes().decode("ascii"))
    return _Known("")


def is_sound(folder: Path, tree: str) -> bool:
    """Whether a tree is among those of a data folder that are sound."""
    return _known(folder).says(tree)


def last_sound(folder: Path, table: str) -> str | None:
    """Return the tree of a table, named by a blob, that was last remembered as sound."""
    text = _known(folder).text
    end = text.rfind(f"@{table}\n") if table else -1
    return None if end < 0 else text[text.rfind("\n", 0, end) + 1 : end]


def remember_sound(folder: Path, tree: str, table: str = "") -> None:
    """Remember that a tree is sound, and if given the table that it is of."""
    known = _known(folder)
    if known.says(tree):
        return
    line = f"{tree}@{table}\n" if table else f"{tree}\n"
    known.text += line
    path = folder / _NAME
    # It only spares work next time; the repository may be read-only.
    with contextlib.suppress(OSError):
        folder.mkdir(exist_ok=True)
        full = path.exists() and path.stat().st_size > _MOST
        with open(path, "w" if full else "a") as file:
            file.write(line)


# Which commits have all of their data files here, so that a fetch looks only at newer ones.
#
#     <common git directory>/havasu/complete     commits, one per line
#
# Every data file of a listed commit, and of its whole history, was here when it was listed.
# Whoever removes data files forgets the list first, and holds the lock that keeps others
# from writing it meanwhile.

MOST = 1000
"""No more commits than these are listed; what is forgotten is looked at again, no more."""

_COMPLETE = "complete"
_COMMIT = re.compile(r"[0-9a-f]{40}")


def read_complete(folder: Path) -> list[str]:
    """Return the commits that are listed in a data folder."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return _COMMIT.findall((folder / _COMPLETE).read_text("ascii"))
    return []


def write_complete(folder: Path, commits: Iterable[str]) -> None:
    """List commits, and no others."""
    lines = sorted(set(commits))[:MOST]
    replace_file(folder / _COMPLETE, "".join(f"{line}\n" for line in lines).encode())


def forget_complete(folder: Path) -> None:
    """List no commit any more."""
    with reporting_storage_errors(folder / _COMPLETE):
        (folder / _COMPLETE).unlink(missing_ok=True)
