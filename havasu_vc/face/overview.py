"""The repository at a glance: where HEAD is, what is edited, what waits, branches, datasets.

A commit as the page shows it.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from havasu_vc.errors import HavasuError, InvalidArgumentError
from havasu_vc.face.standing import Query, box_in, dataset_in, revision_in, whole_number
from havasu_vc.library import Repo
from havasu_vc.looking import extent_of
from havasu_vc.model.changes import count_changes
from havasu_vc.model.commits import ChangeCounts, CommitInfo
from havasu_vc.model.diffs import DatasetDiff
from havasu_vc.store.refs import Branch, count_apart

__all__ = [
    "changes",
    "commit_value",
    "counts_value",
    "datasets",
    "edited_value",
    "history",
    "merge_value",
    "overview",
    "refs",
    "row",
]

MOST_BRANCHES = 200


def overview(repo: Repo, _: Query) -> dict[str, Any]:
    """Return what the first view shows."""
    status = repo.status()
    return {
        "name": _name(repo),
        "path": str(repo.path),
        "branch": status.branch,
        "commit": status.commit,
        "upstream": status.upstream,
        "ahead": status.ahead,
        "behind": status.behind,
        "state": status.state,
        "problems": list(status.problems),
        "merge": merge_value(repo),
        "edited": edited_value(repo),
        "last": None if status.commit is None else commit_value(repo.commit_info(status.commit)),
        "branches": _branches(repo, status.commit),
        "branchesInAll": len(repo.branches()),
        "datasets": _datasets(repo, status.commit),
    }


def datasets(repo: Repo, query: Query) -> dict[str, Any]:
    """Return the paths of the datasets of a revision."""
    if repo.head().commit is None and not query.get("at"):
        return {"datasets": []}
    return {"datasets": list(repo.datasets(revision_in(query)))}


def refs(repo: Repo, _: Query) -> dict[str, Any]:
    """Return the names that a revision may be chosen by."""
    return {
        "name": _name(repo),
        "head": repo.head_branch,
        "branches": [each.name for each in repo.branches()],
        "remote": [each.name for each in repo.branches(remote=True)],
        "tags": [each.name for each in repo.tags()],
    }


def _name(repo: Repo) -> str:
    return repo.path.name.removesuffix(".git") or str(repo.path)


def merge_value(repo: Repo) -> dict[str, Any] | None:
    """Return the merge that waits; None where none does."""
    waiting = repo.status().waiting
    if waiting is None:
        return None
    conflicts = [
        {"dataset": path, "count": each.features + each.meta}
        for path, each in waiting.conflicts.items()
    ]
    return {"kind": waiting.kind, "message": waiting.message, "conflicts": conflicts}


def edited_value(repo: Repo) -> dict[str, Any] | None:
    """Return what is edited in the tables that are checked out; None where none are."""
    if repo.git.is_bare:
        return None
    try:
        found = repo.workspace.changes()
    except HavasuError as error:
        return {"place": "", "kind": "", "tables": [], "notes": [], "problems": [error.message]}
    if found is None:
        return None
    tables = [
        {"dataset": path, "rows": counts_value(each.rows), "meta": each.meta.total}
        for path, each in found.tables.items()
        if each.total
    ]
    return {
        "place": str(found.root),
        "kind": found.kind,
        "tables": tables,
        "notes": list(found.notes),
        "problems": list(found.problems),
    }


def counts_value(counts: ChangeCounts) -> list[int]:
    """Return rows inserted, updated and deleted."""
    return [counts.inserts, counts.updates, counts.deletes]


def _branches(repo: Repo, head: str | None) -> list[dict[str, Any]]:
    """Return branches, that of HEAD first; the others are compared with it."""
    found = sorted(repo.branches(), key=lambda each: not each.is_head)[:MOST_BRANCHES]
    return [_branch(repo, each, head) for each in found]


def _branch(repo: Repo, branch: Branch, head: str | None) -> dict[str, Any]:
    against = branch.upstream if branch.is_head else head
    apart = None if against is None else count_apart(repo.git, branch.commit, against)
    return {
        "name": branch.name,
        "isHead": branch.is_head,
        "upstream": branch.upstream,
        "ahead": None if apart is None else apart[0],
        "behind": None if apart is None else apart[1],
        "last": commit_value(repo.commit_info(branch.commit)),
    }


def _datasets(repo: Repo, commit: str | None) -> list[dict[str, Any]]:
    if commit is None:
        return []
    found = []
    for each in repo.list_datasets(commit):
        extent = crs = None
        geometry = ""
        # What cannot be read is listed all the same, and `problems` says why.
        if each.rows is not None:
            try:
                view = repo.dataset(each.path, commit)
                column = next(iter(view.schema.geometries), None)
                if column is not None and column.geometry is not None:
                    geometry, crs = column.name, column.geometry.crs
                bounds = extent_of(view)
                if bounds is not None:
                    extent = [bounds.west, bounds.south, bounds.east, bounds.north]
            except HavasuError:
                extent = None
        found.append(
            {
                "path": each.path,
                "kind": each.kind,
                "title": each.title,
                "rows": each.rows,
                "size": each.size,
                "geometry": geometry,
                "crs": crs,
                "extent": extent,
            }
        )
    return found


def commit_value(info: CommitInfo) -> dict[str, Any]:
    """Return a commit as JSON."""
    subject, _, body = info.message.partition("\n")
    return {
        "id": info.id,
        "parents": list(info.parents),
        "subject": subject,
        "body": body.strip(),
        "author": info.author_name,
        "email": info.author_email,
        "time": info.author_time,
        "offset": info.author_offset,
        # The page says by itself which branch HEAD is on.
        "refs": [each.removeprefix("HEAD -> ").removeprefix("tag: ") for each in info.refs],
    }


# Commits, what each changed, and the past of one row.


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
