"""The message of an import's commit: from where, and to which datasets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from havasu_vc.exchange.addresses import short_place, table_place
from havasu_vc.exchange.source import Source
from havasu_vc.transfer.requests import ImportRequest

__all__ = ["import_message"]


def import_message(
    request: ImportRequest, chosen: Sequence[tuple[Source, str]], *, of_kart: bool
) -> str:
    """Return what the commit of an import says; of several Kart datasets in Kart's words."""
    if not isinstance(request.location, str | Path):
        return f"Import rows to {chosen[0][1]}/"
    file = short_place(request.place)
    if len(chosen) == 1:
        source, path = chosen[0]
        of = table_place(request.place, source.name) if of_kart else f"{file}:{source.name}"
        return f"Import from {of} to {path}/"
    if of_kart:
        all_of_it = table_place(request.place, "").rstrip("/:")
        names = [
            (table_place(request.place, source.name)[len(all_of_it) + 1 :], path)
            for source, path in sorted(chosen, key=lambda each: each[0].name)
        ]
        listed = (
            f" * {path}/" if path == name else f" * {path} (from {name})" for name, path in names
        )
        return "\n".join([f"Import {len(chosen)} datasets from {all_of_it}:", *listed])
    lines = [f"{source.name} to {path}/" for source, path in chosen]
    return "\n".join([f"Import {len(chosen)} datasets from {file}:", "", *lines])
