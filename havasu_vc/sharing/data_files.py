"""The data files here: how many there are, whether they are right, dropping what a remote has.

A file is dropped only when a ref of the remote reaches it and the remote says that it has
it. From then on files come back when something reads them. Tables that are checked out
keep theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from havasu_vc.errors import HavasuError
from havasu_vc.records import dataclass
from havasu_vc.remotes.protocol import WantedFile, total_size
from havasu_vc.remotes.wanted import commits_here, files_of_commits
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.results import Problem
from havasu_vc.sharing.data_remotes import (
    default_remote,
    is_here,
    moving,
    remote_data,
)
from havasu_vc.sharing.pushing import commits_there
from havasu_vc.sharing.requests import DropRequest
from havasu_vc.store.locks import exclusive_lock
from havasu_vc.store.sound import forget_complete
from havasu_vc.workspace.state import checked_out_files

__all__ = ["Amount", "DataStatus", "DropResult", "data_status", "drop_data", "verify_data"]


@dataclass(frozen=True, slots=True)
class Amount:
    """A number of files."""

    files: int = 0
    """How many."""
    size: int = 0
    """Their bytes."""

    @classmethod
    def of(cls, files: Sequence[WantedFile]) -> Amount:
        """Return how much some files are.

        >>> Amount.of([WantedFile("ab" * 32, 7)])
        Amount(files=1, size=7)
        """
        return cls(len(files), total_size(files))


@dataclass(frozen=True, slots=True)
class DataStatus:
    """Which of the data files that commits name are here."""

    head_here: Amount
    """Files that HEAD names."""
    head_missing: Amount
    """Files that HEAD names and that are not here."""
    history_here: Amount
    """Files that only other commits name."""
    history_missing: Amount
    """The same, not here."""
    on_demand: bool
    """Whether what is missing comes when something reads it."""


@dataclass(frozen=True, slots=True)
class DropResult:
    """The files that were dropped, or would be."""

    remote: str
    """Who has it."""
    files: int
    """Data files."""
    size: int
    """Their bytes."""
    kept: int
    """Files that the remote was to have and lacks, which stay."""


def data_status(repo: OpenRepo) -> DataStatus:
    """Return how many of the data files that commits name are here."""
    head = _head(repo)
    names = {file.sha256 for file in head}
    others = [file for file in _named(repo) if file.sha256 not in names]
    store = repo.storage.files

    def amount(files: Sequence[WantedFile], *, here: bool) -> Amount:
        return Amount.of([file for file in files if is_here(store, file) is here])

    return DataStatus(
        amount(head, here=True),
        amount(head, here=False),
        amount(others, here=True),
        amount(others, here=False),
        repo.on_demand,
    )


def verify_data(repo: OpenRepo) -> Iterator[Problem]:
    """Hash every data file that commits name and that is here; yield those that are wrong."""
    store, files = repo.storage.files, _named(repo)
    with moving(repo, files, "Verifying data files") as report:
        for file in files:
            try:
                if store.has(file.sha256) or not repo.on_demand:
                    store.check_size(file.sha256, file.size)
                    store.verify(file.sha256)
            except HavasuError as error:
                hint = error.hints[0] if error.hints else None
                yield Problem(file.sha256, error.message, hint)
            report(file.size)


def drop_data(repo: OpenRepo, request: DropRequest) -> DropResult:
    """Remove data files that a remote has: those that HEAD does not name, or all of them."""
    name = request.remote or default_remote(repo)
    place = remote_data(repo, name)
    there = sorted(commits_here(repo.git, commits_there(repo, name)))
    store = repo.storage.files
    with exclusive_lock(repo.git.data_folder / "lock", dry_run=request.dry_run):
        kept = checked_out_files(repo.git)
        if not request.everything:
            kept |= {file.sha256 for file in _head(repo)}
        files = [
            file
            for file in files_of_commits(repo.git, there)
            if file.sha256 not in kept and is_here(store, file)
        ]
        lacking = set(place.lacking(files)) if place.knows else set()
        chosen = [file for file in files if file not in lacking]
        if chosen and not request.dry_run:
            if not place.knows:
                # Sending is how it is asked: what it has does not go again.
                place.upload(chosen, store, lambda count: None)
            # Before anything goes: what is fetched later is not to bring all of it back.
            repo.git.config.set("havasu.data.fetch", "on-demand")
            forget_complete(repo.git.data_folder)
            for file in chosen:
                store.delete(file.sha256)
    return DropResult(place.name, len(chosen), total_size(chosen), len(lacking))


def _head(repo: OpenRepo) -> list[WantedFile]:
    """Return the files that HEAD's datasets name."""
    tree = repo.head().tree
    return files_of_commits(repo.git, [tree])


def _named(repo: OpenRepo) -> list[WantedFile]:
    """Return the files that any ref, or HEAD, reaches."""
    refs = repo.git.git("for-each-ref", "--format=%(objectname)").lines
    head = repo.head().commit
    return files_of_commits(repo.git, sorted({*refs, *([] if head is None else [head])}))
