"""`-o html` and `-o markdown` of the commands that have them: what the diff holds, as a review."""

from pathlib import Path

import pytest

from havasu_vc.cli.diffs import FORMATS
from havasu_vc.writers import WRITERS
from tests.cli.conftest import Run, succeed
from tests.review.page.pages import ReadPage


def page_of(run: Run, tmp_path: Path, *arguments: str) -> ReadPage:
    path = tmp_path / "page.html"
    result = succeed(run(*arguments, "-o", "html", "--output", str(path)))
    assert result.stdout == ""
    return ReadPage.of(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("arguments", "summary", "names"),
    [
        (("review", "HEAD^...HEAD"), True, ("HEAD^", "HEAD")),
        (("diff", "HEAD^...HEAD"), True, ("HEAD^", "HEAD")),
        (("show", "HEAD"), True, ("HEAD^", "HEAD")),
    ],
)
def test_the_rows_are_on_the_page(
    run: Run, tmp_path: Path, arguments: tuple[str, ...], summary: bool, names: tuple[str, str]
) -> None:
    page = page_of(run, tmp_path, *arguments)

    assert [(row["kind"], row["key"]) for row in page.rows()] == [
        ("update", "2"),
        ("delete", "3"),
        ("insert", "4"),
    ]
    assert page.rows()[0]["old"] == {"name": "two"}
    assert page.rows()[0]["new"] == {"name": "TWO"}
    assert page.manifest["summary"] is summary
    assert (page.manifest["review"]["base"], page.manifest["review"]["head"]) == names
    assert page.manifest["datasets"][0]["places"]["kind"] == "globe"


def test_filters_and_stdout(run: Run) -> None:
    result = succeed(run("diff", "HEAD^...HEAD", "points:feature:4", "-o", "html"))

    assert [row["key"] for row in ReadPage.of(result.stdout).rows()] == ["4"]


def test_a_diff_is_the_page_of_the_review(run: Run, tmp_path: Path) -> None:
    texts = []
    for command in ("review", "diff"):
        path = tmp_path / "page.html"
        succeed(run(command, "HEAD^...HEAD", "-o", "html", "--output", str(path)))
        texts.append(path.read_text(encoding="utf-8"))
    assert texts[0] == texts[1]
    chosen = page_of(run, tmp_path, "diff", "HEAD^...HEAD", "points:where:name = 'TWO'")
    assert [row["key"] for row in chosen.rows()] == ["2"]
    rows_alone = page_of(run, tmp_path, "diff", "HEAD^...HEAD", "--diff-format", "no-data-changes")
    assert rows_alone.manifest["summary"] is False


def test_exit_code(run: Run, tmp_path: Path) -> None:
    out = ("-o", "html", "--output", str(tmp_path / "page.html"), "--exit-code")

    assert run("diff", "HEAD^...HEAD", *out).exit_code == 1
    assert run("diff", "HEAD...HEAD", *out).exit_code == 0


@pytest.mark.parametrize("option", [("--crs", "EPSG:2193"), ("--delta-filter", "+")])
def test_what_a_page_cannot_do_is_refused(run: Run, option: tuple[str, str]) -> None:
    result = run("diff", "HEAD^...HEAD", "-o", "html", *option)

    assert result.exit_code != 0
    assert "a page shows both halves" in result.stderr


def test_markdown_of_a_diff_is_that_of_the_review(run: Run, tmp_path: Path) -> None:
    told = succeed(run("diff", "HEAD^...HEAD", "-o", "markdown")).stdout
    path = tmp_path / "diff.md"
    succeed(run("diff", "HEAD^...HEAD", "-o", "markdown", "--output", str(path)))

    assert told == succeed(run("review", "HEAD^...HEAD", "-o", "markdown")).stdout
    assert path.read_text(encoding="utf-8") == told
    assert "| `points` |" in told


def test_markdown_takes_filters_and_systems_and_sets_the_exit_code(run: Run) -> None:
    one = ("diff", "HEAD^...HEAD", "points:feature:4", "-o", "markdown")
    told = succeed(run(*one)).stdout
    moved = succeed(run(*one, "--crs", "EPSG:3857")).stdout

    assert "`4`" in told and "`3`" not in told
    assert "EPSG:3857" in moved and "EPSG:3857" not in told
    assert run(*one, "--exit-code").exit_code == 1
    assert run("diff", "HEAD...HEAD", "-o", "markdown", "--exit-code").exit_code == 0


def test_markdown_without_a_range(run: Run) -> None:
    shown = succeed(run("show", "HEAD", "-o", "markdown")).stdout
    meta = succeed(run("show", "HEAD", "-o", "markdown", "--diff-format", "no-data-changes")).stdout

    assert "1 insert" in shown and "1 insert" not in meta
    assert "From `HEAD^` to `HEAD`." in shown
    first = succeed(run("show", "HEAD~1", "-o", "markdown")).stdout
    assert "From `[EMPTY]` to `HEAD~1`." in first


def test_halves_are_not_for_markdown(run: Run) -> None:
    result = run("diff", "HEAD^...HEAD", "-o", "markdown", "--delta-filter", "+")

    assert result.exit_code != 0
    assert "a review shows both halves" in result.stderr


def test_help_lists_the_formats_of_the_registry(run: Run) -> None:
    told = " ".join(succeed(run("diff", "--help")).stdout.split())

    for name, known in WRITERS.items():
        if known.chosen_by is not None:
            assert known.help.removesuffix(".") in told
            assert (name in FORMATS) is (known.chosen_by == "-o")
            assert known.chosen_by in told
