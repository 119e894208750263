"""Data files of a git remote: where they are, which are wanted, and moving them.

Where a remote's data is:

    a place that was said (`sharing.data_places`)         a folder, a bucket or a server of SSH
    a remote that is a folder on this machine          its own store, beside its refs
    any other                                          its Git LFS server
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from havasu_vc.errors import (
    CorruptDataFileError,
    DataFileNotFoundError,
    HavasuError,
    NotFoundError,
    StorageError,
)
from havasu_vc.remotes.lfs import LfsRemote
from havasu_vc.remotes.neighbour import NeighbourRemote, take_from_lfs
from havasu_vc.remotes.protocol import DataRemote, Report, WantedFile, open_place, total_size
from havasu_vc.remotes.urls import hidden_secrets
from havasu_vc.remotes.wanted import files_of_commits
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.sharing.data_places import data_url, known_data_url
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.locks import shared_lock
from havasu_vc.store.object_urls import in_bucket, with_endpoint
from havasu_vc.store.repository import GitRepository
from havasu_vc.store.sound import read_complete, write_complete

__all__ = [
    "bring_data",
    "data_place",
    "default_remote",
    "download",
    "far_place",
    "is_here",
    "local_folder",
    "moving",
    "remote_address",
    "remote_data",
    "repository_at",
    "send_data",
    "usable_data_place",
]


DATA_ELSEWHERE = (
    "if the data is in a bucket or a folder, `git config havasu.data.url URL` says where, and "
    "`havasu-vc data place URL` says so to all clones"
)


def default_remote(repo: OpenRepo) -> str:
    """Return the remote that the current branch follows, or the only one there is."""
    config, branch = repo.git.config, repo.head_branch
    followed = None if branch is None else config.get(f"branch.{branch}.remote")
    if followed not in (None, "."):
        return str(followed)
    names = repo.git.git("remote").lines
    if "origin" in names or len(names) == 1:
        return "origin" if "origin" in names else names[0]
    raise NotFoundError(
        "there is no remote" if not names else f"there are {len(names)} remotes: name one",
        hints=("`havasu-vc remote add origin URL` adds one",) if not names else (),
    )


def data_place(repo: OpenRepo, remote: str | None = None) -> str | None:
    """Return where the data of a remote is, by settings or commits; None if with it."""
    if remote is None and not repo.git.git("remote").lines:
        alone = known_data_url(repo, "origin")
        if alone is not None:  # told to a repository that was not pushed anywhere yet
            return alone
    return known_data_url(repo, remote or default_remote(repo))


def usable_data_place(repo: OpenRepo, remote: str | None = None) -> str | None:
    """Return where the data of a remote is read; raises where that is said and not allowed."""
    return data_url(repo, remote or default_remote(repo))


def far_place(repo: OpenRepo) -> str | None:
    """Return the bucket that has the data; None where it is elsewhere or not told."""
    try:
        url = usable_data_place(repo)
    except HavasuError:  # no remote, or a place that is not allowed
        url = repo.git.config.get("havasu.data.url")
    if url is None or not in_bucket(url):
        return None
    # Others who read there have credentials of their own, and need not know where the server is.
    return with_endpoint(url, os.environ)


def remote_address(repo: OpenRepo, remote: str, *, push: bool = False) -> str:
    """Return the URL of a remote that git would use, rewritten as its settings say."""
    config = repo.git.config
    if not config.section("url"):
        named = config.all(f"remote.{remote}.pushurl") if push else ()
        named = named or config.all(f"remote.{remote}.url")
        if named:
            return named[0]
    if push:
        answer = repo.git.git("remote", "get-url", "--push", "--", remote, check=False)
        if answer.code == 0:
            return answer.lines[0]
    return repo.git.git("ls-remote", "--get-url", "--", remote).text or remote


def remote_data(
    repo: OpenRepo,
    remote: str,
    *,
    push: bool = False,
    environment: Mapping[str, str] | None = None,
) -> DataRemote:
    """Return where the data files of a remote are."""
    url = data_url(repo, remote, push=push)
    if url is not None:
        return open_place(url, repo.git.config)
    address = remote_address(repo, remote, push=push)
    folder = local_folder(address, repo.git)
    if folder is not None:
        return NeighbourRemote(repository_at(folder).data_folder, hidden_secrets(address))
    shown = hidden_secrets(address)
    if "://" not in address and Path(address).is_file():
        raise NotFoundError(
            f"{shown} is a bundle of git, which holds no data files",
            hints=(
                f"`git remote set-url {remote} URL` names a repository that has them",
                DATA_ELSEWHERE,
            ),
        )
    return LfsRemote(repo.git, remote, shown, environment or {}, address=address)


def local_folder(address: str, base: GitRepository | Path) -> Path | None:
    """Return the folder that the address of a git remote is; None for others."""
    parts = urlsplit(address)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    if "://" in address:
        return None
    if isinstance(base, GitRepository):
        base = base.work_tree or base.git_directory
    place = base / Path(address)
    # `host:path` is ssh, unless there is such a folder; git adds `.git` to names.
    for found in (place, place.parent / f"{place.name}.git"):
        if found.is_dir():
            return found
    return None


def repository_at(folder: Path) -> GitRepository:
    """Open the repository that a folder is, as git does: never one further up."""
    for place in (folder / ".git", folder, folder.parent / f"{folder.name}.git"):
        if (place / "HEAD").exists() or place.is_file():
            return GitRepository.open(place)
    return GitRepository.open(folder)


@contextmanager
def moving(repo: OpenRepo, files: Sequence[WantedFile], description: str) -> Iterator[Report]:
    """Show how many bytes have been moved."""
    progress, lock = repo.settings.progress, threading.Lock()
    if progress is None:
        yield lambda count: None
        return
    progress.start(total_size(files), description, in_bytes=True)

    def report(count: int) -> None:
        with lock:
            progress.advance(count)

    try:
        yield report
    finally:
        progress.finish()


def send_data(
    repo: OpenRepo, remote: DataRemote, files: Sequence[WantedFile]
) -> Sequence[WantedFile]:
    """Send those files that the remote lacks, inside of its `sending`; return which those were."""
    if lacking := remote.lacking(files):
        with (
            shared_lock(repo.git.data_folder / "lock"),
            moving(repo, lacking, f"Sending data to {remote.name}") as report,
        ):
            return remote.upload(lacking, repo.storage.files, report)
    return ()


def is_here(store: DataFileStore, file: WantedFile) -> bool:
    """Whether a file is in the store, with its size."""
    try:
        return store.has(file.sha256) and store.size(file.sha256) == file.size
    except HavasuError:
        return False


def bring_data(
    repo: OpenRepo,
    remote: DataRemote,
    tips: Sequence[str],
    *,
    thorough: bool = False,
    verify: bool = False,
) -> Sequence[WantedFile]:
    """Bring the data files of some commits and their history; return which came.

    If `thorough`, those that came once are looked for too, as somebody may have removed them. To
    `verify` is as `download` has it.
    """
    folder = repo.git.data_folder
    with shared_lock(folder / "lock"):
        known = read_complete(folder)
        wanted = files_of_commits(repo.git, tips, () if thorough else known)
        files = download(repo, remote, wanted, verify=verify)
        _note_complete(repo, known, tips)
    return files


def download(
    repo: OpenRepo, remote: DataRemote, files: Sequence[WantedFile], *, verify: bool = False
) -> Sequence[WantedFile]:
    """Bring those files that are not here; return which those were.

    To `verify` is to read those that are here: one whose bytes its name does not fit comes anew.
    """
    store = repo.storage.files
    with _set_aside(repo, files) if verify else nullcontext():
        missing = [file for file in files if not is_here(store, file)]
        if missing:
            with shared_lock(repo.git.data_folder / "lock"):
                missing = take_from_lfs(missing, store)
        if missing:
            _require_room(repo, missing)
            with (
                shared_lock(repo.git.data_folder / "lock"),
                moving(repo, missing, f"Fetching data from {remote.name}") as report,
                _blaming(remote),
            ):
                remote.download(missing, store, report)
    return missing


@contextmanager
def _set_aside(repo: OpenRepo, files: Sequence[WantedFile]) -> Iterator[None]:
    """Take the damaged ones of some files out of the store, and put back what did not come."""
    store = repo.storage.files
    here = [file for file in files if is_here(store, file)]
    aside: dict[str, Path] = {}
    with shared_lock(repo.git.data_folder / "lock"):
        try:
            with moving(repo, here, "Reading data files") as report:
                for file in here:
                    try:
                        store.verify(file.sha256)
                    except CorruptDataFileError:
                        aside[file.sha256] = store.set_aside(file.sha256)
                    report(file.size)
            yield
        finally:
            for name, place in aside.items():
                store.put_back(name, place)
    for name in sorted(aside):
        repo.settings.note(f"data file {name} was damaged here, and came anew")


@contextmanager
def _blaming(remote: DataRemote) -> Iterator[None]:
    """Say of what is missing or wrong that it is so on the remote, and what helps there."""
    send = "`havasu-vc data push` in a clone that has it sends it"
    try:
        yield
    except DataFileNotFoundError as error:
        lacking = f"{remote.name} does not have it; {send}"
        error.hints = (lacking,) if remote.has_url else (lacking, DATA_ELSEWHERE)
        raise
    except CorruptDataFileError as error:
        error.hints = (f"it is so at {remote.name}; once it is removed there, {send}",)
        raise


def _require_room(repo: OpenRepo, files: Sequence[WantedFile]) -> None:
    """Raise before anything comes that cannot fit; sizes are what a stranger claims."""
    wanted, free = total_size(files), shutil.disk_usage(repo.git.common_directory).free
    if wanted > free:
        raise StorageError(
            f"{wanted:,} bytes of data files are to come, and the disk has {free:,} left",
            hints=(
                "make room, or take a part: `havasu-vc clone --filter=data`, `--dataset`, `--bbox`",
            ),
        )


def _note_complete(repo: OpenRepo, known: Sequence[str], tips: Sequence[str]) -> None:
    """Remember commits whose data is here; those that newer ones contain need not be."""
    if (repo.git.common_directory / "shallow").exists():
        return  # there may be more history of these commits one day
    new = repo.git.git(
        "rev-list",
        "--ignore-missing",
        "--stdin",
        stdin="".join(f"{line}\n" for line in [*known, *(f"^{tip}" for tip in tips)]).encode(),
        check=False,
    )
    apart = set(new.text.split()) if new.code == 0 else set()
    with suppress(HavasuError):
        write_complete(
            repo.git.data_folder, [*tips, *(commit for commit in known if commit in apart)]
        )
