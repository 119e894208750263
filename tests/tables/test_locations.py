"""What a table may name, and what it may not."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import CorruptionError, InvalidArgumentError, NotYetSupportedError
from havasu_vc.tables.table import TableFolders, local_path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    folder = tmp_path / "t"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "a%20b c.parquet").write_bytes(b"x")
    return folder


@pytest.mark.parametrize("scheme", ["", "file:", "file://", "file://localhost", "FILE:"])
def test_spellings_of_one_file(table: Path, scheme: str) -> None:
    location = f"{scheme}{table}/data/a%20b c.parquet"

    assert TableFolders([table]).file(location) == table / "data" / "a%20b c.parquet"


@given(st.text(st.characters(blacklist_characters="\0/", blacklist_categories=["Cs"]), min_size=1))
def test_names_are_never_decoded(name: str) -> None:
    assert local_path(f"file:/t/{name}") == f"/t/{name}"


@pytest.mark.parametrize("location", ["s3://bucket/a", "hdfs:/a", "gs://b/c", "http://x/y"])
def test_other_file_systems_are_not_yet_read(location: str) -> None:
    with pytest.raises(NotYetSupportedError, match="another file system"):
        local_path(location)


@pytest.mark.parametrize(
    "location", ["", "a/b", "file:a", "file://host/a", "//host/a", "/a\0b", "/" + "a" * 5000]
)
def test_what_is_no_location(location: str) -> None:
    with pytest.raises(InvalidArgumentError):
        local_path(location)


@pytest.mark.parametrize(
    "location",
    [
        "/etc/passwd",
        "file:///etc/passwd",
        "{table}/../secret",
        "{table}/data/../../secret",
        "{table}/out/passwd",
        "{table}/link",
        "{table}x/data",
        "{table}/data/..",
        "{table}/",
    ],
)
def test_nothing_outside_is_read(table: Path, location: str) -> None:
    (table.parent / "secret").write_text("s")
    (table / "out").symlink_to("/etc")
    (table / "link").symlink_to("../secret")

    with pytest.raises(CorruptionError):
        TableFolders([table]).file(location.format(table=table))


def test_what_is_allowed_besides(table: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    (store / "x").write_bytes(b"")
    (table / "data" / "linked").symlink_to(store / "x")

    with pytest.raises(CorruptionError, match="outside"):
        TableFolders([table]).file(str(store / "x"))
    assert TableFolders([table, store]).file(str(store / "x")) == store / "x"
    assert TableFolders([table, store]).file(str(table / "data" / "linked")) == store / "x"


def test_a_table_behind_a_link(table: Path, tmp_path: Path) -> None:
    (tmp_path / "way").symlink_to(table)

    found = TableFolders([tmp_path / "way"]).file(
        str(tmp_path / "way" / "data" / "a%20b c.parquet")
    )

    assert found == table / "data" / "a%20b c.parquet"


def test_only_files_are_opened(table: Path) -> None:
    os.mkfifo(table / "data" / "pipe")

    for name in ("data/pipe", "data"):
        with pytest.raises(CorruptionError, match="not a file"):
            TableFolders([table]).file(str(table / name))


def test_a_file_that_is_missing_is_somebody_elses_error(table: Path) -> None:
    assert TableFolders([table]).file(str(table / "data/none")) == table / "data/none"
