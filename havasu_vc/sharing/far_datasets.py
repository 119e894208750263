"""Datasets whose data files are read where they are: in a bucket, when they are not here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.errors import HavasuError
from havasu_vc.formats.havasu.entry import Entry
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.sharing.data_remotes import usable_data_place
from havasu_vc.store.object_systems import put_object, url_below
from havasu_vc.store.object_urls import with_endpoint

__all__ = ["FarDataset", "far_place", "sent", "written_far"]

_FAR = ("s3", "gs", "gcs", "abfs", "abfss")


@dataclass(frozen=True)
class FarDataset(HavasuDataset):
    """A dataset whose files are read at a URL where they are not here."""

    url: str = ""
    """Where data files are kept."""

    def file_path(self, entry: Entry) -> str:
        """Return the path of a file, or the URL of one that is not here."""
        if entry.location is not None or self.storage.has(entry.file):
            return super().file_path(entry)
        return url_below(self.url, entry.file)

    def place(self, file: str) -> str:
        """Return the path of a file, or the URL of one that is not here."""
        return super().place(file) if self.storage.has(file) else url_below(self.url, file)

    def bring(
        self, entries: Iterable[Entry], *, deletes: bool = True, helpful: Sequence[Entry] = ()
    ) -> None:
        """Bring nothing: what is not here is read where it is."""


def written_far(repo: OpenRepo, view: HavasuDataset) -> FarDataset | None:
    """Return a dataset whose data is in a bucket and not here, to be edited where that is."""
    storage = view.storage
    if not storage.on_demand and all(map(storage.has, view.stored_entries)):
        return None
    url = far_place(repo)
    if url is None:
        return None
    return FarDataset(view.path, view.folder, storage, view.revision, url=url)


def sent(made: TreeEdit, view: HavasuDataset, url: str) -> TreeEdit:
    """Return an edit whose files are all where the data is, those too that were written here."""
    staging = view.storage.staging
    names = (path.rpartition("/")[2] for path in made.blobs if path.startswith("data/"))
    written = [name for name in names if staging.has(name)]
    for name in written:
        put_object(url_below(url, name), staging.path(name))
    return replace(made, elsewhere=made.elsewhere.union(written))


def far_place(repo: OpenRepo) -> str | None:
    """Return the bucket that has the data; None where it is elsewhere or not told."""
    try:
        url = usable_data_place(repo)
    except HavasuError:  # no remote, or a place that is not allowed
        url = repo.git.config.get("havasu.data.url")
    if url is None or urlsplit(url).scheme not in _FAR:
        return None
    # Others who read there have credentials of their own, and need not know where the server is.
    return with_endpoint(url, os.environ)
