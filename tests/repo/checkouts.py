"""Checked-out tables, read as an engine reads them."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from havasu_vc import Repo
from havasu_vc.engine.local import LocalEngine
from havasu_vc.formats.iceberg.values import MAIN, ManifestEntry, Reference, Snapshot, Status
from havasu_vc.tables.positions import write_position_deletes
from havasu_vc.tables.publishing import publish, write_manifest, write_manifest_list
from havasu_vc.tables.scanning import scan_tasks
from havasu_vc.tables.snapshots import live_files, manifests_of
from havasu_vc.tables.table import Table, read_table


def table_at(repo: Repo, dataset: str = "points") -> Table:
    return read_table(repo.workspace.root / dataset)


def rows_of(table: Table) -> list[dict[str, Any]]:
    with LocalEngine() as engine:
        batches = list(engine.run(scan_tasks(table)))
    rows = [row for batch in batches for row in batch.to_pylist()]
    return sorted(rows, key=repr)


def assert_shows_head(repo: Repo) -> None:
    """Check that each table shows its dataset at HEAD, and that nothing else is there."""
    root = repo.workspace.root
    found = {str(path.parent.relative_to(root)) for path in root.rglob("metadata") if path.is_dir()}
    assert found == set(repo.datasets())
    state = repo.workspace.state()
    assert state is not None
    assert state.tables.keys() == found
    for dataset in found:
        expected = sorted(repo.table(dataset).to_arrow().to_pylist(), key=repr)
        table = table_at(repo, dataset)
        assert rows_of(table) == expected
        assert table.metadata.schema.names == repo.dataset(dataset).schema.names
        assert state.tables[dataset].commit == repo.head().commit
        for file, identity in state.tables[dataset].files.items():
            assert (root / dataset / "data" / f"{file}.parquet").stat().st_ino == identity.inode


def delete_like_others(location: Path) -> Table:
    """Delete the first row of some data file, as an engine does: an edit."""
    table = read_table(location)
    current = table.metadata.snapshot
    assert current is not None
    data = next(each for each in live_files(table) if each.is_data)
    deletes = write_position_deletes(location / "data", {data.file.path: np.array([0])})
    number = table.metadata.last_sequence_number + 1
    snapshot = Snapshot(
        random.getrandbits(60),
        number,
        table.metadata.last_updated_ms + 1,
        None,
        {"operation": "delete"},
        current.snapshot_id,
        table.metadata.current_schema_id,
    )
    manifest = write_manifest(
        location,
        [ManifestEntry(Status.ADDED, deletes)],
        table.metadata,
        spec_id=data.spec_id,
        snapshot=snapshot,
    )
    listed = write_manifest_list(location, [*manifests_of(table, current), manifest], snapshot)
    snapshot = replace(snapshot, manifest_list=str(listed))
    metadata = replace(
        table.metadata,
        last_updated_ms=snapshot.timestamp_ms,
        last_sequence_number=number,
        current_snapshot_id=snapshot.snapshot_id,
        snapshots={**table.metadata.snapshots, snapshot.snapshot_id: snapshot},
        references={**table.metadata.references, MAIN: Reference(snapshot.snapshot_id)},
    )
    return publish(table, location, metadata)
