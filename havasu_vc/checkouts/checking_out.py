"""The tables of a work tree: made, brought along with HEAD, kept where they have edits.

Each dataset of HEAD is a table below the workspace's root. Following HEAD looks at the
recorded tree of each and touches only tables whose dataset differs; a table that others
wrote to stays as it is, at the commit it is of, until its edits are committed or
dropped. One process at a time does this, under a lock; what one that died did is
recognised by the tables themselves.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path
from typing import Protocol

from havasu_vc.checkouts.counterparts import can_be_table, no_table, table_view
from havasu_vc.checkouts.keeping_bases import keep_bases
from havasu_vc.checkouts.requests import CheckoutRequest
from havasu_vc.checkouts.table_places import table_place, tidy_root, workspace_root
from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.datasets.havasu.far import where_it_is
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.protocol import DatasetInFiles
from havasu_vc.errors import (
    ConcurrentChangeError,
    CorruptionError,
    HavasuError,
    InvalidArgumentError,
    StateError,
    UncommittedChangesError,
)
from havasu_vc.formats.iceberg.values import MAIN, Flavour
from havasu_vc.model.evolution import widens
from havasu_vc.model.names import HAVASU_MARKER
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.results import CheckoutResult
from havasu_vc.repo.soundness import defect
from havasu_vc.sharing import kept_part
from havasu_vc.store.locks import exclusive_lock, shared_lock
from havasu_vc.store.object_urls import in_bucket
from havasu_vc.store.preparation import ignore
from havasu_vc.store.refs import list_branches, list_tags
from havasu_vc.store.repository import GitRepository
from havasu_vc.store.revisions import Revision
from havasu_vc.store.trees import DatasetFolder
from havasu_vc.tables.table import table_exists
from havasu_vc.workspace.condition import Condition, condition_of
from havasu_vc.workspace.in_folder import FolderPlace
from havasu_vc.workspace.materialise import DEFAULT, Checkout, OtherRef, materialise
from havasu_vc.workspace.numbering import has_clashes
from havasu_vc.workspace.places import TablePlace, in_the_way, is_newest, remove_unreadable
from havasu_vc.workspace.properties import BASE
from havasu_vc.workspace.snapshots import data_path
from havasu_vc.workspace.state import (
    TableState,
    WorkspaceState,
    identify,
    read_state,
    write_state,
)

__all__ = [
    "changed_by",
    "check_out",
    "edited_tables",
    "follow",
    "havasu_view",
    "open_state",
    "other_refs",
    "parse_flavour",
]

AUTO = "auto"
KEPT = 10
"""How many snapshots of a table stay."""
PATIENCE = 120.0
"""Seconds to wait for another process that changes the tables."""


def _asked(repo: OpenRepo, request: CheckoutRequest, state: WorkspaceState) -> WorkspaceState:
    """Return a workspace's state with what is wished for."""
    if request.clustered is not None:
        from havasu_vc.checkouts.clustered_versions import with_layout

        state = with_layout(
            repo,
            state,
            clustered=request.clustered,
            dataset=request.dataset,
            partition_by=request.partition_by,
        )
    elif request.dataset is not None or request.partition_by is not None:
        raise InvalidArgumentError("a dataset and a partition spec go with a layout")
    flavour = state.flavour if request.flavour is None else parse_flavour(request.flavour)
    return replace(
        state,
        flavour=flavour,
        copy=state.copy if request.copy is None else request.copy,
        refs=state.refs if request.refs is None else request.refs,
    )


def parse_flavour(name: str) -> Flavour | None:
    """Return the flavour of that name; None for `auto`, by which each table has what suits it."""
    if name == AUTO:
        return None
    try:
        return Flavour(name)
    except ValueError:
        raise InvalidArgumentError(
            f"there is no flavour {name!r}", hints=(f"flavours: {', '.join((*Flavour, AUTO))}",)
        ) from None


def open_state(repo: OpenRepo) -> WorkspaceState | None:
    """Return what is checked out in this work tree; raises when the tables were moved."""
    state = read_state(repo.git.git_directory)
    if state is None:
        return None
    root = workspace_root(repo)
    if root != state.root:
        what = "makes them at home here"
        if isinstance(root, str) or isinstance(state.root, str):
            what = "makes them anew there; those that are here stay, edits and all"
        raise StateError(
            f"the tables were checked out at {state.root}, and the workspace is at {root} now",
            hints=(f"`havasu-vc checkout --relocate` {what}",),
        )
    return state


def is_at_home(repo: OpenRepo) -> bool:
    """Whether the tables, if there are some, are where the workspace is."""
    state = read_state(repo.git.git_directory)
    return state is None or state.root == workspace_root(repo)


@contextmanager
def changing_tables(repo: OpenRepo, *, patience: float = PATIENCE) -> Iterator[None]:
    """Hold what keeps other checkouts and gc away; wait as many seconds for each of them."""
    folder = repo.git.git_directory / "havasu"
    reason = "another process is changing the checked-out tables"
    with (
        exclusive_lock(folder / "workspace-lock", patience=patience, reason=reason),
        shared_lock(repo.git.data_folder / "lock", patience=patience),
    ):
        yield


def check_out(repo: OpenRepo, request: CheckoutRequest, *, discard: bool = False) -> CheckoutResult:
    """Make the workspace of HEAD, or bring the one that is there along."""
    root = workspace_root(repo)
    with changing_tables(repo):
        state = open_state(repo)
        if state is None:
            _ignore_root(repo, root)
            state = WorkspaceState(root, _configured_flavour(repo))
        anew = (request.dataset or "").strip("/") if request.clustered else None
        state = _asked(repo, request, state)
        return _Following(repo, state, discard=discard, strict=True, anew=anew).run()


def _configured_flavour(repo: OpenRepo) -> Flavour | None:
    text = repo.git.config.get("havasu.workspace.flavour")
    if text in (None, "", "auto"):
        return None
    if text not in list(Flavour):
        raise InvalidArgumentError(
            f"havasu.workspace.flavour is {text!r}",
            hints=("flavours are havasu, spark, iceberg and auto",),
        )
    return Flavour(text)


def relocate(repo: OpenRepo) -> CheckoutResult:
    """Make tables that were moved along with their repository at home, then follow HEAD."""
    root = workspace_root(repo)
    with changing_tables(repo):
        state = read_state(repo.git.git_directory)
        if state is None:
            raise StateError(
                "no tables are checked out here", hints=("`havasu-vc checkout` makes them",)
            )
        tables = {}
        if isinstance(root, Path) and isinstance(state.root, Path):
            for path, table in state.tables.items():
                if table_exists(root / path):
                    tables[path] = _relocated(root / path, table)
        _ignore_root(repo, root)
        state = replace(state, root=root, tables=tables)
        write_state(repo.git.git_directory, state)
        return _Following(repo, state, strict=True).run()


def _relocated(location: Path, table: TableState) -> TableState:
    """Return what is known of a table once it is at home at a place."""
    from havasu_vc.workspace.relocating import relocate_table

    clean = is_newest(FolderPlace(location), table.version)
    moved = relocate_table(location)
    places = {file: data_path(moved.table.location, file) for file in table.files}
    return replace(
        table,
        version=moved.table.version if clean else table.version,
        files={file: identify(place) for file, place in places.items() if place.exists()},
        deletes=tuple(
            replace(batch, files=tuple(moved.paths.get(path, path) for path in batch.files))
            for batch in table.deletes
        ),
    )


def follow(repo: OpenRepo, *, discard: bool = False, patience: float = PATIENCE) -> CheckoutResult:
    """Bring the tables along with HEAD; those that cannot come are left and told of."""
    with changing_tables(repo, patience=patience):
        state = open_state(repo)
        if state is None:
            return CheckoutResult(Path(), None)
        return _Following(repo, state, discard=discard).run()


def _ignore_root(repo: OpenRepo, root: Path | str) -> None:
    work_tree = repo.git.work_tree
    if work_tree is None or isinstance(root, str):
        return
    base = Path(os.path.realpath(work_tree))
    if base in root.parents:
        ignore(repo.git, f"/{root.relative_to(base).as_posix()}/")


def edited_tables(repo: OpenRepo) -> dict[str, TableState]:
    """Return the tables that others wrote to since they were checked out."""
    state = open_state(repo)
    if state is None:
        return {}
    found = {}
    for path, table in state.tables.items():
        condition, known = condition_of(table_place(repo, state.root, path), table)
        if condition is Condition.EDITED:
            found[path] = known or table
    return found


class _OfTree(Protocol):
    """Anything that knows the tree that it is of."""

    @property
    def tree(self) -> str: ...


def changed_by(
    repo: OpenRepo, tables: Mapping[str, _OfTree], revision: str, merging: bool
) -> list[str]:
    """Return which tables' datasets are other ones in a commit, or become so by its merge."""
    target = repo.revision(revision)
    there = repo.folders(target)
    if not merging:
        return [path for path, table in tables.items() if _tree(there, path) != table.tree]
    head = repo.head().commit
    if head is None or target.commit is None:
        return []
    base = repo.git.git("merge-base", head, target.commit, check=False).text.split()
    before = repo.folders(repo.resolve(base[0] if base else "[EMPTY]"))
    return [path for path in tables if _tree(there, path) != _tree(before, path)]


def _tree(folders: Mapping[str, DatasetFolder], path: str) -> str | None:
    folder = folders.get(path)
    return None if folder is None else folder.internals


@dataclass
class _Following:
    """One run over all tables."""

    repo: OpenRepo
    state: WorkspaceState
    discard: bool = False
    strict: bool = False
    anew: str | None = None
    """The dataset whose rows are to be sorted anew whatever is kept; all if it is empty."""
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def run(self) -> CheckoutResult:
        head = self.repo.head()
        folders = self.repo.folders(head)
        before = self.state
        tidy_root(self.repo, self.state.root, {*self.state.tables, *folders})
        for path in [path for path in self.state.tables if not can_be_table(folders.get(path))]:
            self._drop_table(path)
        failed: list[HavasuError] = []
        part = kept_part(self.repo)
        for path, folder in folders.items():
            if part is not None and not part.has(path) and path not in self.state.tables:
                if self.strict:
                    self.notes.append(
                        f"no table of {path}, as this clone takes {' and '.join(part.datasets)}; "
                        f"`git config --add havasu.data.dataset {path}` adds it"
                    )
                continue
            if not can_be_table(folder):
                if self.strict:
                    self.notes.append(no_table(path))
                continue
            known = self.state.tables.get(path)
            if known is None or known.tree != folder.internals:
                broken = defect(self.repo, folder, "HEAD")
                if broken is not None:
                    stays = "stays as it is" if known else "is not made"
                    self.repo.tell(path, f"the table of {path} {stays}: {broken.message}")
                    continue
            try:
                self._one(path, folder, head)
            except HavasuError as error:
                if isinstance(error, UncommittedChangesError):
                    raise
                error.message = f"the table of {path} stays as it is: {error.message}"
                failed.append(error)
        if self.state != before or self.strict:
            write_state(self.repo.git.git_directory, self.state)
            keep_bases(self.repo, before, self.state, head.commit)
        if failed and self.strict:
            for each in failed[1:]:
                self.repo.settings.note(each.message)
            raise failed[0]
        self.notes += [each.message for each in failed]
        return CheckoutResult(
            self.state.root,
            head.commit,
            tuple(self.state.tables),
            tuple(self.changed),
            tuple(self.removed),
            tuple(self.kept),
            tuple(self.notes),
        )

    def _drop_table(self, path: str) -> None:
        """Deal with the table of a dataset that HEAD has not."""
        place = table_place(self.repo, self.state.root, path)
        known = self.state.tables[path]
        condition, _ = condition_of(place, known)
        if condition is Condition.EDITED and not self._may_drop(path, place):
            self.kept.append(path)
            self.notes.append(
                f"{path} is not in HEAD, but its table has edits and stays at {place.location}"
            )
            return
        place.require_inside()
        if condition is not Condition.FOREIGN:
            place.remove()
        self.state = self.state.with_table(path, None)
        self.removed.append(path)

    def _one(self, path: str, folder: DatasetFolder, head: Revision) -> None:
        """Bring one table along."""
        place = table_place(self.repo, self.state.root, path)
        place.require_inside()
        known = self.state.tables.get(path)
        condition, found = condition_of(place, known)
        commit = head.commit or ""
        if condition is Condition.FOREIGN:
            raise in_the_way(place)
        if condition is Condition.EDITED and not self._may_drop(path, place):
            if self.strict:
                place.read()  # raises for one that cannot be read, which may have edits
            self._stay(path, found, folder, commit)
            return
        if condition in (Condition.MISSING, Condition.FOREIGN):
            found = None
        same = condition is Condition.CLEAN and found is not None and found.tree == folder.internals
        if same and found is not None and not self.strict and not self.state.refs:
            # The usual case: nothing is read for a dataset that did not change.
            self.state = self.state.with_table(path, replace(found, path=path, commit=commit))
            return
        near = [table.tree for table in (found, known) if table is not None]
        view = table_view(self.repo, folder, "HEAD", near=near)
        flavour = self.state.flavour or DEFAULT
        refs, notes = other_refs(self.repo, view) if self.state.refs else ({}, ())
        self.notes += notes if self.strict else ()
        with self._laid_out(view, folder.internals, place, found or known) as (shown, clustered):
            if (
                same
                and found is not None
                and found.flavour is flavour
                and found.clustered == clustered
                and (
                    not self.strict
                    or (place.is_whole(found) and not has_clashes(place.read().metadata))
                )
                and {name: ref.tree for name, ref in refs.items()}
                == {name: ref.tree for name, ref in found.refs.items()}
            ):
                self.state = self.state.with_table(path, replace(found, path=path, commit=commit))
                return
            view.check_guard()
            # What was asked about is what is built upon; edits that come in between stay.
            upon = None if found is None else found.version
            if condition is Condition.EDITED:
                gone = remove_unreadable(place, view.properties.table_uuid)
                upon = None if gone else self.repo.taken.get(path)
            keep = max(self.repo.git.config.integer("havasu.workspace.keep", KEPT), 1)
            state, tree = self.state, folder.internals
            wanted = Checkout(commit, tree, state.flavour, state.copy, keep, refs, clustered)
            try:
                made = _made(shown, place, wanted, found, upon)
            except ConcurrentChangeError:
                # Someone wrote to the table this very moment: it has edits now.
                self._stay(path, known, folder, commit)
                return
        self.state = self.state.with_table(path, made)
        self.changed.append(path)

    @contextmanager
    def _laid_out(
        self, view: DatasetInFiles, tree: str, place: TablePlace, near: TableState | None
    ) -> Iterator[tuple[DatasetInFiles, str | None]]:
        """Yield what a table shows, and the tree of it where that is a clustered version."""
        layout = self.state.layout_of(view.path)
        if not layout.clustered:
            yield view, None
            return
        from havasu_vc.checkouts.clustered_versions import can_cluster, clustered_version

        if not can_cluster(view, layout):
            if self.strict:
                self.notes.append(f"{view.path} has no geometries to sort by: its files stay")
            yield view, None
            return
        view.check_guard()
        fresh = self.anew in ("", view.path)
        with clustered_version(
            self.repo, view, tree, layout, place, near=near, fresh=fresh
        ) as found:
            yield found

    def _stay(
        self, path: str, known: TableState | None, folder: DatasetFolder, commit: str
    ) -> None:
        """Leave a table with edits as it is."""
        self.kept.append(path)
        if known is None:
            raise UncommittedChangesError(
                f"the table of {path} has edits, and it is not known of what commit",
                hints=("`--discard-changes` drops them",),
            )
        if known.tree == folder.internals:
            # The dataset is the same in HEAD, so the edits are edits of HEAD.
            self.state = self.state.with_table(path, replace(known, commit=commit))
            if self.anew in ("", path) or (known.clustered and not self._clusters(path)):
                self.notes.append(
                    f"the table of {path} has edits and keeps its files until a commit"
                )
            return
        self.state = self.state.with_table(path, known)
        self.notes.append(
            f"the table of {path} has edits and stays at {known.commit[:7]};"
            " commit them, or drop them with `havasu-vc checkout --discard-changes`"
        )

    def _clusters(self, path: str) -> bool:
        return self.state.layout_of(path).clustered

    def _may_drop(self, path: str, place: TablePlace) -> bool:
        taken = self.repo.taken.get(path)
        if taken is not None:
            return is_newest(place, taken)
        return self.discard


# Branches and tags of git as branches and tags of one table.
#
# Iceberg reads and writes a branch with the table's current schema, so a branch whose
# dataset has a column that the checkout lacks would lose it: such a one is left out, and
# told of. So is one that is called `main`, which is what is checked out.


_NAMED = 3
"""Refs that a note names."""


def _made(
    view: DatasetInFiles,
    place: TablePlace,
    wanted: Checkout,
    found: TableState | None,
    upon: int | None,
) -> TableState:
    """Make a table, anew where what is there cannot be read."""
    far = where_it_is(view, apart=False) if in_bucket(place.location) else None
    try:
        return materialise(view, place, wanted, previous=found, upon=upon, far=far)
    except CorruptionError:
        # No edit is lost with a table that has none, or whose edits may go.
        if not remove_unreadable(place, view.properties.table_uuid):
            raise
        return materialise(view, place, wanted, far=far)


def havasu_view(repo: OpenRepo, folder: DatasetFolder, revision: str) -> DatasetInFiles:
    """Return the view of a Havasu dataset's folder, unchecked."""
    inside = TreeFolder(repo.git.objects, folder.internals)
    return HavasuDataset(folder.path, inside, repo.storage, revision)


def other_refs(
    repo: OpenRepo, current: DatasetInFiles
) -> tuple[dict[str, OtherRef], tuple[str, ...]]:
    """Return the refs that a dataset's table can show, and why others are left out."""
    found: dict[str, OtherRef] = {}
    notes: list[str] = []
    of_kart: list[str] = []
    for name, commit, is_tag in _refs(repo.git):
        if name in (MAIN, BASE):
            if name == BASE or repo.head().commit != commit:
                notes.append(f"{name} is left out of the table of {current.path}: the name is kept")
            continue
        if name in found:
            notes.append(f"the tag {name} is left out: a branch has that name")
            continue
        folder = repo.folders(repo.resolve(commit)).get(current.path)
        if folder is None:
            continue
        if folder.marker != HAVASU_MARKER:
            of_kart.append(name)
            continue
        view = havasu_view(repo, folder, name)
        try:
            view.check_guard()
            fits = _contains(current.schema, view.schema)
            same = view.properties.table_uuid == current.properties.table_uuid
        except HavasuError as error:
            notes.append(f"{name} is left out of the table of {current.path}: {error.message}")
            continue
        if not fits or not same:
            reason = "it has columns that HEAD has not" if same else "it is another dataset there"
            notes.append(f"{name} is left out of the table of {current.path}: {reason}")
            continue
        found[name] = OtherRef(view, commit, folder.internals, is_tag)
    if of_kart:
        some = ", ".join(of_kart[:_NAMED])
        more = f" and {len(of_kart) - _NAMED} more" if len(of_kart) > _NAMED else ""
        reason = "Kart's datasets are shown of HEAD alone"
        notes.append(f"{some}{more} left out of the table of {current.path}: {reason}")
    return found, tuple(notes)


def _refs(git: GitRepository) -> Iterator[tuple[str, str, bool]]:
    for branch in list_branches(git):
        yield branch.name, branch.commit, False
    for tag in list_tags(git):
        yield tag.name, tag.commit, True


def _contains(whole: Schema, part: Schema) -> bool:
    """Whether a table of one schema shows and keeps all that another has."""
    return all(
        field.id in whole.by_id
        and whole.by_id[field.id].name == field.name
        and widens(field.type, whole.by_id[field.id].type)
        for field in part.fields
    )
