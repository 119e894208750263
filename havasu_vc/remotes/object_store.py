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
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pyarrow.fs import FileSelector, FileSystem

from havasu_vc.errors import (
    DataFileNotFoundError,
)
from havasu_vc.remotes.claims import Claims, Sweep, claimed, read_bounded, read_claims, sweeping
from havasu_vc.remotes.data_urls import check_data_url
from havasu_vc.remotes.moving import copy_checked, each
from havasu_vc.remotes.neighbour import bring_all
from havasu_vc.remotes.protocol import Claim, Report, WantedFile
from havasu_vc.remotes.urls import hidden_secrets
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.object_systems import object_system, reporting_store_errors

__all__ = ["ObjectStoreRemote"]

AT_ONCE = 8 << 20
"""Files of so many bytes are sent in one piece."""
MANY = 256
"""From so many files on, the store is listed instead of asked for each."""


class ObjectStoreRemote:
    """Data files below one URL."""

    knows = True
    """It can be asked and listed."""

    def __init__(self, url: str) -> None:
        check_data_url(url)
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
        with reporting_store_errors(self._name, "read"):
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
                copy_checked(source, held, file, report)
                with self._system.open_output_stream(path) as stream:
                    stream.write(held.getbuffer())
                return
            stream = self._system.open_output_stream(path)
            try:
                copy_checked(source, stream, file, report)
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
                copy_checked(source, target, file, report)
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

    def delete_unfinished(self) -> None:
        """Remove what was left by those who died while they sent, where that can be told."""
        if self._folder is not None:
            self._folder.delete_stale()

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
