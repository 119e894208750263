"""A process that has loaded the command line and is forked for each command.

It reads one JSON object a line: the arguments, the folder, what to add to the environment,
where output goes, the seconds and the bytes of address space that the command has. It answers
with the exit code (minus the signal that ended it), processor and wall seconds and the peak of
memory, of the command and the processes it started.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import time
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, NoReturn


def load() -> None:
    """Import what commands import as they go, and so all that a command has of them."""
    for name in ("pyarrow.compute", "pyarrow.csv", "pyogrio.raw", "pyproj", "shapely"):
        import_module(name)
    import havasu_vc

    for found in walk_packages(havasu_vc.__path__, "havasu_vc."):
        if not found.name.startswith(_NOT_NEEDED):
            import_module(found.name)


_NOT_NEEDED = ("havasu_vc.spark", "havasu_vc.testing", "havasu_vc.__main__")


def run(wanted: dict[str, Any]) -> NoReturn:
    """Be the command."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    resource.setrlimit(resource.RLIMIT_AS, (wanted["space"], wanted["space"]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number, name in ((0, wanted["stdin"]), (1, wanted["stdout"]), (2, wanted["stderr"])):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        place = os.open(name, flags, 0o600)
        os.dup2(place, number)
        os.close(place)
    os.chdir(wanted["folder"])
    os.environ.update(wanted["environment"])
    if patience := os.environ.get("HOSTILE_PATIENCE"):
        # A minute of silence is what is waited for, which would be long for a test.
        import havasu_vc.remotes.lfs_direct as direct

        direct.SILENT_SECONDS = float(patience)
    code = 70
    try:
        from havasu_vc.cli.main import cli

        cli.main(wanted["arguments"])
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def answer(wanted: dict[str, Any]) -> dict[str, Any]:
    """Run a command in a child, and say how it went."""
    begin = time.monotonic()
    child = os.fork()
    if child == 0:
        run(wanted)
    watch = os.pidfd_open(child)
    late = not select.select([watch], [], [], wanted["seconds"])[0]
    if late:
        for group in (os.killpg, os.kill):
            try:
                group(child, signal.SIGKILL)
            except ProcessLookupError:
                continue
    os.close(watch)
    _, status, used = os.wait4(child, 0)
    return {
        "code": os.waitstatus_to_exitcode(status),
        "late": late,
        "processor": used.ru_utime + used.ru_stime,
        "wall": time.monotonic() - begin,
        "memory": used.ru_maxrss << 10,
    }


def serve() -> None:
    """Answer until nobody asks."""
    load()
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    for line in requests:
        answers.write(json.dumps(answer(json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve()
