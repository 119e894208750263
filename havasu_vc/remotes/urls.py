"""URLs as they may be shown and stored: without a password, a token or a key."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

__all__ = ["has_secrets", "hidden_secrets", "is_token", "without_passwords"]


_SECRET = ("key", "secret", "token", "sig", "password")
_USER = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*://)(?P<user>[^/@\s:]*)(?P<password>:[^/@\s]*)?@", re.IGNORECASE
)
_TOKEN = re.compile(r"gh[opusr]_\w+|github_pat_\w+|gl[a-z]{1,4}t?-\w+|(?=\D*\d)[A-Za-z0-9_-]{36,}")
"""Tokens that hosts give out to be used as a password, and take for the user's name, too."""


def hidden_secrets(url: str) -> str:
    """Return a URL as it may be shown.

    >>> hidden_secrets("https://me:secret@example.org/r.git")
    'https://me@example.org/r.git'
    >>> hidden_secrets("https://ghp_0123456789@example.org/r.git")
    'https://example.org/r.git'
    >>> hidden_secrets("s3://bucket/x?access_key=a&region=b")
    's3://bucket/x?region=b'
    """
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "a URL that cannot be read"
    if not parts.scheme or ("@" not in parts.netloc and not parts.query):
        return url
    user = ""
    if "@" in parts.netloc and parts.username and not _is_secret_user(parts):
        user = f"{parts.username}@"
    query = urlencode([pair for pair in parse_qsl(parts.query) if not _is_secret(pair[0])])
    return urlunsplit((parts.scheme, f"{user}{parts.hostname or ''}{port}", parts.path, query, ""))


def has_secrets(url: str) -> bool:
    """Whether a URL holds what nobody else may know.

    >>> has_secrets("s3://bucket/x?region=b"), has_secrets("s3://me:secret@bucket/x")
    (False, True)
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return (
        bool(parts.password)
        or _is_secret_user(parts)
        or any(_is_secret(name) for name, _ in parse_qsl(parts.query))
    )


def without_passwords(text: str) -> str:
    """Return what a program said, without the passwords in URLs.

    >>> without_passwords("unable to access 'https://me:secret@example.org/r/'")
    "unable to access 'https://me@example.org/r/'"
    """
    return _USER.sub(_shown_user, text)


def is_token(user: str, password: str | None) -> bool:
    """Whether what stands for a user in a URL is a secret.

    >>> is_token("me", "secret"), is_token("0a1b2c", "x-oauth-basic"), is_token("0a1b2c", "")
    (False, True, True)
    """
    return password in ("", "x-oauth-basic") or bool(_TOKEN.fullmatch(user))


def _is_secret_user(parts: SplitResult) -> bool:
    # Elsewhere it is a container, say, whatever it looks like.
    web = parts.scheme in ("http", "https")
    return web and bool(parts.username) and is_token(str(parts.username), parts.password)


def _shown_user(match: re.Match[str]) -> str:
    user, password = match["user"], match["password"]
    if not user or is_token(user, None if password is None else password[1:]):
        return match["scheme"]
    return f"{match['scheme']}{user}@"


def _is_secret(name: str) -> bool:
    return any(word in name.lower() for word in _SECRET)
