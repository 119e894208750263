"""Manifests from a stranger: one clear error, whatever the bytes, and no work beyond them."""

from __future__ import annotations

import io
import time
import zlib
from collections.abc import Callable
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import CorruptDatasetError, HavasuError
from havasu_vc.formats.iceberg.avro import (
    MAGIC,
    MOST_BYTES,
    SYNC,
    Malformed,
    encode_bytes,
    encode_long,
    encode_text,
    format_container,
    parse_container,
)
from havasu_vc.formats.iceberg.manifests import (
    format_manifest_list,
    parse_manifest,
    parse_manifest_list,
)
from havasu_vc.formats.iceberg.values import ManifestFile
from tests.formats.iceberg.test_manifests import ADDED, PLAIN, written
from tests.support.examples import examples

WHERE = "metadata/m.avro"
MANIFEST = written(ADDED, PLAIN)
LIST = format_manifest_list([ManifestFile("m", 1)] * 3, snapshot_id=1)
CASES = [(MANIFEST, parse_manifest), (LIST, parse_manifest_list)]


def refused(parse: Callable[[bytes, str], Any], data: bytes) -> bool:
    """Parse, and say whether one-line errors of ours came of it; any other exception escapes."""
    try:
        parse(data, WHERE)
    except HavasuError as error:
        assert "\n" not in error.message
        return True
    return False


@pytest.mark.parametrize(("data", "parse"), CASES)
def test_every_cut_is_refused(data: bytes, parse: Callable[[bytes, str], Any]) -> None:
    header = data.index(SYNC) + 16
    for length in range(len(data)):
        # An end after the header is a file without records, which nobody can tell.
        assert refused(parse, data[:length]) or length == header


@given(st.data())
@examples(300)
def test_damaged_bytes_are_an_error_or_another_manifest(data: st.DataObject) -> None:
    whole, parse = data.draw(st.sampled_from(CASES))
    place = data.draw(st.integers(0, len(whole) - 1))
    put = data.draw(st.binary(min_size=1, max_size=4))
    refused(parse, whole[:place] + put + whole[place + len(put) :])


@given(st.data())
@examples(300)
def test_damaged_records_are_an_error_or_another_manifest(data: st.DataObject) -> None:
    whole, parse = data.draw(st.sampled_from(CASES))
    container = parse_container(whole)
    (_, block), *_ = container.blocks
    place = data.draw(st.integers(0, len(block) - 1))
    put = data.draw(st.binary(min_size=1, max_size=12))
    damaged = block[:place] + put + block[place + len(put) :]
    refused(parse, format_container(container.schema, container.metadata, [damaged]))


@given(st.binary(max_size=60))
def test_any_bytes(data: bytes) -> None:
    assert refused(parse_manifest, data)
    assert refused(parse_manifest, MAGIC + data)


def container(schema: str, records: int, block: bytes, codec: bytes = b"deflate") -> bytes:
    if codec == b"deflate":
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        block = packer.compress(block) + packer.flush()
    header = encode_text("avro.schema") + encode_bytes(schema.encode())
    header += encode_text("avro.codec") + encode_bytes(codec)
    body = encode_long(records) + encode_bytes(block)
    return MAGIC + encode_long(2) + header + b"\0" + SYNC + body + SYNC


def record(*fields: str) -> str:
    return '{{"type":"record","name":"r","fields":[{}]}}'.format(",".join(fields))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"PAR1", "not an Avro file"),
        (container("{", 1, b"x"), "not JSON"),
        (container("[" * 100_000, 1, b"x"), "not JSON"),
        (container('"nothing"', 1, b"x"), "no type 'nothing'"),
        (container("7", 1, b"x"), "not one"),
        (container('"long"', 1, b"\x02"), "holds no records"),
        (container('{"type":"array","items":"int"}', 1, b"\x7e"), "more values than"),
        (container('{"type":"array","items":"null"}', 1, b"\x04" + bytes(9)), "have no bytes"),
        (container('{"type":"array","items":"int"}', 1, b"\x01\x01\0\0\0"), "size is negative"),
        (container('"bytes"', 1, b"\x01"), "size is negative"),
        (container('"bytes"', 1, b"\x7e"), "middle of a value"),
        (container('"string"', 1, b"\x02\xff"), "not UTF-8"),
        (container('"boolean"', 1, b"\x02"), "neither 0 nor 1"),
        (container('"long"', 1, b"\xff" * 12), "more than 64 bits"),
        (container('["null","long","int"]', 1, b"\x08"), "none of its types"),
        (container('["null","long"]', 1, b"\x04"), "none of its types"),
        (container('{"type":"fixed","name":"f","size":-1}', 1, b"x"), "not possible"),
        (container('{"type":"fixed","name":"f","size":9}', 1, b"x"), "middle of a value"),
        (container('{"type":"record","name":"r"}', 1, b"x"), "has no fields"),
        (container('"long"', 99, b"\0"), "more records than it has bytes"),
        (container('"long"', -1, b"\0"), "more records than it has bytes"),
        (container('"long"', 0, b"\0"), "more than its records"),
        (container('"long"', 1, b"\xff\xff", b"snappy"), "cannot be unpacked"),
        (container('"long"', 1, b"zz", b"zstandard"), "cannot be unpacked"),
        (MANIFEST[:-1] + b"x", "does not end where it should"),
        (LIST, "no status or no file"),
        (container(record('{"name":"status","type":"string","field-id":0}'), 1, b"\0"), "no long"),
        (
            container(record(*['{"name":"a","type":"int","field-id":0}'] * 2), 1, b"\0\0"),
            "two fields of one id",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_said(data: bytes, reason: str) -> None:
    with pytest.raises(CorruptDatasetError, match=reason) as caught:
        parse_manifest(data, WHERE)
    assert caught.value.message.startswith(f"{WHERE}: ")


def test_types_nested_without_end_are_refused() -> None:
    nested: Any = "int"
    for _ in range(60):
        nested = {"type": "array", "items": nested}
    with pytest.raises(Malformed, match="nested too deeply"):
        list(parse_container(format_container(nested, {}, [b"\0"])).records())


def test_records_that_multiply_are_refused() -> None:
    first = '{"type":"record","name":"a","fields":[{"name":"x","type":"null"}]}'
    twice = f'{{"name":"x","type":{first}}},{{"name":"y","type":"a"}}'
    with pytest.raises(CorruptDatasetError, match="no type 'a'"):
        parse_manifest(container(record(twice), 1, b"x"), WHERE)


@pytest.mark.thorough
def test_a_file_that_unpacks_to_much_more_is_refused_at_once() -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    zeros = bytes(1 << 20)
    packed = b"".join(packer.compress(zeros) for _ in range(MOST_BYTES // len(zeros) + 1))
    packed += packer.flush()
    bomb = container('"long"', 1, packed, b"raw").replace(b"\x06raw", b"\x0edeflate")
    start = time.process_time()
    with pytest.raises(CorruptDatasetError, match="unpacks to more than"):
        parse_manifest(bomb, WHERE)
    assert time.process_time() - start < 60


def test_counts_that_claim_a_billion_take_no_time() -> None:
    schema = record('{"name":"x","type":{"type":"array","items":"null"}}')
    start = time.process_time()
    with pytest.raises(CorruptDatasetError):
        parse_manifest(container(schema, 1, encode_long(10**9) + bytes(9)), WHERE)
    assert time.process_time() - start < 1


def test_negative_sizes_of_files_are_refused() -> None:
    data = written(PLAIN)
    reader = fastavro.reader(io.BytesIO(data))
    records: list[Any] = list(reader)
    records[0]["data_file"]["record_count"] = -1
    buffer = io.BytesIO()
    fastavro.writer(buffer, reader.writer_schema, records)
    with pytest.raises(CorruptDatasetError, match="negative size"):
        parse_manifest(buffer.getvalue(), WHERE)


@pytest.mark.parametrize(("field", "value"), [("status", 3), ("status", -1)])
def test_unknown_statuses_are_refused(field: str, value: int) -> None:
    reader = fastavro.reader(io.BytesIO(written(PLAIN)))
    records: list[Any] = list(reader)
    records[0][field] = value
    buffer = io.BytesIO()
    fastavro.writer(buffer, reader.writer_schema, records)
    with pytest.raises(CorruptDatasetError, match="no status"):
        parse_manifest(buffer.getvalue(), WHERE)
