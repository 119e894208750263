"""Which engine a piece of work gets: the one that is named, or by size.

Spark costs seconds to start, so `auto` takes it only for inputs above a threshold, and
only where it can start; elsewhere the local engine does all the work, with a note.
"""

from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from havasu_vc.engine.local import BUDGET, LocalEngine
from havasu_vc.engine.protocol import Engine, Progress
from havasu_vc.errors import InvalidArgumentError, MissingProgramError
from havasu_vc.records import dataclass

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ENGINES", "THRESHOLD", "EngineSettings", "SpokenConfig", "choose_engine", "configured"]

ENGINES = ("auto", "local", "spark")
THRESHOLD = 2 << 30
"""Bytes of input above which `auto` means Spark."""
PROCESS_THRESHOLD = 48 << 20
"""Bytes of input above which the local engine may start processes."""


class SpokenConfig(Protocol):
    """Settings of a repository, by name."""

    def get(self, name: str) -> str | None:
        """Return a setting; None where it is not set."""

    def all(self, name: str) -> tuple[str, ...]:
        """Return all values of a setting that may stand more than once."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """How engines are set up, whichever is chosen."""

    threads: int | None = None
    """Of the local engine; None for one per core."""
    budget: int = BUDGET
    """Bytes of finished batches that may wait in memory, in the local engine."""
    session: "SparkSession | None" = None
    """A running Spark session to use."""
    master: str | None = None
    """Where Spark runs if there is no session; None for where Spark's own settings say."""
    scratch: Path | None = None
    """Where to spill; a folder that all machines share if Spark's are several."""
    conf: Mapping[str, str] = field(default_factory=dict)
    """Spark's own settings, for a session that is started."""
    archives: str | None = None
    """A packed Python that executors unpack and run: `env.tar.gz#environment`."""


def configured(config: SpokenConfig) -> EngineSettings:
    """Return how a repository's git settings say that engines are set up.

    Raises `InvalidArgumentError` for a setting that is no name and value.
    """
    conf = {}
    for each in config.all("havasu.spark.conf"):
        name, equals, value = each.partition("=")
        if not equals or not name.strip():
            raise InvalidArgumentError(
                f"havasu.spark.conf is {each!r}",
                hints=("write it as `git config --add havasu.spark.conf NAME=VALUE`",),
            )
        conf[name.strip()] = value.strip()
    scratch = config.get("havasu.spark.scratch")
    return EngineSettings(
        master=config.get("havasu.spark.master"),
        scratch=Path(scratch) if scratch else None,
        conf=conf,
        archives=config.get("havasu.spark.archives"),
    )


def choose_engine(
    name: str,
    *,
    input_bytes: int,
    threshold: int = THRESHOLD,
    settings: EngineSettings | None = None,
    progress: Progress | None = None,
    note: Callable[[str], None] | None = None,
    alone: bool = False,
) -> Engine:
    """Return the engine called `name`; `auto` decides by the size of the input.

    `alone` says that who takes the rows keeps Python busy, as some tasks do.
    """
    if name not in ENGINES:
        raise InvalidArgumentError(
            f"there is no engine {name!r}", hints=(f"engines are {', '.join(ENGINES)}",)
        )
    chosen = settings or EngineSettings()
    if name == "spark" or (name == "auto" and input_bytes > threshold):
        try:
            engine = _spark_engine(chosen, progress, note)
            if name == "auto" and note is not None:
                size = f"{input_bytes / (1 << 30):,.1f} GiB"
                note(f"there are {size} to read: Spark does the work, as --engine local would not")
            return engine
        except MissingProgramError as error:
            if name == "spark":
                raise
            if note is not None:
                note(f"{error}; the local engine does the work")
    return LocalEngine(
        threads=chosen.threads,
        budget=chosen.budget,
        scratch=chosen.scratch,
        progress=progress,
        processes=input_bytes > PROCESS_THRESHOLD,
        alone=alone,
    )


def _spark_engine(
    settings: EngineSettings, progress: Progress | None, note: Callable[[str], None] | None
) -> Engine:
    from havasu_vc.engine.spark import SparkEngine

    return SparkEngine(
        settings.session,
        settings.master,
        settings.scratch,
        conf=settings.conf,
        archives=settings.archives,
        progress=progress,
        note=note,
    )
