"""Where tests write: in memory, where there is enough of it.

Most of what tests write is small repositories, whose every file is synced to the disk for the
sake of a machine that may lose power. In memory this costs nothing.
"""

import os
import shutil
import tempfile
from pathlib import Path

IN_MEMORY = Path("/dev/shm")
# A run has a few hundred megabytes at a time, and the machine needs its memory for Spark too.
ENOUGH = 4 << 30


def scratch_in_memory() -> None:
    """Let this process, and all that it starts, make temporary files in memory.

    Whoever names a place, by TMPDIR, has it.
    """
    if "TMPDIR" not in os.environ and fits():
        os.environ["TMPDIR"] = str(IN_MEMORY)
        tempfile.tempdir = None


def fits() -> bool:
    """Return whether there is a file system in memory with room, in which programs may run."""
    if not os.access(IN_MEMORY, os.W_OK | os.X_OK):
        return False
    if os.statvfs(IN_MEMORY).f_flag & os.ST_NOEXEC:
        return False
    return shutil.disk_usage(IN_MEMORY).free >= ENOUGH and available() >= 2 * ENOUGH


def available() -> int:
    """Return how much memory can be had, in bytes; 0 where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    said = dict(line.split(":", 1) for line in lines)
    return int(said.get("MemAvailable", "0 kB").split()[0]) << 10
