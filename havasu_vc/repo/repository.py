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
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from havasu_vc.datasets.folder import TreeFolder, check_guard
from havasu_vc.errors import (
    DatasetNotFoundError,
    NotYetSupportedError,
    UnfinishedMergeError,
)
from havasu_vc.model.names import HAVASU_MARKER
from havasu_vc.repo.results import DatasetInfo, RepoStatus
from havasu_vc.repo.settings import Settings
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.index import mend, switch_worktree
from havasu_vc.store.refs import (
    Branch,
    Tag,
    create_branch,
    create_tag,
    delete_branch,
    delete_tag,
    list_branches,
    list_tags,
    read_head,
)
from havasu_vc.store.repository import GitRepository, Operation
from havasu_vc.store.revisions import Revision, resolve
from havasu_vc.store.trees import DatasetFolder, find_datasets

if TYPE_CHECKING:
    import pyarrow as pa

    from havasu_vc.datasets.havasu.view import HavasuDataset, Storage
    from havasu_vc.exchange.source import SourceOptions
    from havasu_vc.model.commits import CommitInfo
    from havasu_vc.model.diffs import DatasetDiff
    from havasu_vc.repo.results import (
        CommitResult,
        ExportResult,
        GcResult,
        ImportResult,
        Problem,
    )
    from havasu_vc.repo.tables import Table
    from havasu_vc.repo.transaction import Transaction
    from havasu_vc.store.configuration import GitConfig

__all__ = ["Repo"]


class Repo:
    """A repository of datasets. `open` and `init` make one."""

    def __init__(self, git: GitRepository, settings: Settings | None = None) -> None:
        self.git = git
        """The git repository."""
        self.settings = settings or Settings()
        """How to work."""

    @classmethod
    def init(
        cls,
        path: str | Path = ".",
        *,
        bare: bool = False,
        branch: str | None = None,
        settings: Settings | None = None,
    ) -> Repo:
        """Make a repository, or prepare the one that is there; doing it again changes nothing."""
        return cls(GitRepository.init(path, bare=bare, branch=branch), settings)

    @classmethod
    def open(cls, path: str | Path = ".", *, settings: Settings | None = None) -> Repo:
        """Open the repository that a path is in."""
        git = GitRepository.open(path)
        mend(git)
        return cls(git, settings)

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

    @cached_property
    def storage(self) -> Storage:
        """Where data files are."""
        from havasu_vc.datasets.havasu.view import Storage

        folder = self.git.data_folder
        files = DataFileStore(folder)
        return Storage(files, folder / "keys", files)

    def transaction(self) -> Transaction:
        """Return a commit in the making; use it as a context manager."""
        from havasu_vc.repo.transaction import Transaction

        return Transaction(self)

    # Looking

    def resolve(self, revision: str = "HEAD") -> Revision:
        """Return the commit that a revision means."""
        return resolve(self.git, revision)

    def head(self) -> Revision:
        """Return HEAD's commit, or the empty revision before the first."""
        commit = read_head(self.git).commit
        return resolve(self.git, "[EMPTY]" if commit is None else commit)

    def folders(self, revision: Revision) -> dict[str, DatasetFolder]:
        """Return the folders of a revision's datasets, of every kind, by path."""
        return {f.path: f for f in find_datasets(self.git.objects, revision.tree)}

    def datasets(self, revision: str = "HEAD") -> tuple[str, ...]:
        """Return the paths of the datasets that can be read, in order."""
        found = self.folders(self._revision(revision))
        return tuple(path for path, folder in found.items() if folder.marker == HAVASU_MARKER)

    def _revision(self, revision: str) -> Revision:
        # Before the first commit HEAD is empty rather than wrong.
        return self.head() if revision in ("HEAD", "@") else self.resolve(revision)

    def list_datasets(self, revision: str = "HEAD") -> tuple[DatasetInfo, ...]:
        """Describe the datasets of a revision, also those of kinds that are left untouched."""
        found = self._revision(revision)
        infos = []
        for path, folder in self.folders(found).items():
            if folder.marker == HAVASU_MARKER:
                view = self.view(folder, found.name)
                title = view.header.meta.get("title")
                infos.append(DatasetInfo(path, "havasu", 1, title, view.rows, view.size))
            else:
                infos.append(DatasetInfo(path, folder.marker.strip("."), 0))
        return tuple(infos)

    def dataset(self, path: str, revision: str = "HEAD") -> HavasuDataset:
        """Return a dataset at a revision, after checking its guard."""
        found = self._revision(revision)
        folder = self.folders(found).get(path.strip("/"))
        if folder is None:
            raise DatasetNotFoundError(path, revision)
        view = self.view(folder, revision)
        view.check_guard()
        return view

    def view(self, folder: DatasetFolder, revision: str) -> HavasuDataset:
        """Return the view of a dataset's folder, unchecked."""
        from havasu_vc.datasets.havasu.view import HavasuDataset

        if folder.marker != HAVASU_MARKER:
            raise NotYetSupportedError(
                f"{folder.path} is a dataset of another kind ({folder.marker})",
                hints=("only Havasu datasets can be read by this version",),
            )
        inside = TreeFolder(self.git.objects, folder.internals)
        return HavasuDataset(folder.path, inside, self.storage, revision)

    def table(self, path: str, revision: str = "HEAD") -> Table:
        """Return the rows of a dataset at a revision."""
        from havasu_vc.repo.tables import Table

        return Table(self.dataset(path, revision), self.settings)

    def status(self) -> RepoStatus:
        """Return where HEAD is and what is going on."""
        head = read_head(self.git)
        branch = next((b for b in list_branches(self.git) if b.is_head), None)
        upstream = None if branch is None else branch.upstream
        ahead = behind = 0
        if upstream is not None and head.commit is not None:
            counted = self.git.git(
                "rev-list", "--left-right", "--count", f"{head.commit}...{upstream}", check=False
            )
            if counted.code == 0:
                ahead, behind = map(int, counted.text.split())
        operation = self.git.operation
        return RepoStatus(
            head.commit,
            head.branch,
            upstream,
            ahead,
            behind,
            "clean" if operation is Operation.NONE else operation.value,
            tuple(self._problems()),
        )

    def _problems(self) -> Iterator[str]:
        head = self.head()
        for folder in self.folders(head).values():
            if folder.marker == HAVASU_MARKER:
                inside = TreeFolder(self.git.objects, folder.internals)
                try:
                    check_guard(inside, folder.path, "HEAD")
                except UnfinishedMergeError as error:
                    yield error.message

    # History

    def commit_info(self, revision: str = "HEAD") -> CommitInfo:
        """Return a commit as writers print it."""
        from havasu_vc.repo import histories

        return histories.commit_info(self, revision)

    def log(
        self, revision: str = "HEAD", *, filters: Sequence[str] = (), **conditions: Any
    ) -> Iterator[CommitInfo]:
        """Yield the commits that a revision or range reaches, newest first.

        `filters` name datasets, `conditions` are `limit`, `skip`, `since`, `until`,
        `author` and `grep`, as git understands them.
        """
        from havasu_vc.repo import histories

        return histories.log(self, revision, filters, conditions)

    def diff(
        self, revisions: str = "HEAD^?...HEAD", filters: Sequence[str] = ()
    ) -> Iterator[DatasetDiff]:
        """Yield how each dataset differs between two revisions, by path."""
        from havasu_vc.repo import differences

        return differences.diff(self, revisions, filters)

    def show(
        self, revision: str = "HEAD", filters: Sequence[str] = ()
    ) -> tuple[CommitInfo, Iterator[DatasetDiff]]:
        """Return a commit and what it changed of its first parent."""
        from havasu_vc.repo import differences

        return differences.show(self, revision, filters)

    create_patch = show

    # Taking in and giving out

    def list_layers(self, location: str) -> tuple[str, ...]:
        """Return the names of the layers of a file that can be imported."""
        from havasu_vc.exchange.sources import list_source_layers

        return tuple(list_source_layers(location))

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
    ) -> ImportResult:
        """Import layers of a file as datasets, in one commit.

        A layer may be written `LAYER:DATASET`. With `replace`, datasets that are there are
        compared by key and only what differs is committed. `order` is `key`, `hilbert` or
        `none`.
        """
        from havasu_vc.repo.imports import ImportRequest, import_layers

        request = ImportRequest(
            str(location),
            destination,
            tuple(layers),
            all_layers=all_layers,
            options=options,
            order=order,
            replace=replace,
        )
        return import_layers(self, request, dry_run=dry_run, message=message)

    def export(
        self, dataset: str, file: str | Path, *, revision: str = "HEAD", **options: Any
    ) -> ExportResult:
        """Write the rows of a dataset to a file; options: format, overwrite, crs, columns."""
        from havasu_vc.repo.exports import export

        return export(self, dataset, Path(file), revision, **options)

    def export_changes(
        self, dataset: str, file: str | Path, revisions: str, **options: Any
    ) -> ExportResult:
        """Write the rows that changed between two revisions; options: format, overwrite."""
        from havasu_vc.repo.exports import export_changes

        return export_changes(self, dataset, Path(file), revisions, **options)

    def checkout_as(
        self,
        file: str | Path,
        datasets: Sequence[str] = (),
        *,
        revision: str = "HEAD",
        overwrite: bool = False,
    ) -> ExportResult:
        """Write datasets to a GeoPackage to edit, which remembers the commit it is of."""
        from havasu_vc.repo.copies import checkout_as

        return checkout_as(self, Path(file), tuple(datasets), revision, overwrite=overwrite)

    # Committing

    def commit_from(
        self,
        file: str | Path,
        *,
        dataset: str | None = None,
        message: str | None = None,
        dry_run: bool = False,
        allow_empty: bool = False,
    ) -> CommitResult:
        """Commit the edits made in a copy that `checkout_as` or `export` wrote."""
        from havasu_vc.repo.copies import commit_from

        return commit_from(
            self, Path(file), dataset, message, dry_run=dry_run, allow_empty=allow_empty
        )

    def apply_patch(
        self,
        source: Any,
        *,
        ref: str | None = None,
        allow_empty: bool = False,
        message: str | None = None,
        commit: bool = True,
        limit: int | None = None,
    ) -> CommitResult:
        """Commit a patch, given as bytes or an open file; without `commit`, only try it."""
        from havasu_vc.repo.patches import apply_patch

        return apply_patch(
            self,
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

        return get_meta(self, dataset, names, revision)

    def set_meta(
        self, dataset: str, items: Mapping[str, Any], *, message: str | None = None
    ) -> CommitResult:
        """Commit meta items of a dataset; None removes one. `schema.json` evolves the schema."""
        from havasu_vc.repo.metadata import set_meta

        return set_meta(self, dataset, items, message)

    def write(
        self,
        dataset: str,
        rows: pa.Table | pa.RecordBatch | Iterator[pa.RecordBatch],
        *,
        mode: str = "upsert",
        message: str | None = None,
    ) -> CommitResult:
        """Commit rows by key: `upsert`, `append`, `delete`, or `overwrite` to hold just these."""
        from havasu_vc.repo.writing import write_rows

        return write_rows(self, dataset, rows, mode, message)

    # Branches and tags

    def branches(self, *, remote: bool = False) -> tuple[Branch, ...]:
        """Return the branches."""
        return tuple(list_branches(self.git, remote=remote))

    def create_branch(self, name: str, start: str = "HEAD") -> None:
        """Make a branch."""
        create_branch(self.git, name, self._commit(start))

    def delete_branch(self, name: str, *, force: bool = False) -> None:
        """Remove a branch; with `force` also one that is merged nowhere."""
        delete_branch(self.git, name, force=force)

    def switch(
        self,
        target: str,
        *,
        create: bool = False,
        start: str | None = None,
        discard: bool = False,
    ) -> None:
        """Put HEAD on a branch, or on a commit."""
        known = create or any(branch.name == target for branch in self.branches())
        begin = None if start is None else self._commit(start)
        switch_worktree(
            self.git,
            target if known else self._commit(target),
            create=create,
            start=begin,
            discard=discard,
        )

    def tags(self) -> tuple[Tag, ...]:
        """Return the tags."""
        return tuple(list_tags(self.git))

    def create_tag(self, name: str, revision: str = "HEAD", *, message: str | None = None) -> None:
        """Name a commit."""
        create_tag(self.git, name, self._commit(revision), message=message)

    def delete_tag(self, name: str) -> None:
        """Remove a tag."""
        delete_tag(self.git, name)

    def _commit(self, revision: str) -> str:
        commit = self.resolve(revision).commit
        if commit is None:
            raise NotYetSupportedError(f"{revision} is no commit")
        return commit

    # Upkeep

    def optimize(
        self, datasets: Sequence[str] = (), *, message: str | None = None, dry_run: bool = False
    ) -> CommitResult:
        """Rewrite small and partly deleted files into a few clean ones, in a commit of its own."""
        from havasu_vc.repo.maintenance import optimize

        return optimize(self, tuple(datasets), message, dry_run=dry_run)

    def fsck(self, *, full: bool = False) -> Iterator[Problem]:
        """Yield what is wrong; `full` reads every data file of HEAD and all branches."""
        from havasu_vc.repo.maintenance import fsck

        return fsck(self, full=full)

    def repair(self, *, message: str | None = None) -> CommitResult:
        """Mend datasets whose guard does not match, where that needs no decision."""
        from havasu_vc.repo.maintenance import repair

        return repair(self, message)

    def gc(self, *, grace_days: float = 14.0, dry_run: bool = False) -> GcResult:
        """Remove data files that nothing reaches and that are older than a grace period."""
        from havasu_vc.repo.maintenance import gc

        return gc(self, grace_days=grace_days, dry_run=dry_run)
