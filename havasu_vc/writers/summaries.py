"""Which datasets differ and by how much, one line for each, as git sums up files.

    --stat          maps/trees | 3 rows inserted, 12 updated, 1 deleted; schema.json
    --shortstat     1 dataset changed, 3 rows inserted, 12 updated, 1 deleted
    --name-status   M<TAB>maps/trees
    --name-only     maps/trees

For names alone no row is read beyond the first that differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TextIO

from havasu_vc.model.changes import count_changes
from havasu_vc.model.diffs import ChangeCounts, DatasetDiff, FileChange
from havasu_vc.writers.commits import format_commit
from havasu_vc.writers.protocol import ChangeSummary, DatasetSummary, WriterOptions, meta_counts
from havasu_vc.writers.terminal import printable, styled

__all__ = ["write_name_only", "write_name_status", "write_shortstat", "write_stat"]


def write_stat(diffs: Iterable[DatasetDiff], out: TextIO, options: WriterOptions) -> ChangeSummary:
    """Print a line for each dataset that differs, and one for all."""
    _head(out, options)
    lines: list[tuple[str, str]] = []
    found: dict[str, DatasetSummary] = {}
    for diff in diffs:
        summary = DatasetSummary(meta_counts(diff), count_changes(diff.changes))
        if _differs(diff, summary):
            found[diff.path] = summary
            lines.append((printable(diff.path), _words(diff, summary.features)))
    lines += [(printable(file.path), _state(file.old, file.new)) for file in options.files]
    width = max((len(name) for name, _ in lines), default=0)
    for name, words in lines:
        out.write(f" {name:<{width}} | {words}\n")
    _total(out, found.values(), options)
    return ChangeSummary(found)


def write_shortstat(
    diffs: Iterable[DatasetDiff], out: TextIO, options: WriterOptions
) -> ChangeSummary:
    """Print one line for all datasets that differ."""
    _head(out, options)
    found = {}
    for diff in diffs:
        summary = DatasetSummary(meta_counts(diff), count_changes(diff.changes))
        if _differs(diff, summary):
            found[diff.path] = summary
    _total(out, found.values(), options)
    return ChangeSummary(found)


def write_name_only(
    diffs: Iterable[DatasetDiff], out: TextIO, options: WriterOptions
) -> ChangeSummary:
    """Print the path of each dataset, and of each file, that differs."""
    return _names(diffs, out, options, lambda _, name: name)


def write_name_status(
    diffs: Iterable[DatasetDiff], out: TextIO, options: WriterOptions
) -> ChangeSummary:
    """Print the path of what differs after `A` where it is added, `D` deleted, `M` changed."""
    return _names(diffs, out, options, lambda state, name: f"{state[0].upper()}\t{name}")


def _names(
    diffs: Iterable[DatasetDiff],
    out: TextIO,
    options: WriterOptions,
    line: Callable[[str, str], str],
) -> ChangeSummary:
    _head(out, options)
    found = {}
    for diff in diffs:
        first = next((batch.counts for batch in diff.changes if len(batch)), ChangeCounts())
        summary = DatasetSummary(meta_counts(diff), first)
        if _differs(diff, summary):
            found[diff.path] = summary
            out.write(line(_state(diff.old, diff.new), printable(diff.path)) + "\n")
    for file in options.files:
        out.write(line(_state(file.old, file.new), printable(file.path)) + "\n")
    return ChangeSummary(found)


def _head(out: TextIO, options: WriterOptions) -> None:
    if options.commit is not None:
        out.write(format_commit(options.commit, color=options.color))


def _differs(diff: DatasetDiff, summary: DatasetSummary) -> bool:
    return summary.has_changes or diff.old is None or diff.new is None


def _state(old: object | None, new: object | None) -> str:
    return "added" if old is None else "deleted" if new is None else "modified"


def _words(diff: DatasetDiff, rows: ChangeCounts) -> str:
    parts = [_rows(rows)] if rows.total else []
    if diff.old is None or diff.new is None:
        parts.insert(0, _state(diff.old, diff.new))
    else:
        parts += [printable(change.name) for change in diff.meta]
    return "; ".join(parts)


def _rows(counts: ChangeCounts) -> str:
    """Return counts in words, those that are none left out.

    >>> _rows(ChangeCounts(1, 1200, 0))
    '1 row inserted, 1,200 updated'
    """
    told = (
        (counts.inserts, "inserted"),
        (counts.updates, "updated"),
        (counts.deletes, "deleted"),
    )
    parts = [f"{number:,} {word}" for number, word in told if number]
    if parts:
        number, _, word = parts[0].partition(" ")
        parts[0] = f"{number} row{'' if number == '1' else 's'} {word}"
    return ", ".join(parts)


def _total(out: TextIO, found: Iterable[DatasetSummary], options: WriterOptions) -> None:
    every = list(found)
    files: list[FileChange] = list(options.files)
    if not every and not files:
        return
    parts = [f"{len(every):,} dataset{'' if len(every) == 1 else 's'} changed"] if every else []
    if files:
        parts.append(f"{len(files):,} file{'' if len(files) == 1 else 's'} changed")
    rows = sum((summary.features for summary in every), ChangeCounts())
    if rows.total:
        parts.append(_rows(rows))
    out.write(styled(f" {', '.join(parts)}\n", "bold", options.color))
