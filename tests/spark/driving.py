"""Functions for programs that drive a cluster of these tests, each in a process of its own."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyarrow import fs

from havasu_vc.engine.choose import EngineSettings
from havasu_vc.engine.settings import Settings
from havasu_vc.library import Repo
from havasu_vc.spark import session
from havasu_vc.store.object_systems import object_system

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "below",
    "executors",
    "in_background",
    "kill",
    "objects",
    "on_spark",
    "pythons",
    "started",
]

_SETTINGS = {"spark.executor.memory": "512m", "spark.cores.max": "2"}


def started(master: str, **settings: str) -> "SparkSession":
    """Start a session on the cluster; names of settings have `_` for `.`."""
    more = {name.replace("_", "."): value for name, value in settings.items()}
    # What a server of Spark Connect has is not for its users to say.
    every = more if master.startswith("sc://") else _SETTINGS | more
    return session(master=master, settings=every)


def on_spark(folder: str, spark: "SparkSession") -> Repo:
    """Open a repository whose commands run on a cluster."""
    work = EngineSettings(session=spark)
    return Repo.open(folder, settings=Settings(engine="spark", engine_settings=work))


def objects(place: str) -> set[str]:
    """Return what is in a folder of the bucket."""
    system, path = object_system(place)
    selector = fs.FileSelector(path, recursive=True, allow_not_found=True)
    return {info.path for info in system.get_file_info(selector)}


def below(parent: object) -> Iterator[tuple[int, bytes]]:
    """Yield the processes that another started, with their command lines."""
    for process in Path("/proc").iterdir():
        try:
            said = (process / "stat").read_text().rsplit(")", 1)[1].split()
            command = (process / "cmdline").read_bytes()
        except (OSError, IndexError):
            continue
        if said[1] == str(parent):
            yield int(process.name), command


def executors(worker: str) -> list[int]:
    """Return the executors of a worker, by process."""
    return [
        process for process, command in below(worker) if b"CoarseGrainedExecutorBackend" in command
    ]


def pythons(parent: int) -> Iterator[int]:
    """Yield the processes below another, however far."""
    for process, _ in list(below(parent)):
        yield process
        yield from pythons(process)


def kill(worker: str) -> None:
    """Kill the executors of a worker."""
    for process in executors(worker):
        os.kill(process, signal.SIGKILL)


def in_background(run: Callable[..., None], *arguments: Any) -> threading.Event:
    """Run a function, which is given what it stops by before its arguments; return that."""
    stopping = threading.Event()
    threading.Thread(target=run, args=(stopping, *arguments), daemon=True).start()
    return stopping


def kill_in_stage(
    stopping: threading.Event, spark: "SparkSession", worker: str, stage: int
) -> None:
    """Kill the executors of a worker in the stage of so many that begin from now on."""
    tracker = spark.sparkContext.statusTracker()
    seen: set[int] = set()
    while not stopping.wait(0.005):
        seen.update(tracker.getActiveStageIds())
        if len(seen) >= stage:
            kill(worker)
            return
