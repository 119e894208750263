"""Merging all datasets of two trees that came from one.

A dataset is the same on all sides where its path is. One that left its path on a side
and stands elsewhere there, under the same table-uuid, was moved: it is merged where it
stands now. What is nowhere in conflict and changed on one side only is taken unread.
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.commit_plans import MergedTree, edit_changes
from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.datasets.joining import joined_files
from havasu_vc.datasets.kinds import find_kind, kind_of
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.datasets.tile_sets import is_tile_set
from havasu_vc.errors import (
    ConflictError,
    CorruptDatasetError,
    NotYetSupportedError,
    StateError,
    UnsupportedError,
    UnsupportedVersionError,
)
from havasu_vc.history.conflicts import DatasetConflicts, Glance, MergePolicy, conflict_columns
from havasu_vc.history.merge_datasets import (
    DATASET,
    SCHEMA,
    MergedDataset,
    Versions,
    markers_of,
    merge_dataset,
)
from havasu_vc.model import compute as pc
from havasu_vc.model.names import DATASET_MARKERS, HAVASU_MARKER
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.soundness import defect_of
from havasu_vc.store.objects import Draft, ObjectSource, read_object
from havasu_vc.store.revisions import EMPTY, Revision
from havasu_vc.store.trees import (
    Change,
    DatasetFolder,
    Existing,
    TreeEntry,
    edit_tree,
    find_datasets,
    find_entry,
    tree_difference,
)

if TYPE_CHECKING:
    from havasu_vc.datasets.protocol import Dataset
    from havasu_vc.datasets.storage import Storage

__all__ = [
    "MergeRules",
    "RootTree",
    "base_tree",
    "clashing_files",
    "merge_base_files",
    "merge_bases",
    "merge_files",
    "merge_trees",
    "root_tree",
]


@dataclass(frozen=True, slots=True)
class RootTree:
    """The tree of a commit, or one that a commit might have."""

    name: str
    """Its name in errors."""
    source: ObjectSource
    """Where its objects are."""
    tree: str
    """Its id."""

    def folders(self) -> dict[str, DatasetFolder]:
        """Return the datasets by path, also those whose path keeps others from looking."""
        odd: list[DatasetFolder] = []
        found = find_datasets(self.source, self.tree, lambda folder, _: odd.append(folder))
        return {folder.path: folder for folder in (*found, *odd)}


def root_tree(repo: OpenRepo, revision: Revision) -> RootTree:
    """Return the tree of a revision."""
    return RootTree(revision.name, repo.git.objects, revision.tree)


@dataclass(frozen=True, slots=True)
class MergeRules:
    """How the datasets are merged."""

    policy: MergePolicy = field(default_factory=MergePolicy)
    """The policy that decides without asking."""
    resolved: Mapping[str, DatasetConflicts] = field(default_factory=dict)
    """How conflicts were resolved, by dataset."""
    joins: bool = True
    """Whether the other side becomes a parent, so that what it alone has is replaced."""
    only: Collection[str] | None = None
    """The datasets that matter, by any of their paths; None for all."""
    glance: Glance | None = None
    """Looks at conflicts, and nothing is merged."""


@dataclass(frozen=True, slots=True)
class _Group:
    """One dataset, and where it stands in base, ours and theirs."""

    path: str
    """Where it will be."""
    places: tuple[str | None, str | None, str | None]
    """Where it is; None where it is not."""


def merge_trees(
    repo: OpenRepo,
    storage: Storage,
    trees: tuple[RootTree, RootTree, RootTree],
    rules: MergeRules,
) -> dict[str, MergedDataset]:
    """Merge every dataset of base, ours and theirs; return what becomes of each path."""
    folders = tuple(tree.folders() for tree in trees)
    merged: dict[str, MergedDataset] = {}
    left: set[str] = set()
    for group in _groups(repo, trees, (folders[0], folders[1], folders[2])):
        named = {group.path, *filter(None, group.places)}
        if rules.only is not None and not named.intersection(rules.only):
            continue
        found = [
            None if place is None else side[place]
            for place, side in zip(group.places, folders, strict=True)
        ]
        left |= named - {group.path}
        internals = [None if each is None else each.internals for each in found]
        if len(set(internals)) == 1 and len(named) == 1:
            # Alike on all sides, also if nobody can read it.
            marker = HAVASU_MARKER if found[1] is None else found[1].marker
            merged[group.path] = MergedDataset(internals[1], marker=marker)
            continue
        one_sided = internals[1] == internals[0] or internals[2] in internals[:2]
        if not one_sided and any(map(is_tile_set, found)):
            merged[group.path] = _merged_tiles(group.path, found, trees)
            continue
        views = [
            None
            if each is None or (one_sided and len(named) == 1)
            else _view(repo, storage, tree, each, group.path, ours=tree is trees[1])
            for each, tree in zip(found, trees, strict=True)
        ]
        merged[group.path] = merge_dataset(
            group.path,
            (found[0], found[1], found[2]),
            Versions(views[0], views[1], views[2]),
            storage,
            repo.settings,
            policy=rules.policy,
            resolved=rules.resolved.get(group.path),
            joins=rules.joins,
            glance=rules.glance,
        )
    gone = {path: MergedDataset(None) for path in sorted(left - merged.keys())}
    return {**gone, **merged}


def _merged_tiles(
    path: str, found: Sequence[DatasetFolder | None], trees: tuple[RootTree, RootTree, RootTree]
) -> MergedDataset:
    """Merge a set of tiles file by file; raise where both sides changed one, which is Kart's."""
    base, ours, theirs = (
        None if each is None else TreeFolder(tree.source, each.internals)
        for each, tree in zip(found, trees, strict=True)
    )
    markers = {each.marker for each in found if each is not None}
    if base is None or ours is None or theirs is None or len(markers) > 1:
        raise _tiles_are_karts(path, "the dataset")
    changes = joined_files(base, ours, theirs)
    if isinstance(changes, str):
        raise _tiles_are_karts(path, changes)
    marker = markers.pop()
    return MergedDataset(ours.tree, TreeEdit(path, changes, marker=marker), marker=marker)


def _tiles_are_karts(path: str, what: str) -> NotYetSupportedError:
    return NotYetSupportedError(
        f"{path}: both sides changed {what}, and of tiles Kart itself shows and settles conflicts",
        hints=("`kart merge` and `kart resolve` of Kart itself merge the branch",),
    )


def _view(
    repo: OpenRepo,
    storage: Storage,
    tree: RootTree,
    folder: DatasetFolder,
    path: str,
    *,
    ours: bool,
) -> Dataset | None:
    """Return a dataset of a tree as if it stood where it will be; None for a broken one.

    That one is taken as a whole or not at all, like one that is not there. One of an older form,
    which branches came from that were upgraded since, is read as if it had been too; only what
    is merged into must be of the form that is written.
    """
    inside = TreeFolder(tree.source, folder.internals)
    view = repo.view(folder, tree.name).with_folder(inside).with_storage(storage)
    broken = defect_of(view)
    if isinstance(broken, UnsupportedVersionError) and not ours:
        newer = kind_of(path, folder.marker).upgraded(inside, path, tree.name)
        if newer is not None:
            view = view.with_folder(newer)
            broken = defect_of(view)
    if isinstance(broken, UnsupportedError):
        raise broken
    if broken is not None:
        repo.tell(folder.path, f"{broken.message}; it can only be taken or left as a whole")
        return None
    return view.with_path(path)


_Folders = tuple[
    Mapping[str, DatasetFolder], Mapping[str, DatasetFolder], Mapping[str, DatasetFolder]
]


def _groups(
    repo: OpenRepo, trees: tuple[RootTree, RootTree, RootTree], folders: _Folders
) -> Iterator[_Group]:
    """Yield the datasets, each with its places on all sides."""
    base, ours, theirs = folders
    mine = _moves(repo, (trees[0], trees[1]), base, ours)
    other = _moves(repo, (trees[0], trees[2]), base, theirs)
    placed: set[str] = set()
    for path in base:
        first, second = mine.get(path, path), other.get(path, path)
        if first != path and second not in (path, first):
            raise ConflictError(
                f"{path} was moved to {first} on one side and to {second} on the other",
                hints=(
                    f"move it to one place on both sides: `havasu-vc mv {shlex.quote(second)} "
                    f"{shlex.quote(first)}`",
                ),
            )
        target = first if first != path else second
        places = (path, first if first in ours else None, second if second in theirs else None)
        placed |= {first, second, path}
        yield _Group(target, places)
    for path in sorted((ours.keys() | theirs.keys()) - placed):
        yield _Group(path, (None, path if path in ours else None, path if path in theirs else None))


def _moves(
    repo: OpenRepo,
    trees: tuple[RootTree, RootTree],
    before: Mapping[str, DatasetFolder],
    after: Mapping[str, DatasetFolder],
) -> dict[str, str]:
    """Return where datasets went that are no more where they were."""
    gone, come = before.keys() - after.keys(), after.keys() - before.keys()
    if not gone or not come:
        return {}
    old = _by_identity(repo, trees[0], before, gone)
    new = _by_identity(repo, trees[1], after, come)
    return {old[identity]: new[identity] for identity in old.keys() & new.keys()}


def _by_identity(
    repo: OpenRepo, tree: RootTree, folders: Mapping[str, DatasetFolder], paths: Collection[str]
) -> dict[str, str]:
    """Return paths by table-uuid, as far as that names one."""
    found: dict[str, list[str]] = {}
    for path in paths:
        folder = folders[path]
        if find_kind(folder.marker) is None:
            continue
        inside = TreeFolder(tree.source, folder.internals)
        try:
            identity = repo.view(folder, tree.name).with_folder(inside).identity
        except CorruptDatasetError:
            # Half of a dataset, which git left there; reading it says so.
            continue
        if identity is not None:
            found.setdefault(identity, []).append(path)
    return {identity: names[0] for identity, names in found.items() if len(names) == 1}


# Merging the user's own files, which stand beside the datasets.
#
# What one side changed is taken. A text that both changed is merged by `git merge-file`,
# line by line; what that cannot merge stops the merge, with the file's name. Files are
# not followed through renames.

ORDINARY = (b"100644", b"100755")


def merge_files(
    repo: OpenRepo, base: str, ours: str, theirs: str, *, source: ObjectSource | None = None
) -> Mapping[str, Change]:
    """Return what becomes of files of our tree, given three trees."""
    changes: dict[str, Change] = {}
    for path, sides in _differing(source or repo.git.objects, (base, ours, theirs)):
        before, mine, other = sides
        if mine == before:
            changes[path] = _as_it_is(other)
        else:
            changes[path] = _merged(repo, source or repo.git.objects, path, sides)
    return changes


def clashing_files(
    repo: OpenRepo, base: str, ours: str, theirs: str, *, source: ObjectSource
) -> Iterator[str]:
    """Yield the files that git cannot merge, given three trees."""
    for path, sides in _differing(source, (base, ours, theirs)):
        if sides[1] != sides[0]:
            try:
                _merged(repo, source, path, sides)
            except ConflictError:
                yield path


def merge_base_files(
    repo: OpenRepo, source: ObjectSource, trees: tuple[str, str, str]
) -> Mapping[str, Change]:
    """Return what becomes of files of one merge base, given what both came from and another.

    What cannot be merged is left out, so that a merge takes it for new on both sides.
    """
    changes: dict[str, Change] = {}
    for path, sides in _differing(source, trees):
        before, mine, other = sides
        if mine == before:
            changes[path] = _as_it_is(other)
            continue
        try:
            changes[path] = _merged(repo, source, path, sides)
        except ConflictError:
            changes[path] = None
    return changes


_Sides = tuple[TreeEntry | None, TreeEntry | None, TreeEntry | None]


def _differing(source: ObjectSource, trees: tuple[str, str, str]) -> Iterator[tuple[str, _Sides]]:
    """Yield the files outside of datasets that theirs changed, and not just as ours."""
    outside = frozenset(marker.encode() for marker in DATASET_MARKERS)
    for change in tree_difference(source, trees[0], trees[2], outside=outside):
        if set(change.path.split("/")) & set(DATASET_MARKERS):
            continue
        before, mine, other = (find_entry(source, tree, change.path) for tree in trees)
        if mine != other:
            yield change.path, (before, mine, other)


def _as_it_is(entry: TreeEntry | None) -> Change:
    return None if entry is None else Existing(entry.id, mode=entry.mode)


def _merged(repo: OpenRepo, source: ObjectSource, path: str, versions: _Sides) -> bytes:
    """Return a text that both sides changed."""
    before, mine, other = versions
    sides = (mine, before, other)
    if mine is None or other is None or any(s and s.mode not in ORDINARY for s in sides):
        raise _clash(path)
    with tempfile.TemporaryDirectory(prefix="havasu-vc-") as folder:
        names = []
        for name, side in zip(("ours", "base", "theirs"), sides, strict=True):
            data = b"" if side is None else read_object(source, side.id, "blob")
            place = Path(folder) / name
            place.write_bytes(data)
            names.append(str(place))
        result = repo.git.git("merge-file", "-p", "-q", *names, check=False)
    if result.code != 0:
        raise _clash(path)
    return result.output


def _clash(path: str) -> ConflictError:
    return ConflictError(
        f"{path} was changed on both sides, and git cannot merge it",
        hints=("make that file alike on both branches, then merge again",),
    )


# The tree that both sides of a merge came from, also where there are several.
#
# Branches that were merged crosswise have several merge bases. As git does, these are
# merged into one that no commit has. Where they are in conflict themselves, it has what
# stood before both: whoever settled that on a side since then has changed it, and two
# sides that settled it differently are in conflict again.


def merge_bases(repo: OpenRepo, ours: str, theirs: str, name: str) -> tuple[str, ...]:
    """Return the best common ancestors of two commits; raises when there is none."""
    bases = _bases(repo, ours, theirs)
    if not bases and repo.git.handle.is_shallow:
        raise StateError(
            f"{name} and HEAD have no commit in common here: this clone has only the newest ones",
            hints=("`havasu-vc fetch --unshallow` brings what they came from",),
        )
    if not bases:
        raise StateError(
            f"{name} has no history in common with HEAD",
            hints=("import its datasets instead",),
        )
    return bases


def _bases(repo: OpenRepo, one: str, *others: str) -> tuple[str, ...]:
    found = repo.git.git("merge-base", "--all", one, *others, check=False).text.split()
    return tuple(sorted(found))


def base_tree(repo: OpenRepo, storage: Storage, commits: Sequence[str]) -> RootTree:
    """Return the tree that merge bases stand for; files that it needs are staged."""
    return _common(repo, storage, commits, Draft(repo.git.objects))


def _common(repo: OpenRepo, storage: Storage, commits: Sequence[str], draft: Draft) -> RootTree:
    if not commits:
        return root_tree(repo, repo.resolve(EMPTY))
    first, *rest = commits
    merged, done = root_tree(repo, repo.resolve(first)), [first]
    for commit in rest:
        # As git: what the next has in common with a merge of those so far.
        inner = _common(repo, storage, _bases(repo, commit, *done), draft)
        trees = (inner, merged, root_tree(repo, repo.resolve(commit)))
        merged, done = _merged_ancestor(repo, storage, trees, draft), [*done, commit]
    return merged


def _merged_ancestor(
    repo: OpenRepo, storage: Storage, trees: tuple[RootTree, RootTree, RootTree], draft: Draft
) -> RootTree:
    """Return the tree that two merge bases stand for."""
    trees = tuple(replace(tree, source=draft) for tree in trees)  # type: ignore[assignment]
    storage = replace(storage, sink=draft)
    rules = MergeRules(MergePolicy())
    merged = merge_trees(repo, storage, trees, rules)
    waiting = {path: each.conflicts for path, each in merged.items() if each.conflicts is not None}
    if waiting:
        resolved = {path: as_in_base(found) for path, found in waiting.items()}
        merged = merge_trees(repo, storage, trees, replace(rules, resolved=resolved))
    before = trees[0].folders()
    for path, each in merged.items():
        if each.conflicts is not None:
            # One has it and one has not; before them it stood so.
            folder = before.get(path)
            marker = each.marker if folder is None else folder.marker
            merged[path] = MergedDataset(
                None if folder is None else folder.internals, marker=marker
            )
    edits = [each.edit for each in merged.values() if each.edit is not None and each.edit.blobs]
    internals = {path: each.internals for path, each in merged.items()}
    files = merge_base_files(repo, draft, (trees[0].tree, trees[1].tree, trees[2].tree))
    changes = {
        **MergedTree(files, internals, (), markers_of(merged)).changes(),
        **edit_changes(edits),
    }
    tree = edit_tree(draft, trees[1].tree, changes)
    return RootTree("the common base", draft, tree)


def as_in_base(found: DatasetConflicts) -> DatasetConflicts:
    """Resolve conflicts by what stood there before; a dataset as a whole stays in conflict."""
    if SCHEMA in found.items:
        raise NotYetSupportedError(
            f"the columns of {found.path} are in conflict between the merge bases themselves "
            "(both sides were merged crosswise)",
            hints=("merge a commit of theirs from before the crossing first",),
        )
    items = {name: None if name == DATASET else "base" for name in found.items}
    if found.rows is None:
        return replace(found, items=items)
    table = found.rows.combine_chunks()
    result = _cells_of_base(table) if conflict_columns(table).key else None
    said = pa.array(["base"] * table.num_rows, pa.string())
    table = table.set_column(table.schema.get_field_index("resolution"), "resolution", said)
    if result is not None:
        table = table.set_column(table.schema.get_field_index("result"), "result", result)
    return replace(found, rows=table, items=items)


def _cells_of_base(table: pa.Table) -> pa.StructArray:
    """Return the merged rows with the cells in conflict, or all of a row, as they were."""
    sides = {name: table.column(name).combine_chunks() for name in ("base", "merged")}
    listed = table.column("columns").combine_chunks()
    names, rows = pc.list_flatten(listed), pc.list_parent_indices(listed).to_numpy()
    whole = pc.is_null(sides["merged"]).to_numpy(zero_copy_only=False)
    columns = []
    for column in sides["base"].type:
        cells = whole.copy()
        cells[rows[pc.equal(names, column.name).to_numpy(zero_copy_only=False)]] = True
        values = [pc.struct_field(sides[name], column.name) for name in ("base", "merged")]
        columns.append(pc.if_else(pa.array(np.asarray(cells)), *values))
    absent = pc.is_null(sides["base"])
    return pa.StructArray.from_arrays(columns, fields=list(sides["base"].type), mask=absent)
