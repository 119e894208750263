"""Conflicts as JSON in Kart's form: `kart.conflicts/v1`.

    {"kart.conflicts/v1": {
       "<dataset>": {"feature": {"<key>": {"ancestor": {…}, "ours": {…}, "theirs": {…}}},
                     "meta": {"<item>": {"ancestor": …, "ours": …, "theirs": …}}}}}

The schema of a Havasu dataset has a fourth key, `columns`: `{"height": ["type"]}`.
In a summary a list of keys, or a number, stands for the rows and for the meta items; where
nothing is left, `{}` stands for all, as Kart has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TextIO

import pyarrow as pa

from havasu_vc.datasets.kinds import is_of_kart
from havasu_vc.model import compute as pc
from havasu_vc.model.diffs import ConflictedDataset, MetaConflict
from havasu_vc.model.types import is_whole
from havasu_vc.writers.conflicts import (
    conflict_total,
    counts_object,
    counts_of,
    labels_of,
    sides_of,
)
from havasu_vc.writers.json_style import LAYOUTS, JsonLayout
from havasu_vc.writers.protocol import WriterOptions
from havasu_vc.writers.rows import ChangeForm, joined, row_objects
from havasu_vc.writers.values import SLICE_ROWS, json_strings

__all__ = ["write_conflicts_json"]

CONFLICTS_KEY = "kart.conflicts/v1"
"""The key of the conflicts."""
_DEPTH = 4
"""How deep one row's conflict stands."""


def write_conflicts_json(
    datasets: Iterable[ConflictedDataset],
    out: TextIO,
    options: WriterOptions,
    summary: int = 0,
) -> int:
    """Print conflicts, or what `summary` asks for; return how many."""
    layout = LAYOUTS[options.json_style]
    if options.flat:
        return _write_flat(datasets, out, options, summary)
    out.write("{" + layout.line(1) + layout.key(CONFLICTS_KEY) + "{")
    total = 0
    for dataset in datasets:
        out.write(layout.between(2) if total else layout.line(2))
        out.write(layout.key(dataset.path))
        if summary:
            out.write(layout.dumps(_summary(dataset, summary), 2))
        else:
            for text in _pieces(dataset, layout, options):
                out.write(text)
        total += conflict_total(dataset)
    out.write((layout.line(1) if total else "") + "}" + layout.line(0) + "}\n")
    return total


def _write_labels(datasets: Iterable[ConflictedDataset], out: TextIO, layout: JsonLayout) -> int:
    """Print the labels of what is in conflict, in one list."""
    labels = [label for dataset in datasets for label in labels_of(dataset)]
    out.write("{" + layout.line(1) + layout.key(CONFLICTS_KEY))
    out.write(layout.dumps(labels or {}, 1) + layout.line(0) + "}\n")
    return len(labels)


def _write_flat(
    datasets: Iterable[ConflictedDataset], out: TextIO, options: WriterOptions, summary: int
) -> int:
    """Print conflicts by their labels, those of all datasets in one object."""
    layout = LAYOUTS[options.json_style]
    if summary == 1:
        return _write_labels(datasets, out, layout)
    out.write("{" + layout.line(1) + layout.key(CONFLICTS_KEY))
    if summary:
        total = sum(map(conflict_total, datasets))
        out.write(layout.dumps(total or {}, 1) + layout.line(0) + "}\n")
        return total
    out.write("{")
    total = 0
    begin = layout.line(2)
    for dataset in datasets:
        total += conflict_total(dataset)
        for text in _versions(dataset, layout, options):
            out.write(begin + text)
            begin = layout.between(2)
    out.write((layout.line(1) if total else "") + "}" + layout.line(0) + "}\n")
    return total


def _versions(
    dataset: ConflictedDataset, layout: JsonLayout, options: WriterOptions
) -> Iterator[str]:
    """Yield each conflict: its versions, one behind the other, by their labels."""
    if dataset.rows is not None:
        form = ChangeForm(layout, 1, reproject=options.reproject)
        for start in range(0, dataset.rows.num_rows, SLICE_ROWS):
            rows = dataset.rows.slice(start, SLICE_ROWS)
            texts = []
            for name, header, side in sides_of(dataset, start, SLICE_ROWS):
                prefix, end = f"{dataset.path}:feature:", f":{name}"
                labels = pc.binary_join_element_wise(prefix, rows.column("label"), end, "")
                keys = json_strings(labels, ascii_only=layout.ascii)
                objects = row_objects(side, header, form)
                text = pc.binary_join_element_wise(keys, layout.colon, objects, "")
                texts.append(pc.if_else(pc.is_valid(side), text, None))
            between = layout.between(2)
            yield from pc.binary_join_element_wise(
                *texts, between, null_handling="skip"
            ).to_pylist()
    for item in dataset.meta:
        for name, value in item.versions.items():
            label = f"{dataset.path}:meta:{item.name}:{name}"
            yield layout.key(label) + layout.dumps(value, 2)


def _summary(dataset: ConflictedDataset, level: int) -> dict[str, Any]:
    if level > 1:
        found: dict[str, Any] = counts_object({dataset.path: counts_of(dataset)})[dataset.path]
        return found
    result: dict[str, Any] = {}
    if dataset.rows is not None:
        labels = dataset.rows.column("label").to_pylist()
        key = dataset.header.schema.key.fields
        whole = len(key) == 1 and is_whole(key[0].type)
        result["feature"] = list(map(int, labels)) if whole else labels
    if dataset.meta:
        result["meta"] = [each.name for each in dataset.meta]
    return result


def _pieces(
    dataset: ConflictedDataset, layout: JsonLayout, options: WriterOptions
) -> Iterator[str]:
    yield "{" + layout.line(3)
    if dataset.rows is not None:
        yield layout.key("feature") + "{"
        separator = layout.between(_DEPTH)
        for start in range(0, dataset.rows.num_rows, SLICE_ROWS):
            objects = _objects(start, dataset, layout, options)
            text = joined(pc.binary_join_element_wise(separator, objects, ""))
            yield text if start else layout.line(_DEPTH) + text[len(separator) :]
        yield layout.line(3) + "}"
    if dataset.meta:
        meta = {each.name: _item(each, dataset.header.kind) for each in dataset.meta}
        between = layout.between(3) if dataset.rows is not None else ""
        yield between + layout.key("meta") + layout.dumps(meta, 3)
    yield layout.line(2) + "}"


def _item(item: MetaConflict, kind: str) -> dict[str, Any]:
    if not item.columns or is_of_kart(kind):
        return dict(item.versions)
    return {**item.versions, "columns": {name: list(each) for name, each in item.columns.items()}}


def _objects(
    first: int, dataset: ConflictedDataset, layout: JsonLayout, options: WriterOptions
) -> pa.StringArray:
    """Return each conflict of a slice with its key."""
    assert dataset.rows is not None
    form = ChangeForm(layout, _DEPTH, reproject=options.reproject)
    versions = []
    for name, header, side in sides_of(dataset, first, SLICE_ROWS):
        text = pc.binary_join_element_wise(layout.key(name), row_objects(side, header, form), "")
        versions.append(pc.if_else(pc.is_valid(side), text, None))
    inside = pc.binary_join_element_wise(
        *versions, layout.between(_DEPTH + 1), null_handling="skip"
    )
    labels = dataset.rows.column("label").slice(first, SLICE_ROWS)
    return pc.binary_join_element_wise(
        json_strings(labels, ascii_only=layout.ascii),
        layout.colon + "{" + layout.line(_DEPTH + 1),
        inside,
        layout.line(_DEPTH) + "}",
        "",
    )
