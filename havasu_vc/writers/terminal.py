"""Text that is safe to show in a terminal, and colours for it.

Values come from strangers: a control character, an escape sequence or a mark that
reverses the direction of text never reaches the terminal, but is shown as a
backslash escape.
"""

from __future__ import annotations

import re

__all__ = ["printable", "styled"]

_STYLES = {"bold": "1", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str) -> str:
    r"""Return a text on one line, control characters shown as escapes.

    >>> print(printable("a\x1b[31mb\nc"))
    a\x1b[31mb\nc
    """
    return _UNSAFE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character in _SHORT:
        return _SHORT[character]
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def styled(text: str, style: str, color: bool) -> str:
    """Return a text between ANSI codes; as it is without colour."""
    start, end = codes(style, color)
    return f"{start}{text}{end}"


def codes(style: str, color: bool) -> tuple[str, str]:
    """Return the ANSI codes that begin and end a style; empty without colour."""
    return (f"\x1b[{_STYLES[style]}m", "\x1b[0m") if color else ("", "")
