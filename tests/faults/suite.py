"""One fault after the other in one scene, and what was found out.

The scene's repositories are made once and copied for each fault, to the same place, since
checked-out tables and remotes know where they are. A state that was judged before, byte for
byte but for times, is not judged again.
"""

import os
import random
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.calls import WRITES
from tests.faults.checks import (
    ABSENT,
    State,
    View,
    agrees,
    agrees_after,
    apart,
    look,
    only_more,
    state_of,
    unsound,
)
from tests.faults.commands import call, load, loaded_by
from tests.faults.running import NOW, Fault, Outcome, run
from tests.faults.scenes import Scene

__all__ = ["Failure", "Report", "SceneRun"]

READS = 12
"""How many of the calls that only read fail, in each scene."""


REPEATED = 0.25
"""The part of the states that differ by nothing but some objects more, which no ref reaches, in
which the command is done again; of others it is all."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A fault after which something did not hold."""

    scene: str
    fault: str
    call: str
    problems: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        said = " / ".join(self.text.strip().splitlines()[-3:])
        return f"{self.scene}: {self.fault} at {self.call}: {'; '.join(self.problems)} [{said}]"


@dataclass(slots=True)
class Report:
    """What came out of a scene."""

    scene: str
    calls: int = 0
    injections: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    states: int = 0
    """How many different states were left, and judged."""


class SceneRun:
    """A scene with its repositories, ready to go wrong."""

    def __init__(self, scene: Scene, base: Path) -> None:
        """Make the repositories below `base`, and run the command once with nothing wrong."""
        self.scene = scene
        self.folder = base / "scene"
        self.template = base / "template"
        self.spare = base / "spare"
        for each in (self.folder, self.template, self.spare):
            shutil.rmtree(each, ignore_errors=True)
        self.folder.mkdir(parents=True)
        if scene.beside is not None:
            scene.beside.begin()
        story = apart(lambda: scene.build(self.folder))
        shutil.copytree(self.folder, self.template, symlinks=True)
        if scene.beside is not None:
            scene.beside.keep("template_of_scene")
        load(apart(lambda: loaded_by(self._once)))
        self._put_back()
        self.begin = self._state()
        self.before: View = apart(lambda: look(self.folder))
        self.baseline = self._after_the_command(None)
        self.end = self._state()
        self.after: View = apart(lambda: look(self.folder))
        self._draw = random.Random(scene.name)
        self.report = Report(scene.name, len(self.baseline.calls))
        found = [*agrees(self.before, story.before), *agrees_after(self.after, story)]
        found += apart(lambda: unsound(self.folder))
        if self.baseline.code not in scene.codes:
            found.append(f"exit code {self.baseline.code}: {self.baseline.text}")
        assert not found, f"{scene.name}, with nothing going wrong: {found}"
        self._judged: dict[tuple[Any, bool], tuple[str, ...]] = {}
        self._finals: dict[Any, tuple[str, ...]] = {}

    def _once(self) -> None:
        look(self.folder)
        unsound(self.folder)
        os.chdir(self.folder)
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), self.scene.within():
            call("-q", *self.scene.arguments)

    def _command(
        self, *, arguments: Sequence[str] = (), again: int = 0, fault: Fault | None = None
    ) -> Outcome:
        def work() -> int:
            os.chdir(self.folder)
            with self.scene.within():
                return call(*(arguments or self.scene.arguments))

        scratch = {"TMPDIR": str(self.folder / "scratch")}
        (self.folder / "scratch").mkdir(exist_ok=True)
        return run(work, self.folder, fault=fault, again=again, environment=scratch)

    def _after_the_command(self, fault: Fault | None) -> Outcome:
        self._put_back()
        return self._command(fault=fault)

    def _put_back(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.template, self.folder, symlinks=True)
        if self.scene.beside is not None:
            self.scene.beside.put_back("template_of_scene")

    def _state(self) -> State:
        beside = {} if self.scene.beside is None else self.scene.beside.state()
        return {**state_of(self.folder), **beside}

    def faults(self, *, share: float = 1.0, seed: int = 0) -> Iterator[Fault]:
        """Yield what may go wrong: every call in every way, or a part of that drawn at random."""
        draw = random.Random(f"{self.scene.name} {seed}")
        for number, (each, by) in enumerate(
            zip(self.baseline.calls, self.baseline.by, strict=True), 1
        ):
            kinds = ["kill", "eio"]
            kinds += ["die"] if by else []
            kinds += ["full"] if each.room else []
            kinds += ["short"] if each.name in WRITES else []
            yield from (Fault(kind, number) for kind in kinds if draw.random() < share)
        reading = self._after_the_command(Fault("unread", 1 << 40))
        numbers = range(1, len(reading.calls) + 1)
        for number in sorted(draw.sample(numbers, min(READS, len(numbers)))):
            if draw.random() < share:
                yield Fault("unread", number)

    def faults_at(self, pattern: str) -> list[Fault]:
        """Return one fault at the calls whose name and path match, as `eio:rename .*HEAD`."""
        kind, _, shape = pattern.partition(":")
        run = self._after_the_command(Fault(kind, 1 << 40)) if kind == "unread" else self.baseline
        return [
            Fault(kind, number)
            for number, each in enumerate(run.calls, 1)
            if re.fullmatch(shape, f"{each.name} {each.path}")
        ]

    def inject(self, fault: Fault) -> Failure | None:
        """Let one call go wrong, and check what must hold."""
        outcome = self._after_the_command(fault)
        if outcome.hit is None:
            return None
        self.report.injections[fault.kind] += 1
        problems = _told(outcome)
        _let_time_pass(self.folder)
        state = self._state()
        key = frozenset(state.items()), outcome.code == 0
        if key not in self._judged:
            self._judged[key] = tuple(self._judge(state, outcome.text, succeeded=outcome.code == 0))
            self.report.states += 1
        problems += self._judged[key]
        if not problems:
            return None
        own = "" if not outcome.by[-1] and outcome.by else " of git" if any(outcome.by[-1:]) else ""
        where = f"{outcome.hit.name}{own} {outcome.hit.path}"
        failure = Failure(self.scene.name, str(fault), where, tuple(problems), outcome.text)
        self.report.failures.append(failure)
        return failure

    def _judge(self, state: State, said: str, *, succeeded: bool) -> list[str]:
        """Return what is wrong with the state that was left, and with doing it again."""
        found: list[str] = []
        if only_more(self.folder, state, self.begin):
            view = self.before
            if not succeeded and state != self.begin and self._draw.random() > REPEATED:
                return []
        else:
            shutil.copytree(self.folder, self.spare, symlinks=True)
            if self.scene.beside is not None:
                self.scene.beside.keep("spare")
            try:
                view, found = apart(lambda: (look(self.folder), unsound(self.folder)))
            except AssertionError as error:
                return [f"cannot be looked at: {_last_lines(error)}"]
            finally:
                # Looking mends what was left undone; the command is to find it as it was.
                shutil.rmtree(self.folder)
                self.spare.rename(self.folder)
                if self.scene.beside is not None:
                    self.scene.beside.put_back("spare")
            found += [
                f"{key} is neither as before nor as after: {_shown(view.get(key))}"
                for key in view.keys() | self.before.keys() | self.after.keys()
                if view.get(key) not in (self.before.get(key), self.after.get(key))
                and not _on_its_way(key, view.get(key))
                and not self.scene.undo
            ]
        done = view == self.after
        if done and not succeeded and "othing is changed" in said:
            found.append("it said that nothing is changed, and all is")
        # HEAD has moved, and a table did not come along.
        told = "Note: the table" in said
        if succeeded and not done and not told:
            found.append(f"it said that it succeeded; {_differing(view, self.after)} is not so")
        if done and not self.scene.again:
            return found
        if self.scene.undo and not (done or succeeded) and (problems := self._undone()):
            return [*found, *problems]
        instead = self.scene.instead if succeeded and told else ()
        outcome = self._command(arguments=instead, again=1)
        if outcome.code not in self.scene.codes and not (
            done and outcome.code in self.scene.accepted
        ):
            found.append(f"again, exit code {outcome.code}: {outcome.text.strip()[-300:]}")
        found += [f"again: {each}" for each in _told(outcome)]
        state = self._state()
        key = frozenset(state.items())
        if only_more(self.folder, state, self.end):
            self._finals[key] = ()
        if key not in self._finals:
            self._finals[key] = tuple(self._final())
        return [*found, *self._finals[key]]

    def _undone(self) -> list[str]:
        """Put back what was cut off, and return what is not as before."""
        outcome = self._command(arguments=self.scene.undo, again=1)
        problems = [f"{' '.join(self.scene.undo)}: {each}" for each in _told(outcome)]
        if outcome.code and "no merge to go on" not in outcome.text:
            problems.append(f"{' '.join(self.scene.undo)}: {outcome.text.strip()[-300:]}")
        view = apart(lambda: look(self.folder))
        if view != self.before:
            problems.append(f"put back, {_differing(view, self.before)} is not as before")
        return problems

    def _final(self) -> list[str]:
        try:
            view, found = apart(lambda: (look(self.folder), unsound(self.folder)))
        except AssertionError as error:
            return [f"at the end: {_last_lines(error)}"]
        found = [f"at the end: {each}" for each in found]
        if view != self.after:
            found.append(f"at the end {_differing(view, self.after)} is not as it should be")
        return found


def _on_its_way(key: str, value: Any) -> bool:
    """Whether this is a clone in the making, or commits of elsewhere whose data is to come.

    A pruning notes under refs of its own what the remote has, until the next one.
    """
    if "refs/havasu/prune/" in key:
        return True
    return key.startswith("new ") or ("/remotes/" in key and ABSENT in (value or ()))


def _let_time_pass(folder: Path) -> None:
    """Make locks that were left an hour old: a person looks at what happened, and tries again.

    The clock of commands stands still, so that of the files is ahead of it in a long run.
    """
    for lock in folder.rglob("*.lock"):
        then = min(lock.stat().st_mtime, NOW) - 3600
        os.utime(lock, (then, then))


def _told(outcome: Outcome) -> list[str]:
    """Return what is wrong with how a command ended."""
    found = []
    if outcome.hung:
        found.append("it did not end")
    if outcome.orphans:
        found.append(f"{outcome.orphans} processes outlived it")
    if "Traceback" in outcome.text or "internal error" in outcome.text:
        found.append(f"it was not caught: {outcome.text.strip()[-200:]}")
    if outcome.code > 0 and "rror: " not in outcome.text:
        found.append(f"exit code {outcome.code} without a word")
    return found


def _differing(view: View, other: View) -> str:
    keys = sorted(k for k in view.keys() | other.keys() if view.get(k) != other.get(k))
    return ", ".join(f"{key} ({_shown(view.get(key))})" for key in keys[:4])


def _shown(value: Any) -> str:
    return f"{len(value)} versions" if isinstance(value, tuple) else repr(value)[:200]


def _last_lines(error: AssertionError) -> str:
    return " ".join(str(error).strip().splitlines()[-2:])


def table(reports: Sequence[Report], kinds: Sequence[str]) -> str:
    """Return a table of injections by command and fault."""
    width = max(len("command"), *(len(r.scene) for r in reports))
    head = ["calls", *kinds, "all", "states", "failures"]
    lines = [f"{'command':{width}}  " + "".join(f"{h:>9}" for h in head)]
    sums: list[int] = [0] * len(head)
    for r in reports:
        numbers = [r.calls, *(r.injections[k] for k in kinds), r.injections.total(), r.states]
        numbers.append(len(r.failures))
        sums = [a + b for a, b in zip(sums, numbers, strict=True)]
        lines.append(f"{r.scene:{width}}  " + "".join(f"{n:>9,}" for n in numbers))
    lines.append(f"{'all':{width}}  " + "".join(f"{n:>9,}" for n in sums))
    return "\n".join(lines)
