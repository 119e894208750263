"""Repairing a dataset that a merge by git, or a hand, left unsound.

    one parent's files   what stands there is, file for file, one parent's: its sums hold
    sound files          files, rows and keys agree among themselves: the sums are made anew
    anything else        has to be merged row by row, from the commit's parents

Where two sides edited different rows and neither rewrote a file that the other deleted
rows of, sound files are just what a merge would give. That is for the caller to know:
rows that one side moved to another file outlive their deletion by the other. Where both
touched a row, a key stands twice or a row is deleted twice, and that is refused. Rows
without a key can be told apart only by a merge: equal ones that both sides added would
count once.

Moving datasets away from paths that could do harm, so that they can be used again.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from functools import partial

from havasu_vc.datasets.commit_plans import MergedTree
from havasu_vc.datasets.havasu.checks import check_contents
from havasu_vc.datasets.havasu.ledger import mending_blobs
from havasu_vc.datasets.protocol import DatasetInFiles, TreeEdit
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import (
    CorruptDatasetError,
    InvalidNameError,
    NoChangesError,
    NotYetSupportedError,
    UnfinishedMergeError,
)
from havasu_vc.formats.havasu.entry import Content
from havasu_vc.formats.havasu.markers import FOLDER as EDITS
from havasu_vc.formats.havasu.properties import DATASET, Digest
from havasu_vc.history.summing import add_up
from havasu_vc.model.names import check_dataset_path
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.transaction import Transaction
from havasu_vc.store.trees import DatasetFolder, find_datasets

__all__ = ["give_harmless_paths", "has_files_of", "repair_dataset", "sums_of_rows"]

_HINTS = ("`havasu-vc repair DATASET --from COMMIT` takes it as it is there",)


def repair_dataset(
    view: DatasetInFiles, engine: Engine, *, parents: Sequence[DatasetInFiles] = ()
) -> TreeEdit:
    """Return the edit that makes a dataset sound.

    `parents` are the dataset in the commit's parents, as many as have it. Raises
    `NotYetSupportedError` where rows must be merged, `NoChangesError` where all is well.
    """
    try:
        view.check_guard()
    except UnfinishedMergeError:
        pass
    else:
        raise NoChangesError(f"{view.path} needs no repair: it is sound")
    for parent in parents:
        if has_files_of(view, parent):
            return _as_in(view, parent)
    if parents:
        # Files that are sound may still hold rows that the other side deleted.
        raise NotYetSupportedError(
            f"{view.path} at {view.revision} has to be merged row by row, and HEAD does not tell "
            "from which commit",
            hints=_HINTS,
        )
    if not view.key:
        raise _refusal(view, "it has no key to tell rows apart")
    finding = next(check_contents(view, engine, full=True, summed=False), None)
    if finding is not None:
        raise _refusal(view, f"{finding.where}: {finding.message}")
    rows, digests = _summed(view, engine)
    return TreeEdit(view.path, mending_blobs(view, rows, digests))


def sums_of_rows(view: DatasetInFiles, engine: Engine) -> TreeEdit | None:
    """Return the edit that gives a sound dataset the sums of its rows; None where it has them.

    git may have brought a column back, by reverting its drop: rows that were deleted meanwhile
    had values in it that no delta has taken away.
    """
    view.check_guard()
    finding = next(check_contents(view, engine, full=True, summed=False), None)
    if finding is not None:
        raise CorruptDatasetError(finding.where, finding.message)
    rows, digests = _summed(view, engine)
    if (rows, digests) == (view.rows, dict(view.snapshot.digests)):
        return None
    return TreeEdit(view.path, mending_blobs(view, rows, digests))


def has_files_of(view: DatasetInFiles, parent: DatasetInFiles) -> bool:
    """Whether a dataset has the files and the columns of a parent that is sound."""
    try:
        parent.check_guard()
    except UnfinishedMergeError:
        return False
    return all(
        view.folder.tree_id(name) == parent.folder.tree_id(name)
        for name in ("files", "data", "columns")
    )


def _as_in(view: DatasetInFiles, parent: DatasetInFiles) -> TreeEdit:
    """Return the edit that brings all but texts back to what a parent has."""
    blobs: dict[str, bytes | None] = {EDITS: None}
    for name, blob in parent.folder.blobs(EDITS):
        blobs[f"{EDITS}/{name}"] = parent.folder.read_blob(blob)
    for name, _, after in view.folder.difference(parent.folder, "meta"):
        if name not in ("title", "description"):
            blobs[f"meta/{name}"] = None if after is None else parent.folder.read_blob(after)
    blobs[DATASET] = parent.folder.read(DATASET)
    return TreeEdit(view.path, blobs)


def _summed(view: DatasetInFiles, engine: Engine) -> tuple[int, dict[int, Digest]]:
    """Return the sums of a dataset, from its rows."""
    what, anywhere = f"Reading {view.path}", not view.storage.on_demand
    rows, digests = add_up(view.scan(), view.schema, engine, description=what, anywhere=anywhere)
    entries = view.entries.values()
    deleted = sum(sum(entry.targets.values()) for entry in entries)
    stored = sum(entry.rows for entry in entries if entry.content is Content.DATA)
    if stored - deleted != rows:
        raise _refusal(view, "both sides deleted the same rows")
    return rows, digests


def _refusal(view: DatasetInFiles, reason: str) -> NotYetSupportedError:
    return NotYetSupportedError(
        f"{view.path} at {view.revision} has to be merged row by row: {reason}", hints=_HINTS
    )


def give_harmless_paths(
    repo: OpenRepo, only: Sequence[str] = (), message: str | None = None
) -> dict[str, str]:
    """Commit datasets of HEAD, all or some, at paths that do no harm; tell of each where it went.

    What a dataset holds stays as it is.
    """
    head = repo.head()
    odd: dict[str, DatasetFolder] = {}
    known = find_datasets(repo.git.objects, head.tree, partial(_note, odd, only))
    if not odd:
        return {}
    taken = [folder.path for folder in known]
    trees: dict[str, str | None] = {}
    markers: dict[str, str] = {}
    said = {}
    for path, folder in odd.items():
        new = _harmless(path, taken)
        taken.append(new)
        trees |= {path: None, new: folder.internals}
        markers |= {path: folder.marker, new: folder.marker}
        said[path] = f"{path!r} is at {new} now"
    with Transaction(repo) as transaction:
        transaction.require_head(head.commit)
        text = message or f"Repair {', '.join(map(repr, odd))}"
        transaction.commit([], text, merge=MergedTree({}, trees, (), markers))
    return said


def _note(
    odd: dict[str, DatasetFolder], only: Container[str], folder: DatasetFolder, _: str
) -> None:
    if not only or folder.path in only:
        odd[folder.path] = folder


def _harmless(path: str, taken: Iterable[str]) -> str:
    r"""Return a path like another one at which a dataset can be made.

    >>> _harmless("nz/a\nb", ["nz/a_b"])
    'nz/a_b_2'
    """
    parts = (re.sub(r"[^\w.-]+", "_", part).strip(".- ") for part in path.split("/"))
    name = "/".join(part or "_" for part in parts)
    for number in range(1, 1000):
        found = name if number == 1 else f"{name}_{number}"
        try:
            check_dataset_path(found, taken)
        except InvalidNameError:
            continue
        return found
    raise InvalidNameError(path, "no name like it is free")
