"""URLs as they may be shown and stored: without a password, a token or a key."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

__all__ = ["has_secrets", "hidden_secrets", "without_passwords"]

_SECRET = ("key", "secret", "token", "sig", "password")
_USER = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)(?P<user>[^/@\s:]*):[^/@\s]*@", re.IGNORECASE)


def hidden_secrets(url: str) -> str:
    """Return a URL as it may be shown.

    >>> hidden_secrets("https://me:secret@example.org/r.git")
    'https://me@example.org/r.git'
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
    if "@" in parts.netloc and parts.username:
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
    return bool(parts.password) or any(_is_secret(name) for name, _ in parse_qsl(parts.query))


def without_passwords(text: str) -> str:
    """Return what a program said, without the passwords in URLs.

    >>> without_passwords("unable to access 'https://me:secret@example.org/r/'")
    "unable to access 'https://me@example.org/r/'"
    """
    return _USER.sub(lambda match: f"{match['scheme']}{match['user']}@", text)


def _is_secret(name: str) -> bool:
    return any(word in name.lower() for word in _SECRET)
