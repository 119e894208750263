from pathlib import Path

import pytest

from havasu_vc.store.preparation import init_repository
from havasu_vc.store.repository import GitRepository


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    return init_repository(tmp_path / "repo")
