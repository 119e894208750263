"""Downloads from a Git LFS server that asks for nothing special, without the client.

The client hashes what comes, and we would hash it again; it starts a dozen processes, too.
So where a server gives files to whoever asks, they are fetched here: one question for a
hundred files, several connections, each file hashed while it comes. Whatever is out of the
ordinary is left to the real client: other protocols, passwords, proxies, certificates,
settings of git-lfs or git for a host. What a server sends is bounded in size and in silence,
and headers that it gives for one host go to no other.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import ssl
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import field
from typing import Any
from urllib.parse import urljoin, urlsplit

from havasu_vc.errors import CorruptDataFileError, DataFileNotFoundError, HavasuError, StorageError
from havasu_vc.records import dataclass
from havasu_vc.remotes.protocol import Report, WantedFile, each
from havasu_vc.store.commits import read_commit
from havasu_vc.store.copying import copy_checked
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.refs import read_head
from havasu_vc.store.repository import GitRepository
from havasu_vc.store.trees import find_entry

__all__ = ["DirectDownloads", "direct_downloads", "endpoint_of"]

A_BATCH = 100
"""Files that are asked for in one request; servers refuse many more."""
SILENT_SECONDS = 60.0
"""How long a server may say nothing."""
LEAST_SPEED = 1024
"""Bytes a second; a file that comes slower never comes."""
_MOST_ANSWER = 4 << 20
_MOST_REDIRECTS = 4
_MEDIA = "application/vnd.git-lfs+json"
_OF_TRANSFERS = re.compile(r"lfs|http|remote\..*\.(lfs.*|proxy)", re.IGNORECASE | re.DOTALL)
_PLAIN = re.compile(
    r"(?:lfs\.(?:storage|locksverify|fetchinclude|fetchexclude|concurrenttransfers"
    r"|repositoryformatversion|(?:https?://.*)\.locksverify)"
    r"|http\.(?:receivepack|postbuffer|version|lowspeedlimit|lowspeedtime))",
    re.IGNORECASE,
)
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")
_CERTIFICATES = "GIT_SSL_CAINFO"
_OF_GIT = ("GIT_SSL_", "GIT_PROXY_", "GIT_HTTP_PROXY", "GIT_CONFIG_COUNT")


def endpoint_of(address: str) -> str | None:
    """Return where the LFS server of a git remote is by its address alone; None for others.

    >>> endpoint_of("https://example.org/maps/wells")
    'https://example.org/maps/wells.git/info/lfs'
    """
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or "@" in parts.netloc or parts.query:
        return None
    plain = address.rstrip("/")
    return f"{plain}{'' if plain.endswith('.git') else '.git'}/info/lfs"


def direct_downloads(
    repository: GitRepository, address: str, environment: Mapping[str, str]
) -> DirectDownloads | None:
    """Return what downloads from a remote without the client; None where that is not simple."""
    endpoint = endpoint_of(address)
    if endpoint is None or environment or _is_special(repository):
        return None
    return DirectDownloads(endpoint)


def _is_special(repository: GitRepository) -> bool:
    if any(
        n.lower() in _PROXIES or n.startswith(_OF_GIT) for n in os.environ if n != _CERTIFICATES
    ):
        return True
    if any(_OF_TRANSFERS.match(n) and not _PLAIN.fullmatch(n) for n in repository.config.names()):
        return True
    place = repository.work_tree
    if place is not None and (place / ".lfsconfig").exists():
        return True
    commit = read_head(repository).commit
    if commit is None:
        return False
    tree = read_commit(repository.objects, commit).tree
    return find_entry(repository.objects, tree, ".lfsconfig") is not None


@dataclass
class DirectDownloads:
    """Downloads from one LFS server."""

    endpoint: str
    """Its URL."""
    _local: threading.local = field(default_factory=threading.local, repr=False)
    _open: list[http.client.HTTPConnection] = field(default_factory=list, repr=False)

    def download(
        self, files: Sequence[WantedFile], store: DataFileStore, report: Report
    ) -> list[WantedFile]:
        """Bring files into the store; return those that the client should try.

        Raises for bytes that are wrong and for files that the server does not have, after all
        others have come.
        """
        try:
            return self._download(files, store, report)
        finally:
            while self._open:
                self._open.pop().close()
            self._local = threading.local()

    def _download(
        self, files: Sequence[WantedFile], store: DataFileStore, report: Report
    ) -> list[WantedFile]:
        left: list[WantedFile] = []
        wrong: list[HavasuError] = []
        lock = threading.Lock()
        for batch in _batches(files):
            try:
                actions = self._ask(batch)
            except (OSError, http.client.HTTPException, ValueError, RecursionError):
                return left + list(files[files.index(batch[0]) :])

            def bring(file: WantedFile, actions: Mapping[str, Any] = actions) -> None:
                try:
                    came = self._bring(file, actions.get(file.sha256), store, report)
                except TimeoutError as error:
                    raise StorageError(
                        f"{self.endpoint} has gone silent, or sends next to nothing",
                        hints=("what came is kept; doing it again goes on",),
                    ) from error
                except (CorruptDataFileError, DataFileNotFoundError) as error:
                    with lock:
                        wrong.append(error)
                    return
                if not came:
                    with lock:
                        left.append(file)

            each(batch, bring)
        store.commit_all()
        if wrong:
            raise wrong[0]
        return sorted(left)

    def _ask(self, files: Sequence[WantedFile]) -> dict[str, Any]:
        """Return what the server says of each file; raises when it wants more than the question."""
        body = json.dumps(
            {
                "operation": "download",
                "transfers": ["basic"],
                "objects": [{"oid": file.sha256, "size": file.size} for file in files],
                "hash_algo": "sha256",
            }
        ).encode()
        headers = {"Accept": _MEDIA, "Content-Type": _MEDIA}
        with closing(_connection(self.endpoint)) as connection:
            parts = urlsplit(self.endpoint)
            connection.request("POST", f"{parts.path}/objects/batch", body, headers)
            response = connection.getresponse()
            if response.status != 200:
                raise ValueError(f"it answers {response.status}")
            data = response.read(_MOST_ANSWER + 1)
        if len(data) > _MOST_ANSWER:
            raise ValueError("its answer has no end")
        answer = json.loads(data)
        if not isinstance(answer, dict) or answer.get("transfer", "basic") != "basic":
            raise ValueError("it wants another kind of transfer")
        listed = answer.get("objects")
        if not isinstance(listed, list):
            raise ValueError("it says nothing of the files")
        items = [each for each in listed if isinstance(each, dict)]
        return {each["oid"]: each for each in items if isinstance(each.get("oid"), str)}

    def _bring(self, file: WantedFile, told: Any, store: DataFileStore, report: Report) -> bool:
        """Bring one file; False where the client should try."""
        href, headers = _action(told, file)
        if href is None:
            return False
        moved = 0
        last = time.monotonic() + SILENT_SECONDS + file.size / LEAST_SPEED

        def count(number: int) -> None:
            nonlocal moved
            moved += number
            report(number)
            if time.monotonic() > last:
                raise TimeoutError

        temporary = store.temporary()
        try:
            if urlsplit(self.endpoint).scheme == "https" and urlsplit(href).scheme != "https":
                return False
            with temporary.open("xb") as target:
                response = self._get(href, headers)
                if response is None:
                    return False
                with closing(response):
                    copy_checked(_Body(response), target, file.sha256, file.size, count)
                    kept = response.length == 0
                    if kept:
                        response.read()  # the connection is free for the next file
            if not kept:
                self._hang_up()
            store.put(temporary, sha256=file.sha256)
        except (CorruptDataFileError, OSError, http.client.HTTPException, ValueError) as error:
            # A ValueError is a URL or a header that cannot be one.
            self._hang_up()
            report(-moved)
            if isinstance(error, TimeoutError | HavasuError) and not _is_cut(error, moved, file):
                raise
            return False  # the client tries again, and says what is wrong
        finally:
            temporary.unlink(missing_ok=True)
        return True

    def _get(self, url: str, headers: Mapping[str, str]) -> http.client.HTTPResponse | None:
        """Return the body of a file; None for any other answer."""
        first = urlsplit(url).netloc
        for _ in range(_MOST_REDIRECTS + 1):
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or "@" in parts.netloc:
                return None
            own = headers if parts.netloc == first else {}
            path = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
            connection = self._connected(url)
            connection.request("GET", path, headers={**own, "Accept-Encoding": "identity"})
            response = connection.getresponse()
            if response.status == 200:
                return response
            place = response.headers.get("Location")
            response.close()
            self._hang_up()
            if response.status not in (301, 302, 303, 307, 308) or not place:
                return None
            secure = parts.scheme == "https"
            url = urljoin(url, place)
            if secure and urlsplit(url).scheme != "https":
                return None
        return None

    def _connected(self, url: str) -> http.client.HTTPConnection:
        """Return this thread's connection to a host, a new one where it has another."""
        parts = urlsplit(url)
        known = getattr(self._local, "connection", None)
        if known is not None and self._local.host == (parts.scheme, parts.netloc):
            return known  # type: ignore[no-any-return]
        self._hang_up()
        self._local.host = (parts.scheme, parts.netloc)
        made = self._local.connection = _connection(url)
        self._open.append(made)
        return made

    def _hang_up(self) -> None:
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            with suppress(OSError):
                connection.close()
        self._local.connection = None


class _Body:
    """The body of an answer, given as it comes: a server that sends little is noticed."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response

    def readinto(self, buffer: memoryview) -> int:
        data = self._response.read1(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _is_cut(error: Exception, moved: int, file: WantedFile) -> bool:
    """Whether a body simply ended too early, which the client may try again."""
    return isinstance(error, CorruptDataFileError) and moved < file.size


def _batches(files: Sequence[WantedFile]) -> Iterator[Sequence[WantedFile]]:
    for start in range(0, len(files), A_BATCH):
        yield files[start : start + A_BATCH]


def _action(told: Any, file: WantedFile) -> tuple[str | None, dict[str, str]]:
    """Return the URL of a file and the headers to ask with; no URL where the client should ask."""
    if not isinstance(told, dict):
        return None, {}
    error = told.get("error")
    if isinstance(error, dict) and error.get("code") in (404, 410):
        raise DataFileNotFoundError(
            file.sha256, hints=("the server does not have it; another clone may",)
        )
    actions = told.get("actions")
    action = actions.get("download") if isinstance(actions, dict) else None
    if error or not isinstance(action, dict) or not isinstance(action.get("href"), str):
        return None, {}
    given = action.get("header") or {}
    if not isinstance(given, dict):
        return None, {}
    headers = {str(name): str(value) for name, value in given.items()}
    if any("\n" in text or "\r" in text for pair in headers.items() for text in pair):
        return None, {}
    return action["href"], headers


def _connection(url: str) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    if parts.scheme == "https":
        context = ssl.create_default_context(cafile=os.environ.get(_CERTIFICATES))
        return http.client.HTTPSConnection(parts.netloc, timeout=SILENT_SECONDS, context=context)
    return http.client.HTTPConnection(parts.netloc, timeout=SILENT_SECONDS)
