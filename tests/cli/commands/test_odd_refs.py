"""Tags and branches whose names and messages hold what lines, words and columns are told by."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Run, invoke, succeed
from tests.support.examples import some
from tests.support.git import run_git

MESSAGES = {
    "separators": b"one\x01refs/tags/forged\x0144\x01commit\x01\x01\x01x\x02\nrefs/tags/forged\x01",
    "lines": "one\u2028two\u2029three\x0bfour\x0cfive\x1csix\x85\n\n\ndeep\n".encode(),
    "invalid": b"\xff\xfe\x80 not text\n",
    "long": b"x" * 2**20,
    "quotes": b"it's \\' a \\ 'quoted' one\n",
    "nothing": b"",
    "control": b"\x1b[31mred\x1b[0m \x9b31m \xe2\x80\xae evil\n",
}


def add_tag(repo: Path, name: str, message: bytes, target: str = "HEAD") -> str:
    """Store a tag as a stranger may have made it, and point a ref at it."""
    commit = run_git("rev-parse", target, cwd=repo)
    kind = run_git("cat-file", "-t", commit, cwd=repo)
    head = f"object {commit}\ntype {kind}\ntag {name}\ntagger A <a@b> 0 +0000\n\n"
    done = subprocess.run(
        ["git", "hash-object", "-t", "tag", "-w", "--literally", "--stdin"],
        cwd=repo,
        input=head.encode() + message,
        capture_output=True,
        check=True,
    )
    tag = done.stdout.decode().strip()
    run_git("update-ref", f"refs/tags/{name}", tag, cwd=repo)
    return tag


@pytest.mark.few(2)
@pytest.mark.parametrize("name", MESSAGES)
def test_messages_of_tags_are_any_bytes(repo: Path, run: Run, name: str) -> None:
    add_tag(repo, name, MESSAGES[name])

    listed = succeed(run("tag")).stdout
    value = json.loads(succeed(run("tag", "-o", "json")).stdout)["havasu.tag/v1"]
    log = succeed(run("log", "-n1", "--decorate")).stdout
    succeed(run("show", name))
    succeed(run("data", "ls", name))
    succeed(run("fsck"))

    assert listed == f"{name}\n" and list(value) == [name]
    head = run_git("rev-parse", "HEAD", cwd=repo)
    assert value[name]["commit"] == head
    written = value[name]["message"].encode("utf-8", "surrogateescape")
    assert written == MESSAGES[name].removesuffix(b"\n")
    assert f"tag: {name}" in log and "forged" not in log


def test_a_tag_of_a_tag_names_its_commit(repo: Path, run: Run) -> None:
    add_tag(repo, "inner", b"Inner\n", "HEAD^")
    add_tag(repo, "outer", b"Outer\n", "inner")
    add_tag(repo, "tree", b"Tree\n", "HEAD^{tree}")

    value = json.loads(succeed(run("tag", "-o", "json")).stdout)["havasu.tag/v1"]

    first = run_git("rev-parse", "HEAD^", cwd=repo)
    assert {name: (each["commit"], each["message"]) for name, each in value.items()} == {
        "inner": (first, "Inner"),
        "outer": (first, "Outer"),
    }


def test_one_damaged_tag_stops_nothing_else(repo: Path, run: Run) -> None:
    tag = add_tag(repo, "bad", b"Bad\n")
    succeed(run("tag", "good"))
    (repo / ".git" / "objects" / tag[:2] / tag[2:]).unlink()

    assert succeed(run("tag")).stdout == "good\n"
    succeed(run("log"))
    assert run("fsck").exit_code == 1


def branches(run: Run) -> set[str]:
    value = json.loads(succeed(run("branch", "-o", "json")).stdout)
    return set(value["kart.branch/v1"]["branches"])


NAMES = ["a\u2028b", "a\u00a0b", "a\x85b", "a'b", 'a"b', "a\u3000", "é\u202eb"]


@pytest.mark.few(1)
@pytest.mark.parametrize("name", some(NAMES, "a\u2028b", "a'b"))
def test_names_of_branches_hold_what_python_takes_for_a_line_or_a_space(
    repo: Path, run: Run, tmp_path: Path, name: str
) -> None:
    run_git("init", "-q", "--bare", "server.git", cwd=tmp_path)
    run_git("remote", "add", "origin", tmp_path / "server.git", cwd=repo)
    succeed(run("push", "-u", "origin", "main"))

    succeed(run("switch", "-c", name))
    succeed(run("meta", "set", "points", "title=Other"))
    succeed(run("push", "origin", name))
    succeed(run("tag", f"t{name}"))
    succeed(run("switch", "main"))
    succeed(run("switch", "-"))

    assert branches(run) == {"main", name}
    assert run_git("symbolic-ref", "--short", "HEAD", cwd=repo) == name
    clone = tmp_path / "clone"
    succeed(invoke(["clone", "--branch", name, tmp_path / "server.git", clone]))
    assert "Other" in succeed(invoke(["-C", clone, "meta", "get", "points"])).stdout
    succeed(invoke(["-C", clone, "data", "push"]))
    succeed(invoke(["-C", clone, "data", "drop", "--all"]))


@pytest.mark.parametrize("pushed", some(["a\u00a0b", "a\u2028b", "HEAD@{1 day ago}"], "a\u2028b"))
def test_the_hook_sends_data_of_any_name(repo: Path, run: Run, tmp_path: Path, pushed: str) -> None:
    run_git("init", "-q", "--bare", "server.git", cwd=tmp_path)
    run_git("remote", "add", "origin", tmp_path / "server.git", cwd=repo)
    commit = run_git("rev-parse", "HEAD", cwd=repo)
    target = pushed if "{" not in pushed else "day"

    line = f"{pushed} {commit} refs/heads/{target} {'0' * 40}\n"
    done = succeed(run("data", "push", "origin", "--hook", stdin=line.encode() * 2))

    assert "Sent" in done.stderr
    assert list((tmp_path / "server.git" / "havasu" / "objects").glob("*/*/*"))


def test_the_folder_of_a_work_tree_is_any_text(repo: Path, run: Run, tmp_path: Path) -> None:
    place = tmp_path / "a\x01b\x02\nrefs/heads/forged'x"
    place.parent.mkdir(parents=True)
    run_git("worktree", "add", "-q", "-b", "side", place, cwd=repo)

    assert branches(run) == {"main", "side"}
