"""The page as a file: our markup, style and script, and the data, in one.

Nothing of a value is ever markup. The data stands in blocks that are not script: the
texts as JSON without `<` and without anything beyond ASCII, the rest in base64. A
content security policy lets run our script and style alone, by their hashes, and
forbids every connection.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.records import dataclass
from havasu_vc.review.json import json_value
from havasu_vc.review.markdown_parts import short_name
from havasu_vc.review.page.collecting import FLAGS, Page
from havasu_vc.review.page.packing import Packer
from havasu_vc.review.report import Cell, Review
from havasu_vc.store.command import GitConfig

__all__ = ["Tiles", "asset", "parse_tiles", "script", "tiles_of", "write_page"]

SCRIPTS = (
    "unpacking",
    "text",
    "elements",
    "projection",
    "texts",
    "changes",
    "basemap",
    "drawing",
    "layers",
    "tiles",
    "pointing",
    "map",
    "filters",
    "marks",
    "table",
    "pictures",
    "detail",
    "summary",
    "conflicts",
    "page",
)
"""Our modules, each behind those that it imports."""
ASSETS = Path(__file__).with_name("assets")
MOST_CELLS, LONGEST_CELL = 6, 200
"""Cells, and characters of each, of a row worth a look."""
_IMPORT = re.compile(r'^import \{ ([^}]*) \} from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:function\*?|class|const) (\w+))", re.MULTILINE)


def asset(name: str) -> str:
    """Return the text of a file of ours."""
    return (ASSETS / name).read_text("utf-8")


def script() -> str:
    """Return all modules as one; each keeps its own scope, and hands on what it exports."""
    *parts, last = (_IMPORT.sub(r"const { \1 } = in_\2;", asset(f"{name}.js")) for name in SCRIPTS)
    wrapped = (_wrapped(name, text) for name, text in zip(SCRIPTS, parts, strict=False))
    return "\n".join([*wrapped, "{", last, "}"])


def _wrapped(name: str, text: str) -> str:
    body = _EXPORT.sub(r"\1", text)
    exports = ", ".join(match[2] for match in _EXPORT.finditer(text))
    return f"const in_{name} = (() => {{\n{body}return {{ {exports} }};\n}})();"


def write_page(
    out: TextIO,
    page: Page,
    review: Review,
    *,
    more: str,
    summary: bool = True,
    repository: str = "",
    tiles: Tiles | None = None,
    home: str = "",
) -> None:
    """Write a page; `more` is the command that shows all rows, `repository` a name for its head.

    Without `summary` it shows the rows alone; with `tiles` it asks their server for a map. One that
    is served beside others leads back to `home`.
    """
    packer = Packer()
    by_path = {each.path: each for each in review.datasets}
    manifest = {
        "summary": summary,
        "more": more,
        "repository": repository,
        "home": home,
        "tiles": None if tiles is None else {"url": tiles.url, "words": tiles.attribution},
        "review": json_value(_shortened(review)),
        "flags": [kind.value for kind in FLAGS],
        "datasets": [rows.pack(packer, by_path[rows.path]) for rows in page.datasets],
        "world": packer.raw(asset("countries-110m.json").encode()),
    }
    code, style = script(), asset("page.css")
    title = " to ".join(map(short_name, (review.base, review.head)))
    title = f"Review of {title}" if summary else title
    filled = {
        "policy": _policy(code, style, tiles),
        "title": html.escape(title).encode("ascii", "xmlcharrefreplace").decode(),
        "style": style,
        "manifest": _embedded(manifest),
        "data": packer.finish(),
        "script": code,
    }
    # In one go, so that what one part holds is never taken for the place of another.
    out.write(re.sub(r"\{\{(\w+)\}\}", lambda match: filled[match[1]], asset("page.html")))


def _shortened(review: Review) -> Review:
    """Return a review whose samples tell no more than a line holds; the page has the rows."""
    datasets = (
        replace(
            each,
            samples=tuple(
                replace(
                    sample,
                    cells=tuple(map(_short_cell, sample.cells[:MOST_CELLS])),
                    old_geometry=None,
                    new_geometry=None,
                )
                for sample in each.samples
            ),
        )
        for each in review.datasets
    )
    return replace(review, datasets=tuple(datasets))


def _short_cell(cell: Cell) -> Cell:
    old, new = (
        None if text is None else text[:LONGEST_CELL] + ("…" if len(text) > LONGEST_CELL else "")
        for text in (cell.old, cell.new)
    )
    return Cell(cell.column, old, new)


def _policy(code: str, style: str, tiles: Tiles | None) -> str:
    images = "data:" if tiles is None else f"data: {tiles.origin}"
    return (
        f"default-src 'none'; script-src '{_hash(code)}'; style-src '{_hash(style)}'; "
        f"img-src {images}; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _embedded(value: Any) -> str:
    """Return JSON that nothing in HTML can end or change."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


# Map tiles behind a page, where its maker asked for them; a page by itself asks nobody.
#
#     git config havasu.review.tiles 'https://tiles.example.org/{z}/{x}/{y}.png'
#     git config havasu.review.attribution '© Example'
#
# The setting is of whoever makes the page, never of the repository: a page with tiles tells their
# server, from each reader, where the changes are.


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
