"""Fetch and pull: refs by git itself, then the data files that they name.

git does what git can do: any URL, credentials, hooks, refspecs and settings that it knows
work here as they do there. A fetch that was cut off goes on where it stopped when it is
done again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from havasu_vc.errors import NoBranchError
from havasu_vc.records import dataclass
from havasu_vc.remotes.protocol import WantedFile, total_size
from havasu_vc.remotes.urls import hidden_secrets, without_passwords
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.setting_up import set_up
from havasu_vc.sharing.data_places import known_data_url
from havasu_vc.sharing.data_remotes import (
    bring_data,
    default_remote,
    download,
    remote_address,
    remote_data,
)
from havasu_vc.sharing.parts import Part, files_of_part, kept_part
from havasu_vc.sharing.pushing import refusal
from havasu_vc.store.command import GitResult

__all__ = ["FetchResult", "fetch", "fetch_data", "remotes", "upstream_of"]

_DEEPER = ("--depth", "--deepen", "--unshallow")
_FETCHED = re.compile(r"^([0-9a-f]{40})\t", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FetchResult:
    """The outcome of a fetch."""

    remote: str
    """From where."""
    refs: tuple[str, ...] = ()
    """The words of git on each ref that moved."""
    files: int = 0
    """Data files that came."""
    size: int = 0
    """Their bytes."""


def fetch(
    repo: OpenRepo,
    remote: str | None = None,
    refspecs: Sequence[str] = (),
    *,
    options: Sequence[str] = (),
    data: bool = True,
) -> FetchResult:
    """Fetch refs, then the data that they name.

    In a clone of a part, what the part has of the branch that is followed comes; the rest
    does when something reads it.
    """
    set_up(repo)
    name = remote or default_remote(repo)
    shown = hidden_secrets(remote_address(repo, name))
    answer = repo.git.git("fetch", *options, "--", name, *refspecs, check=False)
    if answer.code:
        raise refusal(answer, shown)
    files: Sequence[WantedFile] = ()
    tips = _fetched(repo, name)
    if data and tips:
        if not repo.on_demand:
            # Older commits may come below those that were here with all their data.
            deeper = any(option.startswith(_DEEPER) for option in options)
            files = bring_data(repo, remote_data(repo, name), tips, thorough=deeper)
        elif (part := kept_part(repo)) is not None:
            wanted = files_of_part(repo, part, _followed(repo))
            files = download(repo, remote_data(repo, name), wanted)
        set_up(repo)  # the first datasets of a repository without commits came
    return FetchResult(shown, _moved(answer), len(files), total_size(files))


def fetch_data(
    repo: OpenRepo, remote: str | None = None, *, part: Part | None = None, revision: str = "HEAD"
) -> FetchResult:
    """Bring every data file that commits here name, or what a part of one revision has."""
    set_up(repo)
    name = remote or default_remote(repo)
    place = remote_data(repo, name)
    files: Sequence[WantedFile]
    if part is None:
        tips = repo.git.git("for-each-ref", "--format=%(objectname)").lines
        files = bring_data(repo, place, sorted(set(tips)), thorough=True)
        repo.storage.files.show_all_to_lfs()  # `git lfs prune` removes what shows them
    else:
        files = download(repo, place, files_of_part(repo, part, revision))
    set_up(repo)
    return FetchResult(place.name, (), len(files), total_size(files))


def remotes(repo: OpenRepo) -> tuple[tuple[str, str, str | None], ...]:
    """Return each remote's name, URL, and where its data is if that is elsewhere."""
    config = repo.git.config
    return tuple(
        (name, config.get(f"remote.{name}.url") or "", known_data_url(repo, name))
        for name in repo.git.git("remote").lines
    )


def upstream_of(repo: OpenRepo, remote: str | None = None) -> str:
    """Return the remote branch that the current one follows."""
    branch = repo.head_branch
    if branch is None:
        raise NoBranchError("HEAD is on no branch", hints=("`havasu-vc switch BRANCH` first",))
    followed = repo.git.config.get(f"branch.{branch}.remote")
    if remote is not None and followed not in (None, remote):
        raise NoBranchError(
            f"branch {branch!r} follows one of {followed!r}, not of {remote!r}",
            hints=(f"`havasu-vc pull {remote} BRANCH`",),
        )
    answer = repo.git.git(
        "rev-parse", "--abbrev-ref", "--symbolic-full-name", "@{upstream}", check=False
    )
    if answer.code:
        raise NoBranchError(
            f"branch {branch!r} follows no other branch",
            hints=(f"`havasu-vc pull REMOTE {branch}`", f"`havasu-vc push -u REMOTE {branch}`"),
        )
    return answer.text


def _followed(repo: OpenRepo) -> str:
    try:
        return upstream_of(repo)
    except NoBranchError:
        return "HEAD"


def _fetched(repo: OpenRepo, name: str) -> list[str]:
    """Return what the refs that were fetched last are at, moved or not."""
    path = repo.git.git_directory / "FETCH_HEAD"
    text = path.read_text("utf-8", "replace") if path.exists() else ""
    found = set(_FETCHED.findall(text))
    if not found:
        # git does not say so when it could not write that file.
        seen = ("for-each-ref", "--format=%(objectname)", f"refs/remotes/{name}/")
        found = set(repo.git.git(*seen).lines)
    return sorted(found)


def _moved(answer: GitResult) -> tuple[str, ...]:
    lines = (without_passwords(line.strip()) for line in answer.error_lines)
    return tuple(line for line in lines if "->" in line)
