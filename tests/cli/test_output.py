"""A file appears whole or not at all."""

import sys
from pathlib import Path

import pytest

from havasu_vc.cli.output import opened_output
from havasu_vc.errors import StorageError


def test_no_file_is_stdout() -> None:
    with opened_output(None) as first, opened_output(Path("-")) as second:
        assert first is second is sys.stdout


def test_a_file_is_replaced_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text("old")
    with opened_output(path) as out:
        out.write("new")
        assert path.read_text() == "old"

    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_what_fails_leaves_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text("old")
    with pytest.raises(ValueError, match="half"), opened_output(path) as out:
        out.write("new")
        raise ValueError("half done")

    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be written"):
        with opened_output(tmp_path / "no" / "out.json"):
            pass
