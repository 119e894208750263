"""Fetch, pull and push: refs by git itself, data files beside them.

On a push data goes first, and on a fetch last, so that no ref that a remote shows names
data that it lacks. git does what git can do: any URL, credentials, hooks, refspecs and
settings that it knows work here as they do there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from havasu_vc.errors import ConcurrentChangeError, NoBranchError, StateError
from havasu_vc.remotes.protocol import WantedFile, total_size
from havasu_vc.remotes.urls import hidden_secrets
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.remote_data import bring_data, default_remote, remote_data, send_data

if TYPE_CHECKING:
    from havasu_vc.store.command import GitResult

__all__ = [
    "FetchResult",
    "PushRequest",
    "PushResult",
    "fetch",
    "fetch_data",
    "push",
    "push_data",
    "remotes",
    "upstream_of",
]

SENT = "HAVASU_VC_DATA_SENT"
"""Set for the hook of a push whose data was sent by us."""
_REJECTED = ("[rejected]", "non-fast-forward", "fetch first", "stale info")


@dataclass(frozen=True, slots=True)
class FetchResult:
    """What a fetch brought."""

    remote: str
    """From where."""
    refs: tuple[str, ...] = ()
    """What git says of each ref that moved."""
    files: int = 0
    """Data files that came."""
    size: int = 0
    """Their bytes."""


@dataclass(frozen=True, slots=True)
class PushResult:
    """What a push sent, or would."""

    remote: str
    """To where."""
    refs: tuple[str, ...] = ()
    """What git says of each ref."""
    files: int = 0
    """Data files that went."""
    size: int = 0
    """Their bytes."""


@dataclass(frozen=True, slots=True)
class PushRequest:
    """What to push."""

    remote: str | None = None
    """The remote; None for the one that the branch follows."""
    refspecs: tuple[str, ...] = ()
    """As git takes them; none for what git's settings say."""
    options: tuple[str, ...] = field(default=())
    """More options of `git push`."""
    dry_run: bool = False
    """Whether to change nothing."""


def fetch(
    repo: OpenRepo,
    remote: str | None = None,
    refspecs: Sequence[str] = (),
    *,
    options: Sequence[str] = (),
    data: bool = True,
) -> FetchResult:
    """Fetch refs, then the data that they name; doing it again goes on where it was cut off."""
    name = remote or default_remote(repo)
    answer = repo.git.git("fetch", *options, name, *refspecs, check=False)
    if answer.code:
        raise _refused(answer, name, repo)
    files: list[WantedFile] = []
    tips = _tips(repo, name)
    if data and tips and not is_on_demand(repo):
        files = bring_data(repo, remote_data(repo, name), tips)
    return FetchResult(_shown(repo, name), _moved(answer), len(files), total_size(files))


def is_on_demand(repo: OpenRepo) -> bool:
    """Whether data files are fetched only when something reads them."""
    return repo.git.config.get("havasu.data.fetch") == "on-demand"


def push(repo: OpenRepo, request: PushRequest) -> PushResult:
    """Send data, then move the remote's refs."""
    name = request.remote or default_remote(repo)
    arguments = [*request.options, name, *request.refspecs]
    # git tells what it would do, by its own settings, before a byte of data goes.
    asked = repo.git.git(
        "push", "--dry-run", "--porcelain", *arguments, check=False, environment={SENT: "1"}
    )
    if asked.code:
        raise _refused(asked, name, repo)
    lines = _ref_lines(asked)
    sources = _sources(repo, lines)
    files: list[WantedFile] = []
    if request.dry_run:
        return PushResult(_shown(repo, name), tuple(lines))
    if sources:
        files = send_data(repo, remote_data(repo, name), sources, _tips(repo, name))
    answer = repo.git.git("push", "--porcelain", *arguments, check=False, environment={SENT: "1"})
    if answer.code:
        raise _refused(answer, name, repo)
    return PushResult(_shown(repo, name), tuple(_ref_lines(answer)), len(files), total_size(files))


def push_data(repo: OpenRepo, remote: str | None, lines: Sequence[str] | None) -> PushResult:
    """Send the data of all commits here, or of those that git's `pre-push` hook names."""
    name = remote or default_remote(repo)
    if lines is None:
        wanted = repo.git.git("for-each-ref", "--format=%(objectname)").text.split()
    else:
        wanted = [words[1] for line in lines if len(words := line.split()) == 4]
    wanted = sorted({commit for commit in wanted if set(commit) != {"0"}})
    files = send_data(repo, remote_data(repo, name), wanted, _tips(repo, name)) if wanted else []
    return PushResult(_shown(repo, name), (), len(files), total_size(files))


def fetch_data(repo: OpenRepo, remote: str | None) -> FetchResult:
    """Bring the data of all commits here."""
    name = remote or default_remote(repo)
    tips = sorted(set(repo.git.git("for-each-ref", "--format=%(objectname)").text.split()))
    files = bring_data(repo, remote_data(repo, name), tips) if tips else []
    return FetchResult(_shown(repo, name), (), len(files), total_size(files))


def remotes(repo: OpenRepo) -> tuple[tuple[str, str, str | None], ...]:
    """Return each remote's name, URL, and where its data is if that is elsewhere."""
    config = repo.git.config
    return tuple(
        (
            name,
            config.get(f"remote.{name}.url") or "",
            config.get(f"remote.{name}.havasudata") or config.get("havasu.data.url"),
        )
        for name in repo.git.git("remote").text.split()
    )


def upstream_of(repo: OpenRepo) -> str:
    """Return the remote branch that the current one follows."""
    branch = repo.head_branch
    if branch is None:
        raise NoBranchError("HEAD is on no branch", hints=("`havasu-vc switch BRANCH` first",))
    answer = repo.git.git(
        "rev-parse", "--abbrev-ref", "--symbolic-full-name", "@{upstream}", check=False
    )
    if answer.code:
        raise NoBranchError(
            f"branch {branch!r} follows no other branch",
            hints=(f"`havasu-vc pull REMOTE {branch}`", f"`havasu-vc push -u REMOTE {branch}`"),
        )
    return answer.text


def _tips(repo: OpenRepo, remote: str) -> list[str]:
    """Return the commits that a remote's refs were at when they were last seen, and tags."""
    answer = repo.git.git(
        "for-each-ref", "--format=%(objectname)", f"refs/remotes/{remote}/", "refs/tags/"
    )
    return sorted(set(answer.text.split()))


def _sources(repo: OpenRepo, lines: Sequence[str]) -> list[str]:
    """Return the commits that `git push --porcelain` says it would send."""
    names = [line.split("\t")[1].partition(":")[0] for line in lines]
    found = []
    for name in names:
        if name:
            answer = repo.git.git("rev-parse", "--verify", "--quiet", name, check=False)
            found += answer.text.split()
    return found


def _ref_lines(answer: GitResult) -> list[str]:
    """Return the lines about refs: `flag <tab> from:to <tab> summary`."""
    return [line for line in answer.text.splitlines() if line.count("\t") == 2]


def _moved(answer: GitResult) -> tuple[str, ...]:
    lines = (line.strip() for line in answer.errors.splitlines())
    return tuple(line for line in lines if "->" in line)


def _shown(repo: OpenRepo, remote: str) -> str:
    return hidden_secrets(repo.git.config.get(f"remote.{remote}.url") or remote)


def _refused(answer: GitResult, remote: str, repo: OpenRepo) -> StateError:
    text = answer.errors + answer.text
    if any(word in text for word in _REJECTED):
        return ConcurrentChangeError(
            f"{_shown(repo, remote)} has commits that are not here",
            hints=("`havasu-vc pull` merges them row by row, then push again",),
        )
    message = answer.message
    for line in answer.errors.splitlines():
        # The reason stands before git's own last words.
        if line.startswith(("remote: ", "ssh: ", "fatal: ", "error: ")):
            message = line
            break
    url = repo.git.config.get(f"remote.{remote}.url")
    if url is not None:
        message = message.replace(url, hidden_secrets(url))
    return StateError(f"git says: {message}", hints=("`havasu-vc remote -v` lists remotes",))
