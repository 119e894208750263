"""The commits that a revision reaches, newest first, as `git log` chooses them.

Of commits of one second those come first that were met first, as in git, so no more is read
than is given. `children_first` has none come before all that were built upon it.
With paths, only commits that changed one of them are given: the ids of the entries at
the paths are compared with the parents', and of a merge that took one side as it was
only that side is followed, so a commit costs the reading of a few trees at most. Where a
path begins, whoever asks may say what it was before, and is given that from there on.

What git writes beside a commit in its log: HEAD first, then the other refs, last names first.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from heapq import heappop, heappush

import pygit2
from pygit2.enums import SortMode

from havasu_vc.errors import CorruptDatasetError, InvalidArgumentError
from havasu_vc.records import dataclass
from havasu_vc.store.commits import Commit, read_commit
from havasu_vc.store.objects import EMPTY_TREE, ObjectId
from havasu_vc.store.refs import BRANCHES, list_refs, list_tags, read_head
from havasu_vc.store.repository import GitRepository
from havasu_vc.store.trees import TREE, read_entries

__all__ = [
    "Alike",
    "LogFilter",
    "Moved",
    "RefFilter",
    "children_first",
    "commits",
    "decorations",
    "ends_of_history",
    "parse_date",
    "tips",
]


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Which commits are wanted. Every condition must hold."""

    paths: tuple[str, ...] = ()
    """Files and folders, one of which must have changed; none means any."""
    since: int | None = None
    """Seconds since 1970 that the commit must not be older than."""
    until: int | None = None
    """Seconds since 1970 that the commit must not be newer than."""
    author: str | None = None
    """A regular expression that `Name <email>` must match somewhere."""
    committer: str | None = None
    """A regular expression that the committer's `Name <email>` must match somewhere."""
    grep: str | None = None
    """A regular expression that a line of the message must match somewhere."""
    merges: bool | None = None
    """Whether only merges are wanted, or only what is none; None for both."""
    skip: int = 0
    """How many of those to leave out at the start."""
    limit: int | None = None
    """How many of those to give at most."""


EVERY = LogFilter()
"""All commits."""


Alike = Callable[[Commit | None, Commit], bool]
"""Whether a commit changed nothing that is wanted of a parent, or of nothing at all."""

Moved = Callable[[Commit, Commit, tuple[str, ...]], tuple[str, ...]]
"""The paths, in a parent, of what is at some paths of a commit."""


def commits(
    repository: GitRepository,
    start: ObjectId,
    wanted: LogFilter = EVERY,
    *,
    also: Sequence[ObjectId] = (),
    hide: Sequence[ObjectId] = (),
    alike: Alike | None = None,
    moved: Moved | None = None,
) -> Iterator[Commit]:
    """Yield the commits that `start` or those of `also` reach and those of `hide` do not.

    `alike` looks closer where one of the paths differs; `moved` where none is in a parent.
    """
    author, grep = _pattern("author", wanted.author), _pattern("grep", wanted.grep)
    committer = _pattern("committer", wanted.committer)
    skipped = given = 0
    starts = tuple(dict.fromkeys((start, *also)))
    queue = _Queue(repository, set(children_first(repository, starts, hide)) if hide else None)
    for start in starts:
        queue.push(start)
    found = _touching(repository, queue, wanted.paths, alike, moved) if wanted.paths else queue
    for commit in found:
        if given == wanted.limit:
            return
        time = commit.committer.time
        if wanted.since is not None and time < wanted.since:
            continue
        if wanted.until is not None and time > wanted.until:
            continue
        if wanted.merges is not None and wanted.merges != (len(commit.parents) > 1):
            continue
        if author and not author.search(f"{commit.author.name} <{commit.author.email}>"):
            continue
        by = commit.committer
        if committer and not committer.search(f"{by.name} <{by.email}>"):
            continue
        if grep and not grep.search(commit.message):
            continue
        if skipped < wanted.skip:
            skipped += 1
            continue
        given += 1
        yield commit


def parse_date(repository: GitRepository, text: str) -> int:
    """Return a date in any of git's forms (`2 weeks ago`, `2026-01-31`) as seconds since 1970."""
    answer = repository.git("rev-parse", f"--since={text}", check=False).text
    match = re.fullmatch(r"--max-age=(\d+)", answer)
    if match is None:
        raise InvalidArgumentError(f"{text!r} is not a date")
    return int(match[1])


def _pattern(name: str, text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text, re.MULTILINE)
    except re.error as error:
        raise InvalidArgumentError(f"--{name} is not a regular expression: {error}") from error


def children_first(
    repository: GitRepository, starts: Sequence[ObjectId], hide: Sequence[ObjectId] = ()
) -> Iterator[ObjectId]:
    """Yield what `starts` reach and those of `hide` do not, nothing before all built upon it."""
    if repository.objects.loose.damaged:
        # git ends where it meets one of these.
        names = [*starts, *(f"^{commit}" for commit in hide)]
        answer = repository.git("rev-list", "--date-order", *names, "--", check=False)
        if answer.code:
            raise CorruptDatasetError(
                f"git object {starts[0]}", f"its history cannot be read ({answer.message})"
            )
        yield from answer.lines
        return
    try:
        walker = repository.handle.walk(starts[0], SortMode.TOPOLOGICAL | SortMode.TIME)
        for commit in starts[1:]:
            walker.push(commit)
        for commit in hide:
            walker.hide(commit)
        for found in walker:
            yield str(found.id)
    except (KeyError, ValueError, pygit2.GitError) as error:
        raise CorruptDatasetError(
            f"git object {starts[0]}", f"its history cannot be read ({error})"
        ) from error


class _Queue:
    """Commits to come, newest first; each brings its parents when the next is asked for."""

    def __init__(self, repository: GitRepository, among: set[ObjectId] | None) -> None:
        self._repository, self._among = repository, among
        self._coming: list[tuple[int, int, Commit]] = []
        self._met = set[ObjectId]()

    def push(self, identity: ObjectId) -> None:
        """Put a commit among those to come, once."""
        if identity in self._met or not (self._among is None or identity in self._among):
            return
        self._met.add(identity)
        commit = read_commit(self._repository.objects, identity)
        heappush(self._coming, (-commit.committer.time, len(self._met), commit))

    def pop(self) -> Commit | None:
        """Take the newest; of one second the one that was met first."""
        return heappop(self._coming)[2] if self._coming else None

    def __iter__(self) -> Iterator[Commit]:
        while (commit := self.pop()) is not None:
            yield commit
            for parent in commit.parents:
                if self._repository.objects.has(parent):  # a shallow clone ends
                    self.push(parent)


def _touching(
    repository: GitRepository,
    queue: _Queue,
    paths: tuple[str, ...],
    alike: Alike | None,
    moved: Moved | None,
) -> Iterator[Commit]:
    """Yield those that changed one of the paths, of what a queue comes to by them alone."""
    ends = _Ends(repository)
    followed: dict[ObjectId, tuple[str, ...]] = {}
    while (commit := queue.pop()) is not None:
        here = followed.pop(commit.id, paths)
        there, same = ends.of(commit.tree, here), None
        before: dict[ObjectId, tuple[str, ...]] = {}
        for parent in _parents(repository, commit):
            before[parent.id] = here
            if moved is not None and any(there) and not any(ends.of(parent.tree, here)):
                before[parent.id] = moved(parent, commit, here)
            if ends.of(parent.tree, here) == there or (alike is not None and alike(parent, commit)):
                same = parent
                break
        if same is not None:
            before = {same.id: before[same.id]}
        elif commit.parents or (any(there) and not (alike is not None and alike(None, commit))):
            yield commit  # a first commit changed what it has
        for each, its in before.items():
            followed.setdefault(each, its)
            queue.push(each)


def _parents(repository: GitRepository, commit: Commit) -> Iterator[Commit]:
    for parent in commit.parents:
        if repository.objects.has(parent):  # beyond the end of a shallow clone there are none
            yield read_commit(repository.objects, parent)


class _Ends:
    """The entry at each path in a tree, remembered by tree."""

    def __init__(self, repository: GitRepository) -> None:
        self._source = repository.objects
        self._trees: dict[tuple[ObjectId, tuple[str, ...]], tuple[bytes | None, ...]] = {}
        self._folders: dict[tuple[bytes, tuple[bytes, ...]], bytes | None] = {}

    def of(self, tree: ObjectId, paths: tuple[str, ...]) -> tuple[bytes | None, ...]:
        """Return mode and raw id at each path, as bytes to compare."""
        if (known := self._trees.get((tree, paths))) is None:
            root = bytes.fromhex(tree or EMPTY_TREE)
            known = tuple(
                self._end(TREE, root, tuple(_raw(part) for part in path.split("/") if part))
                for path in paths
            )
            self._trees[tree, paths] = known
        return known

    def _end(self, mode: bytes, identity: bytes, parts: tuple[bytes, ...]) -> bytes | None:
        if not parts:
            return mode + identity
        if mode != TREE:
            return None
        key = (identity, parts)
        if key not in self._folders:
            self._folders[key] = None
            for found, name, below in read_entries(self._source, identity.hex()):
                if name == parts[0]:
                    self._folders[key] = self._end(found, below, parts[1:])
                    break
        return self._folders[key]


def _raw(part: str) -> bytes:
    return part.encode("utf-8", "surrogateescape")


_REMOTES, _STASH, _TAGS = "refs/remotes/", "refs/stash", "refs/tags/"


@dataclass(frozen=True, slots=True)
class RefFilter:
    """Which refs are named at commits, by patterns as git has them.

    >>> RefFilter(("refs/tags/*",), ("refs/tags/old",)).has("refs/tags/new")
    True
    """

    wanted: tuple[str, ...] = ()
    """Patterns of which one must match; none means any."""
    left_out: tuple[str, ...] = ()
    """Patterns of which none may match."""

    def has(self, ref: str) -> bool:
        """Whether a ref, by its full name, is named."""
        if any(_matches(each, ref) for each in self.left_out):
            return False
        return not self.wanted or any(_matches(each, ref) for each in self.wanted)


def _matches(pattern: str, ref: str) -> bool:
    """Return whether a pattern matches a ref: as it is, or one that it is the beginning of."""
    named = pattern if pattern.startswith("refs/") or pattern == "HEAD" else f"refs/{pattern}"
    if any(each in pattern for each in "*?[\\"):
        return fnmatchcase(ref, named)
    return ref == named.rstrip("/") or ref.startswith(f"{named.rstrip('/')}/")


EVERY_REF = RefFilter()
"""All refs."""


def decorations(
    repository: GitRepository, *, full: bool = False, wanted: RefFilter = EVERY_REF
) -> dict[ObjectId, list[str]]:
    """Return the names at each commit as git orders and writes them; `full` ones with `refs/`."""
    head = read_head(repository)
    head_named = wanted.has("HEAD")
    named: list[tuple[str, ObjectId, str]] = []
    for prefix in (BRANCHES, _REMOTES, _STASH):
        for name, commit in list_refs(repository, prefix).items():
            short = name if name == _STASH else name.removeprefix(prefix)
            if wanted.has(name) and not (head_named and name == head.ref):
                named.append((name, commit, name if full else short))
    for tag in list_tags(repository):
        label = f"{_TAGS}{tag.name}" if full else tag.name
        if wanted.has(_TAGS + tag.name):
            named.append((_TAGS + tag.name, tag.commit, f"tag: {label}"))
    found: dict[ObjectId, list[str]] = {}
    for commit in ends_of_history(repository):
        found[commit] = ["grafted"]
    if head.commit is not None and head_named:
        branch = head.ref if full else head.branch
        alone = head.branch is None or not wanted.has(str(head.ref))
        label = "HEAD" if alone else f"HEAD -> {branch}"
        found.setdefault(head.commit, []).append(label)
    for _, commit, label in sorted(named, reverse=True):
        found.setdefault(commit, []).append(label)
    return found


def tips(repository: GitRepository) -> list[ObjectId]:
    """Return the commits that branches, remote branches and tags name."""
    prefixes = BRANCHES, _REMOTES
    found = [commit for each in prefixes for commit in list_refs(repository, each).values()]
    return list(dict.fromkeys([*found, *(tag.commit for tag in list_tags(repository))]))


def ends_of_history(repository: GitRepository) -> list[ObjectId]:
    """Return the commits whose parents a shallow clone was not given."""
    try:
        return (repository.common_directory / "shallow").read_text().split()
    except OSError:
        return []
