"""Edits of a table that is measured: patches in Kart's form, or rows to upsert.

No row is edited twice, so each patch fits the table whatever patches came before, and
the row before an edit is the one in the source. All are made from one seed.

    python -m tests.bench.edits patches TABLE FOLDER COUNT ROWS
    python -m tests.bench.edits rows TABLE FOLDER COUNT ROWS [GROUPS]
    python -m tests.bench.edits version TABLE FILE ROWS
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

DATASET = "table"
GROUP = 1 << 16
"""Rows of a row group as havasu-vc writes them."""
_HEADER = {
    "authorName": "Bench",
    "authorEmail": "bench@example.org",
    "authorTime": "2026-01-01T00:00:00Z",
    "authorTimeOffset": "+00:00",
    "base": None,
}


def chosen_rows(total: int, count: int, groups: int | None = None) -> npt.NDArray[np.int64]:
    """Return the numbers of different rows at random, perhaps from a few row groups alone."""
    random = np.random.default_rng(7)
    if groups is None:
        return random.choice(total, count, replace=False)
    whole = max(total // GROUP, 1)
    starts = random.choice(whole, min(groups, whole), replace=False) * GROUP
    size = min(GROUP, total)
    inside = random.choice(size * len(starts), count, replace=False)
    return starts[inside // size] + inside % size


def edited_rows(path: Path, rows: npt.NDArray[np.int64]) -> tuple[pa.Table, pa.Table]:
    """Return rows of a table as they are and as edited, in the order asked for."""
    file = pq.ParquetFile(path)
    order = np.argsort(rows, kind="stable")
    wanted, parts, start = rows[order], [], 0
    for group in range(file.num_row_groups):
        end = start + file.metadata.row_group(group).num_rows
        low, high = np.searchsorted(wanted, [start, end])
        if high > low:
            parts.append(file.read_row_group(group).take(pa.array(wanted[low:high] - start)))
        start = end
    old = pa.concat_tables(parts).take(pa.array(np.argsort(order)))
    return old, edited(old)


def edited(table: pa.Table) -> pa.Table:
    """Return rows with another name and height."""
    names = pc.binary_join_element_wise("edited ", table.column("name"), "")
    table = table.set_column(table.schema.get_field_index("name"), "name", names)
    heights = pc.add(table.column("height"), 1.5)
    return table.set_column(table.schema.get_field_index("height"), "height", heights)


def write_patches(table: Path, folder: Path, count: int, rows: int) -> None:
    """Write patches of updates."""
    total = pq.read_metadata(table).num_rows
    old, new = edited_rows(table, chosen_rows(total, count * rows))
    for number, (before, after) in enumerate(_parts(old, new, rows)):
        features = [
            {"-": was, "+": now}
            for was, now in zip(_features(before), _features(after), strict=True)
        ]
        patch = {
            "kart.patch/v1": {**_HEADER, "message": f"Edit {rows} rows ({number})"},
            "kart.diff/v1+hexwkb": {DATASET: {"feature": features}},
        }
        (folder / f"patch-{number:04}.json").write_text(json.dumps(patch))


def _features(table: pa.Table) -> Iterator[dict[str, Any]]:
    for row in table.to_pylist():
        row["ts"] = row["ts"].isoformat()
        row["geom"] = row["geom"].hex().upper()
        yield row


def _parts(old: pa.Table, new: pa.Table, rows: int) -> Iterator[tuple[pa.Table, pa.Table]]:
    for start in range(0, old.num_rows, rows):
        yield old.slice(start, rows), new.slice(start, rows)


def write_rows(table: Path, folder: Path, count: int, rows: int, groups: int | None) -> None:
    """Write rows to upsert as Arrow files."""
    total = pq.read_metadata(table).num_rows
    old, new = edited_rows(table, chosen_rows(total, count * rows, groups))
    for number, (_, after) in enumerate(_parts(old, new, rows)):
        with pa.ipc.new_file(folder / f"rows-{number:04}.arrow", after.schema) as writer:
            writer.write_table(after.combine_chunks())


def write_version(table: Path, out: Path, rows: int) -> None:
    """Write the table once more with some rows edited, as the next release of it."""
    file = pq.ParquetFile(table)
    wanted = np.sort(chosen_rows(file.metadata.num_rows, rows))
    start = 0
    with pq.ParquetWriter(out, file.schema_arrow, compression="zstd") as writer:
        for group in range(file.num_row_groups):
            part = file.read_row_group(group)
            mask = np.zeros(part.num_rows, bool)
            low, high = np.searchsorted(wanted, [start, start + part.num_rows])
            mask[wanted[low:high] - start] = True
            start += part.num_rows
            changed = edited(part)
            for name in ("name", "height"):
                column = pc.if_else(pa.array(mask), changed.column(name), part.column(name))
                part = part.set_column(part.schema.get_field_index(name), name, column)
            writer.write_table(part, row_group_size=part.num_rows)


def main(arguments: list[str]) -> None:
    """Write one set of edits."""
    what, table, out = arguments[0], Path(arguments[1]), Path(arguments[2])
    numbers = [int(text) for text in arguments[3:]]
    unfinished = out.with_name(f"unfinished-{out.name}")
    if what == "version":
        write_version(table, unfinished, numbers[0])
    else:
        unfinished.mkdir(parents=True, exist_ok=True)
        if what == "patches":
            write_patches(table, unfinished, numbers[0], numbers[1])
        else:
            groups = numbers[2] if len(numbers) > 2 else None
            write_rows(table, unfinished, numbers[0], numbers[1], groups)
    unfinished.rename(out)


if __name__ == "__main__":
    main(sys.argv[1:])
