"""`Repo`: a git repository of datasets, the one object that a library user holds.

    repo = Repo.init("survey")
    repo.import_("parcels.gpkg")
    for diff in repo.diff("HEAD^?...HEAD"):
        print(diff.path, sum(len(batch) for batch in diff.changes))

It opens views, hands them to the algorithms, and is the only one who writes objects
and moves refs. Reading never changes anything, but for mending what a command that
died left behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from havasu_vc.errors import NotYetSupportedError
from havasu_vc.repo.following import (
    catch_up,
    commits,
    following,
    moves_head,
    require_no_merge,
)
from havasu_vc.repo.hooks import install_hooks
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.settings import Settings
from havasu_vc.store import refs
from havasu_vc.store.index import mend, switch_worktree
from havasu_vc.store.refs import Branch, Tag
from havasu_vc.store.repository import GitRepository
from havasu_vc.store.revisions import Revision
from havasu_vc.store.trees import DatasetFolder

if TYPE_CHECKING:
    import pyarrow as pa

    from havasu_vc.datasets.any import AnyDataset
    from havasu_vc.datasets.storage import Fetcher, Storage
    from havasu_vc.exchange.source import SourceOptions
    from havasu_vc.model.blames import Blame
    from havasu_vc.model.commits import CommitInfo
    from havasu_vc.model.conflicts import ConflictedDataset, MergeContext
    from havasu_vc.model.diffs import DatasetDiff
    from havasu_vc.repo import results
    from havasu_vc.repo.cloning import CloneRequest
    from havasu_vc.repo.data_files import DataStatus, DropResult
    from havasu_vc.repo.merge_state import DatasetConflicts
    from havasu_vc.repo.merging import MergeResult
    from havasu_vc.repo.parts import Part
    from havasu_vc.repo.pruning import PruneResult
    from havasu_vc.repo.pushing import PushResult
    from havasu_vc.repo.sharing import FetchResult
    from havasu_vc.repo.tables import Table
    from havasu_vc.repo.transaction import Transaction
    from havasu_vc.repo.workspace import Workspace
    from havasu_vc.review.report import Review
    from havasu_vc.store.configuration import GitConfig

__all__ = ["Repo"]


def _fetcher(opened: OpenRepo) -> Fetcher:
    from havasu_vc.repo.fetching_on_demand import RemoteFetcher

    return RemoteFetcher(opened)


class Repo:
    """A repository of datasets. `open` and `init` make one."""

    def __init__(self, git: GitRepository, settings: Settings | None = None) -> None:
        self.opened = OpenRepo(git, settings or Settings())
        """The repository as operations see it."""
        self.opened.make_fetcher = _fetcher

    @property
    def git(self) -> GitRepository:
        """The git repository."""
        return self.opened.git

    @property
    def settings(self) -> Settings:
        """How to work."""
        return self.opened.settings

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
        repo = cls(GitRepository.init(path, bare=bare, branch=branch, kart=kart), settings)
        if not install_hooks(repo.git):
            repo.settings.note(
                "there is another pre-push hook: before `git push`, run `havasu-vc data push`"
            )
        return repo

    @classmethod
    def open(cls, path: str | Path = ".", *, settings: Settings | None = None) -> Repo:
        """Open the repository that a path is in."""
        git = GitRepository.open(path)
        mend(git)
        repo = cls(git, settings)
        catch_up(repo.opened)
        return repo

    def with_settings(self, settings: Settings) -> Repo:
        """Return the same repository worked with otherwise."""
        return Repo(self.git, settings)

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
    def workspace(self) -> Workspace:
        """The tables that are checked out."""
        from havasu_vc.repo.workspace import Workspace

        return Workspace(self.opened)

    def transaction(self) -> Transaction:
        """Return a commit in the making; use it as a context manager."""
        from havasu_vc.repo.transaction import Transaction

        return Transaction(self.opened)

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

    def list_datasets(self, revision: str = "HEAD") -> tuple[results.DatasetInfo, ...]:
        """Describe the datasets of a revision, also those of kinds that are left untouched."""
        from havasu_vc.repo.overview import list_datasets

        return list_datasets(self.opened, revision)

    def dataset(self, path: str, revision: str = "HEAD") -> AnyDataset:
        """Return a dataset at a revision, after checking its guard."""
        return self.opened.dataset(path, revision)

    def table(self, path: str, revision: str = "HEAD") -> Table:
        """Return the rows of a dataset at a revision."""
        from havasu_vc.repo.tables import Table

        return Table(self.dataset(path, revision), self.settings)

    def status(self) -> results.RepoStatus:
        """Return where HEAD is and what is going on."""
        from havasu_vc.repo.overview import status

        return status(self.opened)

    # History

    def commit_info(self, revision: str = "HEAD") -> CommitInfo:
        """Return a commit as writers print it."""
        from havasu_vc.repo.histories import commit_info

        return commit_info(self.opened, revision)

    def log(
        self, revision: str = "HEAD", *, filters: Sequence[str] = (), **conditions: Any
    ) -> Iterator[CommitInfo]:
        """Yield the commits that a revision or range reaches, newest first.

        `filters` name datasets, rows or meta items; `conditions` are `limit`, `skip`,
        `since`, `until`, `author` and `grep`, as git has them, and `columns` of the rows.
        """
        from havasu_vc.repo.histories import log

        return log(self.opened, revision, filters, conditions)

    def diff(
        self, revisions: str = "HEAD^?...HEAD", filters: Sequence[str] = ()
    ) -> Iterator[DatasetDiff]:
        """Yield how each dataset differs between two revisions, by path."""
        from havasu_vc.repo.differences import diff

        return diff(self.opened, revisions, filters)

    def show(
        self, revision: str = "HEAD", filters: Sequence[str] = ()
    ) -> tuple[CommitInfo, Iterator[DatasetDiff]]:
        """Return a commit and what it changed of its first parent."""
        from havasu_vc.repo.differences import show

        return show(self.opened, revision, filters)

    create_patch = show

    def review(self, revisions: str, filters: Sequence[str] = (), *, samples: int = 40) -> Review:
        """Return what changed between two revisions, summed up for people."""
        from havasu_vc.repo.reviewing import review

        return review(self.opened, revisions, filters, samples=samples)

    def blame(self, dataset: str, **options: Any) -> Blame:
        """Return who last changed rows; options: keys, columns (for cells), revision."""
        from havasu_vc.repo.blaming import blame_dataset

        return blame_dataset(self.opened, dataset, **options)

    def row(self, dataset: str, key: Any, revision: str = "HEAD") -> dict[str, Any]:
        """Return a row at a revision, by its key: a value, a tuple, or text as in a filter."""
        from havasu_vc.repo.rows import read_rows

        return dict(read_rows(self.opened, dataset, [key], revision)[1].to_pylist()[0])

    # Taking in and giving out

    def list_layers(self, location: str) -> tuple[str, ...]:
        """Return the names of the layers of a file that can be imported."""
        from havasu_vc.exchange.sources import list_source_layers

        return tuple(list_source_layers(location))

    @commits
    def import_(
        self,
        location: str | Path,
        destination: str | None = None,
        *,
        layers: Sequence[str] = (),
        all_layers: bool = False,
        options: SourceOptions | None = None,
        order: str = "key",
        replace: bool = False,
        dry_run: bool = False,
        message: str | None = None,
        kind: str | None = None,
        history: bool = False,
        link: bool = False,
    ) -> results.ImportResult:
        """Import layers of a file as datasets, in one commit.

        A table of another format is named `iceberg:FOLDER` or `delta:FOLDER`; with
        `history` each snapshot of an Iceberg table becomes a commit, and with `link` its data
        files stay where they are. A layer may be written `LAYER:DATASET`. With `replace`, datasets that are there are compared by key and only
        what differs is committed. `order` is `key`, `hilbert` or `none`. New datasets are of
        a `kind`, `havasu` or `kart`, by default that of the repository.
        """
        from havasu_vc.repo.imports import ImportRequest, import_history, import_layers

        request = ImportRequest(
            str(location),
            destination,
            tuple(layers),
            all_layers=all_layers,
            options=options,
            order=order,
            replace=replace,
            kind=kind,
            history=history,
            link=link,
        )
        run = import_history if history else import_layers
        return run(self.opened, request, dry_run=dry_run, message=message)

    @commits
    def convert(
        self, dataset: str, kind: str, *, message: str | None = None, history: bool = False
    ) -> results.CommitResult:
        """Commit a dataset as one of another kind (`havasu` or `kart`), with the same rows.

        With `history` every commit that changed it comes again beside those that are there.
        """
        from havasu_vc.repo.converting import convert
        from havasu_vc.repo.converting_history import convert_history

        if history:
            return convert_history(self.opened, dataset.strip("/"), kind, message)
        return convert(self.opened, dataset.strip("/"), kind, message)

    @commits
    def declare_geometries(
        self, dataset: str, encodings: Mapping[str, str], *, message: str | None = None
    ) -> results.CommitResult:
        """Commit what columns hold, by name: `ewkb`, `wkb`, `wkt`, `geojson` or `none`.

        Only the schema changes; values that are something else are an error.
        """
        from havasu_vc.repo.geometry_encodings import declare_geometries

        return declare_geometries(self.opened, dataset.strip("/"), encodings, message)

    def upgrade(self, destination: str | Path) -> Repo:
        """Make a Kart V3 repository of one in Kart's V2, with all commits, and return it."""
        from havasu_vc.repo.upgrading import upgrade

        return Repo(upgrade(self.opened, Path(destination)), self.settings)

    def export(
        self, dataset: str, file: str | Path, *, revision: str = "HEAD", **options: Any
    ) -> results.ExportResult:
        """Write the rows of a dataset to a file, or as a table to a folder.

        Options: format, overwrite, crs, columns; `plain` for a Delta table without geometries.
        """
        from havasu_vc.repo.exports import export

        return export(self.opened, dataset, Path(file), revision, **options)

    def export_changes(
        self, dataset: str, file: str | Path, revisions: str, **options: Any
    ) -> results.ExportResult:
        """Write the rows that changed between two revisions; options: format, overwrite."""
        from havasu_vc.repo.exports import export_changes

        return export_changes(self.opened, dataset, Path(file), revisions, **options)

    def checkout_as(
        self,
        file: str | Path,
        datasets: Sequence[str] = (),
        *,
        revision: str = "HEAD",
        overwrite: bool = False,
    ) -> results.ExportResult:
        """Write datasets to a GeoPackage to edit, which remembers the commit it is of."""
        from havasu_vc.repo.copies import checkout_as

        return checkout_as(self.opened, Path(file), tuple(datasets), revision, overwrite=overwrite)

    # Committing

    @commits
    def commit_from(
        self,
        file: str | Path,
        *,
        dataset: str | None = None,
        message: str | None = None,
        dry_run: bool = False,
        allow_empty: bool = False,
    ) -> results.CommitResult:
        """Commit the edits made in a copy that `checkout_as` or `export` wrote."""
        from havasu_vc.repo.copies import commit_from

        return commit_from(
            self.opened, Path(file), dataset, message, dry_run=dry_run, allow_empty=allow_empty
        )

    @commits
    def apply_patch(
        self,
        source: Any,
        *,
        ref: str | None = None,
        allow_empty: bool = False,
        message: str | None = None,
        commit: bool = True,
        limit: int | None = None,
    ) -> results.CommitResult:
        """Commit a patch, given as bytes or an open file; without `commit`, only try it."""
        from havasu_vc.repo.patches import apply_patch

        return apply_patch(
            self.opened,
            source,
            ref=ref,
            allow_empty=allow_empty,
            message=message,
            commit=commit,
            limit=limit,
        )

    def get_meta(
        self, dataset: str, names: Sequence[str] = (), *, revision: str = "HEAD"
    ) -> dict[str, Any]:
        """Return meta items of a dataset, all of them when none is named."""
        from havasu_vc.repo.metadata import get_meta

        return get_meta(self.opened, dataset, names, revision)

    @commits
    def set_meta(
        self, dataset: str, items: Mapping[str, Any], *, message: str | None = None
    ) -> results.CommitResult:
        """Commit meta items of a dataset; None removes one. `schema.json` evolves the schema."""
        from havasu_vc.repo.metadata import set_meta

        return set_meta(self.opened, dataset, items, message)

    @commits
    def write(
        self,
        dataset: str,
        rows: pa.Table | pa.RecordBatch | Iterator[pa.RecordBatch],
        *,
        mode: str = "upsert",
        message: str | None = None,
    ) -> results.CommitResult:
        """Commit rows by key: `upsert`, `append`, `delete`, or `overwrite` to hold just these."""
        from havasu_vc.repo.writing import write_rows

        return write_rows(self.opened, dataset, rows, mode, message)

    # Merging

    @moves_head
    def merge(self, revision: str, **options: Any) -> MergeResult:
        """Merge a commit into HEAD, row by row and cell by cell.

        Options: message, fast_forward (`auto`, `only`, `never`), squash, dry_run, policy.
        What is in conflict waits until it is resolved; nothing moves until then. Tables with
        edits that the merge would pass over make it refuse.
        """
        from havasu_vc.repo.merging import MergeRequest, merge

        self.workspace.require_no_loss(revision, merging=True)
        return merge(self.opened, MergeRequest(revision, **options))

    @moves_head
    def continue_merge(self, *, message: str | None = None) -> MergeResult:
        """Conclude a merge whose conflicts are resolved, or take over what git stopped."""
        from havasu_vc.repo.takeover import continue_merge

        return continue_merge(self.opened, message=message)

    @moves_head
    def abort_merge(self) -> None:
        """Drop a merge that waits, also one that git began."""
        from havasu_vc.repo.takeover import abort_merge

        abort_merge(self.opened)

    def conflicts(self, filters: Sequence[str] = ()) -> Iterator[DatasetConflicts]:
        """Yield the conflicts that are not resolved, by dataset."""
        from havasu_vc.repo.conflicts import conflicts

        return conflicts(self.opened, filters)

    def view_conflicts(self, filters: Sequence[str] = ()) -> Iterator[ConflictedDataset]:
        """Yield the conflicts that are not resolved as writers print them, by dataset."""
        from havasu_vc.repo.conflict_views import view_conflicts

        return view_conflicts(self.opened, filters)

    def merge_context(self, revision: str) -> MergeContext | None:
        """Return the commits of a merge into HEAD; None where they have nothing in common."""
        from havasu_vc.repo.conflict_views import merge_context

        return merge_context(self.opened, revision)

    def resolve_conflicts(self, filters: Sequence[str] = (), **resolution: Any) -> int:
        """Resolve the conflicts that filters name; return how many.

        The resolution is `choice` (`ours`, `theirs`, `base`, `delete`), `columns` (the side
        of the cells of some columns; `choice` of the others), `row`, `document` (a GeoJSON
        feature or Kart's JSON as bytes) or `renumber` (`ours` or `theirs`).
        """
        from havasu_vc.repo.conflicts import Resolution, resolve

        return resolve(self.opened, filters, Resolution(**resolution))

    # Sharing

    @classmethod
    def clone(
        cls, request: CloneRequest, *, settings: Settings | None = None
    ) -> tuple[Repo, FetchResult]:
        """Clone a repository and its data; return it, and what came."""
        from havasu_vc.repo.cloning import clone

        opened, fetched = clone(request, settings or Settings())
        return cls(opened.git, opened.settings), fetched

    def remotes(self) -> tuple[tuple[str, str, str | None], ...]:
        """Return each remote's name, URL, and where its data is if that is elsewhere."""
        from havasu_vc.repo.sharing import remotes

        return remotes(self.opened)

    def upstream(self, remote: str | None = None) -> str:
        """Return the remote branch that the current one follows, which must be of `remote`."""
        from havasu_vc.repo.sharing import upstream_of

        return upstream_of(self.opened, remote)

    def fetch(
        self, remote: str | None = None, refspecs: Sequence[str] = (), **options: Any
    ) -> FetchResult:
        """Fetch refs, then the data files that they name; options: options (git's), data."""
        from havasu_vc.repo.sharing import fetch

        return fetch(self.opened, remote, refspecs, **options)

    def push(
        self, remote: str | None = None, refspecs: Sequence[str] = (), **options: Any
    ) -> PushResult:
        """Send data files, then move the remote's refs; options: options (git's), dry_run."""
        from havasu_vc.repo.pushing import PushRequest, push

        return push(self.opened, PushRequest(remote, tuple(refspecs), **options))

    def push_data(
        self, remote: str | None = None, lines: Sequence[str] | None = None
    ) -> PushResult:
        """Send data files and no refs; `lines` are what git tells its `pre-push` hook."""
        from havasu_vc.repo.pushing import push_data

        return push_data(self.opened, remote, lines)

    def fetch_data(
        self, remote: str | None = None, *, part: Part | None = None, revision: str = "HEAD"
    ) -> FetchResult:
        """Bring every data file that commits here name, or what a part of a revision has."""
        from havasu_vc.repo.sharing import fetch_data

        return fetch_data(self.opened, remote, part, revision)

    def data_status(self) -> DataStatus:
        """Return how many of the data files that commits name are here."""
        from havasu_vc.repo.data_files import data_status

        return data_status(self.opened)

    def verify_data(self) -> Iterator[results.Problem]:
        """Hash every data file that commits name and that is here; yield those that are wrong."""
        from havasu_vc.repo.data_files import verify_data

        return verify_data(self.opened)

    def drop_data(self, remote: str | None = None, **options: Any) -> DropResult:
        """Remove data files that a remote has; options: everything, dry_run."""
        from havasu_vc.repo.data_files import drop_data

        return drop_data(self.opened, remote, **options)

    def prune_remote(self, remote: str | None = None, **options: Any) -> PruneResult:
        """Remove a remote's data files that no ref of it reaches; options: grace_days, delete."""
        from havasu_vc.repo.pruning import prune_remote

        return prune_remote(self.opened, remote, **options)

    # Undoing and bringing again

    @moves_head
    def revert(self, revision: str, **options: Any) -> MergeResult:
        """Commit the opposite of a commit; options: mainline, message, commit, policy."""
        from havasu_vc.repo.picking import revert

        return revert(self.opened, revision, **options)

    @moves_head
    def cherry_pick(self, revision: str, **options: Any) -> MergeResult:
        """Commit again what a commit changed; options: those of `revert`, and record."""
        from havasu_vc.repo.picking import cherry_pick

        return cherry_pick(self.opened, revision, **options)

    @moves_head
    def restore(self, filters: Sequence[str] = (), **options: Any) -> results.CommitResult:
        """Commit datasets, rows or meta items as they were; options: source, message, dry_run."""
        from havasu_vc.repo.restoring import restore

        return restore(self.opened, filters, **options)

    def reset(self, revision: str = "HEAD", *, mode: str = "mixed", discard: bool = False) -> str:
        """Move the branch to a commit: `soft`, `mixed`, `hard` or `keep`, as git does.

        `hard` and `keep` refuse where tables have edits, unless these are to be discarded.
        """
        from havasu_vc.repo.resetting import reset

        if mode in ("hard", "keep"):
            self.workspace.require_no_loss(revision, discard=discard, any_edit=mode == "hard")
        with following(self.opened, discard=discard):
            return reset(self.opened, revision, mode=mode)

    # Branches and tags

    def branches(self, *, remote: bool = False) -> tuple[Branch, ...]:
        """Return the branches."""
        return tuple(refs.list_branches(self.git, remote=remote))

    def create_branch(self, name: str, start: str = "HEAD") -> None:
        """Make a branch."""
        refs.create_branch(self.git, name, self._commit(start))

    def delete_branch(self, name: str, *, force: bool = False) -> None:
        """Remove a branch; with `force` also one that is merged nowhere."""
        refs.delete_branch(self.git, name, force=force)

    def switch(
        self,
        target: str,
        *,
        create: bool = False,
        start: str | None = None,
        discard: bool = False,
    ) -> None:
        """Put HEAD on a branch, or on a commit; refused while a merge waits."""
        require_no_merge(self.opened)
        known = create or any(branch.name == target for branch in self.branches())
        begin = None if start is None else self._commit(start)
        self.workspace.require_no_loss(begin or ("HEAD" if create else target), discard=discard)
        with following(self.opened, discard=discard):
            switch_worktree(
                self.git,
                target if known else self._commit(target),
                create=create,
                start=begin,
                discard=discard,
            )

    def tags(self) -> tuple[Tag, ...]:
        """Return the tags."""
        return tuple(refs.list_tags(self.git))

    def create_tag(self, name: str, revision: str = "HEAD", *, message: str | None = None) -> None:
        """Name a commit."""
        refs.create_tag(self.git, name, self._commit(revision), message=message)

    def delete_tag(self, name: str) -> None:
        """Remove a tag."""
        refs.delete_tag(self.git, name)

    def _commit(self, revision: str) -> str:
        commit = self.resolve(revision).commit
        if commit is None:
            raise NotYetSupportedError(f"{revision} is no commit")
        return commit

    # Upkeep

    @commits
    def optimize(
        self, datasets: Sequence[str] = (), *, message: str | None = None, dry_run: bool = False
    ) -> results.CommitResult:
        """Rewrite small and partly deleted files into a few clean ones, in a commit of its own."""
        from havasu_vc.repo.maintenance import optimize

        return optimize(self.opened, tuple(datasets), message, dry_run=dry_run)

    def fsck(self, *, full: bool = False) -> Iterator[results.Problem]:
        """Yield what is wrong; `full` reads every data file of HEAD and all branches."""
        from havasu_vc.repo.maintenance import fsck

        return fsck(self.opened, full=full)

    @commits
    def repair(self, *, message: str | None = None) -> results.CommitResult:
        """Mend datasets whose guard does not match, where that needs no decision."""
        from havasu_vc.repo.repairing import repair

        return repair(self.opened, message)

    def gc(self, *, grace_days: float = 14.0, dry_run: bool = False) -> results.GcResult:
        """Remove data files that nothing reaches and that are older than a grace period."""
        from havasu_vc.repo.maintenance import gc

        return gc(self.opened, grace_days=grace_days, dry_run=dry_run)
