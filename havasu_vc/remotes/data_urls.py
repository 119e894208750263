"""URLs of folders and buckets with data files: which there are, and who may use them.

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
from urllib.parse import unquote, urlsplit

from havasu_vc.errors import InvalidArgumentError, StateError
from havasu_vc.remotes.urls import has_secrets, hidden_secrets

__all__ = ["ALLOWED", "OF_SSH", "SCHEMES", "check_data_url", "login_of", "require_allowed"]

SCHEMES = ("file", "s3", "gs", "gcs", "abfs", "abfss", "sftp", "ssh")
OF_SSH = ("sftp", "ssh")
"""Schemes of folders on a server of SSH, which are one."""
_LOGIN = re.compile(
    r"(?:(?P<user>[A-Za-z0-9._][A-Za-z0-9._+-]*)@)?"
    r"(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_][A-Za-z0-9._-]*)(?::(?P<port>\d{1,5}))?"
)
ALLOWED = "havasu.data.allow"
"""The git setting with places that repositories may name."""


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
    if urlsplit(url).scheme in OF_SSH:
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
    scheme = {"gcs": "gs", "ssh": "sftp"}.get(parts.scheme, parts.scheme)
    if scheme == "file":
        path = os.path.realpath(unquote(parts.path)).rstrip("/")
        return scheme, "" if parts.netloc == "localhost" else parts.netloc, parts.query, path
    return scheme, parts.netloc, parts.query, parts.path.rstrip("/")
