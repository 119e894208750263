"""Text from strangers as Markdown that GitHub and GitLab show as it is.

Values stand in code spans, in which no markup, mention, link, image or formula works; a run
of backticks within is fenced by a longer one, and what would reverse or hide text is spelled
out. Sentences of ours are plain words, with names from the data between backticks; a part
of one that holds anything else than plain words becomes a code span too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from havasu_vc.writers.terminal import printable

__all__ = ["VALUE", "code_span", "marked", "sentence", "table_row"]

VALUE = 120
"""Values are shown up to so many characters."""
LOOK = 5000
"""So many characters are compared."""
_RUNS = re.compile(r"`+")
_PLAIN = re.compile(r"[\w .,:;()%+=?'→–-]*")
_BLOCK = re.compile(r"\s*([-+=:]|\d+[.)])")
_ADDRESS = re.compile(r"www\.|://|@", re.IGNORECASE)


def code_span(text: str, longest: int = VALUE) -> str:
    """Return any text as a code span; `table_row` makes it fit for a table.

    >>> print(code_span("b`c @user"), code_span("`"))
    ``b`c @user`` `` ` ``
    """
    text = printable(text[: longest + 1])
    if len(text) > longest:
        text = text[: longest - 1] + "…"
    if not text:
        return "(empty)"
    fence = "`" * (max((len(run) for run in _RUNS.findall(text)), default=0) + 1)
    # Markdown takes one space off where there is one at both ends.
    spaced = text[0] == text[-1] == " " and not text.isspace()
    pad = " " if spaced or "`" in (text[0], text[-1]) else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def sentence(text: str) -> str:
    """Return a sentence of ours, in which names from the data stand between backticks.

    >>> print(sentence("column `name` is added"), sentence("crs [a](b)"))
    column `name` is added `crs [a](b)`
    """
    parts = text.split("`", 1000)
    if len(text) > LOOK or len(parts) % 2 == 0 or _BLOCK.match(text):
        return code_span(text, 1000)
    return "".join(
        code_span(part) if odd else _plain(part)
        for part, odd in zip(parts, _alternating(), strict=False)
    )


def _alternating() -> Iterator[bool]:
    while True:
        yield False
        yield True


def _plain(text: str) -> str:
    if _PLAIN.fullmatch(text) and not _ADDRESS.search(text) and "__" not in text:
        return text.replace("_", "\\_")
    return code_span(text, 1000)


def table_row(cells: Iterable[str]) -> str:
    r"""Return a row of a table of Markdown.

    >>> print(table_row(["`a|b`", "c"]))
    | `a\|b` | c |
    """
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def marked(old: str, new: str) -> tuple[str, str]:
    """Return two texts, the part that differs in bold where much of both is the same.

    >>> print(*marked("12 Long Road", "12 Long Street"))
    `12 Long `**`Road`** `12 Long `**`Street`**
    """
    if max(len(old), len(new)) > VALUE:
        start = max(_common(old, new) - 20, 0)
        if start > 20:  # what differs would be cut off
            old, new = "…" + old[start:], "…" + new[start:]
        return code_span(old), code_span(new)
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    if start + end < 4 or 2 * (start + end) < min(len(old), len(new)):
        return code_span(old), code_span(new)
    return _emphasised(old, start, end), _emphasised(new, start, end)


def _emphasised(text: str, start: int, end: int) -> str:
    middle = text[start : len(text) - end]
    if not middle:
        return code_span(text)
    before, after = text[:start], text[len(text) - end :] if end else ""
    return "".join(
        (
            code_span(before) if before else "",
            f"**{code_span(middle)}**",
            code_span(after) if after else "",
        )
    )


def _common(first: str, second: str) -> int:
    for index, (left, right) in enumerate(zip(first[:LOOK], second[:LOOK], strict=False)):
        if left != right:
            return index
    return min(len(first), len(second), LOOK)
