"""What a tree of processes holds at most, by what each is: the driver, the JVM, Python's workers.

Read a few times a second from /proc while something runs: pages that several processes
share are divided among them. So is processor time, since the kernel forgets that of Spark's
workers, whom nobody waits for. Where there is no /proc nothing is measured.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

PERIOD = 0.2
MB = 1e6


@dataclass
class Sampled:
    """The moment when the tree held most."""

    peak: dict[str, float] = field(default_factory=dict)
    """MB by kind: `driver`, `java`, `workers`."""
    worker: float = 0.0
    """MB of the worker that ever held most."""
    used: dict[int, float] = field(default_factory=dict)
    """Seconds of processor time by process, as it was last seen."""

    def look(self, root: int) -> None:
        """Remember what the tree holds now if it is more than ever."""
        now: dict[str, float] = {}
        for process in tree(root):
            kind = "driver" if process == root else kind_of(process)
            size = held(process) / MB
            self.used[process] = max(self.used.get(process, 0.0), seconds_of(process))
            now[kind] = now.get(kind, 0.0) + size
            if kind == "workers":
                self.worker = max(self.worker, size)
        if sum(now.values()) > sum(self.peak.values()):
            self.peak = now


@contextmanager
def sampled(root: int) -> Iterator[Sampled]:
    """Look at a process and all below it as long as the block runs."""
    found, done = Sampled(), threading.Event()

    def watch() -> None:
        while not done.wait(PERIOD):
            found.look(root)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        done.set()
        thread.join()
        found.look(root)


def tree(root: int) -> list[int]:
    """Return a process and those that descend from it."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        children.setdefault(parent, []).append(int(folder.name))
    found = [root]
    for process in found:
        found += children.get(process, [])
    return found


def kind_of(process: int) -> str:
    """Return what a process is."""
    try:
        name = Path(f"/proc/{process}/comm").read_text()
    except OSError:
        return "workers"
    return "java" if name.startswith("java") else "workers"


def seconds_of(process: int) -> float:
    """Return the processor time of a process without its children; 0 once it has ended."""
    try:
        words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def held(process: int) -> int:
    """Return the bytes of memory that are a process's own share; 0 once it has ended."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
