"""Data files of a git remote: where they are, which are wanted, and moving them.

Where a remote's data is:

    remote.<name>.havasuData, else havasu.data.url     a folder or bucket, by URL
    a remote that is a folder on this machine          its own store, beside its refs
    any other                                          its Git LFS server

`<data folder>/complete` lists commits of which every data file, and every one of their
history, was here; a later fetch looks at what is new since. Whoever removes data files
that commits name removes that list first.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from havasu_vc.errors import HavasuError, NotFoundError
from havasu_vc.remotes.lfs import LfsRemote
from havasu_vc.remotes.neighbour import NeighbourRemote
from havasu_vc.remotes.protocol import DataRemote, Report, WantedFile, total_size
from havasu_vc.remotes.urls import hidden_secrets
from havasu_vc.remotes.wanted import files_of_commits
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.durability import replace_file
from havasu_vc.store.locks import shared_lock
from havasu_vc.store.repository import GitRepository

__all__ = [
    "bring_data",
    "default_remote",
    "forget_complete",
    "missing_data",
    "moving",
    "remote_data",
    "send_data",
]


def default_remote(repo: OpenRepo) -> str:
    """Return the remote that the current branch follows, or the only one there is."""
    config, branch = repo.git.config, repo.head_branch
    followed = None if branch is None else config.get(f"branch.{branch}.remote")
    if followed not in (None, "."):
        return str(followed)
    names = repo.git.git("remote").text.split()
    if "origin" in names or len(names) == 1:
        return "origin" if "origin" in names else names[0]
    raise NotFoundError(
        "there is no remote" if not names else f"there are {len(names)} remotes: name one",
        hints=("`havasu-vc remote add origin URL` adds one",) if not names else (),
    )


def remote_data(repo: OpenRepo, remote: str) -> DataRemote:
    """Return where the data files of a remote are."""
    config = repo.git.config
    url = config.get(f"remote.{remote}.havasudata") or config.get("havasu.data.url")
    if url is not None:
        from havasu_vc.remotes.object_store import ObjectStoreRemote

        return ObjectStoreRemote(url)
    address = config.get(f"remote.{remote}.url") or remote
    folder = local_folder(address, repo.git)
    if folder is not None:
        return NeighbourRemote(GitRepository.open(folder).data_folder, hidden_secrets(address))
    return LfsRemote(repo.git, remote, hidden_secrets(address))


def local_folder(address: str, git: GitRepository | None = None) -> Path | None:
    """Return the folder that the address of a git remote is; None for others."""
    parts = urlsplit(address)
    if parts.scheme == "file":
        return Path(url2pathname(parts.path))
    if parts.scheme:
        return None
    base = Path() if git is None else (git.work_tree or git.git_directory)
    place = base / Path(address).expanduser()
    # `host:path` is ssh, unless there is such a folder.
    return place if place.is_dir() else None


@contextmanager
def moving(repo: OpenRepo, files: Sequence[WantedFile], description: str) -> Iterator[Report]:
    """Show how many bytes have been moved."""
    progress, lock = repo.settings.progress, threading.Lock()
    if progress is None:
        yield lambda count: None
        return
    progress.start(total_size(files), description)

    def report(count: int) -> None:
        with lock:
            progress.advance(count)

    try:
        yield report
    finally:
        progress.finish()


def send_data(
    repo: OpenRepo, remote: DataRemote, wanted: Sequence[str], known: Sequence[str]
) -> list[WantedFile]:
    """Send the data files that commits name and the remote lacks; return which those were."""
    files = remote.lacking(files_of_commits(repo.git, wanted, known))
    if files:
        with (
            shared_lock(repo.git.data_folder / "lock"),
            moving(repo, files, f"Sending data to {remote.name}") as report,
        ):
            remote.upload(files, repo.storage.files, report)
    return files


def missing_data(repo: OpenRepo, tips: Sequence[str]) -> list[WantedFile]:
    """Return the data files of some commits and their history that are not here."""
    known = _complete(repo)
    store = repo.storage.files
    return [
        file
        for file in files_of_commits(repo.git, tips, known)
        if not (store.has(file.sha256) and store.size(file.sha256) == file.size)
    ]


def bring_data(repo: OpenRepo, remote: DataRemote, tips: Sequence[str]) -> list[WantedFile]:
    """Bring the data files of some commits and their history; return which came."""
    with shared_lock(repo.git.data_folder / "lock"):
        files = missing_data(repo, tips)
        if files:
            with moving(repo, files, f"Fetching data from {remote.name}") as report:
                remote.download(files, repo.storage.files, report)
        _note_complete(repo, tips)
    return files


def _complete_file(repo: OpenRepo) -> Path:
    return repo.git.data_folder / "complete"


def _complete(repo: OpenRepo) -> list[str]:
    with suppress(OSError, UnicodeDecodeError):
        lines = _complete_file(repo).read_text("ascii").splitlines()
        return [line for line in lines if len(line) == 40 and line.isalnum()]
    return []


def _note_complete(repo: OpenRepo, tips: Sequence[str]) -> None:
    """Remember commits whose data is here; those that they contain need not be."""
    lines = sorted({*_complete(repo), *tips})
    # What is an ancestor of another says nothing new.
    answer = repo.git.git(
        "rev-list",
        "--ignore-missing",
        "--max-count=1000",
        "--no-walk=unsorted",
        "--stdin",
        stdin="".join(f"{line}\n" for line in lines).encode(),
        check=False,
    )
    kept = sorted(set(answer.text.split())) if answer.code == 0 else list(tips)
    with suppress(HavasuError):
        replace_file(_complete_file(repo), "".join(f"{line}\n" for line in kept).encode())


def forget_complete(repo: OpenRepo) -> None:
    """Forget which commits have all their data; for those who are about to remove some."""
    _complete_file(repo).unlink(missing_ok=True)
