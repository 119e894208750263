"""Streams into a dataset: each batch is a commit, made once however often Spark gives it again.

Spark counts the batches of a stream, and after a crash gives the last one again. So a commit
says in a trailer of its message which batch of which stream it is, and a batch that the
branch has already is passed over. A batch that changes nothing makes no commit; given again,
it changes nothing again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.library import Repo
from havasu_vc.spark.reading import opened
from havasu_vc.spark.writing import write
from havasu_vc.store.log import commits

__all__ = ["sink"]

TRAILER = "Havasu-Batch"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def sink(
    repo: Repo | str | Path,
    dataset: str,
    name: str,
    *,
    mode: str = "upsert",
    when: str | None = None,
    message: str | None = None,
) -> Callable[[DataFrame, int], None]:
    """Return the function for `foreachBatch` that commits each batch of a stream exactly once.

    `name` tells the stream from others that write to the branch: a stream that starts anew,
    with another checkpoint, counts its batches from 0 and needs another name. The other
    arguments are those of `write`.
    """
    if not _NAME.fullmatch(name):
        raise InvalidArgumentError(
            f"a stream cannot be called {name!r}", hints=("use letters, digits, '.', '_' and '-'",)
        )
    source = opened(repo)
    subject = message or f"Write to {dataset}"

    def put(frame: DataFrame, batch: int) -> None:
        last = _last_batch(source, name)
        if last is not None and batch <= last:
            return
        text = f"{subject}\n\n{TRAILER}: {name}/{batch}"
        write(frame, source, dataset, mode=mode, when=when, message=text)

    return put


def _last_batch(repo: Repo, name: str) -> int | None:
    """Return the last batch of a stream that HEAD has; None for none."""
    start = repo.head().commit
    line = re.compile(rf"^{TRAILER}: {re.escape(name)}/(\d+)$", re.MULTILINE)
    for commit in () if start is None else commits(repo.git, start):
        found = line.findall(commit.message)
        if found:
            return int(found[-1])
    return None
