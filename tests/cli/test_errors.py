"""Every failure is one line, has Kart's exit code, and cannot control the terminal."""

from typing import Any

import click
import pytest

from havasu_vc.cli.errors import EXIT_CODES, error_lines, exit_code, report, visible
from havasu_vc.errors import (
    DatasetNotFoundError,
    ErrorKind,
    HavasuError,
    NoChangesError,
    RepositoryNotFoundError,
)
from tests.cli.conftest import Run


def error_classes(root: type[HavasuError] = HavasuError) -> list[type[HavasuError]]:
    found = [root]
    for child in root.__subclasses__():
        found += error_classes(child)
    return found


def test_every_kind_has_an_exit_code() -> None:
    assert set(EXIT_CODES) == set(ErrorKind)


def test_every_error_class_has_an_exit_code() -> None:
    assert {each.kind for each in error_classes()} <= set(EXIT_CODES)


def test_exit_codes_are_those_that_kart_has() -> None:
    kart = {2, 11, *range(20, 31), *range(40, 53), 70}

    assert set(EXIT_CODES.values()) <= kart


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NoChangesError("nothing"), 44),
        (RepositoryNotFoundError("x"), 41),
        (DatasetNotFoundError("x"), 49),
        (click.UsageError("x"), 2),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(), 141),
        (ZeroDivisionError(), 11),
        (MemoryError(), 11),
        (RecursionError(), 11),
    ],
)
def test_exit_code(error: BaseException, code: int) -> None:
    assert exit_code(error) == code


def test_an_error_is_one_line_and_its_hints() -> None:
    error = NoChangesError("nothing to commit\nreally", hints=("edit first", "or\x1b[2Jnot"))

    assert error_lines(error) == [
        r"Error: nothing to commit\nreally",
        "Hint: edit first",
        r"Hint: or\x1b[2Jnot",
    ]


@pytest.mark.parametrize("text", ["a\x1b[31m", "a\rb", "\u202eabc", "\ud800", "a\u2028b", "\x9b1m"])
def test_nothing_invisible_gets_through(text: str) -> None:
    shown = visible(text)

    assert shown.isprintable()
    assert "\\" in shown


@pytest.mark.parametrize("text", ["", "plain", "Ōtautahi 地図 😀"])
def test_what_can_be_seen_stays(text: str) -> None:
    assert visible(text) == text


def test_an_unexpected_exception_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HAVASU_VC_DEBUG", raising=False)

    assert report(ValueError("bad\nworse")) == 11

    error, hint = capsys.readouterr().err.splitlines()
    assert error == "Error: internal error: ValueError: bad"
    assert "HAVASU_VC_DEBUG" in hint


def test_debug_shows_the_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAVASU_VC_DEBUG", "1")
    try:
        raise ValueError("bad")
    except ValueError as error:
        report(error)

    assert "Traceback" in capsys.readouterr().err


def test_verbose_tells_the_causes(capsys: pytest.CaptureFixture[str]) -> None:
    error: Any = NoChangesError("nothing")
    error.__cause__ = OSError("the\ncause")

    report(error, verbose=True)

    assert capsys.readouterr().err.splitlines() == ["Error: nothing", "Cause: OSError: the"]


def test_a_reader_that_went_away_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(BrokenPipeError()) == 141
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "words",
    [
        ("head", "point"),
        ("describe", "Points"),
        ("count", "pionts"),
        ("diff", "HEAD^...HEAD", "point"),
        ("blame", "point"),
        ("log", "point"),
        ("export", "point", "x.parquet"),
        ("rm", "point"),
        ("mv", "point", "lines"),
        ("meta", "get", "point"),
        ("restore", "point"),
        ("validate", "point"),
        ("optimize", "point"),
        ("sql", "SELECT * FROM point"),
    ],
    ids=lambda words: words[0],
)
def test_a_dataset_that_is_nearly_named_is_told(run: Run, words: tuple[str, ...]) -> None:
    result = run(*words)

    assert result.exit_code
    assert "did you mean 'points'?" in result.stderr


def test_a_branch_that_is_nearly_named_is_told(run: Run) -> None:
    assert "did you mean 'main'?" in run("switch", "mian").stderr
    assert "did you mean 'main'?" in run("diff", "mian").stderr


def test_what_is_far_from_all_names_is_no_guess(run: Run) -> None:
    assert "did you mean" not in run("head", "buildings").stderr
