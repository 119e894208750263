"""Data files that go to a bucket as soon as they are written, by tasks on any machine.

A file is written to this machine's disk, hashed there, and put once under its final name, if
nothing has that name: never moved, since stores cannot. So whoever writes the same rows again
finds its file there, and nobody sees half of one.
"""

from __future__ import annotations

import platform
import shutil
import tempfile
import uuid
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit, urlunsplit

from havasu_vc.errors import StorageError
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.object_systems import object_size, put_object, remove_object

__all__ = ["FarFileStore", "url_below"]


class FarFileStore(DataFileStore):
    """Data files below a URL, with a copy here of what was written. A context manager."""

    __slots__ = ("url",)

    def __init__(self, url: str) -> None:
        """Use what is below a URL; raises where this machine may not write there."""
        _probe(url)
        super().__init__(Path(tempfile.mkdtemp(prefix="havasu-vc-")))
        self.url = url

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        shutil.rmtree(self.root, ignore_errors=True)

    def put(self, temporary: Path, *, sha256: str | None = None) -> tuple[str, int]:
        """Take a complete file in, and have it at the URL too."""
        name, size = super().put(temporary, sha256=sha256)
        url = url_below(self.url, name)
        # Asked first: else all of it is sent only to be refused.
        if object_size(url) != size:
            put_object(url, self.path(name))
        return name, size


@lru_cache(maxsize=16)
def _probe(url: str) -> None:
    """Make and remove an object, once for each process: what cannot be done is said at once."""
    parts = urlsplit(url)
    path = f"{parts.path.rstrip('/')}/temporary/{uuid.uuid4().hex}"
    probe = urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
    try:
        put_object(probe, b"probe")
        remove_object(probe)
    except StorageError as error:
        raise StorageError(
            f"the worker on {platform.node()}: {error.message}",
            hints=("nothing was committed", *error.hints),
        ) from error


def url_below(url: str, file: str) -> str:
    """Return the URL of a data file.

    >>> url_below("s3://bucket/data?region=x", "abcd")
    's3://bucket/data/objects/ab/cd/abcd?region=x'
    """
    parts = urlsplit(url)
    path = f"{parts.path.rstrip('/')}/objects/{file[:2]}/{file[2:4]}/{file}"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
