"""How a repository is to be worked with: which engine, and who hears of progress."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from havasu_vc.records import dataclass

if TYPE_CHECKING:
    from havasu_vc.engine.choose import EngineSettings, SpokenConfig
    from havasu_vc.engine.protocol import Engine, Progress

__all__ = ["OpensEngine", "Settings"]

OpensEngine = Callable[[int], "Engine"]
"""Opens an engine for so many bytes of input."""


def _nobody(note: str) -> None:
    """Say nothing."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a repository is to be worked with."""

    engine: str = "auto"
    """`local`, `spark`, or `auto`: Spark when the input is large."""
    engine_settings: EngineSettings | None = None
    """How the engine is set up; None for what the repository's settings say."""
    master: str | None = None
    """Where Spark runs, whatever the repository's settings say."""
    progress: Progress | None = None
    """Hears how far the work is."""
    note: Callable[[str], None] = _nobody
    """Hears what a person should know."""
    config: SpokenConfig | None = None
    """The settings of the repository."""

    def open_engine(self, input_bytes: int, *, alone: bool = False) -> Engine:
        """Return the engine for work of this size; the caller closes it.

        `alone` says that the caller keeps Python busy with the rows, so that tasks which do so
        too are best run in turn with it: in processes they took a quarter more of CPU, and longer.
        """
        from havasu_vc.engine.choose import EngineSettings, choose_engine, configured

        settings = self.engine_settings
        if settings is None and self.config is not None:
            settings = configured(self.config)
        if self.master is not None:
            settings = replace(settings or EngineSettings(), master=self.master)
        return choose_engine(
            self.engine,
            input_bytes=input_bytes,
            settings=settings,
            progress=self.progress,
            note=self.note,
            alone=alone,
        )

    def opened_once(self, stack: ExitStack) -> OpensEngine:
        """Return what opens an engine for whoever needs it first; the stack closes it."""
        found: list[Engine] = []

        def open_engine(input_bytes: int) -> Engine:
            if not found:
                found.append(stack.enter_context(self.open_engine(input_bytes)))
            return found[0]

        return open_engine

    def staying_here(self, why: str) -> Settings:
        """Return the same without Spark, for work of this process; who asked for it hears why."""
        if self.engine == "spark":
            self.note(why)
        return replace(self, engine="local")
