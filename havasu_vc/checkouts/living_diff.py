"""Edits of a living working copy, as differences from a dataset or from another revision.

A table is compared by the edits that it knows of; only from a revision that it was not made of
are rows of two datasets compared, one of them with the edits in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial

from havasu_vc.checkouts.living_edits import base_of, base_views, goal_of, read_layer
from havasu_vc.checkouts.living_shown import as_shown, hidden_lines
from havasu_vc.datasets.kinds import is_of_kart
from havasu_vc.exchange.living_store import LivingHome
from havasu_vc.history.diff import diff_datasets
from havasu_vc.model.diffs import DatasetDiff
from havasu_vc.repo.differences import no_diff
from havasu_vc.repo.filters import parse_filters
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.spatial_filters import diffs_inside
from havasu_vc.store.revisions import Revision

__all__ = ["diff_copy"]


def diff_copy(
    repo: OpenRepo,
    home: LivingHome,
    revision: str | None,
    filters: Sequence[str],
    told: Collection[str],
    *,
    equal_ones: bool = False,
) -> Iterator[DatasetDiff]:
    """Yield how each table differs from the dataset that it was made of, or from a revision.

    Datasets that are `told` elsewhere are left out where they are not edited here. With
    `equal_ones` Kart datasets that do not differ come too, with nothing that changed.
    """
    if revision is None and repo.git.kart_merge is not None:
        revision = "HEAD"  # as in Kart, what merged cleanly is part of what differs
    old = None if revision is None else repo.revision(revision, or_tree=True)
    if old is not None and old.tree != goal_of(repo).tree:
        yield from _diff_from(repo, home, old, filters, told, equal_ones=equal_ones)
        return
    wanted = parse_filters(filters, of_changes=True, lenient=repo.git.follows_kart)
    with home.open() as file:
        base = base_of(repo, file)
        wanted.check(base.views)
        for path, view in base.views.items():
            if wanted.of(path) is None:
                continue
            edits = read_layer(repo, file, view)
            for note in edits.notes:
                repo.settings.note(note)
            if edits.is_empty:
                if equal_ones and is_of_kart(view.header.kind):
                    yield no_diff(view)
                continue
            for line in hidden_lines([edits]):
                repo.settings.note(
                    "Warning: inserted rows have keys of rows outside of the spatial filter, "
                    f"and would overwrite these if committed. {line}"
                )
            found = wanted.apply(edits.diff(repo))
            if found is not None:
                yield as_shown(repo, found)


def _diff_from(
    repo: OpenRepo,
    home: LivingHome,
    old: Revision,
    filters: Sequence[str],
    told: Collection[str],
    *,
    equal_ones: bool,
) -> Iterator[DatasetDiff]:
    """Yield how each table differs from a revision that is not the one that it was made of."""
    from havasu_vc.repo.transaction import Transaction

    wanted = parse_filters(filters, of_changes=True, lenient=repo.git.follows_kart)
    before = base_views(repo, old)
    with home.open() as file, Transaction(repo, dry_run=True) as transaction:
        base = base_of(repo, file)
        paths = sorted(before.keys() | base.views.keys())
        wanted.check(paths)
        for path in paths:
            if wanted.of(path) is None:
                continue
            first, second = before.get(path), base.views.get(path)
            edited = {}
            if second is not None:
                edits = read_layer(repo, file, second)
                if path in told and edits.is_empty:
                    continue
                second = second.with_storage(transaction.storage)
                if edits.is_dropped:
                    second = None
                elif not edits.is_empty:
                    second = second.after(edits.edit(second, any_value=True))
                    edited = {path: edits.row_keys} if second.key else {}
            if (first and first.folder) == (second and second.folder):
                if equal_ones and first is not None and is_of_kart(first.header.kind):
                    yield no_diff(first)
                continue
            size = sum(view.size for view in (first, second) if view is not None)
            first = first and first.shown()
            diff = diff_datasets(path, first, second, partial(repo.settings.open_engine, size))
            (diff,) = diffs_inside(repo, [diff], edited)
            found = wanted.apply(diff)
            if found is not None:
                yield as_shown(repo, found) if edited else found
