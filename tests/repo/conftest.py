from pathlib import Path

import pytest

from havasu_vc import Repo
from tests.repo.tables import BY_ID, points, write
from tests.support.sound import LOCAL, CheckedRepo, checked
from tests.support.templates import again


@pytest.fixture
def repo(tmp_path: Path) -> CheckedRepo:
    """A repository with no commit, checked around every method call."""
    return checked(tmp_path / "repo")


@pytest.fixture
def filled(tmp_path: Path) -> CheckedRepo:
    """A repository with the dataset `points`, 100 rows by id."""
    file = write(tmp_path / "points.parquet", points(100))
    again("filled", lambda place: checked(place).import_(file, options=BY_ID), tmp_path / "repo")
    return CheckedRepo(Repo.open(tmp_path / "repo", settings=LOCAL))


@pytest.fixture
def plain(filled: CheckedRepo) -> Repo:
    """The same, not checked by itself."""
    return filled.repo
