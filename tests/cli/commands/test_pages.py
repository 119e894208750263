"""`-o html` of the commands that have it: a file of its own, with what the diff holds."""

from pathlib import Path

import pytest

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
        (("show", "HEAD"), True, ("HEAD^?", "HEAD")),
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
