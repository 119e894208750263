"""Text that is safe to show in a terminal, and colours for it.

Values come from strangers: a control character, an escape sequence or a mark that
reverses the direction of text never reaches the terminal, but is shown as a
backslash escape. What is printed for people goes through `printable`, JSON through
`visible_json`, whether stdout is a terminal or not, and what git prints by itself
through `git_line`, which leaves it its colours.
"""

from __future__ import annotations

import re

__all__ = ["PERHAPS_UNSAFE", "git_line", "printable", "shortened", "styled", "visible_json"]

_STYLES = {"bold": "1", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
# Compiled when one is looked for: most commands load this, and few show such a text.
_UNSAFE = "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
PERHAPS_UNSAFE = tuple(
    byte < 0x20 or byte == 0x7F or byte in b"\xc2\xd8\xe2\xed\xef" for byte in range(256)
)
"""For each byte, whether it is, or begins, a character that is escaped."""
_COLOR = r"(?:[0-47]|[349][0-7]|[34]9|10[0-7]|[34]8;5;\d{1,3}|[34]8;2;\d{1,3};\d{1,3};\d{1,3})"
_COLORS = rf"(\x1b\[(?:{_COLOR}(?:;{_COLOR})*)?m)"
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str) -> str:
    r"""Return a text on one line, control characters shown as escapes.

    >>> print(printable("a\x1b[31mb\nc"))
    a\x1b[31mb\nc
    """
    if text.isascii() and text.isprintable():
        return text
    return re.sub(_UNSAFE, _escape, text)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character in _SHORT:
        return _SHORT[character]
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def visible_json(text: str) -> str:
    r"""Return JSON that means the same, with nothing in it that acts on a terminal.

    Line ends between its parts stay; in texts they are escapes already.

    >>> print(visible_json('"\x9b31m"'))
    "\u009b31m"
    """
    return re.sub(_UNSAFE, _json_escape, text)


def _json_escape(match: re.Match[str]) -> str:
    return match[0] if match[0] in "\n\t" else f"\\u{ord(match[0]):04x}"


def git_line(line: str, color: bool) -> str:
    r"""Return a line that git printed, tabs and with `color` colours as they are.

    Git's colours cannot be told from a stranger's, which then colour their own line.

    >>> print(git_line("a\x1b]0;title\x07", color=True))
    a\x1b]0;title\x07
    """
    parts = re.split(_COLORS, line) if color else [line]
    parts[::2] = ["\t".join(map(printable, part.split("\t"))) for part in parts[::2]]
    return "".join(parts)


def styled(text: str, style: str, color: bool) -> str:
    """Return a text between ANSI codes; as it is without colour."""
    start, end = codes(style, color)
    return f"{start}{text}{end}"


def codes(style: str, color: bool) -> tuple[str, str]:
    """Return the ANSI codes that begin and end a style; empty without colour."""
    return (f"\x1b[{_STYLES[style]}m", "\x1b[0m") if color else ("", "")


def shortened(text: str, longest: int) -> str:
    """Return a text of so many characters at most; an ellipsis stands for the rest.

    >>> shortened("Havasu", 4)
    'Hav…'
    """
    return text if len(text) <= longest else text[: longest - 1] + "…"
