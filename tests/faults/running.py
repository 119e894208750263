"""A command of ours in a process of its own, of which one file-system call goes wrong.

The process is forked from this one, which has loaded everything, so that a run costs what the
command costs. Clock and chance are the same in every run, so that call number n is the same
call; `again` makes chance another one, as it is when a person tries once more.
"""

import atexit
import contextlib
import errno
import hashlib
import os
import random
import select
import signal
import socket
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from tests.faults import seccomp
from tests.faults.calls import SYNCS, WRITES, Call, describe, watched

__all__ = ["FAULTS", "NOW", "Fault", "Outcome", "run"]

FAULTS = ("kill", "die", "full", "eio", "short", "unread")
"""kill: SIGKILL to everything. die: SIGKILL to the git that makes the call, alone. full: the disk
takes half of a write, and nothing more from then on. eio: this call fails. short: a write takes
half, and the next goes on. unread: a call that only reads fails."""

SECONDS = 60.0
"""How long a command may take."""
NOW = int(time.time()) + 600
"""What time it is in every command; later than all that was made for it."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong."""

    kind: str
    number: int
    """At which call, counted from one."""

    def __str__(self) -> str:
        return f"{self.kind} {self.number}"


@dataclass(slots=True)
class Outcome:
    """How a command ended."""

    code: int = 0
    """The exit code; negative for a signal."""
    text: str = ""
    """What it wrote to stdout and stderr."""
    calls: list[Call] = field(default_factory=list)
    """The calls that counted."""
    by: list[int] = field(default_factory=list)
    """For each of them, 0 if the command itself made it, 1 if a process that it started did."""
    hit: Call | None = None
    """The call that went wrong."""
    hung: bool = False
    orphans: int = 0
    """How many processes outlived the command."""


@dataclass(slots=True)
class _Watch:
    root: str
    fault: Fault | None
    reads: bool
    child: int
    outcome: Outcome
    full: bool = False

    def decide(self, listener: int, notice: seccomp.Notice) -> None:
        call = describe(notice, self.root, reads=self.reads)
        if call is None:
            seccomp.answer(listener, notice)
            return
        outcome, fault = self.outcome, self.fault
        outcome.calls.append(call)
        own = _group(notice.process) == self.child
        outcome.by.append(0 if own else 1)
        if fault is not None and len(outcome.calls) == fault.number:
            if self._strike(listener, notice, call, fault.kind, own=own):
                outcome.hit = call
                return
        if self.full and call.room and call.name not in SYNCS:
            seccomp.answer(listener, notice, error=errno.ENOSPC)
        elif call.name in SYNCS:
            # Nothing here tells a synced file from another: the machine stays up.
            seccomp.answer(listener, notice, value=0)
        else:
            seccomp.answer(listener, notice)

    def _strike(
        self, listener: int, notice: seccomp.Notice, call: Call, kind: str, *, own: bool
    ) -> bool:
        """Do what was planned; return False where this call has no such fault."""
        match kind:
            case "kill":
                os.killpg(self.child, signal.SIGKILL)
            case "die" if not own:
                os.kill(_group(notice.process), signal.SIGKILL)
            case "eio" | "unread":
                seccomp.answer(listener, notice, error=errno.EIO)
            case "full" if call.room:
                self.full = True
                half = _half_written(notice, call) if call.name in WRITES else None
                if half is None:
                    seccomp.answer(listener, notice, error=errno.ENOSPC)
                else:
                    seccomp.answer(listener, notice, value=half)
            case "short" if call.name in WRITES:
                half = _half_written(notice, call)
                if half is None:
                    return False
                seccomp.answer(listener, notice, value=half)
            case _:
                return False
        return True


def run(
    work: Callable[[], int],
    root: Path,
    *,
    fault: Fault | None = None,
    again: int = 0,
    environment: Mapping[str, str] | None = None,
) -> Outcome:
    """Run a function in a process of its own; calls below `root` count, and one may go wrong."""
    ours, theirs = socket.socketpair()
    reads = fault is not None and fault.kind == "unread"
    with tempfile.TemporaryFile() as said, ours:
        child = os.fork()
        if not child:
            ours.close()
            _be_the_command(work, said.fileno(), theirs, reads, again, environment or {})
        theirs.close()
        _, descriptors, _, _ = socket.recv_fds(ours, 100, 1)
        outcome = Outcome()
        watch = _Watch(str(root), fault, reads, child, outcome)
        if descriptors:
            try:
                seccomp.prefer_one_processor(descriptors[0])
                _supervise(watch, descriptors[0])
            finally:
                os.close(descriptors[0])
        else:
            outcome.code = _code(os.waitpid(child, 0)[1])
        said.seek(0)
        outcome.text = said.read().decode("utf-8", "replace")
    return outcome


def _be_the_command(
    work: Callable[[], int],
    output: int,
    to: socket.socket,
    reads: bool,
    again: int,
    environment: Mapping[str, str],
) -> NoReturn:
    code = 99
    try:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nowhere, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        date = f"{NOW} +0000"
        os.environ |= {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date, **environment}
        _be_the_same_each_time(again)
        with to:
            seccomp.install(watched(reads=reads), to)
        code = work()
        sys.stdout.flush()
        sys.stderr.flush()
        atexit._run_exitfuncs()
    except BaseException:
        import traceback

        traceback.print_exc()
        with contextlib.suppress(Exception):
            sys.stderr.flush()
    finally:
        os._exit(code)


def _be_the_same_each_time(again: int) -> None:
    draw = random.Random(again)
    os.urandom = draw.randbytes
    random._urandom = draw.randbytes  # type: ignore[attr-defined]
    uuid.uuid4 = lambda: uuid.UUID(bytes=draw.randbytes(16), version=4)
    random.seed(again)

    def names() -> Iterator[str]:
        while True:
            yield draw.randbytes(8).hex()

    tempfile._name_sequence = names()  # type: ignore[attr-defined]
    time.time = lambda: float(NOW)
    time.time_ns = lambda: NOW * 10**9


def _supervise(watch: _Watch, listener: int) -> None:
    outcome, child = watch.outcome, watch.child
    handle = os.pidfd_open(child)
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    poll.register(handle, select.POLLIN)
    deadline = time.monotonic() + SECONDS
    ended = False
    try:
        while True:
            ready = dict(poll.poll(50 if ended else 1000))
            if ready.get(listener, 0) & select.POLLIN:
                notice = seccomp.receive(listener)
                if notice is not None:
                    watch.decide(listener, notice)
                continue
            if handle in ready:
                poll.unregister(handle)
                outcome.code = _code(os.waitpid(child, 0)[1])
                ended = True
            if ended and not _others(child):
                return
            if ready.get(listener, 0) & (select.POLLHUP | select.POLLERR):
                if ended:
                    return
                poll.unregister(listener)
            if time.monotonic() > deadline:
                outcome.hung = True
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child, signal.SIGKILL)
                deadline += SECONDS
    finally:
        os.close(handle)


def _others(child: int) -> bool:
    """Whether processes of the command live; those that were left to us are buried."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-child, os.WNOHANG)[0]:
            pass
    try:
        os.killpg(child, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _code(status: int) -> int:
    return os.waitstatus_to_exitcode(status)


def _group(thread: int) -> int:
    """Return the process of a thread."""
    try:
        with open(f"/proc/{thread}/status", "rb") as file:
            for line in file:
                if line.startswith(b"Tgid:"):
                    return int(line.split()[1])
    except OSError:
        pass
    return thread


def _half_written(notice: seccomp.Notice, call: Call) -> int | None:
    """Write the first half of what a call would write; return how much, None if it is too short."""
    descriptor, address, count, *rest = notice.arguments
    pieces = [(address, count)]
    if call.name == "writev":
        found = seccomp.words(seccomp.memory(notice.process, address, 16 * count))
        pieces = list(zip(found[::2], found[1::2], strict=True))
    size = sum(length for _, length in pieces) // 2
    if not size:
        return None
    data = b"".join(seccomp.memory(notice.process, *piece) for piece in pieces)[:size]
    file = seccomp.take_file(notice.process, descriptor)
    try:
        return os.pwrite(file, data, rest[0]) if call.name == "pwrite64" else os.write(file, data)
    finally:
        os.close(file)


def digest(data: bytes) -> str:
    """Return a short name of some bytes."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()
