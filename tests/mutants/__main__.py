"""Mutants of the code on which everything rests, and whether tests notice.

    python -m tests.mutants [--seconds 600] [--share 0.2] [--seed 1] [--examples 20] [MODULE ...]
    python -m tests.mutants --into .mutants            goes on where it was stopped
    python -m tests.mutants --into .mutants --again    runs the survivors of that once more

Each mutant is a module with one small thing changed. It meets the tests of its group in
`targets.toml` that run the changed lines, and it is killed when one of them fails, or has no end.
What survives and does not change what the code does is listed in `survivors.toml`, by module, with
the reason.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import pickle
import random
import sys
import tempfile
import time
import tomllib
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from tests.mutants.mutating import Mutant, code_of, mutants
from tests.mutants.running import OPTIONS, ROOT, Outcome, Warm, path_of
from tests.support.examples import USUAL

HERE = Path(__file__).parent
COUNTS = "{} made, {} run, {} killed ({} of them without an end), {} alive, {} of them listed"


@dataclass(frozen=True)
class Group:
    """Modules that the same tests are for."""

    modules: list[str]
    tests: list[str]


def groups() -> list[Group]:
    """Return what is mutated."""
    found = tomllib.loads((HERE / "targets.toml").read_text())["group"]
    return [Group(one["modules"], one["tests"]) for one in found]


def survivors() -> dict[str, dict[str, str]]:
    """Return the reasons of mutants that are known to survive, by module."""
    found: dict[str, dict[str, str]] = tomllib.loads((HERE / "survivors.toml").read_text())
    return found


def sampled(source: str, path: str, share: float, seed: int) -> list[Mutant]:
    every = list(mutants(source, path))
    if share >= 1:
        return every
    kept = set(random.Random(seed).sample(range(len(every)), max(1, round(len(every) * share))))
    return [mutant for number, mutant in enumerate(every) if number in kept]


def run(
    tests: Sequence[str],
    chosen: dict[str, list[Mutant]],
    each: float,
    examples: int,
    end: float,
    note: Callable[[str, str, str], None],
    times: Path | None,
) -> dict[str, Outcome]:
    """Run a group in a child of its own, which leaves this process as it was."""
    read, write = os.pipe()
    output = tempfile.TemporaryFile()
    child = os.fork()
    if not child:
        try:
            os.close(read)
            loud = os.fdopen(os.dup(1), "w", buffering=1)
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            left = dict.fromkeys(chosen)

            def until(module: str) -> float:
                """Return when a module has had its share of the time that is left."""
                now = time.monotonic()
                share = (end - now) / len(left)
                del left[module]
                return now + share

            plugin = Warm(
                dict(chosen), each, until, lambda text: print(text, file=loud), note, times
            )
            random.seed(0)
            # A failure is enough; no time for the smallest one.
            settings.register_profile(
                "mutants", max_examples=examples, phases=(Phase.explicit, Phase.generate)
            )
            settings.load_profile("mutants")
            pytest.main([*OPTIONS, "--hypothesis-seed=0", *tests], plugins=[plugin])
            with os.fdopen(write, "wb") as telling:
                telling.write(pickle.dumps(plugin.outcomes))
        except BaseException:
            traceback.print_exc(file=loud)
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as told:
        answer = told.read()
    os.waitpid(child, 0)
    output.seek(0)
    if not answer:
        raise SystemExit(f"{output.read().decode()[-5000:]}\nThe tests did not run.")
    found: dict[str, Outcome] = pickle.loads(answer)
    return found


class Kept:
    """What became of mutants, in a file that a run adds to and the next one goes on from.

    Of a module whose code has changed nothing is known, and who survived some tests meets others,
    unless there is a reason why no test can notice.
    """

    def __init__(self, file: Path | None, again: bool = False) -> None:
        self.again = again
        """Whether those who survived are run again, as with more time or examples."""
        self.reasons = survivors()
        self.file = None if file is None else file.absolute()
        self.found: dict[tuple[str, str, str], tuple[str, str]] = {}
        if self.file is not None and self.file.exists():
            for line in self.file.read_text().splitlines():
                module, text, mutant, tests, became = json.loads(line)
                self.found[module, text, mutant] = tests, became

    def became(self, module: str, mutant: str, tests: Sequence[str]) -> str | None:
        """Return what became of a mutant of a module as it stands; None where it is to be run."""
        kept = self.found.get((module, _code(module), mutant))
        if kept is None:
            return None
        others = kept[0] != _text(tests) and mutant not in self.reasons.get(module, {})
        if kept[1] not in ("killed", "late") and (self.again or others):
            return None
        return kept[1]

    def times(self, files: Sequence[str], examples: int) -> Path | None:
        """Return where it is kept what tests run of some files as they stand.

        It names lines by their files, so a clone elsewhere measures for itself.
        """
        if self.file is None:
            return None
        place = hashlib.sha256(str(ROOT).encode()).hexdigest()[:8]
        return Path(f"{self.file}.times") / f"{_text(files)}-{examples}-{place}"

    def noting(self, tests: Sequence[str]) -> Callable[[str, str, str], None]:
        """Return what keeps what became of a mutant of a module upon some tests."""

        def note(module: str, mutant: str, became: str) -> None:
            if self.file is not None:
                facts = [module, _code(module), mutant, _text(tests), became]
                with self.file.open("a") as file:
                    file.write(json.dumps(facts) + "\n")

        return note


def _code(module: str) -> str:
    """Return what stands for the code of a module, whatever its comments and types say."""
    code = code_of(Path(path_of(module)).read_text())
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def _text(files: Sequence[str]) -> str:
    """Return what stands for the text of some files."""
    texts = b"".join((ROOT / file).read_bytes() for file in files)
    return hashlib.sha256(texts).hexdigest()[:16]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="tests.mutants")
    parser.add_argument("modules", nargs="*", help="of targets.toml; all of them by default")
    parser.add_argument("--seconds", type=float, default=3600, help="stop after so many")
    parser.add_argument("--each", type=float, default=20, help="seconds of tests for a mutant")
    parser.add_argument("--share", type=float, default=1.0, help="of the mutants of each module")
    parser.add_argument("--examples", type=int, default=USUAL, help="of each property")
    parser.add_argument("--seed", type=int, default=1, help="which ones, where not all are run")
    parser.add_argument("--into", type=Path, help="keep what became of each, and go on from there")
    parser.add_argument("--again", action="store_true", help="also those kept as survivors")
    given = parser.parse_args(arguments)
    kept = Kept(given.into, given.again)
    end, known, wrong = time.monotonic() + given.seconds, survivors(), 0
    # Loaded once, for all children.
    import pyarrow.dataset
    import pyarrow.parquet  # noqa: F401

    totals = [0, 0, 0, 0, 0, 0]
    wanted = [
        (one, [name for name in one.modules if not given.modules or name in given.modules])
        for one in groups()
    ]
    wanted = [(one, modules) for one, modules in wanted if modules]
    for number, (group, modules) in enumerate(wanted):
        every = {
            name: sampled(Path(path_of(name)).read_text(), path_of(name), 1, 0) for name in modules
        }
        chosen = {
            name: sampled(Path(path_of(name)).read_text(), path_of(name), given.share, given.seed)
            for name in modules
        }
        now = time.monotonic()
        until = now + (end - now) / (len(wanted) - number)
        left = {
            name: [mutant for mutant in each if kept.became(name, mutant.name, group.tests) is None]
            for name, each in chosen.items()
        }
        outcomes = {name: Outcome(len(each)) for name, each in chosen.items()}
        if any(left.values()):
            outcomes |= run(
                group.tests,
                left,
                given.each,
                given.examples,
                until,
                kept.noting(group.tests),
                kept.times([*group.tests, *map(path_of, left)], given.examples),
            )
        for name, found in outcomes.items():
            for mutant in chosen[name]:
                if (became := kept.became(name, mutant.name, group.tests)) is not None:
                    found.take(mutant.name, became)
            reasons = known.get(name, {})
            alive = [*found.alive, *found.unseen]
            listed = [one for one in alive if one in reasons]
            gone = sorted(set(reasons) - {mutant.name for mutant in every[name]})
            for one in gone:
                print(f"  no longer {name}  {one}")
            wrong += len(alive) - len(listed) + len(gone)
            counts = [len(every[name]), found.run, found.killed, found.late]
            counts += [len(alive), len(listed)]
            print(f"{name}: {COUNTS.format(*counts)}")
            totals = [a + b for a, b in zip(totals, counts, strict=True)]
    print(COUNTS.format(*totals))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
