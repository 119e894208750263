"""What a stranger wrote never controls a terminal: every command prints it as escapes."""

import json
import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import invoke, succeed
from tests.support.git import run_git

EVIL = "\x1b[31m\x07\x7f\x9b31m\u202eevil\u2066\u2028\u200f"
NAME = "n\x9bm\u202ee\u2066v\u2028\u200f"
"""The same as far as git takes it for a name."""
UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\udc80-\udcff]"
)


def commit(repo: Path, message: str, *options: str) -> None:
    git = ["git", "-c", f"user.name=A {NAME}", "commit", "-q", "--allow-empty", *options]
    subprocess.run([*git, "-F", "-"], cwd=repo, input=message.encode(), check=True)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose every name, text and value is hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    repo, file = folder / "repo", folder / "file.parquet"
    succeed(invoke(["init", repo]))
    here: list[str | Path] = ["-C", repo]
    columns = {"id": pa.array([1, 2]), f"c{NAME}": [EVIL, None], "more": [[EVIL], [NAME]]}
    for rows in (columns, {**columns, f"c{NAME}": [f"{EVIL}2", EVIL]}):
        pq.write_table(pa.table(rows), file)
        options = [
            "--primary-key",
            "id",
            *(["--replace"] if (repo / ".gitattributes").exists() else []),
        ]
        succeed(invoke([*here, "import", file, "data", *options, "-m", f"Import {EVIL}"]))
    succeed(invoke([*here, "meta", "set", "data", f"title={EVIL}", f"description=a\n{EVIL}"]))
    commit(repo, f"Subject {EVIL}\n\nBody {EVIL}\n")
    run_git("branch", f"b{NAME}", cwd=repo)
    run_git("tag", f"t{NAME}", cwd=repo)
    run_git("tag", "-a", "annotated", "-m", f"x{EVIL}", cwd=repo)
    run_git("remote", "add", "evil", f"https://localhost:1/{NAME}\x1b[31m", cwd=repo)
    (repo / f"f{NAME}").write_text("x")
    run_git("add", "-A", cwd=repo)
    commit(repo, f"File {EVIL}")
    succeed(invoke([*here, "checkout"]))
    return repo


COMMANDS = [
    ("log",),
    ("log", "--oneline"),
    ("log", "-o", "json"),
    ("log", "-o", "json-lines"),
    ("log", "--graph"),
    ("log", "--graph", "--oneline"),
    ("branch",),
    ("branch", "-vv"),
    ("branch", "-a", "--list"),
    ("branch", "--show-current"),
    ("branch", "-o", "json"),
    ("tag",),
    ("tag", "-n5"),
    ("tag", "-o", "json"),
    ("status",),
    ("status", "-o", "json"),
    ("show", "HEAD"),
    ("show", "HEAD~2"),
    ("show", "HEAD~2", "-o", "json"),
    ("show", "HEAD~2", "-o", "json-lines"),
    ("create-patch", "HEAD~2"),
    *(
        ("diff", "HEAD~4...HEAD", "-o", form)
        for form in ("text", "json", "json-lines", "geojson", "quiet", "feature-count")
    ),
    *(("diff", "[EMPTY]...HEAD", "-o", form) for form in ("text", "json", "json-lines")),
    ("review", "HEAD~4...HEAD"),
    ("review", "HEAD~4...HEAD", "-o", "json"),
    ("check", "HEAD~4..HEAD"),
    ("blame", "data"),
    ("blame", "data", "-o", "json"),
    ("blame", "data", "-o", "json-lines"),
    ("meta", "get"),
    ("meta", "get", "-o", "json"),
    ("data", "ls", "-l"),
    ("remote", "-v"),
    ("remote",),
    ("fetch", "evil"),
    ("push", "evil", "main"),
    ("fsck",),
    ("validate",),
    ("config", "--get", "remote.evil.url"),
    ("config", "--list"),
    ("stash", "list"),
    ("grep", "a"),
    ("head", "data"),
    ("cat", "data", "-o", "json"),
    ("describe", "data"),
    ("describe", "data", "-o", "json"),
    ("count", "data"),
    ("grep", "a", "HEAD", "-o", "json-lines"),
    ("log", "--format=%H %an %s %D"),
    ("log", "-S", "a"),
    ("switch", f"x{NAME}"),
    ("checkout", f"x{NAME}"),
    ("show", "HEAD:data:feature:1"),
    ("data", "ls", f"x{EVIL}"),
    ("merge", f"x{NAME}"),
    ("import", f"x{EVIL}.parquet"),
    (f"x{EVIL}",),
    ("log", f"--x{EVIL}"),
    ("switch", f"b{NAME}"),
]


@pytest.mark.few(22)
@pytest.mark.parametrize(
    "command", COMMANDS, ids=lambda words: "-".join(words[:4]).encode("unicode_escape").decode()
)
def test_nothing_controls_the_terminal(
    hostile: Path, command: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    result = invoke(["-C", hostile, *command])

    told = capfd.readouterr()  # of git itself
    raw = command[0] == "config"  # a script is told what is set; see below
    for text in (result.stdout, result.stderr, told.out * (not raw), told.err):
        found = UNSAFE.search(text)
        assert found is None, ascii(found)
    assert "internal error" not in result.stderr
    for line in result.stdout.splitlines() if "json-lines" in command else ():
        json.loads(line)
    if "json" in command and result.exit_code in (0, 1):
        json.loads(result.stdout)


def test_json_lines_mean_what_they_meant(hostile: Path) -> None:
    out = succeed(invoke(["-C", hostile, "diff", "[EMPTY]...HEAD", "-o", "json-lines"])).stdout
    messages = [json.loads(line) for line in out.splitlines()]
    rows = [each["change"]["+"] for each in messages if each["type"] == "feature"]
    assert rows == [
        {"id": 1, f"c{NAME}": f"{EVIL}2", "more": [EVIL]},
        {"id": 2, f"c{NAME}": EVIL, "more": [NAME]},
    ]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "command",
    [("log", "--graph"), ("branch", "-vv"), ("tag", "-n5"), ("config", "--get", "remote.evil.url")],
    ids=lambda words: words[0],
)
def test_a_terminal_sees_colours_of_git_and_escapes_of_strangers(
    hostile: Path, command: tuple[str, ...]
) -> None:
    program = "import sys; from havasu_vc.cli.main import main; main()"
    line = [sys.executable, "-c", program, "--no-pager", "-C", str(hostile), *command]
    out = on_a_terminal(line)

    colours = re.compile(r"\x1b\[[0-9;]*m")
    assert bool(colours.search(out)) is (command[0] in ("log", "branch"))
    assert not UNSAFE.search(colours.sub("", out).replace("\r\n", "\n"))
    assert "\\x9b" in out and "\\u202e" in out


def on_a_terminal(line: list[str]) -> str:
    """Run a command whose stdout is a terminal, and return what it wrote there."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        line, stdout=theirs, stderr=subprocess.DEVNULL, env={**os.environ, "TERM": "xterm"}
    ) as child:
        os.close(theirs)
        out = b""
        with suppress(OSError):
            while part := os.read(ours, 65536):
                out += part
    os.close(ours)
    assert child.returncode == 0
    return out.decode("utf-8", "surrogateescape")
