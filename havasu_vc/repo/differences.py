"""The differences between two revisions, dataset by dataset."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.digest import hash_keys
from havasu_vc.datasets.kinds import find_kind
from havasu_vc.datasets.tile_sets import is_tile_set, tile_set_diff
from havasu_vc.errors import CorruptionError, HavasuError, InvalidArgumentError, StateError, nearest
from havasu_vc.history.diff import bytes_between, diff_datasets
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.diffs import DatasetDiff
from havasu_vc.model.names import TABLES
from havasu_vc.model.task import run_task
from havasu_vc.repo.filters import DatasetFilter, keys_batch, parse_filters, parse_key
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.soundness import defect_of, raise_last
from havasu_vc.store.revisions import Revision
from havasu_vc.store.trees import DatasetFolder, find_entry

if TYPE_CHECKING:
    from havasu_vc.datasets.protocol import Dataset

__all__ = ["diff_revisions", "moved_datasets", "no_diff"]

_NOT_SHOWN = "{} differs and is not shown: it is of another kind ({})"


def diff_revisions(
    repo: OpenRepo,
    old: Revision,
    new: Revision,
    filters: Sequence[str] = (),
    *,
    skipped: Container[str] = (),
    equal_ones: bool = False,
    tables_only: bool = False,
    moves: bool = False,
    shown: bool = False,
) -> Iterator[DatasetDiff]:
    """Yield how each dataset differs between two revisions; equal trees are passed over.

    So are the datasets that are `skipped`. With `equal_ones` Kart datasets that do not
    differ come too, with nothing that changed. With `moves` a dataset that was moved comes under
    its new path alone, as what differs in it. Where it is `shown`, what Kart tells as a change is
    one. With `tables_only` datasets that are no tables are noted where they differ, unless they
    are asked for; else they are an error. What is wrong with a broken one is raised at the end.
    """
    wanted = parse_filters(filters, of_changes=True, lenient=repo.git.follows_kart)
    before, after = repo.folders(old), repo.folders(new)
    paths = sorted(before.keys() | after.keys())
    wanted.check([*paths, *_files_named(repo, filters, old, new)])

    broken: dict[str, HavasuError] = {}
    moved = moved_datasets(repo, before, after, (old.name, new.name)) if moves else {}
    moved = {path: was for path, was in moved.items() if wanted.of(path) is not None}
    gone = set(moved.values())

    def differing() -> Iterator[DatasetDiff]:
        for path in paths:
            was = moved.get(path)
            first, second = before.get(was or path), after.get(path)
            if (chosen := wanted.of(path)) is None or path in skipped or path in gone:
                continue
            _note_absent(repo, chosen, (first, old), (second, new))
            if was is None and _equal(first, second):
                if equal_ones and second is not None and _is_of_kart(second):
                    yield no_diff(repo.view(second, new.name))
                continue
            if tables_only and (marker := _other_kind(first, second)):
                if all(side is None or is_tile_set(side) for side in (first, second)):
                    yield from _tile_set_diff(repo, path, chosen, first, second)
                    continue
                if not filters:
                    repo.settings.note(_NOT_SHOWN.format(path, marker))
                    continue
            try:
                sides = _view(repo, first, old, shown), _view(repo, second, new)
            except (CorruptionError, StateError) as error:
                broken[path] = error
                continue
            found = replace(_dataset_diff(repo, path, *sides), moved_from=was)
            if chosen.keys is not None and chosen.rows and not chosen.conditions:
                found = _with_rows(found, *sides, chosen.keys)
            yield found
        raise_last(repo, broken)

    return wanted.chosen(differing())


def moved_datasets(
    repo: OpenRepo,
    before: Mapping[str, DatasetFolder],
    after: Mapping[str, DatasetFolder],
    revisions: tuple[str, str],
) -> dict[str, str]:
    """Return where datasets that stand elsewhere now were before, by what stays when they move."""
    gone = [folder for path, folder in before.items() if path not in after]
    come = [folder for path, folder in after.items() if path not in before]
    if not gone or not come:
        return {}
    known = {_identity(repo, folder, revisions[0]): folder.path for folder in gone}
    found = ((folder.path, known.get(_identity(repo, folder, revisions[1]))) for folder in come)
    # A copy of it has the same identity, and only one of them is where it went.
    taken: dict[str, str] = {}
    for path, was in sorted(found):
        if was is not None:
            taken.setdefault(was, path)
    return {path: was for was, path in taken.items()}


def _identity(repo: OpenRepo, folder: DatasetFolder, revision: str) -> str:
    """Return what a dataset keeps when it is moved, be it only all that is in it."""
    known = find_kind(folder.marker) and repo.view(folder, revision).likely_identity
    return known or folder.internals


def _note_absent(
    repo: OpenRepo, chosen: DatasetFilter, *sides: tuple[DatasetFolder | None, Revision]
) -> None:
    """Note rows and meta items that are asked for by name, and that no side has."""
    if any(is_tile_set(folder) for folder, _ in sides):
        return
    views: list[Dataset] = []
    with suppress(CorruptionError, StateError):  # which is told where it differs
        if chosen.keys or chosen.items:
            views = [view for side in sides if (view := _view(repo, *side)) is not None]
    if not views:
        return
    for item in sorted(chosen.items or ()):
        if not any(item in view.header.meta for view in views):
            near = nearest(item, [name for view in views for name in view.header.meta])
            repo.settings.note("; ".join([f"{views[-1].path} has no meta item {item!r}", *near]))
    if not all(view.key and not _is_away(view) for view in views):
        return
    absent = set(chosen.keys or ())
    for view in views:
        absent = _absent_rows(view, absent)
    for text in sorted(absent):
        repo.settings.note(f"{views[-1].path} has no row {text}")


def _absent_rows(view: Dataset, texts: Collection[str]) -> set[str]:
    """Return the keys, of some that can be any, of which a version has no row."""
    keys = {}
    for text in texts:
        with suppress(InvalidArgumentError):  # it is no key there, which is told elsewhere
            keys[text] = keys_batch([text], view.schema)
    wanted = keys_batch([], view.schema) if not keys else pa.concat_batches(keys.values())
    there = hash_keys(view.rows_with_keys(wanted), view.schema)
    found = np.isin(hash_keys(wanted, view.schema), there).tolist()
    return {text for text, is_there in zip(keys, found, strict=True) if not is_there}


def _is_away(view: Dataset) -> bool:
    """Return whether rows would have to be fetched to be looked at."""
    return view.in_files is not None and view.in_files.storage.on_demand


def _tile_set_diff(
    repo: OpenRepo, path: str, chosen: DatasetFilter, *sides: DatasetFolder | None
) -> Iterator[DatasetDiff]:
    """Yield how the items of a set of tiles differ, and note how many tiles do."""
    for diff in tile_set_diff(repo.git.objects, path, *sides, names=chosen.tiles):
        if diff.tiles:
            tiles = "1 tile differs" if diff.tiles == 1 else f"{diff.tiles:,} tiles differ"
            repo.settings.note(f"{path}: {tiles}, which Kart itself shows")
        yield diff


def no_diff(view: Dataset) -> DatasetDiff:
    """Return the diff of a dataset in which nothing changed."""
    return DatasetDiff(view.path, view.header, view.header, (), iter(()))


def _is_of_kart(folder: DatasetFolder) -> bool:
    kind = find_kind(folder.marker)
    return kind is not None and kind.of_kart


def _with_rows(
    diff: DatasetDiff, old: Dataset | None, new: Dataset | None, keys: Collection[str]
) -> DatasetDiff:
    """Return a diff that looks at the rows asked for alone, where paths tell which those are."""
    if old is None or new is None or old.in_files is not None:
        return diff
    if old.compare(new) is None:
        return diff
    found = []
    for key in keys:
        with suppress(InvalidArgumentError):  # which is told where it is of something
            found.append(parse_key(key, new.schema))
    tasks = old.compare_rows(new, found)
    if tasks is None:
        return diff
    batches = (batch for task in tasks for batch in run_task(task))
    return replace(diff, changes=(ChangeBatch(batch) for batch in batches if batch.num_rows))


def _other_kind(*sides: DatasetFolder | None) -> str | None:
    """Return the marker of a dataset that is no table on one side or the other."""
    markers = [side.marker for side in sides if side is not None]
    return next((marker for marker in markers if marker not in TABLES), None)


def _files_named(
    repo: OpenRepo, filters: Sequence[str], old: Revision, new: Revision
) -> Iterator[str]:
    """Yield the filters that are files or folders beside datasets, which are looked at apart."""
    if not repo.git.follows_kart:
        return
    for text in filters:
        path = text.rstrip("/")
        if path and any(find_entry(repo.git.objects, side.tree, path) for side in (old, new)):
            yield path


def _equal(first: DatasetFolder | None, second: DatasetFolder | None) -> bool:
    return first is not None and second is not None and first.internals == second.internals


def _view(
    repo: OpenRepo, folder: DatasetFolder | None, revision: Revision, shown: bool = False
) -> Dataset | None:
    if folder is None:
        return None
    view = repo.view(folder, revision.name)
    if (error := defect_of(view)) is not None:
        raise error
    return view.shown() if shown else view


def _dataset_diff(
    repo: OpenRepo, path: str, old: Dataset | None, new: Dataset | None
) -> DatasetDiff:
    settings = repo.settings
    return diff_datasets(
        path, old, new, lambda: settings.open_engine(bytes_between(old, new)), note=settings.note
    )
