"""Facts of a dataset that its entries tell, without reading a row."""

from __future__ import annotations

from havasu_vc.datasets.protocol import Dataset
from havasu_vc.formats.havasu.entry import Content, Entry
from havasu_vc.model.bounds import Bounds
from havasu_vc.review.report import DatasetFacts

__all__ = ["dataset_facts", "entry_words", "rows_between"]


def dataset_facts(view: Dataset | None) -> DatasetFacts | None:
    """Return what is known of a version; deleted rows still count in nulls and ranges."""
    if view is None:
        return None
    files = view.in_files
    if files is None:
        return DatasetFacts(view.rows)
    entries = [entry for entry in files.entries.values() if entry.content is Content.DATA]
    nulls: dict[int, int] = {}
    ranges: dict[int, tuple[float, float]] = {}
    bounds: dict[int, Bounds] = {}
    for field in view.schema.fields:
        known = [entry.statistics.get(field.id) for entry in entries]
        if all(each is not None for each in known):
            nulls[field.id] = sum(each.nulls for each in known if each is not None)
        corners = [
            (each.lower, each.upper)
            for each in known
            if each is not None
            and isinstance(each.lower, int | float)
            and isinstance(each.upper, int | float)
        ]
        if corners:
            ranges[field.id] = (min(low for low, _ in corners), max(high for _, high in corners))
        area = Bounds.of(entry.bounds.get(field.id) for entry in entries)
        if area is not None:
            bounds[field.id] = area
    return DatasetFacts(view.rows, nulls, ranges, bounds)


def rows_between(old: Dataset | None, new: Dataset | None) -> tuple[int, int] | None:
    """Return how many rows stand in files that come, and how many leave; None of other kinds.

    An update counts in both, and a row that only moved to another file does too.
    """
    sides: list[dict[str, Entry]] = []
    for view in (old, new):
        files = None if view is None else view.in_files
        if view is not None and files is None:
            return None
        sides.append({} if files is None else dict(files.entries))
    before, after = sides
    come = [entry for name, entry in after.items() if name not in before]
    gone = [entry for name, entry in before.items() if name not in after]
    arrive = _rows(come, Content.DATA) + _rows(gone, Content.DELETES)
    leave = _rows(gone, Content.DATA) + _rows(come, Content.DELETES)
    return arrive, leave


def _rows(entries: list[Entry], content: Content) -> int:
    return sum(entry.rows for entry in entries if entry.content is content)


def entry_words(old: Dataset | None, new: Dataset | None) -> str:
    """Return in words how much changed as far as entries tell."""
    found = rows_between(old, new)
    if found is None:
        return "how many rows change is not known"
    words = f"its entries tell of {found[0]:,} rows that come and {found[1]:,} that leave"
    columns = _touched(old, new)
    if columns:
        words += f" (an updated row is in both), and of changes in {columns}"
    return words


def _touched(old: Dataset | None, new: Dataset | None) -> str:
    """Return the columns whose digests differ, each between backticks."""
    if old is None or new is None:
        return ""
    before, after = old.digests, new.digests
    if before is None or after is None:
        return ""
    names = [
        f"`{field.name.replace('`', chr(39))[:60]}`"
        for field in new.schema.fields
        if before.get(field.id) != after.get(field.id)
    ]
    return ", ".join(names[:20]) + (" and others" if len(names) > 20 else "")
