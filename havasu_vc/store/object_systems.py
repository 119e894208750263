"""File systems by URL, one per place and process, since connections cost more than requests.

A server that says nothing for a minute is given up, after a few tries. What a store says
of something that went wrong becomes one line, by `reporting_store_errors`. An answer to a
question (what is there, was it written) that does not end is cut off: the libraries would keep
all of it.

Data files that go to a bucket as soon as they are written, by tasks on any machine.

A file is written to this machine's disk, hashed there, and put once under its final name, if
nothing has that name: never moved, since stores cannot. So whoever writes the same rows again
finds its file there, and nobody sees half of one.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import struct
import tempfile
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from havasu_vc.errors import HavasuError, MissingProgramError, StorageError
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.object_urls import Arguments, folder_below, shown_url, system_arguments

__all__ = [
    "MOST_OF_AN_ANSWER",
    "FarFileStore",
    "create_object",
    "file_system_at",
    "may_put",
    "object_size",
    "object_system",
    "put_object",
    "remove_folder",
    "remove_object",
    "reporting_store_errors",
    "url_below",
]

CONNECT_SECONDS = 10
SILENT_SECONDS = 60
"""How long a server may take to answer, or to go on answering."""
TRIES = 3

_AROUND = re.compile(r"^When .{0,2000}?: (?=AWS Error )| \(Request ID: [^)]*\)| after \d+ ms")
"""The words of a library before and after what matters."""
_DOCUMENT = re.compile(r"<Code>(\w{1,60})</Code>\s*<Message>([^<\n]{1,200})")
"""The part of a store's own document that tells a person what it refused."""
_HINT = "check the URL, the network and the credentials in the environment"
_REFUSED = "check the credentials in the environment, and what they may do there"
_HINTS = {
    "NO_SUCH_BUCKET": "make the bucket, or correct the URL",
    "ACCESS_DENIED": _REFUSED,
    "INVALID_ACCESS_KEY_ID": _REFUSED,
    "INVALID_CLIENT_TOKEN_ID": _REFUSED,
    "SIGNATURE_DOES_NOT_MATCH": _REFUSED,
    "NETWORK_CONNECTION": "check the network, and AWS_ENDPOINT_URL where the store is not Amazon's",
}


MOST_OF_AN_ANSWER = 16 << 20
"""Bytes that answer a question at most; a page of a thousand long names takes four million."""
_LOOKS = 0.03
"""Seconds between two looks at what has come."""
_BYTES_ACKED = 120  # in Linux's `tcp_info`, followed by how many were received


class _Watch:
    """A look at our connections to stores, from a thread, while anybody waits for an answer.

    What a connection brings since something was last sent by it is one answer. No library tells
    how much that is, or takes a limit; Linux does, by connection, and elsewhere none is set. While
    a file is read nothing is cut off: its connection looks like any other, and may bring much.
    """

    def __init__(self) -> None:
        self.ports = {443}
        """Of stores; other connections of the process are not ours to cut."""
        self.cut = 0
        """How many answers were cut off."""
        self._lock = threading.Lock()
        self._waiting = self._reading = 0
        self._over = threading.Event()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Watch while the caller waits."""
        with self._lock:
            self._waiting += 1
            if self._waiting == 1:
                self._over = threading.Event()
                threading.Thread(target=self._look, args=(self._over,), daemon=True).start()
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= 1
                if not self._waiting:
                    self._over.set()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Cut nothing off while the caller reads."""
        with self._lock:
            self._reading += 1
        try:
            yield
        finally:
            with self._lock:
                self._reading -= 1

    def _look(self, over: threading.Event) -> None:
        before: dict[str, tuple[int, int]] = {}
        while not over.wait(_LOOKS):
            if self._reading:
                before = {}
                continue
            now: dict[str, tuple[int, int]] = {}
            for number in os.listdir("/proc/self/fd"):
                with suppress(OSError):
                    name = os.readlink(f"/proc/self/fd/{number}")
                    if name.startswith("socket:"):
                        now[name] = self._look_at(int(number), before.get(name))
            before = now

    def _look_at(self, number: int, before: tuple[int, int] | None) -> tuple[int, int]:
        """Return what a connection sent, and had received by then; cut off a long answer."""
        with socket.socket(fileno=os.dup(number)) as found:
            # The name of a socket of this machine, as a JVM or a browser has, is a text.
            of_network = found.family in (socket.AF_INET, socket.AF_INET6)
            if not of_network or found.type != socket.SOCK_STREAM:
                return 0, 0
            if found.getpeername()[1] not in self.ports:
                return 0, 0
            told = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
            sent, received = struct.unpack_from("=QQ", told, _BYTES_ACKED)
            if before is None or before[0] != sent:
                return sent, received
            if received - before[1] > MOST_OF_AN_ANSWER:
                self.cut += 1
                found.shutdown(socket.SHUT_RDWR)
            return before


_WATCH = _Watch()


def _asking() -> AbstractContextManager[None]:
    """Cut off answers without end, where that can be told."""
    return _WATCH.waiting() if hasattr(socket, "TCP_INFO") and _PROC.is_dir() else nullcontext()


_PROC = Path("/proc/self/fd")


@contextmanager
def reporting_store_errors(
    name: str,
    what: str,
    *,
    kinds: tuple[type[Exception], ...] = (OSError,),
    passing: tuple[type[OSError], ...] = (),
) -> Iterator[None]:
    """Turn what a store says into StorageError: `name` cannot be `what`; some errors pass.

    What is read may be long; any other answer ends before long, or is cut off.
    """
    cut = _WATCH.cut
    try:
        with _WATCH.reading() if what == "read" else _asking():
            yield
    except HavasuError:
        raise  # some are OSErrors, and have said what they mean
    except kinds as error:
        if isinstance(error, passing):
            raise
        if _WATCH.cut > cut:
            raise StorageError(
                f"{name} cannot be {what}: its answer was longer than {MOST_OF_AN_ANSWER:,} bytes",
                hints=(_HINT,),
            ) from error
        reason, sign = _reason(error)
        hint = next((hint for each, hint in _HINTS.items() if each in sign), _HINT)
        raise StorageError(f"{name} cannot be {what}: {reason}", hints=(hint,)) from error


def _reason(error: Exception) -> tuple[str, str]:
    """Return why a store refused, in a line, and the words that tell it from other reasons."""
    text = str(error).strip()
    document = _DOCUMENT.search(text)
    if document is not None:
        code, said = document.groups()
        return f"{code}: {said}", re.sub("(?<=[a-z])(?=[A-Z])", "_", code).upper()
    lines = text.splitlines() or [type(error).__name__]
    reason = _AROUND.sub("", lines[0])[:300]
    return reason, reason


def object_system(url: str) -> tuple[Any, str]:
    """Return the file system that a URL names, and the path in it."""
    from pyarrow import fs

    kind, arguments, path = system_arguments(url, os.environ)
    # What is wrong with a URL is told by whatever the library has at hand.
    kinds = (OSError, ValueError, TypeError)
    with reporting_store_errors(shown_url(url), "opened", kinds=kinds):
        if kind == "uri":
            found, path = fs.FileSystem.from_uri(url)
            return found, path.rstrip("/")
        return file_system_at(kind, arguments), path


@lru_cache(maxsize=16)
def file_system_at(kind: str, arguments: Arguments) -> Any:
    """Return a file system of a kind; one made of the same arguments is the same."""
    from pyarrow import fs  # with it come clients of all stores: 35 ms and 8 MB

    given = dict(arguments)
    for place in (given.get("endpoint_override"), given.get("blob_storage_authority")):
        if place and (
            port := urlsplit(f"//{place}").port or (given.get("scheme") == "http" and 80)
        ):
            _WATCH.ports.add(port)
    match kind:
        case "s3":
            bucket = given.pop("bucket")
            if "region" not in given and "endpoint_override" not in given:
                given["region"] = fs.resolve_s3_region(bucket)
            tries = fs.AwsStandardS3RetryStrategy(max_attempts=TRIES)
            return fs.S3FileSystem(
                retry_strategy=tries,
                connect_timeout=CONNECT_SECONDS,
                request_timeout=SILENT_SECONDS,
                allow_delayed_open=True,  # a small file is sent in one request
                **given,
            )
        case "gs":
            return fs.GcsFileSystem(retry_time_limit=timedelta(seconds=SILENT_SECONDS), **given)
        case _:
            return fs.AzureFileSystem(**given)


# An object made only where there is none of its name: how two writers are told apart.
#
# S3, Google's and Azure's stores refuse a write that says `If-None-Match: *` once the object is
# there. pyarrow cannot say so; the optional library `obstore` can (`pip install
# 'havasu-vc[bucket]'`). It knows fewer ways of being told credentials than pyarrow does: no
# profiles of a file. Where it is not installed, or the store does not answer it, nothing is
# said here about the object, and the caller looks, writes and looks again.


def create_object(url: str, data: bytes) -> bool | None:
    """Make an object unless there is one, and return whether it was; None where that is unknown."""
    try:
        from obstore import put
        from obstore.exceptions import AlreadyExistsError, BaseError
    except ImportError:
        return None
    try:
        store, key = _store(url, os.environ)
        if store is None:
            return None
        with _asking():
            put(store, key, data, mode="create")
    except AlreadyExistsError:
        return False
    except (BaseError, OSError, ValueError):
        return None  # whoever writes by other means is told what is wrong
    return True


def object_size(url: str) -> int | None:
    """Return how many bytes an object has; None where there is none."""
    from pyarrow import fs

    system, path = object_system(url)
    with reporting_store_errors(shown_url(url), "looked for"):
        found = system.get_file_info(path)
    return int(found.size) if found.type is fs.FileType.File else None


def remove_object(url: str) -> None:
    """Remove an object."""
    if _removed(url, below=False):
        return
    system, path = object_system(url)
    with reporting_store_errors(shown_url(url), "removed"):
        system.delete_file(path)


def remove_folder(url: str) -> None:
    """Remove what is below a URL, if anything is."""
    if _removed(url, below=True):
        return
    system, path = object_system(url)
    with reporting_store_errors(shown_url(url), "removed"), suppress(FileNotFoundError):
        system.delete_dir(path)


def _removed(url: str, *, below: bool) -> bool:
    """Remove an object, or all below it, by obstore if that can: no empty folder is made of it."""
    try:
        from obstore import delete, list
        from obstore.exceptions import BaseError
    except ImportError:
        return False
    with reporting_store_errors(shown_url(url), "removed", kinds=(BaseError, OSError, ValueError)):
        store, key = _store(url, os.environ)
        if store is None:
            return False
        for found in list(store, prefix=key) if below else [[{"path": key}]]:
            delete(store, [each["path"] for each in found])
    return True


def put_object(url: str, content: Path | bytes) -> None:
    """Make an object, of a file or of bytes, unless there is one of its name."""
    if _emulated(url, os.environ):
        if object_size(url) is None:
            _written(url, content)
        return
    try:
        from obstore import put
        from obstore.exceptions import AlreadyExistsError, BaseError
    except ImportError as error:
        raise MissingProgramError(
            "tasks write to a bucket by obstore, which is not installed where they run",
            hints=("`pip install 'havasu-vc[bucket]'`",),
        ) from error
    with reporting_store_errors(shown_url(url), "written", kinds=(BaseError, OSError, ValueError)):
        store, key = _store(url, os.environ)
        if store is None:
            raise StorageError(
                f"{shown_url(url)} cannot be written: obstore does not know these credentials",
                hints=("give them as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",),
            )
        with suppress(AlreadyExistsError):
            put(store, key, content, mode="create")


def _store(url: str, environment: Mapping[str, str]) -> tuple[Any, str]:
    """Return obstore's store of a URL, None where it cannot be had, and the object's name in it."""
    parts = urlsplit(url)
    kind, arguments, _ = system_arguments(url, environment)
    key = parts.path.lstrip("/")
    place = dict(arguments)
    if kind == "s3":
        if not _knows_credentials(environment):
            return None, key
        region = object_system(url)[0].region
        secure = place.get("scheme", "https") == "https"
        host = place.get("endpoint_override")
        endpoint = None if host is None else f"{place.get('scheme', 'https')}://{host}"
        return _s3(parts.netloc, region, endpoint, secure), key
    if _emulated(url, environment):
        return None, key
    return _other(f"{parts.scheme}://{parts.netloc}"), key


def _emulated(url: str, environment: Mapping[str, str]) -> bool:
    """Whether a server stands for Google's or Azure's, which speaks what pyarrow speaks alone."""
    kind, arguments, _ = system_arguments(url, environment)
    told = {name for name, _ in arguments}
    return kind in ("gs", "abfs") and bool(told & {"endpoint_override", "blob_storage_authority"})


def _written(url: str, content: Path | bytes) -> None:
    system, path = object_system(url)
    with reporting_store_errors(shown_url(url), "written"), system.open_output_stream(path) as file:
        if isinstance(content, bytes):
            file.write(content)
            return
        with content.open("rb") as source:
            shutil.copyfileobj(source, file)


def _knows_credentials(environment: Mapping[str, str]) -> bool:
    """Whether credentials are told in a way that obstore knows, so that it need not guess."""
    if environment.get("AWS_ACCESS_KEY_ID") or environment.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
        return True
    home = Path.home() / ".aws"
    shared = environment.get("AWS_SHARED_CREDENTIALS_FILE") or home / "credentials"
    settings = environment.get("AWS_CONFIG_FILE") or home / "config"
    return not (environment.get("AWS_PROFILE") or any(map(os.path.exists, (shared, settings))))


@lru_cache(maxsize=16)
def _s3(bucket: str, region: str, endpoint: str | None, secure: bool) -> Any:
    from obstore.store import S3Store

    more: dict[str, Any] = {} if endpoint is None else {"endpoint": endpoint}
    return S3Store(
        bucket,
        region=region,
        client_options={
            "allow_http": not secure,
            "connect_timeout": "5s",
            "timeout": f"{SILENT_SECONDS}s",
        },
        retry_config={"max_retries": TRIES - 1},
        **more,
    )


@lru_cache(maxsize=16)
def _other(url: str) -> Any:
    from obstore.store import from_url

    return from_url(url, client_options={"timeout": f"{SILENT_SECONDS}s"})


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


def may_put(url: str) -> bool:
    """Whether this machine can make objects below a URL only where there are none of a name."""
    try:
        _probe(url)
    except (StorageError, MissingProgramError):
        return False
    return True


@lru_cache(maxsize=16)
def _probe(url: str) -> None:
    """Make and remove an object, once for each process: what cannot be done is said at once."""
    probe = folder_below(url, f"temporary/{uuid.uuid4().hex}")
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
    return folder_below(url, f"objects/{file[:2]}/{file[2:4]}/{file}")
