"""Decisions that a merge left open: each cell in conflict, in the ancestor and on both sides."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from havasu_vc.face.overview import merge_value
from havasu_vc.face.standing import Query, standing
from havasu_vc.library import Repo
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.diffs import ConflictedDataset
from havasu_vc.model.types import Field
from havasu_vc.review import listed_shapes, shown_values
from havasu_vc.writers.values import equal_cells, side_columns

__all__ = ["conflicts"]

MOST_ROWS = 200
"""Rows of a dataset that are listed; when they are answered, others follow."""
LONGEST = 300
SIDES = ("ancestor", "ours", "theirs")


def conflicts(repo: Repo, _: Query) -> dict[str, Any]:
    """Return the conflicts that wait."""
    status = repo.status()
    if status.waiting is None:
        return {"merge": None, "sides": None, "datasets": []}
    context = status.waiting.context
    names = {"ours": context.ours, "theirs": context.theirs}
    return {
        "merge": merge_value(repo),
        "sides": {side: each.branch or each.commit[:7] for side, each in names.items()},
        "datasets": [_dataset(each) for each in repo.view_conflicts()],
        "seen": {name: standing(repo, {})[name] for name in ("head", "merge")},
    }


def _dataset(found: ConflictedDataset) -> dict[str, Any]:
    rows = found.rows
    listed = [] if rows is None else _rows(found, rows.slice(0, MOST_ROWS))
    return {
        "map": None if rows is None else _placed(found, rows.slice(0, MOST_ROWS), listed),
        "dataset": found.path,
        "meta": [
            {"name": each.name, **{side: _shown(each.versions.get(side)) for side in SIDES}}
            for each in found.meta
        ],
        "count": 0 if rows is None else rows.num_rows,
        "listed": listed,
    }


def _placed(
    found: ConflictedDataset, rows: pa.RecordBatch, listed: list[dict[str, Any]]
) -> str | None:
    """Add the shapes of each side to rows, and return what kind of places they are."""
    schema, kind = found.header.schema, None
    for side in SIDES:
        columns = [column for _, column in side_columns(rows.column(side), schema)]
        batch = pa.RecordBatch.from_arrays(columns, schema=arrow_schema(schema))
        shapes = listed_shapes(found.header, batch)
        if shapes is None:
            return None
        kind = shapes["kind"]
        for row, paths in zip(listed, shapes["rows"], strict=True):
            row.setdefault("shapes", {})[side] = paths
    return kind


def _shown(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value if value is None else value[:LONGEST]
    return json.dumps(value, ensure_ascii=False)[:LONGEST]


def _rows(found: ConflictedDataset, rows: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return rows with those cells that both sides changed, each in its own way."""
    schema = found.header.schema
    structs = {side: rows.column(side) for side in SIDES}
    there = {side: struct.is_valid().to_pylist() for side, struct in structs.items()}
    listed: list[dict[str, Any]] = [
        {"key": key, "there": {side: there[side][i] for side in SIDES}, "cells": []}
        for i, key in enumerate(rows.column("label").to_pylist())
    ]
    columns = {side: dict(_by_id(struct, schema)) for side, struct in structs.items()}
    for field in schema.fields:
        of = {side: (field, columns[side][field.id]) for side in SIDES}
        texts = {side: shown_values(column, field).to_pylist() for side, (_, column) in of.items()}
        alike = [
            equal_cells(of[one], of[other]).to_pylist()
            for one, other in (("ours", "theirs"), ("ancestor", "ours"), ("ancestor", "theirs"))
        ]
        for i, row in enumerate(listed):
            if not row["there"]["ours"] or not row["there"]["theirs"]:
                continue
            both = row["there"]["ancestor"]
            if alike[0][i] or (both and (alike[1][i] or alike[2][i])):
                continue
            cut = {s: None if t[i] is None else t[i][:LONGEST] for s, t in texts.items()}
            row["cells"].append({"name": field.name, **cut})
    return listed


def _by_id(struct: pa.StructArray, schema: Any) -> list[tuple[int, pa.Array]]:
    pairs: list[tuple[Field, pa.Array]] = side_columns(struct, schema)
    return [(field.id, column) for field, column in pairs]
