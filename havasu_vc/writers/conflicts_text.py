"""Conflicts for people, in Kart's form.

    roads:
        roads:feature:
            roads:feature:7:
                roads:feature:7:ours:
                                        name = New Road

Every version shows all its columns, a geometry its type alone. Nothing from the data
can control the terminal.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TextIO

import pyarrow as pa

from havasu_vc.datasets.kinds import is_of_kart
from havasu_vc.model import compute as pc
from havasu_vc.model.diffs import ConflictedDataset, MetaConflict
from havasu_vc.writers.conflicts import (
    VERSIONS,
    conflict_total,
    count_lines,
    counts_of,
    labels_of,
    sides_of,
)
from havasu_vc.writers.protocol import WriterOptions
from havasu_vc.writers.rasters import words_of_changes
from havasu_vc.writers.rows import joined
from havasu_vc.writers.terminal import codes, printable, styled
from havasu_vc.writers.text import NULL, printable_column, shown_text
from havasu_vc.writers.values import SLICE_ROWS, side_columns

__all__ = ["write_conflicts_text"]

_STYLES = {"ancestor": "red", "ours": "green", "theirs": "cyan"}
_INDENT = "    "
_WHAT = {
    "type": "two types",
    "name": "two names, or a name that another column has",
    "drop": "dropped on one side, changed on the other",
    "edit": "dropped on one side, values in it changed on the other",
    "add": "added on both sides",
    "key": "the key needs a column that one side changed",
}
"""The conflicts in a column; anything else is a property of the column."""


def write_conflicts_text(
    datasets: Iterable[ConflictedDataset],
    out: TextIO,
    options: WriterOptions,
    summary: int = 0,
) -> int:
    """Print conflicts, or what `summary` asks for; return how many."""
    total = 0
    shown = _flat if options.flat else _nested
    for dataset in datasets:
        total += conflict_total(dataset)
        out.writelines(shown(dataset, options, summary))
    if options.flat and summary > 1 and (total or not options.as_kart):
        out.write(f"{total} conflicts\n")
    if options.as_kart and ((options.flat and summary) or not total):
        out.write("\n")  # ends each of Kart's lists
    return total


def _nested(dataset: ConflictedDataset, options: WriterOptions, summary: int) -> Iterator[str]:
    """Yield a dataset's conflicts below its name."""
    if summary > 1:
        for line in count_lines({dataset.path: counts_of(dataset)}):
            yield f"{line}\n"
        return
    yield f"{printable(dataset.path)}:\n"
    yield from _parts(dataset, options, full=not summary)
    yield "\n"


def _flat(dataset: ConflictedDataset, options: WriterOptions, summary: int) -> Iterator[str]:
    """Yield a dataset's conflicts without a name above them; of a count, nothing."""
    if not summary:
        yield from _parts(dataset, options, full=True)
    elif summary == 1:
        for label in labels_of(dataset):
            yield f"{printable(label)}\n"


def _parts(dataset: ConflictedDataset, options: WriterOptions, *, full: bool) -> Iterator[str]:
    if dataset.rows is not None:
        prefix = f"{printable(dataset.path)}:feature:"
        if not options.flat:
            yield f"{_INDENT}{prefix}\n"
        for start in range(0, dataset.rows.num_rows, SLICE_ROWS):
            rows = dataset.rows.slice(start, SLICE_ROWS)
            names = printable_column(rows.column("label"))
            start_of_line = _INDENT * 2 + prefix
            if full:
                yield joined(_rows(start, names, dataset, options))
            else:
                yield joined(pc.binary_join_element_wise(start_of_line, names, "\n", ""))
    if dataset.meta:
        prefix = f"{printable(dataset.path)}:meta:"
        indent, end = ("", "\n") if options.flat else (_INDENT * 3, "")
        if not options.flat:
            yield f"{_INDENT}{prefix}\n"
        for item in dataset.meta:
            name = f"{prefix}{printable(item.name)}"
            if not options.flat:
                yield f"{_INDENT * 2}{name}{':' if full else ''}\n"
            yield from _columns(item)
            for version in VERSIONS if full else ():
                if version in item.versions:
                    heading = f"{indent}{name}:{version}:"
                    yield styled(heading, _STYLES[version], options.color) + "\n"
                    value = json.dumps(item.versions[version], ensure_ascii=False)
                    yield printable(value) + "\n" + end


def _columns(item: MetaConflict) -> Iterator[str]:
    """Yield a line for each column in conflict."""
    for name, kinds in item.columns.items():
        what = ", ".join(_WHAT.get(kind, f"two values of {kind!r}") for kind in kinds)
        column = f"column {printable(name)}" if name else "the key"
        yield f"{_INDENT * 3}{column}: {printable(what)}\n"


def _rows(
    first: int, names: pa.StringArray, dataset: ConflictedDataset, options: WriterOptions
) -> pa.StringArray:
    """Return the text of each conflict from one on."""
    prefix = f"{printable(dataset.path)}:feature:"
    parts: list[pa.StringArray] = []
    if not options.flat:
        parts.append(pc.binary_join_element_wise(_INDENT * 2 + prefix, names, ":\n", ""))
    zones = not is_of_kart(dataset.header.kind)
    ancestors: dict[int, pa.Array] = {}
    for version, header, side in sides_of(dataset, first, len(names)):
        start, end = codes(_STYLES[version], options.color)
        lines: list[pa.StringArray | str] = [
            start + ("" if options.flat else _INDENT * 3) + prefix,
            names,
            f":{version}:{end}\n",
        ]
        columns = side_columns(side, header.schema)
        if version == "ancestor":
            ancestors = {field.id: column for field, column in columns}
        for field, column in columns:
            if field.raster is not None and version != "ancestor":
                # Alike in words, most versions of a raster differ in their cells alone.
                before = ancestors.get(field.id, pa.nulls(len(column), column.type))
                values = pc.fill_null(words_of_changes(before, column), NULL)
            else:
                texts = shown_text(column, field, line_ends=options.as_kart, zones=zones)
                values = pc.fill_null(texts, NULL)
            lines += [f"{printable(field.name):>40} = ", values, "\n"]
        if options.flat:
            lines.append("\n")
        text = pc.binary_join_element_wise(*lines, "")
        parts.append(pc.if_else(pc.is_valid(side), text, None))
    return pc.binary_join_element_wise(*parts, "", null_handling="replace", null_replacement="")
