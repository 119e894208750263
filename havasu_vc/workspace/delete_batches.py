"""Which of the position delete files that were written before serve a checkout again."""

from __future__ import annotations

from collections.abc import Container, Iterable

from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.formats.havasu.entry import Content, Entry
from havasu_vc.tables.locations import Places
from havasu_vc.workspace.state import DeleteBatch

__all__ = ["delete_sources", "reusable"]


def delete_sources(view: HavasuDataset) -> tuple[Entry, ...]:
    """Return the live delete files of a dataset."""
    found = [entry for entry in view.entries.values() if entry.content is Content.DELETES]
    return tuple(sorted(found, key=lambda entry: entry.file))


def reusable(
    batches: Iterable[DeleteBatch],
    sources: Container[str],
    live: Container[str],
    places: Places,
) -> tuple[DeleteBatch, ...]:
    """Return the batches that are live as they are and made of nothing that went."""
    return tuple(
        batch
        for batch in batches
        if all(source in sources for source in batch.sources)
        and all(path in live and places.has(path) for path in batch.files)
    )
