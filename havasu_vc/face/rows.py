"""A dataset at a revision, and its rows by page, with where they lie on the map."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from havasu_vc.face.queries import Query, box_in, dataset_in, revision_in, whole_number
from havasu_vc.library import Repo
from havasu_vc.looking import extent_of
from havasu_vc.review import listed_shapes, shown_values, type_words
from havasu_vc.writers.values import key_labels

__all__ = ["dataset", "rows"]

MOST_ROWS = 500
LONGEST = 2_000
"""Characters of a value that are sent."""


def dataset(repo: Repo, query: Query) -> dict[str, Any]:
    """Return what a dataset is, at a revision."""
    revision = revision_in(query)
    path = dataset_in(repo, query, revision)
    view = repo.dataset(path, revision)
    bounds = extent_of(view)
    keys = set(view.key.names)
    return {
        "path": path,
        "commit": repo.resolve(revision).commit,
        "kind": view.kind,
        "title": view.header.meta.get("title"),
        "description": view.header.meta.get("description"),
        "rows": view.rows,
        "size": view.size,
        "columns": [
            {
                "name": field.name,
                "type": type_words(field),
                "key": field.name in keys,
                "geometry": field.geometry is not None,
            }
            for field in view.schema.fields
        ],
        "extent": None
        if bounds is None
        else [bounds.west, bounds.south, bounds.east, bounds.north],
    }


def rows(repo: Repo, query: Query) -> dict[str, Any]:
    """Return rows that follow each other: texts by column, names of rows, shapes."""
    revision = revision_in(query)
    path = dataset_in(repo, query, revision)
    page = repo.read_page(
        path,
        revision,
        start=whole_number(query, "start", 0, 1 << 40),
        count=whole_number(query, "count", 100, MOST_ROWS),
        around=query.get("key") or None,
        box=box_in(query),
    )
    view, found = page.view, page.rows
    schema = view.schema
    texts = {}
    for field in schema.fields:
        shown = shown_values(found.column(field.name), field)
        texts[field.name] = pc.utf8_slice_codeunits(shown, 0, LONGEST).to_pylist()
    struct = pa.StructArray.from_arrays(found.columns, names=found.schema.names)
    return {
        "start": page.start,
        "total": page.total,
        "inKeyOrder": page.in_key_order,
        "keys": key_labels(struct, schema).to_pylist() if view.key else None,
        "cells": texts,
        "shapes": listed_shapes(view.header, found),
    }
