"""The files of a large table, remembered as columns.

A table of many files has as many deltas, and parsing them all costs more than whatever is
asked of a few. So where they are many, what was found in a tree is kept as columns, one row for
each file, and the columns of the next tree are made from these and from what differs in git:

    <data folder>/standing/<hash of table-uuid>.<tree of files>   sha256, an Arrow file

A record is only made of a tree that is sound (`soundness`), and is derived: without it everything
is read again, no more.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.errors import HavasuError
from havasu_vc.formats.havasu.deltas import ChangedDelta, Delta
from havasu_vc.formats.havasu.entry import Content, Entry, Origin
from havasu_vc.formats.havasu.properties import Digest
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Primitive
from havasu_vc.records import dataclass
from havasu_vc.store.disk import replace_file
from havasu_vc.store.objects import ObjectId
from havasu_vc.store.sound import RECORDS

__all__ = [
    "FileColumns",
    "Mask",
    "Record",
    "Spans",
    "find_record",
    "keep_record",
    "latest_record",
    "next_record",
    "record_of",
]

Mask = npt.NDArray[np.bool_]

_KEPT = 8
"""Records of one table that are kept."""
_VERSION = 3
_HASH = 32
_ALL = (1 << 128) - 1


@dataclass(frozen=True, slots=True)
class Spans:
    """The columns of a table whose spans are kept for each file."""

    key: int | None
    """The first key column, if it holds whole numbers or text."""
    text: bool
    """Whether that is text."""
    geometries: tuple[int, ...]
    """Those of geometries in a plane."""

    @classmethod
    def of(cls, schema: Schema) -> Spans:
        """Return those of a schema."""
        first = schema.key.fields[0] if schema.key else None
        numbers, texts = (Primitive.INT, Primitive.LONG), (Primitive.STRING,)
        known = first is not None and first.type in (*numbers, *texts)
        return cls(
            first.id if first is not None and known else None,
            known and first is not None and first.type in texts,
            tuple(f.id for f in schema.fields if f.geometry and f.edges is None and not f.raster),
        )

    @property
    def document(self) -> list[Any]:
        """As JSON."""
        return [self.key, self.text, list(self.geometries)]


class FileColumns:
    """Facts of the files of live deltas, a row for each; deltas without files have one."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch

    def _digests(self, name: str, size: int) -> list[str]:
        column = self.batch.column(name)
        data = column.buffers()[1].to_pybytes() if len(column) else b""
        text = data[column.offset * size : (column.offset + len(column)) * size].hex()
        return [text[at : at + 2 * size] for at in range(0, len(text), 2 * size)]

    def _numbers(self, name: str) -> npt.NDArray[Any]:
        # `to_numpy` loads pandas, which takes longer than all else here.
        column = self.batch.column(name)
        kind = np.dtype(str(column.type).replace("double", "float64"))
        data = column.buffers()[1]
        values = np.frombuffer(data, kind) if len(column) else np.empty(0, kind)
        return values[column.offset : column.offset + len(column)]

    def _flags(self, name: str) -> Mask:
        return self._numbers(name).view(bool)

    @cached_property
    def ids(self) -> list[str]:
        """The delta of each row."""
        return self._digests("delta", 20)

    @cached_property
    def blobs(self) -> dict[str, ObjectId]:
        """The document of each delta, in order of their ids."""
        return dict(zip(self.ids, self._digests("blob", 20), strict=True))

    @cached_property
    def files(self) -> list[str]:
        """The file of each row; zeros for none."""
        return self._digests("file", 32)

    @cached_property
    def owners(self) -> dict[str, str]:
        """The delta of each file, by sha256."""
        known = zip(self.files, self.ids, self._flags("file_known").tolist(), strict=True)
        return {file: delta for file, delta, there in known if there}

    @cached_property
    def deletes(self) -> Mask:
        """Which rows are of delete files."""
        return self._flags("deletes")

    @cached_property
    def targets(self) -> dict[str, tuple[str, ...]]:
        """The data files that each delete file deletes from."""
        found: dict[str, tuple[str, ...]] = {}
        column = self.batch.column("targets")
        for index in np.flatnonzero(self.deletes).tolist():
            text = column[index].as_py().hex()
            found[self.files[index]] = tuple(text[at : at + 64] for at in range(0, len(text), 64))
        return found

    @cached_property
    def data(self) -> Mask:
        """Which rows are of data files."""
        mask: Mask = self._flags("file_known") & ~self.deletes
        return mask

    def below(self, size: int) -> Mask:
        """Return which are data files of less than some bytes that no import brought."""
        mask: Mask = self.data & self._flags("edited") & (self.sizes < size)
        return mask

    @cached_property
    def epochs(self) -> list[str]:
        """The epoch of each row's delta: number and opener; empty for none."""
        found: list[str] = self.batch.column("epoch").to_pylist()
        return found

    @cached_property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Bytes of each file."""
        return self._numbers("size")

    @cached_property
    def rows(self) -> npt.NDArray[np.int64]:
        """Rows in each file."""
        return self._numbers("rows")

    def files_where(self, mask: Mask) -> list[str]:
        """Return the files of some rows."""
        return [self.files[index] for index in np.flatnonzero(mask).tolist()]

    def holding(self, column: pa.Array[Any], *, text: bool) -> Mask:
        """Return which may have a row with one of some keys, by the first column of these."""
        known = self._flags("span_known")
        if text:
            if not pa.types.is_string(column.type) or column.null_count:
                return self.data
            wanted = sorted(set(column.to_pylist()))
            lows = self.batch.column("low").to_pylist()
            highs = self.batch.column("high").to_pylist()
            pairs = zip(known.tolist(), lows, highs, strict=True)
            inside = np.array(
                [not k or bisect_left(wanted, a) < bisect_right(wanted, b) for k, a, b in pairs],
                np.bool_,
            )
            return self.data & inside
        if not pa.types.is_integer(column.type) or column.null_count:
            return self.data
        values = np.sort(column.to_numpy(zero_copy_only=False).astype(np.int64))
        first = np.searchsorted(values, self._numbers("low"), side="left")
        last = np.searchsorted(values, self._numbers("high"), side="right")
        return self.data & (~known | (first < last))

    def between(self, low: int | None, high: int | None) -> Mask:
        """Return which may have a row whose key, a whole number, is from `low` to `high`."""
        within = self.data.copy()
        if low is not None:
            within &= self._numbers("high") >= low
        if high is not None:
            within &= self._numbers("low") <= high
        unknown: Mask = self.data & ~self._flags("span_known")
        return within | unknown

    def boxes(self, column: int) -> npt.NDArray[np.float64]:
        """Return the bounds of a column of geometries; NaN where they are not known."""
        return np.stack([self._numbers(f"{side}{column}") for side in "wsen"], axis=1)


@dataclass(frozen=True, slots=True)
class Record:
    """Findings in a sound tree."""

    table: str
    """The table-uuid."""
    files: str
    """The tree of `files`."""
    spans: Spans
    """Whose spans the columns have."""
    rows: int
    """Rows of the table."""
    digests: Mapping[int, Digest]
    """The sums of its digests."""
    marks: int
    """The sum of its markers."""
    folded: Mapping[str, str]
    """By the id of each delta that was replaced: the one that did."""
    columns: FileColumns
    """Its files."""

    def holding(self, keys: pa.RecordBatch, schema: Schema) -> Mask:
        """Return which files may have a row with one of some keys."""
        if self.spans.key is None:
            return self.columns.data
        column = keys.column(schema.by_id[self.spans.key].name)
        return self.columns.holding(column, text=self.spans.text)

    def near(self, box: tuple[float, float, float, float], schema: Schema) -> Mask:
        """Return which files may have a geometry or raster that meets a box."""
        places = {field.id for field in schema.fields if field.geometry or field.raster}
        if not places or places != set(self.spans.geometries):
            return self.columns.data
        apart = np.ones(len(self.columns.data), np.bool_)
        for place in sorted(places):
            xmin, ymin, xmax, ymax = self.columns.boxes(place).T
            after, before = xmax < box[0], xmin > box[2]
            beside = (after | before) if box[0] <= box[2] else (after & before)
            apart &= beside | (ymax < box[1]) | (ymin > box[3])
        return self.columns.data & ~apart


# Making columns

_FIELDS = (
    *("delta", "blob", "epoch", "file", "file_known"),
    *("deletes", "edited", "rows", "size", "targets"),
)


def _batch(deltas: Iterable[tuple[Delta, ObjectId]], spans: Spans) -> pa.RecordBatch:
    """Return the columns of some deltas."""
    found: dict[str, list[Any]] = {name: [] for name, _ in _schema(spans)}
    for delta, blob in deltas:
        for entry in delta.files or (None,):
            for name, value in _row(delta, blob, entry, spans).items():
                found[name].append(value)
    arrays = [pa.array(found[name], kind) for name, kind in _schema(spans)]
    return pa.RecordBatch.from_arrays(arrays, names=list(found))


def _schema(spans: Spans) -> list[tuple[str, Any]]:
    key = pa.string() if spans.text else pa.int64()
    kinds = [
        *(pa.binary(20), pa.binary(20), pa.string(), pa.binary(32)),
        *(pa.uint8(), pa.uint8(), pa.uint8(), pa.int64(), pa.int64(), pa.binary()),
    ]
    sides = [(f"{side}{column}", pa.float64()) for column in spans.geometries for side in "wsen"]
    named = list(zip(_FIELDS, kinds, strict=True))
    return [*named, ("span_known", pa.uint8()), ("low", key), ("high", key), *sides]


def _row(delta: Delta, blob: ObjectId, entry: Entry | None, spans: Spans) -> dict[str, Any]:
    low, high = (None, None) if entry is None else _span(entry, spans)
    known = low is not None and high is not None
    nothing: Any = "" if spans.text else 0
    row: dict[str, Any] = {
        "delta": bytes.fromhex(delta.id),
        "blob": bytes.fromhex(blob),
        "epoch": _epoch_text(delta.epoch),
        "file": bytes(32) if entry is None else bytes.fromhex(entry.file),
        "file_known": int(entry is not None),
        "deletes": int(entry is not None and entry.content is Content.DELETES),
        "edited": int(entry is not None and entry.origin is not Origin.IMPORT),
        "rows": 0 if entry is None else entry.rows,
        "size": 0 if entry is None else entry.size,
        "targets": b"" if entry is None else bytes.fromhex("".join(entry.targets)),
        "span_known": int(known),
        "low": low if known else nothing,
        "high": high if known else nothing,
    }
    for column in spans.geometries:
        bounds = None if entry is None else entry.bounds.get(column)
        sides = (float("nan"),) * 4
        if bounds is not None:
            sides = (bounds.xmin, bounds.ymin, bounds.xmax, bounds.ymax)
        row |= {f"{side}{column}": value for side, value in zip("wsen", sides, strict=True)}
    return row


def _epoch_text(epoch: tuple[int, str] | None) -> str:
    """Return the epoch of a delta as columns have it."""
    return "" if epoch is None else f"{epoch[0]}:{epoch[1]}"


def _span(entry: Entry, spans: Spans) -> tuple[Any, Any]:
    statistics = None if spans.key is None else entry.statistics.get(spans.key)
    if statistics is None:
        return None, None
    kind = str if spans.text else int
    sides = (statistics.lower, statistics.upper)
    for side in sides:
        if type(side) is not kind or (isinstance(side, int) and not -(1 << 63) <= side < 1 << 63):
            return None, None
    return sides


# Records


def record_of(
    folder: TreeFolder,
    deltas: Mapping[str, Delta],
    folded: Mapping[str, str],
    table: str,
    schema: Schema,
) -> Record:
    """Return the record of a tree that is sound, all of whose deltas were parsed."""
    from havasu_vc.datasets.digest import Digests

    spans = Spans.of(schema)
    blobs = {name.rpartition("/")[2].removesuffix(".json"): b for name, b in folder.blobs("files")}
    live = [(delta, blobs[delta.id]) for delta in deltas.values()]
    digests = Digests()
    for delta, _ in live:
        digests.add(delta.digests)
    return Record(
        table,
        folder.tree_id("files"),
        spans,
        sum(delta.rows for delta, _ in live),
        digests.sums,
        sum(delta.marks for delta, _ in live) & _ALL,
        dict(folded),
        FileColumns(_batch(live, spans)),
    )


def next_record(record: Record, folder: TreeFolder, changed: Sequence[ChangedDelta]) -> Record:
    """Return the record of a tree that differs from a known one in some deltas."""
    from havasu_vc.datasets.digest import Digests

    digests = Digests(dict(record.digests))
    rows, marks, folded = record.rows, record.marks, dict(record.folded)
    gone, come = set[str](), list[tuple[Delta, ObjectId]]()
    for each in changed:
        if isinstance(each.old, Delta):
            digests.subtract(each.old.digests)
            rows -= each.old.rows
            marks -= each.old.marks
            gone.add(each.id)
        if isinstance(each.new, Delta):
            assert each.blob is not None, "what stands there has a document"
            digests.add(each.new.digests)
            rows += each.new.rows
            marks += each.new.marks
            come.append((each.new, each.blob))
        elif each.new is not None:
            folded[each.id] = each.new
    batch = record.columns.batch
    if gone:
        stays = np.array([identity not in gone for identity in record.columns.ids], np.bool_)
        batch = batch.filter(pa.array(stays))
    if come:
        table = pa.Table.from_batches([batch, _batch(come, record.spans)]).combine_chunks()
        batch = table.to_batches()[0]
        ids = FileColumns(batch).ids
        batch = batch.take(pa.array(sorted(range(len(ids)), key=ids.__getitem__), pa.int64()))
    files, columns = folder.tree_id("files"), FileColumns(batch)
    return replace(
        record,
        files=files,
        rows=rows,
        digests=digests.sums,
        marks=marks & _ALL,
        folded=folded,
        columns=columns,
    )


def _name(table: str) -> str:
    # What a repository says is no name of a file.
    return hashlib.sha256(table.encode()).hexdigest()[:32]


def find_record(memory: Path, table: str, files: str, spans: Spans) -> Record | None:
    """Return the record of a tree of `files` with some spans; None where none is believed."""
    record = _read(memory / RECORDS / f"{_name(table)}.{files}")
    return record if record is not None and record.spans == spans else None


def latest_record(memory: Path, table: str) -> Record | None:
    """Return the newest record of a table."""
    for path in _records(memory, table):
        record = _read(path)
        if record is not None:
            return record
    return None


def _records(memory: Path, table: str) -> list[Path]:
    """Return the records of a table, the newest first."""
    prefix = f"{_name(table)}."
    try:
        with os.scandir(memory / RECORDS) as there:
            mine = [each for each in there if each.name.startswith(prefix)]
            mine.sort(key=lambda each: each.stat().st_mtime_ns, reverse=True)
    except OSError:
        return []
    return [Path(each.path) for each in mine]


def keep_record(memory: Path, record: Record) -> None:
    """Keep a record, and only the newest few of its table."""
    head = {
        "version": _VERSION,
        "table": record.table,
        "files": record.files,
        "spans": record.spans.document,
        "rows": record.rows,
        "digests": {str(number): list(lanes) for number, lanes in record.digests.items()},
        "marks": f"{record.marks:032x}",
    }
    folded = b"".join(bytes.fromhex(a) + bytes.fromhex(b) for a, b in record.folded.items())
    metadata = {b"standing": json.dumps(head).encode(), b"folded": folded}
    batch = record.columns.batch.replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data = sink.getvalue()
    place = memory / RECORDS / f"{_name(record.table)}.{record.files}"
    # It only spares work next time; the repository may be read-only, or the disk full.
    with contextlib.suppress(OSError, HavasuError):
        checksum = hashlib.sha256(data).digest()
        replace_file(place, b"".join((checksum, data)), durable=False)
        for old in _records(memory, record.table)[_KEPT:]:
            old.unlink(missing_ok=True)


def _read(path: Path) -> Record | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if hashlib.sha256(memoryview(data)[_HASH:]).digest() != data[:_HASH]:
        return None
    # What another version wrote may be anything.
    with contextlib.suppress(pa.ArrowException, KeyError, TypeError, ValueError):
        with pa.ipc.open_file(pa.py_buffer(data).slice(_HASH)) as reader:
            return _parsed(reader.schema.metadata, reader.get_batch(0))
    return None


def _parsed(metadata: Mapping[bytes, bytes], batch: pa.RecordBatch) -> Record | None:
    head = json.loads(metadata[b"standing"])
    if head["version"] != _VERSION:
        return None
    text = metadata[b"folded"].hex()
    names = [text[at : at + 40] for at in range(0, len(text), 40)]
    key, is_text, geometries = head["spans"]
    return Record(
        head["table"],
        head["files"],
        Spans(key, is_text, tuple(geometries)),
        head["rows"],
        {int(number): (first, second) for number, (first, second) in head["digests"].items()},
        int(head["marks"], 16),
        dict(zip(names[::2], names[1::2], strict=True)),
        FileColumns(batch),
    )
