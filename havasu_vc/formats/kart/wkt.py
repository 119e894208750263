"""The text of coordinate reference systems as Kart lays it out: one part per line.

Parts within a part are on lines of their own, four spaces further in; plain values stand
behind each other. Nothing but white space changes.

>>> print(format_wkt('UNIT["degree",0.0174,AUTHORITY["EPSG","9122"]]').decode(), end="")
UNIT["degree", 0.0174,
    AUTHORITY["EPSG", "9122"]]
"""

from __future__ import annotations

import re

__all__ = ["format_wkt"]

_TOKEN = re.compile(r'\s*("(?:[^"]|"")*"|[\[\](),]|[^\s\[\](),"]+)')


def format_wkt(text: str) -> bytes:
    """Return WKT in lines; what is not WKT stays as it is."""
    tokens = _tokens(text)
    if tokens is None:
        return text.encode()
    lines: list[str] = []
    depth, line = 0, ""
    for index, token in enumerate(tokens):
        opens = index + 1 < len(tokens) and tokens[index + 1] in "[("
        if token in ("[", "("):
            depth += 1
        elif token in ("]", ")"):
            depth -= 1
        elif opens and depth:
            lines.append(line.rstrip())
            line = " " * (4 * depth)
        line += f"{token} " if token == "," else token
    if depth:
        return text.encode()
    return "\n".join([*lines, line, ""]).encode()


def _tokens(text: str) -> list[str] | None:
    tokens: list[str] = []
    at = 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            return None
        tokens.append(match[1])
        at = match.end()
    return tokens if len(tokens) > 1 else None
