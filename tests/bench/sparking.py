"""Cases: what a user of Spark waits for, against Spark's own reader on the same files."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench.cases import Figure, case, counted
from tests.bench.comparing import two_versions
from tests.bench.process import CommandFailed, Run, alternated, run
from tests.bench.process_memory import sampled, tree
from tests.bench.scratch import Scratch, Variant
from tests.spark.clusters import SPARK_CLASS, awaited


@case("spark-read")
def spark_read(scratch: Scratch) -> Iterator[Figure]:
    """Scanning all columns, and a sum of one where a thousand rows were edited."""
    variant = Variant("points", scratch.sizes.largest)
    clean = _job(scratch, "reads", scratch.repository(variant))
    yield _against(f"Spark scan, {counted(variant.rows)}", clean, "scan", 1.1)
    edited = _job(scratch, "reads", scratch.edited_repository(variant))
    name = f"Spark sum with {edited['deleted']:,} deletes, {counted(variant.rows)}"
    yield _against(name, edited, "sum", 1.6)


@case("spark-window")
def spark_window(scratch: Scratch) -> Iterator[Figure]:
    """A window of one per cent of a table in Hilbert order."""
    variant = Variant("points", scratch.sizes.large, "hilbert")
    found = _job(scratch, "window", scratch.repository(variant))
    name = f"Spark window of 1 %, {counted(variant.rows)}, Hilbert order"
    of_part, of_whole = found["bytes"]
    share = 100 * of_part / of_whole
    note = f"{of_part / 1e6:.1f} of {of_whole / 1e6:.0f} MB, {found['rows']:,} rows"
    yield Figure(f"{name}, bytes read", share, "%", 5.0, note)
    part, whole = found["seconds"]
    note = f"{part:.2f} s, the whole {whole:.2f} s"
    yield Figure(f"{name}, against the whole", part / whole, "x", 0.2, note)


@case("spark-compare")
def spark_compare(scratch: Scratch) -> Iterator[Figure]:
    """Two versions that share no file, in 2 GB of driver and executor memory."""
    variant = Variant("points", scratch.sizes.largest)
    repository = two_versions(scratch, variant)
    found = _job(scratch, "compare", repository, "release..main")
    counts = found["changes"]
    if counts.get("UPDATE_AFTER") != scratch.sizes.edits:
        raise ValueError(f"the changes that were found are {counts}")
    name = f"Spark full compare of two versions, {counted(variant.rows)}, in 2 GB"
    yield Figure(name, found["seconds"], "s", None)
    memory = found["memory"]
    note = ", ".join(f"{what} {size:.0f} MB" for what, size in sorted(memory.items()))
    yield Figure(f"{name}, memory of all processes", sum(memory.values()), "MB", 2000.0, note)
    scratch.remove(repository)


@case("spark-compare-unordered")
def spark_compare_unordered(scratch: Scratch) -> Iterator[Figure]:
    """Two versions along a Hilbert curve that share no file, where Spark has 1 GB."""
    variant = Variant("points", scratch.sizes.largest, "hilbert")
    repository = two_versions(scratch, variant)
    found = _job(scratch, "compare", repository, "release..main", "1g")
    if found["changes"].get("UPDATE_AFTER") != scratch.sizes.edits:
        raise ValueError(f"the changes that were found are {found['changes']}")
    name = f"Spark compare without key order, {counted(variant.rows)} twice, in 1 GB"
    note = f"{found['seconds']:.1f} s, reading both {found['reading']:.1f} s"
    yield Figure(f"{name}, against reading both", found["seconds"] / found["reading"], "x", 3, note)
    yield Figure(f"{name}, largest worker", found["worker"], "MB", 600.0)
    scratch.remove(repository)


@case("spark-driver")
def spark_driver(scratch: Scratch) -> Iterator[Figure]:
    """All rows of two tables changed by a data frame, one four times as large as the other."""
    found = []
    for rows in (scratch.sizes.large, 4 * scratch.sizes.large):
        variant = Variant("points", rows)
        repository = scratch.copy(scratch.repository(variant))
        told = _job(scratch, "change_all", repository)
        if told["rows"] != rows:
            raise ValueError(f"{told['rows']} of {rows} rows were changed")
        found.append(told["memory"])
        name = f"Spark writes {counted(rows)} changed rows, memory of the driver's process"
        yield Figure(name, told["memory"], "MB", 300.0, f"{told['seconds']:.0f} s")
        name = f"Spark writes {counted(rows)} changed rows, largest worker"
        yield Figure(name, told["worker"], "MB", 600.0)
        scratch.remove(repository)
    yield Figure("the same, four times the rows against one", found[1] / found[0], "x", 1.1)


@case("spark-against-local")
def spark_against_local(scratch: Scratch) -> Iterator[Figure]:
    """A release and a merge of three tenths of the rows on `local[2]`, and on two threads."""
    yield from _against_local(scratch, 30, scratch.sizes.slow_runs)


@case("spark-against-local-all")
def spark_against_local_all(scratch: Scratch) -> Iterator[Figure]:
    """The same of all rows, which a merge has from both sides in other columns, run once."""
    yield from _against_local(scratch, 100, 1)


def _against_local(scratch: Scratch, share: int, times: int) -> Iterator[Figure]:
    variant = Variant("points", scratch.sizes.largest)
    repository = scratch.repository(variant)
    release = scratch.version(variant, variant.rows * share // 100)
    diverged = scratch.copy(repository)
    _job(scratch, "diverge", diverged, str(share))
    commands: dict[str, tuple[Path, tuple[str | Path, ...]]] = {
        "release": (repository, ("import", release, "table", "--replace")),
        "merge": (diverged, ("merge", "side")),
    }
    on_spark = ("--engine", "spark", "--master", "local[2]")
    for what, (made, command) in commands.items():
        ours, local = alternated(
            partial(_on_a_copy, scratch, made, (*command, *on_spark)),
            partial(_on_a_copy, scratch, made, (*command, "--engine", "local")),
            times,
        )
        note = (
            f"{ours.wall:.1f} s, local {local.wall:.1f} s; CPU {ours.cpu:.0f} and {local.cpu:.0f}"
        )
        name = f"Spark {what} of {share} % of {counted(variant.rows)} on local[2]"
        yield Figure(f"{name}, against local", ours.wall / local.wall, "x", 1.5, note)
        # The JVM of local[2] is the executor, so the driver is the process of the command.
        note = f"{ours.own:.2f} s of CPU of {ours.cpu:.1f}"
        of_all = None if math.isnan(ours.own) else 100 * ours.own / ours.cpu
        yield Figure(f"{name}, CPU of the driver's process", of_all, "%", 5.0, note)
    scratch.remove(diverged)


@case("spark-workers")
def spark_workers(scratch: Scratch) -> Iterator[Figure]:
    """Import, release, merge and comparison on two workers of one core, against one of them."""
    variant = Variant("points", scratch.sizes.largest)
    repository = scratch.repository(variant)
    release = scratch.version(variant, variant.rows * 3 // 10)
    diverged = scratch.copy(repository)
    _job(scratch, "diverge", diverged)
    empty = scratch.new_repository()
    key = ("--primary-key", "fid")
    commands: dict[str, tuple[Path, tuple[str | Path, ...]]] = {
        "import": (empty, ("import", scratch.table(variant), "table", *key)),
        "release": (repository, ("import", release, "table", "--replace")),
        "merge": (diverged, ("merge", "side")),
        "compare": (diverged, ("diff", "main...side", "-o", "feature-count")),
    }
    whole: dict[str, list[float]] = {what: [] for what in commands}
    started: dict[str, list[tuple[float, float]]] = {what: [] for what in commands}
    for workers in (1, 2):
        with _cluster(scratch, workers) as master, _shared(scratch) as shared:
            for what, (made, command) in commands.items():
                copy = scratch.copy(made)
                config = ["git", "-C", str(copy), "config", "havasu.spark.scratch", str(shared)]
                run(config, scratch.environment)
                how = ("--engine", "spark", "--master", master)
                whole[what].append(_exited(scratch, copy, *command, *how))
                scratch.remove(copy)
            copies = [scratch.copy(made) for made in (empty, repository, diverged)]
            small = scratch.table(Variant("points", scratch.sizes.small))
            given = (small, scratch.table(variant), release, *copies)
            for what, took in _job(scratch, "work", master, shared, *given).items():
                started[what].append(took)
            for copy in copies:
                scratch.remove(copy)
    for what in commands:
        name = f"Spark {what} of {counted(variant.rows)}, two workers against one"
        # How many times as fast: 1.7 and more is asked, so its inverse at most. The driver and
        # what starts have the same cores, so the work alone is measured beside the whole.
        (one, of_one), (two, of_two) = started[what]
        note = f"{two:.1f} s, one {one:.1f} s; CPU of the driver {of_two:.1f}, {of_one:.1f}"
        yield Figure(f"{name}, in a session that has started", two / one, "x", 1 / 1.7, note)
        one, two = whole[what]
        note = f"{two:.1f} s, one {one:.1f} s"
        yield Figure(f"{name}, with Spark's start", two / one, "x", 1 / 1.7, note)
    scratch.remove(diverged)


@contextmanager
def _shared(scratch: Scratch) -> Iterator[Path]:
    """Give a new folder that the driver and workers see."""
    folder = scratch.folder / "shared"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def _on_a_copy(scratch: Scratch, repository: Path, command: tuple[str | Path, ...], _: int) -> Run:
    copy = scratch.copy(repository)
    before = set(tree(os.getpid()))
    try:
        with sampled(os.getpid()) as seen:
            done = scratch.havasu("-C", copy, *command)
        ours = sum(used for process, used in seen.used.items() if process not in before)
        return replace(done, cpu=max(done.cpu, ours))
    finally:
        scratch.remove(copy)


def _exited(scratch: Scratch, repository: Path, *command: str | Path) -> float:
    """Return how long a command took, which may exit with 1 because there are changes."""
    begin = time.perf_counter()
    done = subprocess.run(
        [scratch.command, "-C", str(repository), *map(str, command)],
        env=scratch.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode > 1:
        raise CommandFailed(f"{command[0]} exited with {done.returncode}: {done.stderr[-2000:]}")
    return time.perf_counter() - begin


@contextmanager
def _cluster(scratch: Scratch, workers: int) -> Iterator[str]:
    """Start a master and workers of one core each, and give the master's address.

    Spark only counts cores. What runs for a worker has one of its own, where the system can say
    so: else a worker alone takes all there are.
    """
    started: list[subprocess.Popen[bytes]] = []
    folder = scratch.folder / "cluster"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()

    def start(kind: str, host: str, *arguments: str) -> Path:
        log = folder / f"{len(started)}.log"
        command = [SPARK_CLASS, f"org.apache.spark.deploy.{kind}", "--host", host, "--port", "0"]
        environment = scratch.environment | {
            "SPARK_LOCAL_IP": host,
            "PYSPARK_PYTHON": sys.executable,
        }
        with log.open("wb") as out:
            started.append(
                subprocess.Popen(
                    [*command, "--webui-port", "0", *arguments],
                    stdout=out,
                    stderr=out,
                    env=environment,
                )
            )
        return log

    try:
        master = awaited(start("master.Master", "127.0.0.1"), r"spark://127\.0\.0\.1:\d+")
        for number in range(1, workers + 1):
            size = ("--cores", "1", "--memory", "2g", "--work-dir", str(folder / f"w{number}"))
            log = start("worker.Worker", f"127.0.0.{number}", *size, master)
            if hasattr(os, "sched_setaffinity"):
                os.sched_setaffinity(started[-1].pid, {sorted(os.sched_getaffinity(0))[-number]})
            awaited(log, "Successfully registered with master")
        yield master
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(30)


def _against(name: str, found: dict[str, Any], what: str, asked: float) -> Figure:
    ours, plain = found[what]
    note = f"{ours:.2f} s, spark.read.parquet {plain:.2f} s; {found['files']} files"
    return Figure(f"{name}, against spark.read.parquet", ours / plain, "x", asked, note)


def _job(scratch: Scratch, name: str, *arguments: str | Path) -> dict[str, Any]:
    return scratch.python("-m", "tests.bench.spark_jobs", name, *arguments).report
