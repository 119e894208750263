"""Files of the store are linked into tables, or copied where that cannot be."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from havasu_vc.errors import CorruptDataFileError, StorageError
from havasu_vc.workspace.places import link_file
from havasu_vc.workspace.state import identify
from tests.conftest import ROOT


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    file = tmp_path / "stored"
    file.write_bytes(b"rows" * 1000)
    file.chmod(0o444)
    return file


def test_a_link_is_the_same_file_or_shares_its_blocks(stored: Path, tmp_path: Path) -> None:
    target = tmp_path / "linked"
    found = link_file(stored, target, 4000)

    assert found == identify(target)
    assert target.read_bytes() == stored.read_bytes()
    assert target.stat().st_mode & 0o777 == 0o444
    assert link_file(stored, target, 4000) == found
    assert sorted(path.name for path in tmp_path.iterdir()) == ["linked", "stored"]


def test_without_reflinks_it_is_the_same_file(stored: Path, tmp_path: Path) -> None:
    link_file(stored, tmp_path / "linked", 4000, reflink=False)
    assert (tmp_path / "linked").samefile(stored)


def test_a_copy_is_another_file_that_is_read_only(stored: Path, tmp_path: Path) -> None:
    target = tmp_path / "copied"
    link_file(stored, target, 4000, copy=True)

    assert not target.samefile(stored)
    assert target.read_bytes() == stored.read_bytes()
    assert target.stat().st_mode & 0o777 == 0o444


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A folder on another file system than that of the test: in memory, or where code is."""
    for place in (Path("/dev/shm"), ROOT, Path("/var/tmp")):
        if os.access(place, os.W_OK) and place.stat().st_dev != tmp_path.stat().st_dev:
            with tempfile.TemporaryDirectory(prefix=".havasu-test-", dir=place) as folder:
                yield Path(folder)
            return
    pytest.skip("there is no other file system")


def test_another_file_system_gets_a_copy(stored: Path, elsewhere: Path) -> None:
    target = elsewhere / "copied"
    link_file(stored, target, 4000)

    assert target.read_bytes() == stored.read_bytes()
    assert target.stat().st_nlink == 1


def test_other_bytes_under_the_name_are_damage(stored: Path, tmp_path: Path) -> None:
    target = tmp_path / "linked"
    target.write_bytes(b"other")
    with pytest.raises(CorruptDataFileError, match="changed in place"):
        link_file(stored, target, 4000)
    assert target.read_bytes() == b"other"


def test_a_folder_that_is_not_there_is_reported(stored: Path, tmp_path: Path) -> None:
    with pytest.raises((StorageError, OSError)):
        link_file(stored, tmp_path / "none" / "linked", 4000)
