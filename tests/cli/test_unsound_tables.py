"""Tables whose trees were made by hand or by malice: one unsound dataset, beside which all work.

Each is named with what is wrong. What would carry it on refuses, in time and memory that do not
grow with what somebody put there; `repair` brings back the last sound version.
"""

import os
import resource
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from havasu_vc import Repo
from havasu_vc.formats.havasu.deltas import (
    Delta,
    delta_path,
    format_delta,
    format_tombstone,
    parse_delta,
    parse_tombstone,
)
from havasu_vc.formats.havasu.json_text import pack, unpack
from tests.cli.conftest import invoke, succeed
from tests.repo.points import read, write
from tests.support.broken import FIRST, INSIDE, content, folder_of, make_sound, set_files
from tests.support.git import run_git
from tests.support.templates import copy_tree

Break = Callable[[Path], None]


def deltas(repo: Path) -> Iterator[Delta]:
    for name in folder_of(repo, f"{INSIDE}/files/"):
        data = content(repo, f"{INSIDE}/files/{name}")
        if parse_tombstone(data) is None:
            yield parse_delta(data, Path(name).stem, name)


def delta(repo: Path, *, dated: bool) -> Delta:
    """Return the delta of an edit, or of the import."""
    return next(each for each in deltas(repo) if (each.epoch is not None) == dated)


def put(files: Mapping[str, bytes | None]) -> Break:
    return lambda repo: _commit(repo, files)


def _commit(repo: Path, files: Mapping[str, bytes | None]) -> None:
    set_files(repo, {f"{INSIDE}/{name}": data for name, data in files.items()}, "By hand")


def changed(**facts: Any) -> Break:
    """Change what the delta of an edit says."""

    def change(repo: Path) -> None:
        found = delta(repo, dated=True)
        _commit(repo, {found.path: format_delta(replace(found, **facts))})

    return change


def without_markers(repo: Path) -> None:
    markers = [n for n in folder_of(repo, f"{INSIDE}/edits/0/") if n.count("/")]
    _commit(repo, {f"edits/0/{name}": None for name in markers})


def without_delta(repo: Path) -> None:
    found = delta(repo, dated=True)
    pointers = {entry.pointer_path: None for entry in found.files}
    _commit(repo, {found.path: None, **pointers})


def in_a_circle(repo: Path) -> None:
    """The import goes: two tombstones that name each other."""
    found, other = delta(repo, dated=False), "ab" * 20
    _commit(
        repo,
        {
            found.path: format_tombstone(other),
            delta_path(other): format_tombstone(found.id),
            **{entry.pointer_path: None for entry in found.files},
        },
    )


def equal_tombstones(repo: Path) -> None:
    """The edit goes as if the import had folded it, and one that never was beside it."""
    edit, first = delta(repo, dated=True), delta(repo, dated=False)
    _commit(
        repo,
        {
            edit.path: format_tombstone(first.id),
            delta_path("ab" * 20): format_tombstone(first.id),
            **{entry.pointer_path: None for entry in edit.files},
        },
    )


def back_after_a_fold(repo: Path) -> None:
    """A delta stands beside the one that replaced it."""
    path = delta(repo, dated=True).path
    before = content(repo, f"{INSIDE}/{path}")
    succeed(invoke(["-C", repo, "optimize", "bad"]))
    assert parse_tombstone(content(repo, f"{INSIDE}/{path}")) is not None
    _commit(repo, {path: before})


def two_of_one_name(repo: Path) -> None:
    value = unpack(content(repo, f"{INSIDE}/columns/3.json"), "x")
    value["field"]["name"] = "name"
    _commit(repo, {"columns/3.json": pack(value)})


def _tree(repo: Path, entries: Mapping[str, tuple[str, str]]) -> str:
    kinds = {"040000": "tree", "100644": "blob"}
    lines = [
        f"{mode} {kinds[mode]} {identity}\t{name}"
        for name, (mode, identity) in sorted(entries.items())
    ]
    return run_git("mktree", cwd=repo, stdin="\n".join(lines) + "\n")


def bomb(folder: str, levels: int, names: Callable[[int, int], str]) -> Break:
    """Put a tree of trees of trees into a folder: small to store, long to walk."""

    def commit(repo: Path) -> None:
        # The index would hold each file: trees are put together by hand.
        blob = run_git("hash-object", "-w", "--stdin", cwd=repo, stdin="\0next 1")
        tree = _tree(repo, {names(0, n): ("100644", blob) for n in range(1000)})
        for level in range(1, levels):
            many = range(10 if level > 1 else 100)
            tree = _tree(repo, {names(level, n): ("040000", tree) for n in many})
        at = tree
        for path in (f"{INSIDE}", "bad", ""):
            name = {f"{INSIDE}": folder, "bad": ".havasu-dataset", "": "bad"}[path]
            listed = run_git("ls-tree", f"HEAD:{path}", cwd=repo).split("\n")
            entries = {line.split("\t")[1]: (line.split()[0], line.split()[2]) for line in listed}
            at = _tree(repo, {**entries, name: ("040000", at)})
        made = run_git("commit-tree", at, "-p", "HEAD", "-m", "A bomb", cwd=repo)
        run_git("update-ref", "refs/heads/main", made, cwd=repo)

    return commit


UNSOUND: dict[str, tuple[Break, str]] = {
    "a marker without a delta": (
        put({"edits/0/ab/cdef01": b"\0" + b"a" * 32}),
        "its markers are not",
    ),
    "a delta without markers": (without_markers, "its markers are not those of its deltas"),
    "markers without their delta": (without_delta, "its markers are not those of its deltas"),
    "a wrong sum": (changed(marks=12345), "its markers are not those of its deltas"),
    "a delta of another table": (changed(table="another"), "is of another table"),
    "an epoch that never was": (changed(epoch=(3, "ab" * 20)), "is of another epoch"),
    "tombstones in a circle": (in_a_circle, "was replaced by itself"),
    "a tombstone of nothing": (
        put({delta_path("ab" * 20): format_tombstone("cd" * 20)}),
        "was replaced by one that is not there",
    ),
    "equal tombstones": (equal_tombstones, "its markers are not those of its deltas"),
    "a delta beside what replaced it": (back_after_a_fold, "and it stands there again"),
    "a placeholder is missing": (put({"edits/5": None}), "edits/5 is not what an open epoch has"),
    "placeholders that changed places": (
        put({"edits/2": b"\0next 3", "edits/3": b"\0next 2"}),
        "edits/2 is not what an open epoch has",
    ),
    "epochs out of order": (put({"edits/4": b"\0" + b"ab" * 20}), "edits/4 is not what an open"),
    "two columns of one name": (two_of_one_name, "name"),
    "a claim without a column": (
        put({"columns/names/0123456789abcdef": b"\0x\x007"}),
        "names that columns claim",
    ),
    "a pointer of nothing": (put({f"data/ab/{'ab' * 32}": b"x"}), "is of no delta"),
    "no pointer": (
        lambda repo: _commit(repo, {delta(repo, dated=False).files[0].pointer_path: None}),
        "has no pointer",
    ),
    "a million markers": (bomb("edits", 3, lambda _, n: f"{n:06}"), "over 500,000 markers"),
    "a million pointers": (bomb("data", 3, lambda _, n: f"{n:064}"), "is of no delta"),
    "a million deltas": (bomb("files", 3, lambda _, n: f"{n:040}.json"), "no name of a delta"),
    "a million columns": (bomb("columns", 3, lambda _, n: f"{n:016}"), "not a packed document"),
    "a million names": (
        bomb("columns", 3, lambda level, n: "names" if level == 2 and n == 0 else f"{n:016}"),
        "not a packed document",
    ),
}


def processor_time() -> float:
    """Return what this process and git's took so far, whatever else the machine does."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sound(tmp_path_factory.mktemp("unsound"))


@pytest.mark.parametrize(
    "way",
    [pytest.param(way, marks=pytest.mark.thorough) if "million" in way else way for way in UNSOUND],
)
@pytest.mark.few(2)
def test_an_unsound_table_is_named_refused_and_mended(
    sound: Path, way: str, tmp_path: Path
) -> None:
    repo = copy_tree(sound, tmp_path / "repo")
    server = tmp_path / "server.git"
    run_git("init", "-q", "--bare", server, cwd=tmp_path)
    succeed(invoke(["-C", repo, "remote", "add", "origin", server]))
    copy = tmp_path / "copy.gpkg"
    succeed(invoke(["-C", repo, "checkout", "--as", copy, "good"]))
    break_it, reason = UNSOUND[way]
    break_it(repo)
    began, memory = processor_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def say(*arguments: str, place: Path = repo, stdin: str = "") -> tuple[int, str]:
        done = invoke(["-C", place, *arguments], stdin=stdin)
        assert "Traceback" not in done.output and "internal error" not in done.stderr
        return done.exit_code, done.stdout + done.stderr

    status, text = say("fsck")
    assert status and "bad" in text
    for command in (
        ("export", "bad", str(tmp_path / "x.csv")),
        ("check",),
        ("commit", "--from", str(copy), "--allow-empty", "-m", "More"),
        ("push", "origin", "main"),
    ):
        status, text = say(*command)
        assert status, command
        assert "bad at " in text and reason in text, (command, text)
        assert len([line for line in text.splitlines() if "bad at " in line]) == 1
    assert run_git("for-each-ref", cwd=server) == ""
    # A server that somebody pushes to with git alone sees the objects of the push beside its own.
    (server / "objects" / "info" / "alternates").write_text(f"{repo / '.git' / 'objects'}\n")
    pushed = f"{'0' * 40} {run_git('rev-parse', 'HEAD', cwd=repo)} refs/heads/main\n"
    status, text = say("hook", "pre-receive", "--no-data", place=server, stdin=pushed)
    assert status and "this push is refused" in text
    assert "bad at " in text and reason in text, text
    # The others are read and changed as ever.
    for line in ("status", "data ls", "log", "diff HEAD^ -- good"):
        assert say(*line.split())[0] == 0, line
    assert say("meta", "set", "good", "title=Good")[0] == 0
    assert say("export", "good", str(tmp_path / "good.csv"))[0] == 0
    assert processor_time() - began < 60
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 400_000

    assert say("repair", "bad")[0] == 0
    assert say("fsck") == (0, "Everything is sound\n")
    if "pointer" not in way or way == "no pointer":  # what is none in the history cannot be sent
        assert say("push", "origin", "main")[0] == 0
    opened = Repo.open(repo)
    assert set(read(opened, dataset="bad")) == set(FIRST)
    write(opened, {**FIRST, 1: ("after", 1)}, dataset="bad")
    assert read(opened, dataset="bad") == {**FIRST, 1: ("after", 1)}
