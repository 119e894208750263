"""A review as Markdown for GitHub and GitLab, within a limit of characters.

Values come from strangers. They stand in code spans, in which no markup, mention, link or
image works; a run of backticks within is fenced by a longer one, `|` is escaped for the
table, and what would reverse or hide text is spelled out. A review that is too long loses
whole rows and whole maps, and says what was left out; nothing is cut in its middle.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

from havasu_vc.model.bounds import Bounds
from havasu_vc.model.changes import ChangeKind
from havasu_vc.model.counts import ChangeCounts
from havasu_vc.review.map import map_of
from havasu_vc.review.report import Cell, ColumnReview, DatasetReview, Review, Sample
from havasu_vc.writers.terminal import printable

__all__ = ["COMMENT_LIMIT", "SUMMARY_LIMIT", "code_span", "format_markdown"]

COMMENT_LIMIT = 65_536
"""GitHub refuses a comment of more characters."""
SUMMARY_LIMIT = 1_048_576
"""GitHub refuses a step summary of more bytes."""
MARKER = "<!-- havasu-vc review -->"
"""By this line a comment is found again."""
VALUE = 120
"""Values are shown up to so many characters."""
MAP_SHARE = 0.4
"""How much of the room a map may take."""
_SIGNS = {ChangeKind.DELETE: "deleted", ChangeKind.INSERT: "new", ChangeKind.UPDATE: "changed"}
_RUNS = re.compile(r"`+")
_NAMES = re.compile(r"`([^`]*)`")


def code_span(text: str, longest: int = VALUE) -> str:
    r"""Return any text as a code span that is safe in a table.

    >>> print(code_span("a|b`c @user"))
    ``a\|b`c @user``
    """
    text = printable(text)
    if len(text) > longest:
        text = text[: longest - 1] + "…"
    if not text:
        return "(empty)"
    fence = "`" * (max((len(run) for run in _RUNS.findall(text)), default=0) + 1)
    pad = " " if text.startswith(("`", " ")) or text.endswith(("`", " ")) else ""
    return f"{fence}{pad}{text}{pad}{fence}".replace("|", "\\|")


def format_markdown(review: Review, *, limit: int = COMMENT_LIMIT, more: str | None = None) -> str:
    """Return the page; `more` tells in a sentence how to see what was left out."""
    head = [MARKER, "## Changes to data", "", *_overview(review)]
    head += [f"> {_words(note)}" for note in review.notes]
    sections = [_section(each) for each in review.datasets]
    room = limit - sum(len(line) + 1 for line in head) - 400
    # The summary of every dataset comes before the rows of any.
    summaries = list(_fitting(("\n".join(section) for section in sections), room))
    left = room - sum(len(text) + 1 for text in summaries)
    pages, shown, total = [], 0, 0
    maps_left = MAP_SHARE * left
    for number, each in enumerate(review.datasets):
        total += len(each.samples)
        if number >= len(summaries):
            continue
        page = [summaries[number]]
        drawn = map_of(each, int(min(maps_left, left / 2)))
        if drawn:
            block = "\n".join(("", "```geojson", drawn, "```"))
            page.append(block)
            left -= len(block) + 1
            maps_left -= len(block) + 1
        share = left // (len(summaries) - number)
        rows = list(_fitting((_row(sample) for sample in each.samples), share - 80))
        if rows:
            page += ["", "| | row | why | what |", "|---|---|---|---|", *rows]
            left -= sum(len(row) + 1 for row in rows) + 80
            shown += len(rows)
        pages.append("\n".join(page))
    return "\n".join([*head, *pages, *_left_out(review, len(summaries), shown, more)]) + "\n"


def _fitting(texts: Iterable[str], room: float) -> Iterator[str]:
    """Yield texts for as long as they fit."""
    used = 0.0

    def fits(text: str) -> bool:
        nonlocal used
        used += len(text) + 1
        return used <= room

    return takewhile(fits, texts)


def _left_out(review: Review, datasets: int, shown: int, more: str | None) -> list[str]:
    missing = len(review.datasets) - datasets
    changed = review.counts.total
    parts = []
    if missing:
        parts.append(f"{missing:,} datasets are left out here")
    if shown < changed:
        parts.append(f"{shown:,} of {changed:,} changed rows are shown")
    if not parts:
        return []
    how = more or f"see all with `havasu-vc diff {review.base}...{review.head}`"
    return ["", f"<sub>{'; '.join(parts)}; {how}</sub>"]


def _overview(review: Review) -> Iterator[str]:
    if not review.datasets:
        yield "No dataset changes."
        return
    yield "| dataset | rows before | inserted | updated | deleted | rows after | look at |"
    yield "|---|--:|--:|--:|--:|--:|---|"
    for each in review.datasets[:200]:
        counts = each.counts
        odd = f"⚠️ {len(each.flags)}" if each.flags else ""
        yield (
            f"| {code_span(each.path)} {'' if each.state == 'changed' else each.state}"
            f"| {each.rows_before:,} | {_number(counts.inserts)} | {_number(counts.updates)} "
            f"| {_number(counts.deletes)} | {each.rows_after:,} | {odd} |"
        )
    yield ""


def _number(count: int) -> str:
    return f"{count:,}" if count else ""


def _section(each: DatasetReview) -> list[str]:
    title = f" – {code_span(each.title)}" if each.title else ""
    lines = ["", f"### {code_span(each.path)}{title}", ""]
    lines += [f"- ⚠️ **{_words(flag.message)}**{_keys(flag.rows)}" for flag in each.flags]
    lines += [f"- {_words(sentence)}" for sentence in each.words]
    if each.state != "changed":
        lines.append(f"- the dataset is {each.state}, {each.counts.total:,} rows")
    elif each.counts.total:
        lines.append(f"- {_counts(each.counts, each.rows_before)}")
    lines += [f"- {_column(column)}" for column in each.columns[:20]]
    if len(each.columns) > 20:
        lines.append(f"- {len(each.columns) - 20} more columns changed")
    if each.area is not None and each.area.touched is not None:
        lines.append(f"- {_area(each)}")
    return lines


def _counts(counts: ChangeCounts, rows: int) -> str:
    parts = [
        f"{count:,} {word}"
        for count, word in (
            (counts.inserts, "inserted"),
            (counts.updates, "updated"),
            (counts.deletes, "deleted"),
        )
        if count
    ]
    share = (counts.updates + counts.deletes) / rows if rows else 0
    percent = f" – {share:.1%} of the {rows:,} rows there were" if share >= 0.001 else ""
    return f"rows: {', '.join(parts)}{percent}"


def _keys(keys: Sequence[str]) -> str:
    return f": {', '.join(code_span(key, 40) for key in keys)}" if keys else ""


def _column(column: ColumnReview) -> str:
    parts = [f"{code_span(column.name)} changed in {column.changed:,} rows"]
    if column.emptied:
        parts.append(f"{column.emptied:,} of them to null")
    if column.filled:
        parts.append(f"{column.filled:,} from null")
    shift = column.numbers
    if shift is not None and shift.old_mean is not None and shift.new_mean is not None:
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


def _area(each: DatasetReview) -> str:
    area = each.area
    assert area is not None
    crs = f" ({code_span(area.crs)})" if area.crs else ""
    parts = [f"area touched {_corners(area.touched)}{crs}"]
    if area.before is not None and area.after is not None and area.before != area.after:
        parts.append(f"extent was {_corners(area.before)}, is {_corners(area.after)}")
    return "; ".join(parts)


def _corners(bounds: Bounds | None) -> str:
    if bounds is None:
        return "nothing"
    return f"{bounds.xmin:.7g} {bounds.ymin:.7g} to {bounds.xmax:.7g} {bounds.ymax:.7g}"


def _words(sentence: str) -> str:
    """Return a sentence of ours, in which names from the data stand between backticks."""
    return _NAMES.sub(lambda match: code_span(match[1]), sentence)


def _row(sample: Sample) -> str:
    cells = "<br>".join(_cell(cell, sample.kind) for cell in sample.cells[:12])
    if len(sample.cells) > 12:
        cells += f"<br>and {len(sample.cells) - 12} more columns"
    reason = _words(sample.reason) if "`" in sample.reason else code_span(sample.reason)
    return f"| {_SIGNS[sample.kind]} | {code_span(sample.key, 60)} | {reason} | {cells} |"


def _cell(cell: Cell, kind: ChangeKind) -> str:
    name = code_span(cell.column, 60)
    if kind is ChangeKind.INSERT:
        return f"{name} = {_value(cell.new)}"
    if kind is ChangeKind.DELETE:
        return f"{name} = {_value(cell.old)}"
    if cell.old is None or cell.new is None:
        return f"{name}: {_value(cell.old)} → {_value(cell.new)}"
    old, new = _marked(cell.old, cell.new)
    return f"{name}: {old} → {new}"


def _marked(old: str, new: str) -> tuple[str, str]:
    """Return two texts, the part that differs in bold where much of both is the same."""
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    if start + end < 8 or min(len(old), len(new)) > VALUE:
        return code_span(old), code_span(new)
    parts = [
        (text[:start], text[start : len(text) - end], text[len(text) - end :])
        for text in (old, new)
    ]
    old_text, new_text = ("".join(_pieces(*each)) for each in parts)
    return old_text, new_text


def _pieces(before: str, middle: str, after: str) -> Iterator[str]:
    if before:
        yield code_span(before)
    if middle:
        yield f"**{code_span(middle)}**"
    if after:
        yield code_span(after)


def _common(first: str, second: str) -> int:
    for index, (left, right) in enumerate(zip(first, second, strict=False)):
        if left != right:
            return index
    return min(len(first), len(second))
