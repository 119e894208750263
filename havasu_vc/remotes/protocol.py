"""A place that holds data files for others, and what every kind of it promises.

Files are named by the sha256 of their content. What is sent is hashed before it goes, and
what comes is hashed before the store takes it, so wrong bytes pass in neither direction.
While a push goes on, from looking what the other side lacks until its refs have moved, it
is inside of `sending`: nothing that it relies on is pruned there meanwhile.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Protocol, cast
from urllib.parse import unquote, urlsplit

from havasu_vc.errors import InvalidArgumentError, StateError
from havasu_vc.records import dataclass
from havasu_vc.remotes.urls import has_secrets, hidden_secrets
from havasu_vc.store.command import GitConfig
from havasu_vc.store.files import DataFileStore

__all__ = [
    "ALLOWED",
    "KINDS",
    "Claim",
    "DataRemote",
    "PlaceKind",
    "Report",
    "WantedFile",
    "check_data_url",
    "each",
    "kind_of",
    "login_of",
    "open_place",
    "require_allowed",
    "total_size",
]


Report = Callable[[int], None]
"""Hears how many more bytes have been moved, from any thread."""


@dataclass(frozen=True, slots=True, order=True)
class WantedFile:
    """A data file as a pointer names it."""

    sha256: str
    """Its name."""
    size: int
    """Its bytes."""


@dataclass(slots=True)
class Claim:
    """A claim that keeps files of a remote from being pruned while a push relies on them."""

    outlasting: bool = False
    """Whether to leave it for days: refs may move after all, whatever becomes of the push."""


class DataRemote(Protocol):
    """Somewhere that data files can be sent to and had from."""

    @property
    def name(self) -> str:
        """Its name for people, without any password."""

    @property
    def knows(self) -> bool:
        """Whether it can say what it has; if not, `lacking` returns all that it is asked."""

    @property
    def has_url(self) -> bool:
        """Whether it has a URL of its own, which somebody said."""

    def sending(
        self, files: Sequence[WantedFile], commits: Sequence[str] = ()
    ) -> AbstractContextManager[Claim]:
        """Keep files, and all that commits name, from being pruned until refs have moved.

        What the remote's refs reach is looked at inside of it.
        """

    def lacking(self, files: Sequence[WantedFile]) -> list[WantedFile]:
        """Return those files that it does not have, or has with another size."""

    def upload(
        self, files: Sequence[WantedFile], store: DataFileStore, report: Report
    ) -> Sequence[WantedFile]:
        """Send files, and return those that it lacked.

        Each is there for good when this returns, whatever became of others.
        """

    def download(self, files: Sequence[WantedFile], store: DataFileStore, report: Report) -> None:
        """Bring files into the store, checked; raise for the first that cannot be had."""


def total_size(files: Iterable[WantedFile]) -> int:
    """Return the bytes of some files together."""
    return sum(file.size for file in files)


# Moving many files side by side, with a count of bytes, and stopping at the first failure.

THREADS = 8
BLOCK = 1 << 20


def each(files: Iterable[WantedFile], work: Callable[[WantedFile], object]) -> None:
    """Do something with every file, several at once; the first failure ends all."""
    pool = ThreadPoolExecutor(THREADS, thread_name_prefix="havasu-vc-move")
    try:
        running = {pool.submit(work, file) for file in files}
        done, _ = wait(running, return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()
    finally:
        pool.shutdown(cancel_futures=True)


# Places that keep data files under a URL of their own: their kinds, and who may use them.
#
# A kind is a row of `KINDS`, whose module is imported when a place of it is opened. Data that has
# no such place is with the git remote itself, which `sharing.data_remotes` knows.
#
# A URL that a person gave is used. One that a repository says comes from strangers, so it is
# used only where the user's own git configuration allows the place, in
#
#     havasu.data.allow     a URL, or a folder; what is below it is allowed, too
#
# Two URLs are of one place only if they name the same server: what stands after a `?` counts.


ALLOWED = "havasu.data.allow"
"""The git setting with places that repositories may name."""
_LOGIN = re.compile(
    r"(?:(?P<user>[A-Za-z0-9._][A-Za-z0-9._+-]*)@)?"
    r"(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_][A-Za-z0-9._-]*)(?::(?P<port>\d{1,5}))?"
)


@dataclass(frozen=True, slots=True)
class PlaceKind:
    """A kind of places, by the schemes of their URLs."""

    schemes: tuple[str, ...]
    """Spellings that mean the same; the first stands for all where places are compared."""
    module: str
    """Has `open_place(url, config)`, which returns a `DataRemote`."""
    of_ssh: bool = False
    """Whether it is on a server that is logged in to, where nothing is deleted."""


_BUCKETS = "havasu_vc.remotes.object_store"
KINDS = (
    PlaceKind(("file",), _BUCKETS),
    PlaceKind(("s3",), _BUCKETS),
    PlaceKind(("gs", "gcs"), _BUCKETS),
    PlaceKind(("abfs",), _BUCKETS),
    PlaceKind(("abfss",), _BUCKETS),
    PlaceKind(("sftp", "ssh"), "havasu_vc.remotes.sftp", of_ssh=True),
)
"""Every kind there is."""
_KINDS = {scheme: kind for kind in KINDS for scheme in kind.schemes}


def kind_of(url: str) -> PlaceKind:
    """Return the kind of place that a URL names."""
    kind = _KINDS.get(urlsplit(url).scheme)
    if kind is None:
        raise InvalidArgumentError(
            f"data cannot be kept at {hidden_secrets(url)}",
            hints=(f"schemes: {', '.join(_KINDS)}",),
        )
    return kind


def open_place(url: str, config: GitConfig) -> DataRemote:
    """Return the data files at a URL, as the user's settings say how it is reached."""
    return cast(DataRemote, import_module(kind_of(url).module).open_place(url, config))


def check_data_url(url: str) -> None:
    """Raise unless data can be kept at a URL, and the URL may be written down."""
    kind = kind_of(url)
    if has_secrets(url):
        raise InvalidArgumentError(
            f"{hidden_secrets(url)} was given with a secret, which would be written down",
            hints=("credentials are taken from the environment, as other programs take them",),
        )
    if kind.of_ssh:
        login_of(url)


def login_of(url: str) -> tuple[str, str, str, str]:
    """Return the user, host, port and path of a URL of a server of SSH; those not told are empty.

    What becomes an argument of a program is no option of it.

    >>> login_of("sftp://me@example.org:2222/srv/wells/")
    ('me', 'example.org', '2222', '/srv/wells')
    """
    parts = urlsplit(url)
    found = _LOGIN.fullmatch(parts.netloc)
    path = unquote(parts.path).rstrip("/")
    if found is None or parts.query or not path or not path.isprintable():
        raise InvalidArgumentError(
            f"{hidden_secrets(url)} does not say where on a server data is kept",
            hints=("write sftp://[USER@]HOST[:PORT]/FOLDER; /~/FOLDER is one at home there",),
        )
    return found["user"] or "", found["host"].strip("[]"), found["port"] or "", path


def require_allowed(url: str, allowed: Iterable[str], where: str) -> None:
    """Raise unless a URL that a repository says may be used; `where` is what says it."""
    check_data_url(url)
    if not any(_is_below(url, place) for place in allowed):
        raise StateError(
            f"{where} says that data is at {url}, a place that you have not allowed",
            hints=(
                f"if you trust it, `git config --global --add {ALLOWED} {shlex.quote(url)}` "
                "allows it",
            ),
        )


def _is_below(url: str, place: str) -> bool:
    """Whether a URL is that of a place, or of something in it.

    >>> _is_below("gs://maps/wells/deep", "gcs://maps/wells"), _is_below("s3://maps2", "s3://maps")
    (True, False)
    """
    ours, theirs = _parts(url), _parts(place)
    if ours is None or theirs is None or ours[:3] != theirs[:3]:
        return False
    return f"{ours[3]}/".startswith(f"{theirs[3]}/")


def _parts(url: str) -> tuple[str, str, str, str] | None:
    """Return what two URLs of one place share, and the path in it."""
    if "://" not in url:
        folder = os.path.expanduser(url)
        return ("file", "", "", os.path.realpath(folder).rstrip("/")) if folder[:1] == "/" else None
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    kind = _KINDS.get(parts.scheme)
    scheme = parts.scheme if kind is None else kind.schemes[0]
    if scheme == "file":
        path = os.path.realpath(unquote(parts.path)).rstrip("/")
        return scheme, "" if parts.netloc == "localhost" else parts.netloc, parts.query, path
    return scheme, parts.netloc, parts.query, parts.path.rstrip("/")
