"""Numbers of rows and bytes in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from havasu_vc.model.commits import ChangeCounts

__all__ = ["change_lines", "counted", "format_counts", "format_size"]


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "row"), counted(12000, "row")
    ('1 row', '12,000 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_counts(counts: ChangeCounts) -> str:
    """Return how many rows come, change and go."""
    parts = [
        counted(number, noun)
        for number, noun in (
            (counts.inserts, "insert"),
            (counts.updates, "update"),
            (counts.deletes, "delete"),
        )
        if number
    ]
    return ", ".join(parts) or "no rows changed"


def change_lines(
    changes: Mapping[str, ChangeCounts], meta: Mapping[str, Sequence[str]] | None = None
) -> Iterator[str]:
    """Yield one line for each dataset that changes, with the meta items that do."""
    for path, counts in changes.items():
        items = ", ".join((meta or {}).get(path, ()))
        if not items:
            yield f"  {path}: {format_counts(counts)}"
        elif counts.total:
            yield f"  {path}: {format_counts(counts)}, and {items}"
        else:
            yield f"  {path}: {items}"


def format_size(size: int) -> str:
    """Return a number of bytes as people write it.

    >>> format_size(0), format_size(1536), format_size(5 << 30)
    ('0 bytes', '1.5 KiB', '5.0 GiB')
    """
    number, unit = float(size), "bytes"
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if number < 1024 or unit == "TiB":
            break
        number /= 1024
    return counted(size, "byte") if unit == "bytes" else f"{number:.1f} {unit}"
