"""A review as Markdown for GitHub and GitLab, within a limit of bytes.

The table of all datasets comes first, then the summary of each, then maps and rows for as
long as there is room. A review that is too long loses whole lines, rows and maps, and says
what was left out and how to see it; nothing is cut in its middle. The limit counts bytes
of UTF-8, of which a text never has fewer than characters, so that it holds for both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from havasu_vc.review.conflicts_markdown import conflict_lines
from havasu_vc.review.map import map_of
from havasu_vc.review.markdown_parts import (
    ROWS_HEADER,
    Lines,
    code_span,
    commits_words,
    finding_line,
    heading,
    headline,
    overview_header,
    overview_row,
    sample_row,
    sentence,
    short_name,
    size_of,
    spread,
    summary_lines,
)
from havasu_vc.review.report import DatasetReview, Review, Sample
from havasu_vc.review.words import counts_words

__all__ = ["COMMENT_LIMIT", "LEAST_LIMIT", "MARKER", "SUMMARY_LIMIT", "format_markdown"]

COMMENT_LIMIT = 65_536
"""GitHub refuses a comment of more characters."""
SUMMARY_LIMIT = 1_048_576
"""GitHub refuses a step summary of more bytes."""
LEAST_LIMIT = 4_000
"""With less there is no room for what must be said."""
MARKER = "<!-- havasu-vc review -->"
"""By this line a comment is found again."""
OVERVIEW_SHARE = 0.25
"""How much of the room the table of datasets, the policy and conflicts may take, each."""
OPEN_ROWS = 8
"""Rows of a dataset that can be seen at once; the others are folded away."""
FOLD = 80
"""Bytes of what folds them."""
SUMMARY_SHARE = 0.6
"""How much of what is left the summaries may take."""
MAP_SHARE = 0.4
"""How much of what is left then maps may take."""


def format_markdown(review: Review, *, limit: int = COMMENT_LIMIT, more: str | None = None) -> str:
    """Return the page; `more` tells in a sentence of Markdown how to see what was left out."""
    if limit < LEAST_LIMIT:
        raise ValueError(f"no room for a review in {limit} bytes")
    end = more or f"see all with {code_span(f'havasu-vc diff {review.range}', 300)}"
    room = limit - len(end.encode()) - 300
    head = _head(review, room)
    # A blank line and the title of the rows' table come once for each dataset.
    left = room - size_of(head)
    sections, untold = _summaries(review.datasets, int(SUMMARY_SHARE * left))
    left -= sum(len(text.encode()) + 1 for section in sections for text in section)
    shown = 0
    maps = int(MAP_SHARE * left)
    for number, (each, section) in enumerate(zip(review.datasets, sections, strict=False)):
        share = left // (len(sections) - number)
        drawn = map_of(each, min(maps, share * 3 // 4) - 20)
        if drawn:
            block = ["", "```geojson", drawn, "```"]
            section += block
            size = sum(len(text) + 1 for text in block)
            maps, left, share = maps - size, left - size, share - size
        rows, count = _rows(each, share)
        section += rows
        left -= size_of(rows)
        shown += count
    parts = [*head, *(text for section in sections for text in section)]
    return "\n".join([*parts, *_left_out(review, untold, shown, end)]) + "\n"


def _rows(each: DatasetReview, room: int) -> tuple[list[str], int]:
    """Return lines with a few telling rows, the others folded away, and how many these are."""
    first, rest = spread(each.samples, OPEN_ROWS)
    lines, shown = _table(first, room)
    if shown < len(first):
        return lines, shown
    room -= size_of(lines) + FOLD
    folded, more = _table(rest, room)
    if more:
        words = f"{more:,} more row{'' if more == 1 else 's'}"
        lines += ["", f"<details><summary>{words}</summary>", *folded, "", "</details>"]
    return lines, shown + more


def _table(samples: Sequence[Sample], room: int) -> tuple[list[str], int]:
    """Return a table of as many rows as there is room for; nothing where there is for none."""
    lines = Lines(room)
    if not samples or not lines.add("", *ROWS_HEADER):
        return [], 0
    shown = len(samples) - lines.add_each(map(sample_row, samples))
    return (lines.texts, shown) if shown else ([], 0)


def _head(review: Review, room: int) -> list[str]:
    span = [code_span(short_name(name), 80) for name in (review.base, review.head)]
    since = ""
    if review.merge_base is not None:
        since = f", since their merge base {code_span(review.merge_base[:10])}"
    head = Lines(room)
    head.add(MARKER, "## Changes to data", "", f"From {span[0]} to {span[1]}{since}.", "")
    if review.commits:
        head.add(commits_words(review), "")
    notes = Lines(int(OVERVIEW_SHARE * room))
    if review.findings:
        refused = sum(finding.refuses for finding in review.findings)
        verdict = "Only warnings by the policy"
        if refused:
            verdict = f"{refused:,} finding{'' if refused == 1 else 's'} against the policy"
        notes.add(f"**{verdict}**", "")
        ranked = sorted(review.findings, key=lambda finding: not finding.refuses)
        if left := notes.add_each(map(finding_line, ranked)):
            notes.texts.append(f"- and {left:,} more")
        notes.texts.append("")
    for note in review.notes:
        notes.add(f"> {sentence(note)}", "")
    head.add(*notes.texts)
    if review.conflicts is not None:
        head.add(*conflict_lines(review.conflicts, int(OVERVIEW_SHARE * room)))
    if not review.datasets:
        head.add("No dataset changes.")
        return head.texts
    head.add(headline(review), "")
    table = Lines(int(OVERVIEW_SHARE * room))
    table.add(*overview_header())
    if left := table.add_each(map(overview_row, review.datasets)):
        total = counts_words(review.counts)
        table.texts += ["", f"{left:,} more datasets are not in this table; rows of all: {total}"]
    head.add(*table.texts)
    return head.texts


def _summaries(datasets: Iterable[DatasetReview], room: int) -> tuple[list[list[str]], int]:
    """Return a section of each dataset for as long as they fit, and how many do not."""
    found: list[list[str]] = []
    rest = list(datasets)
    lines = Lines(room)
    for number, each in enumerate(rest):
        share = Lines(max(lines.room // (len(rest) - number), min(lines.room, 1500)))
        if not share.add("", heading(each), ""):
            return found, len(rest) - number
        if left := share.add_each(summary_lines(each)):
            share.texts.append(f"- and {left:,} more")
        if not lines.add(*share.texts):
            return found, len(rest) - number
        found.append(share.texts)
    return found, 0


def _left_out(review: Review, untold: int, shown: int, end: str) -> list[str]:
    parts = []
    if untold:
        parts.append(f"{untold:,} datasets are left out here")
    if shown < review.counts.total:
        parts.append(f"{shown:,} of {review.counts.total:,} changed rows are shown")
    return ["", f"<sub>{'; '.join(parts)}; {end}</sub>"] if parts else []
