"""The log of a Delta table in its folder: commits and checkpoints, read and added to.

A version is made of the newest checkpoint before it and the commits since. A checkpoint
of the first form is one file or several. One of the second is a file, of Parquet or of lines
of JSON, that names others (`_sidecars/`) with the files of the table.
"""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from havasu_vc.errors import (
    CorruptDatasetError,
    InvalidArgumentError,
    NotFoundError,
    SourceNotFoundError,
    StorageError,
)
from havasu_vc.exchange.delta_source import DeltaSource, delta_source
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.formats.delta import DeltaLog, replay, replay_checkpoint
from havasu_vc.formats.havasu.json_text import expect, parse_json
from havasu_vc.records import dataclass
from havasu_vc.store.disk import name_file
from havasu_vc.store.object_urls import in_bucket, shown_url
from havasu_vc.tables.bucket import BucketTable, folder_of_copies
from havasu_vc.tables.table import local_path

__all__ = [
    "LOG",
    "DeltaVersion",
    "delta_versions",
    "is_delta_table",
    "log_in_bucket",
    "new_table_id",
    "open_delta",
    "publish_commit",
    "read_log",
]

LOG = "_delta_log"
"""The folder of a table's commits."""
_LARGEST = 256 << 20
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
_SECOND_FORM = re.compile(r"(\d{20})\.checkpoint\.[0-9A-Fa-f-]{36}\.(?:parquet|json)")
_SIDECARS = "_sidecars"
_SIDECAR = re.compile(r"[\w.-]+\.parquet", re.ASCII)
_VERSION = re.compile(r"(.+)@v?(\d{1,18})")
_ACTIONS = ("protocol", "metaData", "sidecar")
_ADD = ("path", "partitionValues", "size", "modificationTime", "stats", "deletionVector")
"""The columns of a checkpoint that are read; statistics as columns are not."""


@dataclass(frozen=True, slots=True)
class DeltaVersion:
    """A version of a table that can be read."""

    version: int
    """Its number."""
    timestamp_ms: int
    """When it was made, as its commit says; 0 where it does not."""
    operation: str
    """The operation that made it, such as `WRITE`."""


def is_delta_table(folder: Path) -> bool:
    """Return whether a folder is a table."""
    return (folder / LOG).is_dir()


def open_delta(place: str, options: SourceOptions) -> DeltaSource:
    """Open the table in a folder or a bucket, or with `@N` behind it the version of that number."""
    if in_bucket(place):
        return _open_in_bucket(place, options)
    folder = _folder_at(place)
    if not is_delta_table(folder) and (match := _VERSION.fullmatch(str(folder))):
        if options.snapshot not in (None, int(match[2])):
            raise InvalidArgumentError(f"{place} and --snapshot name different versions")
        folder, options = Path(match[1]), replace(options, snapshot=int(match[2]))
    if not is_delta_table(folder):
        raise SourceNotFoundError(f"there is no Delta table at {folder}: it has no folder {LOG!r}")
    return delta_source(folder, read_log(folder, version=options.snapshot), options)


def _folder_at(place: str) -> Path:
    return Path(os.path.abspath(local_path(place) if ":" in place else place))


def _open_in_bucket(place: str, options: SourceOptions) -> DeltaSource:
    if match := _VERSION.fullmatch(place):
        if options.snapshot not in (None, int(match[2])):
            raise InvalidArgumentError(f"{place} and --snapshot name different versions")
        place, options = match[1], replace(options, snapshot=int(match[2]))
    folder = _brought(place)
    log = read_log(folder, version=options.snapshot)
    return delta_source(folder, log, options, bucket=place)


def log_in_bucket(url: str) -> DeltaLog:
    """Return the newest version of a table in a bucket."""
    return read_log(_brought(url))


def _brought(url: str) -> Path:
    """Return a folder with a copy of the log of a table in a bucket."""
    table, folder = BucketTable(url), folder_of_copies(url)
    names = [info.base_name for info in table.files(LOG)]
    kinds = (_COMMIT, _CHECKPOINT, _SECOND_FORM)
    wanted = [name for name in names if any(kind.fullmatch(name) for kind in kinds)]
    if any(map(_SECOND_FORM.fullmatch, wanted)):
        beside = (info.base_name for info in table.files(f"{LOG}/{_SIDECARS}"))
        wanted += [f"{_SIDECARS}/{name}" for name in beside if _SIDECAR.fullmatch(name)]
    if not wanted:
        raise SourceNotFoundError(
            f"there is no Delta table at {shown_url(url)}: it has no folder {LOG!r}"
        )
    # Files of a log never change.
    table.bring_all((f"{LOG}/{name}" for name in wanted), folder)
    return folder


def read_log(folder: Path, *, version: int | None = None) -> DeltaLog:
    """Return the newest version of a table, or the one that is named."""
    commits, checkpoints = _listed(folder / LOG)
    start = _newest_checkpoint(folder, checkpoints, version)
    first = -1 if start is None else start.version
    wanted = [n for n in sorted(commits) if n > first and (version is None or n <= version)]
    try:
        log = replay(((n, _read_commit(commits[n])) for n in wanted), str(folder), start=start)
    except CorruptDatasetError as error:
        error.hints = ()  # of what is ours, `fsck` tells more
        raise
    if version is not None and log.version != version:
        raise NotFoundError(f"the table at {folder} has no version {version}")
    return log


def delta_versions(place: str) -> list[DeltaVersion]:
    """Return the versions of a table that can still be read, oldest first."""
    folder = _brought(place) if in_bucket(place) else _folder_at(place)
    if not is_delta_table(folder):
        raise SourceNotFoundError(f"there is no Delta table at {folder}: it has no folder {LOG!r}")
    commits, checkpoints = _listed(folder / LOG)
    oldest = min(commits, default=0)
    if oldest != 0:
        usable = [n for n in checkpoints if n >= oldest - 1]
        oldest = min(usable, default=oldest)
    return [_described(n, _read_commit(path)) for n, path in sorted(commits.items()) if n >= oldest]


def _described(version: int, data: bytes) -> DeltaVersion:
    """Return when and how a version was made, as far as its commit says."""
    moment, operation = 0, "Commit"
    for line in data.splitlines():
        if b'"commitInfo"' not in line:
            continue
        try:
            said = json.loads(line).get("commitInfo") or {}
        except (ValueError, RecursionError, AttributeError):
            continue
        if isinstance(said, dict):
            stamp, name = said.get("timestamp"), said.get("operation")
            moment = stamp if isinstance(stamp, int) and 0 <= stamp < 1 << 47 else moment
            operation = name[:80] if isinstance(name, str) and name.isprintable() else operation
    return DeltaVersion(version, moment, operation)


def _listed(folder: Path) -> tuple[dict[int, Path], dict[int, list[Path]]]:
    """Return the commits of a log by version, and the files of its checkpoints."""
    commits: dict[int, Path] = {}
    parts: dict[int, dict[int, dict[int, Path]]] = {}
    second: dict[int, list[Path]] = {}
    for name in sorted(os.listdir(folder)):
        if match := _COMMIT.fullmatch(name):
            commits[int(match[1])] = folder / name
        elif match := _CHECKPOINT.fullmatch(name):
            of, number = int(match[3] or 1), int(match[2] or 1)
            parts.setdefault(int(match[1]), {}).setdefault(of, {})[number] = folder / name
        elif match := _SECOND_FORM.fullmatch(name):
            second[int(match[1])] = [folder / name]
    checkpoints = second | {
        version: [found[n] for n in sorted(found)]
        for version, by_count in parts.items()
        for of, found in by_count.items()
        if set(found) == set(range(1, of + 1))
    }
    return commits, checkpoints


def _newest_checkpoint(
    folder: Path, checkpoints: dict[int, list[Path]], version: int | None
) -> DeltaLog | None:
    usable = [n for n in checkpoints if version is None or n <= version]
    if not usable:
        return None
    newest = max(usable)
    return replay_checkpoint(
        newest, _checkpoint_actions(checkpoints[newest]), f"{folder}, checkpoint {newest}"
    )


def _checkpoint_actions(paths: list[Path]) -> Iterator[dict[str, Any]]:
    """Yield the actions in the files of a checkpoint, and in those that these name."""
    for path in paths:
        lines = path.suffix == ".json"
        for action in _actions_in_lines(path) if lines else _actions_in_parquet(path):
            if (sidecar := action.pop("sidecar", None)) is not None:
                yield from _actions_in_parquet(_sidecar(sidecar, path))
            if action:
                yield action


def _sidecar(value: Any, checkpoint: Path) -> Path:
    """Return the file that an action names, which stands in the log's own folder for them."""
    said = expect(expect(value, dict, "sidecar", str(checkpoint)).get("path"), str, "path", "")
    folder, _, name = unquote(said).rpartition("/")
    if not _SIDECAR.fullmatch(name) or (folder and not folder.endswith(f"{LOG}/{_SIDECARS}")):
        raise CorruptDatasetError(str(checkpoint), f"it names the file {said!r}")
    return checkpoint.parent / _SIDECARS / name


def _actions_in_lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in _read_commit(path).splitlines():
        if line.strip():
            yield dict(expect(parse_json(line, str(path)), dict, "an action", str(path)))


def _actions_in_parquet(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the actions in a file of a checkpoint, read in pieces."""
    _check_file(path)
    try:
        with pq.ParquetFile(path) as file:
            there = set(file.schema_arrow.names)
            names = [name for name in _ACTIONS if name in there]
            names += [f"add.{part}" for part in _ADD] if "add" in there else []
            for batch in file.iter_batches(8192, columns=names, use_threads=False):
                for row in batch.to_pylist(maps_as_pydicts="lossy"):
                    yield {kind: value for kind, value in row.items() if value is not None}
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise CorruptDatasetError(str(path), "it is no readable checkpoint") from error


def _read_commit(path: Path) -> bytes:
    _check_file(path)
    return path.read_bytes()


def _check_file(path: Path) -> None:
    if path.is_symlink() or not path.is_file() or path.stat().st_size > _LARGEST:
        raise CorruptDatasetError(str(path), "it is larger than a commit can be, or no file")


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
        name_file(temporary, path)
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
