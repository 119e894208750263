"""Datasets whose data files are read where they are: in a bucket, when they are not here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace

from havasu_vc.datasets.folder import Folder
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.protocol import Dataset, DatasetInFiles, TreeEdit
from havasu_vc.formats.havasu.entry import Entry
from havasu_vc.records import dataclass
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.object_systems import may_put, object_size, put_object, url_below

__all__ = [
    "FarDataset",
    "as_read",
    "as_seen",
    "edited_there",
    "far_dataset",
    "is_apart",
    "is_away",
    "put_at",
    "sent",
    "url_of",
    "version_of",
    "where_it_is",
]


@dataclass(frozen=True)
class FarDataset(HavasuDataset):
    """A dataset whose files are read at a URL where they are not here."""

    url: str = ""
    """Where data files are kept."""
    apart: bool = False
    """Whether those who read see no folder of this machine: files here are read at the URL too."""
    writes: bool = True
    """Whether those who edit it write at the URL too, and not on this machine."""
    elsewhere: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Where files are read that no commit has, as in a table: a URL that names them at its end."""

    def file_path(self, entry: Entry) -> str:
        """Return the path of a file, or the URL of one that is not here."""
        if entry.file in self.elsewhere:
            return self.elsewhere[entry.file]
        if entry.location is not None or self._is_near(entry.file):
            return super().file_path(entry)
        return self._url_of(entry.file)

    def place(self, file: str) -> str:
        """Return the path of a file, or the URL of one that is not here."""
        if file in self.elsewhere:
            return self.elsewhere[file]
        return super().place(file) if self._is_near(file) else self._url_of(file)

    def _is_near(self, file: str) -> bool:
        """Whether a file is read here; what waits for a commit is no matter to others."""
        storage = self.storage
        if not self.apart:
            return storage.has(file)
        return storage.staging.root != storage.files.root and storage.staging.has(file)

    def _url_of(self, file: str) -> str:
        url = url_below(self.url, file)
        settled = self.storage.settled
        if self.apart and settled.has(file) and object_size(url) is None:
            put_object(url, settled.path(file))  # derived here, of what is there
        return url

    def bring(
        self, entries: Iterable[Entry], *, deletes: bool = True, helpful: Sequence[Entry] = ()
    ) -> None:
        """Bring nothing: what is not here is read where it is."""


def far_dataset(
    view: DatasetInFiles, url: str | None, *, apart: bool = False, writes: bool = True
) -> FarDataset | None:
    """Return a dataset that is read at a URL where it is not here; None without a URL.

    Where files are away as a rule, those who read `apart` see none of those that are here:
    what the URL lacks of them is put there first.
    """
    if url is None:
        return None
    storage = view.storage
    apart = apart and storage.on_demand and storage.fetcher is not None
    if apart and (here := [file for file in view.stored_entries if storage.files.has(file)]):
        assert storage.fetcher is not None
        storage.fetcher.share([(file, storage.files.size(file)) for file in here])
    return FarDataset(
        view.path,
        view.folder,
        storage,
        view.revision,
        url=url,
        apart=apart,
        writes=writes,
        elsewhere=view.elsewhere if isinstance(view, FarDataset) else {},
    )


def version_of(
    view: DatasetInFiles, folder: Folder, revision: str, elsewhere: Mapping[str, str] | None = None
) -> DatasetInFiles:
    """Return another version of a dataset, read where that is.

    `elsewhere` is where more files are that no commit has, where the dataset is read at a URL.
    """
    if isinstance(view, FarDataset):
        beside = {**view.elsewhere, **(elsewhere or {})}
        return replace(view, folder=folder, revision=revision, elsewhere=beside)
    return HavasuDataset(view.path, folder, view.storage, revision)


def url_of(view: Dataset) -> str | None:
    """Return where data files are read that are not here; None where all are read here."""
    return view.url if isinstance(view, FarDataset) else None


def put_at(view: Dataset) -> str | None:
    """Return the URL where those who edit a dataset write; None where this machine has it."""
    if not isinstance(view, FarDataset) or not view.writes:
        return None
    return view.storage.put_at(view.url, apart=view.apart)


def is_apart(view: Dataset) -> bool:
    """Whether tasks of a dataset name no file of this machine."""
    return isinstance(view, FarDataset) and view.apart


def as_seen(view: Dataset) -> Dataset:
    """Return a dataset for machines that share no folder with this one.

    Its tasks name no file of this machine where files are away as a rule and in a bucket, and
    none waits for a commit.
    """
    files = view.in_files
    if files is None or files.storage.staging.root != files.storage.files.root:
        return view
    return where_it_is(files, apart=True)


def where_it_is(view: DatasetInFiles, *, apart: bool) -> DatasetInFiles:
    """Return a dataset as it is read in a bucket, where its files are there as a rule.

    Those who read `apart` see no folder of this machine.
    """
    return far_dataset(view, view.storage.bucket, apart=apart) or view


def as_read(view: Dataset) -> Dataset:
    """Return a dataset of any kind as this machine reads all of it once, and keeps none of it."""
    files = view.in_files
    return view if files is None else where_it_is(files, apart=False)


def edited_there(
    *views: DatasetInFiles, distributed: bool, apart: bool, stays: bool = False
) -> tuple[DatasetInFiles, ...]:
    """Return versions of a dataset as work on all of it reads them; `put_at` tells where it writes.

    That is in a bucket, but on this machine alone what is all here. This machine writes to the
    staging folder what it may not put there, is only to try, or is told that it `stays`.
    """
    url = _bucket_of(views[-1]) if any(map(is_away, views)) else None
    if url is None:
        return views
    writes = distributed
    if not distributed:
        if not any(view.storage.on_demand and not _is_all_here(view) for view in views):
            return views
        writes = not stays and not views[-1].storage.trial and may_put(url)
    return tuple(far_dataset(view, url, apart=apart, writes=writes) or view for view in views)


def _bucket_of(view: DatasetInFiles) -> str | None:
    """Return the bucket that has the data files of a dataset."""
    fetcher = view.storage.fetcher
    return None if fetcher is None else fetcher.bucket()


def is_away(view: DatasetInFiles) -> bool:
    """Whether some data files are not here, as a rule or by chance."""
    return view.storage.on_demand or not _is_all_here(view)


def _is_all_here(view: DatasetInFiles) -> bool:
    return all(map(view.storage.has, view.stored_entries))


def sent(made: TreeEdit, staging: DataFileStore, url: str) -> TreeEdit:
    """Return an edit whose files are all where the data is, those too that were staged here."""
    names = (path.rpartition("/")[2] for path in made.blobs if path.startswith("data/"))
    written = [name for name in names if staging.has(name)]
    for name in written:
        put_object(url_below(url, name), staging.path(name))
    return replace(made, elsewhere=made.elsewhere.union(written))
