"""Which test stands for which rule of the specifications, and the page that says so.

Rules stand in `rules.toml`, one line each. A test names those that break it when they are
broken: `@pytest.mark.rule("ICE-81")`, on a function or on one case of it. The tests are
read, not run, so the page is the same on every machine.
"""

import ast
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parents[1]
RULES = Path(__file__).with_name("rules.toml")

TITLES = {
    "HAV": "Havasu table 0.1.0",
    "ICE": "Apache Iceberg, versions 1 and 2",
    "PQ": "Parquet geospatial types",
    "KART": "Kart's Table Datasets V3, where the page and Kart differ as Kart has it",
    "DEL": "Delta Lake geospatial types (a proposal)",
}
PUBLIC = (
    *("cli/", "compat/", "conformance/", "face/", "hostile/", "remotes/", "repo/", "review/"),
    *("serving/", "spark/", "weeks/"),
)
"""The folders whose tests do what a user can: commands, methods of `Repo`, servers, Spark."""

INTRODUCTION = """# Conformance

What the specifications ask for, rule by rule, and the tests that fail where it is not so.
*Derived* rules say what a specification leaves to its reader. A rule that is *open* has no
such test yet, so nothing is promised; one that does not apply says why. *By users' ways* counts
the rules with a test that goes by commands or the library alone; each that is tested has one.
"""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of all specifications."""

    texts: dict[str, str]
    """What each asks for, in the order of the specifications."""
    not_applicable: dict[str, str]
    """Why some do not apply."""


def read_rules() -> Rules:
    """Read the list of rules."""
    document = tomllib.loads(RULES.read_text())
    reasons = document.pop("does-not-apply")
    return Rules(
        {rule: text for table in document.values() for rule, text in table.items()}, reasons
    )


def is_public(test: str) -> bool:
    """Whether a test goes by what a user can do: it reads and writes nothing from the inside.

    >>> is_public("spec/test_kart_by_command: test_x"), is_public("geo/test_wkb: test_y")
    (True, False)
    """
    return test.startswith(PUBLIC) or "_by_command:" in test


def rule_tests() -> dict[str, list[str]]:
    """Return the tests that name each rule, as `package/module: test`."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text()
        if "mark.rule(" not in text:
            continue
        module = path.relative_to(TESTS).with_suffix("").as_posix()
        for name, rule in marks(ast.parse(text)):
            test = f"{module}: {name}"
            if test not in found[rule]:
                found[rule].append(test)
    return dict(found)


def marks(module: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each test of a module and each rule that it names."""
    for node in ast.walk(module):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for decorator in node.decorator_list:
            for call in ast.walk(decorator):
                if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.rule":
                    for rule in call.args:
                        if not isinstance(rule, ast.Constant) or not isinstance(rule.value, str):
                            raise ValueError(f"{node.name} names a rule that is no plain text")
                        yield node.name, rule.value


def format_page(rules: Rules, tests: dict[str, list[str]]) -> str:
    """Return the page of the documentation."""
    lines = [
        INTRODUCTION,
        "| specification | tested | by users' ways | does not apply | open |",
        "|---|---|---|---|---|",
    ]
    bodies = []
    for family, title in TITLES.items():
        mine = [rule for rule in rules.texts if rule.startswith(f"{family}-")]
        tested = [rule for rule in mine if rule in tests]
        waived = [rule for rule in mine if rule in rules.not_applicable]
        waiting = len(mine) - len(tested) - len(waived)
        outside = sum(any(map(is_public, tests[rule])) for rule in tested)
        lines.append(f"| {title} | {len(tested)} | {outside} | {len(waived)} | {waiting} |")
        bodies += ["", f"## {title}", "", "| rule | what | tests |", "|---|---|---|"]
        for rule in mine:
            if rule in tests:
                status = "<br>".join(f"`{test}`" for test in tests[rule])
            elif rule in rules.not_applicable:
                status = f"does not apply: {rules.not_applicable[rule]}"
            else:
                status = "**open**"
            bodies.append(f"| {rule} | {_cell(rules.texts[rule])} | {_cell(status)} |")
    return "\n".join([*lines, *bodies, ""])


def _cell(text: str) -> str:
    # What looks like HTML or ends a cell would not be shown.
    bars = text.replace("|", "\\|")
    parts = bars.split("`")
    parts[::2] = [
        part.replace("<br>", "\0").replace("<", "&lt;").replace("\0", "<br>") for part in parts[::2]
    ]
    return "`".join(parts)
