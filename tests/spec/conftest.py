from pathlib import Path

import pytest

from tests.spec.commands import Commands


@pytest.fixture
def hv(tmp_path: Path) -> Commands:
    """Run commands in a repository of their own: `hv("log", "-n1")`."""
    return Commands(tmp_path / "repo")
