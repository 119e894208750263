"""The documents of a change: what they say, and that a table with them is sound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from havasu_vc.datasets.folder import MemoryFolder, edited
from havasu_vc.datasets.havasu import ledger
from havasu_vc.datasets.havasu.ledger import (
    Change,
    Touched,
    change_blobs,
    file_blobs,
    first_blobs,
    mending_blobs,
    past_of,
)
from havasu_vc.datasets.havasu.plan import past_path
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.errors import UnfinishedMergeError
from havasu_vc.formats.havasu.deltas import Delta, delta_path, parse_delta, parse_tombstone
from havasu_vc.formats.havasu.entry import Content, Entry
from havasu_vc.formats.havasu.markers import Epoch, format_closing, format_marker, marker_names
from havasu_vc.model.hashing import Hashes
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive
from havasu_vc.testing.dataset_contract import changes_between, stream_of
from havasu_vc.testing.memory import MemoryDatasets
from havasu_vc.testing.tables import Row

SCHEMA = Schema((Field(1, "fid", Primitive.INT, required=True), Field(2, "n", Primitive.INT)), (1,))
ROWS: list[Row] = [{1: n, 2: n} for n in range(6)]

Blobs = dict[str, bytes | None]


def hashes(*keys: int) -> Hashes:
    return np.array(keys, np.uint64)


def spread(count: int) -> Hashes:
    """Return so many keys, each in a folder of its own as far as there are so many."""
    numbers = np.arange(count, dtype=np.uint64)
    return (numbers % 256 << np.uint64(56)) + (numbers // 256 << np.uint64(32))


@pytest.fixture
def few_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "MOST_KEYS", 4)


@pytest.fixture
def datasets(tmp_path: Path) -> MemoryDatasets:
    return MemoryDatasets(tmp_path)


@pytest.fixture
def table(datasets: MemoryDatasets) -> HavasuDataset:
    """A table after an import and an edit."""
    view = datasets.new(SCHEMA, ROWS)
    after = [*ROWS[:1], {1: 1, 2: 91}, *ROWS[2:]]
    return datasets.apply(view, stream_of(changes_between(ROWS, after, SCHEMA), SCHEMA))


# Keys


@pytest.mark.usefixtures("few_keys")
def test_keys_are_kept_each_once_and_in_order() -> None:
    touched = Touched()
    assert touched.keys.tolist() == []
    for piece in (hashes(3, 1), hashes(), hashes(2, 3)):
        touched.add(piece)
    assert touched.keys.tolist() == [1, 2, 3]
    touched.take(hashes(4))
    assert touched.keys.tolist() == [1, 2, 3, 4]
    for _ in range(20):
        touched.take(hashes(4, 3, 2, 1))
    assert (touched.many, touched.keys.tolist()) == (False, [1, 2, 3, 4])
    assert sum(map(len, touched.pieces)) <= 8


@pytest.mark.usefixtures("few_keys")
def test_of_too_many_keys_none_is_kept() -> None:
    touched = Touched()
    touched.add(hashes(1, 2, 3, 4, 5, 5, 5, 5))
    assert (touched.many, touched.keys.tolist()) == (False, [1, 2, 3, 4, 5])
    touched.add(hashes(5))
    assert (touched.many, touched.pieces) == (True, [])
    for _ in range(9):
        touched.add(hashes(6))
        assert (touched.many, touched.pieces, touched.keys.tolist()) == (True, [], [])


def test_keys_that_nobody_names_are_many() -> None:
    touched = Touched()
    touched.add(hashes(1))
    touched.take(None)
    assert (touched.many, touched.pieces) == (True, [])


# Documents


def after(view: HavasuDataset, blobs: Mapping[str, bytes | None]) -> HavasuDataset:
    """Return a table with documents, which is sound."""
    found = replace(view, folder=edited(view.folder, TreeEdit(view.path, dict(blobs))))
    found.check_guard()
    return found


def made(blobs: Mapping[str, bytes | None]) -> Delta:
    """Return the delta among some documents."""
    ((path, data),) = (
        (path, data)
        for path, data in blobs.items()
        if path.startswith("files/") and data is not None and parse_tombstone(data) is None
    )
    return parse_delta(data, Path(path).stem, path)


def entry_of(view: HavasuDataset) -> Entry:
    """Return a data file of the import."""
    return next(e for d in view.deltas.values() if d.epoch is None for e in d.files)


def test_a_change_of_nothing_writes_nothing(table: HavasuDataset) -> None:
    assert (Change().rows, Change().close) == (0, False)
    assert change_blobs(table, Change()) == {}
    assert change_blobs(table, Change(digests={1: (0, 0)})) == {}
    others = {"meta/title": b"x", past_path("0" * 32): b"y"}
    assert change_blobs(table, Change(), others) == {"meta/title": b"x"}


@pytest.mark.parametrize(
    "change",
    [
        Change(close=True),
        Change(keys=hashes(1 << 40)),
        Change(superseded=frozenset({"1" * 40})),
        Change(digests={1: (1, 0)}),
        Change(digests={1: (0, 1)}),
    ],
)
def test_each_kind_of_change_is_a_delta(table: HavasuDataset, change: Change) -> None:
    blobs = change_blobs(table, change, {"meta/title": b"x"})
    assert blobs["meta/title"] == b"x"
    delta = made(blobs)
    dated = [d for d in table.deltas.values() if d.epoch is not None and change.close]
    assert delta.digests == (dated[0].digests if dated else change.digests)
    assert delta.replaces == tuple(sorted({d.id for d in dated} | change.superseded))
    assert all(parse_tombstone(blobs[delta_path(one)] or b"") == delta.id for one in delta.replaces)
    assert delta.epoch == ((0, "") if len(change.keys) else None)
    view = after(table, blobs)
    assert view.epoch == (Epoch(0, "").after(delta.id) if change.close else Epoch(0, ""))


def test_markers_name_the_delta_that_changed_last(table: HavasuDataset) -> None:
    keys = hashes(5 << 32, 7 << 32)
    first = change_blobs(table, Change(keys=keys))
    names = marker_names(keys.tolist())
    assert {f"edits/0/{name}" for name in names} <= first.keys()
    view = after(table, first)
    again = change_blobs(view, Change(keys=keys[:1], rows=0))
    assert again[f"edits/0/{names[0]}"] == format_marker(made(again).id)
    assert f"edits/0/{names[1]}" not in again
    after(view, again)


@pytest.mark.usefixtures("few_keys")
@pytest.mark.parametrize(("count", "number"), [(4, 0), (5, 1)])
def test_a_change_of_many_rows_closes_the_epoch(
    table: HavasuDataset, count: int, number: int
) -> None:
    blobs = change_blobs(table, Change(keys=spread(count)))
    assert after(table, blobs).epoch.number == number
    assert (made(blobs).epoch is None) == bool(number)
    # Whatever was dated is in the delta that closes it.
    assert bool(made(blobs).replaces) == bool(number)


@pytest.mark.parametrize(
    ("count", "most", "number"),
    [
        (256, 255, 1),
        (256, 256, 0),
        (255, 1, 0),
        (512, 511, 1),
        (512, 512, 0),
    ],
)
def test_an_epoch_of_many_markers_is_closed(
    datasets: MemoryDatasets,
    count: int,
    most: int,
    number: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ledger, "MOST_MARKERS", most)
    view = datasets.new(SCHEMA, ROWS)
    view = after(view, change_blobs(view, Change(keys=spread(count))))
    assert view.epoch.number == 0
    # What changes no row meets nobody.
    assert after(view, change_blobs(view, Change(digests={1: (1, 1)}))).epoch.number == 0
    view = after(view, change_blobs(view, Change(keys=hashes(1 << 63))))
    assert view.epoch.number == number
    if number:
        # In an epoch that is not the first, what stands beside the markers is none of them.
        again = after(view, change_blobs(view, Change(keys=spread(255))))
        assert after(again, change_blobs(again, Change(keys=hashes(3)))).epoch.number == 1


def test_a_file_that_leaves_takes_its_delta_with_it(table: HavasuDataset) -> None:
    edit = next(d for d in table.deltas.values() if d.epoch is not None)
    leaving, staying = sorted(edit.files, key=lambda entry: entry.content is Content.DELETES)
    blobs = change_blobs(table, Change(leaving=frozenset({leaving.file}), rows=-3))
    delta = made(blobs)
    assert delta.replaces == (edit.id,)
    assert parse_tombstone(blobs[edit.path] or b"") == delta.id
    assert blobs[leaving.pointer_path] is None
    assert [entry.file for entry in delta.files] == [staying.file]
    assert (delta.rows, delta.digests) == (edit.rows - 3, edit.digests)
    # It has the place of an edit of the epoch, and that one's markers.
    assert (delta.epoch, delta.marks) == (edit.epoch, edit.marks)
    assert delta.past == {
        name: text
        for name, text in edit.past.items()
        if name in (staying.schema, staying.partition_spec, staying.sort_order)
    }
    after(table, blobs)
    # One of an import is of no epoch.
    other = entry_of(table)
    delta = made(change_blobs(table, Change(leaving=frozenset({other.file}))))
    assert (delta.epoch, delta.marks) == (None, 0)


def test_a_file_that_comes_back_is_named_in_git(table: HavasuDataset) -> None:
    edit = next(d for d in table.deltas.values() if d.epoch is not None)
    entry = next(entry for entry in edit.files if entry.content is Content.DATA)
    gone = after(table, change_blobs(table, Change(leaving=frozenset({entry.file}))))
    documents: Blobs = {
        past_path(name): text.encode()
        for delta in table.deltas.values()
        for name, text in delta.past.items()
    }
    blobs = change_blobs(gone, Change(coming=(entry,)), documents)
    assert not any(path in documents for path in blobs)
    assert blobs[entry.pointer_path] is not None
    assert made(blobs).files == (entry,)
    assert made(blobs).epoch is None
    after(gone, blobs)


def test_an_epoch_that_is_closed_beyond_another_sides(table: HavasuDataset) -> None:
    theirs = table
    for _ in range(2):
        theirs = after(theirs, change_blobs(theirs, Change(close=True)))
    assert theirs.epoch.number == 2
    mine = after(table, change_blobs(table, Change(keys=hashes(9 << 32))))
    blobs = change_blobs(mine, Change(close=True, beyond=theirs))
    view = after(mine, blobs)
    assert view.epoch == theirs.epoch.after(made(blobs).id)
    for number in range(2):
        assert view.folder.read(f"edits/{number}") == theirs.folder.read(f"edits/{number}")
    assert view.folder.read("edits/2") == format_closing(made(blobs).id)
    # Of a side whose epoch is the same, or an earlier one, nothing is taken.
    other = after(table, change_blobs(table, Change(close=True)))
    mine = after(table, change_blobs(table, Change(close=True, digests={1: (1, 1)})))
    for beyond in (other, table):
        blobs = change_blobs(mine, Change(close=True, beyond=beyond))
        assert blobs.keys().isdisjoint({"edits/0"})
        assert after(mine, blobs).epoch == mine.epoch.after(made(blobs).id)


def test_a_table_is_mended_by_one_delta(table: HavasuDataset) -> None:
    view = after(table, change_blobs(table, Change(close=True)))
    view = after(view, change_blobs(view, Change(keys=hashes(5 << 32))))
    assert isinstance(view.folder, MemoryFolder)
    files = view.folder.files
    delta = next(d for d in view.deltas.values() if d.epoch is not None)
    entry = entry_of(view)
    files |= {
        f"data/ab/{'ab' * 32}": b"stray",
        entry.pointer_path: b"other",
        f"edits/1/{'ff'}/{'00'}": b"stray",
        "edits/77": b"a later epoch",
    }
    blobs = mending_blobs(view, 17, {1: (4, 5)})
    found = after(view, blobs)
    one = made(blobs)
    assert set(found.deltas) == {one.id}
    assert (one.rows, one.digests, one.epoch) == (17, {1: (4, 5)}, None)
    assert found.folded.keys() == view.deltas.keys() | view.folded.keys()
    assert delta.id in one.replaces
    assert found.entries == view.entries
    assert found.folder.read(f"data/ab/{'ab' * 32}") is None
    assert found.folder.read(entry.pointer_path) == file_blobs(entry)[entry.pointer_path]
    assert found.epoch == view.epoch.after(one.id)
    assert found.folder.read("edits/0") == view.folder.read("edits/0")
    assert found.folder.read("edits/77") is None
    # So is one whose open epoch git left a placeholder.
    view = after(table, change_blobs(table, Change(close=True)))
    assert isinstance(view.folder, MemoryFolder)
    view.folder.files["edits/1"] = b"\0next 1"
    with pytest.raises(UnfinishedMergeError):
        view.check_guard()
    after(view, mending_blobs(view, 17, {}))


def test_a_new_table_has_a_delta_for_each_file(table: HavasuDataset) -> None:
    entry = entry_of(table)
    linked = replace(entry, file="1" * 64, location="s3://bucket/a.parquet")
    past = {n: t for d in table.deltas.values() for n, t in d.past.items()}
    documents: Blobs = {past_path(name): text.encode() for name, text in past.items()}
    blobs = first_blobs(
        "00000000-test", [(entry, {1: (2, 3)}), (linked, {})], {**documents, "meta/title": b"x"}
    )
    assert "meta/title" in blobs
    assert not any(path in documents for path in blobs)
    assert blobs["edits/1"] == b"\0next 1"
    assert blobs[entry.pointer_path] == table.folder.read(entry.pointer_path)
    assert blobs[linked.pointer_path] == b"\0s3://bucket/a.parquet"
    deltas = [path for path in blobs if path.startswith("files/")]
    assert len(deltas) == 2
    assert past_of((entry,), documents) == past_of((entry, linked), documents) != {}
    assert past_of((entry,), {}) == {}
