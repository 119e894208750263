"""Avro container files as Iceberg uses them: written to reproducible bytes, read within bounds.

Values are encoded and decoded here rather than by a library for two reasons. A manifest
is one record type that never changes, and code for that type alone is several times
faster than code for any. And a manifest from a stranger must not be able to claim a
billion values, or to unpack to a billion bytes: every count and length is held against
the bytes that are there before anything is allocated.

Records are read as dicts by Iceberg's field id (by name where a field has none), so
the order of fields does not matter and unknown ones are passed over. What cannot be
read raises `Malformed`, which callers turn into an error that names the file.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa

from havasu_vc.formats.iceberg.avro_decoding import (
    Malformed,
    compile_schema,
    read_bytes,
    read_count,
    read_long,
)
from havasu_vc.records import dataclass

__all__ = [
    "Container",
    "Malformed",
    "UnknownCodec",
    "encode_bytes",
    "encode_long",
    "encode_text",
    "format_container",
    "parse_container",
]

MAGIC = b"Obj\x01"
SYNC = b"havasu-vc iceber"
"""Marks the end of each block. Fixed, so that equal values give equal bytes."""

MOST_BYTES = 256 * 1024 * 1024
"""A file that unpacks to more is refused."""
MOST_TIMES = 64
"""So is one that unpacks to so many times its size and `_FREE_BYTES` more: each file that a
manifest names has a name of its own, so manifests are a few times larger than when packed."""
_FREE_BYTES = 4 * 1024 * 1024
_BLOCK_BYTES = 64 * 1024
_LEVEL = 6


class UnknownCodec(Malformed):
    """The blocks are compressed in a way that cannot be undone here."""


@dataclass(frozen=True, slots=True)
class Container:
    """A container file, its blocks not decoded yet."""

    schema: Any
    """Avro's schema, as JSON values."""
    metadata: Mapping[str, str]
    """What the header says beside."""
    blocks: tuple[tuple[int, bytes], ...]
    """How many records, and their bytes unpacked."""

    def records(self) -> Iterator[Any]:
        """Yield each record, as a dict by field id."""
        read = compile_schema(self.schema)
        for count, data in self.blocks:
            place = 0
            try:
                for _ in range(count):
                    value, place = read(data, place)
                    yield value
            except (IndexError, struct.error):
                raise Malformed("it ends in the middle of a value") from None
            if place != len(data):
                raise Malformed("a block holds more than its records")


@lru_cache(1 << 16)
def encode_long(value: int) -> bytes:
    r"""Return an integer as Avro writes it.

    >>> encode_long(-1), encode_long(64)
    (b'\x01', b'\x80\x01')
    """
    zigzag = (value << 1) ^ (value >> 63)
    if not 0 <= zigzag < 1 << 64:
        raise ValueError(f"{value} has more than 64 bits")
    encoded = bytearray()
    while zigzag > 127:
        encoded.append(zigzag & 127 | 128)
        zigzag >>= 7
    encoded.append(zigzag)
    return bytes(encoded)


def encode_bytes(value: bytes) -> bytes:
    """Return bytes as Avro writes them."""
    return encode_long(len(value)) + value


def encode_text(value: str) -> bytes:
    """Return text as Avro writes it."""
    return encode_bytes(value.encode())


def format_container(schema: Any, metadata: Mapping[str, str], records: Iterable[bytes]) -> bytes:
    """Return a container file of encoded records, in blocks of about 64 kB, deflated."""
    header = {
        **{name: value.encode() for name, value in metadata.items()},
        "avro.schema": json.dumps(schema, separators=(",", ":"), ensure_ascii=False).encode(),
        "avro.codec": b"deflate",
    }
    parts = [MAGIC, encode_long(len(header))]
    for name, value in header.items():
        parts += (encode_text(name), encode_bytes(value))
    parts += (encode_long(0), SYNC)
    waiting: list[bytes] = []
    size = 0
    for record in records:
        waiting.append(record)
        size += len(record)
        if size >= _BLOCK_BYTES:
            parts += _block(waiting)
            waiting, size = [], 0
    if waiting:
        parts += _block(waiting)
    return b"".join(parts)


def _block(records: list[bytes]) -> tuple[bytes, bytes, bytes]:
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, -15)
    packed = packer.compress(b"".join(records)) + packer.flush()
    return encode_long(len(records)), encode_bytes(packed), SYNC


def parse_container(data: bytes) -> Container:
    """Return a container file, its blocks unpacked."""
    if not data.startswith(MAGIC):
        raise Malformed("it is not an Avro file")
    try:
        return _container(data)
    except (IndexError, struct.error):
        raise Malformed("it ends too early") from None


def _container(data: bytes) -> Container:
    header, place = _read_header(data, len(MAGIC))
    sync = data[place : place + 16]
    place += 16
    if len(sync) != 16:
        raise Malformed("it ends too early")
    codec = header.pop("avro.codec", b"null").decode(errors="replace")
    try:
        schema = json.loads(header.pop("avro.schema"))
        metadata = {name: value.decode() for name, value in header.items()}
    except KeyError:
        raise Malformed("it has no schema") from None
    except (ValueError, RecursionError):
        raise Malformed("its header is not JSON and text") from None
    blocks: list[tuple[int, bytes]] = []
    left = min(MOST_BYTES, MOST_TIMES * len(data) + _FREE_BYTES)
    while place < len(data):
        count, place = read_long(data, place)
        packed, place = read_bytes(data, place)
        if data[place : place + 16] != sync:
            raise Malformed("a block does not end where it should")
        place += 16
        block = _unpack(packed, codec, left)
        if not 0 <= count <= len(block):
            raise Malformed("a block claims more records than it has bytes")
        left -= len(block)
        blocks.append((count, block))
    return Container(schema, metadata, tuple(blocks))


def _read_header(data: bytes, place: int) -> tuple[dict[str, bytes], int]:
    header: dict[str, bytes] = {}
    while True:
        count, place = read_count(data, place)
        if count == 0:
            return header, place
        for _ in range(count):
            name, place = read_bytes(data, place)
            header[name.decode(errors="replace")], place = read_bytes(data, place)


def _unpack(packed: bytes, codec: str, most: int) -> bytes:
    try:
        unpacked = _unpacked(packed, codec, most)
    except (zlib.error, OSError, ValueError) as error:
        if isinstance(error, Malformed):
            raise
        raise Malformed(f"a block cannot be unpacked ({error})") from error
    if len(unpacked) > most:
        raise Malformed("it unpacks to more than a file of its size should")
    return unpacked


def _unpacked(packed: bytes, codec: str, most: int) -> bytes:
    match codec:
        case "null":
            return packed
        case "deflate":
            unpacker = zlib.decompressobj(-15)
            unpacked = unpacker.decompress(packed, most + 1)
            if not unpacker.eof and len(unpacked) <= most:
                raise Malformed("a block ends too early")
            return unpacked
        case "snappy":
            length, shift = 0, 0
            for byte in packed[:5]:
                length |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    break
            if length > most:
                raise Malformed("it unpacks to more than a file of its size should")
            # The last four bytes are a checksum.
            found: bytes = pa.decompress(packed[:-4], length, codec="snappy", asbytes=True)
            return found
        case "zstandard":
            with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
                streamed: bytes = stream.read(most + 1)
            return streamed
        case _:
            raise UnknownCodec(f"it is compressed with {codec!r}")
