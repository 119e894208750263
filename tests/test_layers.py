"""The architecture, as far as a machine can hold it.

`LAYERS` is the order of the parts: a module imports its own part and what stands in
an earlier row, whether at its top, inside a function or for the type checker only.
`HOMES` says where each third-party library lives. The checks read source text, so
the tests at the end can show that each of them fails when it should.
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "havasu_vc"

# From the bottom up; parts in one row do not know each other.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "methods", "public", "quick_arrow", "records"),
    ("model",),
    ("geo",),
    ("formats",),
    ("store",),
    ("datasets",),
    ("engine",),
    ("tables",),
    ("history",),
    ("writers", "workspace", "exchange", "remotes"),
    ("repo",),
    ("merging",),
    ("looking",),
    ("sharing",),
    ("checkouts",),
    ("upkeep",),
    ("transfer",),
    ("editing",),
    ("review",),
    ("querying",),
    ("library",),
    ("__init__", "serving", "spark"),
    ("face",),
    ("cli",),
)
HEIGHT = {part: height for height, row in enumerate(LAYERS) for part in row}

# Where a module names a later part in a text, to be loaded by that name: the one registry of
# diff formats, two of which a review prints.
NAMED = frozenset({("writers/registry.py", "review")})

# Packages of use cases: others import what their public module names, and nothing inside.
USE_CASES = frozenset(
    {
        "checkouts",
        "editing",
        "looking",
        "merging",
        "querying",
        "review",
        "sharing",
        "transfer",
        "upkeep",
    }
)

EVERYWHERE = frozenset({"numpy", "pyarrow"})
HOMES: dict[str, frozenset[str]] = {
    "botocore": frozenset({"serving"}),
    "click": frozenset({"cli"}),
    "hypothesis": frozenset({"testing"}),
    "msgpack": frozenset({"formats"}),
    "py4j": frozenset({"engine", "spark"}),
    "pygit2": frozenset({"store"}),
    "pyogrio": frozenset({"exchange"}),
    "pyproj": frozenset({"geo"}),
    "pyspark": frozenset({"engine", "spark"}),
    "pytest": frozenset({"testing"}),
    "rasterio": frozenset({"geo", "exchange"}),
    "rich": frozenset({"cli"}),
    "shapely": frozenset({"geo"}),
    "starlette": frozenset({"face", "serving"}),
    "uvicorn": frozenset({"serving"}),
}
# Optional: each lives in the one file that uses it.
ONE_FILE = frozenset({"botocore", "duckdb", "geopandas", "obstore", "pandas", "polars", "psycopg"})

# Slow to load and not needed by most runs: imported where they are used.
HEAVY = ONE_FILE | {
    "pyogrio", "pyproj", "pyspark", "py4j", "rasterio", "shapely", "starlette", "uvicorn",
}  # fmt: skip
# These exist for the sake of what is heavy, and may import it at their top.
EAGER = frozenset({"face", "serving", "spark", "testing"})
# Other libraries are imported at the top, but for what only some command lines need.
MAY_BE_LATE = HEAVY | {"click", "rich"}
# With these come the clients of all stores of objects; what reads no file needs neither.
HEAVY_MODULES = frozenset({"pyarrow.fs", "pyarrow.parquet"})
# Our own modules are imported at the top too, but by those who know all and need little.
FACADES = frozenset({"__init__", "cli", "library", "repo"}) | USE_CASES
# Other modules that import one of ours late, each with its reason.
LATE: dict[str, str] = {
    "datasets/havasu/view.py": "most commands only read, and what writes files is much",
    "datasets/kart/view.py": "most commands only read, and what makes features is much",
    "datasets/havasu/diff.py": "most diffs are small, and how large ones are cut is much",
    "engine/settings.py": "most commands need no engine",
    "engine/local.py": "few plans deal rows out",
    "workspace/snapshots.py": "most checkouts write no delete file, and that needs Parquet",
    "exchange/living_home.py": "few commands make a file, and what writes one is much",
    "history/diff.py": "few diffs are sorted, and other kinds of datasets bring their formats",
    "history/merge_datasets.py": "most merges are small, and what owners of keys need is much",
    "datasets/havasu/soundness.py": "most trees were found sound before, and columns need Arrow",
    "datasets/havasu/file_columns.py": "most records are only read, and hashing cells is much",
    "datasets/kart/soundness.py": "most meta items were found sound before, and columns need Arrow",
    "datasets/havasu/pieces.py": "few tables lie in no key order, and matching their rows is much",
    "datasets/havasu/entries.py": "few tables hold places on a globe",
    "datasets/havasu/writing.py": "most tables hold no rasters, and what outlines them is much",
    "writers/rasters.py": "most tables hold no rasters, and what reads them is many modules",
    "exchange/frames.py": "each write of rows loads it, an import in a box alone what reads files",
    "exchange/duckdb.py": "DuckDB reads most files, and Arrow's datasets bring pandas",
    "exchange/duckdb_functions.py": "few queries call functions of geometries, which are much",
    "exchange/sources.py": "an import reads one format, and each brings modules of its own",
    "engine/choose.py": "most runs are local, and Spark's engine brings half a dozen modules",
    "remotes/lfs.py": "few runs download, and what talks to servers brings 5 MB of OpenSSL",
    "store/objects.py": "most runs write no pack, and packs need numpy",
}

# Modules that know each other once a function has run, each group with its reason.
LATE_CYCLES = {
    ("review/notebook.py", "review/report.py"): "a review shows itself, and most only in a terminal"
}

# A kind of dataset is known to its own packages alone: whoever has one holds a `Dataset`.
KART = ("havasu_vc.datasets.kart", "havasu_vc.formats.kart")
KNOWS_KART = {
    "upkeep/feature_envelopes.py": "it is Kart's index of the features that its tables have in git",
    "upkeep/upgrading.py": "it makes V3 of Kart's older forms, which no other kind has",
}
# Data files are Havasu's, and a table in a folder or a bucket is made of them. These parts never
# see one, so what they do they do with datasets of any kind.
SEE_NO_FILES = frozenset({"cli", "engine", "library", "merging", "remotes", "repo", "writers"})

MOST_LINES = 600
LONGEST_FUNCTION = 60


@dataclass(frozen=True, slots=True)
class Import:
    """One module that another one imports."""

    target: str
    """The dotted name; for `from a import b` it is `a.b`."""
    line: int
    late: bool
    """Whether it is inside a function."""
    for_types: bool
    """Whether it is under `if TYPE_CHECKING`."""

    @property
    def library(self) -> str:
        return self.target.partition(".")[0]


def imports(tree: ast.AST, *, late: bool = False, for_types: bool = False) -> Iterator[Import]:
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield Import(alias.name, node.lineno, late, for_types)
            case ast.ImportFrom(module=module, names=names, level=level):
                for alias in names:
                    name = f"{'.' * level}{module or ''}.{alias.name}"
                    yield Import(name, node.lineno, late, for_types)
            case ast.If(test=test, body=body, orelse=orelse):
                typing_only = ast.unparse(test).endswith("TYPE_CHECKING")
                yield from imports(
                    ast.Module(body, []), late=late, for_types=for_types or typing_only
                )
                yield from imports(ast.Module(orelse, []), late=late, for_types=for_types)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from imports(node, late=True, for_types=for_types)
            case ast.expr():
                pass  # in which there are no statements
            case _:
                yield from imports(node, late=late, for_types=for_types)


@cache
def parsed(source: str) -> ast.Module:
    """Return the tree of a module, made once."""
    return ast.parse(source)


@cache
def imported(source: str) -> tuple[Import, ...]:
    """Return what a module imports."""
    return tuple(imports(parsed(source)))


def part_of(module: str) -> str:
    """Return the part that a path below the package, such as `geo/wkb.py`, belongs to."""
    return module.split("/")[0].removesuffix(".py")


def wrong_import(module: str, each: Import) -> str | None:
    """Return what is wrong with an import by `module`, if anything is."""
    part = part_of(module)
    if each.target.startswith("."):
        return "is relative"
    if each.library == "havasu_vc":
        if each.late and not each.for_types and part not in FACADES and module not in LATE:
            return "only what is heavy is imported late"
        return wrong_direction(part, each)
    if each.library in sys.stdlib_module_names:
        return None
    if part == "errors":
        return "errors need the standard library alone"
    if part not in HOMES.get(each.library, {part}):
        return f"{each.library} is at home in {', '.join(sorted(HOMES[each.library]))}"
    if each.library not in HOMES.keys() | EVERYWHERE | ONE_FILE:
        return f"{each.library} has no home"
    may_be_late = each.library in MAY_BE_LATE or each.target in HEAVY_MODULES
    if each.late and not each.for_types and not may_be_late:
        return "only what is heavy is imported late"
    if each.library in HEAVY and part not in EAGER and not (each.late or each.for_types):
        return f"{each.library} is heavy: import it in the function that needs it"
    return None


def wrong_kind(module: str, each: Import) -> str | None:
    """Return why a module must not know the kind of dataset that it imports something of."""
    part = part_of(module)
    if part in ("datasets", "formats", "testing"):
        return None
    if each.target.startswith(KART) and module not in KNOWS_KART:
        return "only the packages of a kind know it"
    if each.target.startswith("havasu_vc.datasets.havasu") and part in SEE_NO_FILES:
        return f"{part} asks a Dataset, whatever its kind"
    return None


def wrong_direction(part: str, each: Import) -> str | None:
    if each.target == "havasu_vc.__version__":
        return None
    target = each.target.split(".")[1] if "." in each.target else "__init__"
    if target == part:
        return None
    if target == "testing":
        return "testing is for tests"
    if target not in HEIGHT:
        return f"{target} is not a part"
    if target in USE_CASES and len(each.target.split(".")) > 3:
        return f"only what the public module of {target} names may be used elsewhere"
    ceiling = HEIGHT["cli"] if part == "testing" else HEIGHT[part]
    return None if HEIGHT[target] < ceiling else f"{part} stands below {target} or beside it"


def problems(module: str, source: str) -> list[str]:
    """Return what is wrong with a module, given its path below the package and its text."""
    part, tree = part_of(module), parsed(source)
    if part not in HEIGHT and part != "testing":
        return [f"{module}: {part} has no place in LAYERS"]
    found = [
        f"{module}:{each.line}: imports {each.target}: {wrong}"
        for each in imported(source)
        if (wrong := wrong_import(module, each) or wrong_kind(module, each))
    ]
    if not ast.get_docstring(tree):
        found.append(f"{module}: has no docstring")
    lines = len(source.splitlines())
    if lines > MOST_LINES:
        found.append(f"{module}: has {lines} lines")
    return found


def module_named(name: str, modules: Mapping[str, str]) -> str | None:
    """Return the path below the package of what a dotted name is in."""
    parts = name.split(".")[1:]
    for end in range(len(parts), 0, -1):
        path = "/".join(parts[:end])
        for module in (f"{path}.py", f"{path}/__init__.py"):
            if module in modules:
                return module
    return None


def named_later(modules: Mapping[str, str]) -> set[tuple[str, str]]:
    """Return the modules whose texts name a part that they may not import, and that part."""
    found = set()
    for module, source in modules.items():
        part = part_of(module)
        for node in ast.walk(parsed(source)):
            text = node.value if isinstance(node, ast.Constant) else None
            name = re.match(r"havasu_vc\.(\w+)[\w.]*(?::\w+)?\Z", text if type(text) is str else "")
            other = None if name is None else name[1]
            if other in HEIGHT and part in HEIGHT and other != part:
                if HEIGHT[other] >= HEIGHT[part]:
                    found.add((module, other))
    return found


def dodged_cycles(modules: Mapping[str, str]) -> list[str]:
    """Return the late imports that would close a cycle if they stood at the top."""
    at_top: dict[str, set[str]] = {module: set() for module in modules}
    late: list[tuple[str, str]] = []
    for module, source in modules.items():
        for each in imported(source):
            target = module_named(each.target, modules) if each.library == "havasu_vc" else None
            if target is None or target == module or each.for_types:
                continue
            if each.late:
                late.append((module, target))
            else:
                at_top[module].add(target)
    return [f"{module} and {target}" for module, target in late if reaches(target, module, at_top)]


def cycles(modules: Mapping[str, str], *, late: bool = False) -> list[list[str]]:
    """Return the groups of modules that know each other, be it for the type checker alone.

    With `late`, also inside of functions.
    """
    edges: dict[str, set[str]] = {}
    for module, source in modules.items():
        edges[module] = {
            target
            for each in imported(source)
            if late or each.for_types or not each.late
            if each.library == "havasu_vc" and each.target != "havasu_vc.__version__"
            if (target := module_named(each.target, modules)) not in (None, module)
        }
    beyond = {module: reached(module, edges) for module in modules}
    groups = {
        frozenset(other for other in beyond[module] if module in beyond[other])
        for module in modules
    }
    return sorted(sorted(group) for group in groups if len(group) > 1)


def reached(start: str, edges: Mapping[str, set[str]]) -> set[str]:
    """Return a module and all that it leads to."""
    seen, waiting = {start}, [start]
    while waiting:
        for following in edges[waiting.pop()] - seen:
            seen.add(following)
            waiting.append(following)
    return seen


def reaches(start: str, end: str, edges: Mapping[str, set[str]]) -> bool:
    return end in reached(start, edges)


MODULES = {
    path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted(SOURCE.rglob("*.py"))
}


def test_every_part_and_library_of_the_tables_is_there() -> None:
    used = {each.library for text in MODULES.values() for each in imported(text)}

    assert HEIGHT.keys() <= {part_of(module) for module in MODULES}
    assert HOMES.keys() | EVERYWHERE | ONE_FILE <= used


@pytest.mark.parametrize("module", MODULES)
def test_module_keeps_the_rules(module: str) -> None:
    assert problems(module, MODULES[module]) == []


@pytest.mark.parametrize("library", sorted(ONE_FILE))
def test_optional_library_lives_in_one_file(library: str) -> None:
    users = [
        module
        for module, source in MODULES.items()
        if any(each.library == library for each in imported(source))
    ]

    assert len(users) <= 1


def long_functions(source: str) -> list[str]:
    """Return the functions of a module that are too long to be read at once."""
    return [
        node.name
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if node.end_lineno is not None and node.end_lineno - node.lineno >= LONGEST_FUNCTION
    ]


def test_functions_are_read_at_once() -> None:
    found = {module: long_functions(source) for module, source in MODULES.items()}
    assert {module: names for module, names in found.items() if names} == {}
    assert long_functions("def f():\n" + "    x = 1\n" * (LONGEST_FUNCTION - 1)) == []
    assert long_functions("def f():\n" + "    x = 1\n" * LONGEST_FUNCTION) == ["f"]


def test_the_core_is_small() -> None:
    core = [source for module, source in MODULES.items() if part_of(module) == "repo"]
    assert sum(len(source.splitlines()) for source in core) < 2500


def test_records_are_made_the_quick_way() -> None:
    slow = [
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if re.search(r"^from dataclasses import .*\bdataclass\b", path.read_text(), re.MULTILINE)
    ]
    assert slow == ["records.py"]


def test_commands_and_spark_hold_a_repo_and_not_its_inside() -> None:
    inside = [
        f"{module}:{node.lineno}"
        for module, source in MODULES.items()
        if part_of(module) in ("cli", "spark")
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.Attribute) and node.attr == "opened"
    ]
    assert inside == []


def test_nobody_asks_for_the_class_of_a_dataset() -> None:
    asked = [
        f"{module}:{node.lineno}"
        for module, source in MODULES.items()
        if part_of(module) not in ("datasets", "testing")
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance"
        if re.search(r"(Havasu|Kart|Stored|Far)Dataset", ast.unparse(node.args[1]))
    ]
    assert asked == []


def compares_kinds(source: str) -> list[int]:
    """Return the lines that compare a kind of dataset with the name of one."""
    return [
        node.lineno
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.Compare)
        and re.search(r"\bkind\b", ast.unparse(node))
        and re.search(r"['\"](kart|havasu)['\"]|(KART|HAVASU|TABLE)_MARKER", ast.unparse(node))
    ]


def test_nobody_compares_names_of_kinds() -> None:
    found = {m: compares_kinds(s) for m, s in MODULES.items() if part_of(m) != "datasets"}
    assert {module: lines for module, lines in found.items() if lines} == {}
    assert compares_kinds('if view.kind == "kart":\n    pass') == [1]
    assert compares_kinds("same = old.kind == new.kind") == []


def test_no_text_names_a_later_part_unsaid() -> None:
    assert named_later(MODULES) == NAMED
    assert named_later({"geo/wkb.py": 'NAMES = ("havasu_vc.store.trees", "find")'}) == {
        ("geo/wkb.py", "store")
    }
    assert named_later({"store/trees.py": 'RUN = "havasu_vc.geo.wkb:parse"'}) == set()


def test_no_late_import_dodges_a_cycle() -> None:
    assert dodged_cycles(MODULES) == []


def test_no_modules_know_each_other() -> None:
    assert cycles(MODULES) == []
    assert {tuple(group) for group in cycles(MODULES, late=True)} == LATE_CYCLES.keys()


def test_a_cycle_for_types_alone_is_found() -> None:
    named = "if TYPE_CHECKING:\n    from havasu_vc.geo.b import x"
    modules = {"geo/a.py": named, "geo/b.py": "from havasu_vc.geo.c import f", "geo/c.py": ""}

    assert cycles(modules) == []
    assert cycles(modules | {"geo/c.py": "from havasu_vc.geo.a import y"}) == [
        ["geo/a.py", "geo/b.py", "geo/c.py"]
    ]
    late = modules | {"geo/c.py": "def f():\n    from havasu_vc.geo.a import y"}
    assert cycles(late) == []
    assert cycles(late, late=True) == [["geo/a.py", "geo/b.py", "geo/c.py"]]


def test_exceptions_are_still_needed() -> None:
    def imports_late(module: str) -> bool:
        return any(each.late for each in imported(MODULES.get(module, "")))

    def knows_kart(module: str) -> bool:
        return any(each.target.startswith(KART) for each in imports(ast.parse(MODULES[module])))

    assert [m for m in LATE if not imports_late(m)] == []
    assert [m for m in KNOWS_KART if not knows_kart(m)] == []


def test_the_architecture_page_shows_the_layers() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    shown = [tuple(part.strip(" `") for part in row.split(",")) for row in rows]

    inside = [tuple(p for p in row if not p.startswith("__")) for row in LAYERS]
    assert shown == [row for row in inside if row]


# What follows shows that the checks can fail.

GOOD = {
    "the standard library": ("errors.py", "import enum"),
    "a lower part": ("geo/wkb.py", "from havasu_vc.errors import GeometryError"),
    "its own part": ("geo/wkb.py", "from havasu_vc.geo.buffers import Kind"),
    "columns everywhere": ("cli/diff.py", "import pyarrow.compute as pc"),
    "a heavy library, late": ("geo/crs.py", "def f():\n    import pyproj"),
    "a heavy library, for types": (
        "engine/spark.py",
        "if TYPE_CHECKING:\n    from pyspark.sql import SparkSession",
    ),
    "Spark for those who came for it": ("spark/session.py", "import pyspark"),
    "the version": ("formats/entry.py", "from havasu_vc import __version__"),
    "a lower part by its package": ("geo/wkb.py", "from havasu_vc import errors"),
    "Repo by its repository": ("cli/diff.py", "from havasu_vc.library import Repo"),
    "a use case by its public module": ("cli/log.py", "from havasu_vc.looking import log"),
    "the inside of its own": ("looking/log.py", "from havasu_vc.looking.rows import rows"),
    "a lower package": ("repo/branches.py", "from havasu_vc.writers.text import TextWriter"),
    "what is exported, late": ("__init__.py", "def f():\n    from havasu_vc.library import Repo"),
    "one of ours, late, by who knows all": (
        "cli/log.py",
        "def f():\n    from havasu_vc.library import Repo",
    ),
    "progress bars, late": ("cli/progress.py", "def f():\n    import rich.progress"),
    "all but cli, for tests": ("testing/memory.py", "from havasu_vc.library import Repo"),
}

BAD = {
    "a higher part": ("model/schema.py", "from havasu_vc.geo.wkb import parse_wkb", "below geo"),
    "a sibling": ("writers/text.py", "import havasu_vc.exchange.csv", "beside it"),
    "a sibling by its package": ("remotes/lfs.py", "from havasu_vc import writers", "beside it"),
    "a use case above": ("merging/trees.py", "from havasu_vc.review import review", "below review"),
    "the inside of another": (
        "review/reviewing.py",
        "from havasu_vc.merging.trees import merge_trees",
        "only what the public module of merging names",
    ),
    "a kind of dataset": (
        "transfer/imports.py",
        "from havasu_vc.datasets.kart.view import KartDataset",
        "only the packages of a kind",
    ),
    "the documents of a kind": (
        "writers/json_lines.py",
        "from havasu_vc.formats.kart.columns import format_wkt",
        "only the packages of a kind",
    ),
    "data files": (
        "merging/views.py",
        "from havasu_vc.datasets.havasu.view import HavasuDataset",
        "whatever its kind",
    ),
    "a higher part, late": ("store/packs.py", "def f():\n    import havasu_vc.repo", "late"),
    "a higher part, for types": (
        "store/objects.py",
        "if TYPE_CHECKING:\n    from havasu_vc.library import Repo",
        "below library",
    ),
    "a higher part in an else": (
        "geo/wkb.py",
        "if TYPE_CHECKING:\n    pass\nelse:\n    import havasu_vc.cli.main",
        "below cli",
    ),
    "an export of the whole": ("cli/diff.py", "from havasu_vc import Repo", "not a part"),
    "the whole": ("history/diff.py", "import havasu_vc", "below __init__"),
    "a relative name": ("geo/wkb.py", "from . import kinds", "relative"),
    "something for tests": ("repo.py", "import havasu_vc.testing.memory", "for tests"),
    "cli from tests": ("testing/memory.py", "import havasu_vc.cli.main", "below cli"),
    "its own part, late": ("geo/wkb.py", "def f():\n    import havasu_vc.geo.wkt", "late"),
    "something light, late": ("cli/diff.py", "def f():\n    import numpy", "late"),
    "something heavy at once": ("geo/crs.py", "import pyproj", "heavy"),
    "something heavy at once in a class": ("geo/crs.py", "class A:\n    import pyproj", "heavy"),
    "something heavy in a try": (
        "exchange/ogr.py",
        "try:\n    import pyogrio\nexcept ImportError:\n    pass",
        "heavy",
    ),
    "click below cli": ("writers/text.py", "import click", "at home in cli"),
    "rich below cli": ("repo.py", "from rich.console import Console", "at home in cli"),
    "git outside the store": ("history/log.py", "import pygit2", "at home in store"),
    "somebody else's library": ("geo/wkb.py", "import requests", "no home"),
    "a library in errors": ("errors.py", "import pyarrow", "standard library"),
}


@pytest.mark.parametrize(("module", "source"), GOOD.values(), ids=GOOD)
def test_good_import_passes(module: str, source: str) -> None:
    assert problems(module, f'"""What."""\n{source}') == []


@pytest.mark.parametrize(("module", "source", "reason"), BAD.values(), ids=BAD)
def test_bad_import_is_found(module: str, source: str, reason: str) -> None:
    (problem,) = problems(module, f'"""What."""\n{source}')

    assert reason in problem


def test_dodged_cycle_is_found() -> None:
    modules = {
        "repo/a.py": "def f():\n    from havasu_vc.repo.b import x",
        "repo/b.py": "from havasu_vc.repo.c.d import y",
        "repo/c/__init__.py": "",
        "repo/c/d.py": "from havasu_vc.repo.a import f",
    }

    assert dodged_cycles(modules) == ["repo/a.py and repo/b.py"]
    assert dodged_cycles(modules | {"repo/c/d.py": "from havasu_vc.model import a"}) == []


def test_part_without_a_place_is_found() -> None:
    assert problems("helpers/text.py", '"""What."""') == [
        "helpers/text.py: helpers has no place in LAYERS"
    ]


def test_missing_docstring_is_found() -> None:
    assert problems("geo/wkb.py", "x = 1") == ["geo/wkb.py: has no docstring"]


@pytest.mark.parametrize(("lines", "found"), [(MOST_LINES, 0), (MOST_LINES + 1, 1)])
def test_long_module_is_found(lines: int, found: int) -> None:
    assert len(problems("geo/wkb.py", '"""What."""\n' + "x = 1\n" * (lines - 1))) == found
