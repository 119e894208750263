"""Lines of `fsck` about a working copy where this program is `kart`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from havasu_vc.cli.errors import visible
from havasu_vc.cli.kart.items import place_of_item
from havasu_vc.errors import HavasuError
from havasu_vc.model.commits import ChangeCounts

if TYPE_CHECKING:
    from havasu_vc.checkouts import LivingCopy
    from havasu_vc.library import Repo
    from havasu_vc.model.changes import ChangeBatch
    from havasu_vc.model.diffs import DatasetDiff

__all__ = ["STOPPED", "lines_of_fsck"]

STOPPED = "Can't do any further checks"
"""The last line where a table is edited, with which Kart ends."""
_NONE = "␀"
"""In the place of a key that is none, and of one that stays."""


def lines_of_fsck(repo: Repo, reset: Sequence[str]) -> Iterator[str]:
    """Yield Kart's lines before anything is compared, or after tables were made anew."""
    yield "Checking repository integrity..."
    living = repo.workspace.living
    if living is None:
        if repo.git.is_bare or not repo.git.config.get("kart.workingcopy.location"):
            yield "No working copy configured"
        return
    yield f"✔︎ Working copy: {visible(living.name)}"
    if reset:
        yield f"Resetting working copy for {visible(', '.join(reset))} ..."
    else:
        with suppress(HavasuError):  # which is told as a problem
            yield from _lines_of_tables(repo, living)


def _lines_of_tables(repo: Repo, living: LivingCopy) -> Iterator[str]:
    if living.tree == repo.head().tree:
        shown = f"<pygit2.Object{{tree:{living.tree}}}>"
        yield f"✔︎ Working Copy tree id matches repository: {shown}"
    edited, left_out = living.edited(), repo.workspace.left_out
    for path in repo.datasets():
        if path in left_out:
            continue
        keys = ", ".join(f'"{name}"' for name in repo.dataset(path).key.names)
        counts = edited[path].counts if path in edited else ChangeCounts()
        table, rows = visible(path.replace("/", "__")), repo.count_rows(path)
        here = rows + counts.inserts - counts.deletes
        yield ""
        yield f"Dataset: '{visible(path)}/' (table: '{table}')"
        yield f"Primary key field for table: {visible(keys)}"
        yield f"{here} features in {table}"
        if here != rows:
            yield (f"✘ Feature Count mismatch between repo ({rows}) & working-copy table ({here})")
        yield f"{counts.total} rows marked as changed in working-copy"
        if path in edited:
            yield "! Working copy appears dirty according to the index"
            for diff in repo.workspace.diff(None, [path]):
                yield from _lines_of_edits(diff)
            yield STOPPED
            return
        yield "Checking features..."


def _lines_of_edits(diff: DatasetDiff) -> Iterator[str]:
    """Yield which meta items and rows were edited."""
    path = visible(diff.path)
    if diff.meta:
        yield f"{path}:meta: ({len(diff.meta)})"
        names = sorted((change.name for change in diff.meta), key=place_of_item)
        yield from (f"{path}:meta:{visible(name)}" for name in names)
    rows = [line for batch in diff.changes for line in _lines_of_rows(batch, diff)]
    if rows:
        yield f"{path}:feature: ({len(rows)})"
        yield from rows


def _lines_of_rows(batch: ChangeBatch, diff: DatasetDiff) -> Iterator[str]:
    from havasu_vc.writers.values import key_labels

    header = diff.header
    sides = (
        key_labels(side, (before or header).schema).to_pylist()
        for side, before in ((batch.old, diff.old), (batch.new, diff.new))
    )
    for old, new in zip(*sides, strict=True):
        kind = "I" if old is None else "D" if new is None else "U"
        yield f" {kind} {visible(_NONE if old is None else old):>12} → " + (
            visible(new) if old is None else _NONE
        )
