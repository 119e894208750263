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
"""

from __future__ import annotations

from collections.abc import Sequence

from havasu_vc.datasets.havasu.checks import check_contents
from havasu_vc.datasets.havasu.ledger import mending_blobs
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import NoChangesError, NotYetSupportedError, UnfinishedMergeError
from havasu_vc.formats.havasu.entry import Content
from havasu_vc.formats.havasu.markers import FOLDER as EDITS
from havasu_vc.formats.havasu.properties import DATASET, Digest
from havasu_vc.history.summing import add_up

__all__ = ["has_files_of", "repair_dataset"]

_HINTS = ("`havasu-vc repair DATASET --from COMMIT` takes it as it is there",)


def repair_dataset(
    view: HavasuDataset, engine: Engine, *, parents: Sequence[HavasuDataset] = ()
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


def has_files_of(view: HavasuDataset, parent: HavasuDataset) -> bool:
    """Whether a dataset has the files and the columns of a parent that is sound."""
    try:
        parent.check_guard()
    except UnfinishedMergeError:
        return False
    return all(
        view.folder.tree_id(name) == parent.folder.tree_id(name)
        for name in ("files", "data", "columns")
    )


def _as_in(view: HavasuDataset, parent: HavasuDataset) -> TreeEdit:
    """Return the edit that brings all but texts back to what a parent has."""
    blobs: dict[str, bytes | None] = {EDITS: None}
    for name, blob in parent.folder.blobs(EDITS):
        blobs[f"{EDITS}/{name}"] = parent.folder.read_blob(blob)
    for name, _, after in view.folder.difference(parent.folder, "meta"):
        if name not in ("title", "description"):
            blobs[f"meta/{name}"] = None if after is None else parent.folder.read_blob(after)
    blobs[DATASET] = parent.folder.read(DATASET)
    return TreeEdit(view.path, blobs)


def _summed(view: HavasuDataset, engine: Engine) -> tuple[int, dict[int, Digest]]:
    """Return the sums of a dataset, from its rows."""
    rows, digests = add_up(view.scan(), view.schema, engine, description=f"Reading {view.path}")
    entries = view.entries.values()
    deleted = sum(sum(entry.targets.values()) for entry in entries)
    stored = sum(entry.rows for entry in entries if entry.content is Content.DATA)
    if stored - deleted != rows:
        raise _refusal(view, "both sides deleted the same rows")
    return rows, digests


def _refusal(view: HavasuDataset, reason: str) -> NotYetSupportedError:
    return NotYetSupportedError(
        f"{view.path} at {view.revision} has to be merged row by row: {reason}", hints=_HINTS
    )
