"""URLs as they may be shown: without a password, a token or a key."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

__all__ = ["hidden_secrets"]

_SECRET = ("key", "secret", "token", "sig", "password")


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


def _is_secret(name: str) -> bool:
    return any(word in name.lower() for word in _SECRET)
