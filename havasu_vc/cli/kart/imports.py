"""Imports where this program is `kart`: what Kart takes words for, and its lines of tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from havasu_vc.cli.as_kart import is_called_kart
from havasu_vc.exchange.addresses import table_place
from havasu_vc.repo.results import ImportResult
from havasu_vc.transfer import ImportRequest

__all__ = ["import_lines", "in_karts_order", "of_all", "path_as_karts"]

_BACKSLASH = "\\"


def import_lines(result: ImportResult, source: str, seconds: float) -> Iterator[str]:
    """Yield Kart's lines of an import that took so long."""
    yield "Starting git-fast-import..."
    for path, table in result.understood.items():
        layer = table_place(source, table.layer)
        yield f"Importing {table.rows:,} features from {layer} to {path}/ ..."
        yield f"Added {table.rows:,} Features to index in {seconds:.1f}s"
        yield f"Overall rate: {table.rows / max(seconds, 0.1):.0f} features/s)"
        yield "Closed in 0s"


def of_all(
    request: ImportRequest, destinations: tuple[str, ...]
) -> tuple[ImportRequest, tuple[str, ...]]:
    """Return what is asked for: in Kart all layers are all, whichever are named beside."""
    if not (is_called_kart() and request.all_layers):
        return request, destinations
    return dataclasses.replace(request, layers=()), ()


def in_karts_order(result: ImportResult, asked: ImportRequest) -> ImportResult:
    """Return a result that tells of layers as Kart does: of all of them by their names."""
    if not (is_called_kart() and asked.all_layers):
        return result
    return dataclasses.replace(result, understood=dict(sorted(result.understood.items())))


def path_as_karts(text: str) -> str:
    """Return the path of a dataset as Kart takes it: slashes at its ends are none of it."""
    path = text.replace(_BACKSLASH, "/")
    return path.strip("/") or path
