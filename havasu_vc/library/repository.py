"""`Repo`: a git repository of datasets, the one object that a library user holds.

    repo = Repo.init("survey")
    repo.import_("parcels.gpkg")
    for diff in repo.diff("HEAD^?...HEAD"):
        print(diff.path, sum(len(batch) for batch in diff.changes))

It is composed of use cases: each method is a function of the package that does the work
(`library.methods`), spelt and documented there. Reading never changes anything, but for
mending what a command that died left behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from havasu_vc import (
    checkouts,
    editing,
    looking,
    merging,
    querying,
    review,
    sharing,
    transfer,
    upkeep,
)
from havasu_vc import repo as core
from havasu_vc.checkouts import catch_up, committing, following
from havasu_vc.engine.settings import Settings
from havasu_vc.errors import HavasuError, InvalidArgumentError
from havasu_vc.methods import asks, uses
from havasu_vc.model.commits import CommitInfo
from havasu_vc.model.names import POLICY_FILE
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store import refs
from havasu_vc.store.index import mend
from havasu_vc.store.preparation import HOOK_IS_ELSEWHERE, install_hooks
from havasu_vc.store.refs import Branch, Tag
from havasu_vc.store.repository import GitRepository
from havasu_vc.store.trees import find_entry

if TYPE_CHECKING:
    from havasu_vc.datasets.protocol import Dataset, TreeEdit
    from havasu_vc.datasets.storage import Fetcher, Storage
    from havasu_vc.library.notebook import Shown
    from havasu_vc.model.diffs import DatasetDiff
    from havasu_vc.repo.transaction import Transaction
    from havasu_vc.store.command import GitConfig
    from havasu_vc.store.commits import Commit
    from havasu_vc.store.revisions import Revision
    from havasu_vc.store.trees import DatasetFolder

__all__ = ["Repo"]

CommitInfo.html = lambda commit: looking.commit_html(commit)


def _check_edits(
    repo: OpenRepo, storage: Storage, edits: Sequence[TreeEdit], base: Revision
) -> None:
    """Hold the policy against edits; what does is loaded only where there is one."""
    if find_entry(repo.git.objects, base.tree, POLICY_FILE) is not None:
        review.check_edits(repo, storage, edits, base)


def _check_moves(repo: OpenRepo, moves: Mapping[str, str | None], base: Revision) -> None:
    """Hold the policy against datasets that move or go."""
    if find_entry(repo.git.objects, base.tree, POLICY_FILE) is not None:
        review.check_moves(repo, moves, base)


# What shows itself in notebooks is loaded by those methods alone that give such things.


def _log() -> Callable[[OpenRepo, looking.LogRequest], Shown[CommitInfo]]:
    from havasu_vc.library.notebook import log

    return log


def _diff() -> Callable[[OpenRepo, looking.DiffRequest], Shown[DatasetDiff]]:
    from havasu_vc.library.notebook import diff

    return diff


def _show() -> Callable[[OpenRepo, looking.ShowRequest], tuple[CommitInfo, Shown[DatasetDiff]]]:
    from havasu_vc.library.notebook import show

    return show


def _fetcher(opened: OpenRepo) -> Fetcher:
    return sharing.RemoteFetcher(opened)


class Repo:
    """A repository of datasets. `open` and `init` make one."""

    def __init__(self, git: GitRepository, settings: Settings | None = None) -> None:
        if not isinstance(git, GitRepository):
            raise InvalidArgumentError(
                "a repository is opened by its path", hints=("`Repo.open(path)` opens one",)
            )
        self.opened = OpenRepo(git, settings or Settings())
        """The repository as use cases see it."""
        self.opened.make_fetcher = _fetcher

    # Having one

    @classmethod
    def init(
        cls,
        path: str | Path = ".",
        *,
        bare: bool = False,
        branch: str | None = None,
        kart: bool = False,
        settings: Settings | None = None,
    ) -> Repo:
        """Make a repository, or prepare the one that is there; doing it again changes nothing.

        With `kart`, a new one is such that Kart opens it, and its datasets are Kart's.
        """
        from havasu_vc.store.preparation import init_repository

        repo = cls(init_repository(path, bare=bare, branch=branch, kart=kart), settings)
        if not install_hooks(repo.git):
            repo.settings.note(HOOK_IS_ELSEWHERE)
        return repo

    @classmethod
    def clone(
        cls, request: sharing.CloneRequest, *, settings: Settings | None = None
    ) -> tuple[Repo, sharing.FetchResult]:
        """Clone a repository and its data; return it, and what came."""
        opened, fetched = sharing.clone(request, settings or Settings())
        return cls(opened.git, opened.settings), fetched

    @classmethod
    def open(cls, path: str | Path = ".", *, settings: Settings | None = None) -> Repo:
        """Open the repository that a path is in."""
        git = GitRepository.open(path)
        repo = cls(git, settings)
        mend(git)
        catch_up(repo.opened)
        return repo

    def with_settings(self, settings: Settings) -> Repo:
        """Return the same repository worked with otherwise."""
        return Repo(self.git, settings)

    def set_up(self) -> None:
        """Make of a plain clone of git what `clone` makes, if it has datasets and may be written.

        Internals stay out of the work tree, and `git push` sends data. What changes a repository
        does so by itself; the command line does so whatever is asked.
        """
        from havasu_vc.repo.setting_up import set_up

        if not self.git.is_bare:
            with suppress(HavasuError, OSError):  # what is asked for may not need to write
                set_up(self.opened)

    def keep_policy(self) -> None:
        """Have commits refused that are against the policy of the repository."""
        self.opened.check_edits = _check_edits
        self.opened.check_moves = _check_moves

    def _repr_html_(self) -> str:
        from havasu_vc.library.notebook import repo_html

        return repo_html(self.opened)

    @property
    def git(self) -> GitRepository:
        """The git repository."""
        return self.opened.git

    @property
    def settings(self) -> Settings:
        """How to work."""
        return self.opened.settings

    @property
    def path(self) -> Path:
        """The work tree, or the git directory where there is none."""
        return self.git.path

    @property
    def config(self) -> GitConfig:
        """Git's settings."""
        return self.git.config

    @property
    def head_branch(self) -> str | None:
        """The branch that HEAD is on; None when it is on a commit itself."""
        return self.git.head_branch

    @property
    def storage(self) -> Storage:
        """Where data files are."""
        return self.opened.storage

    @property
    def workspace(self) -> checkouts.Workspace:
        """The tables that are checked out."""
        return checkouts.Workspace(self.opened)

    @property
    def rasters(self) -> transfer.Rasters:
        """The rasters of its tables."""
        return transfer.Rasters(self.opened)

    @property
    def validation(self) -> upkeep.Validation:
        """Holds its data, and files, against what columns say."""
        return upkeep.Validation(self.opened)

    # Looking

    def resolve(self, revision: str = "HEAD") -> Revision:
        """Return the commit that a revision means."""
        return self.opened.resolve(revision)

    def head(self) -> Revision:
        """Return HEAD's commit, or the empty revision before the first."""
        return self.opened.head()

    def folders(self, revision: Revision) -> dict[str, DatasetFolder]:
        """Return the folders of a revision's datasets, of every kind, by path."""
        return self.opened.folders(revision)

    def datasets(self, revision: str = "HEAD") -> tuple[str, ...]:
        """Return the paths of the datasets that can be read, in order."""
        return self.opened.datasets(revision)

    def dataset(self, path: str, revision: str = "HEAD") -> Dataset:
        """Return a dataset at a revision, after checking its guard."""
        return self.opened.dataset(path, revision)

    def table(self, path: str, revision: str = "HEAD") -> looking.Table:
        """Return the rows of a dataset at a revision."""
        return looking.Table(self.dataset(path, revision), self.opened.settings)

    list_datasets = uses(lambda: looking.list_datasets)
    status = uses(lambda: looking.status)
    commit_info = uses(lambda: looking.commit_info)
    log = asks(lambda: looking.LogRequest, _log)
    tiles_changed = uses(lambda: looking.tiles_changed)
    describe_dataset = uses(lambda: looking.describe_dataset)
    count_rows = uses(lambda: looking.count_rows)
    choose_rows = asks(lambda: looking.RowsRequest, lambda: looking.choose_rows)
    seek = asks(lambda: looking.SeekRequest, lambda: looking.seek)
    diff = asks(lambda: looking.DiffRequest, _diff)
    show = asks(lambda: looking.ShowRequest, _show)
    create_patch = uses(lambda: looking.create_patch)
    file_changes = asks(lambda: looking.FileChangesRequest, lambda: looking.file_changes)
    blame = asks(lambda: looking.BlameRequest, lambda: looking.blame_dataset)
    row = uses(lambda: looking.read_row)
    get_meta = uses(lambda: editing.get_meta)

    read_rows = uses(lambda: looking.read_rows)
    read_page = asks(lambda: looking.PageRequest, lambda: looking.read_page)
    row_places = uses(lambda: looking.row_places)
    sound_datasets = uses(lambda: core.sound_datasets)
    document_diff = uses(lambda: looking.document_diff)

    sql = uses(lambda: querying.sql)
    queries = uses(lambda: querying.Queries)

    def view(self, folder: DatasetFolder, revision: str) -> Dataset:
        """Return the dataset that a folder of a revision holds, without checking it."""
        return self.opened.view(folder, revision)

    # Reviewing

    review = asks(lambda: review.ReviewRequest, lambda: review.review)
    review_options = asks(lambda: review.ReviewOptionsRequest, lambda: review.review_options)
    policy = uses(lambda: review.read_policy)
    broken_findings = asks(lambda: review.BrokenRequest, lambda: review.broken_findings)
    review_request = uses(lambda: review.review_request)
    review_queued = uses(lambda: review.review_queued)

    # Branches and tags

    def branches(self, *, remote: bool = False) -> tuple[Branch, ...]:
        """Return the branches."""
        return tuple(refs.list_branches(self.git, remote=remote))

    def create_branch(self, name: str, start: str = "HEAD", *, force: bool = False) -> None:
        """Make a branch; with `force` move it there if there is one."""
        refs.create_branch(self.git, name, checkouts.commit_of(self.opened, start), force=force)

    def delete_branch(self, name: str, *, force: bool = False) -> None:
        """Remove a branch; with `force` also one that is merged nowhere."""
        refs.delete_branch(self.git, name, force=force)

    def tags(self) -> tuple[Tag, ...]:
        """Return the tags."""
        return tuple(refs.list_tags(self.git))

    def create_tag(self, name: str, revision: str = "HEAD", *, message: str | None = None) -> None:
        """Name a commit."""
        refs.create_tag(self.git, name, checkouts.commit_of(self.opened, revision), message=message)

    def delete_tag(self, name: str) -> None:
        """Remove a tag."""
        refs.delete_tag(self.git, name)

    switch = asks(lambda: checkouts.SwitchRequest, lambda: checkouts.switch)
    reset = asks(lambda: checkouts.ResetRequest, lambda: checkouts.reset)

    # Taking in and giving out

    import_ = asks(
        lambda: transfer.ImportRequest, lambda: transfer.import_source, within=committing
    )
    convert = asks(lambda: transfer.ConvertRequest, lambda: transfer.convert, within=committing)
    export = asks(lambda: transfer.ExportRequest, lambda: transfer.export)
    export_changes = uses(lambda: transfer.export_changes)
    add_datasets = uses(lambda: transfer.add_datasets)
    checkout_as = asks(lambda: transfer.CopyRequest, lambda: transfer.checkout_as)
    commit_from = asks(
        lambda: transfer.CopyCommitRequest, lambda: transfer.commit_from, within=committing
    )

    diff_copy = uses(lambda: transfer.diff_copy)

    def list_layers(self, location: str) -> tuple[str, ...]:
        """Return the names of the layers of a file that can be imported."""
        from havasu_vc.exchange.sources import list_source_layers

        return tuple(list_source_layers(location))

    # Editing

    write = uses(lambda: editing.write_rows, within=committing)
    apply_patch = asks(lambda: editing.PatchRequest, lambda: editing.apply_patch, within=committing)
    set_meta = uses(lambda: editing.set_meta, within=committing)
    commit_files = uses(lambda: editing.commit_files, within=committing)
    move_dataset = uses(lambda: editing.move_dataset, within=committing)
    remove_datasets = uses(lambda: editing.remove_datasets, within=committing)
    declare_geometries = uses(lambda: editing.declare_geometries, within=committing)
    amend = uses(lambda: editing.amend, within=committing)
    commit_edits = uses(lambda: core.commit_edits, within=committing)
    restore = asks(lambda: editing.RestoreRequest, lambda: editing.restore, within=following)

    def amending(self, ref: str | None = None) -> AbstractContextManager[Commit]:
        """Have a commit that a block makes stand in the place of a branch's, as its author's."""
        return editing.amending(self.opened, ref)

    def transaction(self) -> Transaction:
        """Return a commit in the making; use it as a context manager."""
        from havasu_vc.repo.transaction import Transaction

        return Transaction(self.opened)

    # Merging

    merge = asks(lambda: merging.MergeRequest, lambda: checkouts.merge)
    continue_merge = uses(lambda: checkouts.continue_merge)
    abort_merge = uses(lambda: checkouts.abort_merge)
    cherry_pick = asks(lambda: merging.PickRequest, lambda: merging.cherry_pick, within=following)
    revert = asks(lambda: merging.PickRequest, lambda: merging.revert, within=following)
    pick_several = asks(
        lambda: merging.SequenceRequest, lambda: merging.pick_several, within=following
    )
    rebase = asks(lambda: merging.RebaseRequest, lambda: checkouts.rebase)
    skip_commit = uses(lambda: merging.skip_commit, within=following)
    conflicts = uses(lambda: merging.conflicts)
    view_conflicts = uses(lambda: merging.view_conflicts)
    merge_context = uses(lambda: merging.merge_context)

    def resolve_conflicts(
        self,
        filters: Sequence[str] = (),
        *,
        choice: str | None = None,
        columns: Mapping[str, str] | None = None,
        row: Mapping[str, Any] | None = None,
        document: bytes | None = None,
        renumber: str | None = None,
    ) -> int:
        """Resolve the conflicts that filters name; return how many.

        The resolution is `choice` (`ours`, `theirs`, `base`, `delete`, or `workingcopy`: the row
        that stands there), `columns` (the side of the cells of some columns; `choice` of the
        others), `row`, `document` (a GeoJSON feature or Kart's JSON as bytes) or `renumber`
        (`ours` or `theirs`).
        """
        from havasu_vc.repo.setting_up import set_up

        set_up(self.opened)
        resolution = merging.Resolution(
            choice=choice,
            columns=columns,
            row=row,
            document=document,
            renumber=renumber,
        )
        living = self.workspace.living if choice == "workingcopy" else None
        standing = None if living is None else living.standing
        if self.git.kart_merge is None:
            return merging.resolve(self.opened, filters, resolution, standing)
        # Kart's working copy shows what was decided at once.
        with following(self.opened):
            return merging.resolve(self.opened, filters, resolution, standing)

    # Sharing

    remotes = uses(lambda: sharing.remotes)
    upstream = uses(lambda: sharing.upstream_of)
    fetch = asks(lambda: sharing.FetchRequest, lambda: sharing.fetch)
    push = asks(lambda: sharing.PushRequest, lambda: sharing.push)
    fetch_data = asks(lambda: sharing.DataRequest, lambda: sharing.fetch_data)
    push_data = uses(lambda: sharing.push_data)
    data_status = uses(lambda: sharing.data_status)
    verify_data = uses(lambda: sharing.verify_data)
    drop_data = asks(lambda: sharing.DropRequest, lambda: sharing.drop_data)
    prune_remote = asks(lambda: upkeep.PruneRequest, lambda: upkeep.prune_remote)
    check_received = uses(lambda: sharing.check_received)
    finish_clone = uses(lambda: sharing.finish_clone)
    data_place = uses(lambda: sharing.data_place)
    far_place = uses(lambda: sharing.far_place)
    usable_data_place = uses(lambda: sharing.usable_data_place)
    stated_data_place = uses(lambda: sharing.stated_data_url)
    set_data_place = uses(lambda: sharing.commit_data_url)

    # Upkeep

    optimize = asks(lambda: upkeep.OptimizeRequest, lambda: upkeep.optimize, within=committing)
    repair = asks(lambda: upkeep.RepairRequest, lambda: upkeep.repair, within=committing)
    upgrade_datasets = uses(lambda: upkeep.upgrade_datasets, within=committing)
    fsck = uses(lambda: upkeep.fsck)
    fsck_working_copy = uses(lambda: upkeep.fsck_working_copy)
    make_table_anew = uses(lambda: checkouts.make_table_anew)
    gc = uses(lambda: upkeep.gc)
    annotate = uses(lambda: upkeep.annotate)
    index_features = asks(lambda: upkeep.IndexRequest, lambda: upkeep.index_features)

    upgrade_in_place = uses(lambda: upkeep.upgrade_in_place)

    def upgrade(self, destination: str | Path) -> Repo:
        """Make a Kart V3 repository of one in Kart's V2, with all commits, and return it."""
        return Repo(upkeep.upgrade(self.opened, Path(destination)), self.settings)
