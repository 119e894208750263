"""Kart's lines while it imports tables, for those who read them where this program is `kart`."""

from __future__ import annotations

from collections.abc import Iterator

from havasu_vc.exchange.addresses import short_place
from havasu_vc.repo.results import ImportResult

__all__ = ["import_lines"]


def import_lines(result: ImportResult, source: str, seconds: float) -> Iterator[str]:
    """Yield Kart's lines of an import that took so long."""
    yield "Starting git-fast-import..."
    for path, table in result.understood.items():
        layer = f"{short_place(source)}:{table.layer}"
        yield f"Importing {table.rows:,} features from {layer} to {path}/ ..."
        yield f"Added {table.rows:,} Features to index in {seconds:.1f}s"
        yield f"Overall rate: {table.rows / max(seconds, 0.1):.0f} features/s)"
        yield "Closed in 0s"
