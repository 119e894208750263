"""The index and the work tree, kept in step with commits that we make.

Datasets' internals are in the index (git insists) but never in the work tree. When a
commit of ours moved HEAD, `git reset -q -- <internals>` brings just those entries up to
it, and the user's staged, unstaged and untracked files stay as they are.

Between the moved ref and the reset we may die. So a marker stands in
`<git directory>/havasu/index-behind/` from before the one until after the other; its
owner holds it locked. `mend` finds markers whose owner is gone and does their work.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import BinaryIO, TypeVar

from havasu_vc.errors import ConcurrentChangeError, HavasuError, LockedError, NoBranchError
from havasu_vc.model.names import TABLES
from havasu_vc.store.disk import fsync_folder, replace_file, reporting_storage_errors
from havasu_vc.store.objects import ObjectId, read_object
from havasu_vc.store.preparation import is_prepared, prepare
from havasu_vc.store.refs import check_ref_name, read_head, read_ref
from havasu_vc.store.repository import GitRepository
from havasu_vc.store.revisions import commit_tree
from havasu_vc.store.system import hold_file, open_binary
from havasu_vc.store.trees import edit_tree, find_datasets, find_entry

__all__ = ["in_step", "mend", "moving_all", "sweep", "switch_worktree"]


PATIENCE = 5.0
"""Seconds that a held `index.lock` is waited for."""
LARGE = 4 << 20
"""Bytes of a large index: some 30,000 entries."""


@contextlib.contextmanager
def in_step(
    repository: GitRepository,
    internals: Sequence[str],
    *,
    files: Sequence[str] = (),
    made: tuple[ObjectId, Mapping[str, ObjectId | None]] | None = None,
) -> Iterator[None]:
    """Bring the index up to HEAD after a block that moves it.

    `internals` are folders of datasets' internals that the commit changed; `files` are
    ordinary files that it changed (`.gitattributes`). `made` is the commit with the blobs of all
    paths below `internals` that it changes, None for one that goes: where nobody touched the
    index since the last commit of ours, git is told these alone, which takes half as long
    where there are many others. Nothing is done if the block raises
    an error of ours, since then nothing moved. If the index cannot be brought up to HEAD,
    because another git holds it or the disk is full, the commit stands all the same, and
    the next command mends the index.
    """
    if repository.is_bare or repository.is_kart:
        yield
        return
    blobs = {path: _blob_in_head(repository, path) for path in files}
    untouched = _in_step(repository)
    with _marked(repository, internals, blobs) as marker:
        try:
            yield
        except HavasuError:
            marker.unlink(missing_ok=True)
            raise
        with contextlib.suppress(HavasuError, OSError):
            known = made if not blobs and untouched.issuperset(internals) else None
            commit = read_head(repository).commit
            if known is None or known[0] != commit or not _set_entries(repository, known[1]):
                _catch_up(repository, internals, blobs)
            elif read_head(repository).commit != commit:
                # Another commit came in between, and may have brought the index up to itself.
                _catch_up(repository, internals, blobs)
            if read_head(repository).commit == commit:
                _note_in_step(repository, commit, untouched.union(internals))
            marker.unlink(missing_ok=True)


_MOST_BYTES = 256 << 10
"""Entries with names of more bytes are more than any system takes as arguments."""


def _set_entries(repository: GitRepository, entries: Mapping[str, ObjectId | None]) -> bool:
    """Set entries of the index as a sparse checkout has them; return whether that could be."""
    come = [path for path, blob in entries.items() if blob is not None]
    gone = [path for path, blob in entries.items() if blob is None]
    added = [each for path in come for each in ("--cacheinfo", f"100644,{entries[path]},{path}")]
    arguments = [*added, "--force-remove", *gone, "--skip-worktree", *come]
    if len(os.fsencode("\0".join(arguments))) >= _MOST_BYTES:
        return False
    try:
        _patiently(lambda: repository.git("update-index", "--add", *arguments))
    except LockedError:
        raise
    except HavasuError:
        return False
    return True


def _in_step(repository: GitRepository) -> frozenset[str]:
    """Return the folders of internals of which the index is surely as HEAD."""
    checksum, commit = _checksum(repository), read_head(repository).commit
    with contextlib.suppress(OSError):
        text = _in_step_path(repository).read_bytes().decode("utf-8", "surrogateescape")
        parts = text.split("\0")
        # The end says that it is whole: a loss of power may have cut it short.
        if checksum.strip("0") and (parts[0], parts[-1]) == (checksum, commit):
            return frozenset(parts[1:-1])
    return frozenset()


def _note_in_step(
    repository: GitRepository, commit: ObjectId | None, internals: Iterable[str]
) -> None:
    """Note of which folders of internals the index is as HEAD, until anybody writes either."""
    text = "\0".join((_checksum(repository), *sorted(internals), commit or ""))
    # Several commit at once, and each reads what another notes. It only spares work, so the
    # disk may be full.
    with contextlib.suppress(OSError, HavasuError):
        replace_file(
            _in_step_path(repository), text.encode("utf-8", "surrogateescape"), durable=False
        )


def _in_step_path(repository: GitRepository) -> Path:
    return repository.git_directory / "havasu" / "index-in-step"


def mend(repository: GitRepository) -> bool:
    """Do what a command that died left undone; return whether there was anything."""
    folder = _marker_folder(repository)
    try:
        names = sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return False
    mended = False
    for name in names:
        with (
            contextlib.suppress(FileNotFoundError),
            open(folder / name, "rb", opener=open_binary) as file,
        ):
            try:
                hold_file(file.fileno())
            except BlockingIOError:
                continue  # its owner is alive
            try:
                internals, blobs, before = _parse_marker(file.read())
            except ValueError:
                internals, blobs, before = [], {}, None  # it died in writing, before the ref moved
            if (internals or blobs) and (before is None or before != _checksum(repository)):
                lock = repository.git_directory / "index.lock"
                if lock.exists() and not repository.frees(lock, time.monotonic()):
                    continue  # another git is at work; a later command mends
                try:
                    _catch_up(repository, internals, blobs, patience=0)
                except (HavasuError, OSError):
                    # Another git is at work, or the disk is full, and there may be much to do
                    # that needs neither: a later command mends.
                    continue
                mended = True
            (folder / name).unlink(missing_ok=True)
    return mended


def switch_worktree(
    repository: GitRepository,
    target: str,
    *,
    create: bool = False,
    start: ObjectId | None = None,
    discard: bool = False,
) -> None:
    """Put HEAD, the index and the user's files on a branch, or on a commit given by its id.

    git does the work, so what is not committed is kept or refused as it does. `create`
    makes the branch, at `start` or HEAD; `discard` drops edits that are in the way.
    """
    if create:
        check_ref_name(target)
    is_branch = create or read_ref(repository, f"refs/heads/{target}") is not None
    if repository.is_bare or repository.is_kart:
        _point_head(repository, target, is_branch=is_branch, create=create, start=start)
        return
    if not is_prepared(repository):
        prepare(repository)
    options = ["--quiet", "--no-guess"]
    options += ["--discard-changes"] if discard else []
    if create:
        options += ["--no-track", "--create", target, *([start] if start else [])]
    else:
        options += [target] if is_branch else ["--detach", target]
    there = start if create else read_ref(repository, f"refs/heads/{target}") or target
    with moving_all(repository, there):
        _patiently(lambda: repository.git("switch", *options))


@contextlib.contextmanager
def moving_all(repository: GitRepository, commit: ObjectId | None) -> Iterator[None]:
    """Have the index at HEAD after a block in which git moves both to a commit.

    git writes the index first. If it is stopped before it has moved HEAD, or cannot, the
    datasets of the commit would stay staged, and the user's next commit take them along.
    """
    internals = [] if commit is None else _internals_apart(repository, commit)
    if not internals:
        yield
        return
    before = _checksum(repository)
    with _marked(repository, internals, {}, before) as marker:
        try:
            yield
        except HavasuError:
            with contextlib.suppress(HavasuError, OSError):
                if before != _checksum(repository):
                    _catch_up(repository, internals, {})
                marker.unlink(missing_ok=True)
            raise
        marker.unlink(missing_ok=True)


def _internals_apart(repository: GitRepository, commit: ObjectId) -> list[str]:
    """Return the folders of internals that are others in a commit than in HEAD."""
    head = read_head(repository).commit
    if head is None or head == commit:
        return []
    old, new = (
        {f"{folder.path}/{folder.marker}": folder.internals for folder in found}
        for found in (
            find_datasets(repository.objects, commit_tree(repository, each))
            for each in (head, commit)
        )
    )
    return sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path))


def _checksum(repository: GitRepository) -> str:
    """Return what the index ends with, which is another for other content."""
    try:
        with open(repository.git_directory / "index", "rb") as file:
            file.seek(-20, os.SEEK_END)
            return file.read().hex()
    except OSError:
        return ""


def _point_head(
    repository: GitRepository,
    target: str,
    *,
    is_branch: bool,
    create: bool,
    start: ObjectId | None,
) -> None:
    if create:
        commit = start or read_head(repository).commit
        if commit is None:
            raise NoBranchError("there is no commit yet for a branch to begin at")
        repository.git("branch", "--quiet", "--no-track", "--", target, commit)
    message = f"checkout: moving from {read_head(repository).branch or 'HEAD'} to {target}"
    if is_branch:
        repository.git("symbolic-ref", "-m", message, "HEAD", f"refs/heads/{target}")
    else:
        repository.git("update-ref", "--no-deref", "-m", message, "HEAD", target)


def _catch_up(
    repository: GitRepository,
    internals: Sequence[str],
    blobs: Mapping[str, ObjectId | None],
    *,
    patience: float | None = None,
) -> None:
    if not is_prepared(repository):
        prepare(repository)
    paths = list(internals)
    for path, old in blobs.items():
        new = _blob_in_head(repository, path)
        if new == old:
            continue
        # A file that the user staged otherwise stays as it is staged.
        if _blob_in_index(repository, path) == old:
            paths.append(path)
        _write_file(repository, path, old, new)
    if not paths:
        return
    listed = b"".join(os.fsencode(path) + b"\0" for path in paths)

    def reset() -> ObjectId | None:
        # A git that cannot read HEAD takes it for unborn, and would stage that all is removed.
        commit = read_head(repository).commit
        named = [] if commit is None else [commit]
        if commit is not None and _size(repository) >= LARGE:
            _take_out(repository, commit, internals)
        command = ["reset", "--quiet", "--pathspec-from-file=-", "--pathspec-file-nul", *named]
        repository.git(*command, stdin=listed)
        return commit

    deadline = time.monotonic() + PATIENCE
    # Another commit may come in between, and its entries be gone again by our reset.
    while _patiently(reset, patience) != read_head(repository).commit:
        if time.monotonic() >= deadline:
            raise ConcurrentChangeError("HEAD moves on as fast as the index follows")


def _take_out(repository: GitRepository, commit: ObjectId, internals: Sequence[str]) -> None:
    """Take folders that a commit lacks out of a large index, which is written once for that.

    `git reset` takes out one entry after the other and moves up all behind it. Going from the tree
    of the index to the same without the folders, git leaves all others as they are, staged or not.
    What is in its way, such as an entry in conflict, is left to the reset.
    """
    objects, there = repository.objects, commit_tree(repository, commit)
    gone = [path for path in internals if find_entry(objects, there, path) is None]
    if not gone:
        return
    try:
        before = repository.git("write-tree", "--missing-ok").text.strip()
        with repository.writer() as writer:
            after = edit_tree(writer, before, dict.fromkeys(gone))
            writer.flush()
        if after != before:
            repository.git("read-tree", "-m", "-i", before, after)
    except LockedError:
        raise
    except HavasuError:
        pass


def _size(repository: GitRepository) -> int:
    with contextlib.suppress(OSError):
        return (repository.git_directory / "index").stat().st_size
    return 0


_T = TypeVar("_T")


def _patiently(run: Callable[[], _T], patience: float | None = None) -> _T:
    deadline, pause = time.monotonic() + (PATIENCE if patience is None else patience), 0.01
    while True:
        try:
            return run()
        except LockedError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(pause)
        pause = min(pause * 2, 0.2)


def _blob_in_head(repository: GitRepository, path: str) -> ObjectId | None:
    commit = read_head(repository).commit
    if commit is None:
        return None
    found = find_entry(repository.objects, commit_tree(repository, commit), path)
    return found.id if found is not None and not found.is_tree else None


def _blob_in_index(repository: GitRepository, path: str) -> ObjectId | None:
    text = repository.git("ls-files", "--stage", "-z", "--", path).text
    return text.split()[1] if text else None


def _write_file(
    repository: GitRepository, path: str, old: ObjectId | None, new: ObjectId | None
) -> None:
    """Bring a file of the work tree from `old` to `new` unless the user changed it."""
    work_tree = repository.work_tree
    if work_tree is None:
        return
    place = work_tree / path
    if new is None:
        _remove_file(repository, place, old)
        return
    data = read_object(repository.objects, new, "blob")
    scratch = repository.data_folder / "temporary"
    with reporting_storage_errors(place):
        if not os.path.lexists(place):
            if old is None:
                replace_file(place, data, begun_in=scratch)
            return
        if old is None or place.is_symlink() or not place.is_file():
            return
        found = place.read_bytes()
        # With core.autocrlf the copy has other line ends than the blob.
        if found.replace(b"\r\n", b"\n") == read_object(repository.objects, old, "blob"):
            text = data.replace(b"\n", b"\r\n") if b"\r\n" in found else data
            replace_file(place, text, begun_in=scratch)


def _remove_file(repository: GitRepository, place: Path, old: ObjectId | None) -> None:
    """Remove a file of the work tree, and folders left empty, unless the user changed it."""
    work_tree = repository.work_tree
    if old is None or work_tree is None or place.is_symlink() or not place.is_file():
        return
    with reporting_storage_errors(place):
        found = place.read_bytes().replace(b"\r\n", b"\n")
        if found != read_object(repository.objects, old, "blob").replace(b"\r\n", b"\n"):
            return
        place.unlink()
        for folder in place.relative_to(work_tree).parents[:-1]:
            with contextlib.suppress(OSError):
                (work_tree / folder).rmdir()


def _marker_folder(repository: GitRepository) -> Path:
    return repository.git_directory / "havasu" / "index-behind"


@contextlib.contextmanager
def _marked(
    repository: GitRepository,
    internals: Sequence[str],
    blobs: Mapping[str, ObjectId | None],
    before: str | None = None,
) -> Iterator[Path]:
    folder = _marker_folder(repository)
    path = folder / uuid.uuid4().hex
    with reporting_storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        file = _held_alone(path)
    with file:
        with reporting_storage_errors(folder):
            file.write(_format_marker(internals, blobs, before))
            file.flush()
            os.fsync(file.fileno())
            fsync_folder(folder)
        yield path


def _held_alone(path: Path) -> BinaryIO:
    """Return a new file that this process holds.

    Who mends may come between making it and holding it, takes it for one of a process that died
    in writing, and removes it.
    """
    while True:
        file = open(path, "xb", opener=open_binary)
        try:
            hold_file(file.fileno(), wait=True)
            if path.exists():
                return file
        except BaseException:
            file.close()
            raise
        file.close()


def _format_marker(
    internals: Sequence[str], blobs: Mapping[str, ObjectId | None], before: str | None
) -> bytes:
    """Return a marker; with `before`, there is nothing to do while the index ends so."""
    document = {"internals": list(internals), "files": dict(blobs), "before": before}
    return json.dumps(document).encode()


def _parse_marker(data: bytes) -> tuple[list[str], dict[str, ObjectId | None], str | None]:
    document = json.loads(data)
    if not isinstance(document, dict):
        raise ValueError("a marker is an object")
    internals, files = document.get("internals", ()), document.get("files", {})
    return list(internals), dict(files), document.get("before")


# Files of datasets that git put into the work tree, where they never belong.
#
# git does that with files in conflict, whatever the sparse checkout says, and leaves them
# there. Nobody's own files are below a dataset's internals.


def sweep(repository: GitRepository, datasets: Iterable[str]) -> None:
    """Remove the internals of datasets from the work tree, and let git not miss them."""
    work_tree = repository.work_tree
    if work_tree is None or repository.is_kart:
        return
    for path, marker in product(datasets, TABLES):
        folder = work_tree / path / marker
        if not folder.is_dir() or _through_link(work_tree, folder):
            continue
        shutil.rmtree(folder, ignore_errors=True)
        for parent in folder.relative_to(work_tree).parents[:-1]:
            with suppress(OSError):
                (work_tree / parent).rmdir()
    # What was in conflict, or added by hand, lost its mark of being left out.
    repository.git("sparse-checkout", "reapply", check=False)


def _through_link(work_tree: Path, folder: Path) -> bool:
    """Whether a link of the user's leads there, perhaps out of the work tree."""
    parts = folder.relative_to(work_tree).parents[:-1]
    return folder.is_symlink() or any((work_tree / part).is_symlink() for part in parts)
