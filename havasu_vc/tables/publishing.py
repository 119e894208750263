"""Writing documents of a table, and the one step that makes them its newest version.

Manifests and lists have their hash in their name, so no name is ever used for other
bytes. They are synced before the metadata file that leads to them gets its name. That
name is made by a link, which fails when another writer made it first; then nothing has
happened. The version hint is moved afterwards, and readers do without it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from havasu_vc.errors import ConcurrentChangeError, NotYetSupportedError
from havasu_vc.formats.iceberg.entries import manifest_file_of
from havasu_vc.formats.iceberg.manifests import format_manifest, format_manifest_list
from havasu_vc.formats.iceberg.metadata import format_metadata, format_metadata_3, parse_metadata
from havasu_vc.formats.iceberg.native_geometry import NativeTypes
from havasu_vc.formats.iceberg.values import (
    DataFileContent,
    Flavour,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    MetadataLogEntry,
    Snapshot,
    TableMetadata,
)
from havasu_vc.model.schema import Schema
from havasu_vc.store.disk import (
    fsync_folder,
    name_file,
    replace_file,
    reporting_storage_errors,
)
from havasu_vc.tables.table import (
    HINT,
    METADATA,
    Table,
    TableFolders,
    location_of,
    metadata_versions,
)

__all__ = ["logged", "publish", "write_manifest", "write_manifest_list"]

_KEPT = "write.metadata.previous-versions-max"


def write_manifest(
    location: Path,
    entries: Sequence[ManifestEntry],
    metadata: TableMetadata,
    *,
    spec_id: int,
    snapshot: Snapshot,
    flavour: Flavour = Flavour.HAVASU,
    types: NativeTypes = MappingProxyType({}),
) -> ManifestFile:
    """Write a manifest for a snapshot that is in the making, and return its line in the list.

    Entries that leave their numbers out inherit the snapshot's. There is at least one, and
    all are of one partition spec, and all data or all deletes.
    """
    spec = metadata.partition_specs[spec_id]
    schema_id, schema = _schema_for({field.source_id for field in spec.fields}, metadata)
    data = entries[0].file.content is DataFileContent.DATA
    content = ManifestContent.DATA if data else ManifestContent.DELETES
    document = format_manifest(
        entries,
        schema=schema,
        schema_id=schema_id,
        spec=spec,
        content=content,
        flavour=flavour,
        format_version=metadata.format_version,
        types=types,
    )
    path = _write(location, f"{_digest(document)}-m.avro", document)
    return manifest_file_of(
        entries,
        location_of(path),
        len(document),
        schema=schema,
        spec=spec,
        content=content,
        sequence_number=snapshot.sequence_number,
        snapshot_id=snapshot.snapshot_id,
    )


def _schema_for(sources: set[int], metadata: TableMetadata) -> tuple[int, Schema]:
    """Return the newest schema that has the columns which a spec divides by."""
    schemas = metadata.schemas
    for number in (metadata.current_schema_id, *sorted(schemas, reverse=True)):
        if sources.issubset(schemas[number].by_id):
            return number, schemas[number]
    return metadata.current_schema_id, metadata.schema  # void fields may have no source


def write_manifest_list(
    location: Path,
    manifests: Iterable[ManifestFile],
    snapshot: Snapshot,
    *,
    format_version: int = 2,
) -> Path:
    """Write the list of a snapshot's manifests, and return where it is."""
    document = format_manifest_list(
        manifests,
        snapshot_id=snapshot.snapshot_id,
        parent_id=snapshot.parent_id,
        sequence_number=snapshot.sequence_number,
        format_version=format_version,
    )
    return _write(location, f"snap-{snapshot.snapshot_id}-{_digest(document)}.avro", document)


def _digest(document: bytes) -> str:
    return hashlib.sha256(document).hexdigest()[:32]


def _write(location: Path, name: str, data: bytes) -> Path:
    """Write a document durably; one that is there has the same bytes, being named by them."""
    path = location / METADATA / name
    with reporting_storage_errors(path):
        if path.exists():
            os.utime(path)
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = _temporary(path.parent, data)
        try:
            os.replace(temporary, path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
    return path


def _temporary(folder: Path, data: bytes) -> Path:
    path = folder / f".{secrets.token_hex(8)}.tmp"
    try:
        with path.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return path


def publish(
    table: Table | None,
    location: Path,
    metadata: TableMetadata,
    *,
    flavour: Flavour = Flavour.HAVASU,
    allowed: Iterable[Path] = (),
    types: NativeTypes = MappingProxyType({}),
) -> Table:
    """Make metadata the version after `table`, or the first of a new table, and return it.

    `types` are those of columns that version 3 calls otherwise than our schema does.
    Raises `ConcurrentChangeError` when another writer was faster; nothing has changed then.
    """
    location = Path(os.path.abspath(location))
    version = 1 if table is None else table.version + 1
    if table is not None:
        if not table.metadata_file.name.startswith("v"):
            raise NotYetSupportedError(f"the table at {location} belongs to a catalog")
        metadata = logged(metadata, table)
    folder = location / METADATA
    final = folder / f"v{version}.metadata.json"
    if metadata.format_version > 2:
        document = format_metadata_3(metadata, types)
    else:
        document = format_metadata(metadata, flavour=flavour)
    metadata = parse_metadata(document, str(final))  # what every reader will see, or no version
    with reporting_storage_errors(final):
        folder.mkdir(parents=True, exist_ok=True)
        if any(number >= version for number, _ in metadata_versions(location)):
            raise _overtaken(location)
        temporary = _temporary(folder, document)
        try:
            # The names of manifests come before the name of what leads to them.
            fsync_folder(folder)
            name_file(temporary, final)
        except FileExistsError:
            raise _overtaken(location) from None
        finally:
            temporary.unlink(missing_ok=True)
        fsync_folder(folder)
    _point(folder / HINT, version)
    known = () if table is None else map(Path, table.places.roots)
    places = TableFolders([location, *known, *allowed])
    return Table(location, version, metadata, final, places)


def logged(metadata: TableMetadata, table: Table) -> TableMetadata:
    """Return metadata that tells of the file it comes after."""
    past = table.places.spelled(table.metadata_file)
    entry = MetadataLogEntry(table.metadata.last_updated_ms, past)
    known = [each for each in metadata.metadata_log if each.metadata_file != entry.metadata_file]
    most = 100
    with contextlib.suppress(ValueError):
        most = max(int(metadata.properties.get(_KEPT, "100")), 1)
    return replace(metadata, metadata_log=(*known, entry)[-most:])


def _overtaken(location: Path) -> ConcurrentChangeError:
    return ConcurrentChangeError(
        f"another program changed the table at {location} first",
        hints=("nothing was changed; try again",),
    )


def _point(hint: Path, version: int) -> None:
    """Move the hint forward, never back."""
    if hint.is_file() and not hint.is_symlink():
        with contextlib.suppress(OSError, ValueError), hint.open("rb") as file:
            if int(file.read(20)) >= version:
                return
    replace_file(hint, str(version).encode())
