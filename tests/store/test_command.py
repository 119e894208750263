from pathlib import Path

import pytest

from havasu_vc.errors import (
    InvalidArgumentError,
    LockedError,
    MissingProgramError,
    RepositoryNotFoundError,
    StateError,
)
from havasu_vc.store.command import run_git
from havasu_vc.store.repository import GitRepository


@pytest.mark.thorough
def test_a_failure_is_gits_own_line(repository: GitRepository) -> None:
    with pytest.raises(StateError, match=r"^git says: Needed a single revision$"):
        repository.git("rev-parse", "--verify", "none^{commit}", "--")
    assert repository.git("rev-parse", "--verify", "-q", "none", check=False).code == 1
    with pytest.raises(InvalidArgumentError, match="git branch"):
        repository.git("branch", "--no-such-option")


def test_where_there_is_no_repository(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(RepositoryNotFoundError):
            run_git(["status"], folder=folder)


@pytest.mark.thorough
def test_a_held_lock(repository: GitRepository) -> None:
    with (
        (repository.git_directory / "index.lock").open("x"),
        pytest.raises(LockedError, match=r"index\.lock"),
    ):
        repository.git("add", "-A", ".")


def test_no_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingProgramError, match="not installed"):
        run_git(["version"])


def test_it_speaks_english_and_takes_bytes(
    repository: GitRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("LANGUAGE", "de")
    assert repository.git("hash-object", "--stdin", stdin=b"\0\xff").text.isalnum()
    assert "not a valid" in repository.git("cat-file", "-p", "x y", check=False).message.lower()
