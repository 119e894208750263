"""Upkeep of a repository: optimise, check, collect garbage.

Packing git's objects anew, each as what it differs in from one that is like it.

A commit adds its objects at once and with what it knows: trees as differences from those of
the commit before. After some hundreds of commits a pack is half as large in which git has
looked for likeness everywhere. That takes time for each object, so it is done where all are
few, as those of Havasu datasets are; large packs are joined as they are.

    <data folder>/packed    the packs that this left; where they are all there are, it is done
"""

from __future__ import annotations

import shlex
import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from havasu_vc.checkouts import (
    forget_clustered,
    forget_counterparts,
    forget_gone_work_trees,
    unnoticed,
)
from havasu_vc.datasets.digest import Digests
from havasu_vc.datasets.havasu.build import parse_report, write, write_ranges
from havasu_vc.datasets.havasu.documents import past_documents
from havasu_vc.datasets.havasu.far import as_seen, edited_there, put_at, url_of
from havasu_vc.datasets.havasu.ledger import Change, change_blobs
from havasu_vc.datasets.havasu.soundness import unlike_its_sums
from havasu_vc.datasets.havasu.writing import WrittenFile, distinct_files
from havasu_vc.datasets.kinds import findings_in, is_in_files, require_files
from havasu_vc.datasets.protocol import Dataset, DatasetInFiles, TreeEdit
from havasu_vc.datasets.sorting import HILBERT, along_curve, cut_ranges, sort_run
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import (
    CorruptDatasetError,
    EngineError,
    HavasuError,
    InvalidArgumentError,
    KeyViolationError,
)
from havasu_vc.exchange.owned_imports import files_of_chunks, rows_dealt
from havasu_vc.formats.havasu.entry import Content, Entry, Origin
from havasu_vc.formats.havasu.properties import Digest
from havasu_vc.history.summing import add_up
from havasu_vc.model.bounds import Bounds
from havasu_vc.model.names import TABLES
from havasu_vc.model.task import Task, task_of
from havasu_vc.repo.edits import commit_edits
from havasu_vc.repo.opened import OpenRepo, unsafe_path
from havasu_vc.repo.results import CommitResult, GcResult, Problem
from havasu_vc.repo.soundness import sound_datasets
from havasu_vc.store.disk import replace_file
from havasu_vc.store.locks import exclusive_lock, without_git_gc
from havasu_vc.store.refs import list_branches, list_tags
from havasu_vc.store.repository import GitRepository
from havasu_vc.store.revisions import Revision
from havasu_vc.store.trees import DatasetFolder, find_datasets
from havasu_vc.upkeep.garbage import collect_garbage
from havasu_vc.upkeep.requests import OptimizeRequest
from havasu_vc.workspace.state import checked_out_files, checked_out_trees, clustered_trees

__all__ = ["files_to_optimize", "fsck", "gc", "optimize", "optimize_dataset", "pack_anew"]

TRAILER = "Havasu-Optimize"
"""Names, in a commit message, the datasets that the commit rewrote without changing a row."""


def optimize(repo: OpenRepo, request: OptimizeRequest) -> CommitResult:
    """Rewrite small and partly deleted files into a few clean ones, in a commit of its own."""
    kinds = repo.folders(repo.head())
    paths = tuple(request.datasets) or tuple(
        path for path in sound_datasets(repo) if is_in_files(kinds[path].marker)
    )

    def make(view: Dataset, engine: Engine) -> TreeEdit:
        return optimize_dataset(require_files(view, "optimize"), engine) or TreeEdit(view.path, {})

    text = request.message or f"Optimize {', '.join(paths)}"
    trailers = "\n".join(f"{TRAILER}: {path}" for path in paths)
    return commit_edits(
        repo, [(path, make) for path in paths], f"{text}\n\n{trailers}", dry_run=request.dry_run
    )


def fsck_working_copy(repo: OpenRepo) -> Iterator[Problem]:
    """Yield the tables of the working copy in which rows differ that nothing tracked."""
    try:
        for path, count in unnoticed(repo):
            rows = "1 row differs" if count == 1 else f"{count:,} rows differ"
            yield Problem(
                f"{path} in the working copy",
                f"{rows} from the dataset, and nothing says that they were edited",
                f"`havasu-vc fsck --reset-dataset={shlex.quote(path)}` makes its table anew",
            )
    except HavasuError as error:
        yield Problem("the working copy", error.message, (*error.hints, None)[0])


def fsck(repo: OpenRepo, *, full: bool = False) -> Iterator[Problem]:
    """Yield what is wrong, in git's objects and in the datasets of every branch and tag.

    `full` reads every data file of HEAD and all branches.
    """
    result = repo.git.git(
        "fsck", "--strict", "--no-dangling", "--no-progress", check=False, environment=_index(repo)
    )
    for line in (*result.lines, *result.error_lines):
        if line.strip() and not line.startswith(("notice:", "Checking")):
            yield Problem("git", line.strip(), "`git fsck` tells more")
    checked: set[str] = set()
    seen: set[str] = set()
    for revision in _tips(repo):
        odd: dict[str, str] = {}
        found = find_datasets(repo.git.objects, revision.tree, partial(_note_path, odd))
        for path in (each for each in odd if each not in seen):
            where, hint = f"{path!r} at {revision.name}", unsafe_path(path, odd[path]).hints[0]
            yield Problem(where, f"as a dataset's path, {odd[path]}", hint)
        seen.update(odd)
        for folder in found:
            path = folder.path
            if folder.marker not in TABLES or folder.internals in seen:
                continue
            seen.add(folder.internals)
            view, where = repo.view(folder, revision.name), f"{path} at {revision.name}"
            try:
                size = view.size if full else 0
            except HavasuError as error:  # not even its description can be read
                yield _problem(where, error)
                continue
            with repo.settings.open_engine(size) as engine:
                try:
                    if full and engine.apart:
                        view = as_seen(view)
                    for each in findings_in(view, engine, full=full, checked=checked):
                        place = f"{each.where} at {revision.name}"
                        yield Problem(place, each.message, _beside_fsck(each.hint))
                except HavasuError as error:
                    # A cluster that fails says nothing of the data; a process may die of it.
                    if isinstance(error, EngineError) and engine.distributed:
                        raise
                    yield _problem(where, error)


def _problem(where: str, error: HavasuError) -> Problem:
    return Problem(where, error.message, _beside_fsck((*error.hints, None)[0]))


def _beside_fsck(hint: str | None) -> str | None:
    """Return a hint, where it is not to do what is being done."""
    return None if hint is not None and hint.startswith("`havasu-vc fsck") else hint


def _note_path(paths: dict[str, str], folder: DatasetFolder, reason: str) -> None:
    paths[folder.path] = reason


def _index(repo: OpenRepo) -> dict[str, str]:
    """Return what keeps git from the index where Kart has locked it in a way of its own."""
    return {"GIT_INDEX_FILE": str(repo.git.data_folder / "none")} if repo.git.is_kart else {}


def _tips(repo: OpenRepo) -> Iterator[Revision]:
    head = repo.head()
    if head.commit is not None:
        yield replace(head, name="HEAD")
    for ref in (*list_branches(repo.git), *list_branches(repo.git, remote=True)):
        yield replace(repo.resolve(ref.commit), name=ref.name)
    for tag in list_tags(repo.git):
        yield replace(repo.resolve(tag.commit), name=tag.name)


def gc(repo: OpenRepo, *, grace_days: float = 14.0, dry_run: bool = False) -> GcResult:
    """Remove data files that nothing reaches and that are older than a grace period.

    Git's objects are packed anew, but for those of Kart's repositories, which Kart packs.
    """
    if grace_days < 0:
        raise InvalidArgumentError("a grace period cannot be negative")
    if not dry_run:
        forget_gone_work_trees(repo)
    found = collect_garbage(
        repo.git,
        keep=checked_out_files(repo.git),
        grace_seconds=grace_days * 86400,
        dry_run=dry_run,
    )
    grace = grace_days * 86400
    trees, clustered = checked_out_trees(repo.git), clustered_trees(repo.git)
    freed = forget_counterparts(repo, trees, grace_seconds=grace, dry_run=dry_run)
    freed += forget_clustered(repo, clustered, grace_seconds=grace, dry_run=dry_run)
    freed += _forget_settled(repo.storage.settled.root, grace_seconds=grace, dry_run=dry_run)
    packed = 0
    if not dry_run and not repo.git.is_kart:
        packed = pack_anew(repo.git)
    return GcResult(found.files, found.size + freed, found.kept_young, packed)


def _forget_settled(folder: Path, *, grace_seconds: float, dry_run: bool) -> int:
    """Remove old delete files that were derived from others; return how many bytes.

    Who needs one again derives it again.
    """
    size = 0
    for place in sorted(folder.rglob("*")):
        with suppress(OSError):
            status = place.stat()
            if place.is_file() and status.st_mtime <= time.time() - grace_seconds:
                size += status.st_size
                if not dry_run:
                    place.unlink()
    return size


FEW = 64 << 20
"""Bytes of packs up to which git compares all objects anew."""
LOOSE = 200
"""So many loose objects are worth being packed."""


def pack_anew(repository: GitRepository) -> int:
    """Make one pack of all objects; return the bytes that git needs less now.

    What no ref reaches stays in it: tables and merges that wait are of commits that git does
    not know to be needed. `git gc` drops what has been so for its own grace period.
    """
    before = _counted(repository)
    folder = repository.data_folder
    done = folder / "packed"
    with suppress(OSError):
        if before["count"] < LOOSE and done.read_text("utf-8") == _packs(repository):
            return 0
    size = 1024 * before["size-pack"]
    anew = ("-f", "--window=50", "--depth=50") if size <= FEW else ()
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive_lock(folder / "lock"), without_git_gc(repository.common_directory):
        repository.git("repack", "-a", "-k", "-d", "-l", "-q", *anew)
        repository.git("prune-packed", "-q")
        replace_file(done, _packs(repository).encode())
    after = _counted(repository)
    return 1024 * sum(before[name] - after[name] for name in ("size", "size-pack"))


def _packs(repository: GitRepository) -> str:
    """Return the names of the packs, a line each."""
    found = (repository.common_directory / "objects" / "pack").glob("pack-*.pack")
    return "".join(f"{name}\n" for name in sorted(path.name for path in found))


def _counted(repository: GitRepository) -> dict[str, int]:
    """Return what git counts of its objects: loose ones, packs, and their kilobytes."""
    lines = repository.git("count-objects", "-v").lines
    pairs = (line.split(": ", 1) for line in lines if ": " in line)
    return {name: int(value) for name, value in pairs if value.isdigit()}


# Optimizing: the same rows in well-sized files, without deletes, in the dataset's order.
#
# Taken up are files with deleted rows, and small ones where there are several; large and
# clean files stay. Rows are sorted on disk, in runs and ranges that fit in memory, so a
# table of any size can be optimized. No row changes: the digests of what was read and of
# what was written must agree, and a diff across an optimize shows nothing.


SMALL_SHARE = 4
"""A file is small below this part of the size that files are to have."""
FILES_A_TASK = 8
"""Each task that writes makes about so many files, so that few of them end up small."""
RUN_TASKS = 4
CHUNK_BYTES = 1 << 30
"""Without a key and a curve, each task that writes has about so much, which stays as it comes."""


def optimize_dataset(view: DatasetInFiles, engine: Engine) -> TreeEdit | None:
    """Return the edit that leaves a dataset's rows in better files; None when they are good."""
    view.check_guard()
    (view,) = edited_there(view, distributed=engine.distributed, apart=engine.apart)
    url = put_at(view)
    chosen = files_to_optimize(view)
    if not chosen:
        return None
    reading = [tuple(view.scan_file(entry, view.schema)) for entry in chosen]
    tasks = [task for each in reading for task in each]
    what, anywhere = f"Reading {view.path}", url_of(view) is not None or not view.storage.on_demand
    rows, digests = add_up(tasks, view.schema, engine, description=what, anywhere=anywhere)
    leaving = {entry.file for entry in chosen}
    leaving |= {entry.file for entry in view.entries.values() if entry.content is Content.DELETES}
    staying = frozenset(view.entries.keys() - leaving)
    as_they_come = not view.key and _placed(view) is None
    try:
        if as_they_come:
            written = _copied(view, _chunks(chosen, reading), engine, staying, url)
        elif url is None:
            written = _write(view, chosen, tasks, engine)
        else:
            written = rows_dealt(
                view,
                chosen,
                view.layout,
                url,
                engine,
                curve=_placed(view),
                staying=staying,
                description=f"Writing {view.path}",
            )
    except KeyViolationError as error:
        raise CorruptDatasetError(view.path, error.message) from error
    storage = view.storage
    files = distinct_files(
        (replace(file, entry=replace(file.entry, origin=Origin.FOLD)) for file in written),
        view.layout,
        storage.staging,
        storage.keys,
        seen=staying,
    )
    _check_same(view, files, rows, digests)
    if len(chosen) == len(view.data_entries) and (
        (rows, digests) != (view.rows, dict(view.snapshot.digests))
    ):
        raise unlike_its_sums(view.path)
    made = _tree_edit(view, leaving, files)
    names = frozenset(file.entry.file for file in files)
    return made if url is None else replace(made, elsewhere=names)


def _chunks(chosen: Sequence[Entry], reading: Sequence[tuple[Task, ...]]) -> list[tuple[Task, ...]]:
    """Return the tasks that read each file in runs, one for each task that writes, by size."""
    size = sum(entry.size for entry in chosen)
    count = max(size // CHUNK_BYTES, 1)
    chunks: list[tuple[Task, ...]] = [()] * count
    before = 0
    for entry, tasks in zip(chosen, reading, strict=True):
        chunks[before * count // max(size, 1)] += tasks
        before += entry.size
    return [chunk for chunk in chunks if chunk]


def _copied(
    view: DatasetInFiles,
    chunks: Sequence[tuple[Task, ...]],
    engine: Engine,
    staying: frozenset[str],
    url: str | None,
) -> list[WrittenFile]:
    """Return the files that tasks write of rows as they come, none of which is one that stays."""
    what = f"Writing {view.path}"
    if url is not None:
        return files_of_chunks(chunks, view.layout, url, engine, staying=staying, description=what)
    where = (str(view.storage.staging.root), str(view.storage.keys))
    writing = [task_of(write, chunk, view.layout, *where, False) for chunk in chunks]
    return _written(engine, writing, view)


def _placed(view: DatasetInFiles) -> tuple[str, Bounds] | None:
    """Return the column along whose curve rows lie and its extent; None if along none."""
    curve = next((field for field in view.order.fields if field.transform == "hilbert"), None)
    column = None if curve is None else view.schema.by_id.get(curve.source_id)
    return None if column is None else (column.name, _extent(view, column.id))


def files_to_optimize(view: DatasetInFiles) -> list[Entry]:
    """Return the data files to take up, in the dataset's order; none when all are good."""
    small = view.layout.target_bytes // SMALL_SHARE
    dirty = [entry for entry in view.data_entries if entry.file in view.deletes]
    clean = [e for e in view.data_entries if e.file not in view.deletes and e.size < small]
    if not dirty and len(clean) < 2:
        return []
    files = {entry.file for entry in (*dirty, *clean)}
    return [entry for entry in view.data_entries if entry.file in files]


def _write(
    view: DatasetInFiles, chosen: Sequence[Entry], tasks: Sequence[Task], engine: Engine
) -> list[WrittenFile]:
    names = view.key.names
    placed = _placed(view)
    where = (str(view.storage.staging.root), str(view.storage.keys))
    if placed is not None:
        tasks = along_curve(tasks, view.schema, *placed)
        names = (HILBERT, *names)
    folder = view.storage.staging.scratch / f"runs-{uuid.uuid4().hex}"
    try:
        starts = range(0, len(tasks), RUN_TASKS)
        sorting = [
            task_of(sort_run, tuple(tasks[i : i + RUN_TASKS]), names, str(folder)) for i in starts
        ]
        reports = [
            report
            for report in engine.run(sorting, description=f"Sorting {view.path}", brief=True)
            if report.num_rows
        ]
        if not reports:
            return []
        runs, ranges = cut_ranges(reports)
        size = sum(entry.size for entry in chosen)
        count = max(size // (view.layout.target_bytes * FILES_A_TASK), 1)
        step = max(-(-len(ranges) // count), 1)
        writing = [
            task_of(write_ranges, runs, ranges[i : i + step], names, view.layout, *where)
            for i in range(0, len(ranges), step)
        ]
        return _written(engine, writing, view)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _written(engine: Engine, tasks: Sequence[Task], view: DatasetInFiles) -> list[WrittenFile]:
    batches = engine.run(tasks, description=f"Writing {view.path}", brief=True)
    return [file for batch in batches for file in parse_report(batch).files]


def _extent(view: DatasetInFiles, column: int) -> Bounds:
    """Return the bounds of a geometry column, as entries give them."""
    bounds = Bounds.of(entry.bounds.get(column) for entry in view.data_entries)
    return bounds if bounds is not None else Bounds(0, 0, 0, 0)


def _check_same(
    view: DatasetInFiles, files: Sequence[WrittenFile], rows: int, digests: dict[int, Digest]
) -> None:
    written = Digests()
    for file in files:
        written.add(file.digests)
    if sum(file.entry.rows for file in files) != rows or written.of(view.schema.by_id) != digests:
        raise CorruptDatasetError(view.path, "the rows written are not the rows that were read")


def _tree_edit(view: DatasetInFiles, leaving: set[str], files: Sequence[WrittenFile]) -> TreeEdit:
    coming = [written.entry for written in files]
    stays = sum(entry.rows for entry in view.entries.values() if entry.file not in leaving)
    if stays + sum(entry.rows for entry in coming) != view.rows:
        raise CorruptDatasetError(view.path, "its files do not hold as many rows as it says")
    documents = past_documents(view.folder, view.layout, {})
    return TreeEdit(view.path, change_blobs(view, Change(frozenset(leaving), coming), documents))
