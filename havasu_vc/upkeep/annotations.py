"""Kart's annotations: how many rows each commit changed, noted where Kart looks that up.

Nothing of ours needs them, as rows are counted when that is asked for. Kart shows them at once,
where it would guess or count.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

from havasu_vc.errors import StorageError
from havasu_vc.model.changes import count_changes
from havasu_vc.repo.differences import diff_revisions
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.objects import EMPTY_TREE

__all__ = ["annotate"]

FILE = "annotations.db"
"""Its name in the git directory."""
_TABLE = """
CREATE TABLE IF NOT EXISTS kart_annotations (
    id INTEGER NOT NULL,
    object_id TEXT NOT NULL,
    annotation_type TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT kart_annotations_multicol UNIQUE (annotation_type, object_id) ON CONFLICT REPLACE
)
"""
_KIND = "feature-change-counts-exact"


def annotate(repo: OpenRepo, revision: str) -> dict[str, int]:
    """Note how many rows of each dataset a commit changed of its first parent, and return it."""
    old, new = repo.resolve(f"{revision}^?"), repo.resolve(revision)
    counts = {
        diff.path: total
        for diff in diff_revisions(repo, old, new, tables_only=True)
        if (total := count_changes(diff.changes).total)
    }
    # Either way round they are one difference.
    ends = "...".join(sorted(each.tree or EMPTY_TREE for each in (old, new)))
    path = repo.git.git_directory / FILE
    try:
        with closing(sqlite3.connect(path)) as database, database:
            database.execute(_TABLE)
            database.execute(
                "INSERT INTO kart_annotations (object_id, annotation_type, data) VALUES (?, ?, ?)",
                (ends, _KIND, json.dumps(counts)),
            )
    except sqlite3.Error as error:
        raise StorageError(f"{path} cannot be written: {error}") from error
    return counts
