"""Tables in a bucket of a server on loopback: read, and edited as an engine edits them."""

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSelector, S3FileSystem

from havasu_vc import Repo
from havasu_vc.formats.iceberg.values import (
    DataFile,
    Flavour,
    LogEntry,
    ManifestEntry,
    Reference,
    Snapshot,
    Status,
)
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.tables.bucket import BucketTable
from havasu_vc.tables.positions import write_position_deletes
from havasu_vc.tables.publishing import write_manifest, write_manifest_list
from havasu_vc.tables.scanning import scan_tasks
from havasu_vc.tables.snapshots import live_files, manifests_of
from havasu_vc.tables.table import Table, read_table
from havasu_vc.testing.memory import run_all
from tests.repo.points import Row, Rows, make, read, write
from tests.workspace import by_hand

__all__ = ["ROWS", "Tables", "edit", "edit_rows", "far_url", "made", "rows", "s3", "there"]

ROWS: dict[int, Row] = {number: (f"n{number}", number) for number in range(40)}


def s3(endpoint: str) -> S3FileSystem:
    """Return the file system of a server."""
    return S3FileSystem(
        endpoint_override=endpoint.removeprefix("http://"),
        scheme="http",
        region="us-east-1",
        allow_bucket_creation=True,
    )


def there(endpoint: str, path: str) -> dict[str, int]:
    """Return the files below a folder of a bucket, and their sizes."""
    selector = FileSelector(path.removeprefix("s3://"), recursive=True, allow_not_found=True)
    infos = s3(endpoint).get_file_info(selector)
    root = path.removeprefix("s3://")
    return {info.path.removeprefix(root + "/"): info.size for info in infos if info.is_file}


def rows(table: Table) -> dict[int, tuple[str | None, int | None]]:
    """Return the rows of a table by key."""
    found = [row for batch in run_all(scan_tasks(table)) for row in batch.to_pylist()]
    return {row.pop("id"): tuple(row.values()) for row in sorted(found, key=lambda row: row["id"])}


def edit(url: str, folder: Path, come: Rows, gone: int | None = None) -> None:
    """Do what an engine does: one version more, with rows that came and a file's row that went."""
    data = [{"id": key, "name": row[0], "height": row[1]} for key, row in come.items()]
    edit_rows(url, folder, data, first=gone)


def edit_rows(
    url: str,
    folder: Path,
    come: Sequence[Mapping[str, Any]],
    gone: Collection[int] = (),
    *,
    first: int | None = None,
    anew: bool = False,
) -> None:
    """Do the same with rows of any columns; those with some ids go, and one of the first file.

    Those that come are all there are then, if the table is written `anew`.
    """
    place = BucketTable(url)
    table = place.read(folder / "seen")
    known, parent = table.metadata, table.metadata.snapshot
    assert parent is not None
    snapshot = Snapshot(
        secrets.randbits(60),
        known.last_sequence_number + 1,
        known.last_updated_ms + 1,
        None,
        {"operation": "overwrite"},
        parent.snapshot_id,
        known.current_schema_id,
    )
    new = folder / "new"
    (new / "data").mkdir(parents=True)
    columns = arrow_schema(known.schema)
    files = []
    if come:
        path = new / "data" / f"00000-{secrets.token_hex(8)}.parquet"
        written = pa.Table.from_pylist(list(come), schema=columns)
        pq.write_table(written, path, store_schema=False)
        files.append(DataFile(str(path), len(come), path.stat().st_size))
    places: dict[str, Any] = {}
    for number, live in enumerate(each.file for each in live_files(table) if each.is_data):
        if first is not None and not number:
            places[live.path] = np.array([first])
        if gone:
            ids = pq.read_table(table.places.file(live.path), columns=["id"])["id"].to_numpy()
            places[live.path] = np.flatnonzero(np.isin(ids, list(gone)))
    places = {location: found for location, found in places.items() if len(found)}
    if places:
        files.append(write_position_deletes(new / "data", places))
    manifests = [] if anew else list(manifests_of(table, parent))
    for file in files:
        place.send(Path(file.path), f"data/{Path(file.path).name}")
        # Spark's own file system calls the same place s3a.
        spelled = f"{url.replace('s3:', 's3a:')}/data/{Path(file.path).name}"
        entry = ManifestEntry(Status.ADDED, replace(file, path=spelled), snapshot.snapshot_id)
        made = write_manifest(new, [entry], known, spec_id=0, snapshot=snapshot)
        place.send(Path(made.path), f"metadata/{Path(made.path).name}")
        manifests.append(replace(made, path=f"{url}/metadata/{Path(made.path).name}"))
    listed = write_manifest_list(new, manifests, snapshot)
    place.send(listed, f"metadata/{listed.name}")
    snapshot = replace(snapshot, manifest_list=f"{url}/metadata/{listed.name}")
    metadata = replace(
        known,
        last_updated_ms=snapshot.timestamp_ms,
        last_sequence_number=snapshot.sequence_number,
        current_snapshot_id=snapshot.snapshot_id,
        snapshots={**known.snapshots, snapshot.snapshot_id: snapshot},
        references={**known.references, "main": Reference(snapshot.snapshot_id)},
        snapshot_log=(
            *known.snapshot_log,
            LogEntry(snapshot.timestamp_ms, snapshot.snapshot_id),
        ),
    )
    place.publish(metadata, table.version + 1, Flavour.HAVASU)


@dataclass(frozen=True)
class Tables:
    """Tables as somebody else reads and writes them."""

    repo: Repo
    folder: Path

    def read(self, path: str = "points") -> Table:
        place = self.repo.workspace.place
        if isinstance(place, Path):
            return read_table(place / path)
        return BucketTable(f"{place}/{path}").read(self.folder / secrets.token_hex(4))

    def edit(self, come: Rows, gone: int | None = None, path: str = "points") -> None:
        place = self.repo.workspace.place
        if not isinstance(place, Path):
            edit(f"{place}/{path}", self.folder / secrets.token_hex(4), come, gone)
            return
        table = read_table(place / path)
        new = [{"id": key, "name": row[0], "height": row[1]} for key, row in come.items()]
        files = [by_hand.data_file(table, new)]
        if gone is not None:
            first = by_hand.live_paths(table)[0]
            files.append(by_hand.position_deletes(table, {first: [gone]}))
        by_hand.write_snapshot(place / path, come=files)

    def assert_show_head(self) -> None:
        state = self.repo.workspace.state()
        assert state is not None and set(state.tables) == set(self.repo.datasets())
        for path, known in state.tables.items():
            found = self.read(path)
            assert known.commit == self.repo.head().commit
            assert found.version == known.version
            assert rows(found) == read(self.repo, dataset=path)


def made(tmp_path: Path, place: str, name: str = "repo") -> Tables:
    """Return tables of `main`; there is a commit on `dev` as well."""
    repo = make(tmp_path / name, ROWS)
    repo.switch("dev", create=True)
    write(repo, {**ROWS, 1: ("dev", 1)})
    repo.switch("main")
    repo.config.set("havasu.workspace.path", place)
    assert repo.workspace.check_out().tables == ("points",)
    return Tables(repo, tmp_path)


def far_url(tables: Tables) -> str:
    return f"{tables.repo.workspace.place}/points"
