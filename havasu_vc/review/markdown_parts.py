"""The lines of a review in Markdown: what each dataset, column and row says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from havasu_vc.model.bounds import Bounds
from havasu_vc.model.changes import ChangeKind
from havasu_vc.model.counts import ChangeCounts
from havasu_vc.review.markup import code_span, marked, sentence, table_row
from havasu_vc.review.report import Area, Cell, ColumnReview, DatasetReview, Finding, Sample

__all__ = [
    "ROWS_HEADER",
    "counts_words",
    "finding_line",
    "heading",
    "overview_header",
    "overview_row",
    "sample_row",
    "summary_lines",
]

CELLS = 12
"""Cells of a row that are shown."""
COLUMNS = 20
"""Columns of a dataset that are told of."""
ROWS_HEADER = ("| | row | why | what |", "|---|---|---|---|")
_SIGNS = {ChangeKind.DELETE: "deleted", ChangeKind.INSERT: "new", ChangeKind.UPDATE: "changed"}


def overview_header() -> tuple[str, str]:
    """Return the head of the table of all datasets."""
    return (
        "| dataset | rows before | inserted | updated | deleted | rows after | look at |",
        "|---|--:|--:|--:|--:|--:|---|",
    )


def overview_row(each: DatasetReview) -> str:
    """Return a dataset's row in the table of all."""
    state = "" if each.state == "changed" else f" {each.state}"
    counts = ["?"] * 3
    if each.unread is None:
        counts = [
            _number(count)
            for count in (each.counts.inserts, each.counts.updates, each.counts.deletes)
        ]
    odd = f"⚠️ {len(each.flags)}" if each.flags else ""
    return table_row(
        (
            code_span(each.path) + state,
            _rows(each, each.rows_before),
            *counts,
            _rows(each, each.rows_after),
            odd,
        )
    )


def _rows(each: DatasetReview, count: int) -> str:
    """Return how many rows a version has; of one that cannot be read that may not be known."""
    return (
        "?" if each.unread is not None and each.state == "changed" and not count else f"{count:,}"
    )


def _number(count: int) -> str:
    return f"{count:,}" if count else ""


def heading(each: DatasetReview) -> str:
    """Return the title of a dataset's section."""
    title = f" – {code_span(each.title)}" if each.title else ""
    return f"### {code_span(each.path)}{title}"


def finding_line(finding: Finding) -> str:
    """Return what is against the policy, as one line."""
    sign = "❌" if finding.refuses else "⚠️"
    where = f"{code_span(finding.dataset)}: " if finding.dataset else ""
    return f"- {sign} {where}{sentence(finding.message)}{_keys(finding.rows)}"


def summary_lines(each: DatasetReview) -> Iterator[str]:
    """Yield what is said of a dataset, the gravest first."""
    for flag in each.flags:
        yield f"- ⚠️ **{sentence(flag.message)}**{_keys(flag.rows)}"
    for words in each.words:
        yield f"- {sentence(words)}"
    if each.state != "changed":
        rows = each.rows_after if each.state == "added" else each.rows_before
        yield f"- the dataset is {each.state}, {rows:,} rows"
    elif each.counts.total:
        yield f"- rows: {counts_words(each.counts)}{_share(each)}"
    for column in each.columns[:COLUMNS]:
        yield f"- {_column(column)}"
    if len(each.columns) > COLUMNS:
        yield f"- {len(each.columns) - COLUMNS} more columns changed"
    if each.area is not None and each.area.touched is not None:
        yield f"- {_area(each.area)}"


def counts_words(counts: ChangeCounts) -> str:
    """Return how many rows changed, in words.

    >>> counts_words(ChangeCounts(1200, 0, 3))
    '1,200 inserted, 3 deleted'
    """
    parts = (
        (counts.inserts, "inserted"),
        (counts.updates, "updated"),
        (counts.deletes, "deleted"),
    )
    return ", ".join(f"{count:,} {word}" for count, word in parts if count) or "none"


def _share(each: DatasetReview) -> str:
    touched, rows = each.counts.updates + each.counts.deletes, each.rows_before
    share = touched / rows if rows else 0
    return f" – {share:.1%} of the {rows:,} rows there were" if share >= 0.001 else ""


def _keys(keys: Sequence[str]) -> str:
    return f": {', '.join(code_span(key, 40) for key in keys)}" if keys else ""


def _column(column: ColumnReview) -> str:
    parts = [f"{code_span(column.name)} changed in {column.changed:,} rows"]
    if column.emptied:
        parts.append(f"{column.emptied:,} of them to null")
    if column.filled:
        parts.append(f"{column.filled:,} from null")
    shift = column.numbers
    if shift is not None and None not in (shift.old_mean, shift.new_mean):
        parts.append(
            f"mean {shift.old_mean:,.6g} → {shift.new_mean:,.6g}, "
            f"now {shift.least:,.6g} to {shift.greatest:,.6g}"
        )
    if column.transitions:
        shown = (
            f"{_value(each.old)} → {_value(each.new)} {each.count:,} times"
            for each in column.transitions
        )
        parts.append("; ".join(shown))
    return ", ".join(parts)


def _value(text: str | None) -> str:
    return "null" if text is None else code_span(text, 40)


def _area(area: Area) -> str:
    crs = f" ({code_span(area.crs)})" if area.crs else ""
    parts = [f"area touched {_corners(area.touched)}{crs}"]
    if area.geographic is not None and area.geographic != _quadruple(area.touched):
        west, south, east, north = area.geographic
        parts.append(
            f"in longitude and latitude {west:.6g} {south:.6g} to {east:.6g} {north:.6g}"
            + (", over the antimeridian" if west > east else "")
        )
    if area.before is not None and area.after is not None and area.before != area.after:
        parts.append(f"extent was {_corners(area.before)}, is {_corners(area.after)}")
    return "; ".join(parts)


def _quadruple(bounds: Bounds | None) -> tuple[float, ...]:
    return () if bounds is None else (bounds.xmin, bounds.ymin, bounds.xmax, bounds.ymax)


def _corners(bounds: Bounds | None) -> str:
    if bounds is None:
        return "nothing"
    return f"{bounds.xmin:.7g} {bounds.ymin:.7g} to {bounds.xmax:.7g} {bounds.ymax:.7g}"


def sample_row(sample: Sample) -> str:
    """Return a changed row as a row of a table."""
    cells = list(_cells(sample.cells[:CELLS], sample.kind))
    if len(sample.cells) > CELLS:
        cells.append(f"and {len(sample.cells) - CELLS} more columns")
    return table_row(
        (
            _SIGNS[sample.kind],
            code_span(sample.key, 60),
            sentence(sample.reason),
            "<br>".join(cells),
        )
    )


def _cells(cells: Iterable[Cell], kind: ChangeKind) -> Iterator[str]:
    for cell in cells:
        name = code_span(cell.column, 60)
        if kind is ChangeKind.INSERT:
            yield f"{name} = {_value(cell.new)}"
        elif kind is ChangeKind.DELETE:
            yield f"{name} = {_value(cell.old)}"
        elif cell.old is None or cell.new is None:
            yield f"{name}: {_value(cell.old)} → {_value(cell.new)}"
        else:
            old, new = marked(cell.old, cell.new)
            yield f"{name}: {old} → {new}"
