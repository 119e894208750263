"""Avro container files as Iceberg uses them: written to reproducible bytes, read within bounds.

Values are encoded and decoded here rather than by a library for two reasons. A manifest is one
record type that never changes, and code for that type alone is several times faster than code for
any. And a manifest from a stranger must not be able to claim a billion values, or to unpack to a
billion bytes: every count and length is held against the bytes that are there.

Records are dicts by Iceberg's field id, by name where a field has none. What cannot be read raises
`Malformed`; callers then name the file.
"""

from __future__ import annotations

import json
import mmap
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

import pyarrow as pa

from havasu_vc.records import dataclass

__all__ = [
    "Container",
    "Decoder",
    "Malformed",
    "UnknownCodec",
    "compile_schema",
    "encode_bytes",
    "encode_long",
    "encode_text",
    "format_container",
    "parse_container",
    "read_blocks",
    "read_bytes",
    "read_count",
    "read_long",
]


# Values of Avro, decoded by what their schema compiles to.
#
# `compile_schema` returns a function that reads a value at a place and returns it with the place
# after. Counts and lengths are held against the bytes that are left, arrays must take bytes, and
# records cannot be used by name: work and memory stay in proportion to the bytes.

_DEEPEST = 24

Data: TypeAlias = bytes | mmap.mmap
_Blocks: TypeAlias = Iterator[tuple[int, bytes]]

Decoder: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
"""Returns the value at a place and the place after it."""


class Malformed(ValueError):
    """The bytes are not the Avro that they claim to be."""


def read_long(data: Data, place: int) -> tuple[int, int]:
    """Return an integer."""
    byte = data[place]
    place += 1
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), place
    value, shift = byte & 127, 7
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 63:
            raise Malformed("a number has more than 64 bits")
    if value >> 64:
        raise Malformed("a number has more than 64 bits")
    return (value >> 1) ^ -(value & 1), place


def read_count(data: Data, place: int) -> tuple[int, int]:
    """Return how many items the next part of an array or map has."""
    count, place = read_long(data, place)
    if count < 0:
        # A negative count is followed by the size of its items, which nobody needs.
        size, place = read_long(data, place)
        if size < 0:
            raise Malformed("a size is negative")
        count = -count
    if count > len(data) - place:
        raise Malformed("it claims more values than it has bytes")
    return count, place


def read_bytes(data: Data, place: int) -> tuple[bytes, int]:
    """Return bytes."""
    length, place = read_long(data, place)
    end = place + length
    if length < 0:
        raise Malformed("a size is negative")
    if end > len(data):
        raise Malformed("it ends in the middle of a value")
    return data[place:end], end


def _text(data: bytes, place: int) -> tuple[str, int]:
    value, place = read_bytes(data, place)
    try:
        return value.decode(), place
    except UnicodeDecodeError:
        raise Malformed("a text is not UTF-8") from None


def _null(data: bytes, place: int) -> tuple[None, int]:
    return None, place


def _boolean(data: bytes, place: int) -> tuple[bool, int]:
    byte = data[place]
    if byte > 1:
        raise Malformed("a boolean is neither 0 nor 1")
    return byte == 1, place + 1


def _float(data: bytes, place: int) -> tuple[float, int]:
    return struct.unpack_from("<f", data, place)[0], place + 4


def _double(data: bytes, place: int) -> tuple[float, int]:
    return struct.unpack_from("<d", data, place)[0], place + 8


_SIMPLE: dict[str, Decoder] = {
    "null": _null,
    "boolean": _boolean,
    "int": read_long,
    "long": read_long,
    "float": _float,
    "double": _double,
    "bytes": read_bytes,
    "string": _text,
}


def compile_schema(schema: Any) -> Decoder:
    """Return what decodes values of an Avro schema."""
    return _compile(schema, {}, 0)


def _compile(schema: Any, named: dict[str, Decoder], depth: int) -> Decoder:
    if depth > _DEEPEST:
        raise Malformed("its schema is nested too deeply")
    if isinstance(schema, str):
        # Records are not to be had by name: a chain of them would multiply without end.
        found = _SIMPLE.get(schema) or named.get(schema)
        if found is None:
            raise Malformed(f"its schema has no type {schema!r}")
        return found
    if isinstance(schema, list):
        return _union([_compile(branch, named, depth + 1) for branch in schema])
    if not isinstance(schema, dict):
        raise Malformed("its schema is not one")
    match schema.get("type"):
        case "record":
            return _record(schema, named, depth)
        case "array":
            return _array(schema, named, depth)
        case "map":
            return _pairs(_text, _compile(schema.get("values"), named, depth + 1))
        case "fixed":
            return _name(schema, named, _fixed(schema.get("size")))
        case "enum":
            return _name(schema, named, read_long)
        case inner:
            return _compile(inner, named, depth + 1)


def _name(schema: dict[str, Any], named: dict[str, Decoder], decoder: Decoder) -> Decoder:
    name = schema.get("name")
    if not isinstance(name, str):
        raise Malformed("a type of its schema has no name")
    named[name] = decoder
    if isinstance(space := schema.get("namespace"), str):
        named[f"{space}.{name}"] = decoder
    return decoder


def _fixed(size: Any) -> Decoder:
    if not isinstance(size, int) or not 0 <= size < 1 << 24:
        raise Malformed("its schema has a size that is not possible")

    def read(data: bytes, place: int) -> tuple[bytes, int]:
        end = place + size
        if end > len(data):
            raise Malformed("it ends in the middle of a value")
        return data[place:end], end

    return read


def _union(branches: list[Decoder]) -> Decoder:
    if len(branches) == 2 and branches[0] is _null:
        second = branches[1]

        def optional(data: bytes, place: int) -> tuple[Any, int]:
            index = data[place]
            if index == 2:
                return second(data, place + 1)
            if index:
                raise Malformed("a value is of none of its types")
            return None, place + 1

        return optional

    def read(data: bytes, place: int) -> tuple[Any, int]:
        index, place = read_long(data, place)
        if not 0 <= index < len(branches):
            raise Malformed("a value is of none of its types")
        return branches[index](data, place)

    return read


def field_key(field: Mapping[str, Any]) -> int | str:
    """Return what a field of a record is known by: its Iceberg id, else its name."""
    number = field.get("field-id")
    if isinstance(number, int) and not isinstance(number, bool):
        return number
    return str(field.get("name"))


def _fields(schema: dict[str, Any]) -> list[dict[str, Any]]:
    fields = schema.get("fields")
    if not isinstance(fields, list) or not all(isinstance(field, dict) for field in fields):
        raise Malformed("a record of its schema has no fields")
    return fields


def _record(schema: dict[str, Any], named: dict[str, Decoder], depth: int) -> Decoder:
    readers = tuple(
        (field_key(field), _compile(field.get("type"), named, depth + 1))
        for field in _fields(schema)
    )

    def read(data: bytes, place: int) -> tuple[dict[int | str, Any], int]:
        record: dict[int | str, Any] = {}
        for key, decode in readers:
            record[key], place = decode(data, place)
        return record, place

    return read


def _array(schema: dict[str, Any], named: dict[str, Decoder], depth: int) -> Decoder:
    items = schema.get("items")
    if schema.get("logicalType") == "map" and isinstance(items, dict):
        fields = _fields(items)
        if len(fields) != 2:
            raise Malformed("a map of its schema has no keys and values")
        key, value = (_compile(field.get("type"), named, depth + 2) for field in fields)
        if key is read_long and value in (read_long, read_bytes):
            return _remembering(_numbered_bytes if value is read_bytes else _numbers)
        return _pairs(key, value)
    item = _compile(items, named, depth + 1)

    def read(data: bytes, place: int) -> tuple[list[Any], int]:
        values: list[Any] = []
        while True:
            count, place = read_count(data, place)
            if not count:
                return values, place
            start = place
            for _ in range(count):
                value, place = item(data, place)
                values.append(value)
            if place == start:
                raise Malformed("it claims values that have no bytes")

    return read


def _pairs(key: Decoder, value: Decoder) -> Decoder:
    def read(data: bytes, place: int) -> tuple[dict[Any, Any], int]:
        pairs: dict[Any, Any] = {}
        while True:
            count, place = read_count(data, place)
            if not count:
                return pairs, place
            start = place
            for _ in range(count):
                name, place = key(data, place)
                pairs[name], place = value(data, place)
            if place == start:
                raise Malformed("it claims values that have no bytes")

    return read


def _remembering(decode: Decoder) -> Decoder:
    """Return a decoder that reads the same bytes once where they stand again and again.

    Maps say where they end, so bytes that begin alike are alike. What is returned is shared.
    """
    last: tuple[bytes, Any] = (b"", None)

    def read(data: bytes, place: int) -> tuple[Any, int]:
        nonlocal last
        known, value = last
        if known and data.startswith(known, place):
            return value, place + len(known)
        value, end = decode(data, place)
        last = (data[place:end], value)
        return value, end

    return read


# In the next two, numbers of up to three bytes are read in place: it makes manifests, which are
# full of maps of numbers, more than twice as fast.


def _numbers(data: bytes, place: int) -> tuple[dict[int, int], int]:
    """Return a map of numbers to numbers."""
    pairs: dict[int, int] = {}
    while byte := data[place]:
        count, place = read_count(data, place)
        for _ in range(count):
            byte = data[place]
            if byte < 128:
                place += 1
                name = (byte >> 1) ^ -(byte & 1)
            else:
                name, place = read_long(data, place)
            byte = data[place]
            if byte < 128:
                place += 1
                pairs[name] = (byte >> 1) ^ -(byte & 1)
            elif (second := data[place + 1]) < 128:
                place += 2
                pairs[name] = (byte & 127 | second << 7) >> 1 ^ -(byte & 1)
            elif (third := data[place + 2]) < 128:
                place += 3
                value = byte & 127 | (second & 127) << 7 | third << 14
                pairs[name] = value >> 1 ^ -(byte & 1)
            else:
                pairs[name], place = read_long(data, place)
    return pairs, place + 1


def _numbered_bytes(data: bytes, place: int) -> tuple[dict[int, bytes], int]:
    """Return a map of numbers to bytes."""
    pairs: dict[int, bytes] = {}
    most = len(data)
    while byte := data[place]:
        count, place = read_count(data, place)
        for _ in range(count):
            byte = data[place]
            if byte < 128:
                place += 1
                name = (byte >> 1) ^ -(byte & 1)
            else:
                name, place = read_long(data, place)
            size = data[place]
            if size < 128 and not size & 1:
                place += 1
                end = place + (size >> 1)
            else:
                length, place = read_long(data, place)
                if length < 0:
                    raise Malformed("a size is negative")
                end = place + length
            if end > most:
                raise Malformed("it ends in the middle of a value")
            pairs[name] = data[place:end]
            place = end
    return pairs, place + 1


MAGIC = b"Obj\x01"
SYNC = b"havasu-vc iceber"
"""Marks the end of each block. Fixed, so that equal values give equal bytes."""

MOST_BYTES = 256 * 1024 * 1024
"""A file that unpacks to more is refused."""
MOST_TIMES = 64
"""So is one that unpacks to so many times its size, and `_FREE_BYTES`."""
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
    """The rest of the header."""
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
    try:
        return _container(data)
    except (IndexError, struct.error):
        raise Malformed("it ends too early") from None


def _container(data: bytes) -> Container:
    schema, header, found = _blocks(data, min(MOST_BYTES, MOST_TIMES * len(data) + _FREE_BYTES))
    try:
        metadata = {name: value.decode() for name, value in header.items()}
    except ValueError:
        raise Malformed("its header is not JSON and text") from None
    return Container(schema, metadata, tuple(found))


def read_blocks(data: Data) -> tuple[Any, Iterator[Container]]:
    """Return the schema of a file of any size, and its blocks one by one, unpacked when reached."""
    try:
        schema, _, found = _blocks(data, None)
    except IndexError:
        raise Malformed("it ends too early") from None
    return schema, (Container(schema, {}, (block,)) for block in found)


def _blocks(data: Data, most: int | None) -> tuple[Any, dict[str, bytes], _Blocks]:
    """Return schema, header and blocks, which unpack to at most so much in all, or else each."""
    schema, header, codec, start = _opened(data)
    sync = header.pop("")

    def blocks() -> _Blocks:
        place, left = start, MOST_BYTES if most is None else most
        while place < len(data):
            try:
                count, place = read_long(data, place)
                packed, place = read_bytes(data, place)
            except IndexError:
                raise Malformed("it ends too early") from None
            if data[place : place + 16] != sync:
                raise Malformed("a block does not end where it should")
            place += 16
            block = _unpack(packed, codec, left)
            if not 0 <= count <= len(block):
                raise Malformed("a block claims more records than it has bytes")
            left -= 0 if most is None else len(block)
            yield count, block

    return schema, header, blocks()


def _opened(data: Data) -> tuple[Any, dict[str, bytes], str, int]:
    """Return schema, what else the header says with the sync mark as "", codec and its end."""
    if data[: len(MAGIC)] != MAGIC:
        raise Malformed("it is not an Avro file")
    header, place = _read_header(data, len(MAGIC))
    header[""] = data[place : place + 16]
    try:
        header[""][15]  # it ends too early otherwise
        schema = json.loads(header.pop("avro.schema"))
    except KeyError:
        raise Malformed("it has no schema") from None
    except (ValueError, RecursionError):
        raise Malformed("its header is not JSON and text") from None
    codec = header.pop("avro.codec", b"null").decode(errors="replace")
    return schema, header, codec, place + 16


def _read_header(data: Data, place: int) -> tuple[dict[str, bytes], int]:
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
            return bytes(pa.decompress(packed[:-4], length, codec="snappy", asbytes=True))
        case "zstandard":
            with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
                streamed: bytes = stream.read(most + 1)
            return streamed
        case _:
            raise UnknownCodec(f"it is compressed with {codec!r}")
