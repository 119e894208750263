"""A folder or a bucket that holds data files: `file://`, `s3://`, `gs://`, `abfs://`.

    <url>/objects/<aa>/<bb>/<sha256>

Credentials, region and endpoint come from the environment, as every program of that
store takes them; none is ever written down. A file is hashed, then sent under its own name
in one piece that the store makes visible when it is whole; on a file system it is renamed
into place. Sending a file twice writes the same bytes, so no lock is needed (`claims` is
for those who delete).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from pyarrow.fs import FileSelector, FileSystem

from havasu_vc.errors import (
    DataFileNotFoundError,
    InvalidArgumentError,
)
from havasu_vc.remotes.claims import Sweep, claimed, sweeping
from havasu_vc.remotes.moving import copy_checked, each
from havasu_vc.remotes.protocol import Report, WantedFile
from havasu_vc.remotes.urls import has_secrets, hidden_secrets
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.object_systems import object_system, reporting_store_errors

__all__ = ["SCHEMES", "ObjectStoreRemote", "check_data_url"]

SCHEMES = ("file", "s3", "gs", "gcs", "abfs", "abfss")
MANY = 256
"""From so many files on, the store is listed instead of asked for each."""


def check_data_url(url: str) -> None:
    """Raise unless data can be kept at a URL, and the URL may be written down."""
    if urlsplit(url).scheme not in SCHEMES:
        raise InvalidArgumentError(
            f"data cannot be kept at {hidden_secrets(url)}",
            hints=(f"schemes: {', '.join(SCHEMES)}",),
        )
    if has_secrets(url):
        raise InvalidArgumentError(
            f"{hidden_secrets(url)} was given with a secret, which would be written down",
            hints=("credentials are taken from the environment, as other programs take them",),
        )


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

    @property
    def name(self) -> str:
        """Its URL, without secrets."""
        return self._name

    @contextmanager
    def sending(self, files: Sequence[WantedFile], *, outlasting: bool = False) -> Iterator[None]:
        """Claim the files."""
        claim = claimed(self._system, self._root, files, outlasting=outlasting)
        with reporting_store_errors(self._name, "written"), claim:
            yield

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

    def upload(self, files: Sequence[WantedFile], store: DataFileStore, report: Report) -> None:
        """Send files, each after it was hashed."""
        each(files, lambda file: self._send(file, store, report))

    def _send(self, file: WantedFile, store: DataFileStore, report: Report) -> None:
        path, rename = self._path(file.sha256), self._system.type_name == "local"
        target = f"{path}.{secrets.token_hex(8)}" if rename else path
        store.check_size(file.sha256, file.size)
        store.verify(file.sha256)
        with reporting_store_errors(self._name, "written"):
            if rename:
                self._system.create_dir(path.rpartition("/")[0], recursive=True)
            with store.path(file.sha256).open("rb") as source:
                stream = self._system.open_output_stream(target)
                try:
                    copy_checked(source, stream, file, report)
                except BaseException:
                    self._abandon(stream, target)
                    raise
                stream.close()
            if rename:
                _sync(target)
                self._system.move(target, path)

    def _abandon(self, stream: Any, target: str) -> None:
        """Leave nothing of a file that went wrong: closing a stream makes it visible."""
        stream.close()
        self._system.delete_file(target)

    def download(self, files: Sequence[WantedFile], store: DataFileStore, report: Report) -> None:
        """Bring files into the store, checked while they come."""
        each(files, lambda file: self._bring(file, store, report))
        store.commit_all()

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

    def read_note(self, name: str) -> bytes:
        """Return a small document beside the files; nothing if there is none."""
        with reporting_store_errors(self._name, "read", passing=(FileNotFoundError,)):
            try:
                with self._system.open_input_stream(f"{self._root}/{name}") as stream:
                    return bytes(stream.read())
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


def _sync(path: str) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
