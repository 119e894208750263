"""Publishing: one winner, nothing half done."""

import errno
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from havasu_vc.errors import ConcurrentChangeError, NotYetSupportedError, StorageError
from havasu_vc.formats.havasu.properties import PartitionField, PartitionSpec
from havasu_vc.formats.iceberg.values import DataFile, ManifestEntry, Snapshot, Status
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive
from havasu_vc.tables.publishing import publish, write_manifest
from havasu_vc.tables.table import HINT, read_table
from tests.tables.making import TableMaker

SCHEMA = Schema((Field(1, "id", Primitive.LONG), Field(2, "x", Primitive.DOUBLE)))


@pytest.fixture
def maker(tmp_path: Path) -> TableMaker:
    return TableMaker(tmp_path / "t", SCHEMA)


def names(maker: TableMaker) -> set[str]:
    return {path.name for path in (maker.location / "metadata").iterdir()}


@pytest.mark.rule("ICE-8", "ICE-88")
def test_versions_count_up_and_tell_of_the_last(maker: TableMaker) -> None:
    first = maker.table
    maker.change(properties={"x": "y"})

    found = read_table(maker.location)
    assert found.version == 2
    assert found.metadata == maker.table.metadata
    (entry,) = found.metadata.metadata_log
    assert entry.metadata_file == str(first.metadata_file)
    assert entry.timestamp_ms == first.metadata.last_updated_ms
    assert names(maker) == {"v1.metadata.json", "v2.metadata.json", HINT}
    assert (maker.location / "metadata" / HINT).read_text() == "2"


def test_the_log_is_as_long_as_it_may_be(maker: TableMaker) -> None:
    for _ in range(4):
        maker.change(properties={"write.metadata.previous-versions-max": "2"})

    log = read_table(maker.location).metadata.metadata_log
    assert [Path(each.metadata_file).name for each in log] == [
        "v3.metadata.json",
        "v4.metadata.json",
    ]


def test_who_comes_second_changes_nothing(maker: TableMaker) -> None:
    old = maker.table
    maker.change(properties={"who": "first"})
    before = names(maker)

    for name in ("v2.metadata.json", "v2.gz.metadata.json", "v5.metadata.json"):
        if name not in before:
            os.replace(maker.table.metadata_file, maker.location / "metadata" / name)
            maker.table = replace(maker.table, metadata_file=maker.location / "metadata" / name)
        with pytest.raises(ConcurrentChangeError) as told:
            publish(old, maker.location, replace(old.metadata, properties={"who": "second"}))
        assert told.value.hints
        assert not [each for each in names(maker) if each.startswith(".")]


def test_a_new_table_where_one_is(maker: TableMaker) -> None:
    with pytest.raises(ConcurrentChangeError):
        publish(None, maker.location, maker.table.metadata)


def test_a_table_of_a_catalog_is_not_changed(maker: TableMaker) -> None:
    name = "00001-5f1e3f8c-1d2b-4b3c-9a57-9f0b6d1f0d11.metadata.json"
    os.replace(maker.table.metadata_file, maker.location / "metadata" / name)
    found = read_table(maker.location / "metadata" / name)

    with pytest.raises(NotYetSupportedError, match="catalog"):
        publish(found, maker.location, found.metadata)


@pytest.mark.rule("ICE-8", "ICE-14")
def test_of_many_at_once_one_wins(maker: TableMaker) -> None:
    base = maker.table
    results: list[str] = []
    gate = threading.Barrier(8)

    def race(name: str) -> None:
        gate.wait()
        try:
            publish(base, maker.location, replace(base.metadata, properties={"who": name}))
            results.append(name)
        except ConcurrentChangeError:
            pass

    threads = [threading.Thread(target=race, args=(str(n),)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(results) == 1
    assert read_table(maker.location).metadata.properties["who"] == results[0]
    assert names(maker) == {"v1.metadata.json", "v2.metadata.json", HINT}


def test_the_hint_never_goes_back(maker: TableMaker) -> None:
    (maker.location / "metadata" / HINT).write_text("7")
    maker.change(properties={})

    assert (maker.location / "metadata" / HINT).read_text() == "7"


def test_a_file_system_without_links(maker: TableMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EPERM, "no links here")

    base = maker.table
    monkeypatch.setattr(os, "link", refuse)
    maker.change(properties={"a": "b"})

    assert read_table(maker.location).metadata.properties == {"a": "b"}
    with pytest.raises(ConcurrentChangeError):
        publish(base, maker.location, base.metadata)


def test_a_disk_that_is_full(maker: TableMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "full")

    before = names(maker)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="full"):
        maker.change(properties={})

    monkeypatch.undo()
    assert names(maker) == before
    assert read_table(maker.location).version == 1


def test_what_a_list_says_of_a_manifest(tmp_path: Path) -> None:
    spec = PartitionSpec(
        (PartitionField(2, 1000, "x", "identity"), PartitionField(1, 1001, "b", "bucket[4]")), 1
    )
    maker = TableMaker(tmp_path / "t", SCHEMA, (PartitionSpec(), spec))
    entries = [
        ManifestEntry(status, DataFile(f"/{n}", n, 1, partition={1000: x, 1001: b}), 1, number, 1)
        for n, (status, x, b, number) in enumerate(
            [
                (Status.ADDED, 1.5, 3, None),
                (Status.EXISTING, float("nan"), None, 4),
                (Status.DELETED, -2.0, 1, 2),
            ],
            1,
        )
    ]

    found = write_manifest(
        maker.location, entries, maker.table.metadata, spec_id=1, snapshot=Snapshot(9, 7, 0, None)
    )

    assert (found.added_files, found.existing_files, found.deleted_files) == (1, 1, 1)
    assert (found.added_rows, found.existing_rows, found.deleted_rows) == (1, 2, 3)
    assert (found.sequence_number, found.min_sequence_number, found.added_snapshot_id) == (7, 4, 9)
    assert found.length == Path(found.path).stat().st_size
    assert found.partitions is not None
    x, b = found.partitions
    assert (x.contains_null, x.contains_nan, b.contains_null, b.contains_nan) == (
        False,
        True,
        True,
        False,
    )
    assert (b.lower, b.upper) == (b"\1\0\0\0", b"\3\0\0\0")
