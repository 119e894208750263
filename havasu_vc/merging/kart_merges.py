"""A merge that waits in a Kart repository, as `conflicts`, `resolve` and `merge` know one.

What the files of `kart_stops` say is seen as our own state: the merge is made again from the
commits, without moving anything, and of what comes out in conflict counts what they name. A
row that both sides changed is in conflict as a whole there, whoever stopped; what was decided
of it is read from the blobs that they name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from havasu_vc.datasets.protocol import Dataset
from havasu_vc.errors import StateError
from havasu_vc.history.conflicts import (
    DatasetConflicts,
    MergePolicy,
    conflict_columns,
    in_columns,
)
from havasu_vc.history.merge import conflict_keys
from havasu_vc.history.merge_datasets import DATASET
from havasu_vc.history.partners import partners
from havasu_vc.merging.kart_stops import (
    KartMerge,
    add_resolves,
    drop_kart_merge,
    read_kart_merge,
    settled_tree_of,
)
from havasu_vc.merging.merge_commits import MergeResult, merge_commits, tree_so_far
from havasu_vc.merging.state import MergeState, require_state, write_state
from havasu_vc.model import compute as pc
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.changes import struct_of
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.commits import store_commit
from havasu_vc.store.refs import move_head, read_head
from havasu_vc.store.revisions import Revision
from havasu_vc.store.trees import find_ids, tree_difference

__all__ = ["conclude_kart_merge", "keep_answers", "waiting_state"]

_known: dict[str, tuple[DatasetConflicts, ...]] = {}
"""The conflicts of the merge that was made again last."""


def waiting_state(repo: OpenRepo) -> MergeState:
    """Return the merge that waits, whoever began it; raises when there is none."""
    if repo.git.kart_merge is None:
        return require_state(repo.git)
    return _state(repo, read_kart_merge(repo.git))


def keep_answers(repo: OpenRepo, state: MergeState) -> None:
    """Keep what was decided of the merge that waits."""
    if repo.git.kart_merge is None:
        write_state(repo.git, state)
        return
    merge = read_kart_merge(repo.git)
    shown = tree_so_far(repo, state)
    decided: dict[str, list[tuple[str, str]]] = {}
    for each in state.conflicts:
        decided |= _decided(repo, merge, each, shown)
    add_resolves(repo.git, merge, decided, shown)


def _state(repo: OpenRepo, merge: KartMerge) -> MergeState:
    head = read_head(repo.git).commit
    if head is None:
        raise StateError("HEAD has no commit to merge into")
    settled = tuple(
        DatasetConflicts(path, items=items) for path, items in _settled_items(repo, merge).items()
    )
    state = MergeState(
        head,
        merge.theirs,
        merge.branch or merge.theirs,
        merge.message.rstrip(),
        MergePolicy(whole=True),
        settled,
        parents=(merge.theirs,),
    )
    again = _merged_again(repo, state)
    found = [_named(repo, merge, each) for each in again]
    left = [each for each in settled if each.path not in {one.path for one in found}]
    both = sorted((*found, *left), key=lambda each: each.path)
    return replace(state, conflicts=tuple(both))


def _merged_again(repo: OpenRepo, state: MergeState) -> tuple[DatasetConflicts, ...]:
    """Return what is in conflict when the merge is made again; once for the same commits."""
    items = [(each.path, dict(each.items)) for each in state.conflicts]
    what = repr((str(repo.git.git_directory), state.ours, state.theirs, items))
    found = _known.get(what)
    if found is None:
        found = merge_commits(repo, state, dry_run=True).conflicts
        _known.clear()
        _known[what] = found
    return found


def _settled_items(repo: OpenRepo, merge: KartMerge) -> dict[str, dict[str, str | None]]:
    """Return the meta items that were decided, and how, by dataset."""
    found: dict[str, dict[str, str | None]] = {}
    for number, entries in merge.resolved.items():
        path = merge.conflicts[number][0]
        dataset, _, inside = path.partition("/.")
        kind, _, name = inside.partition("/")[2].partition("/")
        if kind != "meta":
            continue
        sides = {blob: side for side, blob in merge.versions[number].items()}
        side = sides.get(entries[0][1], "ours") if entries else "delete"
        found.setdefault(dataset, {})[name] = "base" if side == "ancestor" else side
    return found


def _named(repo: OpenRepo, merge: KartMerge, found: DatasetConflicts) -> DatasetConflicts:
    """Return of conflicts those that the files name, with what they say was decided of rows."""
    waiting = {
        path
        for number, paths in merge.conflicts.items()
        if number not in merge.resolved
        for path in paths
        if path.startswith(f"{found.path}/.")
    }
    items = {
        name: choice
        for name, choice in found.items.items()
        if choice is not None
        or (name == DATASET and waiting)
        or any(path.endswith(f"/meta/{name}") for path in waiting)
    }
    rows = found.rows
    if rows is None or found.items.get(DATASET, "") is None:
        return replace(found, items=items)
    (batch,) = rows.combine_chunks().to_batches()
    schema = conflict_columns(rows)
    keys = conflict_keys(batch, schema)
    view = _view(repo, settled_tree_of(repo.git, merge), found.path) or repo.dataset(found.path)
    asked = merge.keys_of(view, waiting)
    known = None if asked is None else pc.is_valid(partners(keys, asked))
    answered = _answered(merge, view, found.path)
    if known is None or answered is None:
        return replace(found, items=items, rows=None)
    names, decided, given = answered
    table = rows.combine_chunks()
    if len(names):
        at = partners(keys, names)
        known = pc.or_(known, pc.is_valid(at))
        for column, values in (("result", decided), ("renumbered", given)):
            place = table.schema.get_field_index(column)
            shown = struct_of(in_columns(values, view.schema, schema))
            shown = pc.if_else(pc.is_valid(values), shown, pa.scalar(None, shown.type))
            taken = pc.cast(pc.take(shown, at), table.schema.field(place).type)
            table = table.set_column(place, table.schema.field(place), taken)
        said = pc.if_else(pc.is_valid(table["result"]), "row", "delete")
        said = pc.if_else(pc.is_valid(table["renumbered"]), "renumber", said)
        said = pc.if_else(pc.is_valid(at), said, pa.scalar(None, pa.string()))
        place = table.schema.get_field_index("resolution")
        table = table.set_column(place, table.schema.field(place), said)
    table = pc.filter(table, known)
    return replace(found, items=items, rows=table if table.num_rows else None)


def _answered(
    merge: KartMerge, view: Dataset, path: str
) -> tuple[pa.RecordBatch, pa.StructArray, pa.StructArray] | None:
    """Return the keys of rows that were decided, what became of each, and its row of a new key."""
    inside = f"{path}/{view.marker}/feature/"
    names, own, other = [], [], []
    for number, entries in merge.resolved.items():
        place = merge.conflicts[number][0]
        if not place.startswith(inside):
            continue
        names.append(place)
        own.append(next((each for _, _, each in entries if each == place), None))
        other.append(next((each for _, _, each in entries if each != place), None))
    keys = merge.keys_of(view, names)
    if keys is None:
        return None
    return keys, _rows_at(merge, view, own), _rows_at(merge, view, other)


def _rows_at(merge: KartMerge, view: Dataset, paths: list[str | None]) -> pa.StructArray:
    """Return the rows at some paths, null for none."""
    there = [path for path in paths if path is not None]
    keys = merge.keys_of(view, there)
    assert keys is not None
    rows = view.rows_with_keys(keys)
    index = partners(keys, rows.select(list(view.key.names))).to_pylist() if rows.num_rows else []
    places = iter(index)
    at = [None if path is None else next(places, None) for path in paths]
    if not rows.num_rows:
        return pa.nulls(len(paths), pa.struct(list(arrow_schema(view.schema))))
    return pc.take(struct_of(rows), pa.array(at, pa.int64()))


def _decided(
    repo: OpenRepo, merge: KartMerge, found: DatasetConflicts, shown: str
) -> dict[str, list[tuple[str, str]]]:
    """Return what stands in the place of conflicts that were decided only now, by number."""
    source = repo.git.objects
    waiting = {
        merge.conflicts[number][0]: number
        for number in merge.conflicts.keys() - merge.resolved.keys()
        if merge.conflicts[number][0].startswith(f"{found.path}/.")
    }
    chosen: dict[str, list[str]] = {}
    said = {name for name, choice in found.items.items() if choice is not None}
    for path in waiting:
        if DATASET in said or any(path.endswith(f"/meta/{name}") for name in said):
            chosen[path] = [path]
    if found.rows is not None:
        chosen |= _decided_rows(repo, merge, found, waiting, shown)
    there = find_ids(source, shown, [place for places in chosen.values() for place in places])
    return {
        waiting[path]: [(there[place], place) for place in places if place in there]
        for path, places in chosen.items()
    }


def _decided_rows(
    repo: OpenRepo,
    merge: KartMerge,
    found: DatasetConflicts,
    waiting: Mapping[str, str],
    shown: str,
) -> dict[str, list[str]]:
    """Return the paths of rows that were decided, each with those that take its place."""
    assert found.rows is not None
    view = _view(repo, shown, found.path) or repo.dataset(found.path)
    inside = f"{found.path}/{view.marker}/feature/"
    paths = [path for path in waiting if path.startswith(inside)]
    asked = merge.keys_of(view, paths)
    if asked is None or not paths:
        return {}
    table = found.rows.filter(pc.is_valid(found.rows["resolution"])).combine_chunks()
    if not table.num_rows:
        return {}
    (batch,) = table.to_batches()
    schema = conflict_columns(found.rows)
    at = partners(asked, conflict_keys(batch, schema)).to_pylist()
    chosen = {path: [path] for path, row in zip(paths, at, strict=True) if row is not None}
    renumbered = batch.column("renumbered")
    if renumbered.null_count == len(renumbered):
        return chosen
    head = read_head(repo.git).commit
    before = repo.resolve(head or "HEAD").tree
    new = [
        change.path
        for change in tree_difference(repo.git.objects, before, shown)
        if change.new is not None and change.path.startswith(inside)
    ]
    keys = merge.keys_of(view, new)
    assert keys is not None
    names = list(schema.key.names)
    fresh = pa.RecordBatch.from_arrays([pc.struct_field(renumbered, name) for name in names], names)
    places = partners(fresh, keys).to_pylist()
    for path, row in zip(paths, at, strict=True):
        if row is not None and renumbered.is_valid()[row].as_py() and places[row] is not None:
            chosen[path].append(new[places[row]])
    return chosen


def _view(repo: OpenRepo, tree: str, path: str) -> Dataset | None:
    revision = Revision("the merge that waits", None, tree)
    folder = repo.folders(revision).get(path)
    return None if folder is None else repo.view(folder, revision.name)


def conclude_kart_merge(
    repo: OpenRepo, merge: KartMerge, tree: str, *, message: str | None = None
) -> MergeResult:
    """Commit the merge with the tree that it has, and forget that it was half done."""
    git, head = repo.git, read_head(repo.git)
    if head.commit is None:
        raise StateError("HEAD has no commit to merge into")
    text = (message or merge.message).strip()
    author, committer = git.people()
    parents = (head.commit, merge.theirs)
    with git.writer() as writer:
        commit = store_commit(
            git, writer, tree, parents, author=author, committer=committer, message=text
        )
    move_head(git, head, commit, f"commit (merge): {text.splitlines()[0] if text else ''}")
    drop_kart_merge(git)
    return MergeResult("merge", commit)
