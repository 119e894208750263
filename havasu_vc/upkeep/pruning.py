"""Removing data files of a remote that no ref of it reaches any more.

A remote that is a repository collects its own garbage. In a folder or bucket, files that
nothing reaches are marked with the time, in `<url>/unreached.json`, and those whose mark
is older than the grace period are deleted, and what is as old below `temporary`, where dry
runs on clusters write. Pushes that are going on are safe at any
instant (`remotes.claims`). Reached is what any ref reaches of the remotes that keep
their data there, and what any ref reaches here: one URL is for one repository.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import urlsplit

from havasu_vc.errors import LockedError, NotFoundError, StateError, UnsupportedError
from havasu_vc.records import dataclass
from havasu_vc.remotes.object_store import Claims, ObjectStoreRemote
from havasu_vc.remotes.protocol import kind_of
from havasu_vc.remotes.urls import hidden_secrets
from havasu_vc.remotes.wanted import commits_here, files_of_commits
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.sharing import (
    data_url,
    default_remote,
    known_data_url,
    local_folder,
    refusal,
    remote_address,
    repository_at,
)
from havasu_vc.store.files import STALE_SECONDS
from havasu_vc.store.locks import exclusive_lock, without_git_gc
from havasu_vc.upkeep.garbage import collect_garbage
from havasu_vc.upkeep.requests import PruneRequest
from havasu_vc.workspace.state import checked_out_files

__all__ = ["PruneResult", "prune_remote"]

NOTE = "unreached.json"
DAY = 86400.0
_NAME = re.compile(r"[0-9a-f]{64}")
_PLACE = "refs/havasu/prune"


@dataclass(frozen=True, slots=True)
class PruneResult:
    """The files of a remote that were removed, or would be."""

    remote: str
    """Where."""
    files: int
    """Data files."""
    size: int
    """Their bytes."""
    waiting: int
    """Files that nothing reaches and whose grace period is not over."""
    unfinished: int = 0
    """Files below `temporary` of writers that died, which are not among the data files."""
    unfinished_size: int = 0
    """Their bytes."""


def prune_remote(repo: OpenRepo, request: PruneRequest) -> PruneResult:
    """Remove files that nothing reaches and whose grace period is over; else, only list them."""
    name = request.remote or _shared_remote(repo)
    url = data_url(repo, name)
    if url is not None and kind_of(url).of_ssh:
        raise UnsupportedError(
            f"{hidden_secrets(url)} is reached by SSH, by which nothing is deleted",
            hints=("on that server, set havasu.data.url of a clone to the folder's file:// URL",),
        )
    if url is not None:
        return _prune_store(repo, url, request.grace_days * DAY, delete=request.delete)
    address = remote_address(repo, name, push=True)
    folder = local_folder(address, repo.git)
    shown = hidden_secrets(address)
    if folder is None:
        raise UnsupportedError(
            f"{shown} keeps data with Git LFS, which lets nobody delete",
            hints=("GitHub, GitLab and others have settings for what nothing points to",),
        )
    git = repository_at(folder)
    found = collect_garbage(
        git,
        keep=checked_out_files(git),
        grace_seconds=request.grace_days * DAY,
        dry_run=not request.delete,
    )
    return PruneResult(shown, found.files, found.size, found.kept_young)


def _shared_remote(repo: OpenRepo) -> str:
    """Return the remote to prune; a repository alone does not know what other clones name."""
    if repo.git.git("remote").lines:
        return default_remote(repo)
    url = known_data_url(repo, "origin")
    where = "" if url is None else f", so nothing is removed from {hidden_secrets(url)}"
    raise NotFoundError(
        f"without a git remote nobody can tell which data files other clones name{where}",
        hints=(
            "`havasu-vc remote add origin URL` and `havasu-vc push --all -u` make one",
            "`havasu-vc gc` removes what nothing reaches of the files that are here",
        ),
    )


def _prune_store(repo: OpenRepo, url: str, grace: float, *, delete: bool) -> PruneResult:
    if (repo.git.common_directory / "shallow").exists():
        raise StateError(
            "this clone lacks history, so what is reached cannot be told",
            hints=("`havasu-vc fetch --unshallow` brings it",),
        )
    place = ObjectStoreRemote(url)
    with exclusive_lock(repo.git.data_folder / "pruning", reason="data is being pruned from here"):
        if not delete:
            now = time.time()
            with _all_refs(repo, url):
                sorted_ones = _sorted(repo, place, place.claims(), grace, now)
                return _result(place, *sorted_ones, _unfinished(place, grace, now))
        with place.sweeping() as sweep, _all_refs(repo, url):
            marks, sizes, over = _sorted(repo, place, sweep.claims, grace, sweep.began)
            for file in over:
                sweep.check()
                place.delete([file])
            sweep.check()
            unfinished = _unfinished(place, grace, sweep.began)
            place.delete_unfinished(unfinished)
            left = {file: since for file, since in marks.items() if file not in set(over)}
            place.write_note(NOTE, json.dumps(left, indent=1, sort_keys=True).encode())
            return _result(place, marks, sizes, over, unfinished)


def _result(
    place: ObjectStoreRemote,
    marks: Mapping[str, float],
    sizes: Mapping[str, int],
    over: list[str],
    unfinished: Mapping[str, int],
) -> PruneResult:
    return PruneResult(
        place.name,
        len(over),
        sum(sizes[file] for file in over),
        len(marks) - len(over),
        len(unfinished),
        sum(unfinished.values()),
    )


def _unfinished(place: ObjectStoreRemote, grace: float, now: float) -> dict[str, int]:
    """Return what writers that died left below `temporary`; no writer takes as long as a day."""
    return place.unfinished(max(grace, STALE_SECONDS), now)


def _sorted(
    repo: OpenRepo, place: ObjectStoreRemote, claims: Claims, grace: float, now: float
) -> tuple[dict[str, float], dict[str, int], list[str]]:
    """Return what nothing reaches with the time it was marked, all sizes, and what is to go."""
    if claims.commits - commits_here(repo.git, claims.commits):
        raise LockedError(
            "a push relies on commits of the remote that are not here any more",
            hints=("try again when it has ended; one that died is forgotten after a week",),
        )
    refs = set(repo.git.git("for-each-ref", "--format=%(objectname)").lines)
    found = files_of_commits(repo.git, sorted(refs | claims.commits))
    reached = {file.sha256 for file in found} | claims.files
    known = _marks(place.read_note(NOTE))
    sizes = {name: size for name, size in place.listed() if _NAME.fullmatch(name)}
    marks = {file: known.get(file, now) for file in sorted(sizes) if file not in reached}
    return marks, sizes, [file for file, since in marks.items() if now - since >= grace]


def _marks(data: bytes) -> dict[str, float]:
    """Return the marks of an earlier run; what cannot be read is marked anew."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    times = {name: since for name, since in found.items() if isinstance(since, int | float)}
    # Nothing was marked before there were stores, and nobody marks what is to come.
    return {name: float(since) for name, since in times.items() if 0 <= since < 1 << 40}


@contextmanager
def _all_refs(repo: OpenRepo, url: str) -> Iterator[None]:
    """Have every ref of the remotes that keep data at a URL here for a while."""
    sources = [
        source
        for name in repo.git.git("remote").lines
        if _place(known_data_url(repo, name)) == _place(url)
        for source in _sources(repo, name)
    ]
    try:
        for number, source in enumerate(sources):
            # No gc of git may take commits away before their refs are there; and branches of the
            # remote that are known here stay as they were last fetched.
            with without_git_gc(repo.git.common_directory):
                answer = repo.git.git(
                    "fetch",
                    "--no-tags",
                    "--no-write-fetch-head",
                    "--no-auto-maintenance",
                    "--refmap=",
                    "--prune",
                    "--",
                    source,
                    f"+refs/*:{_PLACE}/{number}/*",
                    check=False,
                )
            if answer.code:
                raise refusal(answer, hidden_secrets(remote_address(repo, source)))
        yield
    finally:
        listed = repo.git.git("for-each-ref", "--format=delete %(refname)", _PLACE).lines
        refs = "".join(f"{line}\n" for line in listed)
        repo.git.git("update-ref", "--stdin", stdin=refs.encode("utf-8", "surrogateescape"))


def _sources(repo: OpenRepo, name: str) -> list[str]:
    """Return a remote, and where it is pushed to if that is elsewhere."""
    address = remote_address(repo, name, push=True)
    return [name] if address == remote_address(repo, name) else [name, address]


def _place(url: str | None) -> tuple[str, str] | None:
    """Return what two URLs of one place have in common, however they are written.

    >>> _place("gs://maps/wells/") == _place("gcs://maps/wells")
    True
    """
    parts = urlsplit(url or "")
    return (parts.netloc, parts.path.rstrip("/")) if url else None
