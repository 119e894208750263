"""The functions are `pyarrow.compute`'s, and come without it."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as arrow
import pytest

from havasu_vc.model import compute

SOURCE = Path(compute.__file__).parents[1]
TEXTS = pa.array(["abc", None, "Zeit", ""])
NUMBERS = pa.array([3, None, -7, 0])
DOUBLES = pa.array([0.5, None, float("nan"), -0.0])
TRUTHS = pa.array([True, None, False, True])
TIMES = pa.array([0, None, 1_500_000, -1], pa.timestamp("us"))
LISTS = pa.array([[1, 2], None, [], [3]])
BYTES = pa.array([b"\x01\x02\x03", None, b"", b"\xff" * 5])
STRUCTS = pa.array([{"a": 1}, None, {"a": None}, {"a": 4}])
ROWS = pa.record_batch({"a": [2, 1, 2, None], "b": ["x", "y", None, "a"]})

CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("abs", (DOUBLES,), {}),
    ("add", (NUMBERS, 1), {}),
    ("all", (TRUTHS,), {}),
    ("all", (pa.array([], pa.bool_()),), {"min_count": 0}),
    ("and_", (TRUTHS, TRUTHS), {}),
    ("and_not", (TRUTHS, True), {}),
    ("any", (TRUTHS,), {"skip_nulls": False}),
    ("binary_join_element_wise", (TEXTS, "-", TEXTS, ""), {}),
    ("binary_join_element_wise", (TEXTS, "-", ""), {"null_handling": "skip"}),
    ("binary_length", (BYTES,), {}),
    ("binary_slice", (BYTES, 1, 3), {}),
    ("cast", (NUMBERS, pa.string()), {}),
    ("cast", (DOUBLES, pa.int64()), {"safe": False}),
    ("cast", (pa.scalar(3), pa.float64()), {}),
    ("coalesce", (NUMBERS, pa.array([1, 2, 3, 4])), {}),
    ("count_substring", (TEXTS, "b"), {}),
    ("count_substring", (TEXTS, "z"), {"ignore_case": True}),
    ("count_distinct", (NUMBERS,), {}),
    ("divide", (NUMBERS, 2), {}),
    ("drop_null", (TEXTS,), {}),
    ("equal", (NUMBERS, 3), {}),
    ("extract_regex", (TEXTS, r"^(?P<first>[a-z])(?P<rest>.*)$"), {}),
    ("fill_null", (TRUTHS, False), {}),
    ("fill_null", (NUMBERS, NUMBERS), {}),
    ("fill_null", (NUMBERS, pa.scalar(2, pa.int8())), {}),
    ("fill_null", (pa.chunked_array([DOUBLES, DOUBLES]), 1), {}),
    ("filter", (ROWS, TRUTHS), {}),
    ("filter", (TEXTS, TRUTHS), {}),
    ("find_substring", (TEXTS, "e"), {}),
    ("greater", (NUMBERS, pa.scalar(0)), {}),
    ("greater_equal", (TIMES, TIMES[2]), {}),
    ("if_else", (TRUTHS, "yes", TEXTS), {}),
    ("index_in", (NUMBERS,), {"value_set": pa.array([-7, 3])}),
    ("index_in", (NUMBERS,), {"value_set": NUMBERS, "skip_nulls": True}),
    ("indices_nonzero", (TRUTHS,), {}),
    ("invert", (TRUTHS,), {}),
    ("is_inf", (DOUBLES,), {}),
    ("is_in", (NUMBERS,), {"value_set": pa.array([-7, None])}),
    ("list_element", (LISTS.drop_null().take([0, 2]), 0), {}),
    ("list_value_length", (LISTS,), {}),
    ("not_equal", (NUMBERS, 3), {}),
    ("is_finite", (DOUBLES,), {}),
    ("is_nan", (DOUBLES,), {}),
    ("is_null", (DOUBLES,), {}),
    ("is_valid", (STRUCTS,), {}),
    ("less", (NUMBERS, NUMBERS), {}),
    ("less_equal", (NUMBERS, 0), {}),
    ("list_flatten", (LISTS,), {}),
    ("list_parent_indices", (LISTS,), {}),
    ("match_substring", (TEXTS, "e"), {}),
    ("match_substring_regex", (TEXTS, "^[A-Z]"), {}),
    ("max", (NUMBERS,), {}),
    ("min", (NUMBERS,), {}),
    ("min_max", (NUMBERS,), {}),
    ("multiply", (NUMBERS, 1_000_000), {}),
    ("or_", (TRUTHS, False), {}),
    ("replace_substring", (TEXTS, "e", "E"), {"max_replacements": 1}),
    ("replace_substring_regex", (TEXTS, "[a-z]+", "*"), {}),
    ("replace_with_mask", (NUMBERS, pa.array([True, False] * 2), pa.array([8, 9])), {}),
    ("sort_indices", (NUMBERS,), {}),
    ("sort_indices", (ROWS,), {"sort_keys": [("a", "ascending"), ("b", "descending")]}),
    ("split_pattern", (TEXTS, "b"), {}),
    ("strftime", (TIMES, "%Y-%m-%dT%H:%M:%S"), {}),
    ("struct_field", (STRUCTS, "a"), {}),
    ("subtract", (NUMBERS, NUMBERS), {}),
    ("sum", (NUMBERS,), {}),
    ("take", (ROWS, pa.array([2, None, 0])), {}),
    ("take", (pa.table(ROWS), pa.array([1])), {}),
    ("unique", (NUMBERS,), {}),
    ("utf8_length", (TEXTS,), {}),
    ("utf8_lower", (TEXTS,), {}),
    ("utf8_ltrim", (TEXTS, "a"), {}),
    ("utf8_rtrim", (TEXTS, "t"), {}),
    ("utf8_slice_codeunits", (TEXTS, 1, 3), {}),
]


@pytest.mark.parametrize(("name", "values", "options"), CALLS)
def test_as_arrow_does(name: str, values: tuple[Any, ...], options: dict[str, Any]) -> None:
    ours = getattr(compute, name)(*values, **options)
    theirs = getattr(arrow, name)(*values, **options)
    # By what they show: NaN does not equal itself.
    assert str(ours) == str(theirs)
    assert getattr(ours, "type", None) == getattr(theirs, "type", None)


def test_dictionaries() -> None:
    ours = compute.dictionary_encode(pa.concat_arrays([TEXTS, TEXTS]))
    assert ours.equals(pa.concat_arrays([TEXTS, TEXTS]).dictionary_encode())


def test_fields_whose_names_arrow_takes_for_paths() -> None:
    rows = pa.array([{".a": 1, "[0]": 2, "a.b": 3}, None])
    assert compute.struct_field(rows, ".a").to_pylist() == [1, None]
    assert compute.struct_field(rows, "[0]").to_pylist() == [2, None]
    assert compute.struct_field(rows, "a.b").to_pylist() == [3, None]


def test_every_function_in_use_is_tried() -> None:
    tried = {name for name, _, _ in CALLS} | {"call_function", "dictionary_encode"}
    for module in SOURCE.rglob("*.py"):
        text = module.read_text()
        if "import compute as pc" in text:
            used = set(re.findall(r"\bpc\.([a-z_0-9]+)", text))
            assert used <= tried, module


def test_what_arrow_lacks() -> None:
    assert not hasattr(compute, "no_such_function")
    with pytest.raises(TypeError):
        compute.cast(NUMBERS, pa.string(), wrong=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        compute.utf8_rtrim(TEXTS, colour="red")
    with pytest.raises(pa.ArrowInvalid):
        compute.cast(TEXTS, pa.int64())


def test_nothing_more_is_imported() -> None:
    program = (
        "import sys; from havasu_vc.quick_arrow import leave_pandas_out; leave_pandas_out();"
        "from havasu_vc.model import compute as pc; import pyarrow as pa;"
        "pc.take(pc.filter(pc.cast(pa.array([1, 2]), pa.string()), pa.array([True, True])),"
        "pa.array([0])); sys.exit('pyarrow.compute' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
