"""What must hold after every command on a repository, checked with the real git.

`CheckedRepo` is a Repo whose every method looks at the repository before and after:
`git status` says what it said, `git fsck --strict` is silent, the datasets of HEAD agree
with their guards, nothing is left half done, and the work tree has what it had. A method
that raises must leave every byte that counts where it was, which `frozen` compares.
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

from havasu_vc import Repo
from havasu_vc.errors import HavasuError
from havasu_vc.model.diffs import DatasetDiff
from havasu_vc.store.refs import read_head
from tests.support.git import git_fsck, run_git
from tests.support.templates import LOCAL, empty_repo

__all__ = [
    "LOCAL",
    "CheckedRepo",
    "assert_sound",
    "checked",
    "frozen",
    "listing",
    "loaded",
    "refuses",
]

DERIVED = ("havasu/keys/", "havasu/settled/", "havasu/standing/")


def listing(repo: Repo) -> dict[str, str]:
    """Return everything that an operation which fails must leave alone, with its content.

    Key caches, and what is remembered of trees, are derived and may come or go.
    """
    found = {}
    roots = {repo.git.common_directory, repo.git.git_directory}
    for root in sorted(roots):
        for name in _files(root):
            path = root / name
            if name in ("havasu/lock", "havasu/loose", "havasu/sound") or name.startswith(DERIVED):
                continue
            if path.name == "index":
                # git refreshes the times in it; what it lists is what counts.
                found[f"{root.name}/{name}"] = run_git("ls-files", "--stage", cwd=repo.path)
            else:
                found[f"{root.name}/{name}"] = _digest(path)
    if not repo.git.is_bare:
        found |= {f"work tree/{name}": text for name, text in work_tree(repo).items()}
    return found


def _files(root: Path, *, without: str = "") -> Iterator[str]:
    """Yield the paths of files below a folder, but for what is in folders of a name."""
    for folder, folders, names in os.walk(root):
        if without in folders:
            folders.remove(without)
        inside = os.path.relpath(folder, root)
        yield from names if inside == "." else (f"{inside}/{name}" for name in names)


def _digest(path: Path) -> str:
    if path.is_symlink():
        return f"-> {os.readlink(path)}"
    return hashlib.sha256(path.read_bytes()).hexdigest()


def work_tree(repo: Repo) -> dict[str, str]:
    """Return the user's files."""
    top = repo.git.work_tree
    if top is None:
        return {}
    files = (name for name in _files(top, without=".git") if not name.endswith("/.git"))
    return {name: _digest(top / name) for name in files if name != ".git"}


@contextmanager
def frozen(repo: Repo) -> Iterator[None]:
    """Check that a block leaves refs, index, objects and data files as they are."""
    before = listing(repo)
    yield
    after = listing(repo)
    changed = sorted(n for n in before.keys() | after.keys() if before.get(n) != after.get(n))
    assert not changed, f"changed: {changed}"


@contextmanager
def refuses(
    repo: Repo, *kinds: type[HavasuError], match: str = "", hint: bool = False
) -> Iterator[None]:
    """Check that a block is refused with one clear line, and changes nothing."""
    before = listing(repo)
    try:
        yield
    except kinds as error:
        assert error.message, error
        assert "\n" not in error.message.strip(), f"not one line: {error.message!r}"
        assert len(error.message) < 400, f"too long: {error.message!r}"
        assert "Traceback" not in error.message and "<class" not in error.message
        assert match in error.message, error.message
        assert error.hints or not hint, f"no hint: {error.message!r}"
    else:
        raise AssertionError("nothing was refused")
    after = listing(repo)
    changed = sorted(n for n in before.keys() | after.keys() if before.get(n) != after.get(n))
    assert not changed, f"changed: {changed}"
    assert_sound(repo)


def status(repo: Repo) -> str:
    """Return what the real git says of the user's files."""
    if repo.git.is_bare:
        return ""
    return run_git("status", "--porcelain=v1", "--untracked-files=all", cwd=repo.path)


def assert_sound(repo: Repo, *, dangling: bool = False, guards: bool = True) -> None:
    """Check a repository between two commands."""
    said = git_fsck(repo.git.common_directory, "--no-dangling" if dangling else "--dangling")
    if read_head(repo.git).commit is None:
        # git remarks on a repository before its first commit.
        said = "".join(line for line in said.splitlines() if not line.startswith("notice: "))
    assert not said, f"git fsck: {said}"
    if guards:
        for path in repo.datasets():
            repo.dataset(path).check_guard()
    left = leftovers(repo)
    assert not left, f"left behind: {left}"
    if not repo.git.is_bare:
        inside = [name for name in work_tree(repo) if ".havasu-dataset" in name]
        assert inside == []


def facts(repo: Repo) -> object:
    """Return what tells whether a file of the repository or its work tree was written since."""
    roots = {repo.git.common_directory, repo.git.git_directory, repo.git.work_tree} - {None}
    found = []
    for root in sorted(map(str, roots)):
        for folder, _, names in os.walk(root):
            found.append((folder, 0, 0, 0))
            for name in names:
                with suppress(FileNotFoundError):  # others may be at work beside
                    stat = os.lstat(path := f"{folder}/{name}")
                    found.append((path, stat.st_ino, stat.st_size, stat.st_mtime_ns))
    return found


def leftovers(repo: Repo) -> list[str]:
    """Return what commands leave behind only when they die."""
    found = []
    havasu = repo.git.data_folder
    for part in ("staging", "temporary", "index-behind"):
        if (havasu / part).is_dir():
            found += [f"{part}/{p.name}" for p in (havasu / part).iterdir()]
    for root in {repo.git.common_directory, repo.git.git_directory}:
        behind = root / "havasu" / "index-behind"
        found += [f"{behind}/{p.name}" for p in behind.iterdir()] if behind.is_dir() else []
        for path in _files(root):
            name = path.rpartition("/")[2]
            if name.endswith(".lock") or name.startswith(("tmp_", ".tmp", "incoming")):
                found.append(path)
    return sorted(set(found))


def loaded(diffs: Iterator[DatasetDiff]) -> list[DatasetDiff]:
    """Read diffs to the end; their changes can be read again and again."""
    return [replace(diff, changes=tuple(diff.changes)) for diff in diffs]  # type: ignore[arg-type]


class CheckedRepo:
    """A Repo that is checked around every method call."""

    def __init__(self, repo: Repo, *, dangling: bool = False) -> None:
        self.repo = repo
        self.dangling = dangling
        """Whether commits may be there that no branch reaches."""
        self._sound: object = None
        self._said, self._files = "", dict[str, str]()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.repo, name)
        if not callable(found) or name.startswith("_") or isinstance(found, type):
            return found

        @wraps(found)
        def call(*args: Any, **options: Any) -> Any:
            if (was := facts(self.repo)) != self._sound:
                self._said, self._files = status(self.repo), work_tree(self.repo)
                was = facts(self.repo)  # git notes in its index when it looked
            try:
                result = found(*args, **options)
                if name == "diff":
                    result = loaded(result)
                elif name in ("show", "create_patch"):
                    result = (result[0], loaded(result[1]))
                elif hasattr(result, "__next__"):
                    result = list(result)
            finally:
                # What was sound and is as it was need not be looked at again.
                if was != self._sound or facts(self.repo) != was:
                    self._check(name)
            return result

        return call

    def _check(self, name: str) -> None:
        """Check what a method left."""
        assert status(self.repo) == self._said, f"{name} changed the status"
        assert_sound(self.repo, dangling=self.dangling)
        now = work_tree(self.repo)
        if name != "switch":
            without = [
                {file: text for file, text in files.items() if file != ".gitattributes"}
                for files in (now, self._files)
            ]
            assert without[0] == without[1], f"{name} changed the work tree"
        self._files, self._sound = now, facts(self.repo)


def checked(path: Path, *, bare: bool = False) -> CheckedRepo:
    """Make a repository and check it around every method call."""
    return CheckedRepo(empty_repo(path, bare=bare, settings=LOCAL))
