"""Many processes at once on one repository and its remote, each noting what it was told.

    python -m tests.faults.crowd FOLDER --writers 16 --seconds 20

In FOLDER are `repo`, `other`, a clone, and `server.git` with its data in `data`. The processes
are forked from this one, which has loaded everything. Each writes `notes/ROLE`, one JSON
document a line: what it did, and the commit it made or the error that it met.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from io import TextIOWrapper
from pathlib import Path

import pyarrow as pa

from havasu_vc import Repo
from havasu_vc.errors import HavasuError
from tests.datasets.thresholds import tiny_thresholds
from tests.faults.commands import call, load
from tests.support.sound import LOCAL

ROWS_EACH = 1000
"""Writer number n owns the rows from n times this."""


@dataclass(frozen=True, slots=True)
class Worker:
    """One process, which does one thing again and again until the time is over."""

    folder: Path
    notes: TextIOWrapper
    until: float
    least: int = 2
    """It does its thing so often even if the time is over."""

    def note(self, **what: object) -> None:
        self.notes.write(json.dumps(what) + "\n")
        self.notes.flush()

    def turns(self) -> Iterator[int]:
        number = 0
        while number < self.least or time.monotonic() < self.until:
            yield number
            number += 1

    def write(self, place: str, path: str, first: int) -> None:
        """Commit one row after the other."""
        # Folding is left to `optimize`, which then has something to do.
        with tiny_thresholds(most_deltas=40):
            for number in self.turns():
                identity, name = first + number % 5, f"{first} {number}"
                rows = pa.table({"id": [identity], "name": [name]})
                try:
                    made = Repo.open(self.folder / place, settings=LOCAL).write(path, rows)
                    self.note(id=identity, name=name, commit=made.commit)
                except HavasuError as error:
                    self.note(failed=type(error).__name__, message=error.message)

    def command(self, *arguments: str) -> None:
        """Run a command line of ours."""
        for _ in self.turns():
            self.note(command=arguments, code=call(*arguments))
            time.sleep(0.05)

    def git(self, *arguments: str) -> None:
        """Run a command of git."""
        for _ in self.turns():
            done = subprocess.run(
                ["git", *arguments], cwd=self.folder / "repo", capture_output=True, check=False
            )
            self.note(git=arguments, code=done.returncode, said=done.stderr.decode()[-300:])
            time.sleep(0.05)

    def push_and_forget(self) -> None:
        """Push a branch with data of its own, and delete it there: something to prune."""
        place = self.folder / "other"
        for number in self.turns():
            name = f"passing-{number}"
            try:
                repo = Repo.open(place, settings=LOCAL)
                repo.create_branch(name)
                repo.switch(name)
                rows = pa.table({"id": [900_000 + number], "name": [name]})
                repo.write("points", rows)
                code = call("-C", str(place), "push", "origin", name)
                repo.switch("main")
                if not code:
                    code = call("-C", str(place), "push", "origin", "--delete", name)
                self.note(pushed=name, code=code)
            except HavasuError as error:
                self.note(failed=type(error).__name__, message=error.message)


def roles(writers: int) -> dict[str, Callable[[Worker], None]]:
    """Return what the processes do, by name."""
    here = ("-q", "-C", "repo")
    found: dict[str, Callable[[Worker], None]] = {}
    for number in range(1, writers + 1):
        found[f"writer-{number}"] = partial(
            Worker.write, place="repo", path="points", first=number * ROWS_EACH
        )
    found["gc"] = lambda worker: worker.command(*here, "gc", "--prune-now")
    found["git-gc"] = lambda worker: worker.git("gc", "--quiet", "--prune=now")
    found["optimize"] = lambda worker: worker.command(*here, "optimize")
    found["pusher"] = lambda worker: worker.command(*here, "push")
    found["passer"] = Worker.push_and_forget
    found["prune"] = lambda worker: worker.command(
        *here, "data", "prune", "--delete", "--grace", "0"
    )
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.crowd", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--writers", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=20)
    chosen = parser.parse_args()
    os.chdir(chosen.folder)
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    load(
        name
        for name in (
            "havasu_vc.repo.transaction havasu_vc.editing.writing havasu_vc.repo.rebasing "
            "havasu_vc.cli.commands.upkeep "
            "havasu_vc.cli.commands.remotes havasu_vc.cli.commands.data havasu_vc.upkeep.pruning "
            "havasu_vc.upkeep.maintenance havasu_vc.sharing.pushing havasu_vc.upkeep.maintenance"
        ).split()
    )
    Path("notes").mkdir()
    until = time.monotonic() + chosen.seconds
    processes = []
    for role, work in roles(chosen.writers).items():
        process = os.fork()
        if process:
            processes.append(process)
            continue
        code = 1
        try:
            with open(f"notes/{role}.errors", "w") as errors:
                os.dup2(errors.fileno(), 1)
                os.dup2(errors.fileno(), 2)
            with open(f"notes/{role}", "w") as notes:
                work(Worker(chosen.folder, notes, until))
            code = 0
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)
    codes = [os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) for each in processes]
    return 1 if any(codes) else 0


if __name__ == "__main__":
    sys.exit(main())
