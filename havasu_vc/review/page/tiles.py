"""Map tiles behind a page, where its maker asked for them; a page by itself asks nobody.

    git config havasu.review.tiles 'https://tiles.example.org/{z}/{x}/{y}.png'
    git config havasu.review.attribution '© Example'

The setting is of whoever makes the page, never of the repository: a page with tiles tells their
server, from each reader, where the changes are.
"""

from __future__ import annotations

import re

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.records import dataclass
from havasu_vc.store.command import GitConfig

__all__ = ["Tiles", "parse_tiles", "tiles_of"]

SETTING = "havasu.review.tiles"
_ADDRESS = re.compile(
    r"(https://[a-z0-9.-]+(?::\d{1,5})?|http://(?:localhost|127\.0\.0\.1)(?::\d{1,5})?)"
    r"(/[\w.~!$&'()*+,=:@%/?{}-]*)",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Tiles:
    """A server of tiles in the projection of the map."""

    url: str
    """The address of a tile, with `{z}`, `{x}` and `{y}`."""
    origin: str
    """The part of it that the page is let ask."""
    attribution: str
    """Whose map it is, as its maker wants that said."""


def parse_tiles(url: str, attribution: str = "") -> Tiles:
    """Return the tiles of an address.

    >>> parse_tiles("https://tiles.example.org/{z}/{x}/{y}.png").origin
    'https://tiles.example.org'
    """
    found = _ADDRESS.fullmatch(url)
    if found is None or any(url.count(part) != 1 for part in ("{z}", "{x}", "{y}")):
        raise InvalidArgumentError(
            f"{SETTING} is {url!r}, which is no address of tiles",
            hints=("write https://tiles.example.org/{z}/{x}/{y}.png",),
        )
    return Tiles(url, found[1], attribution)


def tiles_of(config: GitConfig) -> Tiles | None:
    """Return the tiles that the settings ask for; None where they do not."""
    url = config.get(SETTING)
    return parse_tiles(url, config.get("havasu.review.attribution") or "") if url else None
