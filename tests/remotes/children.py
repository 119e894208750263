"""Processes that share data, and end well, with an error, or by being killed on their way.

    started(folder, "push").wait()      0; 1 after an error of ours; -9 when it was killed
    started(folder, "pull", die=("havasu_vc.store.files:DataFileStore.put", 2))
                                        ends with 9, without cleaning up, at that call
    started(folder, "drop", killed_at=40)
                                        killed at the 40th thing that it changes on this machine
    started(folder, "push", largest=9000)
                                        a disk that is full: no file grows larger

What they do is a method of Repo, with its arguments by `|`. They are forks of a server that
has imported everything, so each starts in a moment.
"""

import atexit
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from havasu_vc import Repo, Settings
from havasu_vc.errors import HavasuError
from havasu_vc.sharing.requests import CloneRequest
from tests.repo.child import die_at

__all__ = ["Child", "finished", "started"]

_PRELOADED = [
    "__main__",
    "pyarrow.fs",
    "havasu_vc.remotes.object_store",
    "havasu_vc.upkeep.pruning",
    "havasu_vc.history.merge",
    "tests.remotes.children",
]
_CHANGES = ("os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.utime")
_STARTS = ("subprocess.Popen", "socket.connect")


@dataclass(frozen=True)
class Child:
    """A process at work."""

    process: ForkServerProcess
    said: Path
    """Where its errors go."""

    def wait(self, seconds: float | None = None) -> int:
        """Return how it ended; after so many seconds it is killed with all that it started."""
        self.process.join(seconds)
        if self.process.exitcode is None:
            self.kill()
            self.process.join()
        code = self.process.exitcode
        assert code is not None
        return code

    def kill(self) -> None:
        assert self.process.pid is not None
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            self.process.kill()  # it has no group of its own yet

    @property
    def errors(self) -> str:
        """What it said, once it has ended."""
        return self.said.read_text("utf-8", "replace")


def started(
    folder: Path,
    what: str,
    *,
    die: tuple[str, int] | None = None,
    killed_at: int | None = None,
    largest: int | None = None,
) -> Child:
    """Start a process that does something with the repository at a folder."""
    number, name = tempfile.mkstemp(dir=_folder())
    os.close(number)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    process = context.Process(
        target=_run,
        args=(dict(os.environ), name, folder, what, die, killed_at, largest),
        daemon=True,
    )
    process.start()
    return Child(process, Path(name))


@cache
def _folder() -> str:
    made = tempfile.TemporaryDirectory(prefix="havasu-children-")
    atexit.register(made.cleanup)
    return made.name


def finished(folder: Path, what: str, **how: Any) -> int:
    """Do something in another process, and return how it ended: well, or where it was to die."""
    child = started(folder, what, **how)
    code = child.wait()
    assert code in (0, 9, -signal.SIGKILL), child.errors
    return code


def _run(
    environment: Mapping[str, str],
    said: str,
    folder: Path,
    what: str,
    die: tuple[str, int] | None,
    killed_at: int | None,
    largest: int | None,
) -> None:
    os.setsid()
    os.environ.clear()
    os.environ |= environment
    errors = os.open(said, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(errors, number)
    if die is not None:
        die_at(*die)
    if largest is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    if killed_at is not None:
        sys.addaudithook(_killer(killed_at))
    try:
        _work(folder, what)
    except HavasuError as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
        os._exit(1)
    os._exit(0)


def _killer(last: int) -> Callable[[str, tuple[Any, ...]], None]:
    """Return what kills this process, and all that it started, at its n-th change."""
    changes = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal changes
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & 3
        if writes or event in _CHANGES or event in _STARTS:
            changes += 1
            if changes == last:
                os.killpg(0, signal.SIGKILL)

    return hook


def _work(folder: Path, what: str) -> None:
    settings = Settings(engine="local")
    name, *arguments = what.split("|")
    if name == "clone":
        url, *data = arguments
        request = CloneRequest(url, folder, data_url=data[0] if data else None)
        Repo.clone(request, settings=settings)
        return
    repo = Repo.open(folder, settings=settings)
    match name:
        case "push" if arguments:
            repo.push(arguments[0], arguments[1:])
        case "pull":
            repo.fetch()
            repo.merge(repo.upstream())
        case "drop":
            repo.drop_data(everything=True)
        case "prune":
            repo.prune_remote(grace_days=0, delete=True)
        case _:
            getattr(repo, name)(*arguments)
