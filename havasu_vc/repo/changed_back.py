"""Rows that commits of a range change and change back, which its ends do not show.

Looked for where that costs little: a branch of a few commits without merges, each of
few rows as its entries tell. Rows that two commits touch are suspects; those that the
whole range changes too are cleared while its changes go by.
"""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from havasu_vc.datasets.any import AnyDataset
from havasu_vc.errors import HavasuError
from havasu_vc.history.diff import row_changes
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field
from havasu_vc.repo.entry_facts import rows_between
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.review.summarising import Seen
from havasu_vc.store.commits import read_commit
from havasu_vc.store.revisions import Range
from havasu_vc.writers.values import plain_text

__all__ = ["RowsThatChangeBack", "Suspects"]

MOST_COMMITS = 30
MOST_ROWS = 50_000
"""Rows that come and leave in all commits of the range together."""


class Suspects:
    """Rows of one dataset that several commits touch, until the whole range touches them."""

    def __init__(self, labels: set[str], schema: Schema) -> None:
        self.labels = labels
        """What the rows are called."""
        self._schema = schema

    def see(self, seen: Seen) -> None:
        """Clear the rows of a batch."""
        if self.labels:
            suspects = pa.array(sorted(self.labels), pa.string())
            labels = _labels(seen.batch, self._schema)
            found = labels.filter(pc.is_in(labels, value_set=suspects))
            self.labels.difference_update(found.to_pylist())


class RowsThatChangeBack:
    """Looks for suspects in the commits of one range."""

    def __init__(self, repo: OpenRepo, ends: Range) -> None:
        self._repo = repo
        self._commits = _line(repo, ends)

    def watch(self, path: str) -> Suspects | None:
        """Return what several commits touch of a dataset; None where none do, or it is much."""
        versions: list[AnyDataset] = []
        for commit in self._commits:
            folder = self._repo.folders(self._repo.resolve(commit)).get(path)
            if folder is None:
                return None
            versions.append(self._repo.view(folder, commit))
        steps = [(old, new) for old, new in pairwise(versions) if old.folder != new.folder]
        names = {view.key.names for view in versions}
        if len(steps) < 2 or len(names) != 1 or names == {()}:
            return None
        rows = 0
        for old, new in steps:
            moved = rows_between(old, new)
            if moved is None:
                return None
            rows += sum(moved)
        return self._suspects(steps) if rows <= MOST_ROWS else None

    def _suspects(self, steps: list[tuple[AnyDataset, AnyDataset]]) -> Suspects | None:
        seen: set[str] = set()
        twice: set[str] = set()
        schema = steps[-1][1].schema
        try:
            with self._repo.settings.open_engine(0) as engine:
                for old, new in steps:
                    touched: set[str] = set()
                    for batch in row_changes(old, new, engine):
                        touched.update(_labels(batch, schema).to_pylist())
                    twice |= seen & touched
                    seen |= touched
        except HavasuError:
            return None  # a file of a commit between is not here
        return Suspects(twice, schema) if twice else None


def _labels(batch: ChangeBatch, schema: Schema) -> pa.StringArray:
    old, new = (
        pc.binary_join_element_wise(
            *(plain_text(pc.struct_field(side, name), _field(schema, name)) for name in key), ","
        )
        for key in (schema.key.names,)
        for side in (batch.old, batch.new)
    )
    return pc.coalesce(new, old)


def _field(schema: Schema, name: str) -> Field:
    return next(field for field in schema.fields if field.name == name)


def _line(repo: OpenRepo, ends: Range) -> list[str]:
    """Return the commits from one end to the other, both with; empty where that is no line."""
    start, commit = ends.old.commit, ends.new.commit
    found: list[str] = []
    while commit is not None and commit != start and len(found) <= MOST_COMMITS:
        found.append(commit)
        parents = read_commit(repo.git.objects, commit).parents
        if len(parents) != 1:
            return []
        commit = parents[0]
    if commit is None or commit != start or len(found) < 2:
        return []
    return [commit, *reversed(found)]
