"""Edits that are not committed, row by row, and those that are set aside."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from havasu_vc.errors import HavasuError
from havasu_vc.face.overview import counts_value, edited_value, merge_value
from havasu_vc.face.standing import Query, standing
from havasu_vc.library import Repo
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.diffs import DatasetDiff
from havasu_vc.model.hashing import Hashes, cell_hashes, hash_values, mix
from havasu_vc.review import shown_values
from havasu_vc.writers.rows import side_of
from havasu_vc.writers.values import equal_cells, key_labels, side_columns

__all__ = ["edits", "work"]

MOST_ROWS = 200
"""Rows of a dataset that are listed; the review has more of them."""
MOST_CELLS = 8
LONGEST = 200


def work(repo: Repo, _: Query) -> dict[str, Any]:
    """Return what the view of work shows."""
    found: dict[str, Any] = {
        "head": repo.head_branch,
        "branches": [each.name for each in repo.branches()],
        "edited": edited_value(repo),
        "merge": merge_value(repo),
        "stashes": [],
        "datasets": [],
        "seen": standing(repo, {}),
    }
    found["seen"]["edits"] = "none"
    if repo.git.is_bare:
        return found
    found["stashes"] = [
        {"name": str(each.number), "message": each.message} for each in repo.workspace.stashes()
    ]
    if found["edited"] and found["edited"]["tables"]:
        try:
            found["datasets"], found["seen"]["edits"] = edits(repo)
        except HavasuError as error:
            found["edited"]["problems"].append(error.message)
    return found


def edits(repo: Repo) -> tuple[list[dict[str, Any]], str]:
    """Return what is edited, by dataset, and a text that changes with any of it."""
    if repo.git.is_bare or repo.workspace.changes() is None:
        return [], "none"
    seen = hashlib.sha256()
    found = [_dataset(diff, seen) for diff in repo.workspace.diff()]
    return found, seen.hexdigest()[:20] if found else "none"


def _dataset(diff: DatasetDiff, seen: hashlib._Hash) -> dict[str, Any]:
    counts, rows = ChangeCounts(), list[dict[str, Any]]()
    meta = [each.name for each in diff.meta]
    seen.update(repr((diff.path, meta, diff.header.schema.names)).encode("utf-8", "replace"))
    for batch in diff.changes:
        seen.update(_hashes(diff, batch).tobytes())
        counts += batch.counts
        room = MOST_ROWS - len(rows)
        if room > 0:
            rows += _rows(diff, ChangeBatch(batch.data.slice(0, min(room, len(batch)))))
    return {
        "dataset": diff.path,
        "rows": counts_value(counts),
        "meta": meta,
        "keyed": bool(diff.header.schema.key.names),
        "listed": rows,
    }


def _hashes(diff: DatasetDiff, batch: ChangeBatch) -> Hashes:
    """Return a number for each changed row, of all its cells before and after."""
    found = np.zeros(len(batch), np.uint64)
    for new, side in ((False, batch.old), (True, batch.new)):
        for field, column in side_columns(side, side_of(diff, new=new).schema):
            there = column.is_valid().to_numpy(zero_copy_only=False)
            values = np.where(there, hash_values(column, field), np.uint64(1))
            found = cell_hashes(found, field.id, values)
        found = mix(found + side.is_valid().to_numpy(zero_copy_only=False).astype(np.uint64))
    return found


def _rows(diff: DatasetDiff, batch: ChangeBatch) -> list[dict[str, Any]]:
    """Return rows with the texts of cells that differ, or of all of one that comes or goes."""
    sides = [side_of(diff, new=new).schema for new in (False, True)]
    both = (batch.old, batch.new)
    old, new = (
        {field.id: (field, column) for field, column in side_columns(side, schema)}
        for side, schema in zip(both, sides, strict=True)
    )
    labels = [
        key_labels(side, schema).to_pylist() for side, schema in zip(both, sides, strict=True)
    ]
    comes, goes = (side.is_null().to_pylist() for side in both)
    rows: list[dict[str, Any]] = [
        {
            "key": labels[0][i] if goes[i] else labels[1][i],
            "what": "inserted" if comes[i] else "deleted" if goes[i] else "updated",
            "cells": [],
        }
        for i in range(len(batch))
    ]
    for number in {**old, **new}:
        before, after = old.get(number), new.get(number)
        known = after or before
        if known is None:
            continue
        texts: list[list[str | None]] = [
            [None] * len(batch) if side is None else shown_values(side[1], side[0]).to_pylist()
            for side in (before, after)
        ]
        same = (
            equal_cells(before, after).to_pylist()
            if before is not None and after is not None
            else [False] * len(batch)
        )
        for i, row in enumerate(rows):
            if (row["what"] != "updated" or not same[i]) and len(row["cells"]) < MOST_CELLS:
                row["cells"].append([known[0].name, *(_cut(side[i]) for side in texts)])
    return rows


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:LONGEST]
