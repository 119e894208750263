"""Rows that commits of a range change and change back, which its ends do not show.

Looked for where that costs little: in a few commits that change few rows together. Each
is compared with its first parent, so what a merge brings is a change of the merge. Rows
that two commits touch are suspects; those that the whole range changes too are cleared
while its changes go by, and what is left stands as it stood.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import pyarrow as pa

from havasu_vc.datasets.protocol import Dataset
from havasu_vc.errors import HavasuError
from havasu_vc.history.diff import row_changes
from havasu_vc.model import compute as pc
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.review.entry_facts import rows_between
from havasu_vc.review.summarising import BatchFindings
from havasu_vc.store.commits import read_commit
from havasu_vc.store.revisions import RevisionRange, merge_base
from havasu_vc.writers.values import plain_text

__all__ = ["RowsThatChangeBack", "Suspects"]

MOST_COMMITS = 30
MOST_ROWS = 50_000
"""Rows that come and leave in all commits of the range together."""


_Step: TypeAlias = tuple[Dataset, Dataset]


class Suspects:
    """Rows of one dataset that several commits touch, until the whole range touches them."""

    def __init__(self, labels: set[str], schema: Schema) -> None:
        self.labels = labels
        """The labels of the rows."""
        self._schema = schema

    def see(self, seen: BatchFindings) -> None:
        """Clear the rows of a batch."""
        if self.labels:
            suspects = pa.array(sorted(self.labels), pa.string())
            labels = _labels(seen.batch, self._schema)
            found = pc.filter(labels, pc.is_in(labels, value_set=suspects))
            self.labels.difference_update(found.to_pylist())


class _TooMany(Exception):
    """More rows changed than are looked at."""


class RowsThatChangeBack:
    """Looks for suspects in the commits of one range."""

    def __init__(self, repo: OpenRepo, ends: RevisionRange) -> None:
        self._repo = repo
        self._steps = _steps(repo, ends)

    def watch(self, path: str) -> Suspects | None:
        """Return what several commits touch of a dataset; None where none do, or it is much."""
        try:
            steps = list(self._versions(path))
            if len(steps) < 2 or not _comparable(steps):
                return None
            return self._suspects(steps)
        except (HavasuError, _TooMany):
            return None  # such as a file of a commit between that is not here

    def _versions(self, path: str) -> Iterator[_Step]:
        """Yield the dataset before and after each commit that changed it."""
        for before, after in self._steps:
            folders = [self._repo.folders(self._repo.resolve(each)) for each in (before, after)]
            old, new = (each.get(path) for each in folders)
            if old is None or new is None:
                # Rows that came with the dataset or went with it are told by other means.
                continue
            if old.internals != new.internals:
                yield self._repo.view(old, before), self._repo.view(new, after)

    def _suspects(self, steps: list[_Step]) -> Suspects | None:
        left = MOST_ROWS
        for old, new in steps:
            moved = rows_between(old, new)
            left -= 0 if moved is None else sum(moved)
        if left < 0:
            return None
        seen: set[str] = set()
        twice: set[str] = set()
        schema = steps[0][1].schema
        with self._repo.settings.open_engine(0) as engine:
            for old, new in steps:
                touched: set[str] = set()
                for batch in row_changes(old, new, engine):
                    touched.update(_labels(batch, schema).to_pylist())
                    if len(touched) > left:  # only entries tell beforehand how many there are
                        raise _TooMany
                left -= len(touched) if rows_between(old, new) is None else 0
                twice |= seen & touched
                seen |= touched
        return Suspects(twice, schema) if twice else None


def _comparable(steps: list[_Step]) -> bool:
    """Whether rows have the same key all the way."""
    names = {view.key.names for step in steps for view in step}
    return len(names) == 1 and names != {()}


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


def _steps(repo: OpenRepo, ends: RevisionRange) -> list[tuple[str, str]]:
    """Return the commits of a range, each after its first parent; empty where they are many."""
    start, end = ends.old.commit, ends.new.commit
    if start is None or end is None or merge_base(repo.git, start, end) != start:
        return []
    if read_commit(repo.git.objects, end).parents == (start,):
        return []
    listed = repo.git.git("rev-list", f"--max-count={MOST_COMMITS + 1}", f"{start}..{end}").text
    commits = listed.split()
    if len(commits) < 2 or len(commits) > MOST_COMMITS:
        return []
    found = []
    for commit in commits:
        parents = read_commit(repo.git.objects, commit).parents
        if parents:
            found.append((parents[0], commit))
    return found
