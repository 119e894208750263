"""Pieces of HTML by which values show themselves in notebooks: text, tables, a map.

    show = shown_table(["id", "name"], [["1", "rimu"]])

A notebook keeps what it is given and hands it to whoever opens it, so a piece is static: no
script, no style sheet, nothing fetched. Every value passes `shown`, which makes it text, spells
out what cannot be seen, and cuts it. The map is a picture: SVG within an `img`, where browsers
run nothing, and which notebooks show even where they do not trust their author.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from havasu_vc.geo.sketching import LINE_PATH, POINT_PATH, Outlines, outlines
from havasu_vc.records import dataclass
from havasu_vc.writers.terminal import printable, shortened

__all__ = ["MapLayer", "map_picture", "shown", "shown_note", "shown_table"]

LONGEST = 120
"""Texts are cut at this many characters."""
WIDTH, HEIGHT, MARGIN = 480, 300, 12
"""Of a map, in pixels."""
MOST_PLACES = 8000
"""Vertices of a map; of more, every second one goes until they are few enough."""
FARTHEST = 1e150
"""Coordinates beyond are no place."""
_GREY = "color:#767676"


@dataclass(frozen=True, slots=True)
class MapLayer:
    """Shapes that a map draws alike."""

    label: str
    """Their name in the legend: `before`."""
    colour: str
    """Six hex digits behind `#`."""
    shapes: Sequence[bytes]
    """WKB, all layers of a map in one coordinate system."""


def shown(value: object, longest: int = LONGEST) -> str:
    """Return a value as text within HTML.

    >>> shown('<b>"'), shown("a" * 9, longest=4)
    ('&lt;b&gt;&quot;', 'aaa…')
    """
    text = str(value)
    text = shortened(text, longest)
    return html.escape(printable(text))


def shown_note(text: str) -> str:
    """Return a sentence that stands below something."""
    return f'<div style="{_GREY}">{shown(text, 400)}</div>'


def shown_table(names: Sequence[str], rows: Iterable[Sequence[str | None]]) -> str:
    """Return rows under the names of their columns; None is the absence of a value.

    >>> shown_table(["a"], [["1"], [None]]).count("<tr")
    3
    """
    style = ' style="text-align:left"'
    head = "".join(f'<th scope="col"{style}>{shown(name, 40)}</th>' for name in names)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: str | None) -> str:
    if value is None:
        return f'<td style="text-align:left;{_GREY}">∅</td>'
    return f'<td style="text-align:left">{shown(value)}</td>'


def map_picture(layers: Sequence[MapLayer], words: str, *, globe: bool) -> str:
    """Return a map of some shapes with its legend; nothing where none of them has a place.

    `words` tell what it shows to those who do not see it. On a `globe` coordinates are degrees,
    which are narrower away from the equator.
    """
    found = [(layer, _placed(layer.shapes)) for layer in layers]
    found = [(layer, each) for layer, each in found if len(each.x)]
    if not found:
        return ""
    x, y = (np.concatenate([getattr(each, axis) for _, each in found]) for axis in ("x", "y"))
    west, east, south, north = x.min(), x.max(), y.min(), y.max()
    narrow = max(0.01, float(np.cos(np.radians((south + north) / 2)))) if globe else 1.0
    spans = ((east - west) * narrow or 1.0, north - south or 1.0)
    scale = min((WIDTH - 2 * MARGIN) / spans[0], (HEIGHT - 2 * MARGIN) / spans[1])
    middle = ((west + east) / 2, (south + north) / 2)
    drawn = []
    for layer, each in found:
        right = WIDTH / 2 + (each.x - middle[0]) * narrow * scale
        down = HEIGHT / 2 - (each.y - middle[1]) * scale
        drawn.append(_drawn(layer, each, np.round(right, 1), np.round(down, 1)))
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#f6f6f4"/>{"".join(drawn)}</svg>'
    )
    source = "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()
    legend = " ".join(
        f'<span style="color:{layer.colour}">■</span> {shown(layer.label)}' for layer, _ in found
    )
    picture = f'<img src="{source}" width="{WIDTH}" height="{HEIGHT}" alt="{shown(words, 300)}">'
    return f"<div>{picture}</div><div>{legend}</div>"


def _placed(shapes: Sequence[bytes]) -> Outlines:
    """Return the paths of shapes, few enough to draw."""
    found = outlines(pa.array(shapes, pa.binary()))
    found = found.within((np.abs(found.x) <= FARTHEST) & (np.abs(found.y) <= FARTHEST))
    while len(found.x) > MOST_PLACES:
        found = found.within(np.arange(len(found.x)) % 2 == 0)
    return found


def _drawn(layer: MapLayer, paths: Outlines, x: np.ndarray, y: np.ndarray) -> str:
    """Return the marks of a layer."""
    colour = f'stroke="{layer.colour}"'
    lines, areas, points = [], [], []
    for kind, places in _paths(paths, x, y):
        text = "M" + "L".join(f"{a:g} {b:g}" for a, b in places)
        if kind == POINT_PATH:
            points.append(text + "h0")
        elif kind == LINE_PATH:
            lines.append(text)
        else:
            areas.append(text + "Z")
    return "".join(
        f'<path d="{"".join(parts)}" {colour} {style}/>'
        for parts, style in (
            (areas, f'fill="{layer.colour}" fill-opacity=".25" fill-rule="evenodd"'),
            (lines, 'fill="none" stroke-width="2"'),
            (points, 'fill="none" stroke-width="7" stroke-linecap="round" stroke-opacity=".8"'),
        )
        if parts
    )


def _paths(
    paths: Outlines, x: np.ndarray, y: np.ndarray
) -> Iterator[tuple[int, list[tuple[float, float]]]]:
    """Yield each path, without places that follow themselves; a point once."""
    start, seen = 0, set()
    for kind, end in zip(paths.kinds.tolist(), np.cumsum(paths.counts).tolist(), strict=True):
        places = list(zip(x[start:end].tolist(), y[start:end].tolist(), strict=True))
        start = end
        places = [at for i, at in enumerate(places) if not i or at != places[i - 1]]
        if kind == POINT_PATH:
            if places[0] in seen:
                continue
            seen.add(places[0])
        yield kind, places
