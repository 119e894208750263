"""A diff as JSON lines in Kart's form, `kart.diff/v2`: one message per line.

    version       first
    commit        the commit, for `show`
    dataset       a dataset that is added (`+`) or removed (`-`)
    datasetInfo   any other dataset that has changes
    metaInfo      its schema, where that did not change
    meta          a meta item that changed
    feature       a row that changed

Readers of JSON lines take JSON at its word, so NaN and infinity are null here, as
in Kart.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TextIO

from havasu_vc.datasets.kinds import is_of_kart, kind_named
from havasu_vc.model import kernels as pc
from havasu_vc.model.columns import columns_of
from havasu_vc.model.diffs import ChangeCounts, DatasetDiff, count_meta
from havasu_vc.writers.commits import commit_object
from havasu_vc.writers.files import file_object, is_binary
from havasu_vc.writers.json import meta_object
from havasu_vc.writers.json_style import LINES
from havasu_vc.writers.protocol import (
    ChangeSummary,
    DatasetSummary,
    WriterOptions,
)
from havasu_vc.writers.rows import ChangeForm, change_objects, joined, nonempty
from havasu_vc.writers.values import slices

__all__ = ["write_json_lines"]

_SCHEMA = "schema.json"


def write_json_lines(
    diffs: Iterable[DatasetDiff], out: TextIO, options: WriterOptions
) -> ChangeSummary:
    """Print a diff message by message."""
    _line(out, type="version", version="kart.diff/v2", outputFormat="JSONL+hexwkb")
    if options.commit is not None:
        _line(out, type="commit", value=commit_object(options.commit))
    form = ChangeForm(
        LINES,
        0,
        labelled=options.delta_filter is not None,
        only=options.delta_filter,
        reproject=options.reproject,
    )
    datasets = {}
    for diff in diffs:
        summary = _write_dataset(diff, out, form)
        if summary.has_changes:
            datasets[diff.path] = summary
    for change in options.files:
        told = {} if change.contents is None else {"binary": is_binary(change)}
        _line(out, type="file", path=change.path, **told, change=file_object(change))
    return ChangeSummary(datasets)


def _write_dataset(diff: DatasetDiff, out: TextIO, form: ChangeForm) -> DatasetSummary:
    features = ChangeCounts()
    begun = bool(diff.meta) or is_of_kart(diff.header.kind)  # Kart names all of its own
    if begun:
        _write_head(diff, out)
    start = LINES.dumps({"type": "feature", "dataset": diff.path})[:-1] + ',"change":'
    for batch in nonempty(diff):
        if not begun:
            _write_head(diff, out)
            begun = True
        for piece in slices(batch):
            objects = change_objects(piece, diff, form)
            out.write(joined(pc.binary_join_element_wise(start, objects, "}\n", "")))
        features += batch.counts
    return DatasetSummary(count_meta(diff.meta), features)


def _write_head(diff: DatasetDiff, out: TextIO) -> None:
    kind = kind_named(diff.header.kind).told
    whole = any(change.name == _SCHEMA for change in diff.meta)
    if is_of_kart(diff.header.kind) and not whole:  # a filter left its coming or going out
        _line(out, type="datasetInfo", path=diff.path, value=kind)
    elif diff.old is None:
        _line(out, type="dataset", path=diff.path, **{"+": kind})
    elif diff.new is None:
        _line(out, type="dataset", path=diff.path, **{"-": kind})
    else:
        _line(out, type="datasetInfo", path=diff.path, value=kind)
    if not whole:
        columns = diff.header.meta.get(_SCHEMA) or columns_of(diff.header.schema)
        _line(out, type="metaInfo", dataset=diff.path, key=_SCHEMA, value=columns)
    for change in diff.meta:
        _line(out, type="meta", dataset=diff.path, key=change.name, change=meta_object(change))


def _line(out: TextIO, **message: Any) -> None:
    out.write(LINES.dumps(message) + "\n")
