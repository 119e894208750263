import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import GeometryError, InvalidArgumentError
from havasu_vc.geo.functions.all_functions import FUNCTIONS, GROUPS, compute, function_named
from havasu_vc.geo.functions.catalogue import Result


def test_names_are_there_once_and_begin_as_they_should() -> None:
    listed = [one.name.lower() for group in GROUPS.values() for one in group]

    assert len(listed) == len(set(listed)) == len(FUNCTIONS)
    assert all(name.startswith(("st_", "rs_")) for name in listed)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_is_told_of_and_counts_its_arguments(name: str) -> None:
    function = FUNCTIONS[name]
    least, most = function.arity

    assert function.summary.endswith((".", "told.")), name
    assert 1 <= least <= most
    for count in (0, most + 1):
        with pytest.raises(InvalidArgumentError, match=f"{name} takes .* arguments?, not {count}"):
            function(*[pa.nulls(1)] * count)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("size", [0, 3])
def test_nulls_give_null(name: str, size: int) -> None:
    function = FUNCTIONS[name]
    for count in set(function.arity):
        found = function(*[pa.nulls(size)] * count)
        assert found.type == function.result.arrow_type
        assert found.to_pylist() == [None] * (1 if function.aggregate else size)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_no_function_takes_is_said_in_one_line(name: str) -> None:
    function = FUNCTIONS[name]
    with pytest.raises(InvalidArgumentError, match=f"^{name}: it takes .*, not ") as caught:
        function(*[pa.array([[1]], pa.list_(pa.int32()))] * function.arity[0])
    assert "\n" not in str(caught.value)


values = st.lists(st.sampled_from(["POINT (1 1)", "POINT (1", None, "", "LINESTRING (0 0, 2 2)"]))


@given(values)
def test_lenient_rows_are_null_and_the_others_stand(rows: list[str | None]) -> None:
    column = pa.array(rows, pa.string())
    sound = [row if row and row.endswith(")") and "(1" != row[-2:] else None for row in rows]

    found = FUNCTIONS["ST_AsText"](column, lenient=True).to_pylist()

    assert found == sound
    if sound != rows:
        with pytest.raises(GeometryError):
            FUNCTIONS["ST_AsText"](column)


def test_functions_are_found_by_name_whatever_the_case() -> None:
    assert function_named("st_geomfromtext").name == "ST_GeomFromText"
    assert compute("ST_X", [pa.array(["POINT (1 2)"])], lenient=False).to_pylist() == [1]
    with pytest.raises(InvalidArgumentError, match="no function 'ST_Intersect'") as caught:
        function_named("ST_Intersect")
    assert "did you mean ST_Intersects?" in caught.value.hints


def test_every_result_has_a_type_of_its_own_words() -> None:
    assert {one.result for one in FUNCTIONS.values()} == set(Result)
