import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.formats.lfs import Pointer, format_pointer, parse_pointer

OID = "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393"
POINTERS = st.builds(
    Pointer,
    st.binary(min_size=32, max_size=32).map(bytes.hex),
    st.integers(0, 2**63 - 1),
)


@given(POINTERS)
def test_pointers_are_read_as_written(pointer: Pointer) -> None:
    assert parse_pointer(format_pointer(pointer)) == pointer


def test_the_text_is_the_specifications() -> None:
    expected = (
        b"version https://git-lfs.github.com/spec/v1\n"
        b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
        b"size 12345\n"
    )
    assert format_pointer(Pointer(OID, 12345)) == expected


@pytest.mark.skipif(shutil.which("git-lfs") is None, reason="git-lfs is not installed")
def test_the_text_is_git_lfss(tmp_path: Path) -> None:
    data = b"x" * 5000
    file = tmp_path / "file"
    file.write_bytes(data)
    said = subprocess.run(
        ["git", "lfs", "pointer", "--file", str(file)], capture_output=True, check=True
    )

    pointer = format_pointer(Pointer(hashlib.sha256(data).hexdigest(), len(data)))
    assert said.stdout == pointer


GOOD = format_pointer(Pointer(OID, 12))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        GOOD[:-1],
        GOOD + b"\n",
        GOOD.replace(b"\n", b"\r\n"),
        GOOD.replace(b"size 12", b"size 012"),
        GOOD.replace(b"size 12", b"size -1"),
        GOOD.replace(b"size 12", b"size 99999999999999999999"),
        GOOD.replace(b"4d7a", b"4D7A"),
        GOOD.replace(b"sha256", b"sha512"),
        GOOD.replace(b"spec/v1", b"spec/v2"),
        GOOD.replace(b"oid", b"ext-0-x sha256:" + OID.encode() + b"\noid"),
        GOOD * 100,
    ],
)
def test_everything_else_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a Git LFS pointer"):
        parse_pointer(data)


@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255))
def test_one_wrong_byte_gives_another_pointer_or_none(place: int, byte: int) -> None:
    data = GOOD[:place] + bytes([byte]) + GOOD[place + 1 :]
    try:
        assert format_pointer(parse_pointer(data)) == data
    except ValueError:
        pass


@pytest.mark.parametrize(("oid", "size"), [("x", 1), (OID.upper(), 1), (OID, -1), (OID, 2**63)])
def test_pointers_that_cannot_be(oid: str, size: int) -> None:
    with pytest.raises(ValueError):
        Pointer(oid, size)
