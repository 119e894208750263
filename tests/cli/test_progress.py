"""A bar appears only when a run takes a moment, and leaves nothing behind."""

import sys

import pytest

from havasu_vc.cli.progress import TerminalProgress


def test_a_quick_run_draws_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    progress = TerminalProgress(patience=60)
    progress.start(3, "Reading")
    for _ in range(3):
        progress.advance(1)
    progress.finish()

    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_a_long_run_draws_on_stderr(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    progress = TerminalProgress(patience=0)
    progress.start(3, "Reading [bold]parcels")
    progress.advance(1)
    progress.advance(1)
    progress.finish()

    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Reading [bold]parcels" in captured.err


def test_a_run_may_follow_another_and_finish_twice() -> None:
    progress = TerminalProgress(patience=0)
    progress.start(2, "First")
    progress.advance(1)
    progress.start(2, "Second")
    progress.advance(1)
    progress.finish()
    progress.finish()

    assert "rich" in sys.modules
