"""Which datasets differ and by how much, one line for each, as git sums up files.

    --stat          maps/trees | 3 rows inserted, 12 updated, 1 deleted; schema.json
    --shortstat     1 dataset changed, 3 rows inserted, 12 updated, 1 deleted
    --name-status   M<TAB>maps/trees
    --name-only     maps/trees

For names alone no row is read beyond the first that differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TextIO

from havasu_vc.model.changes import count_changes
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.diffs import DatasetDiff, count_meta
from havasu_vc.writers.commits import format_commit
from havasu_vc.writers.json_style import LAYOUTS
from havasu_vc.writers.protocol import ChangeSummary, DatasetSummary, WriterOptions
from havasu_vc.writers.terminal import printable, styled

__all__ = [
    "write_feature_count",
    "write_feature_count_json",
    "write_name_only",
    "write_name_status",
    "write_quiet",
    "write_shortstat",
    "write_stat",
]


def write_stat(diffs: Iterable[DatasetDiff], out: TextIO, options: WriterOptions) -> ChangeSummary:
    """Print a line for each dataset that differs, and one for all."""
    _head(out, options)
    found = _counted(diffs)
    lines = [(_places(diff, " => "), _words(diff, counts.features)) for diff, counts in found]
    lines += [(file.path, _state(file.old, file.new)) for file in options.files]
    lines = [(printable(path), words) for path, words in lines]
    width = max((len(name) for name, _ in lines), default=0)
    for name, words in lines:
        out.write(f" {name:<{width}} | {words}\n")
    return _total(out, found, options)


def write_shortstat(
    diffs: Iterable[DatasetDiff], out: TextIO, options: WriterOptions
) -> ChangeSummary:
    """Print one line for all datasets that differ."""
    _head(out, options)
    return _total(out, _counted(diffs), options)


def write_name_only(
    diffs: Iterable[DatasetDiff], out: TextIO, options: WriterOptions
) -> ChangeSummary:
    """Print the path of each dataset, and of each file, that differs."""
    return _names(diffs, out, options, lambda _, name: name)


def write_name_status(
    diffs: Iterable[DatasetDiff], out: TextIO, options: WriterOptions
) -> ChangeSummary:
    """Print the path of what differs after `A` where it is added, `D` deleted, `M` changed.

    After `R` stand two paths, that before it was moved and the one since.
    """
    return _names(diffs, out, options, lambda state, name: f"{state[0].upper()}\t{name}", "\t")


def _names(
    diffs: Iterable[DatasetDiff],
    out: TextIO,
    options: WriterOptions,
    line: Callable[[str, str], str],
    between: str | None = None,
) -> ChangeSummary:
    _head(out, options)
    found = {}
    for diff in diffs:
        first = next((batch.counts for batch in diff.changes if len(batch)), ChangeCounts())
        moved = diff.moved_from is not None
        summary = DatasetSummary(count_meta(diff.meta), first, moved=moved)
        if _differs(diff, summary):
            found[diff.path] = summary
            name = printable(diff.path) if between is None else _places(diff, between)
            state = "renamed" if moved else _state(diff.old, diff.new)
            out.write(line(state, name) + "\n")
    for file in options.files:
        out.write(line(_state(file.old, file.new), printable(file.path)) + "\n")
    return ChangeSummary(found)


def _counted(diffs: Iterable[DatasetDiff]) -> list[tuple[DatasetDiff, DatasetSummary]]:
    """Return the datasets that differ, whose changes have been read, and by how much."""
    found = []
    for diff in diffs:
        counts = DatasetSummary(
            count_meta(diff.meta), count_changes(diff.changes), moved=diff.moved_from is not None
        )
        if _differs(diff, counts):
            found.append((diff, counts))
    return found


def _head(out: TextIO, options: WriterOptions) -> None:
    if options.commit is not None:
        out.write(format_commit(options.commit, color=options.color))


def _differs(diff: DatasetDiff, summary: DatasetSummary) -> bool:
    return summary.has_changes or diff.old is None or diff.new is None


def _places(diff: DatasetDiff, between: str) -> str:
    """Return the path of a dataset, after the one that it had where it was moved."""
    return between.join(printable(path) for path in (diff.moved_from, diff.path) if path)


def _state(old: object | None, new: object | None) -> str:
    return "added" if old is None else "deleted" if new is None else "modified"


def _words(diff: DatasetDiff, rows: ChangeCounts) -> str:
    parts = [_rows(rows)] if rows.total else []
    if diff.old is None or diff.new is None:
        parts.insert(0, _state(diff.old, diff.new))
    else:
        parts[:0] = ["moved"] if diff.moved_from is not None else []
        parts += [printable(change.name) for change in diff.meta]
    return "; ".join(parts)


def _rows(counts: ChangeCounts) -> str:
    """Return counts in words, those that are none left out.

    >>> _rows(ChangeCounts(1, 1200, 0))
    '1 row inserted, 1,200 updated'
    """
    words = ("inserted", "updated", "deleted")
    numbers = (counts.inserts, counts.updates, counts.deletes)
    told = [(number, word) for number, word in zip(numbers, words, strict=True) if number]
    parts = [f"{number:,} {word}" for number, word in told[1:]]
    return ", ".join([f"{_count(told[0][0], 'row')} {told[0][1]}", *parts])


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _total(
    out: TextIO, found: Sequence[tuple[DatasetDiff, DatasetSummary]], options: WriterOptions
) -> ChangeSummary:
    """Print how much differs in all, if anything does, and return it by dataset."""
    rows = sum((counts.features for _, counts in found), ChangeCounts())
    parts = [f"{_count(len(found), 'dataset')} changed"] if found else []
    parts += [f"{_count(len(options.files), 'file')} changed"] if options.files else []
    parts += [_rows(rows)] if rows.total else []
    if parts:
        out.write(styled(f" {', '.join(parts)}\n", "bold", options.color))
    return ChangeSummary({diff.path: counts for diff, counts in found})


# The number of rows that changed, as `--only-feature-count` prints it; or nothing at all.
#
# Values are never looked at; batches are counted and dropped.


def write_feature_count(
    diffs: Iterable[DatasetDiff], out: TextIO, options: WriterOptions
) -> ChangeSummary:
    """Print the counts for a person."""
    summary = _counted_rows(diffs, options)
    if not summary.total:
        out.write("0 features changed\n")
    for path, counts in summary.datasets.items():
        if counts.features.total:
            out.write(styled(f"{printable(path)}:", "bold", options.color))
            out.write(f"\n\t{counts.features.total} features changed\n")
    return summary


def write_feature_count_json(
    diffs: Iterable[DatasetDiff], out: TextIO, options: WriterOptions
) -> ChangeSummary:
    """Print one JSON object of counts by dataset."""
    summary = _counted_rows(diffs, options)
    counts = {
        path: counts.features.total
        for path, counts in summary.datasets.items()
        if counts.features.total
    }
    out.write(LAYOUTS[options.json_style].dumps(counts) + "\n")
    return summary


def _counted_rows(diffs: Iterable[DatasetDiff], options: WriterOptions) -> ChangeSummary:
    datasets = {}
    for diff in diffs:
        features = count_changes(diff.changes)
        if options.as_kart:  # which counts what its spatial filter hides as well
            features += diff.left_out
        summary = DatasetSummary(count_meta(diff.meta), features)
        if summary.has_changes:
            datasets[diff.path] = summary
    return ChangeSummary(datasets)


# Nothing at all: the exit code says whether there are changes.
#
# Stops at the first change it sees, so its counts are a lower bound.


def write_quiet(diffs: Iterable[DatasetDiff], out: TextIO, options: WriterOptions) -> ChangeSummary:
    """Print nothing; report the first dataset that has a change."""
    for diff in diffs:
        if diff.meta:
            return ChangeSummary({diff.path: DatasetSummary(meta=count_meta(diff.meta))})
        for batch in diff.changes:
            if len(batch):
                return ChangeSummary({diff.path: DatasetSummary(features=batch.counts)})
    return ChangeSummary()
