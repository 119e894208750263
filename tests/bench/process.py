"""Running a command as a user does, and measuring the whole process.

Wall time, processor time of the process and all below it, and peak memory come from
the kernel when processes end. Nothing is sampled.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[2]


class CommandFailed(Exception):
    """A command that is measured did not do its work."""


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of a command took."""

    wall: float
    """Seconds from start to end."""
    cpu: float
    """Seconds of processor time, of the process and all below it, such as the JVM of Spark."""
    memory: float
    """Peak resident memory of the largest process, in MB of a million bytes."""
    output: str = ""
    """What the command printed."""
    own: float = math.nan
    """Seconds of processor time of the process without its children, where /proc tells."""

    @property
    def report(self) -> dict[str, Any]:
        """What a job printed about itself."""
        return dict(json.loads(self.output))


STARTER = """
import json, math, os, sys, time
if sys.platform == "linux":
    # What a command leaves running, as the JVM that ends after it, becomes a child of this one.
    import ctypes
    PR_SET_CHILD_SUBREAPER = 36
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
def left(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            process, _, used = os.wait3(os.WNOHANG)
        except ChildProcessError:
            return
        if process:
            yield used
        else:
            time.sleep(0.01)
for line in sys.stdin:
    command, environment, folder, out, errors = json.loads(line)
    begin = time.perf_counter()
    child = os.fork()
    if not child:
        try:
            os.chdir(folder)
            for number, file in ((1, out), (2, errors)):
                os.dup2(os.open(file, os.O_WRONLY | os.O_TRUNC), number)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.execvpe(command[0], command, environment)
        except OSError as error:
            os.write(2, str(error).encode())
        finally:
            os._exit(127)
    own = math.nan
    if os.path.exists("/proc/self/stat"):
        # A process that has ended still has its line, until it is waited for.
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        with open(f"/proc/{child}/stat") as file:
            words = file.read().rpartition(")")[2].split()
        own = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    _, status, used = os.wait4(child, 0)
    wall = time.perf_counter() - begin
    every = [used, *left(30)]
    cpu = sum(each.ru_utime + each.ru_stime for each in every)
    memory = max(each.ru_maxrss for each in every)
    print(json.dumps([os.waitstatus_to_exitcode(status), wall, cpu, memory, own]), flush=True)
"""
"""A small process that starts commands: a child's peak counts whom it was forked from."""


@cache
def _starter() -> subprocess.Popen[str]:
    command = [sys.executable, "-S", "-E", "-c", STARTER]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)


def run(command: Sequence[str], environment: Mapping[str, str]) -> Run:
    """Run a command and return what it took."""
    starter = _starter()
    assert starter.stdin is not None and starter.stdout is not None
    with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as errors:
        words = [str(word) for word in command]
        asked = [words, dict(environment), str(ROOT), out.name, errors.name]
        starter.stdin.write(json.dumps(asked) + "\n")
        starter.stdin.flush()
        code, wall, cpu, memory, own = json.loads(starter.stdout.readline())
        if code:
            tail = errors.read().decode(errors="replace").strip()[-2000:]
            raise CommandFailed(f"{' '.join(words[:6])} … exited with {code}: {tail}")
        printed = out.read(1 << 20).decode(errors="replace")
    # Linux counts kilobytes, macOS bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return Run(wall, cpu, memory * unit / 1e6, printed, own)


def alternated(
    one: Callable[[int], Run], other: Callable[[int], Run], times: int
) -> tuple[Run, Run]:
    """Measure two things in turn, so that both see the same machine, and return their medians."""
    pairs = [(one(number), other(number)) for number in range(times + 1)]
    return middle([pair[0] for pair in pairs[1:]]), middle([pair[1] for pair in pairs[1:]])


def middle(runs: Sequence[Run]) -> Run:
    """Return the medians of several runs.

    What a job printed is the run's whose seconds are in the middle.
    """
    printed = sorted(runs, key=_reported)[(len(runs) - 1) // 2].output
    return Run(
        median(each.wall for each in runs),
        median(each.cpu for each in runs),
        max(each.memory for each in runs),
        printed,
        median(each.own for each in runs),
    )


def _reported(run: Run) -> float:
    try:
        return float(run.report["seconds"])
    except (ValueError, KeyError):
        return run.wall


def repeated(measure: Callable[[int], Run], times: int, *, warm: bool = True) -> Run:
    """Measure a few times, once more before to warm up, and return the medians."""
    first = int(warm)
    runs = [measure(number) for number in range(times + first)]
    return middle(runs[first:])
