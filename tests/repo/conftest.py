from pathlib import Path

import pytest

from havasu_vc.repo import Repo
from tests.repo.tables import BY_ID, points, write
from tests.support.sound import CheckedRepo, checked


@pytest.fixture
def repo(tmp_path: Path) -> CheckedRepo:
    """A repository with no commit, checked around every method call."""
    return checked(tmp_path / "repo")


@pytest.fixture
def filled(repo: CheckedRepo, tmp_path: Path) -> CheckedRepo:
    """A repository with the dataset `points`, 100 rows by id."""
    repo.import_(write(tmp_path / "points.parquet", points(100)), options=BY_ID)
    return repo


@pytest.fixture
def plain(filled: CheckedRepo) -> Repo:
    """The same, not checked by itself."""
    return filled.repo
