"""Delta tables: written with geometries as their proposal has them, or plain, and read back.

Tables with the feature `geospatial` are read here; the deltalake package reads the log
of all others where it is installed, and none of it is needed to write.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from havasu_vc.errors import (
    CorruptDatasetError,
    InvalidArgumentError,
    InvalidFileError,
    MissingProgramError,
    NotFoundError,
    SourceNotFoundError,
    StorageError,
    UnsupportedVersionError,
)
from havasu_vc.exchange.crs_names import CrsNames
from havasu_vc.exchange.parquet import ParquetSource, open_parquet
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.formats.delta import DeltaLog, geometry_columns, replay
from havasu_vc.model.schema import Schema
from havasu_vc.tables.locations import Places, local_path

__all__ = ["LOG", "new_table_id", "open_delta", "publish_commit", "read_log"]

LOG = "_delta_log"
"""The folder of a table's commits."""
_LARGEST = 256 << 20


def open_delta(place: str, options: SourceOptions) -> ParquetSource:
    """Open the table in a folder."""
    folder = Path(os.path.abspath(local_path(place) if ":" in place else place))
    if not (folder / LOG).is_dir():
        raise SourceNotFoundError(f"there is no Delta table at {folder}: it has no folder {LOG!r}")
    try:
        log = read_log(folder, version=options.snapshot)
    except (UnsupportedVersionError, CorruptDatasetError) as error:
        if "geospatial" in error.message:
            raise
        return _open_by_package(folder, options, error)
    places = Places([folder])
    paths = [places.file(str(folder / path)) for path in sorted(log.files)]
    if not paths:
        raise InvalidFileError(str(folder), "the table has no rows, so nothing to import")
    source = open_parquet(paths, folder.name, options, root=folder)
    return _as_the_log_says(source, log, options, str(folder))


def _open_by_package(folder: Path, options: SourceOptions, reason: Exception) -> ParquetSource:
    """Open a table whose log is not read here."""
    try:
        import deltalake
        import deltalake.exceptions
    except ImportError as error:
        raise MissingProgramError(
            f"{reason}: such a table is read by deltalake, which is not installed",
            hints=("pip install 'havasu-vc[delta]'",),
        ) from error
    try:
        table = deltalake.DeltaTable(str(folder), version=options.snapshot)
        protocol = table.protocol()
        if set(protocol.reader_features or ()) - {
            "timestampNtz",
            "v2Checkpoint",
            "vacuumProtocolCheck",
        }:
            raise reason
        paths = [Path(local_path(uri)) for uri in sorted(table.file_uris())]
    except (deltalake.exceptions.DeltaError, OSError) as error:
        raise InvalidFileError(str(folder), " ".join(str(error).split())[:200]) from error
    places = Places([folder])
    return open_parquet([places.file(str(p)) for p in paths], folder.name, options, root=folder)


def read_log(folder: Path, *, version: int | None = None) -> DeltaLog:
    """Return the newest version of a table, or the one that is named."""
    log = replay(_commits(folder / LOG, version), str(folder))
    if version is not None and log.version != version:
        raise NotFoundError(f"the table at {folder} has no version {version}")
    return log


def _commits(folder: Path, last: int | None) -> Iterator[tuple[int, bytes]]:
    """Yield the commits of a log in order, each read when it is asked for."""
    for name in sorted(os.listdir(folder)):
        stem, _, suffix = name.partition(".")
        if suffix != "json" or len(stem) != 20 or not stem.isdigit():
            continue
        if last is not None and int(stem) > last:
            return
        path = folder / name
        if path.is_symlink() or path.stat().st_size > _LARGEST:
            raise CorruptDatasetError(str(path), "it is larger than a commit can be")
        yield int(stem), path.read_bytes()


def _as_the_log_says(
    source: ParquetSource, log: DeltaLog, options: SourceOptions, where: str
) -> ParquetSource:
    """Return a source whose geometries have the systems and edges of the log."""
    said = geometry_columns(log, where)
    crs = CrsNames(options.crs)
    fields = []
    for field in source.schema.fields:
        native = said.get(field.name)
        if native is not None:
            if field.geometry is None:
                raise InvalidFileError(
                    where, f"its files do not say that column {field.name!r} holds geometries"
                )
            named = crs.name(_crs_text(native.crs, log.configuration, where), where)
            geometry = replace(field.geometry, crs=named)
            extra = (("edges", native.edges),) if native.edges else ()
            field = replace(field, geometry=geometry, extra=extra)
        elif field.geometry is not None and field.geometry.crs is not None:
            crs.name(source.crs[field.geometry.crs], where)
        fields.append(field)
    schema = Schema(tuple(fields), source.schema.identifier_ids)
    return replace(
        source,
        schema=schema,
        layout=replace(source.layout, schema=schema),
        crs={**source.crs, **crs.wkt} if not said else dict(crs.wkt),
    )


def _crs_text(said: str, configuration: Mapping[str, str], where: str) -> str | None:
    kind, _, rest = said.partition(":")
    if kind == "projjson":
        if rest not in configuration:
            raise InvalidFileError(
                where,
                f"its coordinate reference system is in the property {rest!r}, which is missing",
                hints=("name one with --crs",),
            )
        return configuration[rest]
    if kind == "srid":
        return None if int(rest) == 0 else f"EPSG:{rest}"
    return said


def publish_commit(folder: Path, version: int, data: bytes) -> None:
    """Make a commit appear; raises when there is one of that number."""
    path = folder / LOG / f"{version:020}.json"
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)
    except FileExistsError as error:
        raise InvalidArgumentError(
            f"another process wrote version {version} of the table at {folder}",
            hints=("export again",),
        ) from error
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def new_table_id() -> str:
    """Return an id for a new table."""
    return str(uuid.uuid4())


def now_ms() -> int:
    """Return the time as logs have it."""
    return int(time.time() * 1000)
