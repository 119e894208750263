"""Ctrl-C while an export writes leaves nothing; once its last step has begun it is complete."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from havasu_vc.cli.commands import export
from havasu_vc.cli.errors import INTERRUPTED
from havasu_vc.engine import local
from havasu_vc.exchange import (
    delta_writer,
    iceberg_writer,
    parquet_dataset,
    replacing,
    side_by_side,
)
from havasu_vc.workspace import materialise
from tests.cli.conftest import Run

LAST: dict[str, tuple[Any, str, tuple[str, ...]]] = {
    "file": (replacing, "_place", ()),
    "folder": (parquet_dataset, "_place", ("--to", "parquet-dataset")),
    "delta": (delta_writer, "publish_commit", ("--to", "delta")),
    "iceberg": (iceberg_writer, "_publish", ("--to", "iceberg-v3")),
    "checkout": (materialise, "is_untouched", ("--to", "iceberg")),
    "duckdb": (materialise, "show_to_duckdb", ("--to", "iceberg")),
    "engine": (local.LocalEngine, "close", ("--to", "delta")),
    "told": (export, "counted", ()),
}
"""What has come to its end when somebody stops the export, which is not to be told so."""


def interrupted_after(patch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    """Have Ctrl-C come when a function has done its work."""
    original = getattr(owner, name)

    def interrupted(*arguments: Any, **options: Any) -> Any:
        done = original(*arguments, **options)
        os.kill(os.getpid(), signal.SIGINT)
        return done

    patch.setattr(owner, name, interrupted)


@pytest.mark.parametrize("what", LAST)
def test_an_export_whose_last_step_has_begun_is_complete(
    run: Run, tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, name, words = LAST[what]
    before = signal.getsignal(signal.SIGINT)  # Spark's, where a test before has started it
    place = tmp_path / ("out" if words else "out.parquet")
    interrupted_after(monkeypatch, owner, name)
    result = run("export", "points", place, *words)
    assert result.exit_code == 0, result.stderr
    assert f"Wrote 3 rows of points to {place}\n" in result.stderr
    assert {each.name for each in tmp_path.iterdir()} == {"repo", place.name}
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("to", ["parquet-dataset", "delta", "iceberg-v3"])
def test_one_that_writes_leaves_nothing(
    run: Run, tmp_path: Path, to: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As without tasks of Spark: each part is written, and none is there afterwards."""
    interrupted_after(monkeypatch, side_by_side.Parts, "written")
    result = run("export", "points", tmp_path / "out", "--to", to)
    assert result.exit_code == INTERRUPTED
    assert {each.name for each in tmp_path.iterdir()} == {"repo"}


def test_a_table_that_is_copied_leaves_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is a folder touched that was there: the next export goes into it."""
    interrupted_after(monkeypatch, materialise.TableDraft, "link")
    for place in (tmp_path / "out", tmp_path / "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        assert run("export", "points", place, "--to", "iceberg").exit_code == INTERRUPTED
        assert {each.name for each in tmp_path.iterdir()} == {"repo", "empty"}
    monkeypatch.undo()
    assert run("export", "points", tmp_path / "empty", "--to", "iceberg").exit_code == 0
