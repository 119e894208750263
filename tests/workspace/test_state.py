"""The state of a workspace is read as it was written; what is not one is refused."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import StateError, UnsupportedVersionError
from havasu_vc.formats.iceberg.values import Flavour
from havasu_vc.workspace.state import (
    DeleteBatch,
    FileIdentity,
    RefState,
    TableState,
    WorkspaceState,
    format_state,
    identify,
    parse_state,
    read_state,
    state_path,
    write_state,
)

HEX = st.text("0123456789abcdef", min_size=40, max_size=40)
NUMBER = st.integers(0, 2**63 - 1)
TEXT = st.text(min_size=1)
TABLES = st.builds(
    TableState,
    st.just(""),
    HEX,
    HEX,
    NUMBER,
    NUMBER,
    st.sampled_from(Flavour),
    st.dictionaries(HEX, st.builds(FileIdentity, NUMBER, NUMBER, NUMBER), max_size=3),
    st.lists(
        st.builds(
            DeleteBatch,
            st.lists(HEX, max_size=3).map(tuple),
            st.lists(TEXT, max_size=3).map(tuple),
        ),
        max_size=3,
    ).map(tuple),
    st.dictionaries(TEXT, st.builds(RefState, HEX, HEX, NUMBER), max_size=3),
)


@given(
    st.builds(WorkspaceState, st.just(Path("/w/tables")), st.sampled_from([None, *Flavour])),
    st.dictionaries(TEXT, TABLES, max_size=3),
)
def test_what_is_written_is_read(state: WorkspaceState, tables: dict[str, TableState]) -> None:
    for path, table in tables.items():
        state = state.with_table(path, replace(table, path=path))

    assert parse_state(format_state(state), "here") == state
    for path in tables:
        state = state.with_table(path, None)
    assert not state.tables


def test_it_lies_in_the_git_directory_of_the_work_tree(tmp_path: Path) -> None:
    assert read_state(tmp_path) is None
    state = WorkspaceState(tmp_path / "tables", refs=True)
    write_state(tmp_path, state)
    assert state_path(tmp_path).is_file()
    assert read_state(tmp_path) == state
    state_path(tmp_path).unlink()
    assert read_state(tmp_path) is None


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"format": 1}', b"\xff", b'{"format": 1, '])
def test_what_is_no_state_is_refused(data: bytes) -> None:
    with pytest.raises(StateError, match="here cannot be understood"):
        parse_state(data, "here")


def test_a_later_format_is_refused() -> None:
    with pytest.raises(UnsupportedVersionError):
        parse_state(b'{"format": 2}', "here")


def test_a_file_that_is_written_into_is_another(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"some")
    before = identify(file)
    assert identify(file) == before
    file.write_bytes(b"else")
    os.utime(file, ns=(1, 1))
    assert identify(file) != before
