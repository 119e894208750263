"""Branches, tags and HEAD.

A commit becomes part of history by one compare-and-swap: `move_head` or `move_ref`
changes a ref only if it still has the value that the commit was built upon, writes
its reflog, waits a while for a lock that another process holds, and says which of the
two went wrong. Names follow git's rules.
"""

import random
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pygit2

from havasu_vc.errors import (
    ConcurrentChangeError,
    CorruptDatasetError,
    CorruptionError,
    InvalidArgumentError,
    InvalidNameError,
    LockedError,
    NoBranchError,
    RevisionNotFoundError,
    StateError,
    StorageError,
)
from havasu_vc.records import dataclass
from havasu_vc.store.objects import ObjectId, ObjectSource
from havasu_vc.store.repository import LOCK_PATIENCE, GitRepository

__all__ = [
    "BRANCHES",
    "Branch",
    "Head",
    "Tag",
    "branch_with_commits",
    "check_ref_name",
    "count_apart",
    "create_branch",
    "create_tag",
    "default_branch",
    "delete_branch",
    "delete_ref",
    "delete_tag",
    "list_branches",
    "list_refs",
    "list_tags",
    "move_head",
    "move_ref",
    "read_head",
    "read_ref",
]

BRANCHES, _REMOTES, _TAGS = "refs/heads/", "refs/remotes/", "refs/tags/"
_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_TAGGED = re.compile(rb"object ([0-9a-f]{40})\n")


@dataclass(frozen=True, slots=True)
class Head:
    """Where HEAD is."""

    branch: str | None
    """The branch that it is on; None when it is on a commit itself."""
    commit: ObjectId | None
    """The commit; None when the branch has none yet."""

    @property
    def ref(self) -> str:
        """The ref that a commit moves."""
        return "HEAD" if self.branch is None else BRANCHES + self.branch


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch, here or as last seen on a remote."""

    name: str
    """Its name; a remote one's begins with the remote's."""
    commit: ObjectId
    """Its newest commit."""
    is_head: bool
    """Whether HEAD is on it."""
    upstream: str | None
    """The branch that it follows."""
    checked_out: str | None
    """The work tree that is on it."""


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag of a commit."""

    name: str
    """Its name."""
    commit: ObjectId
    """The commit, also when the tag has a message of its own."""
    message: str | None
    """The message, for a tag that has one."""


def count_apart(repository: GitRepository, commit: ObjectId, other: str) -> tuple[int, int] | None:
    """Return how many commits one has that another lacks, and the other way round."""
    counted = repository.git(
        "rev-list", "--left-right", "--count", f"{commit}...{other}", "--", check=False
    )
    if counted.code != 0:
        return None
    ahead, behind = counted.text.split()
    return int(ahead), int(behind)


def read_head(repository: GitRepository) -> Head:
    """Return where HEAD is now."""
    branch = repository.head_branch
    return Head(branch, read_ref(repository, "HEAD" if branch is None else BRANCHES + branch))


@contextmanager
def _reading_refs() -> Iterator[None]:
    """Say of refs that libgit2 cannot read that git's own files are damaged."""
    try:
        yield
    except (KeyError, pygit2.InvalidSpecError):  # there is none, or no such name
        raise
    except pygit2.GitError as error:
        raise CorruptionError(
            f"git's refs cannot be read: {error}",
            hints=("`git fsck` and `git for-each-ref` tell more; refs are in the git directory",),
        ) from error


def default_branch(repository: GitRepository) -> str | None:
    """Return the branch that others begin from, as far as can be told; None where it cannot.

    It is origin's, else `main` or `master`, else the only one.
    """
    start = f"{_REMOTES}origin/"
    try:
        with _reading_refs():
            target = repository.handle.references[f"{start}HEAD"].target
    except (KeyError, pygit2.InvalidSpecError):
        target = None
    if isinstance(target, str) and target.startswith(start):
        return target.removeprefix(start)
    names = set(list_refs(repository, BRANCHES)) | {f"{BRANCHES}{repository.head_branch}"}
    for name in ("main", "master"):
        if BRANCHES + name in names:
            return name
    return names.pop().removeprefix(BRANCHES) if len(names) == 1 else None


def read_ref(repository: GitRepository, name: str) -> ObjectId | None:
    """Return what a ref points at, or None if there is no such ref."""
    try:
        with _reading_refs():
            return str(repository.handle.references[name].resolve().target)
    except (KeyError, pygit2.InvalidSpecError):
        return None


def move_head(repository: GitRepository, head: Head, new: ObjectId, message: str) -> None:
    """Move the branch that HEAD was on, or HEAD itself, from where it was to a commit."""
    if head.branch is None and repository.head_branch is not None:
        raise ConcurrentChangeError("HEAD was put on a branch meanwhile; nothing is changed")
    move_ref(repository, head.ref, old=head.commit, new=new, message=message)


def move_ref(
    repository: GitRepository,
    ref: str,
    *,
    old: ObjectId | None,
    new: ObjectId,
    message: str,
    patience: float = 5.0,
) -> None:
    """Point a ref at a commit if it is still at `old`; None means that it must not exist.

    Raises ConcurrentChangeError if it is elsewhere, LockedError if it stays locked for as
    many seconds as there is patience.
    """
    deadline, pause = time.monotonic() + patience, 0.002
    while True:
        try:
            _swap(repository, ref, old, new, message)
            return
        except (pygit2.GitError, OSError, ValueError) as error:
            # libgit2 reports a held lock and a lost race in several ways: look what is there.
            found = read_ref(repository, ref)
            if found == new:
                return  # it moved, and only what came after that failed
            if found != old:
                raise ConcurrentChangeError(
                    f"{_short(ref)} was moved by another process; nothing is changed",
                    hints=("try again",),
                ) from error
            lock = _lock_of(repository, ref)
            if lock.exists() and repository.frees(lock, deadline):
                deadline = max(deadline, time.monotonic() + 0.1)
                continue
            if time.monotonic() >= deadline:
                raise _stuck(repository, ref, error) from error
        time.sleep(pause * (1 + random.random()))
        pause = min(pause * 2, 0.1)


def _swap(
    repository: GitRepository, ref: str, old: ObjectId | None, new: ObjectId, message: str
) -> None:
    if old is None:
        repository.handle.create_reference_direct(ref, new, False, message)
        return
    # What this object read is what libgit2 compares under the lock.
    reference = repository.handle.references.get(ref)
    target = None if reference is None else reference.target
    if reference is None or str(target) != old:
        raise ValueError(f"{ref} is at {target}")
    reference.set_target(new, message)


def _stuck(repository: GitRepository, ref: str, error: Exception) -> Exception:
    lock = _lock_of(repository, ref)
    if lock.exists():
        holder = repository.holder(lock)
        return LockedError(
            f"{_short(ref)} is locked by {holder or 'another process'}",
            hints=(
                f"{lock} goes when that ends, or by the next command once nobody holds it; "
                "then try again",
            ),
        )
    others = repository.handle.references
    if any(other.startswith(ref + "/") or ref.startswith(other + "/") for other in others):
        return InvalidNameError(_short(ref), "there is a ref whose name is a part of it, or longer")
    return StorageError(f"{_short(ref)} cannot be moved: {error}")


def _lock_of(repository: GitRepository, ref: str) -> Path:
    holder = repository.git_directory if ref == "HEAD" else repository.common_directory
    return holder / f"{ref}.lock"


def _unlock(repository: GitRepository, ref: str) -> None:
    """Remove a lock that nobody holds before a deletion, which git would leave half done."""
    lock = _lock_of(repository, ref)
    if lock.exists():
        repository.frees(lock, time.monotonic() + LOCK_PATIENCE)


def list_refs(
    repository: GitRepository, prefix: str, *, symbolic: bool = True
) -> dict[str, ObjectId]:
    """Return the refs whose names begin with a prefix, by name, and what they point at.

    Without `symbolic`, only those that point at an object themselves.
    """
    found = {}
    with _reading_refs():
        refs = list(repository.handle.references.iterator())
    for ref in refs:
        name = ref.raw_name.decode("utf-8", "surrogateescape")
        if not name.startswith(prefix) or not (symbolic or isinstance(ref.target, pygit2.Oid)):
            continue
        with suppress(KeyError, pygit2.GitError):  # it points at a ref that is not there
            found[name] = str(ref.resolve().target)
    return dict(sorted(found.items()))


def delete_ref(repository: GitRepository, ref: str, old: ObjectId) -> None:
    """Remove a ref that is at `old`."""
    _unlock(repository, ref)
    repository.git("update-ref", "-d", ref, old)


def check_ref_name(name: str) -> None:
    """Raise InvalidNameError unless git takes `name` for a branch or a tag."""
    if name in ("HEAD", "@") or name.startswith("-"):
        raise InvalidNameError(name, "git gives it another meaning")
    try:
        # libgit2 would see the name only up to a NUL.
        valid = "\0" not in name and pygit2.reference_is_valid_name(BRANCHES + name)
    except (ValueError, pygit2.GitError):
        valid = False
    if not valid:
        raise InvalidNameError(name, "git does not allow it for branches and tags")


def list_branches(repository: GitRepository, *, remote: bool = False) -> list[Branch]:
    """Return the branches, by name."""
    fields = ("refname", "objectname", "HEAD", "upstream:short", "worktreepath", "symref")
    found = []
    prefix = _REMOTES if remote else BRANCHES
    for name, commit, mark, upstream, worktree, symbolic in _each_ref(repository, prefix, fields):
        if not symbolic:  # such as origin/HEAD
            found.append(
                Branch(
                    name.removeprefix(prefix),
                    commit,
                    mark == "*",
                    upstream or None,
                    worktree or None,
                )
            )
    return found


def branch_with_commits(repository: GitRepository) -> str | None:
    """Return what to switch to from a branch without commits: one of here, else of a remote.

    A host may call another branch its first than the one that holds the work.
    """
    names = [branch.name for branch in list_branches(repository)]
    seen = list_branches(repository, remote=True)
    names += [branch.name.partition("/")[2] for branch in seen]
    return next((name for name in ("main", "master") if name in names), names[0] if names else None)


def create_branch(
    repository: GitRepository, name: str, commit: ObjectId, *, force: bool = False
) -> None:
    """Make a branch at a commit; with `force`, move it there if it exists."""
    check_ref_name(name)
    if not force and read_ref(repository, BRANCHES + name) is not None:
        raise InvalidArgumentError(f"there is a branch {name!r} already")
    options = ["--force"] if force else []
    repository.git("branch", "--quiet", "--no-track", *options, "--", name, commit)


def delete_branch(repository: GitRepository, name: str, *, force: bool = False) -> None:
    """Delete a branch; unless `force`, only one whose commits another one has."""
    _check_branch(repository, name)
    if name == repository.head_branch:
        raise StateError(
            f"HEAD is on branch {name!r}, which therefore stays",
            hints=("`havasu-vc switch BRANCH` to another one first",),
        )
    _unlock(repository, BRANCHES + name)
    repository.git("branch", "--quiet", "-D" if force else "-d", "--", name)


def _check_branch(repository: GitRepository, name: str) -> None:
    if name != repository.head_branch and read_ref(repository, BRANCHES + name) is None:
        raise NoBranchError(
            f"there is no branch {name!r}", hints=("`havasu-vc branch` lists the branches",)
        )


def list_tags(repository: GitRepository) -> list[Tag]:
    """Return the tags of commits, by name; one whose objects are damaged is left to `fsck`."""
    found = []
    for name, target in list_refs(repository, _TAGS).items():
        with suppress(CorruptDatasetError):
            commit, message = _peeled(repository.objects, target)
            if commit is not None:
                found.append(Tag(name.removeprefix(_TAGS), commit, message))
    return found


def _peeled(source: ObjectSource, target: ObjectId) -> tuple[ObjectId | None, str | None]:
    """Return the commit that a tag ends at, None if it ends elsewhere, and its own message.

    Messages may hold any bytes, so none comes in a line of git's.
    """
    message = None
    while True:
        kind, data = source.read(target)
        if kind != "tag":
            return target if kind == "commit" else None, message
        head, _, body = data.partition(b"\n\n")
        named = _TAGGED.match(head)
        if named is None:
            raise CorruptDatasetError(f"git object {target}", "as a tag, it names no object")
        if message is None:
            text = body.lstrip(b"\n").removesuffix(b"\n")
            message = text.decode("utf-8", "surrogateescape")
        target = named[1].decode()


def create_tag(
    repository: GitRepository,
    name: str,
    commit: ObjectId,
    *,
    message: str | None = None,
    force: bool = False,
) -> None:
    """Tag a commit, with a message or without."""
    check_ref_name(name)
    if not force and read_ref(repository, _TAGS + name) is not None:
        raise InvalidArgumentError(f"there is a tag {name!r} already")
    options = ["--force"] if force else []
    options += ["--no-sign"] if message is None else ["--annotate", f"--message={message}"]
    repository.git("tag", *options, "--", name, commit)


def delete_tag(repository: GitRepository, name: str) -> None:
    """Delete a tag."""
    if read_ref(repository, _TAGS + name) is None:
        error = RevisionNotFoundError(name, hints=("`havasu-vc tag` lists the tags",))
        error.message = f"there is no tag {name!r}"
        raise error
    _unlock(repository, _TAGS + name)
    repository.git("tag", "--delete", "--", name)


def _each_ref(repository: GitRepository, prefix: str, fields: tuple[str, ...]) -> list[list[str]]:
    # Folders of work trees may hold any character, and git's formats have no NUL before 2.36;
    # it quotes for Perl what is read here.
    form = " ".join(f"%({field})" for field in fields)
    text = repository.git("for-each-ref", "--perl", f"--format={form}", prefix).text
    words = [_ESCAPED.sub(r"\1", word) for word in _QUOTED.findall(text)]
    return [words[start : start + len(fields)] for start in range(0, len(words), len(fields))]


def _short(ref: str) -> str:
    return ref.removeprefix(BRANCHES)
