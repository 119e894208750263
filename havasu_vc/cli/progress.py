"""How far a long run is, told on stderr while it lasts: as a bar, or as lines for a program.

A bar appears only on a terminal and only once a run has taken a moment, so that
quick commands print nothing and do not import rich.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.errors import json_line, visible

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

__all__ = ["JsonProgress", "TerminalProgress"]

PATIENCE = 0.5
"""Seconds before a bar appears."""
PACE = 0.1
"""Seconds between two lines of JSON, but for the first and the last of a step."""


class JsonProgress:
    """Implements `engine.protocol.Progress` with a line of JSON for what is done so far."""

    def __init__(self, *, pace: float = PACE) -> None:
        """Leave out lines that follow another within `pace` seconds."""
        self._pace = pace
        self._step: str | None = None
        self._unit = "tasks"
        self._total = self._done = 0
        self._shown: tuple[float, int] = (0.0, -1)

    def start(self, total_tasks: int, description: str, *, in_bytes: bool = False) -> None:
        """Hear that a run of so many tasks begins, or the moving of so many bytes."""
        self.finish()
        self._step, self._unit = description or "Working", "bytes" if in_bytes else "tasks"
        self._total, self._done = total_tasks, 0
        self._tell()

    def advance(self, tasks: int) -> None:
        """Hear that so many more tasks are done."""
        self._done += tasks
        if self._done >= self._total or time.monotonic() - self._shown[0] >= self._pace:
            self._tell()

    def finish(self) -> None:
        """Hear that the run is over, whichever way it ended."""
        if self._step is not None and self._shown[1] != self._done:
            self._tell()
        self._step = None

    def _tell(self) -> None:
        self._shown = time.monotonic(), self._done
        line = json_line(
            "progress", step=self._step, done=self._done, total=self._total, unit=self._unit
        )
        click.echo(line, err=True)


class TerminalProgress:
    """Implements `engine.protocol.Progress` with a bar of rich."""

    def __init__(self, *, color: bool = True, patience: float = PATIENCE) -> None:
        """Draw in colour if `color`, after `patience` seconds."""
        self._color = color
        self._patience = patience
        self._bars: Bars | None = None
        self._bar: TaskID | None = None
        self._total = 0
        self._done = 0
        self._description = ""
        self._in_bytes = False
        self._since = 0.0

    def start(self, total_tasks: int, description: str, *, in_bytes: bool = False) -> None:
        """Hear that a run of so many tasks begins, or the moving of so many bytes."""
        self.finish()
        self._in_bytes = in_bytes
        self._total, self._done, self._description = total_tasks, 0, description
        self._since = time.monotonic()

    def advance(self, tasks: int) -> None:
        """Hear that so many more tasks are done."""
        self._done += tasks
        if self._bars is None:
            if self._done >= self._total or time.monotonic() - self._since < self._patience:
                return
            self._open()
        if self._bars is not None and self._bar is not None:
            self._bars.update(self._bar, completed=self._done)

    def finish(self) -> None:
        """Hear that the run is over, whichever way it ended."""
        if self._bars is not None:
            self._bars.stop()
        self._bars = self._bar = None

    def _open(self) -> None:
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
        )
        from rich.progress import TimeRemainingColumn as Remaining

        console = Console(stderr=True, no_color=not self._color)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn() if self._in_bytes else MofNCompleteColumn(),
            Remaining(),
            console=console,
            transient=True,
        )
        self._bar = self._bars.add_task(
            escape(visible(self._description or "Working")), total=self._total
        )
        self._bars.start()
