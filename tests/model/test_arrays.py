import sys
from subprocess import run
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.model.arrays import arrow_array, ascending_order


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.int64, np.uint64, np.float64])
@pytest.mark.parametrize("count", [0, 1, 7, 100])
def test_is_what_pyarrow_makes(dtype: type, count: int) -> None:
    values: npt.NDArray[Any] = np.arange(count).astype(dtype)

    made = arrow_array(values)

    made.validate(full=True)
    assert made.equals(pa.array(values))
    odd = np.arange(count) % 2 == 1
    nullable = arrow_array(values, absent=odd)
    nullable.validate(full=True)
    assert nullable.null_count == count // 2
    assert nullable.equals(pa.array(values, mask=odd))


@given(st.lists(st.booleans(), max_size=70))
def test_truth_values_are_what_pyarrow_makes(values: list[bool]) -> None:
    made = arrow_array(np.array(values, bool))

    made.validate(full=True)
    assert made.equals(pa.array(values, pa.bool_()))


def test_every_other_number_is_copied() -> None:
    assert arrow_array(np.arange(6)[::2]).to_pylist() == [0, 2, 4]


def test_leaves_numpy_ma_out() -> None:
    code = (
        "import sys, numpy; from havasu_vc.model.arrays import arrow_array; "
        "arrow_array(numpy.arange(3)); sys.exit('numpy.ma' in sys.modules)"
    )

    assert run([sys.executable, "-c", code], check=False).returncode == 0


KEYS = st.lists(st.one_of(st.none(), st.integers(-3, 3)), max_size=20)


@given(KEYS, st.booleans(), st.sampled_from([pa.int8(), pa.int32(), pa.int64(), pa.string()]))
def test_rows_come_in_the_order_that_arrow_has(
    numbers: list[int | None], two: bool, type_: pa.DataType
) -> None:
    values = [None if n is None else str(n) for n in numbers] if type_ == pa.string() else numbers
    columns = [pa.array(values, type_)] * (1 + two)
    rows = pa.RecordBatch.from_arrays(columns, [str(at) for at in range(len(columns))])

    order = ascending_order(rows)

    by = [(name, "ascending") for name in rows.schema.names]
    assert order.tolist() == pc.sort_indices(rows, sort_keys=by).to_pylist()
