"""What holds of every decoder, whatever the bytes, and the ways that bytes are damaged."""

from __future__ import annotations

import json
import random
import struct
import time
import tracemalloc
from collections.abc import Iterator

from hypothesis import strategies as st

from havasu_vc.errors import HavasuError
from tests.fuzz.decoders import Decoder

MOST_SECONDS = 5.0
"""Processor time for inputs of a few kilobytes; hangs take longer, slow machines do not."""
MOST_MEMORY = 16 << 20
"""What a decoder may take whatever the input, in caches and the like."""
TIMES = 400
"""How many times the size of an input it may take besides."""

INTERESTING = (
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\x7f",
    b"\x7f\xff\xff\xff",
    b"\x80" * 9 + b"\x01",
    b"\x00" * 8,
    b"\xff" * 8,
    b"[[[[[[[[",
    b'{"a":{"a":',
    b"\xdd\xff\xff\xff\xff",
    b"\xdf\xff\xff\xff\xff",
    b"1e999",
    b"-9223372036854775809",
    b"null",
    b"NaN",
    b'"\\ud800"',
    b"\xc3\x28",
)


def hold(decoder: Decoder, data: bytes) -> bool:
    """Check that bytes give a value or an error of one line; return whether they give a value."""
    begin = time.process_time()
    try:
        decoder.decode(data)
        return True
    except HavasuError as error:
        message = error.message
    except decoder.others as error:
        message = str(error)
    finally:
        took = time.process_time() - begin
        if took > MOST_SECONDS:
            raise AssertionError(f"{decoder.name} took {took:.1f} s for {len(data)} bytes")
    # A value that is quoted may be as long as the input.
    if "\n" in message or len(message) > 2000 + 4 * len(data):
        raise AssertionError(f"{decoder.name} says more than a line: {message[:200]!r}")
    return False


def hold_in_memory(decoder: Decoder, data: bytes) -> None:
    """Check the same, and that memory stays in proportion to the bytes."""
    tracemalloc.start()
    try:
        hold(decoder, data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    if peak > MOST_MEMORY + TIMES * len(data):
        raise AssertionError(f"{decoder.name} took {peak >> 20} MiB for {len(data)} bytes")


@st.composite
def damaged(draw: st.DrawFn, seeds: tuple[bytes, ...]) -> bytes:
    """Draw valid bytes with a few places changed, cut out, put in, repeated or swapped."""
    data = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        gone = draw(st.integers(0, 8))
        put = draw(st.one_of(st.binary(max_size=6), st.sampled_from(INTERESTING)))
        match draw(st.integers(0, 4)):
            case 0:
                data = data[:at] + put + data[at + gone :]
            case 1:
                data = data[:at] + put + data[at + len(put) :]
            case 2:
                data = data[:at]
            case 3:
                data = data[:at] + data[at : at + 8 * gone] * 3 + data[at + 8 * gone :]
            case _:
                other = draw(st.sampled_from(seeds))
                data = data[:at] + other[at : at + 4 * gone] + data[at + 4 * gone :]
    return data


def bombs(decoder: Decoder) -> Iterator[bytes]:
    """Yield a fixed set of hostile inputs: nesting, counts, cuts, and seeds with huge numbers."""
    for text in (
        b"[",
        b'{"a":',
        b"(",
        b"GEOMETRYCOLLECTION(",
        b"\x91",
        b"\x81\xa1a",
        b'[{"fields":',
    ):
        yield text * (100_000 // len(text))
    collection = struct.pack("<BII", 1, 7, 1)
    yield collection * 20_000
    yield struct.pack("<BII", 1, 7, 0xFFFFFFFF)
    for kind in (2, 3, 4, 6, 1003, 0xE0000003):
        yield struct.pack("<BII", 1, kind, 0xFFFFFFFF) + bytes(64)
    yield json.dumps({"type": "MultiPoint", "coordinates": [[0, 0]] * 5000}).encode()
    yield bytes(100_000)
    yield b"\xff" * 100_000
    chance = random.Random(decoder.name)
    for seed in decoder.seeds:
        places = range(len(seed)) if len(seed) < 200 else chance.sample(range(len(seed)), 120)
        for at in places:
            for number in (b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x7f\xff\xff\xff"):
                yield seed[:at] + number + seed[at + 4 :]
            yield seed[:at]
        yield seed * 50
