"""Tables in which a repository tells of itself: commits, refs, changes, who changed a row.

Each is made when a query calls it, from the same values that `log`, `diff` and `blame` print.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.looking import BlameRequest, DiffRequest, LogRequest, blame_dataset, diff, log
from havasu_vc.merging import view_conflicts
from havasu_vc.model import compute as pc
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.commits import CommitInfo
from havasu_vc.model.diffs import DatasetDiff
from havasu_vc.querying.statements import TOLD
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.refs import list_branches, list_tags

__all__ = ["told_table"]

_TIME = pa.timestamp("s", tz="UTC")
_COMMITS = pa.schema(
    [
        ("commit", pa.string()),
        ("parents", pa.list_(pa.string())),
        ("author", pa.string()),
        ("author_email", pa.string()),
        ("author_time", _TIME),
        ("committer", pa.string()),
        ("commit_time", _TIME),
        ("message", pa.string()),
    ]
)
_REFS = pa.schema([("name", pa.string()), ("kind", pa.string()), ("commit", pa.string())])
_CHANGE = ("change", "old", "new")
_CONFLICTS = pa.schema([("dataset", pa.string()), ("kind", pa.string()), ("name", pa.string())])


def told_table(repo: OpenRepo, name: str, arguments: Sequence[str]) -> pa.Table:
    """Return what a function of `TOLD` gives for its arguments."""
    wanted = TOLD[name]
    if len(arguments) != len(wanted):
        form = ", ".join(f"'{each.upper()}'" for each in wanted)
        raise InvalidArgumentError(f"it is {name}({form}), with each of these as text")
    return _MAKERS[name](repo, *arguments)


def _commits_of(infos: Iterable[CommitInfo]) -> pa.Table:
    rows = [
        (
            each.id,
            each.parents,
            each.author_name,
            each.author_email,
            each.author_time,
            each.committer_name,
            each.commit_time,
            each.message,
        )
        for each in infos
    ]
    columns = list(zip(*rows, strict=True)) or [()] * len(_COMMITS)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, _COMMITS, strict=True)], _COMMITS)


def _commits(repo: OpenRepo) -> pa.Table:
    """Return the commits that HEAD reaches, newest first."""
    return _commits_of([] if repo.head().commit is None else log(repo, LogRequest()))


def _refs(repo: OpenRepo) -> pa.Table:
    rows = [(each.name, "branch", each.commit) for each in list_branches(repo.git)]
    rows += [(e.name, "remote branch", e.commit) for e in list_branches(repo.git, remote=True)]
    rows += [(each.name, "tag", each.commit) for each in list_tags(repo.git)]
    return pa.Table.from_pylist(
        [dict(zip(_REFS.names, row, strict=True)) for row in rows], schema=_REFS
    )


def _changes(repo: OpenRepo, revisions: str, dataset: str) -> pa.Table:
    """Return the changes of a dataset: `change`, and its row before and after as structs."""
    for found in diff(repo, DiffRequest(revisions, [dataset])):
        return _changes_of(found)
    view = repo.dataset(dataset, "HEAD")  # raises where there is none
    row = pa.struct(list(arrow_schema(view.schema)))
    return pa.schema([("change", pa.string()), ("old", row), ("new", row)]).empty_table()


def _changes_of(found: DatasetDiff) -> pa.Table:
    batches = [
        pa.RecordBatch.from_arrays(
            [
                pc.if_else(
                    pc.is_null(each.old),
                    "insert",
                    pc.if_else(pc.is_null(each.new), "delete", "update"),
                ),
                each.old,
                each.new,
            ],
            _CHANGE,
        )
        for each in found.changes
    ]
    if batches:
        return pa.Table.from_batches(batches)
    sides = [
        pa.struct(list(arrow_schema((side or found.header).schema)))
        for side in (found.old, found.new)
    ]
    return pa.schema(
        [("change", pa.string()), *zip(("old", "new"), sides, strict=True)]
    ).empty_table()


def _history(repo: OpenRepo, dataset: str) -> pa.Table:
    """Return every change of a dataset, newest first, with the commit that made it.

    Merges bring what other commits changed, and are left out.
    """
    infos = [each for each in log(repo, LogRequest(filters=[dataset])) if len(each.parents) < 2]
    commits, pieces = _commits_of(infos), []
    for place, each in enumerate(infos):
        for found in diff(repo, DiffRequest(f"{each.id}^?..{each.id}", [dataset])):
            changes = _changes_of(found)
            if changes.num_rows:
                told = commits.take(np.full(changes.num_rows, place))
                pieces.append(pa.table(told.columns + changes.columns, [*_COMMITS.names, *_CHANGE]))
    if pieces:
        # A row is the struct that its commit knew; here it has the columns of all of them.
        return pa.concat_tables(pieces, promote_options="permissive")
    none = _changes(repo, "HEAD...HEAD", dataset)
    return pa.schema([*_COMMITS, *none.schema]).empty_table()


def _blame(repo: OpenRepo, dataset: str) -> pa.Table:
    """Return the key of each row, and the commit that changed it last."""
    found = blame_dataset(repo, BlameRequest(dataset))
    commits = _commits_of(found.commits)
    pieces = []
    for batch in found.batches:
        told = commits.take(batch.column("commit"))
        names = [*found.key, *(name for name in told.column_names if name not in found.key)]
        shown = [told.column(name) for name in names[len(found.key) :]]
        pieces.append(pa.table([*batch.column("key").flatten(), *shown], names))
    if pieces:
        return pa.concat_tables(pieces)
    schema = arrow_schema(repo.dataset(dataset).schema.select(found.key))
    others = [field for field in _COMMITS if field.name not in found.key]
    return pa.schema([*schema, *others]).empty_table()


def _conflicts(repo: OpenRepo) -> pa.Table:
    """Return what is in conflict in the merge that waits."""
    rows = []
    for each in view_conflicts(repo):
        rows += [(each.path, "meta", item.name) for item in each.meta]
        labels = [] if each.rows is None else each.rows.column("label").to_pylist()
        rows += [(each.path, "feature", label) for label in labels]
    return pa.Table.from_pylist(
        [dict(zip(_CONFLICTS.names, row, strict=True)) for row in rows], schema=_CONFLICTS
    )


_MAKERS: Mapping[str, Callable[..., pa.Table]] = {
    "blame": _blame,
    "changes": _changes,
    "commits": _commits,
    "conflicts": _conflicts,
    "history": _history,
    "refs": _refs,
}
