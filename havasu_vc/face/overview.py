"""The repository at a glance: where HEAD is, what is edited, what waits, branches, datasets.

A commit as the page shows it.
"""

from __future__ import annotations

from typing import Any

from havasu_vc.errors import HavasuError
from havasu_vc.face.standing import Query, revision_in
from havasu_vc.library import Repo
from havasu_vc.looking import extent_of
from havasu_vc.model.commits import CommitInfo
from havasu_vc.model.diffs import ChangeCounts
from havasu_vc.store.refs import Branch, count_apart

__all__ = [
    "commit_value",
    "counts_value",
    "datasets",
    "edited_value",
    "merge_value",
    "overview",
    "refs",
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
