"""Repositories that a process makes once, and copies for each test that begins with one.

Making a repository and importing into it takes a dozen processes of git; a copy takes a few
milliseconds. It is the repository to the byte: commits have the times of when it was made.
"""

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Hashable
from functools import cache
from pathlib import Path

from havasu_vc import Repo, Settings
from tests.support.git import run_git

LOCAL = Settings(engine="local")

_asked: dict[Hashable, Path | None] = {}


def empty_repo(
    path: Path, *, bare: bool = False, kart: bool = False, settings: Settings | None = None
) -> Repo:
    """Return a new repository at `path`, as `Repo.init` makes it."""
    # Kart's settings name the working copy after the folder.
    key = ("empty", bare, path.name if kart else None)
    again(key, lambda to: Repo.init(to, bare=bare, kart=kart), path)
    return Repo.open(path, settings=settings)


def again(key: Hashable, make: Callable[[Path], object], path: Path) -> None:
    """Make at `path` what `make` makes; where it was made before under this key, a copy of it.

    `make` is called with the place, below which nothing may say where it is.
    """
    if key not in _asked:
        # Most of what properties draw is made once only.
        _asked[key] = None
        make(path)
        return
    template = _asked[key]
    if template is None:
        template = Path(tempfile.mkdtemp(dir=_folder()), path.name)
        make(template)
        _asked[key] = template
    copy_tree(template, path)
    if (path / ".git" / "index").exists():
        # Copies have other times, at which git looks.
        run_git("update-index", "--refresh", "-q", cwd=path, check=False)


def make_empty(folder: Path) -> None:
    """Make the empty repository that most tests begin with, for processes that are forked."""
    for name in ("first", "second"):
        empty_repo(folder / name)


def copy_tree(source: Path, target: Path) -> Path:
    """Copy a folder with links as links, as `shutil.copytree` does in twice the time."""
    target.parent.mkdir(parents=True, exist_ok=True)
    _copy(str(source), str(target))
    return target


def _copy(source: str, target: str) -> None:
    os.mkdir(target)
    with os.scandir(source) as entries:
        for entry in entries:
            place = f"{target}/{entry.name}"
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), place)
            elif entry.is_dir():
                _copy(entry.path, place)
            else:
                _copy_file(entry, place)


def _copy_file(entry: "os.DirEntry[str]", place: str) -> None:
    with open(entry.path, "rb") as file:
        content = file.read()
    facts = entry.stat()
    number = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(number, content)
        os.fchmod(number, facts.st_mode & 0o7777)
        os.utime(number, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    finally:
        os.close(number)


@cache
def _folder() -> Path:
    folder = tempfile.mkdtemp(prefix="havasu-templates-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
