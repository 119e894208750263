"""What a child process does to a repository before it is killed, interrupted or raced.

    python child.py REPO WORK [FUNCTION CALL]

With FUNCTION (as `module:name` or `module:Class.name`) the process exits at once, without
any cleaning up, when that function is called for the CALLth time.
"""

import importlib
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import pyarrow as pa

from havasu_vc import Repo, Settings
from havasu_vc.errors import ConcurrentChangeError, HavasuError
from havasu_vc.exchange.source import SourceOptions


def die_at(place: str, call: int) -> None:
    module, _, name = place.partition(":")
    owner: Any = importlib.import_module(module)
    *outer, name = name.split(".")
    for each in outer:
        owner = getattr(owner, each)
    original = getattr(owner, name)
    calls = 0

    def dying(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            os._exit(9)
        return original(*args, **options)

    setattr(owner, name, dying)


def work(repo: Repo, what: str) -> None:
    match what.split(":"):
        case ["import", file, path]:
            repo.import_(file, path, options=SourceOptions(primary_key=("id",)))
        case ["replace", file, path]:
            repo.import_(file, path, replace=True)
        case ["upsert", path, ids]:
            numbers = [int(each) for each in ids.split(",")]
            repo.write(path, pa.table({"id": numbers, "name": [f"edit {n}" for n in numbers]}))
        case ["upserts", path, start, count]:
            # Row by row, each in its own commit, however often another process is first.
            for number in range(int(start), int(start) + int(count)):
                patiently(repo, path, number)
        case ["meta", path, title]:
            repo.set_meta(path, {"title": title})
        case ["export", path, folder]:
            repo.export(path, folder, format="parquet-dataset", part_bytes=1, overwrite=True)
        case ["optimize"]:
            repo.optimize()
        case _:
            raise ValueError(what)


def patiently(repo: Repo, path: str, number: int) -> None:
    while True:
        try:
            repo.write(path, pa.table({"id": [number], "name": [f"edit {number}"]}))
            return
        except ConcurrentChangeError:
            time.sleep(0.01)


def main() -> None:
    folder, what, *rest = sys.argv[1:]
    repo = Repo.open(folder, settings=Settings(engine="local"))
    if rest:
        die_at(rest[0], int(rest[1]))
    # Arrow imports pandas for the first table of Python's values, and what is imported there
    # passes over a key that is pressed meanwhile.
    pa.table({"id": [0]})
    print("ready", flush=True)
    try:
        work(repo, what)
    except HavasuError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(1)
    print("done", flush=True)


if __name__ == "__main__":
    main()
