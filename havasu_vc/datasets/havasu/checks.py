"""Checking a dataset: does everything in git say the same, and do the files say it too.

    documents   parse, agree with each other, and stand under their own hashes
    entries     each with its pointer, its documents and its file; deletes delete what is live
    sums        rows are those of the entries
    files       (full) hash, Parquet, statistics, bounds, deleted rows, keys, digests

A problem never stops the check: whatever can be looked at without what is broken is
looked at. Key caches are no part of a repository, so a damaged one is removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

from havasu_vc.datasets.havasu.far import is_apart
from havasu_vc.datasets.havasu.file_checks import check_files
from havasu_vc.datasets.havasu.keys import DamagedKeyCache, key_cache_path, open_key_cache
from havasu_vc.datasets.havasu.locate import shared_schema
from havasu_vc.datasets.havasu.soundness import require_format
from havasu_vc.datasets.protocol import DatasetInFiles
from havasu_vc.errors import (
    CrsError,
    HavasuError,
    UnfinishedMergeError,
    UnsupportedVersionError,
)
from havasu_vc.formats.havasu.entry import Content, Entry
from havasu_vc.formats.havasu.properties import parse_partition, parse_sort_order
from havasu_vc.formats.havasu.schema import parse_schema
from havasu_vc.formats.lfs import Pointer, parse_pointer
from havasu_vc.geo.crs import parse_crs
from havasu_vc.model.findings import Finding, Findings
from havasu_vc.model.task import RunsEach

__all__ = ["check_contents", "check_dataset"]


_POINTER = re.compile(r"([0-9a-f]{2})/(\1[0-9a-f]{62})")


def check_dataset(
    view: DatasetInFiles, engine: RunsEach, *, full: bool, checked: set[str] | None = None
) -> Iterator[Finding]:
    """Yield what is wrong with a dataset; with `full`, read every file of it too.

    `checked` remembers files whose bytes have been hashed, so that a file which several
    datasets or revisions share is hashed once.
    """
    findings = Findings()
    try:
        require_format(view.folder, view.path, view.revision)
    except UnsupportedVersionError as error:
        # Whatever else were said of its documents would be of another form.
        yield Finding(view.path, error.message, error.hints[0])
        return
    except UnfinishedMergeError:
        pass  # the guard says so
    summed = _check_guard(view, findings)
    yield from findings.found
    yield from check_contents(view, engine, full=full, summed=summed, checked=checked)


def check_contents(
    view: DatasetInFiles,
    engine: RunsEach,
    *,
    full: bool,
    summed: bool,
    checked: set[str] | None = None,
) -> Iterator[Finding]:
    """Yield what is wrong with a dataset apart from its guard.

    `summed` says that its snapshot can be read; without it no sums are compared.
    """
    findings = Findings()
    sound = _check_documents(view, findings)
    entries = _check_entries(view, findings)
    if not sound:
        yield from findings.found
        return
    if summed:
        _check_sums(view, entries, findings)
    here = _check_stored(view, entries, findings)
    whole = not findings.found and len(here) == len(entries)
    _check_key_caches(view, entries, findings, full=full)
    _check_systems(view, findings)
    yield from findings.found
    if full:
        seen = set() if checked is None else checked
        yield from check_files(view, here, engine, seen, whole=whole, summed=summed)


def _check_guard(view: DatasetInFiles, findings: Findings) -> bool:
    """Check the guard; return whether there are sums that can be compared."""
    with findings.catching(f"{view.path}"):
        view.check_guard()
    return not findings.found


def _check_documents(view: DatasetInFiles, findings: Findings) -> bool:
    """Check what stands once in a dataset; return whether the rest can be told from it."""
    failed = 0
    for name, document in (
        ("columns", "schema"),
        ("dataset.json", "properties"),
        ("meta/partition.json", "partition"),
        ("meta/sort-order.json", "order"),
    ):
        count = len(findings.found)
        with findings.catching(f"{view.path}/{name}"):
            getattr(view, document)
        failed += len(findings.found) - count
    if failed:
        return False
    return True


def _check_systems(view: DatasetInFiles, findings: Findings) -> None:
    """Check that the coordinate reference systems that columns name are defined and understood."""
    named = (f.geometry.crs for f in view.schema.geometries if f.geometry is not None)
    for name in sorted({crs for crs in named if crs is not None}):
        where = f"{view.path}/meta/crs/{name}.wkt"
        if name not in view.crs:
            findings.add(where, f"a column has the system {name}, and its definition is missing")
            continue
        try:
            parse_crs(view.crs[name])
        except CrsError as error:
            findings.add(where, error.message)


def _check_entries(view: DatasetInFiles, findings: Findings) -> dict[str, Entry]:
    """Check entries, pointers and the documents they name; return the entries that are sound."""
    entries: dict[str, Entry] = {}
    for name, blob in view.folder.blobs("files"):
        if findings.full:
            return {}
        with findings.catching(f"{view.path}/files/{name}"):
            entries |= {entry.file: entry for entry in view.entries_at(name, blob)}
    pointers: set[str] = set()
    for name, blob in view.folder.blobs("data"):
        where = f"{view.path}/data/{name}"
        if findings.full:
            return {}
        if not _POINTER.fullmatch(name):
            findings.add(where, "this is no name of a pointer")
            continue
        file = name.rpartition("/")[2]
        pointers.add(file)
        _check_pointer(view, blob, entries.get(file), where, findings)
    for file, entry in sorted(entries.items()):
        if file not in pointers and entry.location is None:
            findings.add(f"{view.path}/{entry.pointer_path}", "this pointer is missing")
    _check_past(view, entries, findings)
    if not findings.found:
        with findings.catching(f"{view.path}/files"):
            entries = dict(view.entries)
    _check_targets(view, entries, findings)
    return entries


def _check_pointer(
    view: DatasetInFiles, blob: str, entry: Entry | None, where: str, findings: Findings
) -> None:
    if entry is None:
        findings.add(where, "no sound entry below files/ belongs to this pointer")
        return
    try:
        pointer = parse_pointer(view.folder.read_blob(blob))
    except ValueError as error:
        findings.add(where, str(error))
        return
    if pointer != Pointer(entry.file, entry.size):
        findings.add(where, "its hash or size is not that of the entry")


def _check_past(view: DatasetInFiles, entries: dict[str, Entry], findings: Findings) -> None:
    """Check that what files were written with is in deltas."""
    wanted: dict[str, str] = {}
    for entry in entries.values():
        wanted |= {
            entry.schema: "schema",
            entry.partition_spec: "partition",
            entry.sort_order: "sort order",
        }
    for name, kind in sorted(wanted.items()):
        where = f"{view.path}: the {kind} {name}, which files were written with"
        with findings.catching(where):
            data = view.past_document(name)
            match kind:
                case "schema":
                    parse_schema(data, where)
                case "partition":
                    parse_partition(data, where)
                case _:
                    parse_sort_order(data, where)


def _check_targets(view: DatasetInFiles, entries: dict[str, Entry], findings: Findings) -> None:
    """Check that each delete file deletes rows of data files that are live."""
    deleted: dict[str, int] = {}
    for file, entry in sorted(entries.items()):
        where = f"{view.path}: entry of {file}"
        if entry.content is Content.DATA:
            if entry.targets:
                findings.add(where, "it holds data and has targets")
            continue
        if sum(entry.targets.values()) != entry.rows:
            findings.add(where, f"its targets do not add up to its {entry.rows} rows")
        for target, count in entry.targets.items():
            found = entries.get(target)
            if found is None or found.content is not Content.DATA:
                findings.add(where, f"it deletes from {target}, which is no live data file")
            deleted[target] = deleted.get(target, 0) + count
    for target, count in sorted(deleted.items()):
        if target in entries and count > entries[target].rows:
            findings.add(
                f"{view.path}: entry of {target}",
                f"{count} of its {entries[target].rows} rows are deleted",
            )


def _check_sums(view: DatasetInFiles, entries: dict[str, Entry], findings: Findings) -> None:
    data = sum(entry.rows for entry in entries.values() if entry.content is Content.DATA)
    deleted = sum(sum(entry.targets.values()) for entry in entries.values())
    if view.rows != data - deleted:
        findings.add(
            f"{view.path}/files",
            f"the deltas say {view.rows} rows, their entries add up to {data - deleted}",
        )


def _check_stored(
    view: DatasetInFiles, entries: dict[str, Entry], findings: Findings
) -> dict[str, Entry]:
    """Check that files are in the store at their size, and linked ones where they stay.

    Returns those that are, and those that are read in a bucket.
    """
    apart = is_apart(view)
    here = {}
    derived: set[str] = set()
    with suppress(HavasuError):
        derived = view.derived_files
    for file, entry in sorted(entries.items()):
        if entry.location is not None and not view.storage.has(file):
            with findings.catching(f"{view.path}: linked file {file}"):
                view.file_path(entry)
                here[file] = entry
            continue
        if file in derived:
            here[file] = entry
            continue
        if apart:
            here[file] = entry  # tasks read it elsewhere
            if view.storage.files.has(file):
                with findings.catching(f"{view.path}: data file {file}"):
                    view.storage.files.verify(file)
            continue
        if view.storage.on_demand and not view.storage.files.has(file):
            continue  # it comes when something reads it
        count = len(findings.found)
        with findings.catching(f"{view.path}: data file {file}"):
            view.storage.files.check_size(file, entry.size)
        if len(findings.found) == count:
            here[file] = entry
    return here


def _check_key_caches(
    view: DatasetInFiles, entries: dict[str, Entry], findings: Findings, *, full: bool
) -> None:
    """Remove key caches that are damaged; with `full` every byte of them is looked at."""
    for file, entry in sorted(entries.items()):
        if entry.content is not Content.DATA:
            continue
        with findings.catching(f"{view.path}: entry of {file}"):
            path = key_cache_path(view.storage.keys, file, shared_schema(view, entry))
            if not path.exists():
                continue
            cache = open_key_cache(path)
            try:
                if cache is None or len(cache.keys) != entry.rows:
                    raise DamagedKeyCache
                if full:
                    cache.check_all()
            except DamagedKeyCache:
                path.unlink(missing_ok=True)
                findings.add(
                    f"{view.path}: key cache of {file}", "it was damaged, and has been removed"
                )
