"""What `Repo` tells: datasets and their rows, history, differences, conflicts, files given out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from havasu_vc.repo.opened import OpenRepo

if TYPE_CHECKING:
    from havasu_vc.datasets.any import AnyDataset
    from havasu_vc.exchange.parquet_writer import ParquetForm
    from havasu_vc.history.conflicts import DatasetConflicts
    from havasu_vc.looking import Table
    from havasu_vc.model.blames import Blame
    from havasu_vc.model.commits import CommitInfo
    from havasu_vc.model.conflicts import ConflictedDataset, MergeContext
    from havasu_vc.model.diffs import DatasetDiff, FileChange
    from havasu_vc.repo import results
    from havasu_vc.review import Review
    from havasu_vc.store.revisions import Revision
    from havasu_vc.store.trees import DatasetFolder

__all__ = ["Reading"]


class Reading:
    """Tells, and changes nothing in the repository."""

    opened: OpenRepo
    """The repository as operations see it."""

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
        from havasu_vc.looking import list_datasets

        return list_datasets(self.opened, revision)

    def dataset(self, path: str, revision: str = "HEAD") -> AnyDataset:
        """Return a dataset at a revision, after checking its guard."""
        return self.opened.dataset(path, revision)

    def table(self, path: str, revision: str = "HEAD") -> Table:
        """Return the rows of a dataset at a revision."""
        from havasu_vc.looking import Table

        return Table(self.dataset(path, revision), self.opened.settings)

    def status(self) -> results.RepoStatus:
        """Return where HEAD is and what is going on."""
        from havasu_vc.looking import status

        return status(self.opened)

    def get_meta(
        self, dataset: str, names: Sequence[str] = (), *, revision: str = "HEAD"
    ) -> dict[str, Any]:
        """Return meta items of a dataset, all of them when none is named."""
        from havasu_vc.editing import get_meta

        return get_meta(self.opened, dataset, names, revision)

    # What happened

    def commit_info(self, revision: str = "HEAD") -> CommitInfo:
        """Return a commit as writers print it."""
        from havasu_vc.looking import commit_info

        return commit_info(self.opened, revision)

    def log(
        self,
        revision: str = "HEAD",
        *,
        filters: Sequence[str] = (),
        limit: int | None = None,
        skip: int | None = None,
        since: str | None = None,
        until: str | None = None,
        author: str | None = None,
        grep: str | None = None,
        columns: Sequence[str] = (),
    ) -> Iterator[CommitInfo]:
        """Yield the commits that a revision or range reaches, newest first.

        `filters` name datasets, rows or meta items, and `columns` those of the rows that
        count. The other conditions are git's.
        """
        from havasu_vc.looking import LogRequest, log

        request = LogRequest(
            revision,
            filters=tuple(filters),
            limit=limit,
            skip=skip,
            since=since,
            until=until,
            author=author,
            grep=grep,
            columns=tuple(columns),
        )
        return log(self.opened, request)

    def diff(
        self,
        revisions: str = "HEAD^?...HEAD",
        filters: Sequence[str] = (),
        *,
        equal_ones: bool = False,
    ) -> Iterator[DatasetDiff]:
        """Yield how each dataset differs between two revisions, by path.

        With `equal_ones` Kart datasets that do not differ come too, with nothing that changed.
        """
        from havasu_vc.looking import diff

        return diff(self.opened, revisions, filters, equal_ones=equal_ones)

    def file_changes(
        self,
        revisions: str = "HEAD^?...HEAD",
        filters: Sequence[str] = (),
        *,
        contents: bool = False,
    ) -> tuple[FileChange, ...]:
        """Return the files beside datasets that differ in a repository of Kart's, by path.

        With `contents` they come with what they held and hold.
        """
        from havasu_vc.looking import file_changes
        from havasu_vc.store.revisions import resolve_range

        ends = resolve_range(self.opened.git, revisions)
        return file_changes(self.opened, ends.old, ends.new, filters, contents=contents)

    def show(
        self, revision: str = "HEAD", filters: Sequence[str] = (), *, equal_ones: bool = False
    ) -> tuple[CommitInfo, Iterator[DatasetDiff]]:
        """Return a commit and what it changed of its first parent; `equal_ones` as for `diff`."""
        from havasu_vc.looking import show

        return show(self.opened, revision, filters, equal_ones=equal_ones)

    def create_patch(
        self, revision: str = "HEAD", filters: Sequence[str] = ()
    ) -> tuple[CommitInfo, Iterator[DatasetDiff]]:
        """Return a commit and all that it changed of its first parent, or an error."""
        from havasu_vc.looking import show

        return show(self.opened, revision, filters, tables_only=False)

    def review(self, revisions: str, filters: Sequence[str] = (), *, samples: int = 40) -> Review:
        """Return what changed between two revisions, summed up for people."""
        from havasu_vc.review import review

        return review(self.opened, revisions, filters, samples=samples)

    def blame(
        self,
        dataset: str,
        *,
        keys: Sequence[Any] | None = None,
        columns: Sequence[str] | None = None,
        revision: str = "HEAD",
    ) -> Blame:
        """Return who last changed rows, or with `columns` their cells; `keys` gives only some."""
        from havasu_vc.looking import blame_dataset

        return blame_dataset(self.opened, dataset, keys=keys, columns=columns, revision=revision)

    def row(self, dataset: str, key: Any, revision: str = "HEAD") -> dict[str, Any]:
        """Return a row at a revision, by its key: a value, a tuple, or text as in a filter."""
        from havasu_vc.looking import read_rows

        return dict(read_rows(self.opened, dataset, [key], revision)[1].to_pylist()[0])

    # What conflicts

    def conflicts(self, filters: Sequence[str] = ()) -> Iterator[DatasetConflicts]:
        """Yield the conflicts that are not resolved, by dataset."""
        from havasu_vc.merging import conflicts

        return conflicts(self.opened, filters)

    def view_conflicts(self, filters: Sequence[str] = ()) -> Iterator[ConflictedDataset]:
        """Yield the conflicts that are not resolved as writers print them, by dataset."""
        from havasu_vc.merging import view_conflicts

        return view_conflicts(self.opened, filters)

    def merge_context(self, revision: str) -> MergeContext | None:
        """Return the commits of a merge into HEAD; None where they have nothing in common."""
        from havasu_vc.merging import merge_context

        return merge_context(self.opened, revision)

    # Giving out

    def list_layers(self, location: str) -> tuple[str, ...]:
        """Return the names of the layers of a file that can be imported."""
        from havasu_vc.exchange.sources import list_source_layers

        return tuple(list_source_layers(location))

    def export(
        self,
        dataset: str,
        file: str | Path,
        *,
        revision: str = "HEAD",
        format: str | None = None,
        overwrite: bool = False,
        crs: str | None = None,
        columns: Sequence[str] | None = None,
        plain: bool = False,
        parquet: ParquetForm | None = None,
    ) -> results.ExportResult:
        """Write the rows of a dataset to a file, or as a table to a folder.

        `plain` is for a Delta table without geometries, `parquet` says how GeoParquet is written.
        """
        from havasu_vc.transfer import export

        return export(
            self.opened,
            dataset,
            Path(file),
            revision,
            format=format,
            overwrite=overwrite,
            crs=crs,
            columns=columns,
            plain=plain,
            parquet=parquet,
        )

    def export_changes(
        self,
        dataset: str,
        file: str | Path,
        revisions: str,
        *,
        format: str | None = None,
        overwrite: bool = False,
    ) -> results.ExportResult:
        """Write the rows that changed between two revisions."""
        from havasu_vc.transfer import export_changes

        return export_changes(
            self.opened, dataset, Path(file), revisions, format=format, overwrite=overwrite
        )

    def checkout_as(
        self,
        file: str | Path,
        datasets: Sequence[str] = (),
        *,
        revision: str = "HEAD",
        overwrite: bool = False,
        discard_changes: bool = False,
    ) -> results.ExportResult:
        """Write datasets to a GeoPackage to edit, which remembers the commit it is of.

        `overwrite` replaces a file that holds nothing which no commit has; with
        `discard_changes` any, but never one that another program has open.
        """
        from havasu_vc.transfer import checkout_as

        return checkout_as(
            self.opened,
            Path(file),
            tuple(datasets),
            revision,
            overwrite=overwrite,
            discard_changes=discard_changes,
        )
