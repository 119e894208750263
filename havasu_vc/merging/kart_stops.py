"""A merge that waits in a Kart repository, in the files that Kart keeps of one.

    MERGED_INDEX    an index of git's: what merged, and beside it
                    .conflicts/N/{ancestor,ours,theirs}/PATH    versions of what is in conflict
                    .resolves/N/resolved, .resolves/N/0/PATH    what was decided of it
    MERGED_TREE     the tree of what merged, ours where nothing was decided
    MERGE_HEAD, MERGE_BRANCH, MERGE_MSG

Nothing else is kept of it, so it is one merge for both programs: either resolves what the
other left, and what the commit then is follows from these files alone. MERGED_INDEX comes
last and says that a merge waits; a crash before leaves none.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path

import pyarrow as pa

from havasu_vc.datasets.protocol import Dataset
from havasu_vc.errors import ConflictError, CorruptionError, HavasuError
from havasu_vc.history.conflicts import DatasetConflicts, conflict_columns
from havasu_vc.history.merge import conflict_keys
from havasu_vc.history.merge_datasets import DATASET
from havasu_vc.history.partners import partners
from havasu_vc.merging.kart_index import (
    CONFLICTS,
    RESOLVES,
    FileEntry,
    add_entries,
    read_entries_of_conflicts,
)
from havasu_vc.merging.state import MergeState
from havasu_vc.merging.trees import RootTree
from havasu_vc.merging.waiting import MERGED_REF
from havasu_vc.model import compute as pc
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.disk import replace_file
from havasu_vc.store.refs import list_branches
from havasu_vc.store.repository import GitRepository
from havasu_vc.store.trees import Change, Existing, edit_tree, find_ids, tree_difference

__all__ = [
    "KartMerge",
    "add_resolves",
    "drop_kart_merge",
    "read_kart_merge",
    "settled_tree_of",
    "stop_as_kart",
    "tree_of_kart_merge",
]

_FILES = ("MERGED_INDEX", "MERGED_TREE", "MERGE_HEAD", "MERGE_BRANCH", "MERGE_MSG")
_SIDES = ("ancestor", "ours", "theirs")
_NOTHING = "0" * 40
_LEGENDS = "/meta/legend/"
_WITH_END = ("-c", "index.recordEndOfIndexEntries=true")
"""Has git say where entries end, which spares finding it out."""


@dataclass(frozen=True, slots=True)
class KartMerge:
    """A merge that waits in Kart's files."""

    theirs: str
    """The commit to merge."""
    message: str
    """The message of the merge commit."""
    listed: tuple[str, ...]
    """Every path of the index that is of a conflict, or of how one was resolved."""
    conflicts: Mapping[str, tuple[str, ...]]
    """The paths of each conflict's versions, by its number."""
    resolved: Mapping[str, tuple[tuple[str, str, str], ...]]
    """Mode, blob and path of what stands in the place of each that is resolved."""

    branch: str | None = None
    """The branch that was named, if one was."""
    versions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The blobs of each conflict, by its number and the side that has one."""

    @property
    def unresolved(self) -> int:
        """How many conflicts wait."""
        return len(self.conflicts.keys() - self.resolved.keys())

    def keys(self, view: Dataset) -> pa.RecordBatch | None:
        """Return the keys of a dataset's rows that are in conflict, or resolve one.

        None for a dataset of another kind than Kart's, in which it finds no conflicts.
        """
        paths = {path for each in self.conflicts.values() for path in each}
        paths |= {path for each in self.resolved.values() for _, _, path in each}
        return self.keys_of(view, sorted(paths))

    def keys_of(self, view: Dataset, paths: Iterable[str]) -> pa.RecordBatch | None:
        """Return the keys of rows at those of some paths that are a dataset's rows; or None."""
        inside = f"{view.path}/{view.marker}/feature/"
        return view.keys_named(
            [p.rpartition("/")[2].encode() for p in paths if p.startswith(inside)]
        )


def read_kart_merge(git: GitRepository) -> KartMerge:
    """Return the merge that Kart stopped in; raises for one that cannot be read."""
    folder = git.git_directory
    try:
        theirs = (folder / "MERGE_HEAD").read_text("ascii").strip()
        message = (folder / "MERGE_MSG").read_text("utf-8")
        named = folder / "MERGE_BRANCH"
        branch = named.read_text("utf-8").strip() if named.exists() else None
        listed = read_entries_of_conflicts(folder / "MERGED_INDEX")
        if listed is None:
            listed = _listed_by_git(git)
        return _parsed(theirs, message, branch or None, listed)
    except (OSError, ValueError, HavasuError) as error:
        raise CorruptionError(
            "the merge of Kart's cannot be read: its files are damaged, or some are gone",
            hints=("`havasu-vc merge --abort` drops it; nothing committed is lost",),
        ) from error


def _listed_by_git(git: GitRepository) -> list[FileEntry]:
    environment = {"GIT_INDEX_FILE": str(git.git_directory / "MERGED_INDEX")}
    names = (CONFLICTS.rstrip("/"), RESOLVES.rstrip("/"))
    listed = git.git("ls-files", "-s", "-z", "--", *names, environment=environment)
    found = []
    for line in filter(None, listed.text.split("\0")):
        head, _, path = line.partition("\t")
        mode, blob, _ = head.split(" ")
        found.append(FileEntry(mode, blob, path))
    return found


def _parsed(
    theirs: str, message: str, branch: str | None, listed: Sequence[FileEntry]
) -> KartMerge:
    paths: list[str] = []
    versions: dict[str, dict[str, str]] = {}
    conflicts: dict[str, list[str]] = {}
    resolved: dict[str, list[tuple[str, str, str]]] = {}
    for mode, blob, path in listed:
        kind, number, part, *rest = path.split("/", 3)
        paths.append(path)
        if kind == ".conflicts":
            conflicts.setdefault(number, []).append(rest[0])
            versions.setdefault(number, {})[part] = blob
            continue
        entries = resolved.setdefault(number, [])
        if rest:
            entries.append((mode, blob, rest[0]))
        elif part != "resolved":
            raise ValueError(path)
    return KartMerge(
        theirs,
        message,
        tuple(paths),
        {number: tuple(each) for number, each in conflicts.items()},
        {number: tuple(each) for number, each in resolved.items()},
        branch,
        versions,
    )


def tree_of_kart_merge(git: GitRepository, merge: KartMerge) -> str:
    """Store the tree that the merge has with its resolutions; raises while conflicts wait."""
    if merge.unresolved:
        are = "conflict is" if merge.unresolved == 1 else "conflicts are"
        raise ConflictError(
            f"{merge.unresolved:,} {are} not resolved yet",
            hints=("`kart conflicts` shows them, `kart resolve` settles them",),
        )
    return settled_tree_of(git, merge)


def partial_tree_of(git: GitRepository, merge: KartMerge) -> str:
    """Store the tree of what merged and was resolved; what waits is as git left it."""
    partial = ("--missing-ok",) if git.config.get("extensions.partialclone") else ()
    with _editing(git) as environment:
        _put(git, _changes(merge), environment)
        return git.git("write-tree", *partial, environment=environment).text.strip()


def settled_tree_of(git: GitRepository, merge: KartMerge) -> str:
    """Store the tree of what merged, with what was resolved in its place.

    It is made of Kart's own tree of the merge, so the index, which has an entry for each row of
    each dataset, is not gone through.
    """
    try:
        shown = (git.git_directory / "MERGED_TREE").read_text("ascii").strip()
        there = git.objects.has(shown)
    except (OSError, ValueError, HavasuError):
        there = False
    if not there:
        return partial_tree_of(git, merge)
    decided: dict[str, Change] = {
        path: None for number in merge.resolved for path in merge.conflicts.get(number, ())
    }
    for entries in merge.resolved.values():
        decided |= {path: Existing(blob, mode=mode.encode()) for mode, blob, path in entries}
    if not decided:
        return shown
    with git.writer() as writer:
        tree = edit_tree(writer, shown, decided)
        writer.flush()
    return tree


@contextmanager
def _editing(git: GitRepository, tree: str | None = None) -> Iterator[dict[str, str]]:
    """Give the environment in which git edits a copy of the index, or one of a tree."""
    with tempfile.TemporaryDirectory(dir=git.git_directory, prefix="merging-") as folder:
        index = Path(folder) / "index"
        # What was decided to be nothing is noted under no blob, as Kart has it.
        environment = {"GIT_INDEX_FILE": str(index), "GIT_ALLOW_NULL_SHA1": "1"}
        if tree is None:
            shutil.copyfile(git.git_directory / "MERGED_INDEX", index)
        else:
            git.git(*_WITH_END, "read-tree", tree, environment=environment)
        yield environment


def _add(git: GitRepository, entries: Sequence[FileEntry], environment: Mapping[str, str]) -> None:
    """Put entries of conflicts into an index that is edited."""
    if not add_entries(Path(environment["GIT_INDEX_FILE"]), entries):
        _put(git, [f"{mode} {blob}\t{path}" for mode, blob, path in entries], environment)


def _put(git: GitRepository, lines: Iterable[str], environment: Mapping[str, str]) -> None:
    text = "\0".join((*lines, "")).encode()
    command = (*_WITH_END, "update-index", "-z", "--index-info")
    git.git(*command, stdin=text, environment=environment)


def _changes(merge: KartMerge) -> Iterator[str]:
    """Yield what turns the index into that of the commit, as git reads it."""
    for path in merge.listed:
        yield f"0 {_NOTHING}\t{path}"
    for number in merge.resolved:
        for path in merge.conflicts[number]:
            yield f"0 {_NOTHING}\t{path}"
    for entries in merge.resolved.values():
        for mode, blob, path in entries:
            yield f"{mode} {blob}\t{path}"


def stop_as_kart(
    repo: OpenRepo,
    state: MergeState,
    waiting: Sequence[DatasetConflicts],
    base: RootTree,
    shown: str,
) -> bool:
    """Leave a merge half done as Kart does; return whether these files can say what waits.

    They cannot where both sides were merged crosswise, so that no commit is the ancestor, or
    where something is in conflict that no file of git's is.
    """
    git = repo.git
    if base.source is not git.objects:
        return False
    trees = (base.tree, repo.resolve(state.ours).tree, repo.resolve(state.theirs).tree)
    found: dict[str, tuple[str | None, ...]] = {}
    for each in waiting:
        paths = _paths_in_conflict(repo, each, trees, state)
        if paths is None:
            return False
        found |= paths
    entries = [
        FileEntry("100644", blob, f"{CONFLICTS}{number}/{side}/{path}")
        for number, path in enumerate(sorted(found))
        for side, blob in zip(_SIDES, found[path], strict=True)
        if blob is not None
    ]
    branches = {branch.name for branch in list_branches(git)}
    shown = _with_legends(git, shown, trees[2])
    _write(git, "MERGE_HEAD", state.theirs)
    if state.name in branches:
        _write(git, "MERGE_BRANCH", state.name)
    _write(git, "MERGE_MSG", state.message)
    _write(git, "MERGED_TREE", shown)
    # In the index that Kart takes from git, what is in conflict has a place under its own name,
    # whatever stands there.
    undecided: dict[str, Change] = {
        path: Existing(next(blob for blob in sides if blob))
        for path, sides in found.items()
        if sides[1] is None
    }
    with git.writer() as writer:
        listed = edit_tree(writer, shown, undecided)
        writer.flush()
    with _editing(git, listed) as environment:
        _add(git, entries, environment)
        os.replace(environment["GIT_INDEX_FILE"], git.git_directory / "MERGED_INDEX")
    return True


def _with_legends(git: GitRepository, shown: str, other: str) -> str:
    """Store a tree with the legends of another as well, in which any version of a row is read.

    A dataset that is not in it has none, and is no dataset of legends alone.
    """
    lacking = {
        change.path: change.old
        for change in tree_difference(git.objects, other, shown)
        if change.new is None and change.old is not None and _LEGENDS in change.path
    }
    columns = {path: f"{path.partition(_LEGENDS)[0]}/meta/schema.json" for path in lacking}
    there = find_ids(git.objects, shown, sorted(set(columns.values())))
    missing: dict[str, Change] = {
        path: Existing(blob) for path, blob in lacking.items() if columns[path] in there
    }
    with git.writer() as writer:
        tree = edit_tree(writer, shown, missing)
        writer.flush()
    git.git("update-ref", MERGED_REF, tree)
    return tree


def _write(git: GitRepository, name: str, text: str) -> None:
    replace_file(git.git_directory / name, f"{text.rstrip()}\n".encode())


def _paths_in_conflict(
    repo: OpenRepo, found: DatasetConflicts, trees: tuple[str, str, str], state: MergeState
) -> dict[str, tuple[str | None, ...]] | None:
    """Return the blobs of all sides by path; None where not all that waits is a file's."""
    source = repo.git.objects
    changed = [
        {change.path: change for change in tree_difference(source, trees[0], tree)}
        for tree in trees[1:]
    ]
    candidates: dict[str, tuple[str | None, ...]] = {
        path: (mine.old, mine.new, changed[1][path].new)
        for path, mine in changed[0].items()
        if path in changed[1]
        and mine.new != changed[1][path].new
        and path.startswith(f"{found.path}/.")
    }
    if found.items.get(DATASET, "") is None:
        return candidates or None
    view = repo.dataset(found.path, state.ours)
    inside = f"{found.path}/{view.marker}/"
    chosen = {path for name in found.items if (path := f"{inside}meta/{name}") in candidates}
    if len(chosen) < len(found.items):
        return None
    if found.rows is not None:
        rows = [path for path in candidates if path.startswith(f"{inside}feature/")]
        keys = view.keys_named([path.rpartition("/")[2].encode() for path in rows])
        wanted = conflict_keys(_batch(found.rows), conflict_columns(found.rows))
        if keys is None or not view.key:
            return None
        inside_of = pc.is_valid(partners(keys, wanted)).to_pylist()
        picked = [path for path, is_one in zip(rows, inside_of, strict=True) if is_one]
        if len(picked) < found.rows.num_rows:
            return None
        chosen.update(picked)
    return {path: candidates[path] for path in sorted(chosen)}


def _batch(rows: pa.Table) -> pa.RecordBatch:
    (batch,) = rows.combine_chunks().to_batches()
    return batch


def add_resolves(
    git: GitRepository,
    merge: KartMerge,
    decided: Mapping[str, Sequence[tuple[str, str]]],
    shown: str,
) -> None:
    """Note what was decided of conflicts: blobs and paths, by the conflict's number."""
    entries = []
    for number, found in decided.items():
        entries.append(FileEntry("100644", _NOTHING, f"{RESOLVES}{number}/resolved"))
        for place, (blob, path) in enumerate(found):
            entries.append(FileEntry("100644", blob, f"{RESOLVES}{number}/{place}/{path}"))
    before = (git.git_directory / "MERGED_TREE").read_text("ascii").strip()
    shown = _with_legends(git, shown, before)
    legends = [
        f"100644 {change.new}\t{change.path}"
        for change in tree_difference(git.objects, before, shown)
        if change.new is not None and _LEGENDS in change.path
    ]
    _write(git, "MERGED_TREE", shown)
    index = git.git_directory / "MERGED_INDEX"
    if not legends and add_entries(index, entries):
        return
    with _editing(git) as environment:
        if legends:
            _put(git, legends, environment)
        _add(git, entries, environment)
        os.replace(environment["GIT_INDEX_FILE"], index)


def drop_kart_merge(git: GitRepository) -> None:
    """Forget the merge that waits; HEAD never moved."""
    for name in _FILES:
        (git.git_directory / name).unlink(missing_ok=True)
    git.git("update-ref", "-d", MERGED_REF, check=False)
