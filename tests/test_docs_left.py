"""What of the docs no test runs is listed here with its reason, and is at least well-formed.

A command that is not run, or stands in the middle of a sentence, names a command that there
is and options that it takes.
"""

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from havasu_vc.cli.command_pages import context_of
from havasu_vc.cli.main import COMMANDS, NEEDLESS, OTHER_NAMES, PROGRAM, cli
from tests.test_docs import FENCE, PAGES, ROOT, blocks, name_of

LEFT: dict[tuple[str, str], int] = {
    ("docs/guides/browser.md", "it goes on until Ctrl-C"): 1,
    ("docs/guides/catalog.md", "it serves until it is stopped"): 1,
    ("docs/guides/catalog.md", "the extension of DuckDB is had from the network"): 1,
    ("docs/guides/catalog.md", "there is no such bucket"): 1,
    ("docs/guides/catalog.md", "there is no such role"): 1,
    ("docs/guides/checkout.md", "there is no such bucket"): 1,
    ("docs/guides/dbt.md", "tests/serving/test_dbt.py runs it"): 2,
    ("docs/guides/follow-a-branch.md", "a stream goes on until it is stopped"): 2,
    ("docs/guides/geoparquet.md", "there is no such bucket"): 1,
    ("docs/guides/iceberg-tables.md", "there is no such bucket"): 1,
    ("docs/guides/kart.md", "names a folder of this machine"): 1,
    ("docs/guides/kart.md", "needs a repository that Kart made"): 2,
    ("docs/guides/postgis.md", "needs a server"): 1,
    ("docs/guides/query-with-spark.md", "tests/spark/test_guide.py runs it"): 2,
    ("docs/guides/query-with-spark.md", "there is no such bucket"): 3,
    ("docs/guides/notebooks.md", "needs Jupyter"): 1,
    ("docs/guides/query-with-spark.md", "there is no such stream"): 1,
    ("docs/guides/share.md", "there is no such bucket"): 1,
    ("docs/guides/share.md", "there is no such host"): 1,
    ("docs/guides/share.md", "there is no such server"): 1,
    ("docs/guides/spark-clusters.md", "tests/spark/test_guides_of_clusters.py runs it"): 3,
    ("docs/guides/spark-clusters.md", "there is no such cluster"): 3,
    ("docs/guides/spark.md", "tests/spark/test_guides_of_clusters.py runs it"): 4,
}
"""How many blocks of a page are left alone for what reason. A shorter list is a better one."""
COMMAND = re.compile(rf"^(?:\$ )?({PROGRAM} [^\n]*?)(?: +#[^\n]*)?$", re.MULTILINE)
INLINE = re.compile(rf"`({PROGRAM} [^`]+)`")
# What stands for something: `havasu-vc COMMAND --help`.
PLACEHOLDER = re.compile(r"[A-Z]+$|…|\.\.\.$")


def test_what_is_not_run_is_listed() -> None:
    found = Counter(
        (name_of(page), block.note.removeprefix("not run: "))
        for page in PAGES
        for block in blocks(page.read_text("utf-8"))
        if block.note.startswith("not run")
    )

    assert dict(found) == LEFT


def not_run(text: str) -> Iterator[str]:
    """Yield the commands of a page that `test_docs` leaves alone."""
    for block in blocks(text):
        if not block.runs and block.language != "text":
            for match in COMMAND.finditer(block.text.replace("\\\n", "")):
                yield match[1]
    for match in INLINE.finditer(FENCE.sub("", text)):
        yield " ".join(match[1].split())


def wrong(line: str) -> str | None:
    """Return what is wrong with a command, as click says it."""
    # One command: up to what the shell does with what it prints.
    words = shlex.split(re.split(r" (?:[|;>]|>>|2>|&&) ", line)[0].replace("'", '"'))[1:]
    while len(words) > 1 and words[0] == "-C":
        words = words[2:]
    if not words or PLACEHOLDER.match(words[0]) or words[0].startswith("-"):
        return None
    name = words[0]
    if name in NEEDLESS:
        return None
    if OTHER_NAMES.get(name, name) not in COMMANDS:
        return f"there is no command {name}"
    top = context_of(cli, PROGRAM)
    command = cli.get_command(top, name)
    assert command is not None
    context = context_of(command, name, top)
    words = words[1:]
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        if PLACEHOLDER.match(words[0]):
            return None
        below = command.get_command(context, words[0])
        if below is None:
            return f"{name} has no command {words[0]}"
        context = context_of(below, words[0], context)
        command, words = below, words[1:]
    taken = {each for parameter in command.params for each in parameter.opts}
    taken |= {each for parameter in command.params for each in parameter.secondary_opts}
    taken |= {each for parameter in cli.params for each in parameter.opts} | {"--help", "--"}
    if context.ignore_unknown_options:
        return None
    for word in words:
        option = word.partition("=")[0]
        if option == "--":
            break
        if option.startswith("--") and option not in taken:
            return f"{name} takes no {option}"
    return None


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_is_not_run_is_well_formed(page: Path) -> None:
    found = [(line, wrong(line)) for line in not_run(page.read_text("utf-8"))]

    assert [each for each in found if each[1] is not None] == []


def test_targets_of_make_are_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = {
        name
        for page in (*PAGES, ROOT / "CONTRIBUTING.md")
        for name in re.findall(r"(?:`|^)make ([a-z][a-z-]*)", page.read_text("utf-8"), re.MULTILINE)
    }

    assert {"demo", "test"} <= named
    assert named <= targets


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("havasu-vc comit", "there is no command comit"),
        ("havasu-vc diff --stats", "diff takes no --stats"),
        ("havasu-vc data lst", "data has no command lst"),
        ("havasu-vc -C x diff --stat main...other -o json", None),
        ("havasu-vc COMMAND --help", None),
    ],
)
def test_a_mistake_is_found(line: str, what: str | None) -> None:
    assert wrong(line) == what


def test_figures_of_the_comparison_are_those_of_the_benchmarks() -> None:
    measured = {
        name: (float(kart), float(ours))
        for name, ours, kart in re.findall(
            r"^\| (.+) in 1M.* / Kart \|.*\| ([\d.]+) s CPU, Kart ([\d.]+) \|$|",
            (ROOT / "docs/reference/benchmarks.md").read_text("utf-8"),
            re.MULTILINE,
        )
        if name
    }
    told = re.findall(
        r"^\| (.+) \| ([\d.]+) s.* \| ([\d.]+) s.* \|$",
        (ROOT / "docs/understanding/comparison.md").read_text("utf-8"),
        re.MULTILINE,
    )
    names = {
        "diff of 1,000 edits as JSON": "diff of 1,000",
        "merge of 2 × 1,000 edits": "merge 2 × 1,000",
        "1,000 conflicts": "1,000 conflicts",
    }
    found = {names[name]: (float(kart), float(ours)) for name, kart, ours in told if name in names}

    assert found.keys() == set(names.values()) <= measured.keys()
    for name, pair in found.items():
        assert pair == pytest.approx(measured[name], rel=0.02), name
