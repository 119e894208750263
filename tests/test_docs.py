"""What the docs show, works.

Each page gets a scratch folder. Its ```python blocks run in order in one namespace, and
every line of its ```console blocks that begins with `$ ` runs in a shell and must succeed;
`cd` holds for the rest of the page. An HTML comment before a block changes that:

    <!-- not run: reason -->      the block is left alone
    <!-- output checked -->       what a console block prints must be what it shows,
                                  but for object ids, spaces, and lines that are `...`
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
# What everybody reads, and the page that is followed by `make test`.
FIRST = DOCS / "getting-started" / "index.md"
FENCE = re.compile(
    r"(?:<!-- *(?P<note>[^\n]*?) *-->\n+)?^```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
# What looks like a variable of the environment: set by the program for itself, or a constant.
INTERNAL = {"HAVASU_VC_DATA_SENT", "HAVASU_VC_PUSH_TOKEN", "HAVASU_MARKER", "HAVASU_VERSION"}
# The command as it is installed, without relying on where it was installed to.
COMMAND = f"""\
#!/bin/sh
PYTHONPATH='{ROOT}' exec '{sys.executable}' -c \
'from havasu_vc.cli.main import main; main()' "$@"
"""


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code on a page."""

    language: str
    text: str
    line: int
    """The line of the page on which the text begins."""
    note: str = ""

    @property
    def runs(self) -> bool:
        return self.language in {"python", "console"} and not self.note.startswith("not run: ")

    @property
    def commands(self) -> list[tuple[str, str]]:
        """The commands of a console block, each with the output that is shown."""
        shown = re.split(r"^\$ ", self.text.replace("\\\n", ""), flags=re.MULTILINE)[1:]
        return [(command, output) for command, _, output in (one.partition("\n") for one in shown)]


def blocks(text: str) -> list[Block]:
    return [
        Block(
            match["language"],
            match["text"],
            text.count("\n", 0, match.start("text")) + 1,
            match["note"] or "",
        )
        for match in FENCE.finditer(text)
    ]


def slug(heading: str) -> str:
    """Return the anchor that a heading gets."""
    plain = re.sub(r"[^\w\s-]", "", heading.strip().lower())
    return re.sub(r"[\s-]+", "-", plain)


def anchors(text: str) -> set[str]:
    return {slug(heading) for heading in re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.M)}


def broken_links(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    broken = []
    for match in LINK.finditer(FENCE.sub("", text)):
        path, _, anchor = match["target"].partition("#")
        if "://" in path or path.startswith("mailto:"):
            continue
        target = page.parent / path if path else page
        if not target.exists() or (
            anchor and anchor not in anchors(target.read_text(encoding="utf-8"))
        ):
            broken.append(match["target"])
    return broken


def same_output(shown: str, printed: str) -> bool:
    """Return whether a command printed what the page shows, loosely."""

    def loosen(text: str) -> list[str]:
        plain = re.sub(r"\b[0-9a-f]{7,64}\b", "<id>", text)
        # How small a file is depends on the version of what wrote it.
        plain = re.sub(r"\b[0-9.]+ [KM]iB\b", "<size>", plain)
        return [" ".join(line.split()) for line in plain.splitlines() if line.strip()]

    parts = [r".*" if line == "..." else re.escape(line) for line in loosen(shown)]
    return re.fullmatch(r"\n".join(parts), "\n".join(loosen(printed)), re.DOTALL) is not None


@dataclass(slots=True)
class Reader:
    """Somebody who follows a page from its top, in a folder of their own."""

    folder: Path
    commands: Path
    """The folder of the program, for the search path."""
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})

    def follow(self, block: Block, page: Path) -> None:
        if block.language == "python":
            # The blank lines make a traceback name the line of the page.
            source = "\n" * (block.line - 1) + block.text
            os.chdir(self.folder)
            exec(compile(source, str(page), "exec"), self.names)
            return
        assert block.commands, f"{page}:{block.line}: a console block without a `$ ` line"
        for command, shown in block.commands:
            printed = self.run(command, f"{page}:{block.line}")
            if block.note == "output checked":
                assert same_output(shown, printed), f"$ {command}\n{printed}\n--- shown:\n{shown}"

    def run(self, command: str, place: str) -> str:
        if command.startswith("cd "):
            self.folder = (self.folder / command.removeprefix("cd ").strip()).resolve(strict=True)
            return ""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self.folder,
            env=os.environ | {"PATH": f"{self.commands}{os.pathsep}{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{place}: $ {command}\n{done.stdout}"
        return done.stdout


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "page").mkdir()
    program = tmp_path / "bin" / "havasu-vc"
    program.write_text(COMMAND, encoding="utf-8")
    program.chmod(0o755)
    return Reader(tmp_path / "page", program.parent)


def runnable(page: Path) -> list[Block]:
    return [block for block in blocks(page.read_text(encoding="utf-8")) if block.runs]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def uses_spark(page: Path) -> bool:
    return any("havasu_vc.spark" in b.text for b in runnable(page) if b.language == "python")


def marks(page: Path) -> list[pytest.MarkDecorator]:
    if uses_spark(page):
        # What such a page starts is the one session of the tests, which others go on using.
        return [pytest.mark.spark]
    return [] if page == FIRST else [pytest.mark.thorough]


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=marks(page)) for page in PAGES if runnable(page)],
    ids=name_of,
)
@pytest.mark.thorough
def test_page_can_be_followed(page: Path, reader: Reader, request: pytest.FixtureRequest) -> None:
    if uses_spark(page):
        request.getfixturevalue("spark")
    for block in runnable(page):
        reader.follow(block, page)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_there_is_something_to_follow() -> None:
    assert runnable(FIRST)


SAMPLE = """\
# One, two

```python
x = 1
```

<!-- not run: needs the network -->

```console
$ curl example.com
```

<!-- output checked -->
```console
$ echo a \\
    b
a b
$ true
```

```
$ not code
```
See [two](#one-two), [three](#three) and [four](four.md).
"""


def test_blocks_are_found() -> None:
    first, second, third, fourth = blocks(SAMPLE)

    assert (first.language, first.text, first.line) == ("python", "x = 1\n", 4)
    assert [block.runs for block in (first, second, third, fourth)] == [True, False, True, False]
    assert third.commands == [("echo a     b", "a b\n"), ("true", "")]


def test_page_is_followed_to_the_letter(reader: Reader, tmp_path: Path) -> None:
    page = tmp_path / "page.md"

    for block in [block for block in blocks(SAMPLE) if block.runs]:
        reader.follow(block, page)
    reader.follow(Block("python", "y = x + 1", 1), page)
    reader.follow(Block("console", "$ mkdir in\n$ cd in\n$ test $(basename $PWD) = in", 1), page)

    assert reader.names["y"] == 2


@pytest.mark.parametrize(
    "block",
    [
        Block("console", "$ false", 1),
        Block("console", "$ false | cat", 1),
        Block("console", "echo forgot the prompt", 1),
        Block("console", "$ echo a\nb", 1, "output checked"),
        Block("python", "assert False", 1),
    ],
    ids=["failure", "failure in a pipe", "no prompt", "other output", "python"],
)
def test_page_that_is_wrong_is_found(block: Block, reader: Reader) -> None:
    with pytest.raises(AssertionError):
        reader.follow(block, Path("page.md"))


def test_broken_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(SAMPLE, encoding="utf-8")

    assert broken_links(page) == ["#three", "four.md"]


def test_outputs_are_compared_loosely() -> None:
    assert same_output("commit 0a1b2c3\n", "commit  9f8e7d6c5\n\n")
    assert same_output("first\n...\nlast", "first\nsecond\nthird\nlast\n")
    assert not same_output("first\n", "first\nsecond\n")
    assert not same_output("...\nlast\n", "first\n")


def test_every_setting_and_variable_of_ours_is_documented() -> None:
    page = (DOCS / "reference" / "configuration.md").read_text(encoding="utf-8")
    source = "".join(path.read_text("utf-8") for path in (ROOT / "havasu_vc").rglob("*.py"))
    names = set(re.findall(r"\bhavasu\.(?:data|linked|outdb|spark|workspace)\.[a-z]+\b", source))
    names |= set(re.findall(r'"(HAVASU_[A-Z_]+)"', source)) - INTERNAL

    assert len(names) > 8
    assert sorted(name for name in names if f"`{name}" not in page) == []
