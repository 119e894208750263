import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import InvalidNameError
from havasu_vc.model.names import check_dataset_path, unsafe_reason


@pytest.mark.parametrize(
    "path",
    [
        "roads",
        "transport/roads",
        "a b",
        "Straßen",
        "道路",
        "v1.2",
        "con1",
        "a-b_c",
        "gitlab",
        "x~1",
    ],
)
def test_good_paths(path: str) -> None:
    check_dataset_path(path, ["other", "transport/rail"])


DANGEROUS = [
    "",
    "/roads",
    "../roads",
    "a/../b",
    "a/./b",
    "a//b",
    "a/",
    "a\\b",
    "a/.git/b",
    ".GIT",
    ".git ",
    ".git.",
    ".git::$INDEX_ALLOCATION",
    "git~1",
    "GIT~2/x",
    ".g\u200cit",
    "a\nb",
    "a\0b",
    "a\x7f",
    "C:/x",
    "c:x",
    "\ud800",
]


@pytest.mark.parametrize("path", DANGEROUS)
def test_dangerous_paths_are_refused_wherever_they_are_met(path: str) -> None:
    assert unsafe_reason(path)
    with pytest.raises(InvalidNameError) as caught:
        check_dataset_path(path)
    assert caught.value.name == path


@pytest.mark.parametrize(
    "path",
    [
        ".hidden",
        "a/.havasu-dataset",
        ".table-dataset/x",
        " a",
        "a /b",
        "a.",
        "ab:c",
        "what?",
        "a*",
        'a"b',
        "<a>",
        "a|b",
        "NUL",
        "a/com1",
        "lpt9.txt",
        "-a",
        "x" * 129,
        "/".join(["x" * 100] * 6),
        "u\u0308ber",
        "a\u200eb",
    ],
)
def test_unwise_paths_are_refused_only_for_new_datasets(path: str) -> None:
    assert unsafe_reason(path) is None
    with pytest.raises(InvalidNameError):
        check_dataset_path(path)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("roads", "there is a dataset of that name"),
        ("Roads", "cannot tell it from"),
        ("roads/inner", "inside the dataset 'roads'"),
        ("ROADS/inner", "inside the dataset 'roads'"),
        ("transport", "'transport/rail' would be inside it"),
    ],
)
def test_datasets_neither_nest_nor_collide(path: str, reason: str) -> None:
    with pytest.raises(InvalidNameError, match=reason):
        check_dataset_path(path, ["roads", "transport/rail"])


@given(st.text(max_size=30))
def test_what_is_allowed_stays_below_its_folder(path: str) -> None:
    try:
        check_dataset_path(path)
    except InvalidNameError:
        return
    parts = path.split("/")
    assert not path.startswith("/")
    assert not any(unicodedata.category(character) in ("Cc", "Cs") for character in path)
    assert all(part and part.strip(" .") == part and part.casefold() != ".git" for part in parts)
