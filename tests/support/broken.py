"""Broken datasets, made from outside: by git, by a text editor, by a script.

`BREAKS` are ways to break the dataset `bad` of a repository that has others, each as a
commit of plain git's that no part of this program had a hand in.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow.parquet as pq

from havasu_vc.exchange.source import SourceOptions
from tests.repo.points import Rows, add, make, table, write
from tests.support.git import run_git

__all__ = [
    "BOTH",
    "BREAKS",
    "FIRST",
    "KART_BREAKS",
    "NAMED",
    "OURS",
    "THEIRS",
    "Break",
    "commit_tree",
    "folder_of",
    "listed",
    "make_bare",
    "make_sound",
    "make_sound_kart",
    "named",
    "set_files",
]

Break = Callable[[Path], None]

INSIDE = "bad/.havasu-dataset"


def git(repo: Path, *arguments: str, stdin: bytes = b"", **environment: str) -> str:
    """Run git with bytes as they are, and return what it prints."""
    done = subprocess.run(
        ["git", *arguments],
        cwd=repo,
        input=stdin,
        capture_output=True,
        check=True,
        env={**os.environ, **environment},
    )
    return done.stdout.decode("utf-8", "surrogateescape").removesuffix("\n")


def listed(repo: Path, revision: str = "HEAD") -> dict[str, str]:
    """Return the blobs of a commit by path."""
    found = git(repo, "ls-tree", "-rz", revision).split("\0")
    lines = (line.partition("\t") for line in found if line)
    return {path: entry.split()[2] for entry, _, path in lines}


def commit_tree(repo: Path, files: Mapping[str, str], message: str, *parents: str) -> str:
    """Commit blobs by path on top of HEAD, or of parents; HEAD's branch moves."""
    index = str(repo.resolve() / "index-of-a-test")
    lines = b"".join(
        b"100644 %s\t%s\0" % (blob.encode(), path.encode("utf-8", "surrogateescape"))
        for path, blob in files.items()
    )
    git(repo, "update-index", "-z", "--index-info", stdin=lines, GIT_INDEX_FILE=index)
    tree = git(repo, "write-tree", GIT_INDEX_FILE=index)
    Path(index).unlink()
    given = [word for parent in parents or ("HEAD",) for word in ("-p", parent)]
    commit = git(repo, "commit-tree", tree, *given, "-m", message)
    if run_git("rev-parse", "--is-bare-repository", cwd=repo) == "true":
        git(repo, "update-ref", "HEAD", commit)
    else:
        git(repo, "reset", "-q", "--hard", commit)
    return commit


def set_files(repo: Path, contents: Mapping[str, bytes | None], message: str) -> str:
    """Commit files with some contents; None removes one."""
    files = listed(repo)
    for path, data in contents.items():
        files.pop(path, None)
        if data is not None:
            files[path] = git(repo, "hash-object", "-w", "--stdin", stdin=data)
    return commit_tree(repo, files, message)


def content(repo: Path, path: str) -> bytes:
    """Return a file of HEAD."""
    return subprocess.run(
        ["git", "cat-file", "blob", f"HEAD:{path}"], cwd=repo, capture_output=True, check=True
    ).stdout


def folder_of(repo: Path, prefix: str) -> dict[str, str]:
    """Return the blobs of HEAD below a folder, by the rest of their path."""
    files = listed(repo)
    return {
        path.removeprefix(prefix): blob
        for path, blob in files.items()
        if path[: len(prefix)] == prefix
    }


def merged_as_text(side: str) -> Break:
    """Merge the branch `dev` as a host's editor does: one side's text where both changed."""

    def merge(repo: Path) -> None:
        base, ours, theirs = (
            listed(repo, name)
            for name in (run_git("merge-base", "HEAD", "dev", cwd=repo), "HEAD", "dev")
        )
        files = {}
        for path in sorted(base.keys() | ours.keys() | theirs.keys()):
            mine, other, before = ours.get(path), theirs.get(path), base.get(path)
            both = mine if side == "ours" else other
            found = mine if other == before else other if mine == before else both
            if found is not None:
                files[path] = found
        commit_tree(repo, files, "Merge by a web editor", "HEAD", "dev")

    return merge


def squashed(repo: Path) -> None:
    """Merge as text and drop what was merged from the history, as "squash and merge" does."""
    before = run_git("rev-parse", "HEAD", cwd=repo)
    merged_as_text("theirs")(repo)
    commit_tree(repo, listed(repo), "Squash by a web editor", before)


def with_marks(repo: Path) -> None:
    """Commit a document with git's conflict marks in it."""
    text = content(repo, f"{INSIDE}/dataset.json")
    marked = b"<<<<<<< HEAD\n" + text + b"\n=======\n" + text + b"\n>>>>>>> dev\n"
    set_files(repo, {f"{INSIDE}/dataset.json": marked}, "Marks")


def edited(name: str, change: Callable[[bytes], bytes | None]) -> Break:
    """Change one document of the dataset."""

    def edit(repo: Path) -> None:
        path = f"{INSIDE}/{name}"
        set_files(repo, {path: change(content(repo, path))}, f"Edit {name}")

    return edit


def entry(change: Callable[[bytes], bytes | None]) -> Break:
    """Change the entry of a data file."""

    def edit(repo: Path) -> None:
        name = sorted(folder_of(repo, f"{INSIDE}/files/"))[0]
        edited(f"files/{name}", change)(repo)

    return edit


def named(name: str) -> Break:
    """Add a copy of `good` at a path that no file system should see."""

    def add(repo: Path) -> None:
        copy = {f"{name}/{rest}": blob for rest, blob in folder_of(repo, "good/").items()}
        commit_tree(repo, {**listed(repo), **copy}, "A strange name")

    return add


BREAKS: Mapping[str, Break] = {
    "our side's text": merged_as_text("ours"),
    "their side's text": merged_as_text("theirs"),
    "a squash": squashed,
    "conflict marks": with_marks,
    "no identity": edited("dataset.json", lambda _: None),
    "half an identity": edited("dataset.json", lambda data: data[: len(data) // 2]),
    "an identity of lists": edited("dataset.json", lambda _: b"[[[]]]"),
    "no schema": edited("columns/1.json", lambda _: None),
    "a garbled schema": edited("columns/1.json", lambda _: b"\xff{not json"),
    "a garbled entry": entry(lambda _: b"\0\1\2"),
    "no entry": entry(lambda _: None),
    "a line end in its name": named("a\nb"),
    "a drive in its name": named("a:b"),
}
"""Ways to break one dataset of a repository, in one commit or a merge."""
NAMED = ("a line end in its name", "a drive in its name")
"""Those of them that add another dataset, of a name that nobody can use."""


FIRST: Rows = {key: (f"name {key}", key) for key in range(1, 9)}
OURS: Rows = {**FIRST, 1: ("ours", 1), 2: ("ours", 2)}
THEIRS: Rows = {**FIRST, 1: ("name 1", 100), 3: ("theirs", 3)}
BOTH: Rows = {**FIRST, 1: ("ours", 100), 2: ("ours", 2), 3: ("theirs", 3)}


def make_sound(folder: Path) -> Path:
    """Make a repository in which `bad` was edited on `main` and on `dev`, beside two others."""
    repo = make(folder / "repo", FIRST, dataset="good")
    add(repo, folder, FIRST, "other")
    add(repo, folder, FIRST, "bad")
    repo.create_branch("dev")
    write(repo, OURS, dataset="bad", message="Ours")
    repo.switch("dev")
    write(repo, THEIRS, dataset="bad", message="Theirs")
    repo.switch("main")
    return repo.path


def make_bare(place: Path) -> None:
    """Make a bare repository of one with a work tree."""
    git_folder = place / ".git"
    for each in list(place.iterdir()):
        if each != git_folder:
            shutil.rmtree(each) if each.is_dir() else each.unlink()
    for each in list(git_folder.iterdir()):
        each.rename(place / each.name)
    git_folder.rmdir()
    run_git("config", "core.bare", "true", cwd=place)


def make_sound_kart(folder: Path) -> Path:
    """Make a repository in which `bad` is a dataset of Kart's, edited once, beside two others."""
    repo = make(folder / "repo", FIRST, dataset="good")
    add(repo, folder, FIRST, "other")
    file = folder / "bad.parquet"
    pq.write_table(table(FIRST), file)
    repo.import_(file, "bad", options=SourceOptions(primary_key=("id",)), kind="kart")
    write(repo, OURS, dataset="bad", message="Ours")
    return repo.path


def in_kart(prefix: str, change: bytes | None) -> Break:
    """Change the first file below a folder of a dataset of Kart's."""

    def edit(repo: Path) -> None:
        inside = "bad/.table-dataset/"
        name = sorted(folder_of(repo, f"{inside}{prefix}"))[0]
        set_files(repo, {f"{inside}{prefix}{name}": change}, "Edit a document of Kart's")

    return edit


KART_BREAKS: Mapping[str, Break] = {
    "a garbled schema": in_kart("meta/schema.json", b"{"),
    "no schema": in_kart("meta/schema.json", None),
    "a garbled legend": in_kart("meta/legend/", b"\xc1 no legend"),
    "a garbled path structure": in_kart("meta/path-structure.json", b"[]"),
    "a garbled feature": in_kart("feature/", b"\xc1 no feature"),
}
"""Ways to break a dataset of Kart's; only reading all rows tells of the last."""
