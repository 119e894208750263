"""The living working copy of a repository: a GeoPackage that knows its edits.

    copy = LivingCopy(repo, place)
    copy.create()              all datasets of HEAD, in one file
    copy.changes()             how much is edited, for `status`
    copy.commit(...)           the edits become a commit, and the file is at HEAD

`living_following` brings it along with HEAD, `living_edits` tells what is edited.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa

from havasu_vc.checkouts.catching_up import following
from havasu_vc.checkouts.glance import (
    FileState,
    TableChanges,
    WorkspaceChanges,
    nothing_edited,
)
from havasu_vc.checkouts.living_area import (
    is_as_wanted,
    note_limits,
    outside,
    part_of,
    wanted_area,
)
from havasu_vc.checkouts.living_edits import (
    Base,
    LayerEdits,
    base_of,
    base_views,
    each_layer,
    goal_of,
    layer_of,
    left_out_at,
    note_beside,
    read_layer,
    rows_standing,
)
from havasu_vc.checkouts.living_following import (
    Held,
    date_table,
    make_table,
    uncommitted,
    write_as_edits,
)
from havasu_vc.checkouts.living_place import LivingPlace, left_out, setting
from havasu_vc.checkouts.living_shown import (
    require_none_hidden,
    shown_counts,
    unseen_items,
)
from havasu_vc.checkouts.living_standing import can_stay, changed_among
from havasu_vc.checkouts.requests import WorkspaceCommitRequest
from havasu_vc.datasets.commit_plans import MergedTree, files_beside
from havasu_vc.datasets.protocol import Dataset, TreeEdit
from havasu_vc.errors import (
    ConflictError,
    DatasetNotFoundError,
    HavasuError,
    InvalidArgumentError,
    NoChangesError,
    StateError,
    UncommittedChangesError,
)
from havasu_vc.exchange.living_store import LivingStore
from havasu_vc.model import compute as pc
from havasu_vc.model.changes import struct_of
from havasu_vc.model.diffs import count_meta
from havasu_vc.model.schema import Schema
from havasu_vc.repo.edits import aligned
from havasu_vc.repo.filters import RepoFilter, parse_filters
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.results import CommitResult, ExportResult
from havasu_vc.repo.transaction import Transaction
from havasu_vc.store.commits import read_commit
from havasu_vc.store.objects import EMPTY_TREE
from havasu_vc.writers.values import key_labels

__all__ = ["LivingCopy"]


class LivingCopy:
    """The working copy of a repository, where there is to be one."""

    def __init__(self, repo: OpenRepo, place: LivingPlace) -> None:
        self._repo = repo
        self._place = place
        self._home = place.home()

    # Making it

    def create(self, *, discard: bool = False) -> ExportResult:
        """Write the datasets of HEAD to the file, anew where there is one.

        Raises `UncommittedChangesError` where one has edits, unless these may go.
        """
        from havasu_vc.merging import require_calm
        from havasu_vc.repo.soundness import sound_datasets

        repo = self._repo
        require_calm(repo)
        head = repo.head()
        if self._home.exists and not discard:
            self.require_clean()
        rows = 0
        sound = set(sound_datasets(repo, "HEAD") if head.commit else ())
        views = [view for name, view in base_views(repo, head).items() if name in sound]
        with self._home.create() as store:
            note_limits(store, wanted_area(repo))
            for view in views:
                view.check_guard()
                rows += make_table(repo, store, layer_of(store, view), view)
                date_table(repo, store, view, head)
            note_beside(repo, store, {view.path: view for view in views}, EMPTY_TREE, head.tree)
            store.set_tree(head.tree)
        self._configure()
        return ExportResult(self._home.name, rows)

    def _configure(self) -> None:
        from havasu_vc.store.preparation import ignore

        git, place = self._repo.git, self._place
        where = place.setting(git)
        if git.config.get(setting(git)) != where:
            git.config.set(setting(git), where)
        if place.path is not None and not git.is_kart and not Path(where).is_absolute():
            ignore(git, f"/{where}")
            for log in ("-wal", "-shm", "-journal"):
                ignore(git, f"/{where}{log}")

    # Looking at it

    def changes(self) -> WorkspaceChanges:
        """Return how much is edited in each table; no damage stops it."""
        tables: dict[str, TableChanges] = {}
        notes: list[str] = []
        problems: list[str] = []
        state = FileState()
        try:
            state = FileState(found=self._place.exists)
            if not state.found:
                left = left_out_at(self._repo, self._repo.head())
                state = replace(state, left_out=left)
                return WorkspaceChanges(self._place.where, kind=self._home.kind, file=state)
            with self._home.open() as file:
                base = base_of(self._repo, file)
                commit = base.revision.commit or ""
                state = replace(state, commit=base.revision.commit, tree=file.tree)
                lacking, dropped = [], []
                for each in each_layer(self._repo, file, base):
                    if isinstance(each, tuple):
                        problems.append(_line(*each))
                        continue
                    notes += each.notes
                    if each.seen is not None and each.seen.lacks_triggers:
                        lacking.append(each.path)
                    if not each.is_empty:
                        counts = shown_counts(self._repo, each)
                        tables[each.path] = TableChanges(
                            count_meta(each.meta), counts, commit, hidden=each.conflicts
                        )
                        dropped += [each.path] * each.is_dropped
                untracked = self._untracked(file, base)
                state = replace(state, untracked=untracked, without_triggers=tuple(lacking))
                left = left_out_at(self._repo, base.revision)
                state = replace(state, left_out=left, dropped=tuple(dropped))
                notes += (
                    *state.dropped_notes,
                    *self._about(file, base),
                    *state.untracked_notes,
                )
            state = replace(state, locked=self._home.is_locked())
        except HavasuError as error:
            problems.append("; ".join((error.message, *error.hints)))
        return WorkspaceChanges(
            self._place.where,
            tables,
            tuple(problems),
            tuple(notes),
            kind=self._home.kind,
            file=state,
        )

    def _about(self, file: LivingStore, base: Base) -> Iterator[str]:
        """Yield what a person should know of the file as a whole."""
        if not is_as_wanted(self._repo, file):
            yield (
                "the spatial filter of the settings is not the one that the working copy has; "
                "`havasu-vc checkout` brings it there"
            )
        if base.revision.commit is None and file.tree != goal_of(self._repo).tree:
            yield (
                f"the working copy has the rows of {base.revision.name}, not those of HEAD; "
                "`havasu-vc checkout` brings it there"
            )

    def untracked(self) -> tuple[str, ...]:
        """Return the tables that are no dataset."""
        with self._reading() as file:
            return self._untracked(file, base_of(self._repo, file))

    def drop_layers(self, tables: Sequence[str]) -> None:
        """Remove tables that are no dataset, where they still are none."""
        with self._home.open(write=True) as file:
            there = self._untracked(file, base_of(self._repo, file))
            for table in tables:
                if table in there:
                    file.drop_other(table)

    @property
    def name(self) -> str:
        """Where it is, in short."""
        return self._place.short

    @property
    def tree(self) -> str | None:
        """The tree that it has the rows of."""
        with self._reading() as file:
            return file.tree

    @contextmanager
    def adopting(self, tables: Sequence[str], folder: Path) -> Iterator[str]:
        """Take tables as those of datasets of their names, which a block commits from a source."""
        with self.taking() as held:
            source = held.file.source(folder)
            held.adopted.update(tables)
            yield source

    def _untracked(self, file: LivingStore, base: Base) -> tuple[str, ...]:
        known = []
        for view in base.views.values():
            layer = layer_of(file, view)
            seen = file.look(layer)
            known.append(layer.table if seen is None else seen.table)
        return file.other_tables(known)

    def edited(self) -> dict[str, LayerEdits]:
        """Return what is edited, by dataset; raises where that cannot be told."""
        with self._reading() as file:
            return self._edits(file, base_of(self._repo, file))

    def _reading(self) -> AbstractContextManager[LivingStore]:
        held = self._repo.held
        if isinstance(held, Held):
            return nullcontext(held.file)
        return self._home.open()

    def _edits(
        self, file: LivingStore, base: Base, paths: Sequence[str] = ()
    ) -> dict[str, LayerEdits]:
        found = {}
        for path in paths or base.views:
            if (view := base.views.get(path)) is None:
                if path not in left_out(self._repo.git):
                    raise DatasetNotFoundError(path)
                continue  # nothing of what is left out is edited
            edits = read_layer(self._repo, file, view)
            if not edits.is_empty:
                found[path] = edits
        return found

    def require_clean(self) -> None:
        """Raise `UncommittedChangesError` where something is edited."""
        edited = self.edited()
        if edited:
            raise uncommitted(list(edited))

    def require_no_loss(
        self, revision: str, *, any_edit: bool = False, merging: bool = False
    ) -> None:
        """Raise `UncommittedChangesError` when going to a commit would pass over edits.

        In a repository of Kart's any edit is in the way of another commit, as in Kart.
        """
        edited = self.edited()
        if not edited:
            return
        here = self._repo.head()
        there = self._repo.revision(revision)
        if self._place.kart and not any_edit and there.commit == here.commit:
            return
        lost = list(edited)
        if not any_edit and not self._place.kart:
            from havasu_vc.checkouts.checking_out import changed_by

            lost = changed_by(self._repo, edited, revision, merging)
        if lost:
            raise uncommitted(lost)

    # Committing

    def commit(self, request: WorkspaceCommitRequest) -> CommitResult:
        """Commit what is edited, all or what filters name; the rest stays edited.

        Raises `SpatialFilterConflictError` for rows that would overwrite such as the spatial filter
        hides, unless that is allowed.
        """
        from havasu_vc.merging import require_calm

        repo = self._repo
        require_calm(repo)
        notes: list[str] = []
        dry = request.dry_run
        with self.taking(dry) as held, Transaction(repo, dry_run=dry) as transaction:
            base = base_of(repo, held.file)
            found = self._chosen(held.file, base, request.filters)
            if not (request.allow_hidden or request.dry_run):
                require_none_hidden(found.values())
            if any(each.others for each in found.values()):
                self._require_at_head(base, transaction)
            edits, removed = [], []
            for path, edited in found.items():
                notes += edited.notes
                if edited.is_dropped:
                    removed.append(path)
                    continue
                made = edited.edit(base.views[path].with_storage(transaction.storage))
                edits.append(self._onto_head(transaction, base, made))
            changed = [edit for edit in edits if edit.blobs]
            commit = None
            nothing = not (changed or removed or request.allow_empty)
            if nothing and not request.dry_run:
                held.dropped.update(found)  # HEAD has all of it
            elif not request.dry_run:
                text = request.message or f"Edit {', '.join(found)}"
                beside = self._attached(transaction, removed)
                commit = transaction.commit(changed, text, removed=removed, merge=beside)
                held.committed = found
                held.as_is = self._moved_alone(base, transaction, commit)
        if nothing and not request.dry_run:
            raise nothing_edited(request.filters)
        counts = {edit.path: edit.counts for edit in changed} | transaction.recounted
        counts = dict(sorted((counts | {path: found[path].counts for path in removed}).items()))
        meta = {edit.path: edit.meta for edit in changed}
        meta |= {path: tuple(each.name for each in found[path].meta) for path in removed}
        return CommitResult(
            commit, repo.head_branch, counts, tuple(notes), meta, hidden=held.now_outside
        )

    def _attached(self, transaction: Transaction, removed: Sequence[str]) -> MergedTree | None:
        """Return how the files beside datasets go with these, as Kart's attachments do."""
        head = transaction.head.commit
        if head is None or not (removed and self._repo.git.follows_kart):
            return None
        tree, objects = self._repo.resolve(head).tree, self._repo.git.objects
        return MergedTree.without(
            file for path in removed for file in files_beside(objects, tree, path)
        )

    @contextmanager
    def taking(self, dry_run: bool = False) -> Iterator[Held]:
        """Hold the file while HEAD may move; a dry run only reads it, as it moves nothing."""
        if dry_run:
            with self._home.open() as file:
                yield Held(file)
        else:
            with following(self._repo):
                assert isinstance(self._repo.held, Held)
                yield self._repo.held

    def _chosen(
        self, file: LivingStore, base: Base, filters: Sequence[str]
    ) -> dict[str, LayerEdits]:
        """Return the edits that filters name, by dataset."""
        wanted = parse_filters(filters, of_changes=True, lenient=self._repo.git.follows_kart)
        there = any(wanted.of(path) is not None for path in base.views)
        for each in wanted.filters:
            # Beside others Kart passes over one that names nothing.
            if there and wanted.lenient:
                break
            if not any(each.matches(path) for path in base.views):
                raise DatasetNotFoundError(each.pattern)
        paths = [path for path in base.views if wanted.of(path) is not None]
        found = self._edits(file, base, paths) if paths else {}
        chosen = {path: edits.chosen(self._repo, wanted) for path, edits in found.items()}
        return {path: edits for path, edits in chosen.items() if edits is not None}

    def _require_at_head(self, base: Base, transaction: Transaction) -> None:
        """Raise where edits of some rows would come onto a HEAD that others are not of."""
        if base.revision.commit is None or base.revision.commit != transaction.head.commit:
            raise StateError(
                "the working copy is elsewhere than HEAD, so its edits are committed by dataset",
                hints=("`havasu-vc commit DATASET` brings all edits of it onto HEAD",),
            )

    def _onto_head(self, transaction: Transaction, base: Base, edit: TreeEdit) -> TreeEdit:
        repo, now = self._repo, transaction.folders.get(edit.path)
        then = repo.folders(base.revision)[edit.path]
        if now is not None and now.internals == then.internals:
            return edit
        from havasu_vc.repo.rebasing import rebase_edits

        head = repo.resolve(transaction.head.commit or "[EMPTY]")
        try:
            (rebased,) = rebase_edits(repo, transaction.storage, [edit], base.revision, head)
        except ConflictError as error:
            raise ConflictError(
                f"{edit.path}: HEAD has changed the same cells since the working copy was "
                "brought to it; nothing is committed",
                hints=("`havasu-vc stash`, then `havasu-vc stash pop` one dataset at a time",),
            ) from error
        return rebased

    def _moved_alone(self, base: Base, transaction: Transaction, commit: str | None) -> bool:
        """Whether HEAD is what the working copy was of and its edits, and nothing else."""
        if commit is None:
            return False
        parents = read_commit(self._repo.git.objects, commit).parents
        return (
            base.revision.commit is not None
            and parents[:1] == (base.revision.commit,)
            and transaction.head.commit == base.revision.commit
        )

    # Setting edits aside

    def set_aside(self, paths: Sequence[str], message: str, ref: str) -> None:
        """Commit what is edited in all tables, or in some, to a ref of its own, and drop it."""
        from havasu_vc.merging import require_calm

        repo = self._repo
        require_calm(repo)
        with self.taking() as held, Transaction(repo) as transaction:
            base = base_of(repo, held.file)
            found = self._edits(held.file, base, [path.strip("/") for path in paths])
            edits = []
            for path, edited in found.items():
                if edited.is_dropped:
                    raise StateError(
                        f"the table of {path} is gone, which cannot be set aside",
                        hints=(f"`havasu-vc restore {shlex.quote(path)}` brings it back",),
                    )
                view = base.views[path].with_storage(transaction.storage)
                made = self._onto_head(transaction, base, edited.edit(view, any_value=True))
                edits += [made] if made.blobs else []
            if not edits:
                raise NoChangesError("there is nothing to set aside: nothing was edited")
            transaction.set_aside(edits, message, ref)
            held.dropped.update(found)

    def bring_back(
        self, make: Callable[[Transaction], Mapping[str, Dataset]], paths: Sequence[str]
    ) -> None:
        """Give tables the rows of other versions of HEAD's datasets, as edits of these."""
        repo = self._repo
        with following(repo), Transaction(repo) as transaction:
            self._require_free(paths)
            self.show(make(transaction))

    def unseen(self, old: Dataset, new: Dataset) -> list[str]:
        """Return the meta items that differ and cannot be shown as edits."""
        return unseen_items(self._home.items, old, new)

    def show(
        self,
        views: Mapping[str, Dataset],
        *,
        inside_only: bool = False,
        rows: RepoFilter | None = None,
    ) -> None:
        """Give tables the rows of other versions of their datasets, as edits of HEAD's.

        Raises `UncommittedChangesError` where one of them has edits; with `rows`, of which alone
        they differ, where one of these has. `following` holds the file.
        With `inside_only`, changes of rows that a spatial filter hides are passed over.
        """
        repo, base = self._repo, self._require_free(list(views), rows, views)
        held = repo.held
        assert isinstance(held, Held)
        for path, view in views.items():
            if any(name.startswith("crs/") for name in self.unseen(base.views[path], view)):
                raise InvalidArgumentError(
                    f"{path} is in another reference system there, which {self.name} cannot show",
                    hints=("a commit can bring it: `havasu-vc restore -m`",),
                )
        for path, view in views.items():
            count = write_as_edits(repo, held.file, base.views[path], view, inside_only=inside_only)
            if count:
                repo.settings.note(
                    f"{path}: {count:,} rows outside of the spatial filter stay as they are"
                )

    def _require_free(
        self,
        paths: Sequence[str],
        rows: RepoFilter | None = None,
        views: Mapping[str, Dataset] = MappingProxyType({}),
    ) -> Base:
        """Return what the file is of, which must be HEAD; some tables must have no edits.

        Where `views` differ in some `rows` or items alone, edits of others stand beside them.
        """
        held = self._repo.held
        assert isinstance(held, Held)
        base = base_of(self._repo, held.file)
        if base.revision.tree != self._repo.head().tree:
            raise StateError("the working copy is elsewhere than HEAD")
        lost = []
        for path, edits in self._edits(held.file, base, paths).items() if paths else ():
            filter_ = None if rows is None else rows.of(path)
            view = views.get(path)
            part = view is not None and filter_ is not None and not filter_.is_whole
            named = rows if part and _is_written_beside(edits, view) else None
            beside = named is not None and can_stay(held.file, edits, edits.base, edits.base)
            if named is None or not beside or edits.chosen(self._repo, named) is not None:
                lost.append(path)
        if lost:
            raise uncommitted(lost)
        return base

    # While a merge waits

    def standing(self, path: str, keys: pa.RecordBatch, schema: Schema) -> pa.StructArray:
        """Return the rows of a table that have some keys, in `schema`; null where there is none."""
        with self._reading() as file:
            view = base_of(self._repo, file).views.get(path)
            if view is None:
                raise DatasetNotFoundError(path)
            rows, now = rows_standing(file, view, keys)
            index = aligned(rows, keys, now)
            absent = pc.filter(keys, pc.is_null(index))
            hidden = outside(part_of(self._repo, file, view), view.rows_with_keys(absent))
        if hidden.num_rows:
            row = _label(hidden.select(list(view.key.names)).slice(0, 1), view)
            raise StateError(
                f"{path}:feature:{row} is outside of the spatial filter, so the working copy "
                "does not have it",
                hints=("`havasu-vc resolve --with=ours` or another side decides it",),
            )
        from havasu_vc.history.conflicts import in_columns

        return pc.take(struct_of(in_columns(struct_of(rows), now, schema)), index)

    def require_abort(self) -> None:
        """Raise where aborting the merge that waits would mix edits with what it merged."""
        held = self._repo.held
        if not isinstance(held, Held) or not held.file.of_merge:
            return
        base, head = base_of(self._repo, held.file), self._repo.head()
        before = base_views(self._repo, head)
        for path, edits in self._edits(held.file, base).items():
            old, new = base.views[path], before.get(path)
            if old.folder == (new and new.folder):
                continue
            row = None
            if new is not None and can_stay(held.file, edits, old, new):
                row = changed_among(self._repo, edits.row_keys, old, new)
                if row is None:
                    continue
            what = path if row is None else f"{path}:feature:{_label(row, old)}"
            raise UncommittedChangesError(
                f"{what} was edited in the working copy, and changed by the merge as well",
                hints=(
                    f"`havasu-vc restore {shlex.quote(path)}` drops its edits, then abort the "
                    f"merge",
                ),
            )

    # Dropping edits

    def discard(self, paths: Sequence[str] = (), *, dry_run: bool = False) -> tuple[str, ...]:
        """Drop what is edited in all tables, or in some, and return which had edits."""
        repo = self._repo
        with self.taking(dry_run) as held:
            found = self._edits(
                held.file, base_of(repo, held.file), [path.strip("/") for path in paths]
            )
            if not dry_run:
                held.dropped.update(found)
        return tuple(found)


def _label(row: pa.RecordBatch, view: Dataset) -> str:
    label: str = key_labels(struct_of(row), view.schema.select(view.key.names))[0].as_py()
    return label


def _line(path: str, error: HavasuError) -> str:
    return "; ".join((f"{path}: {error.message}", *error.hints))


def _is_written_beside(edits: LayerEdits, view: Dataset | None) -> bool:
    """Whether parts of a version can be written where others are edited.

    Its columns are those of the table then, and its description is written as a whole.
    """
    if view is None or view.schema != edits.base.schema:
        return False
    described = edits.seen is not None and bool(edits.seen.said)
    return not described or view.header.meta == edits.base.header.meta
