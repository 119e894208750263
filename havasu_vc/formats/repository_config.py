"""`.havasu/config.toml`: what a repository says of itself to all of its clones.

    [data]
    url = "s3://our-bucket/wells"

It is a text for people, in TOML. What is not known is passed over: a later version may
say more. A URL is only taken as it stands here; whether it may be used is for others to say.
"""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from havasu_vc.errors import InvalidFileError
from havasu_vc.records import dataclass

__all__ = ["CONFIG_FILE", "RepositoryConfig", "parse_repository_config", "with_data_url"]

CONFIG_FILE = ".havasu/config.toml"
LONGEST = 64 << 10
"""Bytes beyond which a file is none that anybody wrote."""

_HEAD = re.compile(r"(?m)^[ \t]*\[[ \t]*data[ \t]*\][ \t]*(?:#.*)?$\n?")
_NEXT = re.compile(r"(?m)^[ \t]*\[")
_URL = re.compile(r"(?m)^[ \t]*url[ \t]*=.*$\n?")
_PLAIN = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class RepositoryConfig:
    """The configuration of a repository."""

    data_url: str | None = None
    """Where its data files are, if not with its remotes."""


def parse_repository_config(data: bytes, name: str = CONFIG_FILE) -> RepositoryConfig:
    r"""Return what a file says; `name` is what errors call it.

    >>> parse_repository_config(b'[data]\nurl = "s3://maps/wells"').data_url
    's3://maps/wells'
    """
    import tomllib

    if len(data) > LONGEST:
        raise InvalidFileError(name, f"it has more than {LONGEST:,} bytes")
    try:
        document = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise InvalidFileError(name, "it is not TOML") from error
    section = document.get("data", {})
    url = section.get("url") if isinstance(section, dict) else section
    if url is None:
        return RepositoryConfig()
    if not isinstance(url, str) or not _is_sound(url):
        raise InvalidFileError(name, "it does not say where the data is by a URL")
    return RepositoryConfig(url)


def with_data_url(data: bytes, url: str) -> bytes:
    r"""Return a file that says where the data is, and all else that it said before.

    >>> with_data_url(b"", "s3://maps/wells")
    b'[data]\nurl = "s3://maps/wells"\n'
    """
    parse_repository_config(data)
    text, line = data.decode(), f'url = "{url}"\n'
    head = _HEAD.search(text)
    if head is None:
        before = f"{text.rstrip()}\n\n" if text.strip() else ""
        text = f"{before}[data]\n{line}"
    else:
        end = _NEXT.search(text, head.end())
        inside = text[head.end() : end.start() if end else len(text)]
        after = text[end.start() :] if end else ""
        text = text[: head.end()].rstrip("\n") + "\n" + line + _URL.sub("", inside) + after
    changed = text.encode()
    try:
        if parse_repository_config(changed).data_url == url:
            return changed
        reason = "it is written in a way that only its writer can change"
    except InvalidFileError as error:
        reason = f"it cannot be changed so that it says {url!r}: {error.reason}"
    raise InvalidFileError(CONFIG_FILE, reason)


def _is_sound(url: str) -> bool:
    """Whether a text is a URL that leads where it seems to."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return (
        _PLAIN.fullmatch(url) is not None
        and not set(url) & set("\"\\`'")
        and bool(parts.scheme)
        and not parts.fragment
        and not {".", ".."} & set(unquote(parts.path).split("/"))
    )
