"""The lock between commits and garbage collection.

A commit holds `<common git directory>/havasu/lock` shared, from the first file that it
stores or reuses until its ref is moved; gc holds it exclusively. The system drops the
lock of a process that dies, so nothing is ever left locked. Who holds one alone writes into
it who it is (process, when that began, machine), for those who wait to be told.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from havasu_vc.errors import LockedError
from havasu_vc.records import dataclass
from havasu_vc.store.disk import may_write, name_file, reporting_storage_errors
from havasu_vc.store.system import hold_file, host_name, lives, open_binary, read_at, write_at

__all__ = [
    "Holder",
    "LeftLock",
    "broken",
    "exclusive_lock",
    "has_ended",
    "is_inside",
    "lock_in_message",
    "shared_lock",
    "still_runs",
    "this_process",
    "without_git_gc",
]


_PAUSE = 0.02


@contextlib.contextmanager
def shared_lock(path: Path, *, patience: float = 60.0, dry_run: bool = False) -> Iterator[None]:
    """Hold the lock together with other commits; wait as many seconds for gc to end.

    A dry run does without where nothing may be written.
    """
    reason = "garbage is being collected in this repository"
    with _held(path, patience, reason, shared=True, dry_run=dry_run):
        yield


@contextlib.contextmanager
def exclusive_lock(
    path: Path,
    *,
    patience: float = 10.0,
    reason: str = "another process is committing to this repository",
    dry_run: bool = False,
) -> Iterator[None]:
    """Hold the lock alone; wait as many seconds for others, by default commits, to end.

    A dry run does without where nothing may be written.
    """
    with _held(path, patience, reason, dry_run=dry_run):
        yield


@contextlib.contextmanager
def _held(
    path: Path, patience: float, reason: str, *, shared: bool = False, dry_run: bool = False
) -> Iterator[None]:
    if dry_run and not may_write(path):
        yield  # it removes nothing, and what it reads and misses it names
        return
    with reporting_storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        number = open_binary(path, os.O_RDWR | os.O_CREAT)
    try:
        deadline = time.monotonic() + patience
        while True:
            try:
                hold_file(number, shared=shared)
                break
            except BlockingIOError as error:
                if time.monotonic() >= deadline:
                    raise LockedError(
                        reason + _owner(number), hints=("wait until it has ended, then try again",)
                    ) from error
                time.sleep(_PAUSE)
        if not shared:
            _sign(number, f"{os.getpid()} {_began(os.getpid())} {host_name()}\n")
        try:
            yield
        finally:
            if not shared:
                _sign(number, "")
    finally:
        os.close(number)


def _sign(number: int, text: str) -> None:
    # A full disk is no reason not to hold it.
    with contextlib.suppress(OSError):
        os.ftruncate(number, 0)
        write_at(number, text.encode(), 0)


def _owner(number: int) -> str:
    """Return who holds a lock alone; nothing if it is not known, or was somebody before."""
    try:
        process, began, machine = read_at(number, 500, 0).decode("utf-8", "replace").split()
    except (OSError, ValueError):
        return ""
    if machine != host_name():
        return f" (process {process} on {machine})"
    alive = process.isdecimal() and _began(int(process)) == began
    return f" (process {process})" if alive else ""


def this_process() -> str:
    """Return a line that names this process, for `has_ended` to tell."""
    return f"{_machine()} {os.getpid()} {_began(os.getpid())}"


def has_ended(line: str) -> bool:
    """Whether a process that is named was of this machine and is no more; False if in doubt."""
    return _runs(line) is False


def still_runs(line: str) -> bool:
    """Whether a process that is named is of this machine and runs; False if in doubt."""
    return _runs(line) is True


def _runs(line: str) -> bool | None:
    """Return whether the process that a line names runs; None where that is not known here."""
    machine, _, rest = line.strip().partition(" ")
    process, _, began = rest.partition(" ")
    if machine != _machine() or not process.isdecimal() or began in ("", "-"):
        return None
    return _began(int(process)) == began


def _machine() -> str:
    """Return a name of what counts processes: this machine since it started, or a container."""
    parts = [host_name()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text("ascii"))
        parts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def _began(process: int) -> str:
    """Return when a process began, as the system counts; `-` where it does not tell."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            # Its name stands in parentheses and may hold anything.
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return "-"


# Lock files of git that nobody holds any more: they are recognised, removed, and told.
#
# git and libgit2 lock by a file (`index.lock`, `HEAD.lock`, `refs/heads/main.lock`, …) and
# leave it behind when they are killed. It says nothing of its owner, so a lock counts as left
# only if all of these hold:
#
# - it lies in this repository, and is some seconds old;
# - no process has it open;
# - no git that was there before it works in this repository: `git commit -a` closes its lock
#   and keeps it while its editor is open.
#
# Where other machines may be at work (a network's file system), or processes cannot be
# looked at (no `/proc`, another user's git), only age is left, and it must be a large one.

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
    """Its name."""

    def __str__(self) -> str:
        return self.name if self.process is None else f"process {self.process} ({self.name})"


@dataclass(frozen=True, slots=True)
class LeftLock:
    """Findings on a lock."""

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
        at_work = at_work and _process_began(process) <= seen.st_mtime + 1
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


def _process_began(process: Path) -> float:
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


# Keeping `git gc` away while a commit is made, by the file with which it keeps itself away.
#
# A commit's objects are reached by no ref until its branch moves, and `git gc --prune=now`
# would remove them just then. git reads `gc.pid`: while it names a process that lives, no
# other gc begins.

PATIENCE = 300.0
"""Seconds that a gc of git is waited for."""


@contextlib.contextmanager
def without_git_gc(common: Path) -> Iterator[None]:
    """Let no gc of git begin in a repository, after one that is going on has ended."""
    place = common / "gc.pid"
    mine = f"{os.getpid()} {host_name()}"
    temporary = common / f"havasu/gc-{secrets.token_hex(8)}"
    deadline = time.monotonic() + PATIENCE
    with reporting_storage_errors(place):
        temporary.parent.mkdir(parents=True, exist_ok=True)
        try:
            while not _named(temporary, place, mine):
                if not _holds(place):
                    place.unlink(missing_ok=True)
                elif time.monotonic() >= deadline:
                    raise LockedError(
                        "`git gc` is running in this repository",
                        hints=("wait until it has ended, then try again",),
                    )
                else:
                    time.sleep(0.05)
        finally:
            temporary.unlink(missing_ok=True)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if place.read_text("utf-8") == mine:
                place.unlink()


def _named(temporary: Path, place: Path, text: str) -> bool:
    """Return whether a file of this text is made where there was none."""
    temporary.write_text(text, "utf-8")
    try:
        name_file(temporary, place)
    except FileExistsError:
        return False
    return True


def _holds(place: Path) -> bool:
    """Whether the process that a file names lives, as git tells it."""
    try:
        process, _, machine = place.read_text("utf-8", "replace").strip().partition(" ")
        if time.time() - place.stat().st_mtime > 12 * 3600 or not process.isdecimal():
            return False
        if machine != host_name():
            return True
        return lives(int(process))
    except OSError:
        return False
