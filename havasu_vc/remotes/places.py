"""Places that keep data files under a URL of their own: their kinds, and who may use them.

A kind is a row of `KINDS`, whose module is imported when a place of it is opened. Data that has
no such place is with the git remote itself, which `sharing.data_remotes` knows.

A URL that a person gave is used. One that a repository says comes from strangers, so it is
used only where the user's own git configuration allows the place, in

    havasu.data.allow     a URL, or a folder; what is below it is allowed, too

Two URLs are of one place only if they name the same server: what stands after a `?` counts.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable
from importlib import import_module
from typing import cast
from urllib.parse import unquote, urlsplit

from havasu_vc.errors import InvalidArgumentError, StateError
from havasu_vc.records import dataclass
from havasu_vc.remotes.protocol import DataRemote
from havasu_vc.remotes.urls import has_secrets, hidden_secrets
from havasu_vc.store.command import GitConfig

__all__ = [
    "ALLOWED",
    "KINDS",
    "PlaceKind",
    "check_data_url",
    "kind_of",
    "login_of",
    "open_place",
    "require_allowed",
]

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
