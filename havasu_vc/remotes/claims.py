"""How pushes and prunings of one object store keep out of each other's way, without locks.

    <root>/pushes/<random>      what a push relies on: files and commits, one per line
    <root>/prunings/<random>    a pruning that is going on

A push writes its claim first, then looks for prunings and waits for their end, and only
then looks what the refs reach and what the store lacks; the claim goes when its refs have
moved. A pruning writes its note first, then looks for others and gives way to them, then
reads the claims, and only then the refs. Whoever is second sees the first, whatever else
happens between. Either may die: a claim counts for a week, a note for an hour, and a
pruning deletes nothing once its note is half as old. Ages are told by the store's clock
alone, since those of people differ.
"""

from __future__ import annotations

import io
import re
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from pyarrow import NativeFile
from pyarrow.fs import FileInfo, FileSelector, FileSystem

from havasu_vc.errors import LockedError, StorageError
from havasu_vc.records import dataclass
from havasu_vc.remotes.protocol import Claim, WantedFile
from havasu_vc.store.locks import has_ended, this_process

__all__ = ["Claims", "Sweep", "claimed", "read_bounded", "read_claims", "sweeping"]

CLAIM_SECONDS = 7 * 24 * 3600.0
NOTE_SECONDS = 3600.0
SWEEP_SECONDS = NOTE_SECONDS / 2
MOST_BYTES = 256 << 20
"""What a claim of some million files has."""
PATIENCE = 120.0
PAUSE = 0.2
_FILE = re.compile(r"[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Claims:
    """What pushes that are going on rely on."""

    files: frozenset[str] = frozenset()
    """Data files, by name."""
    commits: frozenset[str] = frozenset()
    """Commits of the remote, with the data of all their history."""


class Sweep:
    """A pruning that is going on."""

    def __init__(self, claims: Claims, began: float) -> None:
        self.claims = claims
        """What pushes rely on."""
        self.began = began
        """When it began, in seconds since 1970 by the store's clock."""
        self._clocks = _clocks()

    def check(self) -> None:
        """Raise when it lasts so long that others will take it for dead."""
        # One of the clocks stands still while a machine sleeps, the other may be set.
        elapsed = max(now - then for now, then in zip(_clocks(), self._clocks, strict=True))
        if elapsed > SWEEP_SECONDS:
            raise LockedError(
                "pruning took too long, and stopped where it was", hints=("prune again",)
            )


@contextmanager
def claimed(
    system: FileSystem,
    root: str,
    files: Sequence[WantedFile],
    commits: Sequence[str] = (),
    *,
    patience: float = PATIENCE,
) -> Iterator[Claim]:
    """Claim files for a push, after any pruning has ended; leave the claim if it must outlast."""
    claim = Claim()
    names = [*(file.sha256 for file in files), *commits]
    path = _written(system, f"{root}/pushes", "".join(f"{name}\n" for name in names))
    try:
        _wait_for_prunings(system, root, path, patience)
        yield claim
    finally:
        if not claim.outlasting:
            _forget(system, path)


def _wait_for_prunings(system: FileSystem, root: str, claim: str, patience: float) -> None:
    """Wait for those that may not have seen a claim; whoever begins later does."""
    began, written = time.monotonic(), None
    names = {note.path for note in _prunings(system, root)}
    while names:
        if written is None:
            written = _time(system.get_file_info(claim))
        elapsed = time.monotonic() - began
        notes = [note for note in _prunings(system, root) if note.path in names]
        if all(written + elapsed - _time(note) > NOTE_SECONDS for note in notes):
            return
        if elapsed > patience:
            raise LockedError(
                "data files are being pruned there, or somebody died doing so",
                hints=("wait until that has ended; who died is forgotten after an hour",),
            )
        time.sleep(PAUSE)


@contextmanager
def sweeping(system: FileSystem, root: str) -> Iterator[Sweep]:
    """Tell pushes to wait, and find out what earlier ones rely on."""
    path = _written(system, f"{root}/prunings", this_process())
    try:
        began = 0.0
        others = []
        for note in _prunings(system, root):
            if note.path == path:
                began = _time(note)
            else:
                others.append(note)
        began = began or _time(system.get_file_info(path))
        for note in others:
            if began - _time(note) <= NOTE_SECONDS:
                raise LockedError(
                    "somebody else is pruning data files there, or died doing so",
                    hints=("try again in an hour",),
                )
            _forget(system, note.path)
        yield Sweep(read_claims(system, root, began), began)
    finally:
        _forget(system, path)


def read_claims(system: FileSystem, root: str, now: float) -> Claims:
    """Return what pushes rely on that began before a time by the store's clock."""
    words: set[str] = set()
    for info in _listed(system, f"{root}/pushes"):
        if now - _time(info) < CLAIM_SECONDS:
            # A push that has ended meanwhile has moved its refs, and they are read later.
            with suppress(FileNotFoundError), system.open_input_stream(info.path) as stream:
                words.update(read_bounded(stream, info.path).decode("ascii", "replace").split())
    return Claims(
        frozenset(word for word in words if _FILE.fullmatch(word)),
        frozenset(word for word in words if _COMMIT.fullmatch(word)),
    )


def read_bounded(stream: NativeFile, name: str) -> bytes:
    """Return all of a document; refuse one that is larger than any of ours can be."""
    found = io.BytesIO()
    while block := stream.read(1 << 20):
        if found.tell() > MOST_BYTES:
            raise StorageError(f"{name} is larger than {MOST_BYTES:,} bytes")
        found.write(block)
    return found.getvalue()


def _prunings(system: FileSystem, root: str) -> list[FileInfo]:
    """Return the notes of prunings, but for those that died on this machine; they are removed."""
    found = []
    for note in _listed(system, f"{root}/prunings"):
        text = ""
        with suppress(OSError), system.open_input_stream(note.path) as stream:
            text = read_bounded(stream, note.path).decode("ascii", "replace")
        if has_ended(text):
            _forget(system, note.path)
        else:
            found.append(note)
    return found


def _listed(system: FileSystem, folder: str) -> list[FileInfo]:
    selector = FileSelector(folder, allow_not_found=True)
    return [
        info
        for info in system.get_file_info(selector)
        # Who died while a note got its content had done nothing yet.
        if info.is_file and not info.path.endswith(".new")
    ]


def _written(system: FileSystem, folder: str, text: str) -> str:
    """Write a note under a name of its own, and return its path."""
    path = f"{folder}/{secrets.token_hex(16)}"
    # On a file system a reader must not see half of it.
    local = system.type_name == "local"
    if local:
        system.create_dir(folder, recursive=True)
    target = f"{path}.new" if local else path
    with system.open_output_stream(target) as stream:
        stream.write(text.encode("ascii"))
    if local:
        system.move(target, path)
    return path


def _forget(system: FileSystem, path: str) -> None:
    # What cannot be removed is too old to count before long.
    with suppress(OSError):
        system.delete_file(path)


def _time(info: FileInfo) -> float:
    """Return when something was written; a store that does not tell keeps its own counsel."""
    return info.mtime.timestamp() if info.mtime is not None else time.time()


def _clocks() -> tuple[float, float]:
    return time.monotonic(), time.time()
