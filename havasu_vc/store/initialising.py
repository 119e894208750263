"""Making a repository, or taking one that is there, so that it can hold datasets.

Doing it again changes nothing, and what somebody has chosen before (a branch, a work
tree) is never chosen anew.
"""

from __future__ import annotations

from pathlib import Path

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.store.command import run_git
from havasu_vc.store.kart_repository import init_kart
from havasu_vc.store.preparation import prepare
from havasu_vc.store.repository import GitRepository

__all__ = ["init_repository"]


def init_repository(
    path: Path | str, *, bare: bool = False, branch: str | None = None, kart: bool = False
) -> GitRepository:
    """Make a repository at `path`, or take the one that is there, and prepare it for datasets.

    With `kart` a new one is such as Kart makes.
    """
    place = Path(path).absolute()
    repository = GitRepository.at(place)
    if repository is None:
        _make(place, bare=bare, branch=branch, kart=kart)
        repository = GitRepository.open(place)
    else:
        _check_same(repository, bare, branch)
    prepare(repository)
    return repository


def _make(place: Path, *, bare: bool, branch: str | None, kart: bool) -> None:
    if place.exists() and not place.is_dir():
        raise InvalidArgumentError(f"{place} is a file; a repository needs a folder")
    if branch is None:
        configured = run_git(["config", "--get", "init.defaultBranch"], check=False).text
        branch = configured or "main"
    if kart:
        init_kart(place, bare=bare, branch=branch)
        return
    options = ["--quiet", "--object-format=sha1", f"--initial-branch={branch}"]
    run_git(["init", *options, *(["--bare"] if bare else []), "--", str(place)])


def _check_same(repository: GitRepository, bare: bool, branch: str | None) -> None:
    """Refuse what a repository is not, but name the branch of one without commits."""
    if bare and not repository.is_bare:
        raise InvalidArgumentError(f"{repository.path} is a repository with a work tree already")
    if branch is None or branch == repository.head_branch:
        return
    if not repository.handle.head_is_unborn:
        raise InvalidArgumentError(
            f"{repository.path} is a repository on branch {repository.head_branch!r} already",
            hints=(f"`havasu-vc switch -c {branch}` makes another branch",),
        )
    repository.git("symbolic-ref", "HEAD", f"refs/heads/{branch}")
