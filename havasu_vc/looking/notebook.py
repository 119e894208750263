"""A table and the commits of a log as notebooks show them: the first of many, and how many.

What a cell shows costs the same for a table of any size: a few rows of its first files, and a
map of these.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from havasu_vc.datasets.protocol import Dataset
from havasu_vc.engine.settings import Settings
from havasu_vc.errors import CrsError, GeometryError
from havasu_vc.geo.sketching import UNREADABLE, geometry_labels
from havasu_vc.looking.reproject import reprojection
from havasu_vc.model import compute as pc
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.commits import CommitInfo, moment_of
from havasu_vc.model.types import Field
from havasu_vc.writers.notebook import MapLayer, map_picture, shown, shown_note, shown_table
from havasu_vc.writers.text import shown_text
from havasu_vc.writers.values import canonical_wkb

__all__ = ["MAP_COLOUR", "commit_html", "commits_html", "table_html"]

ROWS = 10
"""Rows of a table that are shown."""
MAPPED = 500
"""Rows of a table that are drawn."""
MESSAGE = 40
"""Lines of a message that are shown."""
COLUMNS = 16
"""Columns that are shown."""
MAP_COLOUR = "#0072b2"
_MAP_CRS = "OGC:CRS84"


def table_html(dataset: Dataset, settings: Settings) -> str:
    """Return a dataset as HTML: its size, its first rows, and where they lie."""
    rows, schema = _first_rows(dataset, settings), dataset.schema
    fields = schema.fields[:COLUMNS]
    few = rows.slice(0, ROWS)
    texts = [_texts(few.column(field.name), field) for field in fields]
    at = f" at {shown(dataset.revision)}" if dataset.revision else ""
    parts = [
        f"<div><b>{shown(dataset.path)}</b>{at}: {dataset.rows:,} rows, "
        f"{len(schema.fields):,} columns{_key(dataset)}</div>",
        shown_table([field.name for field in fields], zip(*texts, strict=True)),
    ]
    hidden = [
        _more(dataset.rows - len(few), "row"),
        _more(len(schema.fields) - len(fields), "column"),
    ]
    if any(hidden):
        parts.append(shown_note(f"and {' and '.join(filter(None, hidden))}"))
    return f"<div>{''.join(parts)}{_map(dataset, rows)}</div>"


def _first_rows(dataset: Dataset, settings: Settings) -> pa.RecordBatch:
    """Return the rows of the first files, as many as a map draws; later files stay unread."""
    parts, wanted = [], MAPPED
    with settings.open_engine(0) as engine:
        for task in dataset.scan():
            for batch in engine.run([task]):
                parts.append(batch.slice(0, wanted))
                wanted -= len(parts[-1])
                if not wanted:
                    break
            if not wanted:
                break
    found = pa.Table.from_batches(parts, arrow_schema(dataset.schema)).combine_chunks()
    batches = found.to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=found.schema)


def _texts(column: pa.Array, field: Field) -> list[str | None]:
    if field.geometry is None:
        texts = shown_text(column, field)
    else:
        try:
            texts = geometry_labels(canonical_wkb(column, field))
        except GeometryError:
            texts = pc.if_else(column.is_valid(), UNREADABLE, None)
    found: list[str | None] = texts.to_pylist()
    return found


def _key(dataset: Dataset) -> str:
    names = dataset.key.names
    return f", by {', '.join(map(shown, names))}" if names else ", without a key"


def _more(count: int, noun: str) -> str:
    return f"{count:,} more {noun}{'' if count == 1 else 's'}" if count > 0 else ""


def _map(dataset: Dataset, rows: pa.RecordBatch) -> str:
    """Return a map of rows by their first geometry, in degrees where its system is known."""
    field = next(iter(dataset.schema.geometries), None)
    if field is None or not len(rows):
        return ""
    column, globe = rows.column(field.name), True
    try:
        try:
            column = reprojection(_MAP_CRS)[1](column, field, dataset.header)
        except CrsError:
            globe = False
        shapes = canonical_wkb(column, field).drop_null().to_pylist()
    except GeometryError:
        return ""
    which = "all rows" if len(rows) == dataset.rows else f"the first {len(rows):,} rows"
    layer = MapLayer(f"{field.name}, {which}", MAP_COLOUR, shapes)
    return map_picture([layer], f"A map of {field.name} of {which}", globe=globe)


def commits_html(commits: Sequence[CommitInfo], *, more: bool) -> str:
    """Return commits as HTML; `more` says that others follow."""
    rows = [
        (each.id[:10], _day(each), each.author_name, each.message.partition("\n")[0], _refs(each))
        for each in commits
    ]
    table = shown_table(["commit", "date", "author", "message", "refs"], rows)
    note = shown_note(f"the newest {len(rows)}; older ones follow") if more else ""
    return f"<div>{table}{note}</div>"


def commit_html(commit: CommitInfo) -> str:
    """Return a commit as HTML: who made it, when, and the whole message."""
    refs = f" ({shown(_refs(commit))})" if commit.refs else ""
    subject, _, body = commit.message.partition("\n")
    lines = [f"<div>{shown(line, 400)}</div>" for line in body.strip().splitlines()[:MESSAGE]]
    return (
        f"<div><div><b>{shown(subject, 400)}</b></div>"
        f"<div>commit {shown(commit.id[:10])}{refs} by {shown(commit.author_name)} "
        f"on {_day(commit)}</div>{''.join(lines)}</div>"
    )


def _day(commit: CommitInfo) -> str:
    return f"{moment_of(commit.author_time, commit.author_offset):%Y-%m-%d}"


def _refs(commit: CommitInfo) -> str:
    return ", ".join(commit.refs)
