"""Commits, what each changed, and the past of one row."""

from __future__ import annotations

from itertools import islice
from typing import Any

from havasu_vc.errors import HavasuError, InvalidArgumentError
from havasu_vc.face.overview import commit_value, counts_value
from havasu_vc.face.standing import Query, box_in, dataset_in, revision_in, whole_number
from havasu_vc.library import Repo
from havasu_vc.model.changes import count_changes
from havasu_vc.model.diffs import ChangeCounts, DatasetDiff

__all__ = ["changes", "history", "row"]

MOST_COMMITS = 500
MOST_OF_ROW = 50


def history(repo: Repo, query: Query) -> dict[str, Any]:
    """Return commits, newest first; `more` says whether there are others."""
    if repo.head().commit is None and not query.get("at"):
        return {"commits": [], "more": False}
    limit = whole_number(query, "limit", 100, MOST_COMMITS)
    found = list(
        repo.log(
            revision_in(query),
            filters=_filters(query),
            author=query.get("author") or None,
            grep=query.get("text") or None,
            box=box_in(query),
            skip=whole_number(query, "skip", 0, 1 << 40),
            limit=limit + 1,
        )
    )
    return {"commits": [commit_value(each) for each in found[:limit]], "more": len(found) > limit}


def _filters(query: Query) -> tuple[str, ...]:
    """Return the dataset, or the row of it, that commits must have changed."""
    dataset, key = query.get("dataset", ""), query.get("key", "")
    if key and not dataset:
        raise InvalidArgumentError("a key is one of a dataset, which is not named")
    return (f"{dataset}:feature:{key}",) if key else (dataset,) if dataset else ()


def changes(repo: Repo, query: Query) -> dict[str, Any]:
    """Return how many rows of each dataset a commit changed, against its first parent."""
    commit = revision_in(query, "commit")
    info, diffs = repo.show(commit)
    found = []
    for diff in diffs:
        rows = counts_value(_counts(repo, diff, info.id))
        kind = "added" if diff.old is None else "removed" if diff.new is None else "changed"
        meta = [each.name for each in diff.meta] if kind == "changed" else []
        found.append({"dataset": diff.path, "what": kind, "rows": rows, "meta": meta})
    return {"commit": info.id, "datasets": found}


def _counts(repo: Repo, diff: DatasetDiff, commit: str) -> ChangeCounts:
    """Return how many rows change; of a dataset that comes or goes no row is read."""
    if diff.old is None:
        return ChangeCounts(inserts=repo.dataset(diff.path, commit).rows)
    if diff.new is None:
        return ChangeCounts(deletes=repo.dataset(diff.path, f"{commit}^").rows)
    return count_changes(diff.changes)


def row(repo: Repo, query: Query) -> dict[str, Any]:
    """Return the commits that changed a row, and which of them each cell is from."""
    revision = revision_in(query)
    path = dataset_in(repo, query, revision)
    key = query.get("key", "")
    names = list(repo.dataset(path, revision).schema.names)
    commits = repo.log(revision, filters=(f"{path}:feature:{key}",), limit=MOST_OF_ROW + 1)
    found = [commit_value(each) for each in islice(commits, MOST_OF_ROW + 1)]
    cells: dict[str, str] = {}
    try:
        blamed = repo.blame(path, keys=[key], columns=names, revision=revision)
        for each in blamed.rows():
            cells = {name: info.id for name, info in each.cells.items()}
    except HavasuError as error:
        return {"commits": found[:MOST_OF_ROW], "more": False, "cells": {}, "note": error.message}
    return {"commits": found[:MOST_OF_ROW], "more": len(found) > MOST_OF_ROW, "cells": cells}
