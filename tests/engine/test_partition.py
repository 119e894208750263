"""Dealing out by key: the hash depends on the key's value and nothing else."""

import datetime
import decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.engine import partition
from havasu_vc.engine.local import LocalEngine
from havasu_vc.engine.partition import key_hashes
from havasu_vc.model.task import task_of
from havasu_vc.testing import kernels

keys = st.tuples(
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.text(max_size=20),
    st.none() | st.floats(width=32, allow_nan=False),
)


def _batch(rows: list[tuple[object, ...]]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True))
    types = (pa.int64(), pa.string(), pa.float64())
    return pa.record_batch(
        [pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)],
        names=["a", "b", "c"],
    )


@pytest.mark.thorough
@given(st.lists(keys, min_size=1, max_size=30), st.data())
def test_hashes_belong_to_rows_not_to_batches(
    rows: list[tuple[object, ...]], data: st.DataObject
) -> None:
    batch = _batch(rows)
    whole = key_hashes(batch, ["a", "b", "c"])
    start = data.draw(st.integers(0, len(rows)))
    parts = [key_hashes(batch.slice(0, start), ["a", "b", "c"])]
    parts.append(key_hashes(batch.slice(start), ["a", "b", "c"]))
    assert np.concatenate(parts).tolist() == whole.tolist()


@given(st.lists(keys, min_size=1, max_size=30))
def test_rows_have_one_hash_exactly_if_their_keys_are_equal(
    rows: list[tuple[object, ...]],
) -> None:
    hashes = key_hashes(_batch(rows), ["a", "b", "c"]).tolist()
    # -0.0 == 0.0 in Python as in the hash.
    assert len(set(hashes)) == len(set(rows))
    assert len(set(zip(rows, hashes, strict=True))) == len(set(rows))


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (pa.int8(), pa.int64()),
        (pa.uint16(), pa.int32()),
        (pa.uint64(), pa.int64()),
        (pa.float32(), pa.float64()),
        (pa.decimal128(5, 0), pa.decimal128(30, 0)),
        (pa.string(), pa.large_string()),
        (pa.string(), pa.dictionary(pa.int8(), pa.string())),
        (pa.timestamp("s"), pa.timestamp("us")),
        (pa.date32(), pa.date64()),
        (pa.binary(), pa.large_binary()),
    ],
    ids=str,
)
def test_widths_do_not_matter(narrow: pa.DataType, wide: pa.DataType) -> None:
    values: list[object] = [1, 0, 7, None, 100]
    if pa.types.is_decimal(narrow):
        values = [decimal.Decimal(1), decimal.Decimal(99999), None]
    elif pa.types.is_date(narrow):
        values = [datetime.date(2026, 11, 21), datetime.date(1840, 2, 6), None]
    elif pa.types.is_timestamp(narrow):
        values = [datetime.datetime(2026, 11, 21, 7, 0), datetime.datetime(1840, 2, 6), None]
    elif pa.types.is_string(narrow):
        values = ["", "a", None, "a longer text than eight bytes"]
    elif pa.types.is_binary(narrow):
        values = [b"", b"\0", b"\0\0", None]
    of_narrow, of_wide = (
        key_hashes(pa.record_batch({"k": pa.array(values, type_)}), ["k"]).tolist()
        for type_ in (narrow, wide)
    )
    assert of_narrow == of_wide
    assert len(set(of_narrow)) == len(values)


def test_columns_count_by_their_place() -> None:
    batch = pa.record_batch({"a": [1, 2], "b": [2, 1]})
    (first, second) = key_hashes(batch, ["a", "b"]).tolist()
    assert first != second
    assert key_hashes(batch, ["b", "a"]).tolist() == [second, first]


def _mix(number: int) -> int:
    """SplitMix64's finaliser, with plain integers."""
    number &= ALL
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & ALL
    number = (number ^ number >> 27) * 0x94D049BB133111EB & ALL
    return number ^ number >> 31


def _text(text: str) -> int:
    data = text.encode()
    words = [data[start : start + 8] for start in range(0, len(data), 8)]
    total = sum(
        _mix(int.from_bytes(word, "little") + (index + 1) * STEP)
        for index, word in enumerate(words)
    )
    return _mix(total + len(data))


ALL, STEP, NULL = (1 << 64) - 1, 0x9E3779B97F4A7C15, 0xA0761D6478BD642F


def test_the_hash_is_the_one_that_is_documented() -> None:
    # Engines of two versions may share the work of one run.
    numbers = [0, 1, None, -5]
    texts = ["", "x", "ninebytes", None]
    expected = []
    for number, text in zip(numbers, texts, strict=True):
        first = NULL if number is None else _mix(number)
        second = NULL if text is None else _text(text)
        combined = _mix(_mix(first + STEP))
        expected.append(_mix(combined + _mix(second + 2 * STEP)))
    assert key_hashes(pa.record_batch({"a": numbers, "b": texts}), ["a", "b"]).tolist() == expected


def test_no_rows_have_no_hashes() -> None:
    assert key_hashes(pa.record_batch({"a": pa.array([], pa.string())}), ["a"]).tolist() == []


def test_small_batches_are_split_together(tmp_path: Path) -> None:
    task = task_of(kernels.numbers, 0, 10, 1000)
    with LocalEngine(threads=1, scratch=tmp_path) as engine:
        parts = engine.partition([task], ["number"], 4)
        got = [list(engine.run([part])) for part in parts]
    assert [len(batches) for batches in got] == [1, 1, 1, 1]
    assert sum(batches[0].num_rows for batches in got) == 10_000


def test_input_is_split_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "FLUSH_BYTES", 800)
    task = task_of(kernels.numbers, 0, 10, 100)
    with LocalEngine(threads=1, scratch=tmp_path) as engine:
        (part,) = engine.partition([task], ["number"], 1)
        got = list(engine.run([part]))
    assert len(got) == 10
    assert [n for batch in got for n in batch.column(0).to_pylist()] == list(range(1000))


def test_mistakes_are_refused() -> None:
    with LocalEngine(threads=1) as engine:
        with pytest.raises(ValueError, match="0 parts"):
            engine.partition([], ["a"], 0)
        with pytest.raises(ValueError, match="at least one key column"):
            engine.partition([], [], 2)
