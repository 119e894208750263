"""What tests of sharing do again and again, and the promise that they check."""

from pathlib import Path
from typing import Any

from havasu_vc import Repo
from havasu_vc.remotes.wanted import files_of_commits
from havasu_vc.sharing.requests import CloneRequest
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.repository import GitRepository
from tests.support.git import run_git
from tests.support.sound import LOCAL


def bare(path: Path) -> Path:
    """Make an empty bare repository with the real git."""
    run_git("init", "--quiet", "--bare", path, cwd=path.parent)
    return path


def share(repo: Repo, url: Path | str, *, data: str | None = None) -> None:
    """Add the remote `origin`, and push to it."""
    run_git("remote", "add", "origin", url, cwd=repo.path)
    if data is not None:
        run_git("config", "havasu.data.url", data, cwd=repo.path)
        repo = Repo.open(repo.path, settings=LOCAL)
    repo.push("origin", ["main"], options=("--set-upstream",))


def clone(url: Path | str, path: Path, **options: Any) -> Repo:
    repo, _ = Repo.clone(CloneRequest(str(url), path, **options), settings=LOCAL)
    return repo


def reopened(repo: Repo) -> Repo:
    return Repo.open(repo.path, settings=LOCAL)


def store(repo: Repo | Path) -> DataFileStore:
    git = GitRepository.open(repo) if isinstance(repo, Path) else repo.git
    return DataFileStore(git.data_folder)


def files(repo: Repo | Path) -> list[str]:
    """Return the data files that are in a repository's store."""
    return list(store(repo).iter())


def named(path: Path) -> set[str]:
    """Return the data files that the refs of a repository name."""
    git = GitRepository.open(path)
    tips = run_git("for-each-ref", "--format=%(objectname)", cwd=path).split()
    return {file.sha256 for file in files_of_commits(git, tips)}


def assert_keeps_its_promise(server: Path, data: Path | None = None) -> None:
    """Check that no ref of a remote names data that it lacks, and that its data is right."""
    there = store(server) if data is None else DataFileStore(data)
    for file in named(server):
        there.verify(file)


def spoil(repo: Repo | Path, file: str, data: bytes | None = None) -> None:
    """Replace the bytes of a data file, by default with others of the same size."""
    place = store(repo).path(file)
    content = place.read_bytes()
    place.unlink()
    place.write_bytes(bytes(byte ^ 1 for byte in content) if data is None else data)
    place.chmod(0o444)
