"""Remotes without data or with wrong data, as people meet them: what is said, and what helps."""

from pathlib import Path

import pytest

from havasu_vc import Repo
from havasu_vc.errors import (
    CorruptDataFileError,
    DataFileNotFoundError,
    DatasetNotFoundError,
    HavasuError,
)
from havasu_vc.sharing.requests import Part
from tests.remotes.sharing import assert_keeps_its_promise, clone, files, reopened, spoil, store
from tests.repo.points import read


@pytest.mark.few(1)
@pytest.mark.parametrize("wrong", ["missing", "bytes", "short"])
def test_it_is_said_where_data_is_wrong_and_how_it_is_mended(
    ours: Repo, tmp_path: Path, wrong: str
) -> None:
    server, place = tmp_path / "server.git", tmp_path / "theirs"
    (file,) = files(server)
    if wrong == "missing":
        store(server).delete(file)
    else:
        spoil(server, file, b"short" if wrong == "short" else None)

    with pytest.raises(HavasuError) as caught:
        clone(server, place)

    kind = DataFileNotFoundError if wrong == "missing" else CorruptDataFileError
    assert isinstance(caught.value, kind)
    first, *elsewhere, second = caught.value.hints
    # What is missing here may be in a bucket that nobody has told of.
    assert ["git config havasu.data.url URL" in hint for hint in elsewhere] == [True] * (
        wrong == "missing"
    )
    assert str(server) in first and "`havasu-vc data push` in a clone" in first
    assert str(place) in second and "havasu-vc fetch" in second
    # What the hints say is done.
    if wrong == "bytes":
        store(server).delete(file)
    assert ours.push_data().files == 1
    assert_keeps_its_promise(server)
    theirs = Repo.open(place, settings=ours.settings)
    assert theirs.fetch().files == 1
    assert read(theirs) == read(ours)
    assert list(reopened(theirs).fsck(full=True)) == []


def test_a_part_that_is_not_there_leaves_no_clone(ours: Repo, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "theirs", tmp_path / "empty"):
        with pytest.raises(DatasetNotFoundError):
            clone(tmp_path / "server.git", place, part=Part(("roads",)))
        assert not place.exists()
