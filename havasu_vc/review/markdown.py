"""A review as Markdown for GitHub and GitLab, within a limit of bytes.

The table of all datasets comes first, then the summary of each, then maps and rows for as
long as there is room. A review that is too long loses whole lines, rows and maps, and says
what was left out and how to see it; nothing is cut in its middle. The limit counts bytes
of UTF-8, of which a text never has fewer than characters, so that it holds for both.

Conflicts stand first: how many, some of them side by side, and what to do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from havasu_vc.geo.sketching import sketch
from havasu_vc.model.changes import ChangeKind
from havasu_vc.review.colours import COLOURS, SIDES
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
    table_row,
)
from havasu_vc.review.report import (
    ConflictCell,
    ConflictedRow,
    Conflicts,
    DatasetInConflict,
    DatasetReview,
    ItemInConflict,
    Review,
    Sample,
)
from havasu_vc.review.words import counts_words
from havasu_vc.writers.terminal import printable

__all__ = [
    "COMMENT_LIMIT",
    "LEAST_LIMIT",
    "MARKER",
    "SUMMARY_LIMIT",
    "conflict_lines",
    "conflict_map",
    "format_markdown",
    "map_of",
]

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


COMMANDS_SHARE = 0.4
"""How much of the room the commands may take."""
CONFLICT_MAP_SHARE = 0.3
"""How much of the room maps may take."""
CELLS = 12
"""Cells of a row that are shown."""
VALUE = 60
"""Values are shown up to so many characters."""
RESERVED = 100
"""Bytes of what says that something is left out."""
FEW = 10
"""Files that are named."""
LEGEND = "On the map: 🟣 base, 🔵 ours, 🟠 theirs."


def conflict_lines(found: Conflicts, room: int) -> list[str]:
    """Return the lines that tell of conflicts, within a budget of bytes."""
    lines = Lines(room - RESERVED)
    lines.add(f"❌ {_headline(found)}", "")
    commands = _commands(found, int(COMMANDS_SHARE * room))
    lines.room -= size_of(commands)
    maps = int(CONFLICT_MAP_SHARE * lines.room)
    left = len(found.datasets)
    for each in found.datasets:
        before = lines.room
        if not _add_dataset(lines, each, found, maps):
            break
        left -= 1
        maps -= min(before - lines.room, maps)
    if left:
        lines.texts += [f"Conflicts of {left:,} more datasets are left out here.", ""]
    return [*lines.texts, *commands]


def _headline(found: Conflicts) -> str:
    theirs = code_span(found.theirs, 80)
    if found.unknown is not None:
        what = f"**Git alone does not merge this with {theirs}.**"
        return f"{what} What is in conflict cannot be told: {sentence(found.unknown)}"
    parts = [
        f"{count:,} {word}{'' if count == 1 else 's'}"
        for count, word in (
            (found.rows, "row"),
            (found.items, "meta item"),
            (len(found.files), "file"),
        )
        if count
    ]
    if not parts:
        return (
            f"**Git alone does not merge this with {theirs}**, but no cell is in conflict: "
            "`havasu-vc merge` does it, with nothing to decide."
        )
    said = f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]
    one = found.rows + found.items + len(found.files) == 1
    return f"**{said} {'is' if one else 'are'} in conflict with {theirs}**"


def _add_dataset(lines: Lines, each: DatasetInConflict, found: Conflicts, room: int) -> bool:
    """Add what there is room for of a dataset; return whether there was for any of it."""
    lines.room -= RESERVED
    counts = f"{each.rows:,} row{'' if each.rows == 1 else 's'} in conflict" if each.rows else ""
    if not lines.add(f"Conflicts of {code_span(each.path)}{': ' if counts else ''}{counts}", ""):
        return False
    lines.add_each(f"- {_item(item, found)}" for item in each.items)
    if not each.samples:
        lines.add("")
        return True
    if each.items:
        lines.add("")
    names = [f"{side}: {code_span(name, 40)}" for side, name in _sides(found)]
    if not lines.add(table_row(("row", "column", "base", *names)), "|---|---|---|---|---|"):
        return True
    drawn = conflict_map(each, min(room, lines.room // 2) - 60)
    if drawn:
        lines.room -= len(drawn) + len(LEGEND.encode()) + 24
    shown = 0
    for row in each.samples:
        if not lines.add(*map(table_row, _row(row))):
            break
        shown += 1
    if shown < each.rows:
        lines.texts += ["", f"{shown:,} of {each.rows:,} rows in conflict are shown."]
    if drawn:
        lines.texts += ["", "```geojson", drawn, "```", LEGEND]
    lines.texts.append("")
    return True


def _sides(found: Conflicts) -> tuple[tuple[str, str], ...]:
    return ("ours", found.ours), ("theirs", found.theirs)


def _item(item: ItemInConflict, found: Conflicts) -> str:
    if item.columns:
        said = (
            f"{code_span(name, VALUE) if name else 'the key'} ({', '.join(map(sentence, kinds))})"
            for name, kinds in item.columns.items()
        )
        return f"columns: {'; '.join(said)}"
    values = (("base", item.base), ("ours", item.ours), ("theirs", item.theirs))
    name = "the dataset" if item.name == "dataset" else code_span(item.name, VALUE)
    return f"{name}: " + ", ".join(
        f"{side} {'removed' if value is None else code_span(value, VALUE)}"
        for side, value in values
        if side != "base" or value is not None
    )


def _row(row: ConflictedRow) -> Iterator[tuple[str, ...]]:
    """Yield the lines of a row: one for each cell that is not alike in all versions."""
    key = code_span(row.key, VALUE)
    whole = "deleted" in (row.ours, row.theirs) or row.kind == "count" or not row.cells
    if whole:
        there = "" if "inserted" in (row.ours, row.theirs) else "there"
        yield key, "(the row)", there, f"**{row.ours}**", f"**{row.theirs}**"
    first = True
    cells = sorted(row.cells, key=lambda cell: not cell.clashes)[:CELLS]
    for cell in cells:
        yield ("" if whole or not first else key, *_cell(cell, row))
        first = False
    if len(row.cells) > CELLS:
        yield "", f"and {len(row.cells) - CELLS} more columns", "", "", ""


def _cell(cell: ConflictCell, row: ConflictedRow) -> tuple[str, ...]:
    absent = (row.kind == "insert/insert", row.ours == "deleted", row.theirs == "deleted")
    values = [
        "" if gone else "null" if value is None else code_span(value, VALUE)
        for gone, value in zip(absent, (cell.base, cell.ours, cell.theirs), strict=True)
    ]
    name = code_span(cell.column, VALUE)
    if cell.clashes:
        name = f"**{name}**"
        values[1:] = [f"**{value}**" if value else "" for value in values[1:]]
    return name, *values


def _commands(found: Conflicts, room: int) -> list[str]:
    """Return how to settle it, as lines to copy."""
    if not found.commands or any(printable(line) != line for line in found.commands):
        return []
    lines = Lines(room)
    if found.datasets:
        lines.add(
            f"To settle it, where `ours` is what {code_span(found.ours, 80)} has and `theirs` what "
            f"{code_span(found.theirs, 80)} has; `resolve` also takes single rows:",
            "",
        )
    elif not found.unknown:
        lines.add("To merge it:", "")
    if found.files:
        names = ", ".join(code_span(name, VALUE) for name in found.files[:FEW])
        lines.add(f"Before `git add`, a person brings together what both say in {names}.", "")
    fence = "`" * max(3, *(1 + _longest_run(line) for line in found.commands))
    whole = lines.add(f"{fence}sh", *found.commands, fence, "")
    return lines.texts if whole else []


def _longest_run(text: str) -> int:
    longest = run = 0
    for character in text:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    return longest


# The samples of a review on a map that GitHub draws: GeoJSON within a budget of bytes.
#
# Coordinates are longitude and latitude, rounded to about a decimetre and simplified
# until they fit. Nothing of a value stands in the map but the key of a row.


LEAST = 300
"""A map of fewer bytes would show nothing."""
_Shape: TypeAlias = tuple[str, tuple[str, str], str, bytes]
"""The key of a row, a property of the feature, its colour, and WKB."""
_TOLERANCES = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)


def map_of(review: DatasetReview, room: int) -> str | None:
    """Return a FeatureCollection of at most `room` bytes; None when there is nothing to show."""
    sides = [
        (key, ("change", label), COLOURS[label], wkb)
        for sample in review.samples
        for label, key, wkb in _sides_on_map(sample)
    ]
    return _drawn(sides, room)


def conflict_map(review: DatasetInConflict, room: int) -> str | None:
    """Return the rows in conflict as all versions have them, of at most `room` bytes."""
    sides = [
        (row.key, ("side", side), SIDES[side], wkb)
        for row in review.samples
        for side, wkb in zip(
            SIDES, (row.base_geometry, row.ours_geometry, row.theirs_geometry), strict=True
        )
        if wkb is not None
    ]
    return _drawn(sides, room)


def _drawn(shapes: list[_Shape], room: int) -> str | None:
    if room < LEAST:
        return None
    features: list[dict[str, Any]] = []
    for tolerance in _TOLERANCES:
        features = list(_features(shapes, tolerance))
        text = _collection(features)
        if len(text) <= room:
            return text if features else None
    while features and len(_collection(features)) > room:
        features = features[: len(features) * 3 // 4]
    return _collection(features) if features else None


def _collection(features: list[dict[str, Any]]) -> str:
    return json.dumps(
        {"type": "FeatureCollection", "features": features},
        separators=(",", ":"),
        ensure_ascii=True,
    ).replace("`", "\\u0060")


def _sides_on_map(sample: Sample) -> list[tuple[str, str, bytes]]:
    labels = {
        ChangeKind.DELETE: ("deleted", None),
        ChangeKind.INSERT: (None, "inserted"),
        ChangeKind.UPDATE: ("before", "after"),
    }[sample.kind]
    old, new = sample.old_geometry, sample.new_geometry
    if old == new:
        old = None  # the row changed where it stands
    return [
        (label, sample.key, wkb)
        for label, wkb in zip(labels, (old, new), strict=True)
        if label is not None and wkb is not None
    ]


def _features(shapes: list[_Shape], tolerance: float) -> Iterator[dict[str, Any]]:
    for key, (name, what), colour, wkb in shapes:
        geometry = sketch(wkb, tolerance=tolerance)
        if geometry is None:
            continue
        yield {
            "type": "Feature",
            "properties": {
                "row": key[:60],
                name: what,
                "marker-color": colour,
                "stroke": colour,
                "fill": colour,
            },
            "geometry": geometry,
        }
