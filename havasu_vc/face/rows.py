"""A dataset at a revision, and its rows by page, with where they lie on the map.

Where the rows of a dataset lie in a box of the map: as shapes, or many as counts by cell. Which of
them another revision has otherwise, and pictures of one's raster at both.

What a commit changed, or what differs between two revisions, as the page of a review.
"""

from __future__ import annotations

import base64
import html
import io
import re
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from havasu_vc.errors import InvalidArgumentError, RowNotFoundError
from havasu_vc.face.standing import Query, box_in, dataset_in, revision_in, whole_number
from havasu_vc.geo.sketching import RING_PATH
from havasu_vc.library import Repo
from havasu_vc.looking import RowPlaces, extent_of
from havasu_vc.review import (
    ReviewOptions,
    listed_shapes,
    raster_pictures,
    shown_values,
    type_words,
)
from havasu_vc.writers import writer_named
from havasu_vc.writers.values import key_labels

__all__ = ["dataset", "differing", "pictures", "places", "review", "rows"]

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
        "placed": any(each.geometry or each.raster for each in view.schema.fields),
        "columns": [
            {
                "name": field.name,
                "type": type_words(field),
                "key": field.name in keys,
                "geometry": field.geometry is not None,
                "raster": field.raster is not None,
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
    if found.placing.of_rasters:
        return answer | _rectangles(found, box)
    page = repo.read_page(path, revision, count=MOST_SHAPES, box=box)
    rows = pa.StructArray.from_arrays(page.rows.columns, names=page.rows.schema.names)
    if page.view.key:
        answer["keys"] = key_labels(rows, page.view.schema).to_pylist()
    answer["shapes"] = listed_shapes(page.view.header, page.rows)
    return answer


def _rectangles(found: RowPlaces, box: tuple[float, float, float, float]) -> dict[str, Any]:
    """Return where rasters lie, of which no pixel is read."""
    rows = found.within(box)
    west, south, east, north = found.bounds[rows].T
    east = east + 360 * (east < west)
    corners = zip(*(each.tolist() for each in (west, south, east, north)), strict=True)
    shapes = [[[RING_PATH, [w, e, e, w], [s, s, n, n]]] for w, s, e, n in corners]
    keys: list[str] = []
    if found.keys is not None:
        table, names = found.keys.take(pa.array(rows)), found.keys.column_names
        columns = [each.combine_chunks() for each in table.columns]
        named = pa.StructArray.from_arrays(columns, names=names)
        keys = key_labels(named, found.view.schema.select(tuple(names))).to_pylist()
    return {"keys": keys, "shapes": {"kind": "globe", "crs": None, "rows": shapes}}


def differing(repo: Repo, query: Query) -> dict[str, Any]:
    """Return the keys of rows that two revisions have differently, of so many that a map shows."""
    revision, against = revision_in(query), revision_in(query, "against")
    path = dataset_in(repo, query, revision)
    between = "..." if repo.git.follows_kart else ".."
    keys: dict[str, None] = {}
    for diff in repo.diff(f"{revision}{between}{against}", (path,)):
        for batch in diff.changes:
            for header, side in ((diff.old, batch.old_rows()), (diff.new, batch.new_rows())):
                if header is not None and len(side):
                    rows = pa.StructArray.from_arrays(side.columns, names=side.schema.names)
                    keys |= dict.fromkeys(key_labels(rows, header.schema).to_pylist())
            if len(keys) > MOST_SHAPES:
                return {"keys": [], "more": True}
    return {"keys": list(keys), "more": False}


def pictures(repo: Repo, query: Query) -> dict[str, Any]:
    """Return pictures of a row's raster; with another revision those of both, and what differs."""
    revision, against = revision_in(query), query.get("against") and revision_in(query, "against")
    path, key = dataset_in(repo, query, revision), query.get("key", "")
    field = next((each for each in repo.dataset(path, revision).schema.fields if each.raster), None)
    if field is None:
        return {"pictures": []}
    sides: list[pa.Array | None] = []
    for at in (revision, against) if against else (revision,):
        try:
            page = repo.read_page(path, at, count=1, around=key)
        except RowNotFoundError:
            if not against:
                raise
            sides.append(None)
            continue
        known = field.name in page.rows.schema.names
        sides.append(page.rows.column(field.name) if known else None)
    if not any(side is not None for side in sides):
        return {"pictures": []}
    before, after = sides if against else (None, sides[0])
    found = raster_pictures(repo.rasters.open_url)(field, before, after)
    return {
        "pictures": [
            {
                "side": each.side,
                "words": each.words,
                "png": base64.b64encode(each.png).decode("ascii"),
            }
            for each in found
        ]
    }


_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)"')


def review(repo: Repo, query: Query) -> tuple[str, str]:
    """Return the page, and the content security policy that it has."""
    out = io.StringIO()
    write = writer_named("html")
    if query.get("work"):
        options = ReviewOptions(more="havasu-vc diff", home="/#/work")
        write(repo.workspace.diff(), out, options)
        return _with_policy(out.getvalue())
    if query.get("commit"):
        commit = repo.commit_info(revision_in(query, "commit")).id
        revisions = f"{commit}^?..{commit}"
    else:
        revisions = f"{revision_in(query, 'base')}...{revision_in(query, 'head')}"
    home = "/#/history" if query.get("commit") else "/"
    write((), out, replace(repo.review_options(revisions), home=home))
    return _with_policy(out.getvalue())


def _with_policy(text: str) -> tuple[str, str]:
    policy = _POLICY.search(text)
    if policy is None:
        raise InvalidArgumentError("the page of the review has no policy")
    return text, html.unescape(policy[1]) + "; frame-ancestors 'none'"
