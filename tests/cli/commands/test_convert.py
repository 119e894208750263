"""`havasu-vc convert`."""

import pytest

from tests.cli.conftest import Run, succeed


def test_columns_are_declared(run: Run) -> None:
    succeed(run("convert", "points", "--geometry", "geom=none"))
    assert '"dataType": "geometry"' not in succeed(run("meta", "get", "points")).stdout

    succeed(run("convert", "points", "--geometry", "geom=EWKB", "-m", "Again"))
    assert '"dataType": "geometry"' in succeed(run("meta", "get", "points")).stdout


@pytest.mark.parametrize("options", [(), ("--history",)])
def test_rows_go_into_git_without_spark(
    run: Run, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")  # where Spark would be missed
    result = succeed(run("convert", "points", "--to", "kart", "--engine", "spark", *options))

    assert "rows of a Kart dataset are objects of git, which this process writes" in result.stderr
    assert "points:feature" not in run("diff", "HEAD^...HEAD", "-o", "text").stdout


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--to", "kart", "--geometry", "geom=wkb"),
        ("--geometry", "geom"),
        ("--geometry", "=wkb"),
    ],
)
def test_what_is_to_be_done_must_be_said(run: Run, options: tuple[str, ...]) -> None:
    assert run("convert", "points", *options).exit_code == 2
