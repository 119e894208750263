"""The dataset that a source replaces: the one of that path, or its last sound version.

So it stays the same dataset, with its columns' ids, and what breaks it leaves with the commit.
"""

from __future__ import annotations

from havasu_vc.datasets.protocol import Dataset
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.soundness import defect
from havasu_vc.repo.transaction import MergedTree, Transaction
from havasu_vc.store.trees import DatasetFolder

__all__ = ["Replaced"]


class Replaced:
    """The datasets that a commit replaces, and what it takes to mend those that are broken."""

    def __init__(self, repo: OpenRepo, transaction: Transaction) -> None:
        self._repo = repo
        self._transaction = transaction
        self._mended: dict[str, DatasetFolder | None] = {}

    def dataset(self, path: str) -> Dataset | None:
        """Return what to compare a source with; None where no version is sound."""
        transaction = self._transaction
        broken = defect(self._repo, transaction.folders[path], "HEAD")
        if broken is None:
            return transaction.dataset(path)
        from havasu_vc.upkeep import last_version

        last = last_version(self._repo, path, transaction.head.commit or "")
        self._mended[path] = None if last is None else last[0]
        than = "all of it comes anew" if last is None else f"compared with it at {last[1][:10]}"
        self._repo.tell(path, f"{broken.message}; {than}")
        if last is None:
            return None
        return self._repo.view(*last).with_storage(transaction.storage)

    @property
    def merge(self) -> MergedTree | None:
        """The merge that edits are made upon, where anything is mended."""
        if not self._mended:
            return None
        trees = {path: None if f is None else f.internals for path, f in self._mended.items()}
        markers = {path: f.marker for path, f in self._mended.items() if f is not None}
        return MergedTree({}, trees, (), markers)
