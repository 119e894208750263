"""Mutants of the code on which everything rests, and whether tests notice.

    python -m tests.mutants [--seconds 600] [--share 0.2] [--seed 1] [MODULE ...]

Each mutant is a module with one small thing changed. A child process runs the module's own
tests upon it, and it is killed when one of them fails. What survives and does not change what
the code does is listed in `survivors.toml`, by module, with the reason.
"""

from __future__ import annotations

import argparse
import importlib.abc
import importlib.machinery
import importlib.util
import os
import random
import signal
import sys
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from types import CodeType

from tests.mutants.mutating import Mutant, mutants

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LIMIT = 600
"""Seconds that tests may take upon a module as it is."""
PATIENCE = 5
"""How much longer they may take upon a mutant, which else does not end and counts as killed."""


def targets() -> dict[str, list[str]]:
    """Return the tests of each module."""
    found: dict[str, list[str]] = tomllib.loads((HERE / "targets.toml").read_text())["tests"]
    return found


def survivors() -> dict[str, dict[str, str]]:
    """Return the reasons of mutants that are known to survive, by module."""
    found: dict[str, dict[str, str]] = tomllib.loads((HERE / "survivors.toml").read_text())
    return found


class _Mutated(importlib.abc.MetaPathFinder):
    """Gives one module another source."""

    def __init__(self, module: str, source: str) -> None:
        self.module = module
        self.source = source

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self.module:
            return None
        place = str(ROOT / f"{name.replace('.', '/')}.py")
        return importlib.util.spec_from_file_location(name, place, loader=self.loader(place))

    def loader(self, place: str) -> importlib.machinery.SourceFileLoader:
        source = self.source

        class Loader(importlib.machinery.SourceFileLoader):
            def get_code(self, fullname: str) -> CodeType:
                return compile(source, place, "exec")

        return Loader(self.module, place)


def survives(module: str, source: str, tests: Sequence[str], limit: float) -> bool:
    """Run tests upon another source of a module, in a child; return whether all of them pass."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(status) == 0
    code = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(round(limit) + 1)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        sys.meta_path.insert(0, _Mutated(module, source))
        import pytest

        random.seed(0)
        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not spark"]
        code = pytest.main([*options, "--hypothesis-seed=0", *tests])
    finally:
        os._exit(int(code))


def run(
    module: str, tests: Sequence[str], chosen: Sequence[Mutant], end: float
) -> tuple[int, list[Mutant]]:
    """Return how many were tried and those that no test notices.

    Raises where tests fail without a mutant, which would kill them all.
    """
    source = (ROOT / f"{module.replace('.', '/')}.py").read_text()
    begin = time.monotonic()
    if not survives(module, source, tests, LIMIT):
        raise SystemExit(f"the tests of {module} fail as it is")
    limit = PATIENCE * (time.monotonic() - begin)
    alive, done = [], 0
    for made in chosen:
        if time.monotonic() > end:
            break
        done += 1
        if survives(module, made.source, tests, limit):
            alive.append(made)
            print(f"  survives  {module}  {made.name}", flush=True)
    return done, alive


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="tests.mutants")
    parser.add_argument("modules", nargs="*", help="of targets.toml; all of them by default")
    parser.add_argument("--seconds", type=float, default=600, help="stop after so many")
    parser.add_argument("--share", type=float, default=1.0, help="of the mutants of each module")
    parser.add_argument("--seed", type=int, default=1, help="which ones, where not all are run")
    given = parser.parse_args(arguments)
    begun, known, unknown = time.monotonic(), survivors(), 0
    import pyarrow.parquet  # noqa: F401  loaded once, for all children

    totals = [0, 0, 0, 0]
    wanted = {
        name: tests
        for name, tests in targets().items()
        if name in given.modules or not given.modules
    }
    for number, (module, tests) in enumerate(wanted.items()):
        every = list(mutants((ROOT / f"{module.replace('.', '/')}.py").read_text()))
        chosen = random.Random(given.seed).sample(every, max(1, round(len(every) * given.share)))
        left = begun + given.seconds - time.monotonic()
        end = time.monotonic() + left / (len(wanted) - number)
        begin = time.monotonic()
        done, alive = run(module, tests, chosen, end)
        reasons = known.get(module, {})
        new = [made for made in alive if made.name not in reasons]
        unknown += len(new)
        gone = sorted(set(reasons) - {made.name for made in every})
        for name in gone:
            print(f"  no longer {module}  {name}")
        unknown += len(gone)
        took = time.monotonic() - begin
        print(
            f"{module}: {len(every)} made, {done} run, {done - len(alive)} killed, "
            f"{len(alive)} survived, {len(alive) - len(new)} of them listed ({took:.0f} s)",
            flush=True,
        )
        found = (len(every), done, done - len(alive), len(alive))
        totals = [a + b for a, b in zip(totals, found, strict=True)]
    print("{} made, {} run, {} killed, {} survived".format(*totals))
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
