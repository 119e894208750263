"""What people type, taken apart."""

import pytest

from havasu_vc.cli.arguments import (
    parse_assignment,
    parse_dataset_at,
    parse_format,
    parse_names,
    parse_size,
    split_revisions,
)
from havasu_vc.cli.options import join_message
from havasu_vc.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ((), ()),
        (("a,b", "c"), ("a", "b", "c")),
        (('"a,b", c',), ("a,b", "c")),
        (("a,,b,",), ("a", "b")),
    ],
)
def test_lists_of_names(values: tuple[str, ...], names: tuple[str, ...]) -> None:
    assert parse_names(values) == names


@pytest.mark.parametrize(
    ("text", "ref", "parsed"),
    [
        ("a/b", None, ("a/b", "HEAD")),
        ("a@v1", None, ("a", "v1")),
        ("a@main@{1 day ago}", None, ("a", "main@{1 day ago}")),
        ("a@b", "v1", ("a@b", "v1")),
    ],
)
def test_datasets_at_revisions(text: str, ref: str | None, parsed: tuple[str, str]) -> None:
    assert parse_dataset_at(text, ref) == parsed


@pytest.mark.parametrize("text", ["", "@v1", "a@"])
def test_no_dataset_or_no_revision(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        parse_dataset_at(text)


@pytest.mark.parametrize("text", ["title", "=x", ""])
def test_an_assignment_needs_both(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        parse_assignment(text)


def test_a_style_is_in_the_format_or_apart() -> None:
    assert parse_format("json:compact", "compact") == ("json", "compact")
    assert parse_format("geojson", "compact") == ("geojson", "compact")
    with pytest.raises(InvalidArgumentError):
        parse_format("json:compact", "pretty")


@pytest.mark.parametrize(
    ("text", "size"),
    [("10", 10), ("1k", 1024), ("2 M".replace(" ", ""), 2 << 20), ("1GiB", 1 << 30)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "k", "1x", "-1", "1.5G"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        parse_size(text)


def test_messages_are_paragraphs() -> None:
    assert join_message(("Title", "Body")) == "Title\n\nBody"
    assert join_message((), "From file\r\n\r\n") == "From file"
    assert join_message(()) is None


@pytest.mark.parametrize(("paragraphs", "text"), [((" ",), None), ((), "\n"), (("a",), "b")])
def test_messages_that_are_refused(paragraphs: tuple[str, ...], text: str | None) -> None:
    with pytest.raises(InvalidArgumentError):
        join_message(paragraphs, text)


def split(
    *arguments: str, after: tuple[str, ...] | None = None, most: int = 2
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return split_revisions(
        arguments,
        after,
        is_revision={"main", "v1", "both"}.__contains__,
        is_dataset={"roads", "both"}.__contains__,
        most=most,
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), ((), ())),
        (("main",), (("main",), ())),
        (("roads",), ((), ("roads",))),
        (("main", "roads"), (("main",), ("roads",))),
        (("main", "v1", "roads"), (("main", "v1"), ("roads",))),
        (("x...y", "roads:feature:1"), (("x...y",), ("roads:feature:1",))),
        (("main^?",), (("main^?",), ())),
        (("roads", "main"), ((), ("roads", "main"))),
    ],
)
def test_revisions_come_before_filters(
    arguments: tuple[str, ...], expected: tuple[tuple[str, ...], tuple[str, ...]]
) -> None:
    assert split(*arguments) == expected


def test_dashes_settle_what_is_what() -> None:
    assert split("both", after=()) == (("both",), ())
    assert split(after=("both",)) == ((), ("both",))
    with pytest.raises(InvalidArgumentError, match="both a revision and a dataset"):
        split("both")


def test_too_many_revisions() -> None:
    with pytest.raises(InvalidArgumentError):
        split("main", "v1", after=("roads",), most=1)
