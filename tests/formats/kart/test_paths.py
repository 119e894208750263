"""Paths of features: the vectors of the specification, and what must hold of any key."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import CorruptDatasetError
from havasu_vc.formats.kart.paths import (
    GENERAL,
    INT,
    LEGACY,
    PathStructure,
    format_path_structure,
    parse_keys,
    parse_path_structure,
    parse_whole_keys,
    path_structure_of,
)
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive

ID = Field(1, "id", Primitive.LONG, required=True)
NAME = Field(2, "name", Primitive.STRING, required=True)
BY_ID, BY_NAME, BY_BOTH = Schema((ID,), (1,)), Schema((NAME,), (2,)), Schema((ID, NAME), (1, 2))


@pytest.mark.parametrize(
    ("key", "path"),
    [
        (77, "A/A/A/B/kU0="),
        (1, "A/A/A/A/kQE="),
        (64, "A/A/A/B/kUA="),
        (4095, "A/A/A/_/kc0P_w=="),
        (4096, "A/A/B/A/kc0QAA=="),
        (16777216, "B/A/A/A/kc4BAAAA"),
        (1234567890, "J/l/g/L/kc5JlgLS"),
        (1073741823, "_/_/_/_/kc4_____"),
        (1073741824, "A/A/A/A/kc5AAAAA"),
        (-1, "_/_/_/_/kf8="),
        (-64, "_/_/_/_/kdDA"),
        (-65, "_/_/_/-/kdC_"),
        (-(2**63), "A/A/A/A/kdOAAAAAAAAAAA=="),
    ],
)
@pytest.mark.rule(
    "KART-71", "KART-72", "KART-74", "KART-75", "KART-76", "KART-77", "KART-78", "KART-79"
)
def test_integer_keys_spell_their_folders(key: int, path: str) -> None:
    ((folder,), (name,)) = INT.paths([[key]])
    assert f"{folder.decode()}/{name.decode()}" == path
    assert parse_keys([name]) == [[key]]


@pytest.mark.parametrize(
    ("structure", "key", "path"),
    [
        (GENERAL, (77,), "P/F/e/O/kU0="),
        (GENERAL, ("abc",), "b/9/t/Y/kaNhYmM="),
        (GENERAL, ("é",), "p/D/z/e/kaLDqQ=="),
        (GENERAL, (1, "x"), "m/W/z/l/kgGheA=="),
        (LEGACY, (77,), "3c/57/kU0="),
        (LEGACY, ("abc",), "6f/db/kaNhYmM="),
        (PathStructure("msgpack/hash", 16, 4, "hex"), (77,), "3/c/5/7/kU0="),
        (PathStructure("int", 64, 2, "base64"), (77,), "A/B/kU0="),
    ],
)
@pytest.mark.rule("KART-73", "KART-85", "KART-86", "KART-87", "KART-88", "KART-89", "KART-90")
def test_other_keys_are_hashed(structure: PathStructure, key: tuple[object], path: str) -> None:
    ((folder,), (name,)) = structure.paths([[part] for part in key])
    assert f"{folder.decode()}/{name.decode()}" == path
    assert parse_keys([name]) == [[part] for part in key]


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.text()), min_size=1))
@pytest.mark.rule("KART-42")
def test_a_key_comes_back_from_its_name(keys: list[tuple[int, str]]) -> None:
    columns = [list(column) for column in zip(*keys, strict=True)]
    _, names = GENERAL.paths(columns)
    assert parse_keys(names) == columns


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_keys_of_one_folder_are_neighbours(keys: list[int]) -> None:
    folders, names = INT.paths([keys])
    assert parse_keys(names) == [keys]
    for key, folder in zip(keys, folders, strict=True):
        first = key // 64 * 64
        assert INT.paths([[first, min(first + 63, 2**63 - 1)]])[0] == [folder, folder]


_NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.builds(
    lambda power, sign, near: max(-(2**63), min(sign * 2**power + near, 2**63 - 1)),
    st.integers(0, 63),
    st.sampled_from([1, -1]),
    st.integers(-2, 2),
)


@given(st.lists(_NUMBERS))
def test_whole_numbers_come_back_from_their_names_together(keys: list[int]) -> None:
    found = parse_whole_keys(INT.paths([keys])[1])
    assert found is not None
    assert found.tolist() == keys
    assert INT.folders_of_whole(found) == INT.paths([keys])[0]


@given(_NUMBERS, st.data())
def test_names_spelled_otherwise_are_none_of_whole_numbers(key: int, data: st.DataObject) -> None:
    ((_,), (name,)) = INT.paths([[key]])
    changed = bytearray(name)
    at = data.draw(st.integers(0, len(name) - 1))
    changed[at] = data.draw(st.sampled_from(b"ABkz09-_=+/!\n\xff"))
    names = [b"kU0=", bytes(changed)]
    found = parse_whole_keys(names)
    assert found is None or INT.paths([found.tolist()])[1] == names


@pytest.mark.parametrize("name", [b"", b"kU0", b"kU1=", b"kcwA", b"kQE", b"kWF=", b"kgEC", b"kcs_"])
def test_what_is_no_whole_number_is_left_alone(name: bytes) -> None:
    assert parse_whole_keys([b"kU0=", name]) is None


@pytest.mark.parametrize("name", [b"", b"kU0", b"k!0=", b"oWE=", b"zzzz", b"kU0=kU0="])
def test_other_names_are_no_keys(name: bytes) -> None:
    try:
        found = parse_keys([b"kU0=", name])
    except ValueError as error:
        assert error.args == (1,)
    else:
        # What base64 or msgpack lets pass is told by spelling names again.
        assert GENERAL.paths(found)[1] != [b"kU0=", name]


@pytest.mark.rule("KART-31", "KART-81", "KART-92")
def test_the_structure_is_chosen_by_the_key() -> None:
    assert [path_structure_of(s) for s in (BY_ID, BY_NAME, BY_BOTH)] == [INT, GENERAL, GENERAL]
    assert json.loads(format_path_structure(INT)) == {
        "scheme": "int",
        "branches": 64,
        "levels": 4,
        "encoding": "base64",
    }
    assert parse_path_structure(format_path_structure(INT), BY_ID, "here") == INT
    assert parse_path_structure(None, BY_ID, "here") == LEGACY


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"scheme": "none"}, "scheme 'none' is not supported"),
        ({"branches": 32}, "base64 cannot have 32 branches"),
        ({"encoding": "hex"}, "hex cannot have 64 branches"),
        ({"encoding": "octal"}, "encoding 'octal'"),
        ({"levels": 0}, "cannot be 0 levels"),
        ({"levels": "4"}, "cannot be '4' levels"),
        ({"levels": 10**9}, "levels"),
    ],
)
@pytest.mark.rule("KART-82", "KART-84", "KART-85")
def test_impossible_structures_are_refused(change: dict[str, object], reason: str) -> None:
    document = json.loads(format_path_structure(INT)) | change
    with pytest.raises(CorruptDatasetError, match=reason):
        parse_path_structure(json.dumps(document).encode(), BY_ID, "here")


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"[" * 100_000, b'"int"'])
def test_what_is_no_structure_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptDatasetError, match="not a path structure"):
        parse_path_structure(data, BY_ID, "here")


@pytest.mark.rule("KART-83")
def test_text_keys_cannot_be_digits() -> None:
    with pytest.raises(CorruptDatasetError, match="whole number"):
        parse_path_structure(format_path_structure(INT), BY_NAME, "here")


@pytest.mark.rule("KART-96")
@pytest.mark.parametrize(("count", "first"), [(1, b"k"), (15, b"n"), (16, b"3")])
def test_keys_may_have_many_columns(count: int, first: bytes) -> None:
    columns = [[number] for number in range(count)]
    (_,), (name,) = GENERAL.paths(columns)
    assert name.startswith(first)
    assert parse_keys([name]) == columns


@pytest.mark.rule("KART-94")
def test_folders_may_differ_in_case_alone() -> None:
    folders, _ = INT.paths([[0, 26 * 64]])
    assert folders == [b"A/A/A/A", b"A/A/A/a"]
