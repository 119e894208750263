from pathlib import Path

import pytest

from havasu_vc.store.repository import GitRepository


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    return GitRepository.init(tmp_path / "repo")
