"""python -m tests.faults [COMMAND...]: every fault in every command, and a table of what came out.

With --share only a part of the faults, drawn anew for each --seed. Exit code 1 if anything failed.
"""

import argparse
import ctypes
import os
import pickle
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.postgis import DatabaseBeside
from tests.support.git import isolate_git


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("commands", nargs="*", metavar="COMMAND")
    parser.add_argument("--share", type=float, default=1.0, help="the part of the faults to try")
    parser.add_argument(
        "--at",
        metavar="FAULT:CALL",
        action="append",
        help="try this fault alone, at calls that the pattern matches; may be repeated",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long")
    parser.add_argument("--quiet", action="store_true", help="print the table alone")
    parser.add_argument("--into", type=Path, help="also write the reports to a file")
    chosen = parser.parse_args()
    # No TemporaryDirectory: every forked command would remove it when it ends.
    home = Path(tempfile.mkdtemp(prefix="havasu-home-"))
    memory = Path("/dev/shm")
    place = memory if os.access(memory, os.W_OK) else None
    base = Path(tempfile.mkdtemp(prefix="havasu-faults-", dir=place))
    try:
        isolate_git(home)
        return _run(chosen, base)
    finally:
        DatabaseBeside.end()
        shutil.rmtree(home)
        shutil.rmtree(base)


def _run(chosen: argparse.Namespace, base: Path) -> int:
    from tests.faults.running import FAULTS
    from tests.faults.seccomp import lacking_seam
    from tests.faults.suite import SceneRun, table
    from tests.faults.verbs import SCENES

    if (lacking := lacking_seam()) is not None:
        print(lacking, file=sys.stderr)
        return 3
    # Processes that a killed command leaves behind become ours, and are waited for.
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    # It and the command take turns, so a second processor is no use and moving there takes time.
    os.sched_setaffinity(0, {random.choice(sorted(os.sched_getaffinity(0)))})
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    deadline = time.monotonic() + chosen.seconds
    reports = []
    for name in chosen.commands or SCENES:
        begin = time.monotonic()
        scene = SceneRun(SCENES[name], base)
        reports.append(scene.report)
        faults = scene.faults(share=chosen.share, seed=chosen.seed)
        if chosen.at:
            faults = (fault for pattern in chosen.at for fault in scene.faults_at(pattern))
        for fault in faults:
            if time.monotonic() > deadline:
                break
            failure = scene.inject(fault)
            if failure is not None and not chosen.quiet:
                print(failure, flush=True)
        if not chosen.quiet:
            count, seconds = scene.report.injections.total(), time.monotonic() - begin
            print(f"{name}: {count} in {seconds:.0f} s", file=sys.stderr, flush=True)
    if chosen.into:
        chosen.into.write_bytes(pickle.dumps(reports))
    print(table(reports, FAULTS))
    return 1 if any(report.failures for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
