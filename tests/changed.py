"""Which tests a change can affect, by the table of layers: `python -m tests.changed [SINCE]`.

Prints what pytest is to run for what differs from the commit where this branch left SINCE
(`main` unless told), and says so where that is nothing. A test may notice a change of the parts
that it names, by itself or by what it imports of `tests`, and of all parts that stand lower: what
is called by its name alone, as kernels are, is found that way too. Whatever is not understood
here is a change of everything.
"""

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import PurePosixPath

from tests.test_layers import HEIGHT, ROOT, part_of

EVERYTHING = ["havasu_vc", "tests"]
PART = re.compile(r"\bhavasu_vc(?:\.| import )(\w+)")
# Modules for tests alone stand beside the table: what counts is what each of them names.
FOR_TESTS = re.compile(
    r"\bfrom ((?:tests|havasu_vc\.testing)[.\w]*) import ([\w, ]+|\([^)]*\))|\bimport (tests[.\w]+)"
)
# What a test names besides modules, and the part that it is: fixtures, and the program.
NAMED = {
    "spark": re.compile(r"\b(?:spark|iceberg): |\bmark\.spark\b|\"spark\""),
    "cli": re.compile(r"""["'/]havasu-vc["']"""),
}
FIRST = "tests/conftest.py"
# What is said to people, and shown by some tests.
TEXTS = ("docs/", "README.md", "CHANGELOG.md", "CONTRIBUTING.md")
# Nothing that a test looks at.
NOTHING = (".github/", ".ci/", "LICENSE", ".editorconfig", ".gitignore")


def changed_files(since: str) -> list[str]:
    """Return the paths that differ from where this branch left another, new files as well."""
    start = _git("merge-base", since, "HEAD")
    found = _git("diff", "--name-only", "--no-renames", start).splitlines()
    return sorted({*found, *_git("ls-files", "--others", "--exclude-standard").splitlines()})


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


def affected(changed: Iterable[str], sources: Mapping[str, str]) -> list[str]:
    """Return the paths of tests that may notice a change of some paths.

    `sources` are the texts of the modules for tests, by their paths.
    """
    parts, others = set[str](), set[str]()
    found = set[str]()
    # What the first conftest does, it does for all.
    of_all = {FIRST, *imported(sources[FIRST], sources)}
    for path in changed:
        if path in of_all:
            return EVERYTHING
        if path in sources:
            others.add(path)
        elif path.startswith("havasu_vc/") and path.endswith(".py"):
            parts.add(part_of(path.removeprefix("havasu_vc/")))
        elif path.startswith(TEXTS):
            found |= {test for test, text in _tests(sources) if "docs" in text}
        elif path.startswith("tests/") and len(PurePosixPath(path).parts) > 2:
            # Something that tests beside it read, or a module that is gone.
            found |= {test for test, _ in _tests(sources) if _is_beside(test, path)}
        elif not path.startswith(NOTHING):
            return EVERYTHING
    if not parts <= HEIGHT.keys():
        return EVERYTHING
    for test, _ in _tests(sources):
        modules = reached(test, sources)
        if modules & others or any(notices(sources[module], parts) for module in modules):
            found.add(test)
        # These look at the package as a whole, if not at texts.
        if parts and PurePosixPath(test).parent == PurePosixPath("tests"):
            found.add(test)
    return sorted(found | {_place(part) for part in HEIGHT if stands_on(part, parts)})


def _place(part: str) -> str:
    """Return where a part is, with its doctests."""
    return f"havasu_vc/{part}" if (ROOT / "havasu_vc" / part).is_dir() else f"havasu_vc/{part}.py"


def _is_beside(test: str, path: str) -> bool:
    """Return whether a test is of the same folder just below `tests` as something else."""
    return test.split("/")[:2] == path.split("/")[:2]


def _tests(sources: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return (
        (path, text)
        for path, text in sources.items()
        if PurePosixPath(path).name.startswith("test_")
    )


def reached(path: str, sources: Mapping[str, str]) -> set[str]:
    """Return a module for tests, those that it imports, and what gives them fixtures."""
    seen, waiting = set[str](), [path]
    while waiting:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        waiting += imported(sources[module], sources)
        # The first conftest is for all: what it has of Spark, a test names by its fixture.
        beside = (f"{folder}/conftest.py" for folder in PurePosixPath(module).parents)
        waiting += [each for each in beside if each in sources and each != FIRST]
    return seen


def imported(text: str, sources: Mapping[str, str]) -> list[str]:
    """Return the modules for tests that a text imports."""
    names = []
    for package, inside, whole in FOR_TESTS.findall(text):
        names.append(whole or package)
        names += [f"{package}.{name}" for name in re.findall(r"\w+", inside)]
    paths = (name.replace(".", "/") for name in names)
    return [
        found
        for path in paths
        for found in (f"{path}.py", f"{path}/__init__.py")
        if found in sources
    ]


def notices(text: str, parts: set[str]) -> bool:
    """Return whether what a text names may behave otherwise when some parts change."""
    return any(stands_on(part, parts) for part in named(text))


@cache
def named(text: str) -> frozenset[str]:
    """Return the parts that a text names."""
    found = set(PART.findall(text)) | {part for part, name in NAMED.items() if name.search(text)}
    # What is exported by the package itself is of its uppermost part but the command line.
    return frozenset(part if part in HEIGHT else "__init__" for part in found - {"testing"})


def stands_on(part: str, parts: set[str]) -> bool:
    """Return whether a part is one of some, or may import one."""
    return part in parts or any(HEIGHT[below] < HEIGHT[part] for below in parts)


def modules_for_tests() -> dict[str, str]:
    """Return the texts of all modules for tests, by their paths."""
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for folder in (ROOT / "havasu_vc" / "testing", ROOT / "tests")
        for path in sorted(folder.rglob("*.py"))
    }


def main(arguments: list[str]) -> int:
    found = affected(changed_files(*arguments or ["main"]), modules_for_tests())
    if not found:
        print("Nothing changed that a test could notice", file=sys.stderr)
        return 1
    print(*found, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
