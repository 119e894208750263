"""Jobs of the case `serving`: tables of many files, loads of them, requests to a server.

python -m tests.bench.serving_jobs loads REPO RUNS
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

DATASET = "points"
TABLE = f"/namespaces/tables/tables/{DATASET}"
REQUESTS = 2000
CONNECTIONS = 16


def make(repo: str, files: str) -> dict[str, Any]:
    """Make a repository with a table of so many files, each of one row."""
    from havasu_vc import Repo
    from havasu_vc.datasets.havasu import writing
    from havasu_vc.datasets.havasu.view import HavasuDataset
    from havasu_vc.exchange.source import SourceOptions

    count = int(files)
    rows = pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "name": [f"name {number}" for number in range(count)],
            "height": pa.array([number * 1.5 for number in range(count)]),
        }
    )
    opened = Repo.init(repo)
    source = Path(repo).with_suffix(".parquet")
    pq.write_table(rows, source, row_group_size=1)
    full = patch.object(writing._FileWriter, "size", 1 << 62)  # every file is as large as it may be
    with patch.object(writing, "GROUP_ROWS", 1), full:
        opened.import_(source, DATASET, options=SourceOptions(primary_key=("id",)))
    view = opened.dataset(DATASET)
    assert isinstance(view, HavasuDataset)
    return {"files": len(view.data_entries)}


def loads(repo: str, runs: str, commits: str) -> dict[str, Any]:
    """Load the table for the first time, again and again, and after commits of one row."""
    from havasu_vc.serving.catalog import Catalog, ServeSettings
    from havasu_vc.serving.names import prefix_of
    from havasu_vc.serving.reading import load_table
    from havasu_vc.serving.routes import Call

    names = {"prefix": prefix_of("main"), "namespace": "tables", "table": DATASET}
    call = Call("GET", names, {}, {})
    catalog = Catalog(repo, ServeSettings())

    def load() -> float:
        begin = time.process_time()
        load_table(catalog, call)
        return time.process_time() - begin

    cold = load()
    warm = sum(load() for _ in range(int(runs))) / int(runs)
    after = []
    for number in range(int(commits) + 1):
        command = [sys.executable, "-m", "tests.bench.serving_jobs", "commit", repo, str(number)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after.append(load())
    # With the first of them, what both versions have in common is described for the first time.
    return {"cold": cold, "warm": warm, "after": min(after[1:], default=0.0)}


def commit(repo: str, number: str) -> dict[str, Any]:
    """Commit one changed row."""
    from havasu_vc import Repo

    row = pa.table({"id": [int(number)], "name": [f"changed {time.time()}"]})
    return {"commit": Repo.open(repo).write(DATASET, row).commit}


def requests(repo: str) -> dict[str, Any]:
    """Ask a server for the table, which it knows, over one connection."""
    with server(repo) as (port, process):
        connection = http.client.HTTPConnection("127.0.0.1", port)

        def get(path: str) -> bytes:
            connection.request("GET", path)
            return connection.getresponse().read()

        prefix = json.loads(get("/v1/config"))["overrides"]["prefix"]
        path = f"/v1/{prefix}{TABLE}"
        size = len(get(path))
        before = spent(process)
        for _ in range(REQUESTS):
            get(path)
        each = (spent(process) - before) / REQUESTS
    return {"each": each, "bytes": size}


def rate(repo: str) -> dict[str, Any]:
    """Ask a server for the table, which it knows, over many connections at a time."""
    with server(repo) as (port, process):
        first = http.client.HTTPConnection("127.0.0.1", port)
        first.request("GET", "/v1/config")
        prefix = json.loads(first.getresponse().read())["overrides"]["prefix"]
        path = f"/v1/{prefix}{TABLE}"

        def ask(count: int) -> None:
            connection = http.client.HTTPConnection("127.0.0.1", port)
            for _ in range(count):
                connection.request("GET", path)
                assert connection.getresponse().read()
            connection.close()

        ask(CONNECTIONS)
        cpu, begin = spent(process), time.monotonic()
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            list(pool.map(ask, [REQUESTS // CONNECTIONS] * CONNECTIONS))
        seconds, cpu = time.monotonic() - begin, spent(process) - cpu
    return {"seconds": seconds / REQUESTS, "cpu": cpu / REQUESTS}


def held(repo: str) -> dict[str, Any]:
    """Load the table from a server, for the first time and after commits; tell its memory."""
    with server(repo) as (port, process):
        for number in range(3):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
            connection.request("GET", "/v1/config")
            prefix = json.loads(connection.getresponse().read())["overrides"]["prefix"]
            for _ in range(3):
                connection.request("GET", f"/v1/{prefix}{TABLE}")
                assert connection.getresponse().read()
            connection.close()
            command = [sys.executable, "-m", "tests.bench.serving_jobs", "commit"]
            subprocess.run([*command, repo, str(number)], check=True, stdout=subprocess.DEVNULL)
        return {"peak": _peak(process)}


def _peak(process: int) -> float:
    """Return the MB that a process has held at most."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError("the system does not tell what a process held")


@contextmanager
def server(repo: str, *options: str) -> Iterator[tuple[int, int]]:
    """Serve a repository; yield the port and the process."""
    program = "from havasu_vc.cli.main import main; main()"
    command = [sys.executable, "-c", program, "-C", repo, "serve", "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline().rpartition(":")[2]), process.pid
        finally:
            process.terminate()


def spent(process: int) -> float:
    """Return the seconds that a process and those that it waited for have computed."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


JOBS: dict[str, Callable[..., dict[str, Any]]] = {
    job.__name__: job for job in (make, loads, commit, requests, rate, held)
}

if __name__ == "__main__":
    print(json.dumps(JOBS[sys.argv[1]](*sys.argv[2:])))
