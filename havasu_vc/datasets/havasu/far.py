"""Datasets whose data files are read where they are: in a bucket, when they are not here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.formats.havasu.entry import Entry
from havasu_vc.records import dataclass
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.object_systems import put_object, url_below

__all__ = ["FarDataset", "far_dataset", "is_away", "sent"]


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


def far_dataset(view: HavasuDataset, url: str | None) -> FarDataset | None:
    """Return a dataset that is read at a URL where it is not here; None without a URL."""
    if url is None:
        return None
    return FarDataset(view.path, view.folder, view.storage, view.revision, url=url)


def is_away(view: HavasuDataset) -> bool:
    """Whether some data files are not here, as a rule or by chance."""
    return view.storage.on_demand or not all(map(view.storage.has, view.stored_entries))


def sent(made: TreeEdit, staging: DataFileStore, url: str) -> TreeEdit:
    """Return an edit whose files are all where the data is, those too that were staged here."""
    names = (path.rpartition("/")[2] for path in made.blobs if path.startswith("data/"))
    written = [name for name in names if staging.has(name)]
    for name in written:
        put_object(url_below(url, name), staging.path(name))
    return replace(made, elsewhere=made.elsewhere.union(written))
