"""Lock files of git that nobody holds any more: they are recognised, removed, and told.

git and libgit2 lock by a file (`index.lock`, `HEAD.lock`, `refs/heads/main.lock`, …) and
leave it behind when they are killed. It says nothing of its owner, so a lock counts as left
only if all of these hold:

- it lies in this repository, and is some seconds old;
- no process has it open;
- no git that was there before it works in this repository: `git commit -a` closes its lock
  and keeps it while its editor is open.

Where other machines may be at work (a network's file system), or processes cannot be
looked at (no `/proc`, another user's git), only age is left, and it must be a large one.
"""

import contextlib
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from havasu_vc.errors import LockedError
from havasu_vc.records import dataclass
from havasu_vc.store.locks import exclusive_lock

__all__ = ["Holder", "LeftLock", "broken", "is_inside", "lock_in_message"]

SETTLED_SECONDS = 2.0
"""A lock that is younger may be of a process that starts right now."""
UNSEEN_SECONDS = 15 * 60.0
"""How old a lock must be where its owner cannot be looked for."""
UNSEEN_INDEX_SECONDS = 24 * 60 * 60.0
"""The same for an index, which is locked as long as an editor is open."""
PROC = Path("/proc")

# Every command loads this, and hardly any meets a lock: patterns are compiled where it does.
_NETWORK = (
    r"nfs\d?|cifs|smb\w*|9p|afs|ceph|lustre|gpfs|glusterfs|beegfs|ocfs2|gfs2|virtiofs|vboxsf"
    r"|fuse\..*"
)
_NAMED = r"(?:Unable to create|unable to create) '((?s:.+?)\.lock)': File exists"
_CONFIG = r"could not lock config file (.+?): File exists"


@dataclass(frozen=True, slots=True)
class Holder:
    """Who may hold a lock."""

    process: int | None
    """The process; None where it cannot be told."""
    name: str
    """What it is called."""

    def __str__(self) -> str:
        return self.name if self.process is None else f"process {self.process} ({self.name})"


@dataclass(frozen=True, slots=True)
class LeftLock:
    """What was found out about a lock."""

    removed: bool
    """Whether nobody held it, and it is gone."""
    holder: Holder | None = None
    """Who holds it, if that is known."""
    age: float = 0.0
    """How old it is, or was."""


def lock_in_message(text: str, folder: Path) -> Path | None:
    """Return the lock that git, run in a folder, says is in its way."""
    found = re.search(_NAMED, text)
    if found is not None:
        return folder / found[1]
    found = re.search(_CONFIG, text)
    return None if found is None else folder / f"{found[1]}.lock"


def broken(lock: Path, places: tuple[Path, ...]) -> LeftLock:
    """Remove a lock of a repository if nobody holds it, and tell what is so.

    `places` are the repository's folders: its git directories, and its work tree last.
    """
    seen = _status(lock)
    if seen is None:
        return LeftLock(False)
    age = time.time() - seen.st_mtime
    if age < SETTLED_SECONDS or not is_inside(lock, places):
        return LeftLock(False, age=age)
    # Two that look at the same time must not remove what a third made in between.
    turn = places[0] / "havasu" / "breaking-lock"
    try:
        with exclusive_lock(turn, patience=2.0):
            holder = _holder(lock, seen, age, places)
            if holder is not None:
                return LeftLock(False, holder, age)
            now = _status(lock)
            if now is None or (now.st_ino, now.st_mtime_ns) != (seen.st_ino, seen.st_mtime_ns):
                return LeftLock(False, age=age)
            lock.unlink()
            return LeftLock(True, age=age)
    except (OSError, LockedError):
        return LeftLock(False, age=age)


def _status(lock: Path) -> os.stat_result | None:
    try:
        status = lock.lstat()
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def is_inside(lock: Path, places: tuple[Path, ...]) -> bool:
    """Whether a lock is one of git's in this repository, and not a file of the user's."""
    place = Path(os.path.realpath(lock.parent)) / lock.name
    return place.name.endswith(".lock") and any(
        place.is_relative_to(os.path.realpath(folder)) for folder in places[:2]
    )


def _holder(
    lock: Path, seen: os.stat_result, age: float, places: tuple[Path, ...]
) -> Holder | None:
    """Return who holds a lock, or may."""
    unseen = UNSEEN_INDEX_SECONDS if lock.name == "index.lock" else UNSEEN_SECONDS
    if not (PROC / "self" / "fd").is_dir() or _is_on_a_network(lock):
        return None if age > unseen else Holder(None, "a process that cannot be looked for")
    folders = tuple(os.path.realpath(place) for place in places)
    hidden = None
    for process in _processes():
        name = _text(process / "comm").strip()
        command = _text(process / "cmdline")
        if not command:
            continue  # it has ended and waits for its parent, or is a part of the system
        at_work = name.startswith("git") and "daemon" not in command
        # The clock of processes is a coarse one.
        at_work = at_work and _began(process) <= seen.st_mtime + 1
        try:
            if _has_open(process, seen) or (at_work and _works_there(process, folders)):
                return Holder(int(process.name), name)
        except PermissionError:
            hidden = Holder(int(process.name), name) if at_work else hidden
        except OSError:
            continue  # it ended meanwhile
    return hidden if hidden is not None and age <= unseen else None


def _processes() -> Iterator[Path]:
    for name in os.listdir(PROC):
        if name.isdecimal():
            yield PROC / name


def _has_open(process: Path, seen: os.stat_result) -> bool:
    with os.scandir(process / "fd") as found:
        for each in found:
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(each.path)
                if (status.st_dev, status.st_ino) == (seen.st_dev, seen.st_ino):
                    return True
    return False


def _works_there(process: Path, folders: tuple[str, ...]) -> bool:
    """Whether a process is at work in a repository, by its folder or what it was told."""
    at = [os.readlink(process / "cwd")]
    variables = (process / "environ").read_bytes().split(b"\0")
    for variable in variables:
        if variable.startswith((b"GIT_DIR=", b"GIT_WORK_TREE=")):
            at.append(os.path.join(at[0], os.fsdecode(variable.partition(b"=")[2])))
    places = [Path(os.path.realpath(place)) for place in at]
    return any(place.is_relative_to(folder) for place in places for folder in folders)


def _began(process: Path) -> float:
    """Return when a process began, in seconds since 1970; 0 if that cannot be told."""
    # The name stands in parentheses and may hold anything.
    fields = _text(process / "stat").rpartition(")")[2].split()
    boot = re.search(r"^btime (\d+)$", _text(PROC / "stat"), re.MULTILINE)
    if boot is None or len(fields) < 20:
        return 0.0
    return int(boot[1]) + int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _is_on_a_network(lock: Path) -> bool:
    """Whether other machines may have the file system of a lock."""
    place, best, kind = os.path.realpath(lock.parent), "", ""
    for line in _text(PROC / "self" / "mountinfo").split("\n"):
        before, _, after = line.partition(" - ")
        words = before.split(" ")
        if len(words) < 5 or not after:
            continue
        mount = re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), words[4])
        if Path(place).is_relative_to(mount) and len(mount) >= len(best):
            best, kind = mount, after.partition(" ")[0]
    return re.fullmatch(_NETWORK, kind) is not None


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
