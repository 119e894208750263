"""`repo.workspace`: the tables that are checked out in the work tree.

repo.workspace.check_out()                 # make them, or bring them to HEAD
repo.workspace.check_out_to("/data/parcels", "v1.2", dataset="parcels")
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from havasu_vc.checkouts.catching_up import following, has_tiles, has_workspace
from havasu_vc.checkouts.living_place import (
    default_location,
    living_place,
    named_in,
    plan_living,
)
from havasu_vc.checkouts.requests import (
    CheckoutRequest,
    CheckoutToRequest,
    CleanRequest,
    TableCommitRequest,
    WorkspaceCommitRequest,
)
from havasu_vc.datasets.kinds import is_in_files
from havasu_vc.errors import (
    InvalidArgumentError,
    NoChangesError,
    NotFoundError,
    NoWorkingCopyError,
    StateError,
    StorageError,
    UncommittedChangesError,
)
from havasu_vc.merging import merge_waits
from havasu_vc.methods import asks
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.setting_up import set_up
from havasu_vc.store.repository import Operation
from havasu_vc.workspace.state import read_state

if TYPE_CHECKING:
    from havasu_vc.checkouts.cleaning import LeftBehind
    from havasu_vc.checkouts.glance import WorkspaceChanges
    from havasu_vc.checkouts.living_copy import LivingCopy
    from havasu_vc.checkouts.stashing import Stash
    from havasu_vc.model.diffs import DatasetDiff
    from havasu_vc.repo.results import CheckoutResult, CommitResult, ExportResult
    from havasu_vc.repo.spatial_filters import SpatialFilter
    from havasu_vc.workspace.state import TableState, WorkspaceState

__all__ = ["Workspace"]

SETTING = "havasu.workspace.path"


# What answers a request is loaded when one is made.


def _check_out_to() -> Callable[[OpenRepo, CheckoutToRequest], CheckoutResult]:
    from havasu_vc.checkouts.edits_elsewhere import check_out_to

    return check_out_to


def _commit_from() -> Callable[[OpenRepo, TableCommitRequest], CommitResult]:
    from havasu_vc.checkouts.edits_elsewhere import commit_from_table

    return commit_from_table


def _clean() -> Callable[[OpenRepo, CleanRequest], LeftBehind]:
    from havasu_vc.checkouts.cleaning import clean

    return clean


class Workspace:
    """The checked-out tables of a repository's work tree."""

    def __init__(self, repo: OpenRepo) -> None:
        self._repo = repo

    @property
    def opened(self) -> OpenRepo:
        """The repository, as its methods take it."""
        return self._repo

    @property
    def exists(self) -> bool:
        """Whether there are tables to edit: checked out, or in a living working copy."""
        place = living_place(self._repo)
        return has_workspace(self._repo.git) or (place is not None and place.exists)

    @property
    def is_meant(self) -> bool:
        """Whether there are tables, or is to be a working copy; no server is asked."""
        return has_workspace(self._repo.git) or living_place(self._repo) is not None

    @property
    def has_tables(self) -> bool:
        """Whether tables are checked out for engines."""
        return has_workspace(self._repo.git)

    @property
    def has_tiles(self) -> bool:
        """Whether Kart checked out files of its raster or point-cloud datasets."""
        return has_tiles(self._repo.git)

    @property
    def left_out(self) -> tuple[str, ...]:
        """The datasets that the settings keep out of the living working copy."""
        from havasu_vc.checkouts.living_place import left_out

        return left_out(self._repo.git)

    @property
    def living(self) -> LivingCopy | None:
        """The living working copy; None where there is none."""
        place = living_place(self._repo)
        if place is None or not place.exists:
            return None
        from havasu_vc.checkouts.living_copy import LivingCopy

        return LivingCopy(self._repo, place)

    def is_living(self, file: Path) -> bool:
        """Whether a file is the living working copy."""
        from havasu_vc.checkouts.living_place import is_working_copy

        return is_working_copy(self._repo, file)

    def create_living(
        self, location: str | None = None, *, anew: bool = True, discard: bool = False
    ) -> ExportResult:
        """Make the living working copy, at `location` or where the repository has it."""
        from havasu_vc.checkouts.living_making import create_living

        set_up(self._repo)
        return create_living(self._repo, location, anew=anew, discard=discard)

    def require_datasets(
        self, take: Sequence[str], leave: Sequence[str], revision: str = "HEAD"
    ) -> None:
        """Raise where a revision lacks a dataset that is to be chosen or left out."""
        from havasu_vc.checkouts.living_making import require_datasets

        require_datasets(self._repo, revision, take, leave)

    def choose_datasets(
        self, take: Sequence[str], leave: Sequence[str], *, discard: bool = False
    ) -> None:
        """Have some datasets of HEAD in the living working copy, and leave others out of it."""
        from havasu_vc.checkouts.living_making import choose_datasets

        set_up(self._repo)
        choose_datasets(self._repo, take, leave, discard=discard)

    def set_spatial_filter(self, filter_: SpatialFilter, *, discard: bool = False) -> bool:
        """Limit the living working copy, and any that is made, to the rows of an area.

        Returns whether there is one, and it was limited to another area.
        """
        from havasu_vc.checkouts.living_making import set_spatial_filter

        set_up(self._repo)
        return set_spatial_filter(self._repo, filter_, discard=discard)

    def take_parts_made(self) -> dict[str, tuple[int, int]]:
        """Return which tables were made with the rows of an area alone since this was asked last.

        By path, of how many rows of the dataset, and with how many.
        """
        made, self._repo.parts_made = self._repo.parts_made, {}
        return made

    def take_spatial_filter(self, filter_: SpatialFilter) -> None:
        """Note a spatial filter for a working copy to be made, which a remote may have."""
        from havasu_vc.repo.spatial_filters import write_spatial_filter

        git = self._repo.git
        if filter_.reference is not None:
            refs = "+refs/filters/*:refs/filters/*"
            git.git("config", "--add", "remote.origin.fetch", refs)
            git.git("fetch", "--quiet", "origin", refs)
        write_spatial_filter(git, filter_.resolved(git))

    @property
    def default_location(self) -> str:
        """The name that a working copy has unless another is asked for."""
        return default_location(self._repo.git)

    def named_in(self, folder: Path, location: str) -> str:
        """Return the place of a working copy that somebody in a folder names, as Kart takes it."""
        return named_in(folder, location, self._repo.git)

    def plan_living(self, location: str | None = None) -> bool:
        """Note where the living working copy is to be; return whether there is to be one."""
        return plan_living(self._repo, location)

    @property
    def place(self) -> Path | str:
        """The folder that tables are in, or would be, or the URL."""
        from havasu_vc.checkouts.table_places import workspace_root

        return workspace_root(self._repo)

    @property
    def root(self) -> Path:
        """The folder that tables are in, or would be; raises where they are in a bucket."""
        place = self.place
        if isinstance(place, Path):
            return place
        raise StateError(f"the tables are in no folder, but at {place}")

    def state(self) -> WorkspaceState | None:
        """Return what is checked out; None when nothing is."""
        from havasu_vc.checkouts.checking_out import open_state

        return open_state(self._repo)

    def check_out(
        self, request: CheckoutRequest | None = None, *, discard: bool = False
    ) -> CheckoutResult:
        """Make the tables of HEAD, or bring those that are there to HEAD.

        Tables with edits stay as they are, unless `discard` drops the edits.
        """
        from havasu_vc.checkouts.checking_out import check_out

        set_up(self._repo)
        place = living_place(self._repo)
        if place is not None and place.exists:
            from havasu_vc.checkouts.living_making import limit_living

            with following(self._repo, discard=discard):
                limit_living(self._repo, place, discard=discard)
        asked = request is not None and request != CheckoutRequest()
        unset = self._repo.git.config.get(SETTING) is None
        if place is not None and place.kart and unset and not asked:
            # As in Kart, its working copy is what is checked out.
            if not place.exists:
                self.create_living()
            return self._living_result(place.where)
        return check_out(self._repo, request or CheckoutRequest(), discard=discard)

    def _living_result(self, root: Path | str) -> CheckoutResult:
        from havasu_vc.repo.results import CheckoutResult

        paths = self._repo.datasets()
        return CheckoutResult(root, self._repo.head().commit, paths, paths)

    def relocate(self) -> CheckoutResult:
        """Make tables that were moved along with their repository at home, edits and all."""
        from havasu_vc.checkouts.checking_out import relocate

        return relocate(self._repo)

    check_out_to = asks(lambda: CheckoutToRequest, _check_out_to)

    def edited(self) -> Mapping[str, TableState]:
        """Return the tables with edits: those that others wrote to, if a row or column changed."""
        if not self.has_tables:
            return {}
        from havasu_vc.checkouts.checking_out import edited_tables

        found = edited_tables(self._repo)
        if found:
            from havasu_vc.checkouts.edits import without_changes

            # A compaction is nothing to lose.
            same = without_changes(self._repo, found)
            self._repo.taken.update(same)
            found = {path: table for path, table in found.items() if path not in same}
        return found

    def require_clean_in_karts(self) -> None:
        """Raise where Kart's working copy has edits: it commits nothing else beside them."""
        if self._repo.git.follows_kart and (living := self.living) is not None:
            living.require_clean()

    def require_no_loss(
        self,
        revision: str,
        *,
        discard: bool = False,
        any_edit: bool = False,
        merging: bool = False,
    ) -> None:
        """Raise `UncommittedChangesError` when going to a commit would pass over edits.

        Edits of a dataset that is the same there stay and are no reason to refuse, but
        with `any_edit` they are. `merging` asks what a merge of the commit would change.
        """
        if discard:
            return
        if (living := self.living) is not None:
            living.require_no_loss(revision, any_edit=any_edit, merging=merging)
        if not self.has_tables:
            return
        from havasu_vc.checkouts.checking_out import is_at_home

        # Tables that were moved stay as they are until they are told where they are.
        try:
            edited = self.edited() if is_at_home(self._repo) else {}
        except StorageError as error:
            more = "or go on with `--discard-changes`, without a look at what is edited there"
            raise StorageError(error.message, hints=(*error.hints, more)) from error
        if not edited:
            return
        from havasu_vc.checkouts.checking_out import changed_by

        lost = list(edited) if any_edit else changed_by(self._repo, edited, revision, merging)
        if lost:
            names = " and ".join(lost) if len(lost) < 4 else f"{len(lost)} tables"
            have = "have" if len(lost) > 1 else "has"
            raise UncommittedChangesError(
                f"{names} {have} edits that are not committed",
                hints=(
                    "`havasu-vc commit` commits them",
                    "`havasu-vc checkout --discard-changes` drops them",
                ),
            )

    # Edits

    def changes(self) -> WorkspaceChanges | None:
        """Return how much is edited in each table; None where there is no workspace."""
        found = None
        place = living_place(self._repo)
        if place is not None:
            from havasu_vc.checkouts.living_copy import LivingCopy

            found = LivingCopy(self._repo, place).changes()
        if not self.has_tables:
            return found
        tables = self._table_changes()
        if found is None or tables is None:
            return found or tables
        return replace(
            found,
            tables={**tables.tables, **found.tables},
            problems=(*found.problems, *tables.problems),
            notes=(*found.notes, *tables.notes),
        )

    def require_found(self) -> None:
        """Raise `NoWorkingCopyError` where a working copy is to be and is not there."""
        place = living_place(self._repo)
        if place is not None and not place.exists and not self.has_tables:
            if self._repo.git.follows_kart and self._repo.head().commit is None:
                raise NotFoundError(
                    "there is no commit yet", hints=("`havasu-vc import` makes the first",)
                )
            raise NoWorkingCopyError(
                f"there is no working copy at {place.where}",
                hints=("`havasu-vc create-workingcopy` makes it",),
            )

    def _table_changes(self) -> WorkspaceChanges | None:
        from havasu_vc.checkouts.glance import glance

        seen = glance(self._repo)
        if seen is not None:
            return seen
        from havasu_vc.checkouts.edits import workspace_changes

        return workspace_changes(self._repo)

    def diff(
        self, revision: str | None = None, filters: Sequence[str] = ()
    ) -> Iterator[DatasetDiff]:
        """Yield how the tables differ from what was checked out, or from a revision.

        Where a dataset is in a living working copy and a table besides, it is told once, of
        the one that is edited; of both where both are.
        """
        return self._diff(revision, filters)

    def diff_of_all(
        self, revision: str | None = None, filters: Sequence[str] = ()
    ) -> Iterator[DatasetDiff]:
        """Yield the same, and Kart datasets of the working copy in which nothing changed."""
        return self._diff(revision, filters, equal_ones=True)

    def _diff(
        self, revision: str | None, filters: Sequence[str], *, equal_ones: bool = False
    ) -> Iterator[DatasetDiff]:
        place, edited = living_place(self._repo), None
        living = place is not None and place.exists
        if self.has_tables:
            from havasu_vc.checkouts.edits import diff_workspace, edited_tables

            if living and revision is not None:
                edited = edited_tables(self._repo)
        if place is not None and living:
            from havasu_vc.checkouts.living_diff import diff_copy

            told, home = edited or (), place.home()
            yield from diff_copy(self._repo, home, revision, filters, told, equal_ones=equal_ones)
        if self.has_tables:
            yield from diff_workspace(self._repo, revision, filters, only=edited)

    commit = asks(lambda: WorkspaceCommitRequest, lambda: commit_workspace)
    commit_from = asks(lambda: TableCommitRequest, _commit_from)

    def diff_from(
        self, location: str, filters: Sequence[str] = (), revision: str | None = None
    ) -> Iterator[DatasetDiff]:
        """Yield what was edited in a table of `check_out_to`: how it differs from its commit.

        With a revision, how it differs from that.
        """
        from havasu_vc.checkouts.edits_elsewhere import diff_table

        return diff_table(self._repo, location, filters, revision)

    def discard(self, datasets: Sequence[str] = (), *, dry_run: bool = False) -> tuple[str, ...]:
        """Drop the edits of all tables, or of some, and return which had any."""
        living = self.living
        gone = () if living is None else living.discard(datasets, dry_run=dry_run)
        if not self.has_tables:
            return gone
        return tuple(dict.fromkeys((*gone, *self._discard_tables(datasets, dry_run=dry_run))))

    clean = asks(lambda: CleanRequest, _clean)

    def discard_rows(self, filters: Sequence[str], *, dry_run: bool = False) -> dict[str, int]:
        """Drop the edits of rows, named as by filters; return how many of each dataset went."""
        from havasu_vc.checkouts.partial_commits import discard_part

        try:
            return discard_part(self._repo, filters, dry_run=dry_run)
        finally:
            self._repo.taken.clear()

    def _discard_tables(self, datasets: Sequence[str], *, dry_run: bool) -> tuple[str, ...]:
        from havasu_vc.checkouts.edits import discard_edits, still_edited

        try:
            if dry_run:
                return discard_edits(self._repo, datasets)
            with following(self._repo):
                dropped = discard_edits(self._repo, datasets)
            if left := still_edited(self._repo, dropped):
                raise StateError(
                    f"the edits of {', '.join(left)} are still there, as no table could be made",
                    hints=("try again when that is put right",),
                )
            return dropped
        finally:
            self._repo.taken.clear()

    # Edits set aside

    def stash(self, datasets: Sequence[str] = (), *, message: str | None = None) -> Stash:
        """Set the edits of all tables aside, or of some; the tables are at HEAD then."""
        from havasu_vc.checkouts.stashing import save_stash

        try:
            return save_stash(self._repo, datasets, message=message)
        finally:
            self._repo.taken.clear()

    def stashes(self) -> tuple[Stash, ...]:
        """Return what is set aside, newest first."""
        from havasu_vc.checkouts.stashing import list_stashes

        return list_stashes(self._repo)

    def diff_stash(self, name: str | None = None) -> tuple[Stash, Iterator[DatasetDiff]]:
        """Return a stash, the newest if none is named, and what it changes."""
        from havasu_vc.checkouts.stashing import diff_stash

        return diff_stash(self._repo, name)

    def apply_stash(self, name: str | None = None, *, drop: bool = False) -> Stash:
        """Bring a stash back into the tables; with `drop`, forget it then."""
        from havasu_vc.checkouts.stashing import apply_stash

        return apply_stash(self._repo, name, drop=drop)

    def drop_stash(self, name: str | None = None) -> Stash:
        """Forget a stash."""
        from havasu_vc.checkouts.stashing import drop_stash

        return drop_stash(self._repo, name)


def commit_workspace(repo: OpenRepo, request: WorkspaceCommitRequest) -> CommitResult:
    """Commit the edits of all tables, or of some datasets or rows that filters name.

    The tables are at HEAD then, with what is left of their edits. With `refs`, branches of
    tables that were written to are committed to git's. It is refused where HEAD has a broken
    dataset, and where it would overwrite rows outside of the spatial filter, unless that is
    allowed.
    """
    from havasu_vc.repo.soundness import require_sound_head

    require_sound_head(repo, allowed=request.allow_broken)
    workspace = Workspace(repo)
    if (living := workspace.living) is not None:
        try:
            return living.commit(request)
        except NoChangesError:
            if not workspace.has_tables:
                raise
    if any(set(text) & set(":*?[") for text in request.filters):
        from havasu_vc.checkouts.partial_commits import commit_part

        if request.refs:
            raise InvalidArgumentError("branches of tables are committed with all their edits")
        return commit_part(repo, request)
    anyway = request.filters or request.dry_run or request.allow_empty
    if not anyway and _is_untouched(repo):
        from havasu_vc.checkouts.glance import nothing_edited

        raise nothing_edited()
    from havasu_vc.checkouts.edits import commit_edits_of

    try:
        return commit_edits_of(repo, request)
    finally:
        repo.taken.clear()


def _is_untouched(repo: OpenRepo) -> bool:
    """Whether nobody wrote to the tables, as far as a glance tells; reads none of them."""
    from havasu_vc.checkouts.glance import glance

    git, state = repo.git, read_state(repo.git.git_directory)
    busy = merge_waits(git) or git.kart_merge or git.operation is not Operation.NONE
    if state is None or busy:
        return False
    folders = repo.folders(repo.head())
    for path, table in state.tables.items():
        folder = folders.get(path)
        # Others are compared with a version of them that is kept, which may be gone.
        if folder is None or not is_in_files(folder.marker) or table.clustered is not None:
            return False
    seen = glance(repo)
    return seen is not None and not (seen.tables or seen.notes or seen.problems)
