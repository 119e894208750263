"""Conflicts in the Markdown of a review: how many, some of them side by side, and what to do."""

from __future__ import annotations

from collections.abc import Iterator

from havasu_vc.review.conflicts import (
    ConflictCell,
    ConflictedRow,
    Conflicts,
    DatasetInConflict,
    ItemInConflict,
)
from havasu_vc.review.map import conflict_map
from havasu_vc.review.markdown_parts import Lines, code_span, sentence, size_of, table_row
from havasu_vc.writers.terminal import printable

__all__ = ["conflict_lines"]

COMMANDS_SHARE = 0.4
"""How much of the room the commands may take."""
MAP_SHARE = 0.3
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
    maps = int(MAP_SHARE * lines.room)
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
