"""Rows in conflict as GeoJSON: a feature for each version of each row.

A feature's id is `<dataset>:feature:<key>:` and its version. Meta items have no place
here, but a collection of a Havasu dataset says which columns are in conflict, in a member
`columns` as in JSON. There is one collection per dataset, in a file each where there are
several.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

import pyarrow as pa

from havasu_vc.datasets.kinds import is_of_kart
from havasu_vc.errors import InvalidArgumentError, StorageError
from havasu_vc.model import compute as pc
from havasu_vc.model.diffs import ConflictedDataset
from havasu_vc.writers.conflicts import conflict_total, sides_of
from havasu_vc.writers.geojson import COLLECTION_DEPTH, side_features
from havasu_vc.writers.json_style import STRICT_LAYOUTS, JsonLayout
from havasu_vc.writers.protocol import WriterOptions
from havasu_vc.writers.rows import joined
from havasu_vc.writers.values import SLICE_ROWS

__all__ = ["write_conflicts_geojson"]


def write_conflicts_geojson(
    datasets: Iterable[ConflictedDataset],
    out: TextIO,
    options: WriterOptions,
    summary: int = 0,
) -> int:
    """Print one collection, or write one per dataset into `options.directory`."""
    if summary:
        raise InvalidArgumentError("GeoJSON has no summary", hints=("use -o json or -o text",))
    found = list(datasets)
    spatial = [each for each in found if each.rows is not None or _columns(each)]
    if options.directory is None:
        if len(spatial) > 1:
            raise InvalidArgumentError(
                f"GeoJSON holds one dataset, and rows of {spatial[0].path!r} and"
                f" {spatial[1].path!r} are in conflict",
                hints=("write a file for each with --output DIRECTORY, or name one dataset",),
            )
        if spatial or not options.as_kart:  # Kart prints a collection of what there is alone
            _write_collection(spatial[0] if spatial else None, out, options)
    else:
        for each in spatial:
            _write_file(each, options.directory, options)
    return sum(map(conflict_total, found))


def _columns(dataset: ConflictedDataset) -> dict[str, list[str]]:
    """Return what is in conflict in each column; Kart has no place for that."""
    if is_of_kart(dataset.header.kind):
        return {}
    return {name: list(kinds) for item in dataset.meta for name, kinds in item.columns.items()}


def _write_file(dataset: ConflictedDataset, directory: Path, options: WriterOptions) -> None:
    path = directory / f"{dataset.path.replace('/', '__')}.geojson"
    try:
        directory.mkdir(exist_ok=True)
        with path.open("w", encoding="utf-8") as out:
            _write_collection(dataset, out, options)
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error


def _write_collection(
    dataset: ConflictedDataset | None, out: TextIO, options: WriterOptions
) -> None:
    layout = STRICT_LAYOUTS[options.json_style]
    out.write("{" + layout.line(1) + layout.key("type") + '"FeatureCollection"')
    if dataset is not None and (columns := _columns(dataset)):
        out.write(layout.between(1) + layout.key("columns") + layout.dumps(columns, 1))
    out.write(layout.between(1) + layout.key("features") + "[")
    separator = layout.between(COLLECTION_DEPTH)
    begun = False
    for text in _pieces(dataset, separator, layout, options) if dataset is not None else ():
        out.write(text if begun else layout.line(COLLECTION_DEPTH) + text[len(separator) :])
        begun = True
    out.write((layout.line(1) if begun else "") + "]" + layout.line(0) + "}\n")


def _pieces(
    dataset: ConflictedDataset, separator: str, layout: JsonLayout, options: WriterOptions
) -> Iterator[str]:
    if dataset.rows is None:
        return
    for start in range(0, dataset.rows.num_rows, SLICE_ROWS):
        yield joined(_features(start, dataset, separator, layout, options))


def _features(
    first: int,
    dataset: ConflictedDataset,
    separator: str,
    layout: JsonLayout,
    options: WriterOptions,
) -> pa.StringArray:
    assert dataset.rows is not None
    labels = dataset.rows.column("label").slice(first, SLICE_ROWS)
    versions = []
    for name, header, side in sides_of(dataset, first, SLICE_ROWS):
        ids = pc.binary_join_element_wise(f"{dataset.path}:feature:", labels, f":{name}", "")
        features = side_features(side, header, ids, layout, options)
        text = pc.binary_join_element_wise(separator, features, "")
        versions.append(pc.if_else(pc.is_valid(side), text, None))
    return pc.binary_join_element_wise(*versions, "", null_handling="replace", null_replacement="")
