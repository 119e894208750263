"""Copies to edit elsewhere: a GeoPackage for QGIS that remembers its commit, and its return.

A copy is compared by key with the commit that it is of. Rows that are missing were
deleted, columns that differ were changed. When HEAD's dataset is no longer that of the
copy's commit, what was edited is merged with it row by row; cells that both changed are
for the person to decide, so then nothing is committed.

Tables that an editor made in the living working copy become datasets.

They are imported as from any other place; a GeoPackage from a copy, since the file is held
meanwhile. Then the table is taken for the dataset's as it stands, and tracked from then on.
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from havasu_vc.checkouts import drafted, require_no_link, require_other_file, working_copy
from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.datasets.havasu.far import as_read
from havasu_vc.datasets.protocol import Dataset, TreeEdit
from havasu_vc.datasets.storage import Storage
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import (
    ConflictError,
    HavasuError,
    InvalidArgumentError,
    InvalidFileError,
    NoChangesError,
    NotFoundError,
    NoWorkingCopyError,
    RevisionNotFoundError,
    SourceNotFoundError,
    StorageError,
    UncommittedChangesError,
)
from havasu_vc.exchange.edit_copy import (
    EditedLayer,
    LayerToEdit,
    edited_cells,
    read_edit_copy,
    write_edit_copy,
)
from havasu_vc.exchange.edit_state import STYLES, Move, move_state, other_tables, read_states
from havasu_vc.exchange.replacing import require_unheld
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.exchange.sources import open_sources
from havasu_vc.history.diff import diff_datasets
from havasu_vc.looking import Table
from havasu_vc.model.diffs import DatasetDiff
from havasu_vc.model.evolution import (
    check_evolution,
    field_ids,
    match_by_name,
    with_ids,
    with_stored_names,
)
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import task_of
from havasu_vc.repo.edits import EditMaker, commit_edits
from havasu_vc.repo.filters import RepoFilter, parse_filters
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.rebasing import part_of, rebase_edit
from havasu_vc.repo.results import CommitResult, ExportResult, ImportResult
from havasu_vc.repo.soundness import require_sound, sound_datasets
from havasu_vc.store.commits import read_commit
from havasu_vc.store.objects import Draft
from havasu_vc.store.trees import DatasetFolder
from havasu_vc.transfer.exports import ELSEWHERE
from havasu_vc.transfer.imports import import_layers, renamed, replacement
from havasu_vc.transfer.requests import CopyCommitRequest, CopyRequest, ImportRequest

__all__ = ["add_datasets", "checkout_as", "commit_from", "diff_copy"]


def checkout_as(repo: OpenRepo, request: CopyRequest) -> ExportResult:
    """Write datasets to a GeoPackage to edit, which remembers the commit it is of.

    `overwrite` replaces a file that holds nothing which no commit has, neither edits nor
    layers that are no copy of a dataset; with `discard_changes` any, but never one that
    another program has open.
    """
    file = request.file
    file = Path(file)
    require_other_file(repo, file, ELSEWHERE)
    commit = repo.resolve(request.revision).commit
    if commit is None:
        raise RevisionNotFoundError(request.revision)
    views = [
        as_read(repo.dataset(path, commit))
        for path in request.datasets or sound_datasets(repo, commit)
    ]
    if not views:
        raise NotFoundError("there is no dataset to check out")
    if request.overwrite and not request.discard_changes and file.is_file():
        _require_nothing_lost(repo, file)
    layers = [LayerToEdit(v.header, Table(v, repo.settings).to_batches()) for v in views]
    written = write_edit_copy(file, layers, commit, overwrite=request.overwrite)
    return ExportResult(str(file), written.rows, written.notes)


def _require_nothing_lost(repo: OpenRepo, file: Path) -> None:
    """Raise `UncommittedChangesError` when a file holds what no commit has."""
    require_unheld(file)
    try:
        states = read_states(file)
        others = other_tables(file, [state.table for state in states])
    except InvalidFileError as error:
        raise UncommittedChangesError(
            f"{file} is no copy of this repository's datasets, so what it holds would be lost",
            hints=("write to another file, or add --discard-changes",),
        ) from error
    lost = [_counted_table(name, rows) for name, rows in others.items()]
    lost += _edits_in(repo, file)
    if lost:
        raise UncommittedChangesError(
            f"{file} holds what would be lost: {'; '.join(lost)}",
            hints=(
                f"`havasu-vc commit --from {shlex.quote(str(file))}` takes edits in, and "
                f"`havasu-vc import {shlex.quote(str(file))} --layer NAME` another layer; "
                "--discard-changes drops them",
            ),
        )


def _counted_table(name: str, rows: int) -> str:
    return f"the table {name!r} ({rows:,} row{'' if rows == 1 else 's'})"


def _edits_in(repo: OpenRepo, file: Path) -> Iterator[str]:
    """Yield what was edited in a copy and is not committed, in words."""
    try:
        found = _commit_from(repo, file, None, None, dry_run=True, allow_empty=False)
    except HavasuError as error:
        yield f"edits that cannot be told apart: {error.message}"
        return
    for path, counts in found.changes.items():
        if counts.total:
            yield f"{counts.total:,} edited row{'' if counts.total == 1 else 's'} of {path}"
    for path, items in found.meta.items():
        if items:
            yield f"edited columns of {path}"


def commit_from(repo: OpenRepo, request: CopyCommitRequest) -> CommitResult:
    """Commit the edits made in a copy that `checkout_as` or `export` wrote.

    With filters, only what these name; the rest is still to be committed then. It is refused where
    HEAD has a broken dataset, unless that is allowed.
    """
    require_other_file(repo, request.file, "`havasu-vc commit` commits what was edited in it")
    require_no_link(repo, request.file)
    head = replace(repo.head(), name="HEAD")
    require_sound(repo, head, what="this commit", allowed=request.allow_broken)
    return _commit_from(
        repo,
        Path(request.file),
        request.dataset,
        request.message,
        wanted=parse_filters(request.filters, of_changes=True) if request.filters else None,
        dry_run=request.dry_run,
        allow_empty=request.allow_empty,
    )


def _commit_from(
    repo: OpenRepo,
    file: Path,
    dataset: str | None,
    message: str | None,
    *,
    wanted: RepoFilter | None = None,
    dry_run: bool,
    allow_empty: bool,
) -> CommitResult:
    if not file.exists():
        raise SourceNotFoundError(f"there is no file {file}")
    notes: list[str] = []
    layers: list[EditedLayer] = []
    others: dict[str, int] = {}
    if _is_geopackage(file):
        layers = _layers(file, dataset, notes)
        others = other_tables(file, [state.table for state in read_states(file)])
        others.pop(STYLES, None)
        makers = [(layer.dataset, _layer_maker(repo, file, layer)) for layer in layers]
    else:
        makers = [_file_maker(repo, file, dataset)]
    if wanted is not None:
        wanted.check([path for path, _ in makers], f"in {file.name}")
        makers = [
            (path, _part_maker(repo, make, wanted))
            for path, make in makers
            if wanted.of(path) is not None
        ]
        layers = []  # the copy holds more than what is committed
    notes.extend(
        f"{_counted_table(*each)} is not committed: no dataset has it" for each in others.items()
    )
    if others:
        name = next(iter(others))
        notes.append(
            f"`havasu-vc import {shlex.quote(str(file))} --layer {shlex.quote(name)}` makes it "
            "a dataset"
        )
    result = commit_edits(
        repo,
        makers,
        message or f"Commit edits from {file.name}",
        dry_run=dry_run,
        allow_empty=allow_empty,
    )
    result = replace(result, notes=tuple(notes))
    if result.commit is None and not dry_run:
        raise NoChangesError(f"{file} has no edits to commit", hints=tuple(notes))
    if result.commit is not None:
        note = _move_copy(repo, file, layers, result.commit)
        return replace(result, notes=(*result.notes, *note))
    return result


def diff_copy(
    repo: OpenRepo, file: str | Path, filters: Sequence[str] = (), revision: str | None = None
) -> Iterator[DatasetDiff]:
    """Yield what was edited in a copy: how each dataset differs from the commit that it is of.

    A copy that knows no commit is compared with HEAD; with a revision, each is with that.
    """
    require_other_file(repo, file, "`havasu-vc diff` shows what is edited in it")
    require_no_link(repo, file)
    file = Path(file)
    if not file.exists():
        raise SourceNotFoundError(f"there is no file {file}")
    wanted = parse_filters(filters, of_changes=True)
    sides: list[tuple[Dataset, EditMaker]] = []
    if _is_geopackage(file):
        notes: list[str] = []
        for layer in _layers(file, None, notes):
            folder = _layer_folder(repo, file, layer)
            sides.append((repo.view(folder, layer.commit[:10]), partial(_layer_edit, layer)))
        for note in notes:
            repo.settings.note(note)
    else:
        named = {each.partition(":")[0] for each in filters}
        path, make = _file_maker(repo, file, named.pop() if len(named) == 1 else None)
        sides.append((repo.dataset(path), make))
    wanted.check([view.path for view, _ in sides], f"in {file.name}")
    old = repo.folders(repo.resolve("HEAD" if revision is None else revision))
    return wanted.chosen(_differing(repo, sides, wanted, old, file, revision))


def _differing(
    repo: OpenRepo,
    sides: Sequence[tuple[Dataset, EditMaker]],
    wanted: RepoFilter,
    old: Mapping[str, DatasetFolder],
    file: Path,
    revision: str | None,
) -> Iterator[DatasetDiff]:
    """Yield how datasets differ from what edits make of them, or `old` ones of a revision do."""
    for view, make in sides:
        path, before = view.path, old.get(view.path)
        if wanted.of(path) is None:
            continue
        draft = drafted(repo, partial(_edited, repo, view, make))
        engine = partial(repo.settings.open_engine, 2 * view.size)
        tree = view.folder.tree if isinstance(view.folder, TreeFolder) else None
        known = before is not None and before.internals == tree
        if revision is not None and not known:
            first = None if before is None else repo.view(before, revision)
            yield diff_datasets(path, first, draft, engine, note=repo.settings.note)
        elif draft.folder is not view.folder:
            if not known:
                repo.settings.note(
                    f"{path} was changed since {file.name} was written: `havasu-vc diff --from "
                    f"{shlex.quote(str(file))} HEAD` compares with it as it is now"
                )
            yield diff_datasets(path, view, draft, engine, note=repo.settings.note)


def _edited(repo: OpenRepo, view: Dataset, make: EditMaker, storage: Storage) -> Dataset:
    """Return a dataset as an edit makes it; as it is, where that changes nothing."""
    base = view.with_storage(replace(storage, sink=Draft(repo.git.objects)))
    with repo.settings.open_engine(base.size) as engine:
        edit = make(base, engine)
    return base.after(edit, "the copy") if edit.blobs else base


def _part_maker(repo: OpenRepo, make: EditMaker, wanted: RepoFilter) -> EditMaker:
    """Return what makes the part of an edit that filters name."""

    def made(view: Dataset, engine: Engine) -> TreeEdit:
        return part_of(repo, view, make(view, engine), wanted)

    return made


def _move_copy(
    repo: OpenRepo, file: Path, layers: Sequence[EditedLayer], commit: str
) -> tuple[str, ...]:
    """Let a copy remember the commit that it is of now, so that it can be edited on.

    Only layers that the commit took as they are: where others committed meanwhile, the
    dataset holds more than the layer.
    """
    (parent, *_) = read_commit(repo.git.objects, commit).parents
    before = repo.folders(repo.resolve(parent))
    kept = []
    merged = []
    for layer in layers:
        then = repo.folders(repo.resolve(layer.commit)).get(layer.dataset)
        now = before.get(layer.dataset)
        if then is not None and now is not None and then.internals == now.internals:
            kept.append(layer)
        else:
            merged.append(layer.dataset)
    notes = [
        f"{path} has changed since this copy was made; a new copy has all of it" for path in merged
    ]
    try:
        moves = {
            layer.dataset: Move(repo.dataset(layer.dataset, commit).schema, edited_cells(layer))
            for layer in kept
        }
        move_state(file, commit, moves)
    except (InvalidFileError, StorageError) as error:
        notes.append(f"make a new copy before you edit on: {error.message}")
    return tuple(notes)


def _layers(file: Path, dataset: str | None, notes: list[str]) -> list[EditedLayer]:
    """Return the layers of a copy that can be committed."""
    copy = read_edit_copy(file)
    notes.extend(
        f"{file.name} has no layer for {path} any more; the dataset is left as it is"
        for path in copy.missing
    )
    layers = [layer for layer in copy.layers if dataset in (None, layer.dataset)]
    if not layers:
        if dataset is None:
            raise InvalidFileError(
                str(file),
                "none of the layers that it was made with is there any more",
                hints=("make a new copy with `havasu-vc checkout --as`",),
            )
        held = ", ".join(layer.dataset for layer in copy.layers)
        raise InvalidArgumentError(
            f"{file} holds no copy of {dataset}", hints=(f"it holds {held}",) if held else ()
        )
    return layers


def _is_geopackage(file: Path) -> bool:
    return file.suffix.lower() == ".gpkg"


def _layer_folder(repo: OpenRepo, file: Path, layer: EditedLayer) -> DatasetFolder:
    """Return the dataset that a layer was made from, or an error."""
    path = layer.dataset
    try:
        then = repo.folders(repo.resolve(layer.commit)).get(path)
    except RevisionNotFoundError as error:
        raise InvalidFileError(
            str(file), f"it was made from commit {layer.commit}, which is not in this repository"
        ) from error
    if then is None:
        raise InvalidFileError(
            str(file), f"the commit {layer.commit[:10]}, which it was made from, has no {path}"
        )
    return then


def _layer_edit(layer: EditedLayer, base: Dataset, engine: Engine) -> TreeEdit:
    """Return the edit that makes a layer of the dataset that it was made from."""
    schema = _with_fresh_ids(layer, base)
    check_evolution(base.schema, schema)
    tasks = [task_of(renamed, task, schema) for task in layer.tasks()]
    return replacement(base, tasks, schema, {}, engine, layer.input_bytes)


def _layer_maker(repo: OpenRepo, file: Path, layer: EditedLayer) -> EditMaker:
    path = layer.dataset
    then = _layer_folder(repo, file, layer)

    def make(view: Dataset, engine: Engine) -> TreeEdit:
        base = repo.view(then, layer.commit[:10]).with_storage(view.storage)
        edit = _layer_edit(layer, base, engine)
        now = view.folder
        if not edit.blobs or (isinstance(now, TreeFolder) and then.internals == now.tree):
            return edit
        try:
            return rebase_edit(repo, view.storage, edit, base, view)
        except ConflictError as error:
            short = layer.commit[:10]
            raise ConflictError(
                f"{path}: {file.name} was made from {short}, and HEAD has changed the same cells "
                "since; nothing is committed",
                hints=(
                    f"`havasu-vc switch -c edits {short}`, commit there, then switch back and "
                    "`havasu-vc merge edits`, which lets you decide",
                ),
            ) from error

    return make


def _with_fresh_ids(layer: EditedLayer, view: Dataset) -> Schema:
    """Return a layer's schema whose new columns have ids that no branch is likely to use."""
    new_id = field_ids(view.last_column_id)
    fields = [
        replace(field, id=new_id(), type=with_ids(field.type, new_id, None))
        if field.name in layer.added
        else field
        for field in layer.schema.fields
    ]
    return with_stored_names(Schema(tuple(fields), layer.schema.identifier_ids))


def _file_maker(repo: OpenRepo, file: Path, dataset: str | None) -> tuple[str, EditMaker]:
    path = dataset or _dataset_named(repo.datasets(), file)
    key = repo.dataset(path).key.names
    (source,) = open_sources(str(file), options=SourceOptions(primary_key=key or None))

    def make(view: Dataset, engine: Engine) -> TreeEdit:
        new_id = field_ids(view.last_column_id)
        schema = match_by_name(view.schema, source.schema, new_id)
        tasks = [task_of(renamed, task, schema) for task in source.tasks()]
        return replacement(view, tasks, schema, {}, engine, source.input_bytes)

    return path, make


def _dataset_named(paths: Sequence[str], file: Path) -> str:
    found = [path for path in paths if path.rpartition("/")[2] == file.stem]
    if len(found) == 1:
        return found[0]
    if len(paths) == 1:
        return paths[0]
    raise InvalidArgumentError(
        f"it is not clear which dataset {file.name} is a copy of", hints=("name it with --dataset",)
    )


def add_datasets(
    repo: OpenRepo, tables: Sequence[str] = (), *, message: str | None = None
) -> ImportResult:
    """Commit tables of the working copy as datasets; all that are none yet, if none is named."""
    living = working_copy(repo)
    if living is None:
        named = f" with a table {tables[0]!r}" if tables else ""
        raise NoWorkingCopyError(
            f"there is no working copy{named}", hints=("`havasu-vc create-workingcopy` makes it",)
        )
    there = living.untracked()
    for each in tables:
        if each in repo.datasets():
            raise NotFoundError(f"the table {each!r} is a dataset already")
        if each not in there:
            raise NotFoundError(
                f"the working copy has no table {each!r} that is no dataset yet",
                hints=(f"it has {', '.join(there)}",) if there else (),
            )
    chosen = tuple(tables) or there
    if not chosen:
        raise NoChangesError("every table of the working copy is a dataset already")
    with tempfile.TemporaryDirectory() as folder:
        with living.adopting(chosen, Path(folder)) as source:
            text = message or f"Add {', '.join(chosen)}"
            # Not `import_source`, which refuses to take the working copy for a file.
            return import_layers(repo, ImportRequest(source, layers=chosen, message=text))
