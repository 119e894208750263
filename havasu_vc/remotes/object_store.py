"""A folder or a bucket that holds data files: `file://`, `s3://`, `gs://`, `abfs://`.

    <url>/objects/<aa>/<bb>/<sha256>

Credentials, region and endpoint come from the environment, as every program of that
store takes them; none is ever written down. A file is hashed, then sent under its own name
in one piece that the store makes visible when it is whole. A folder is laid out as our own
store is, and files are linked or copied as between two of these. Sending a file twice
writes the same bytes, so no lock is needed (`claims` is for those who delete).
"""

from __future__ import annotations

import io
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pyarrow import NativeFile
from pyarrow.fs import FileInfo, FileSelector, FileSystem

from havasu_vc.errors import DataFileNotFoundError, LockedError, StorageError
from havasu_vc.records import dataclass
from havasu_vc.remotes.neighbour import bring_all
from havasu_vc.remotes.protocol import Claim, Report, WantedFile, check_data_url, each
from havasu_vc.remotes.urls import hidden_secrets
from havasu_vc.store.command import GitConfig
from havasu_vc.store.copying import copy_checked
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.locks import has_ended, this_process
from havasu_vc.store.object_systems import object_system, remove_object, reporting_store_errors
from havasu_vc.store.object_urls import folder_below

__all__ = [
    "Claims",
    "ObjectStoreRemote",
    "Sweep",
    "claimed",
    "read_bounded",
    "read_claims",
    "sweeping",
]


AT_ONCE = 8 << 20
"""Files of so many bytes are sent in one piece."""
MANY = 256
"""From so many files on, the store is listed instead of asked for each."""


def open_place(url: str, config: GitConfig) -> ObjectStoreRemote:
    """Return the data files at a URL; who asks is told by the environment, as elsewhere."""
    return ObjectStoreRemote(url)


class ObjectStoreRemote:
    """Data files below one URL."""

    knows = True
    """It can be asked and listed."""
    has_url = True
    """It has one."""

    def __init__(self, url: str) -> None:
        check_data_url(url)
        self._url = url
        self._name = hidden_secrets(url)
        found = object_system(url)
        self._system: FileSystem = found[0]
        self._root: str = found[1]
        local = self._system.type_name == "local"
        self._folder = DataFileStore(Path(self._root)) if local else None

    @property
    def name(self) -> str:
        """Its URL, without secrets."""
        return self._name

    @contextmanager
    def sending(self, files: Sequence[WantedFile], commits: Sequence[str] = ()) -> Iterator[Claim]:
        """Claim the files, and what commits name."""
        claim = claimed(self._system, self._root, files, commits)
        with reporting_store_errors(self._name, "written"), claim as held:
            yield held

    def claims(self) -> Claims:
        """Return what pushes rely on now."""
        with reporting_store_errors(self._name, "asked"):
            return read_claims(self._system, self._root, time.time())

    @contextmanager
    def sweeping(self) -> Iterator[Sweep]:
        """Keep new pushes waiting while files are deleted."""
        with (
            reporting_store_errors(self._name, "written"),
            sweeping(self._system, self._root) as sweep,
        ):
            yield sweep

    def lacking(self, files: Sequence[WantedFile]) -> list[WantedFile]:
        """Return those files that are not there with their size."""
        if not files:
            return []
        with reporting_store_errors(self._name, "asked"):
            if len(files) >= MANY:
                there = dict(self.listed())
            else:
                infos = self._system.get_file_info([self._path(file.sha256) for file in files])
                there = {info.base_name: info.size for info in infos if info.is_file}
        return [file for file in files if there.get(file.sha256) != file.size]

    def listed(self) -> Iterator[tuple[str, int]]:
        """Yield the name and size of all that is there."""
        selector = FileSelector(f"{self._root}/objects", allow_not_found=True, recursive=True)
        with reporting_store_errors(self._name, "listed"):
            for info in self._system.get_file_info(selector):
                if info.is_file:
                    yield info.base_name, info.size

    def upload(
        self, files: Sequence[WantedFile], store: DataFileStore, report: Report
    ) -> Sequence[WantedFile]:
        """Send files, each after it was hashed."""
        if self._folder is None:
            each(files, lambda file: self._send(file, store, report))
        else:
            bring_all(files, store, self._folder, report)
        return files

    def _send(self, file: WantedFile, store: DataFileStore, report: Report) -> None:
        """Send a file to a store, which shows it when its stream is closed."""
        store.check_size(file.sha256, file.size)
        store.verify(file.sha256)
        path = self._path(file.sha256)
        with (
            reporting_store_errors(self._name, "written"),
            store.path(file.sha256).open("rb") as source,
        ):
            if file.size <= AT_ONCE:
                # Nothing can go wrong with it any more when it is begun: another push may
                # have sent the same file by now, which half of one would replace.
                held = io.BytesIO()
                copy_checked(source, held, file.sha256, file.size, report)
                with self._system.open_output_stream(path) as stream:
                    stream.write(held.getbuffer())
                return
            stream = self._system.open_output_stream(path)
            try:
                copy_checked(source, stream, file.sha256, file.size, report)
            except BaseException:
                # Closing a stream makes it visible.
                with suppress(OSError):
                    stream.close()
                    self._system.delete_file(path)
                raise
            stream.close()

    def download(self, files: Sequence[WantedFile], store: DataFileStore, report: Report) -> None:
        """Bring files into the store, checked while they come."""
        if self._folder is None:
            each(files, lambda file: self._bring(file, store, report))
            store.commit_all()
        else:
            bring_all(files, self._folder, store, report)

    def _bring(self, file: WantedFile, store: DataFileStore, report: Report) -> None:
        temporary = store.temporary()
        try:
            with (
                reporting_store_errors(self._name, "read", passing=(FileNotFoundError,)),
                self._system.open_input_stream(self._path(file.sha256)) as source,
                temporary.open("xb") as target,
            ):
                copy_checked(source, target, file.sha256, file.size, report)
            store.put(temporary, sha256=file.sha256)
        except FileNotFoundError as error:
            raise DataFileNotFoundError(file.sha256) from error
        finally:
            temporary.unlink(missing_ok=True)

    def delete(self, names: Iterable[str]) -> None:
        """Remove files."""
        with reporting_store_errors(self._name, "written"):
            for name in names:
                with suppress(FileNotFoundError):
                    self._system.delete_file(self._path(name))

    def unfinished(self, age: float, now: float) -> dict[str, int]:
        """Return what those left who died while they wrote, by path, with its size.

        Files of one writer stay together: the newest of them must have an age at a time that
        the store's clock tells.
        """
        folder = f"{self._root}/temporary"
        selector = FileSelector(folder, allow_not_found=True, recursive=True)
        writers: dict[str, list[FileInfo]] = {}
        with reporting_store_errors(self._name, "listed"):
            for info in self._system.get_file_info(selector):
                if info.is_file:
                    writer = info.path.removeprefix(f"{folder}/").partition("/")[0]
                    writers.setdefault(writer, []).append(info)
        return {
            info.path: info.size
            for infos in writers.values()
            if now - max(map(_time, infos)) >= age
            for info in infos
        }

    def delete_unfinished(self, paths: Iterable[str]) -> None:
        """Remove what `unfinished` found; nothing that stands for a folder is left."""
        if self._folder is None:
            for path in paths:
                remove_object(folder_below(self._url, path.removeprefix(f"{self._root}/")))
            return
        with reporting_store_errors(self._name, "written"):
            for path in paths:
                with suppress(FileNotFoundError):
                    self._system.delete_file(path)

    def read_note(self, name: str) -> bytes:
        """Return a small document beside the files; nothing if there is none."""
        with reporting_store_errors(self._name, "read", passing=(FileNotFoundError,)):
            try:
                with self._system.open_input_stream(f"{self._root}/{name}") as stream:
                    return read_bounded(stream, name)
            except FileNotFoundError:
                return b""

    def write_note(self, name: str, data: bytes) -> None:
        """Write a small document beside the files."""
        with (
            reporting_store_errors(self._name, "written"),
            self._system.open_output_stream(f"{self._root}/{name}") as stream,
        ):
            stream.write(data)

    def _path(self, name: str) -> str:
        return f"{self._root}/objects/{name[:2]}/{name[2:4]}/{name}"


# How pushes and prunings of one object store keep out of each other's way, without locks.
#
#     <root>/pushes/<random>      what a push relies on: files and commits, one per line
#     <root>/prunings/<random>    a pruning that is going on
#
# A push writes its claim first, then looks for prunings and waits for their end, and only
# then looks what the refs reach and what the store lacks; the claim goes when its refs have
# moved. A pruning writes its note first, then looks for others and gives way to them, then
# reads the claims, and only then the refs. Whoever is second sees the first, whatever else
# happens between. Either may die: a claim counts for a week, a note for an hour, and a
# pruning deletes nothing once its note is half as old. Ages are told by the store's clock
# alone, since those of people differ.

CLAIM_SECONDS = 7 * 24 * 3600.0
NOTE_SECONDS = 3600.0
SWEEP_SECONDS = NOTE_SECONDS / 2
MOST_BYTES = 256 << 20
"""The size of a claim of some million files."""
PATIENCE = 120.0
PAUSE = 0.2
_FILE = re.compile(r"[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Claims:
    """Claims of pushes that are going on."""

    files: frozenset[str] = frozenset()
    """Data files, by name."""
    commits: frozenset[str] = frozenset()
    """Commits of the remote, with the data of all their history."""


class Sweep:
    """A pruning that is going on."""

    def __init__(self, claims: Claims, began: float) -> None:
        self.claims = claims
        """The claims of pushes."""
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
