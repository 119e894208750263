"""The spelling of values, a column at a time."""

import json
from datetime import datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field
from havasu_vc.model.types import Primitive as P
from havasu_vc.writers.json_style import LAYOUTS, LINES
from havasu_vc.writers.protocol import JsonStyle
from havasu_vc.writers.terminal import printable, visible_json
from havasu_vc.writers.text import printable_column
from havasu_vc.writers.values import float_text, json_tokens, plain_text, slices
from tests.writers.cases import FID, NAME, batch

COMPACT = LAYOUTS[JsonStyle.COMPACT]
SCALES = st.floats() | st.builds(
    lambda digits, power: digits * 10.0**power, st.integers(-99999, 99999), st.integers(-12, 25)
)


@given(st.lists(SCALES))
def test_floats_are_spelled_as_python_does(numbers: list[float]) -> None:
    assert float_text(pa.array(numbers, pa.float64()), repr).to_pylist() == list(map(repr, numbers))


@pytest.mark.parametrize("number", [1e-4, 1e-5, 9.9e9, 1e10, 1e15, 1e16, 5e-324, -0.0, 0.1])
def test_floats_where_spellings_change(number: float) -> None:
    assert float_text(pa.array([None, number]), repr).to_pylist() == [None, repr(number)]


@given(st.lists(st.floats(width=32, allow_nan=False)))
def test_short_floats_have_their_own_shortest_digits(numbers: list[float]) -> None:
    texts = float_text(pa.array(numbers, pa.float32()), repr).to_pylist()

    assert [np.float32(text) for text in texts] == numbers
    for text, number in zip(texts, numbers, strict=True):
        digits, most = (
            len(Decimal(each).normalize().as_tuple().digits) for each in (text, repr(number))
        )
        assert digits <= most


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))), st.integers(0, 3))
def test_text_is_escaped_as_json_does(texts: list[str], offset: int) -> None:
    column = pa.array([None, *texts], pa.string()).slice(offset)
    kept = [None, *texts][offset:]

    for layout, ascii_only in ((COMPACT, True), (LINES, False)):
        tokens = json_tokens(column, NAME, layout, 0).to_pylist()
        expected = [
            None if text is None else json.dumps(text, ensure_ascii=ascii_only) for text in kept
        ]
        assert tokens == [None if text is None else visible_json(text) for text in expected]
        assert [None if token is None else json.loads(token) for token in tokens] == kept


def test_no_character_controls_a_terminal() -> None:
    characters = [chr(code) for code in range(0x3000) if not 0xD800 <= code < 0xE000] + ["\ufeff"]
    shown = printable_column(pa.array(characters)).to_pylist()

    assert shown == [printable(character) for character in characters]
    assert all(text.isprintable() or len(text) == 1 for text in shown)
    assert not any(ord(text[0]) < 0x20 or 0x7F <= ord(text[0]) < 0xA0 for text in shown)


def test_text_that_is_not_utf8_is_shown_all_the_same() -> None:
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 3], np.int32)), pa.py_buffer(b"a\xffb")]
    )

    assert json_tokens(broken, NAME, COMPACT, 0).to_pylist() == ['"a\\ufffdb"']


@given(st.lists(st.datetimes()))
def test_timestamps_have_the_shortest_fraction(moments: list[datetime]) -> None:
    spelled = plain_text(pa.array(moments, pa.timestamp("us")), Field(1, "t", P.TIMESTAMP))

    for moment, text in zip(moments, spelled.to_pylist(), strict=True):
        assert text.rstrip("0") == moment.isoformat().rstrip("0") or not moment.microsecond
        assert not (moment.microsecond and text.endswith("0"))
        assert datetime.fromisoformat(text) == moment


def test_whole_seconds_before_1970() -> None:
    column = pa.array([datetime(1970, 1, 1) - timedelta(seconds=1)], pa.timestamp("us"))

    assert plain_text(column, Field(1, "t", P.TIMESTAMP)).to_pylist() == ["1969-12-31T23:59:59"]


def test_wide_rows_are_printed_a_few_at_a_time() -> None:
    schema = Schema((FID, NAME), (1,))
    row = {"fid": 1, "name": "x" * 300_000}
    changes = batch(schema, schema, *[(None, row)] * 20)

    pieces = list(slices(changes))

    assert sum(map(len, pieces)) == 20
    assert max(piece.data.nbytes for piece in pieces) < 2 << 20
    assert [len(piece) for piece in slices(pieces[0])] == [len(pieces[0])]
