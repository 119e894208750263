"""Names of commits: revisions, and ranges of two.

A revision is anything git takes for a commit (`HEAD~2`, `v1^`, `main@{yesterday}`,
`a1b2c3d`), and besides, as in Kart, `[EMPTY]` for the tree without datasets and `A^?`
for A's first parent or `[EMPTY]` where it has none. A range is one of

    A        from A to the work tree        A..B     from A to B
                                            A...B    from the merge base of A and B to B

where an end that is left out is HEAD. What is compared in a repository of Kart's, `A...B` goes
from A to B and `A..B` from the merge base, as in Kart, and trees may be named.

Everything here is resolved to ids at once, so a branch that moves meanwhile does not matter.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pygit2

from havasu_vc.errors import InvalidArgumentError, RevisionNotFoundError, StateError
from havasu_vc.records import dataclass
from havasu_vc.store.commits import read_commit
from havasu_vc.store.objects import EMPTY_TREE, ObjectId
from havasu_vc.store.refs import read_ref
from havasu_vc.store.repository import GitRepository

__all__ = [
    "EMPTY",
    "RangeText",
    "Revision",
    "RevisionRange",
    "Stopped",
    "commit_tree",
    "merge_base",
    "parse_range",
    "read_stopped",
    "resolve",
    "resolve_compared",
    "resolve_range",
    "resolve_tree",
    "unmerged_files",
]


EMPTY = "[EMPTY]"
"""The name of the revision that holds nothing."""

_FROM_MERGE_BASE = "..."
"""The separator that starts at the merge base."""

_RANGE = re.compile(r"(?P<old>.*?)(?P<separator>\.\.\.?)(?P<new>.*)", re.DOTALL)
_AT = re.compile(r"([^@]*)@\{([^{}]*)\}(.*)")
_ID = re.compile(r"[0-9a-f]{40}")
_DATE = re.compile(r"\d|yesterday|today|noon|midnight|tea|last|ago", re.IGNORECASE)
_PARENT_OR_EMPTY = "^?"


@dataclass(frozen=True, slots=True)
class Revision:
    """A commit, or the empty revision."""

    name: str
    """How it was asked for."""
    commit: ObjectId | None
    """The commit; None for the empty revision."""
    tree: ObjectId
    """The commit's tree."""

    @property
    def is_empty(self) -> bool:
        """Whether this is the revision that holds nothing."""
        return self.commit is None

    @property
    def git_name(self) -> str:
        """Its name as git spells it too: `HEAD^` for `HEAD^?`, where there is a parent."""
        if not self.name.endswith(_PARENT_OR_EMPTY):
            return self.name
        return EMPTY if self.is_empty else self.name.removesuffix("?")


@dataclass(frozen=True, slots=True)
class RangeText:
    """A range as it was written."""

    old: str
    """Where it starts."""
    new: str | None
    """Where it ends; None for the work tree."""
    from_merge_base: bool = False
    """Whether it starts at the merge base of the two instead."""


@dataclass(frozen=True, slots=True)
class RevisionRange:
    """From one revision to another."""

    old: Revision
    """Where it starts."""
    new: Revision
    """Where it ends; HEAD for the work tree, as what is not committed has no revision."""


def resolve(repository: GitRepository, name: str) -> Revision:
    """Return the commit that a name means."""
    if name in (EMPTY, EMPTY_TREE):
        return Revision(name, None, EMPTY_TREE)
    if name.endswith(_PARENT_OR_EMPTY):
        commit = resolve(repository, name.removesuffix(_PARENT_OR_EMPTY) or "HEAD").commit
        parents = read_commit(repository.objects, commit).parents if commit else ()
        if not parents:
            return Revision(name, None, EMPTY_TREE)
        if not repository.objects.has(parents[0]) and repository.handle.is_shallow:
            if repository.follows_kart:
                return Revision(name, None, EMPTY_TREE)  # as in Kart, where history begins there
            told = (
                "this clone has only the newest commits and begins with "
                f"{(commit or name)[:10]}, so what that changed is not known here"
            )
            raise RevisionNotFoundError(name.removesuffix("?"), hints=(_OLDER,), reason=told)
        return Revision(name, parents[0], commit_tree(repository, parents[0]))
    commit = _commit_id(repository, name)
    return Revision(name, commit, commit_tree(repository, commit))


def parse_range(text: str) -> RangeText:
    """Return the ends of a range.

    >>> parse_range("main...")
    RangeText(old='main', new='HEAD', from_merge_base=True)
    """
    match = _RANGE.fullmatch(text)
    if match is None:
        return RangeText(text or "HEAD", None)
    old, separator, new = match.groups()
    if ".." in new or new.startswith("."):
        raise InvalidArgumentError(
            f"{text!r} is not a range of two revisions", hints=("write A..B or A...B",)
        )
    return RangeText(old or "HEAD", new or "HEAD", separator == _FROM_MERGE_BASE)


def resolve_range(repository: GitRepository, text: str) -> RevisionRange:
    """Return the revisions between which a range goes.

    Where HEAD has no commit yet, the work tree is compared with the empty revision.
    """
    return _between(repository, text, parse_range(text), resolve)


def resolve_compared(repository: GitRepository, text: str) -> RevisionRange:
    """Return the revisions that a range compares, by Kart's rules in a repository of Kart's."""
    ends = parse_range(text)
    if repository.follows_kart and ends.new is not None:
        ends = replace(ends, from_merge_base=not ends.from_merge_base)
    return _between(repository, text, ends, resolve_tree)


def resolve_tree(repository: GitRepository, name: str) -> Revision:
    """Return the commit, or else the tree, that a name means."""
    try:
        return resolve(repository, name)
    except RevisionNotFoundError:
        command = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{tree}}")
        answer = repository.git(*command, check=False)
        # What git is told to leave out begins with `^`, and so does its answer.
        if answer.code or not name.isprintable() or name.startswith("^"):
            raise
        return Revision(name, None, answer.text)


def _between(
    repository: GitRepository,
    text: str,
    ends: RangeText,
    resolve: Callable[[GitRepository, str], Revision],
) -> RevisionRange:
    if ends.new is None:
        head = _head(repository)
        old = head if ends.old in ("HEAD", "@") else resolve(repository, ends.old)
        return RevisionRange(old, head)
    old, new = resolve(repository, ends.old), resolve(repository, ends.new)
    if ends.from_merge_base and old.commit and new.commit:
        base = merge_base(repository, old.commit, new.commit)
        if base is None:
            direct = "..." if repository.follows_kart else ".."
            raise RevisionNotFoundError(
                text, hints=(f"the two have no common ancestor: `{ends.old}{direct}{ends.new}`",)
            )
        old = Revision(base, base, commit_tree(repository, base))
    return RevisionRange(old, new)


def merge_base(repository: GitRepository, one: ObjectId, other: ObjectId) -> ObjectId | None:
    """Return the best common ancestor of two commits, or None if they have none."""
    if repository.objects.loose.damaged:
        return repository.git("merge-base", one, other, check=False).text or None
    try:
        found = repository.handle.merge_base(one, other)
    except (KeyError, ValueError, pygit2.GitError):
        return None
    return None if found is None else str(found)


def commit_tree(repository: GitRepository, commit: ObjectId) -> ObjectId:
    """Return the tree of a commit."""
    return read_commit(repository.objects, commit).tree


def _head(repository: GitRepository) -> Revision:
    if read_ref(repository, "HEAD") is None:
        return Revision("HEAD", None, EMPTY_TREE)
    return resolve(repository, "HEAD")


def _commit_id(repository: GitRepository, name: str) -> ObjectId:
    if not name or name.startswith("-") or not name.isprintable():
        raise RevisionNotFoundError(name)
    if match := _AT.fullmatch(name):
        return _commit_at(repository, name, match)
    if repository.objects.loose.damaged:
        return _commit_id_by_git(repository, name)
    try:
        found = repository.handle.revparse_single(name)
    except pygit2.AmbiguousError as error:
        raise RevisionNotFoundError(
            name, hints=("it is the beginning of several ids: give more digits",)
        ) from error
    except KeyError as error:
        raise _not_found(repository, name) from error
    except (ValueError, pygit2.GitError, OSError):
        # git reads some that libgit2 does not, such as a commit of a time that no number holds.
        return _commit_id_by_git(repository, name)
    try:
        return str(found.peel(pygit2.Commit).id)
    except (ValueError, pygit2.GitError) as error:
        raise RevisionNotFoundError(name, hints=("it is not a commit",)) from error


def _commit_id_by_git(repository: GitRepository, name: str) -> ObjectId:
    """Return what git takes a name for, where libgit2 may meet an object that it cannot read."""
    command = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    answer = repository.git(*command, check=False)
    if not answer.code and _ID.fullmatch(answer.text):  # `^HEAD` is told as such
        return answer.text
    raise _not_found(repository, name)


def _not_found(repository: GitRepository, name: str) -> RevisionNotFoundError:
    """Return the error of a name that means no commit; raise that of an object behind it."""
    _require_readable(repository, name)
    reason, hints = "", _shallow(repository)
    if _ID.fullmatch(name) and repository.handle.is_shallow:
        # Nobody typed it: it is the parent of one that is here.
        reason, hints = "this clone has only the newest commits", (_OLDER,)
    return RevisionNotFoundError(name, hints=hints, reason=reason)


def _require_readable(repository: GitRepository, name: str) -> None:
    """Raise where a name begins with a ref, or the id, of an object that is unreadable or gone."""
    start = re.split(r"[~^:]|@\{", name, maxsplit=1)[0]
    head = read_ref(repository, "HEAD")
    if _ID.fullmatch(start):
        # An id that is not here may be of any repository; HEAD's is of this one.
        named = start if start == head or repository.objects.has(start) else None
    else:
        named = head if start in ("", "@") else _target(repository, start)
    if named is not None:
        repository.objects.read(named)


def _target(repository: GitRepository, name: str) -> ObjectId | None:
    """Return what a ref is at, as far as that can be read."""
    try:
        return str(repository.handle.lookup_reference_dwim(name).resolve().target)
    except (KeyError, ValueError, pygit2.GitError):
        return None


_OLDER = "`havasu-vc fetch --unshallow` brings them all, `havasu-vc fetch --depth N` the newest N"


def _shallow(repository: GitRepository) -> tuple[str, ...]:
    """Return what to know of a name that may mean a commit before those that are here, or none."""
    if read_ref(repository, "HEAD") is None and not any(repository.handle.references):
        return ("there is no commit yet; `havasu-vc import` makes the first",)
    if not repository.handle.is_shallow:
        return ()
    return (f"this clone has only the newest commits, and this may be an older one: {_OLDER}",)


def _commit_at(repository: GitRepository, name: str, match: re.Match[str]) -> ObjectId:
    """Resolve `branch@{…}`, which git reads its own way and libgit2 only in part.

    git takes a date from the reflog, which begins where this clone does; for dates before
    that, the newest commit of the branch that is not younger is meant.
    """
    branch, when, rest = match.groups()
    given = repository.git("rev-parse", "--verify", f"{name}^{{commit}}", check=False)
    if given.code == 0 and "only goes back to" not in given.errors:
        return given.text
    if not _DATE.search(when) or re.fullmatch(r"-?\d+", when):
        raise RevisionNotFoundError(name)
    try:
        start = _commit_id(repository, branch or "HEAD")
    except RevisionNotFoundError as error:
        raise RevisionNotFoundError(name) from error
    found = repository.git("rev-list", "-1", "--first-parent", f"--before={when}", start).text
    if not found:
        raise RevisionNotFoundError(name, hints=(f"{branch or 'HEAD'} is younger than that",))
    return _commit_id(repository, found + rest)


# What git stopped half-way: which commits it was bringing together, and how it goes on.
#
# git notes this in files of the git directory. A plain merge, a cherry-pick, a revert, a
# step of a rebase and a squash are told apart; a `cherry-pick --no-commit` that stops
# leaves no note of its commit, so it is none of them.

_COMMIT = re.compile(r"^commit ([0-9a-f]{40})$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Stopped:
    """An operation of git that waits for somebody to go on with it."""

    kind: str
    """`merge`, `cherry-pick`, `revert`, `rebase` or `squash`."""
    theirs: ObjectId | str | None
    """The revision that is brought into HEAD; None where a step is done and more are to come."""
    base: ObjectId | str | None = None
    """The revision that both are compared with; None for their merge base."""

    @property
    def command(self) -> str:
        """The git command that began it."""
        return "merge" if self.kind == "squash" else self.kind

    @property
    def resume(self) -> tuple[str, ...]:
        """The git command that goes on."""
        return ("commit",) if self.kind == "squash" else (self.kind, "--continue")

    @property
    def abort(self) -> tuple[str, ...]:
        """The git command that gives up."""
        return ("reset", "--merge") if self.kind == "squash" else (self.kind, "--abort")


def read_stopped(repository: GitRepository) -> Stopped | None:
    """Return what git stopped half-way, if that brings commits together."""
    folder = repository.git_directory
    rebasing = (folder / "rebase-merge").is_dir() or (folder / "rebase-apply/rebasing").exists()
    if merged := _read(folder / "MERGE_HEAD").split():
        if len(merged) > 1:
            raise StateError(
                "git stopped in a merge of several branches at once",
                hints=("`git merge --abort`, then merge one branch after the other",),
            )
        return Stopped("rebase" if rebasing else "merge", merged[0])
    if rebasing:
        return _picked(repository, "rebase", _read(folder / "REBASE_HEAD"))
    for kind, name in (("cherry-pick", "CHERRY_PICK_HEAD"), ("revert", "REVERT_HEAD")):
        if picked := _read(folder / name):
            return _picked(repository, kind, picked)
    todo = _read(folder / "sequencer" / "todo").split()
    if todo:
        return Stopped("revert" if todo[0] == "revert" else "cherry-pick", None)
    squashed = _COMMIT.search(_read(folder / "SQUASH_MSG"))
    if squashed is not None:
        # git forgets to remove this file when a squash is given up.
        staged = repository.git("diff-index", "--cached", "--quiet", "HEAD", "--", check=False)
        if staged.code:
            return Stopped("squash", squashed.group(1))
    return None


def _picked(repository: GitRepository, kind: str, commit: str) -> Stopped:
    if not commit:
        return Stopped(kind, None)
    parents = read_commit(repository.objects, commit).parents
    if len(parents) > 1:
        raise StateError(
            f"git stopped at {commit[:10]}, which is a merge, and did not note which of its "
            "parents counts",
            hints=(
                f"`git {kind} --abort`, then `havasu-vc {kind} --mainline N`"
                if kind != "rebase"
                else "`git rebase --abort`, then merge instead",
            ),
        )
    parent = parents[0] if parents else EMPTY
    return Stopped(kind, parent, commit) if kind == "revert" else Stopped(kind, commit, parent)


def unmerged_files(repository: GitRepository) -> tuple[str, ...]:
    """Return the paths that are in conflict in the index."""
    listed = repository.git("ls-files", "--unmerged", "-z").text.split("\0")
    return tuple(dict.fromkeys(line.split("\t", 1)[1] for line in listed if line))


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return ""
