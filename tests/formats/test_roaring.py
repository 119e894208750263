"""Roaring bitmaps: those of pyroaring are read, and damaged ones are refused in little memory."""

import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from havasu_vc.formats.roaring import (
    parse_deletion_vector,
    parse_framed_deletion_vector,
    parse_roaring_bitmap,
)

MAGIC = struct.pack("<I", 1681511377)
SPANS = st.lists(
    st.tuples(
        st.sampled_from([0, 65_500, 1 << 20, (1 << 32) - 50, 3 << 32, (1 << 62)]),
        st.integers(0, 70_000),
        st.integers(1, 20_000),
        st.sampled_from([1, 2, 7]),
    ),
    max_size=4,
)


def positions_of(spans: list[tuple[int, int, int, int]]) -> list[int]:
    found: set[int] = set()
    for start, shift, count, step in spans:
        found |= set(range(start + shift, start + shift + count * step, step))
    return sorted(found)


def bitmap(positions: list[int], *, runs: bool = True) -> bytes:
    made = BitMap64(positions)
    if runs:
        made.run_optimize()
    return bytes(made.serialize())


def framed(positions: list[int]) -> bytes:
    vector = MAGIC + bitmap(positions)
    return struct.pack(">I", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))


@given(SPANS, st.booleans())
def test_what_another_library_wrote_is_read(
    spans: list[tuple[int, int, int, int]], runs: bool
) -> None:
    positions = positions_of(spans)

    found = parse_roaring_bitmap(bitmap(positions, runs=runs))

    assert found.dtype == np.int64
    assert found.tolist() == positions


@given(SPANS)
def test_vectors_are_read_with_and_without_their_frame(
    spans: list[tuple[int, int, int, int]],
) -> None:
    positions = positions_of(spans)

    assert parse_deletion_vector(MAGIC + bitmap(positions)).tolist() == positions
    assert parse_framed_deletion_vector(framed(positions)).tolist() == positions


def test_more_positions_than_there_are_rows() -> None:
    data = bitmap(list(range(100)))

    assert len(parse_roaring_bitmap(data, most=100)) == 100
    with pytest.raises(ValueError, match="more than 99"):
        parse_roaring_bitmap(data, most=99)


def test_a_few_bytes_for_billions_of_positions_take_no_memory() -> None:
    everything = BitMap()
    everything.add_range(0, 1 << 32)
    everything.run_optimize()
    data = struct.pack("<QI", 1, 0) + bytes(everything.serialize())
    tracemalloc.start()
    with pytest.raises(ValueError, match="more than"):
        parse_roaring_bitmap(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 20 * len(data)


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"", "ends in its count"),
        (struct.pack("<Q", 2**63), "ends in the high bits"),
        (struct.pack("<QI", 1, 1 << 31), "not in order"),
        (struct.pack("<QII", 1, 0, 12), "unknown number 12"),
        (struct.pack("<QIII", 1, 0, 12346, 65_537), "65537 containers"),
        (struct.pack("<QIII", 1, 0, 12346, 65_536), "ends in the heads"),
        (bitmap([1]) + b"x", "1 bytes follow"),
        (bitmap([1])[:-1], "ends in a container"),
        (struct.pack("<Q", 2) + bitmap([1])[8:] + bitmap([2])[8:], "not in order"),
        (
            struct.pack("<QIIIHHI", 1, 0, 12346, 1, 0, 1, 0) + struct.pack("<HH", 7, 7),
            "positions of a roaring bitmap are not in order",
        ),
        (
            struct.pack("<QIIIHHI", 1, 0, 12346, 1, 0, 5000, 0) + bytes(8192),
            "says 5001 and has 0",
        ),
        (
            struct.pack("<QIIBHHHHH", 1, 0, 12347, 1, 0, 9, 1, 65_530, 9),
            "beyond its container",
        ),
        (struct.pack("<QIIBHHHHH", 1, 0, 12347, 1, 0, 9, 1, 0, 3), "says 10 and has 4"),
    ],
)
def test_bitmaps_that_are_none(data: bytes, cause: str) -> None:
    with pytest.raises(ValueError, match=cause):
        parse_roaring_bitmap(data)


@pytest.mark.parametrize("order", "<>")
def test_the_first_form_of_delta(order: str) -> None:
    low, high = BitMap([3, 4, 70_000]).serialize(), BitMap([0]).serialize()
    data = struct.pack(f"{order}II", 1681511376, 2)
    for each in (low, high):
        data += struct.pack(f"{order}I", len(each)) + bytes(each)

    assert parse_deletion_vector(data).tolist() == [3, 4, 70_000, 1 << 32]
    with pytest.raises(ValueError, match="another size"):
        parse_deletion_vector(data[:8] + struct.pack(f"{order}I", len(low) + 1) + data[12:])
    with pytest.raises(ValueError, match="1 bytes follow"):
        parse_deletion_vector(data + b"x")


def test_vectors_that_are_none() -> None:
    good = framed([1, 2, 3])
    for data, cause in (
        (good[:8], "cut short"),
        (good[:-1], "says"),
        (good[:10] + bytes([good[10] ^ 1]) + good[11:], "checksum"),
    ):
        with pytest.raises(ValueError, match=cause):
            parse_framed_deletion_vector(data)
    with pytest.raises(ValueError, match="another number"):
        parse_deletion_vector(bitmap([1]))
