"""A diff for people, in Kart's form.

    --- roads:feature:7
    +++ roads:feature:7
    -                                     name = Old Road
    +                                     name = New Road

Updates show only the columns that changed, inserts and deletes all of them; a
geometry shows its type alone, and lines that begin with `~` say what changed in a
raster. Changes of a schema show the columns side by side, other meta items their
whole text. Nothing from the data can control the terminal.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.kinds import is_of_kart
from havasu_vc.geo.text import short_text
from havasu_vc.model import compute as pc
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.diffs import DatasetDiff, count_meta
from havasu_vc.model.types import Field, Fixed, Primitive
from havasu_vc.writers.commits import format_commit
from havasu_vc.writers.files import format_meta_change, write_file_changes
from havasu_vc.writers.protocol import (
    ChangeSummary,
    DatasetSummary,
    Labels,
    WriterOptions,
)
from havasu_vc.writers.rasters import difference_lines, differences, words_of_rasters
from havasu_vc.writers.rows import joined, nonempty, side_of
from havasu_vc.writers.terminal import PERHAPS_UNSAFE, codes, printable
from havasu_vc.writers.values import (
    canonical_wkb,
    equal_cells,
    key_labels,
    map_flagged,
    side_columns,
    slices,
    spelled,
)

__all__ = ["NULL", "printable_column", "shown_text", "write_text"]

NULL = "\N{SYMBOL FOR NULL}"
"""The text for no value."""
_PERHAPS_UNSAFE = np.array(PERHAPS_UNSAFE)


def write_text(diffs: Iterable[DatasetDiff], out: TextIO, options: WriterOptions) -> ChangeSummary:
    """Print a diff, after its commit if there is one."""
    if options.commit is not None:
        out.write(format_commit(options.commit, color=options.color, pad=options.as_kart))
    datasets = {}
    bold = codes("bold", options.color)
    for diff in diffs:
        moved = diff.moved_from is not None
        if moved:
            out.write(f"{bold[0]}rename from {printable(str(diff.moved_from))}{bold[1]}\n")
            out.write(f"{bold[0]}rename to {printable(diff.path)}{bold[1]}\n")
        for change in diff.meta:
            out.write(format_meta_change(diff.path, change, color=options.color))
        features = ChangeCounts()
        for batch in nonempty(diff):
            for piece in slices(batch):
                out.write(_format_changes(piece, diff, options))
            features += batch.counts
        summary = DatasetSummary(count_meta(diff.meta), features, moved=moved)
        if summary.has_changes:
            datasets[diff.path] = summary
    write_file_changes(options.files, out, color=options.color)
    return ChangeSummary(datasets)


def _format_changes(batch: ChangeBatch, diff: DatasetDiff, options: WriterOptions) -> str:
    labels = options.labels or key_labels
    has_old, has_new = pc.is_valid(batch.old), pc.is_valid(batch.new)
    bold = codes("bold", options.color)
    prefix = f"{printable(diff.path)}:feature:"
    zones = not is_of_kart(diff.header.kind)
    parts = [
        _heading(batch.old, "--- " + prefix, bold, diff, labels),
        _heading(batch.new, "+++ " + prefix, bold, diff, labels),
    ]
    both = pc.and_(has_old, has_new)
    old = {f.name: (f, c) for f, c in _columns(batch, diff, new=False)}
    new = {f.name: (f, c) for f, c in _columns(batch, diff, new=True)}
    orders = [(_order(list(old), list(new)), pc.or_(has_old, has_new))]
    if options.as_kart and list(old) != list(new):
        alone = (list(old), pc.and_not(has_old, has_new)), (list(new), pc.and_not(has_new, has_old))
        orders = [(list(dict.fromkeys((*old, *new))), both), *alone]
    for name, among in ((name, among) for names, among in orders for name in names):
        same = None
        if name in old and name in new:
            same = pc.and_(both, equal_cells(old[name], new[name]))
        for sign, style, columns, present in (
            ("-", "red", old, has_old),
            ("+", "green", new, has_new),
        ):
            if name in columns:
                shown = pc.and_(among, present if same is None else pc.and_not(present, same))
                start, end = codes(style, options.color)
                field, column = columns[name]
                texts = shown_text(column, field, line_ends=options.as_kart, zones=zones)
                values = pc.fill_null(texts, NULL)
                start += f"{sign} {printable(name):>40} = "
                lines = pc.binary_join_element_wise(start, values, end + "\n", "")
                parts.append(pc.if_else(shown, lines, None))
        if same is not None and old[name][0].raster is not None:
            changed = pc.and_(among, pc.and_not(both, same))
            parts.append(_raster_lines(old[name], new[name], changed, options))
    return joined(
        pc.binary_join_element_wise(*parts, "", null_handling="replace", null_replacement="")
    )


def _order(old: list[str], new: list[str]) -> list[str]:
    """Return the columns of both sides as the new one has them, others where they stood.

    >>> _order(["id", "owner", "area"], ["id", "holder", "area", "note"])
    ['id', 'owner', 'holder', 'area', 'note']
    """
    found = list(new)
    for place, name in enumerate(old):
        if name not in found:
            found.insert(found.index(old[place - 1]) + 1 if place else 0, name)
    return found


def _raster_lines(
    old: tuple[Field, pa.Array],
    new: tuple[Field, pa.Array],
    changed: pa.BooleanArray,
    options: WriterOptions,
) -> pa.StringArray:
    """Return what changed in each raster that did, a line for its grid and for each band."""
    start, end = codes("cyan", options.color)
    start += f"~ {printable(new[0].name):>40} : "
    found = differences(old[1], new[1], changed.to_pylist())
    widths, heights = (new[1].field(name).to_pylist() for name in ("width", "height"))
    texts = [
        None
        if difference is None
        else "".join(
            f"{start}{printable(line)}{end}\n"
            for line in difference_lines(difference, width * height)
        )
        for difference, width, height in zip(found, widths, heights, strict=True)
    ]
    return pa.array(texts, pa.string())


def _columns(batch: ChangeBatch, diff: DatasetDiff, *, new: bool) -> list[tuple[Field, pa.Array]]:
    side = batch.new if new else batch.old
    return side_columns(side, side_of(diff, new=new).schema)


def _heading(
    side: pa.StructArray,
    prefix: str,
    bold: tuple[str, str],
    diff: DatasetDiff,
    labels: Labels,
) -> pa.StringArray:
    if side.null_count == len(side):
        return pa.nulls(len(side), pa.string())
    schema = side_of(diff, new=prefix.startswith("+")).schema
    names = printable_column(labels(side, schema))
    text = pc.binary_join_element_wise(bold[0] + prefix, names, bold[1] + "\n", "")
    return pc.if_else(pc.is_valid(side), text, None)


def shown_text(
    column: pa.Array, field: Field, *, line_ends: bool = False, zones: bool = True
) -> pa.StringArray:
    """Return each value as people see it in a diff; null stays null."""
    if field.geometry is not None:
        return short_text(canonical_wkb(column, field))
    if field.raster is not None:
        return printable_column(words_of_rasters(column))
    match field.type:
        case Primitive.BOOLEAN:
            return pc.if_else(column, "True", "False")
        case Primitive.BINARY | Fixed():
            return pc.if_else(pc.is_valid(column), "BLOB(...)", None)
        case _:
            return printable_column(spelled(column, field, zones=zones), line_ends=line_ends)


def printable_column(column: pa.StringArray, *, line_ends: bool = False) -> pa.StringArray:
    """Return a column of text that cannot control the terminal, perhaps with its line ends."""
    return map_flagged(column, _PERHAPS_UNSAFE, _printable_lines if line_ends else printable)


def _printable_lines(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))
