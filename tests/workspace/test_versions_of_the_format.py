"""Which version of Havasu's format a table says it has, and what a commit makes of that."""

import json
from pathlib import Path

import pytest

from havasu_vc import Repo
from havasu_vc.errors import UnsupportedVersionError
from tests.repo.tables import BY_ID, points, write
from tests.support.sound import LOCAL
from tests.support.templates import empty_repo
from tests.workspace import by_hand

VERSION = "havasu.format-version"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = empty_repo(tmp_path / "repo", settings=LOCAL)
    made.import_(write(tmp_path / "points.parquet", points(20)), options=BY_ID)
    made.workspace.check_out()
    by_hand.insert(made.workspace.root / "points", [{"id": 99, "name": "x", "number": 1}])
    return made


def metadata(repo: Repo) -> Path:
    folder = repo.workspace.root / "points" / "metadata"
    return max(folder.glob("v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0]))


def said(repo: Repo, version: str | None) -> Path:
    """Have the table say another version, or none."""
    path = metadata(repo)
    document = json.loads(path.read_text())
    assert document.pop(VERSION) == "0.1.0"
    path.write_text(json.dumps(document if version is None else {**document, VERSION: version}))
    return path


@pytest.mark.rule("HAV-6")
def test_without_a_version_it_is_the_first(repo: Repo) -> None:
    said(repo, None)
    repo.workspace.commit(message="Take it in")
    assert repo.table("points").to_arrow().num_rows == 21


@pytest.mark.rule("HAV-7")
@pytest.mark.parametrize("version", ["0.2.0", "1.0.0"])
def test_a_newer_version_is_neither_read_nor_written(repo: Repo, version: str) -> None:
    path = said(repo, version)
    before, head = path.read_bytes(), repo.head().commit
    for act in (
        lambda: repo.workspace.commit(message="Take it in"),
        lambda: repo.workspace.check_out(),
    ):
        with pytest.raises(UnsupportedVersionError, match=version) as caught:
            act()
        assert caught.value.hints
    assert (path.read_bytes(), repo.head().commit) == (before, head)
