"""How pushes and prunings of one object store keep out of each other's way, without locks.

    <root>/pushes/<random>    what a push is about to rely on: file names, one per line
    <root>/pruning            when a pruning began to delete, in seconds since 1970

A push writes its claim first, then looks for a pruning and waits for its end, and only
then looks what the store lacks; the claim goes when its refs have moved. A pruning writes
its note first, then reads the claims, and only then the refs. Whoever is second sees the
first, whatever else happens between. Either may die: a claim counts for a week, and a
pruning deletes nothing once its note is half as old as those who wait for it think is dead.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyarrow.fs import FileSelector, FileSystem

from havasu_vc.errors import LockedError
from havasu_vc.remotes.protocol import WantedFile

__all__ = ["Sweep", "claimed", "sweeping"]

CLAIM_SECONDS = 7 * 24 * 3600.0
NOTE_SECONDS = 3600.0
PATIENCE = 120.0
PAUSE = 0.2


class Sweep:
    """A pruning that is going on."""

    def __init__(self, root: str, claimed: frozenset[str]) -> None:
        self.claimed = claimed
        """Files that pushes rely on."""
        self._root = root
        self._until = time.monotonic() + NOTE_SECONDS / 2

    def check(self) -> None:
        """Raise when it lasts so long that others will take it for dead."""
        if time.monotonic() > self._until:
            raise LockedError(
                "pruning took too long, and stopped where it was", hints=("prune again",)
            )


@contextmanager
def claimed(
    system: FileSystem,
    root: str,
    files: Sequence[WantedFile],
    *,
    patience: float = PATIENCE,
    outlasting: bool = False,
) -> Iterator[None]:
    """Claim files for a push, after any pruning has ended; leave the claim if it must outlast."""
    path = f"{root}/pushes/{secrets.token_hex(16)}"
    if system.type_name == "local":
        system.create_dir(f"{root}/pushes", recursive=True)
    _write(system, path, "".join(f"{file.sha256}\n" for file in files))
    try:
        deadline = time.monotonic() + patience
        while (began := _number(system, f"{root}/pruning")) is not None:
            if time.time() - began > NOTE_SECONDS:
                break
            if time.monotonic() > deadline:
                raise LockedError(
                    "data files are being pruned there", hints=("wait until that has ended",)
                )
            time.sleep(PAUSE)
        yield
    finally:
        if not outlasting:
            system.delete_file(path)


@contextmanager
def sweeping(system: FileSystem, root: str) -> Iterator[Sweep]:
    """Tell pushes to wait, and find out what earlier ones rely on."""
    path = f"{root}/pruning"
    began = _number(system, path)
    if began is not None and time.time() - began < NOTE_SECONDS:
        raise LockedError(
            "somebody else is pruning data files there, or died doing so",
            hints=("try again in an hour",),
        )
    if system.type_name == "local":
        system.create_dir(root, recursive=True)
    _write(system, path, f"{time.time():.0f}")
    try:
        yield Sweep(root, frozenset(_claims(system, root)))
    finally:
        system.delete_file(path)


def _claims(system: FileSystem, root: str) -> Iterator[str]:
    oldest = time.time() - CLAIM_SECONDS
    selector = FileSelector(f"{root}/pushes", allow_not_found=True)
    for info in system.get_file_info(selector):
        if info.is_file and (info.mtime is None or info.mtime.timestamp() > oldest):
            try:
                with system.open_input_stream(info.path) as stream:
                    yield from stream.read().decode("ascii", "replace").split()
            except FileNotFoundError:
                continue  # that push has ended, and its refs are read later


def _write(system: FileSystem, path: str, text: str) -> None:
    # On a file system a reader must not see half of it.
    target = f"{path}.new" if system.type_name == "local" else path
    with system.open_output_stream(target) as stream:
        stream.write(text.encode("ascii"))
    if target != path:
        system.move(target, path)


def _number(system: FileSystem, path: str) -> float | None:
    try:
        with system.open_input_stream(path) as stream:
            return float(stream.read(64))
    except FileNotFoundError:
        return None
    except ValueError:
        return time.time()
