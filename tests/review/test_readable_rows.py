import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import GeometryError
from havasu_vc.review.geometry_tally import readable_rows


@given(st.lists(st.integers(0, 9), max_size=70))
def test_all_but_what_cannot_be_read(values: list[int]) -> None:
    def read(column: pa.Array) -> list[int]:
        found: list[int] = column.to_pylist()
        if 0 in found:
            raise GeometryError("zero")
        return found

    parts = list(readable_rows(pa.array(values, pa.int64()), read))

    together = [value for _, found in parts for value in (found or [0])]
    assert together == values
    assert [rows.start for rows, _ in parts] == sorted(rows.start for rows, _ in parts)


def test_a_damaged_value_costs_few_tries() -> None:
    tries = []

    def read(column: pa.Array) -> int:
        tries.append(len(column))
        if pc.any(pc.equal(column, 777)).as_py():
            raise GeometryError("no")
        return len(column)

    parts = list(readable_rows(pa.array(range(65_536)), read))

    assert [rows for rows, found in parts if found is None] == [slice(777, 778)]
    assert len(tries) < 40
