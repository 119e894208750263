"""Which files of out-db rasters may be opened: those that the user's own settings allow.

A URL in a raster comes from whoever wrote the table. Opening it would read any file of
this machine, or tell a stranger's server that it is read. So nothing is opened but what
lies below a prefix that the user allowed, links followed, and only by the scheme that the
prefix names.

    git config --add havasu.outdb.allow file:///data/orthophotos
    git config --add havasu.outdb.allow https://tiles.example.org/cogs
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from havasu_vc.errors import GeometryError, HavasuError, MissingProgramError
from havasu_vc.geo.raster_v1 import Band, Raster
from havasu_vc.geo.raster_v1_pixels import FileHead, OpenUrl, check_band, file_head

__all__ = ["ALLOWED", "PlaceOfPixels", "opener"]

ALLOWED: Final = "havasu.outdb.allow"
"""The git setting with what URLs of out-db rasters may begin with."""
_REMOTE: Final = {
    "https": "/vsicurl/https://",
    "http": "/vsicurl/http://",
    "s3": "/vsis3/",
    "gs": "/vsigs/",
    "abfs": "/vsiadls/",
    "az": "/vsiaz/",
}


def opener(allowed: Sequence[str]) -> OpenUrl:
    """Return what turns an allowed URL into what GDAL opens, and raises for any other.

    Both the prefixes and the URLs may be paths of this machine too.
    """
    prefixes = [_split(prefix) for prefix in allowed if prefix]

    def open_url(url: str) -> str:
        parts = _split(url)
        if parts is not None:
            for prefix in prefixes:
                if prefix is not None and _covers(prefix, parts):
                    return _path(parts)
        raise GeometryError(
            f"the pixels are in {_shown(url)}, which your settings do not allow to be opened",
            hints=(f"git config --global --add {ALLOWED} {_folder(url)}",),
        )

    return open_url


class PlaceOfPixels:
    """Whether the files with the pixels of rasters are there and what the rasters say.

    Each file is looked at once.
    """

    def __init__(self, allowed: Sequence[str]) -> None:
        self._prefixes = [_split(prefix) for prefix in allowed if prefix]
        self._open = opener(allowed)
        self._known: dict[str, tuple[bool, str | None]] = {}
        self._heads: dict[str, FileHead | HavasuError] = {}

    def problem(self, url: str) -> tuple[bool, str | None]:
        """Return whether it is known what is at a URL, and what is wrong with it.

        Only files of this machine that the settings allow are looked for.
        """
        if url not in self._known:
            self._known[url] = self._looked(url)
        return self._known[url]

    def mismatch(self, raster: Raster) -> str | None:
        """Return how a raster differs from its files on this machine; they are there.

        Raises where nothing is installed that reads them.
        """
        for number, band in enumerate(raster.bands):
            if not band.out_db_url or not _is_local(band.out_db_url):
                continue
            try:
                check_band(raster, number, self._head(band, band.out_db_url))
            except GeometryError as error:
                return error.message
        return None

    def _head(self, band: Band, url: str) -> FileHead:
        if url not in self._heads:
            try:
                self._heads[url] = file_head(band, self._open)
            except (GeometryError, MissingProgramError) as error:
                self._heads[url] = error
        found = self._heads[url]
        if isinstance(found, HavasuError):
            raise found
        return found

    def _looked(self, url: str) -> tuple[bool, str | None]:
        parts = _split(url)
        if parts is None or not any(each and _covers(each, parts) for each in self._prefixes):
            return False, f"its pixels are in {_shown(url)}, which {ALLOWED} does not allow"
        if parts.scheme != "file":
            return True, None
        there = os.path.isfile(os.path.realpath(unquote(parts.path)))
        return True, None if there else f"its pixels are in {_shown(url)}, which is not there"


def _split(url: str) -> SplitResult | None:
    """Return the parts of a URL that is plain: no credentials, no way up, no control characters."""
    if any(ord(character) < 0x20 or ord(character) == 0x7F for character in url):
        return None
    if url.startswith("/"):
        url = Path(url).as_uri()
    try:
        parts = urlsplit(url)
        steps = unquote(parts.path, errors="strict").replace("\\", "/").split("/")
    except ValueError:
        return None
    local = parts.scheme == "file" and parts.netloc in ("", "localhost")
    remote = parts.scheme in _REMOTE and bool(parts.netloc) and "@" not in parts.netloc
    return parts if (local or remote) and ".." not in steps else None


def _is_local(url: str) -> bool:
    parts = _split(url)
    return parts is not None and parts.scheme == "file"


def _covers(prefix: SplitResult, url: SplitResult) -> bool:
    if prefix.scheme != url.scheme:
        return False
    if url.scheme == "file":
        # Where links lead counts, not how they are called.
        root, file = (os.path.realpath(unquote(each.path)) for each in (prefix, url))
        return file == root or file.startswith(root.rstrip("/") + "/")
    if prefix.netloc.lower() != url.netloc.lower():
        return False
    root, file = unquote(prefix.path).rstrip("/"), unquote(url.path)
    return file == root or file.startswith(root + "/")


def _path(url: SplitResult) -> str:
    if url.scheme != "file":
        place = f"{url.netloc}{url.path}"
        web = url.scheme in ("http", "https") and url.query
        return _REMOTE[url.scheme] + (f"{place}?{url.query}" if web else unquote(place))
    path = os.path.realpath(unquote(url.path))
    try:
        with open(path, "rb") as file:
            head = file.read(1024)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise GeometryError(f"the pixels in {path} cannot be read: {reason}") from error
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        # XML that GDAL takes for an image names files and servers of its own.
        raise GeometryError(f"{path} is no image but a description of one, which is not opened")
    return path


def _shown(url: str) -> str:
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in url[:200])


def _folder(url: str) -> str:
    """Return the folder that a URL is in, where it is safe to paste into a shell."""
    folder = url.rpartition("/")[0]
    plain = folder.isascii() and all(c.isalnum() or c in ":/._-~%+" for c in folder)
    return folder if plain and len(folder) < 200 else "URL"
