"""A folder or a bucket that holds data files: `file://`, `s3://`, `gs://`, `abfs://`.

    <url>/objects/<aa>/<bb>/<sha256>

Credentials, region and endpoint come from the environment, as every program of that
store takes them; none is ever written down. A file is sent under its own name in one
piece that the store makes visible when it is whole; on a file system it is renamed into
place. Sending a file twice writes the same bytes, so no lock is needed.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from pyarrow.fs import FileSelector, FileSystem

from havasu_vc.errors import DataFileNotFoundError, InvalidArgumentError, StorageError
from havasu_vc.remotes.moving import copy_checked, each
from havasu_vc.remotes.protocol import Report, WantedFile
from havasu_vc.remotes.urls import hidden_secrets
from havasu_vc.store.files import DataFileStore

__all__ = ["SCHEMES", "ObjectStoreRemote"]

SCHEMES = ("file", "s3", "gs", "gcs", "abfs", "abfss")
MANY = 256
"""From so many files on, the store is listed instead of asked for each."""


class ObjectStoreRemote:
    """Data files below one URL."""

    def __init__(self, url: str) -> None:
        self._name = hidden_secrets(url)
        if urlsplit(url).scheme not in SCHEMES:
            raise InvalidArgumentError(
                f"data cannot be kept at {self._name}",
                hints=(f"schemes: {', '.join(SCHEMES)}",),
            )
        try:
            found = FileSystem.from_uri(_with_environment(url))
        except (OSError, ValueError) as error:
            raise StorageError(f"{self._name} cannot be opened: {_line(error)}") from error
        self._system: FileSystem = found[0]
        self._root: str = found[1].rstrip("/") + "/objects"

    @property
    def name(self) -> str:
        """Its URL, without secrets."""
        return self._name

    def lacking(self, files: Sequence[WantedFile]) -> list[WantedFile]:
        """Return those files that are not there with their size."""
        if not files:
            return []
        try:
            if len(files) >= MANY:
                there = self._listed()
            else:
                infos = self._system.get_file_info([self._path(file) for file in files])
                there = {info.base_name: info.size for info in infos if info.is_file}
        except OSError as error:
            raise self._failed("asked", error) from error
        return [file for file in files if there.get(file.sha256) != file.size]

    def _listed(self) -> dict[str, int]:
        selector = FileSelector(self._root, allow_not_found=True, recursive=True)
        return {
            info.base_name: info.size
            for info in self._system.get_file_info(selector)
            if info.is_file
        }

    def upload(self, files: Sequence[WantedFile], store: DataFileStore, report: Report) -> None:
        """Send files, each checked while it is read."""
        each(files, lambda file: self._send(file, store, report))

    def _send(self, file: WantedFile, store: DataFileStore, report: Report) -> None:
        path, local = self._path(file), store.path(file.sha256)
        rename = self._system.type_name == "local"
        target = f"{path}.{secrets.token_hex(8)}" if rename else path
        try:
            if rename:
                self._system.create_dir(path.rpartition("/")[0], recursive=True)
            with local.open("rb") as source:
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
        except OSError as error:
            if isinstance(error, StorageError):
                raise
            raise self._failed("written", error) from error

    def _abandon(self, stream: Any, target: str) -> None:
        """Leave nothing of a file that went wrong: closing a stream would make it whole."""
        abort = getattr(stream, "abort", None)
        if abort is not None:
            abort()
            return
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
                self._system.open_input_stream(self._path(file)) as source,
                temporary.open("xb") as target,
            ):
                copy_checked(source, target, file, report)
            store.put(temporary, sha256=file.sha256)
        except FileNotFoundError as error:
            raise DataFileNotFoundError(file.sha256) from error
        except OSError as error:
            if isinstance(error, StorageError):
                raise
            raise self._failed("read", error) from error
        finally:
            temporary.unlink(missing_ok=True)

    def _path(self, file: WantedFile) -> str:
        name = file.sha256
        return f"{self._root}/{name[:2]}/{name[2:4]}/{name}"

    def _failed(self, what: str, error: OSError) -> StorageError:
        return StorageError(
            f"{self._name} cannot be {what}: {_line(error)}",
            hints=("check the URL, the network and the credentials in the environment",),
        )


def _with_environment(url: str) -> str:
    """Return an S3 URL with the endpoint that the environment names, as AWS's own tools take it."""
    parts = urlsplit(url)
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if parts.scheme != "s3" or endpoint is None or "endpoint_override" in parts.query:
        return url
    found = urlsplit(endpoint)
    options = [*parse_qsl(parts.query), ("endpoint_override", found.netloc)]
    options.append(("scheme", found.scheme or "https"))
    return urlunsplit((parts.scheme, parts.netloc, parts.path, urlencode(options), ""))


def _sync(path: str) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__
