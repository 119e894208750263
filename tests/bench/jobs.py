"""Work with the library, or with pyarrow for comparison, each in a process of its own.

A job prints one JSON object: the seconds of its work, with what it had to import of
havasu-vc but without starting Python and pyarrow, and what else it counted.

    python -m tests.bench.jobs upsert REPO ROWS
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.bench.edits import DATASET

Job = Callable[..., dict[str, Any]]

# pyarrow imports pandas, where it is installed, when it is first given a list. A program
# that works with tables has that behind it; here both sides of a ratio have.
pa.array([0])


def upsert(repo: str, rows: str) -> dict[str, Any]:
    """Upsert the rows of an Arrow file."""
    with pa.ipc.open_file(rows) as reader:
        table = reader.read_all()
    begin = time.perf_counter()
    from havasu_vc import Repo

    result = Repo.open(repo).write(DATASET, table)
    seconds = time.perf_counter() - begin
    if result.commit is None:
        raise ValueError("nothing was upserted")
    return {"seconds": seconds}


def read_touched(repo: str, rows: str) -> dict[str, Any]:
    """Read, with pyarrow alone, the row groups that hold some rows."""
    with pa.ipc.open_file(rows) as reader:
        keys = reader.read_all().column("fid").combine_chunks()
    touched = []
    for path in data_files(repo):
        file = pq.ParquetFile(path)
        column = file.schema_arrow.get_field_index("fid")
        groups = []
        for number in range(file.num_row_groups):
            of = file.metadata.row_group(number).column(column).statistics
            inside = pc.and_(pc.greater_equal(keys, of.min), pc.less_equal(keys, of.max))
            if pc.any(inside).as_py():
                groups.append(number)
        touched.append((path, groups))
    begin = time.perf_counter()
    for path, groups in touched:
        file = pq.ParquetFile(path)
        for number in groups:
            file.read_row_group(number)
    seconds = time.perf_counter() - begin
    return {"seconds": seconds, "groups": sum(len(groups) for _, groups in touched)}


def read_all(repo: str) -> dict[str, Any]:
    """Read all data files of a repository with pyarrow."""
    begin = time.perf_counter()
    rows = sum(pq.read_table(path).num_rows for path in data_files(repo))
    return {"seconds": time.perf_counter() - begin, "rows": rows}


def compare(repo: str, revisions: str) -> dict[str, Any]:
    """Compare two revisions and count the changes."""
    begin = time.perf_counter()
    from havasu_vc import Repo

    changes = 0
    for diff in Repo.open(repo).diff(revisions):
        changes += sum(len(batch) for batch in diff.changes)
    return {"seconds": time.perf_counter() - begin, "changes": changes}


def scan(repo: str, cores: str = "") -> dict[str, Any]:
    """Read all rows of a dataset, perhaps on so many cores alone."""
    if cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(cores)])
    begin = time.perf_counter()
    from havasu_vc import Repo
    from havasu_vc.engine.choose import EngineSettings
    from havasu_vc.engine.settings import Settings

    threads = EngineSettings(threads=int(cores)) if cores else None
    table = Repo.open(repo, settings=Settings(engine_settings=threads)).table(DATASET)
    rows = sum(batch.num_rows for batch in table.to_batches())
    return {"seconds": time.perf_counter() - begin, "rows": rows}


def apply_all(repo: str, folder: str, first: str = "0", end: str = "") -> dict[str, Any]:
    """Apply patches one after the other, each a commit; perhaps from one on, up to another."""
    from havasu_vc import Repo

    seconds = []
    patches = sorted(Path(folder).glob("patch-*.json"))
    for patch in patches[int(first) : int(end) if end else None]:
        data = patch.read_bytes()
        begin = time.perf_counter()
        Repo.open(repo).apply_patch(data)
        seconds.append(time.perf_counter() - begin)
    return {"seconds": sum(seconds), "commits": len(seconds), "slowest": max(seconds, default=0.0)}


def check_sound(repo: str, known: str = "") -> dict[str, Any]:
    """Look whether what stands in a dataset agrees; `known`: the commit before was found sound."""
    from havasu_vc import Repo
    from havasu_vc.datasets.folder import TreeFolder
    from havasu_vc.datasets.havasu.soundness import check_guard
    from havasu_vc.store.trees import find_datasets

    opened = Repo.open(repo).opened
    source, memory = opened.git.objects, Path(repo) / ".git" / "bench-sound"
    shutil.rmtree(memory, ignore_errors=True)

    def check(revision: str) -> float:
        (found,) = find_datasets(source, opened.resolve(revision).tree)
        folder = TreeFolder(source, found.internals)
        begin = time.process_time()
        check_guard(folder, found.path, revision, memory=memory)
        return time.process_time() - begin

    if known:
        check("HEAD~1")
    return {"seconds": check("HEAD")}


def plan(repo: str, other: str) -> dict[str, Any]:
    """Tell what deciding which files a read takes costs beyond opening the repository.

    Without Python's garbage collection, as `timeit` does it: a run of it that falls into the few
    milliseconds takes one more, and a command puts it off (`cli.main`).
    """
    import havasu_vc.datasets.havasu.file_columns
    import havasu_vc.datasets.havasu.settling  # noqa: F401  (loaded by whatever reads rows)
    from havasu_vc import Repo
    from havasu_vc.datasets.havasu.view import HavasuDataset

    def asked(path: str) -> tuple[float, int]:
        repo = Repo.open(path)
        begin = time.process_time()
        view = repo.dataset(DATASET)
        assert isinstance(view, HavasuDataset)
        files = len(view.entries)
        return time.process_time() - begin, files

    asked(other)
    gc.collect()
    gc.disable()
    seconds, files = asked(repo)
    return {"seconds": seconds, "files": files}


def optimize(repo: str) -> dict[str, Any]:
    """Fold all small files."""
    begin = time.perf_counter()
    from havasu_vc import Repo

    Repo.open(repo).optimize()
    return {"seconds": time.perf_counter() - begin}


def ask(repo: str, query: str) -> dict[str, Any]:
    """Ask with SQL, once more than is measured."""
    from havasu_vc import Repo

    opened = Repo.open(repo)
    return {"seconds": _second_time(lambda: opened.sql(query))}


def ask_duckdb(repo: str, query: str) -> dict[str, Any]:
    """Ask DuckDB alone, of the data files as the table `{}`."""
    import duckdb

    files = [str(file) for file in data_files(repo)]
    text = query.format(f"read_parquet({files})")
    if "ST_" in query:
        from havasu_vc.exchange.duckdb_functions import load_extension

        load_extension(duckdb.connect(":default:"), duckdb)
    return {"seconds": _second_time(lambda: duckdb.execute(text).fetchall())}


def _second_time(work: Callable[[], object]) -> float:
    """Return the processor time of some work once all that it needs is loaded."""
    work()
    begin = time.process_time()
    work()
    return time.process_time() - begin


def data_files(repo: str) -> list[Path]:
    """Return the data files of a repository that are Parquet."""
    return sorted(p for p in (Path(repo) / ".git/havasu/objects").glob("*/*/*") if p.is_file())


JOBS: dict[str, Job] = {
    job.__name__: job
    for job in (
        upsert,
        read_touched,
        read_all,
        compare,
        scan,
        apply_all,
        check_sound,
        plan,
        optimize,
        ask,
        ask_duckdb,
    )
}

if __name__ == "__main__":
    before = time.process_time()
    report = JOBS[sys.argv[1]](*sys.argv[2:])
    print(json.dumps({**report, "cpu": time.process_time() - before}))
