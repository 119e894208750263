"""A diff as one JSON object in Kart's form: `kart.diff/v1+hexwkb`.

    {"kart.show/v1": {…},                                   the commit, for `show`
     "kart.diff/v1+hexwkb": {
       "<dataset>": {"meta": {"<item>": {"-": …, "+": …}},
                     "feature": [{"-": {…}, "+": {…}}, …]}}}

Where only that is asked, `"data_changes": true` or `false` stands in the place of the features.

A patch is the same with `kart.patch/v1` in front; inserts and deletes are labelled
`++` and `--` in it, so that it cannot be misread, and geometries keep their SRIDs.
Datasets come in the order given, and so do meta items (producers sort both by
name); all is printed as it comes, so the output is never held as a whole.

A diff as JSON lines in Kart's form, `kart.diff/v2`: one message per line.

    version       first
    commit        the commit, for `show`
    dataset       a dataset that is added (`+`) or removed (`-`)
    datasetInfo   any other dataset that has changes
    metaInfo      its schema, where that did not change
    dataChanges   whether rows of it changed, where only that is asked
    meta          a meta item that changed
    feature       a row that changed
    featureCountEstimate   the numbers of rows by dataset, last, if asked for

Readers of JSON lines take JSON at its word, so NaN and infinity are null here, as
in Kart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TextIO

from havasu_vc.datasets.kinds import is_of_kart, told_kind
from havasu_vc.model import compute as pc
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.columns import columns_of
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.diffs import DatasetDiff, FileChange, MetaChange, count_meta
from havasu_vc.writers.commits import commit_object, patch_header
from havasu_vc.writers.files import FILES_KEY, file_object, is_binary
from havasu_vc.writers.json_style import LAYOUTS, LINES, PATCH_LAYOUTS
from havasu_vc.writers.protocol import (
    ChangeSummary,
    DatasetSummary,
    WriterOptions,
)
from havasu_vc.writers.rows import ChangeForm, change_objects, joined, nonempty
from havasu_vc.writers.values import slices

__all__ = ["DIFF_KEY", "meta_object", "write_json", "write_json_lines", "write_patch"]

DIFF_KEY = "kart.diff/v1+hexwkb"
"""The key of the diff itself."""


def write_json(diffs: Iterable[DatasetDiff], out: TextIO, options: WriterOptions) -> ChangeSummary:
    """Print a diff, after its commit if there is one."""
    layout = LAYOUTS[options.json_style]
    header = {}
    if options.commit is not None:
        header["kart.show/v1"] = commit_object(options.commit)
    form = ChangeForm(
        layout,
        4,
        names_halves=options.delta_filter is not None,
        only=options.delta_filter,
        reproject=options.reproject,
    )
    if options.header_alone:
        return _write_header(diffs, out, form, header)
    files = {change.path: _halves(change, form) for change in options.files}
    rows, names_hidden = not options.data_changes, options.as_kart
    return _write(diffs, out, form, header, files, rows=rows, names_hidden=names_hidden)


def write_patch(diffs: Iterable[DatasetDiff], out: TextIO, options: WriterOptions) -> ChangeSummary:
    """Print the diff of a commit as a patch that `apply` takes.

    In a patch with another CRS updates have no old half: its geometries would not
    come back the same.
    """
    header = {}
    if options.commit is not None:
        header["kart.patch/v1"] = patch_header(options.commit, options.crs_name)
    form = ChangeForm(
        PATCH_LAYOUTS[options.json_style],
        4,
        names_halves=True,
        reproject=options.reproject,
        new_half_only=options.reproject is not None,
    )
    if options.header_alone:
        return _write_header(diffs, out, form, header)
    files = {change.path: file_object(change, patch=True) for change in options.files}
    rows = not options.data_changes
    hidden = options.as_kart
    return _write(
        diffs, out, form, header, files, labelled_meta=False, rows=rows, names_hidden=hidden
    )


def _write_header(
    diffs: Iterable[DatasetDiff], out: TextIO, form: ChangeForm, header: dict[str, Any]
) -> ChangeSummary:
    for _ in diffs:
        pass  # the exit code is still told by them
    out.write(form.layout.dumps(header, 0) + "\n")
    return ChangeSummary()


def _write(
    diffs: Iterable[DatasetDiff],
    out: TextIO,
    form: ChangeForm,
    header: dict[str, Any],
    files: Mapping[str, Mapping[str, Any]],
    *,
    labelled_meta: bool = True,
    rows: bool = True,
    names_hidden: bool = False,
) -> ChangeSummary:
    layout = form.layout
    out.write("{" + layout.line(1))
    for key, value in header.items():
        out.write(layout.key(key) + layout.dumps(value, 1) + layout.between(1))
    out.write(layout.key(DIFF_KEY) + "{")
    datasets: dict[str, DatasetSummary] = {}
    for diff in diffs:
        batches = nonempty(diff)
        first = next(batches, None)
        hidden = names_hidden and diff.left_out.total > 0
        # Kart says of each of its datasets whether rows changed.
        named = not rows and is_of_kart(diff.header.kind)
        if first is None and not diff.meta and not hidden and not named:
            continue
        out.write(layout.between(2) if datasets else layout.line(2))
        out.write(layout.key(diff.path) + "{" + layout.line(3))
        if diff.meta:
            out.write(layout.key("meta"))
            meta = {
                change.name: meta_object(change, form if labelled_meta else None)
                for change in diff.meta
            }
            out.write(layout.dumps(meta, 3))
        features = ChangeCounts()
        if not rows:
            features = ChangeCounts() if first is None else first.counts
            told = layout.key("data_changes") + layout.dumps(first is not None or hidden, 3)
            out.write((layout.between(3) if diff.meta else "") + told)
        elif first is not None:
            out.write((layout.between(3) if diff.meta else "") + layout.key("feature"))
            features = _write_features(diff, _chain(first, batches), out, form)
        elif hidden:
            out.write((layout.between(3) if diff.meta else "") + layout.key("feature") + "[]")
        out.write(layout.line(2) + "}")
        datasets[diff.path] = DatasetSummary(count_meta(diff.meta), features)
    if files:
        out.write(layout.between(2) if datasets else layout.line(2))
        out.write(layout.key(FILES_KEY) + layout.dumps(files, 2))
    out.write((layout.line(1) if datasets or files else "") + "}" + layout.line(0) + "}\n")
    return ChangeSummary(datasets)


def _chain(first: ChangeBatch, others: Iterator[ChangeBatch]) -> Iterator[ChangeBatch]:
    yield first
    yield from others


def _write_features(
    diff: DatasetDiff, batches: Iterator[ChangeBatch], out: TextIO, form: ChangeForm
) -> ChangeCounts:
    layout, counts = form.layout, ChangeCounts()
    separator = layout.between(form.depth)
    out.write("[" + layout.line(form.depth))
    for batch in batches:
        for piece in slices(batch):
            objects = change_objects(piece, diff, form)
            text = joined(pc.binary_join_element_wise(separator, objects, ""))
            out.write(text if counts.total else text[len(separator) :])
            counts += piece.counts
    out.write(layout.line(form.depth - 1) + "]")
    return counts


def meta_object(change: MetaChange, form: ChangeForm | None = None) -> dict[str, Any]:
    """Return the change of a meta item as an object; labelled as `form` says."""
    old, new = change.old, change.new
    named = form is not None and form.names_halves
    alone = named and (old is None or new is None)
    result: dict[str, Any] = {}
    for label, value in (("-", old), ("+", new)):
        if value is not None:
            key = label * 2 if alone else label
            hidden = form is not None and form.only is not None and key not in form.only
            result[key] = None if hidden else value
    return result


def _halves(change: FileChange, form: ChangeForm) -> dict[str, Any]:
    """Return the change of a file as an object, labelled as those of meta items are."""
    sides = file_object(change)
    return meta_object(MetaChange(change.path, sides.get("-"), sides.get("+")), form)


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
        names_halves=options.delta_filter is not None,
        only=options.delta_filter,
        reproject=options.reproject,
    )
    datasets = {}
    for diff in diffs:
        summary = _write_dataset(diff, out, form, rows=not options.data_changes)
        if summary.has_changes:
            datasets[diff.path] = summary
    for change in options.files:
        told = {} if change.contents is None else {"binary": is_binary(change)}
        _line(out, type="file", path=change.path, **told, change=file_object(change))
    if options.counts_at_end is not None:
        totals = {path: summary.features.total for path, summary in datasets.items()}
        counts = {path: total for path, total in totals.items() if total}
        accuracy = options.counts_at_end
        _line(out, type="featureCountEstimate", accuracy=accuracy, datasets=counts)
    return ChangeSummary(datasets)


def _write_dataset(
    diff: DatasetDiff, out: TextIO, form: ChangeForm, *, rows: bool
) -> DatasetSummary:
    features = ChangeCounts()
    begun = bool(diff.meta) or is_of_kart(diff.header.kind)  # Kart names all of its own
    if begun:
        _write_head(diff, out)
    if not rows:
        first = next(nonempty(diff), None)
        _line(out, type="dataChanges", dataset=diff.path, value=first is not None)
        counts = ChangeCounts() if first is None else first.counts
        return DatasetSummary(count_meta(diff.meta), counts)
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
    kind = told_kind(diff.header.kind, diff.header.version)
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
