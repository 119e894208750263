"""Where the rows of a dataset lie in a box of the map: as shapes, or many as counts by cell."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from havasu_vc.face.queries import Query, box_in, dataset_in, revision_in, whole_number
from havasu_vc.library import Repo
from havasu_vc.review import listed_shapes
from havasu_vc.writers.values import key_labels

__all__ = ["places"]

MOST_SHAPES = 1000
CELLS = (72, 48)
"""Columns and rows of the cells that count rows where there are more."""


def places(repo: Repo, query: Query) -> dict[str, Any]:
    """Return the rows that a box touches, of all where none is named."""
    revision = revision_in(query)
    path = dataset_in(repo, query, revision)
    found = repo.row_places(path, revision)
    known = found.bounds[~(found.bounds != found.bounds).any(axis=1)]
    answer: dict[str, Any] = {
        "kind": "globe" if found.placing.globe else "own",
        "total": 0,
        "keys": [],
        "shapes": None,
        "cells": [],
        "grid": list(CELLS),
        "box": None,
    }
    if not len(known):
        return answer
    least, most = known[:, :2].min(axis=0), known[:, 2:].max(axis=0)
    box = box_in(query) or (float(least[0]), float(least[1]), float(most[0]), float(most[1]))
    answer["box"] = list(box)
    answer["total"] = total = len(found.within(box))
    if total > whole_number(query, "count", MOST_SHAPES, MOST_SHAPES):
        answer["cells"] = found.counted(box, *CELLS)
        return answer
    page = repo.read_page(path, revision, count=MOST_SHAPES, box=box)
    rows = pa.StructArray.from_arrays(page.rows.columns, names=page.rows.schema.names)
    if page.view.key:
        answer["keys"] = key_labels(rows, page.view.schema).to_pylist()
    answer["shapes"] = listed_shapes(page.view.header, page.rows)
    return answer
