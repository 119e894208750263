"""Running a command as a user does, and measuring the whole process.

Wall time, processor time of the process and its children, and peak memory come from
the kernel when the process ends. Nothing is sampled.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
    """Seconds of processor time, of the process and its children."""
    memory: float
    """Peak resident memory of the largest process, in MB of a million bytes."""
    output: str = ""
    """What the command printed."""

    @property
    def report(self) -> dict[str, Any]:
        """What a job printed about itself."""
        return dict(json.loads(self.output))


def run(command: Sequence[str], environment: Mapping[str, str]) -> Run:
    """Run a command and return what it took."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        begin = time.perf_counter()
        child = subprocess.Popen(command, stdout=out, stderr=errors, env=environment, cwd=ROOT)
        _, status, used = os.wait4(child.pid, 0)
        wall = time.perf_counter() - begin
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        errors.seek(0)
        if child.returncode:
            tail = errors.read().decode(errors="replace").strip()[-2000:]
            raise CommandFailed(f"{' '.join(command[:6])} … exited with {child.returncode}: {tail}")
        printed = out.read(1 << 20).decode(errors="replace")
    # Linux counts kilobytes, macOS bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return Run(wall, used.ru_utime + used.ru_stime, used.ru_maxrss * unit / 1e6, printed)


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
