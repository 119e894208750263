"""Tests upon mutants: collected once, timed once, and run in a fork for each mutant.

The tests of a group are run as they are, each with the time it takes and the lines of the
group's modules that it runs. A mutant meets those that run its line, what kills most for its time
first, in a child that has all modules loaded: a function's code is exchanged where it is. A change
of a module's own lines (a constant, a default) cannot be, so a child begins anew for it.
"""

from __future__ import annotations

import ast
import builtins
import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import pickle
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType

import pytest

from tests.mutants.mutating import Mutant
from tests.support import templates

ROOT = Path(__file__).parents[2]
PATIENCE = 5
"""How many times as long tests may take upon a mutant, which else does not end and is killed."""
FIXTURES = 10
"""Seconds that what is made once for several tests may take in the first of them."""
MEMORY = 6 << 30
"""What a mutant may take before it is killed."""
LATE = sys.maxsize - 1
"""Stands for a child that did not end in time."""
OPTIONS = [
    "-q",
    "-s",
    "--tb=no",
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",
    "-m",
    "not spark and not slow",
]


def path_of(module: str) -> str:
    return str(ROOT / f"{module.replace('.', '/')}.py")


@dataclass
class Outcome:
    """What became of the mutants of a module."""

    made: int
    run: int = 0
    killed: int = 0
    late: int = 0
    """How many of those killed did not end in time, which on a busy machine says little."""
    alive: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    """Those whose lines no test runs; they survive as well."""

    def take(self, mutant: str, became: str) -> None:
        """Count a mutant."""
        self.run += 1
        self.killed += became in ("killed", "late")
        self.late += became == "late"
        if became in ("alive", "unseen"):
            (self.alive if became == "alive" else self.unseen).append(mutant)


@dataclass
class _Timed:
    """A test, as it is."""

    item: pytest.Item
    seconds: float
    lines: set[tuple[str, int]]
    kills: int = 0


class Warm:
    """A pytest plugin that runs the tests upon mutants, where pytest would just run them."""

    def __init__(
        self,
        chosen: dict[str, Sequence[Mutant]],
        each: float,
        end: Callable[[str], float],
        tell: Callable[[str], None],
        note: Callable[[str, str, str], None] = lambda module, mutant, what: None,
        times: Path | None = None,
    ) -> None:
        self.chosen = chosen
        self.each = each
        """Seconds of tests that a mutant meets at most."""
        self.end = end
        self.tell = tell
        self.note = note
        """Keeps what became of a mutant of a module: `killed`, `late`, `alive` or `unseen`."""
        self.times = times
        """Where it is kept which lines the tests run, and how long; None to forget it."""
        self.outcomes: dict[str, Outcome] = {}
        self._failed = False
        self._folder = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        with tempfile.TemporaryDirectory(
            prefix="havasu-mutants-", ignore_cleanup_errors=True
        ) as self._folder:
            return self._loop(session)

    def _loop(self, session: pytest.Session) -> bool:
        tests = self._as_they_are(session.items)
        seconds = sum(test.seconds for test in tests)
        self.tell(f"{len(tests)} tests of {', '.join(self.chosen)}: {seconds:.0f} s")
        for module, chosen in self.chosen.items():
            end = self.end(module)
            outcome = self.outcomes[module] = Outcome(len(chosen))
            original = compile(Path(path_of(module)).read_text(), path_of(module), "exec")
            for mutant in chosen:
                if time.monotonic() > end:
                    break
                became = self._meet(module, mutant, original, tests)
                outcome.take(mutant.name, became)
                self.note(module, mutant.name, became)
        return True

    def _meet(
        self, module: str, mutant: Mutant, original: CodeType, tests: Sequence[_Timed]
    ) -> str:
        """Run the tests upon a mutant, and return what became of it."""
        path = path_of(module)
        inside = _same_outside(original, mutant.code)
        those = [
            test
            for test in tests
            if not inside or any((path, line) in test.lines for line in mutant.lines)
        ]
        if not inside:
            those = [test for test in those if any(at == path for at, _ in test.lines)]
        those.sort(key=lambda test: (test.seconds + 0.01) / (1 + test.kills))
        chosen: list[_Timed] = []
        seconds = 0.0
        for test in those:
            seconds += test.seconds
            if chosen and seconds > self.each:
                break
            chosen.append(test)
        if not chosen:
            self.tell(f"  not run   {module}  {mutant.name}")
            return "unseen"
        limit = PATIENCE * sum(test.seconds for test in chosen) + 10
        if inside:
            index = self._tried(lambda: self._upon(module, mutant, chosen), limit)
        else:
            names = [test.item.nodeid for test in chosen]
            index = self._tried(lambda: _anew(module, mutant, names), limit + 30)
        if index is None:
            part = "" if len(chosen) == len(those) else f"  ({len(chosen)} of {len(those)} tests)"
            self.tell(f"  survives  {module}  {mutant.name}{part}")
            return "alive"
        if index < len(chosen):
            chosen[index].kills += 1
        if index != LATE:
            return "killed"
        self.tell(f"  no end    {module}  {mutant.name}")
        return "late"

    def _tried(self, work: Callable[[], int | None], limit: float) -> int | None:
        with tempfile.TemporaryDirectory(dir=self._folder, ignore_cleanup_errors=True) as folder:
            return _in_child(work, limit, folder)

    def _upon(self, module: str, mutant: Mutant, tests: Sequence[_Timed]) -> int | None:
        """Return which test fails upon a mutant."""
        loaded = sys.modules.get(module)
        if loaded is None:
            sys.meta_path.insert(0, _Mutated(module, mutant.code))
        else:
            _exchange(path_of(module), mutant.code)
        for index, test in enumerate(tests):
            # Of the processor: of a test that goes round for ever, on a busy machine too.
            signal.setitimer(signal.ITIMER_PROF, PATIENCE * test.seconds + FIXTURES)
            if self._fails(test.item, None):
                return index
        return None

    def _fails(self, item: pytest.Item, next_item: pytest.Item | None) -> bool:
        self._failed = False
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=next_item)
        return self._failed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed = self._failed or report.failed

    def _as_they_are(self, items: Sequence[pytest.Item]) -> list[_Timed]:
        """Return the tests that pass without a mutant."""
        file = self.times or Path(self._folder, "as-they-are")
        if not file.exists():
            _in_child(lambda: self._time(items, file), 3600, self._folder)
        found, loaded = pickle.loads(file.read_bytes())
        # What every child would make, load and compile anew.
        templates.make_empty(Path(self._folder))
        for name in loaded:
            with suppress(Exception):
                importlib.import_module(name)
        tests = []
        for item, (failed, seconds, lines) in zip(items, found, strict=True):
            if failed:
                self.tell(f"  fails as it is: {item.nodeid}")
            elif lines:
                tests.append(_Timed(item, seconds, lines))
        return tests

    def _time(self, items: Sequence[pytest.Item], file: Path) -> None:
        watched = _watched(self.chosen)
        found = []
        for item in items:
            with watched as lines:
                begin = time.process_time() + sum(os.times()[2:4])
                failed = self._fails(item, None)
                seconds = time.process_time() + sum(os.times()[2:4]) - begin
            found.append((failed, seconds, set(lines)))
        loaded = [
            name for name in sys.modules if name.partition(".")[0] not in ("tests", "__main__")
        ]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(pickle.dumps((found, loaded)))


class _watched:
    """The lines of files at which statements begin that are run, in whatever thread.

    Functions tell it themselves, of which each has been given code that does: a trace would be
    called for every function of everybody, and tests would take several times as long.
    """

    def __init__(self, modules: Collection[str]) -> None:
        self.lines: set[tuple[str, int]] = set()
        for module in modules:
            importlib.import_module(module)
            path = path_of(module)
            _exchange(path, compile(_telling(path), path, "exec"))
        setattr(builtins, _TELL, self.lines.add)

    def __enter__(self) -> set[tuple[str, int]]:
        self.lines.clear()
        return self.lines

    def __exit__(self, *_: object) -> None:
        pass


_TELL = "_havasu_line_is_run"


def _telling(path: str) -> ast.Module:
    """Return a module whose functions tell each statement that they come to."""
    tree = ast.parse(Path(path).read_text())

    def told(line: int) -> ast.Call:
        place = ast.Tuple([ast.Constant(path), ast.Constant(line)], ast.Load())
        return ast.Call(ast.Name(_TELL, ast.Load()), [place], [])

    def tell(node: ast.AST, line: int, inside: bool) -> None:
        for _, value in ast.iter_fields(node):
            many = value if isinstance(value, list) else [value]
            for child in [child for child in many if isinstance(child, ast.AST)]:
                begins = child.lineno if isinstance(child, ast.stmt) else line
                tell(child, begins, inside or isinstance(child, ast.FunctionDef | ast.Lambda))
                if isinstance(child, ast.Lambda):
                    both = ast.Tuple([told(line), child.body], ast.Load())
                    child.body = ast.Subscript(both, ast.Constant(1), ast.Load())
            if inside and isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                documented = isinstance(node, ast.FunctionDef) and ast.get_docstring(node)
                for place in reversed(range(1 if documented else 0, len(value))):
                    value.insert(place, ast.Expr(told(value[place].lineno)))

    tell(tree, 0, False)
    return ast.fix_missing_locations(tree)


def _in_child(work: Callable[[], int | None], limit: float, folder: str) -> int | None:
    """Return what work returns in a child process; a large number where that dies, or is late.

    It makes temporary files below a folder, which nobody who is killed removes.
    """
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(round(limit) + 1)
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            os.environ["TMPDIR"] = tempfile.tempdir = folder
            os.close(read)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            os.write(write, pickle.dumps(work()))
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as told:
        answer = told.read()
    _, status = os.waitpid(child, 0)
    if not answer:
        late = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGALRM, signal.SIGPROF)
        return LATE if late else sys.maxsize
    found: int | None = pickle.loads(answer)
    return found


def _anew(module: str, mutant: Mutant, tests: Sequence[str]) -> int | None:
    """Run tests in a process that has not loaded the module."""
    for name in [name for name in sys.modules if name.partition(".")[0] in ("havasu_vc", "tests")]:
        if name.partition(".")[0] == "havasu_vc" or name not in _OURS:
            del sys.modules[name]
    sys.meta_path.insert(0, _Mutated(module, mutant.code))
    return None if pytest.main(["-x", *OPTIONS, *tests]) == 0 else sys.maxsize


_OURS = ("tests", "tests.mutants", "tests.mutants.running", "tests.mutants.mutating")


class _Mutated(importlib.abc.MetaPathFinder):
    """Gives one module other code."""

    def __init__(self, module: str, code: CodeType) -> None:
        self.module = module
        self.code = code

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self.module:
            return None
        code = self.code

        class Loader(importlib.machinery.SourceFileLoader):
            def get_code(self, fullname: str) -> CodeType:
                return code

        place = path_of(name)
        return importlib.util.spec_from_file_location(name, place, loader=Loader(name, place))


def _exchange(path: str, code: CodeType) -> None:
    """Give all functions of a file the code of another."""
    new = {(made.co_qualname, made.co_firstlineno): made for made in _codes(code)}
    for value in gc.get_objects():
        if isinstance(value, FunctionType) and value.__code__.co_filename == path:
            old = value.__code__
            made = new.get((old.co_qualname, old.co_firstlineno))
            if made is not None and made.co_freevars == old.co_freevars:
                value.__code__ = made


def _codes(code: CodeType) -> Iterator[CodeType]:
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield value
            yield from _codes(value)


def _same_outside(one: CodeType, other: CodeType) -> bool:
    """Return whether two modules differ within functions only."""
    if one.co_code != other.co_code or one.co_names != other.co_names:
        return False
    if len(one.co_consts) != len(other.co_consts):
        return False
    for mine, theirs in zip(one.co_consts, other.co_consts, strict=True):
        if isinstance(mine, CodeType):
            is_class = not mine.co_flags & 0x1  # a function's locals are optimized
            if is_class and not _same_outside(mine, theirs):
                return False
        elif mine != theirs or type(mine) is not type(theirs):
            return False
    return True
