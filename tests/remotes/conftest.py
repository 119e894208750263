"""Repositories that share: a bare one on a folder, and clones of it.

They are made once and copied for each test, with the place of the remote written anew.
"""

import shutil
from pathlib import Path

import pytest

from havasu_vc.repo import Repo
from tests.remotes.sharing import bare, clone, share
from tests.repo.points import make
from tests.support.git import run_git
from tests.support.sound import LOCAL


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `ours`, `theirs` and the bare `server.git` that both have as `origin`."""
    folder = tmp_path_factory.mktemp("shared")
    repo = make(folder / "ours", {number: (f"row {number}", number) for number in range(6)})
    share(repo, bare(folder / "server.git"))
    clone(folder / "server.git", folder / "theirs")
    return folder


def copied(shared: Path, folder: Path, name: str) -> Repo:
    shutil.copytree(shared / name, folder / name, symlinks=True)
    run_git("remote", "set-url", "origin", folder / "server.git", cwd=folder / name)
    # Copies have other times, at which git looks; this is no part of any test.
    run_git("update-index", "--refresh", "-q", cwd=folder / name)
    return Repo.open(folder / name, settings=LOCAL)


@pytest.fixture
def ours(shared: Path, tmp_path: Path) -> Repo:
    """A repository of six points with a remote `origin` that has them."""
    shutil.copytree(shared / "server.git", tmp_path / "server.git")
    return copied(shared, tmp_path, "ours")


@pytest.fixture
def theirs(ours: Repo, shared: Path, tmp_path: Path) -> Repo:
    """A clone of the same remote."""
    return copied(shared, tmp_path, "theirs")
