"""Statements of SQL as text: told apart, and what they name, without running them.

Whoever runs them parses them properly. Here it is enough to find every name that may be a
table, so that those which are can be there before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

__all__ = [
    "TOLD",
    "Call",
    "calls",
    "edited_by",
    "names",
    "split_statements",
    "table_made_by",
    "written_by",
]

_PIECES = re.compile(
    r"""'(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | `[^`]*` |
        --[^\n]* | /\*.*?\*/ | ; | [^'"`;/-]+ | .""",
    re.VERBOSE | re.DOTALL,
)
_TOKENS = re.compile(
    r"""(?P<text>'(?:[^']|'')*') | (?P<quoted>"(?:[^"]|"")*") | (?P<comment>--[^\n]*|/\*.*?\*/) |
        (?P<word>[^\W\d]\w*) | (?P<other>\S)""",
    re.VERBOSE | re.DOTALL,
)
_WRITING = {
    "ALTER", "CALL", "CREATE", "DELETE", "DROP", "INSERT", "MERGE", "REPLACE", "TRUNCATE", "UPDATE",
}  # fmt: skip
_READING = {"SELECT", "FROM", "VALUES", "TABLE"}
_OF_TABLES = re.compile(
    r"((CREATE\s+(OR\s+REPLACE\s+)?|REPLACE\s+|ALTER\s+|DROP\s+)TABLE|TRUNCATE)\b", re.IGNORECASE
)
_TO_FILES = re.compile(r"INSERT\s+OVERWRITE\s+(LOCAL\s+)?DIRECTORY\b|.*\bLOCATION\s*'", re.I | re.S)
_MAKING = re.compile(r"CREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?([\w.`]+)", re.IGNORECASE)
_FOR_NOW = re.compile(r"CREATE\s+(OR\s+REPLACE\s+)?TEMP(ORARY)?\s", re.IGNORECASE)

TOLD: Mapping[str, tuple[str, ...]] = {
    "blame": ("dataset",),
    "changes": ("revisions", "dataset"),
    "commits": (),
    "conflicts": (),
    "history": ("dataset",),
    "refs": (),
}
"""The functions that give what a repository tells of itself, and their parameters."""

Call = tuple[str, tuple[str, ...]]
"""A function of lower-case name, and the text that each of its arguments is."""


def split_statements(text: str) -> Iterator[str]:
    r"""Yield the statements of a script, which semicolons end.

    >>> list(split_statements("SELECT ';' -- no; end\n; SELECT 2;"))
    ["SELECT ';'", 'SELECT 2']
    """
    statement: list[str] = []
    for piece in [*_PIECES.findall(text), ";"]:
        if piece == ";":
            found = "".join(statement).strip()
            if found:
                yield found
            statement = []
        elif not piece.startswith(("--", "/*")) or piece in ("-", "/") or piece.startswith("/*+"):
            statement.append(piece)


def written_by(statement: str) -> str | None:
    """Return the word by which a statement changes tables; None where it only reads.

    >>> written_by("update t SET a = 1"), written_by("CREATE TEMP VIEW v AS SELECT 1")
    ('UPDATE', None)
    >>> written_by("WITH a AS (SELECT 1) INSERT INTO t FROM a")
    'INSERT'
    """
    word = re.match(r"\w*", statement.lstrip(" \t\r\n("))
    first = word[0].upper() if word else ""
    if first == "WITH":
        first = _after_with(statement)
    return first if first in _WRITING and not _FOR_NOW.match(statement) else None


def edited_by(statement: str) -> str | None:
    """Return the word by which a statement edits tables of a checkout; None where it does not.

    >>> edited_by("INSERT INTO t VALUES (1)"), edited_by("INSERT OVERWRITE DIRECTORY '/x' SELECT 1")
    ('INSERT', None)
    >>> edited_by("drop table t"), edited_by("CREATE FUNCTION f AS 'x'")
    ('DROP', None)
    """
    word = written_by(statement)
    if word in ("DELETE", "INSERT", "MERGE", "UPDATE") or _OF_TABLES.match(statement):
        return None if _TO_FILES.match(statement) else word
    return None


def table_made_by(statement: str) -> str | None:
    """Return the name of the table that a statement makes beside others; None for none.

    >>> table_made_by("CREATE TABLE IF NOT EXISTS `a`.x AS SELECT 1"), table_made_by("SELECT 1")
    ('a.x', None)
    """
    made = None if _TO_FILES.match(statement) else _MAKING.match(statement)
    return None if made is None else made[1].replace("`", "")


def _after_with(statement: str) -> str:
    """Return the word that says what a statement does after the tables that WITH names."""
    depth = 0
    for kind, token in _tokens(statement):
        depth += (token == "(") - (token == ")")
        if not depth and kind == "word" and token.upper() in _WRITING | _READING:
            return token.upper()
    return ""


def names(text: str) -> list[str]:
    """Return each name in some SQL that may be a table's, as it is written there, once.

    >>> names('SELECT "a""b" FROM "trees@v1" t -- x')
    ['SELECT', 'a"b', 'FROM', 'trees@v1', 't']
    """
    found = dict.fromkeys(
        token[1:-1].replace('""', '"') if kind == "quoted" else token
        for kind, token in _tokens(text)
        if kind in ("quoted", "word")
    )
    return list(found)


def calls(text: str) -> list[Call]:
    """Return the functions that are called with nothing but text, each call once.

    >>> calls("FROM changes('a...b') JOIN history ( 'it''s', 'x' ), f(1)")
    [('changes', ('a...b',)), ('history', ("it's", 'x'))]
    """
    found: dict[Call, None] = {}
    tokens = list(_tokens(text))
    for place, (kind, token) in enumerate(tokens):
        if kind == "word" and (call := _call(token.lower(), tokens[place + 1 :])):
            found[call] = None
    return list(found)


def _call(name: str, following: list[tuple[str, str]]) -> Call | None:
    if not following or following[0][1] != "(":
        return None
    arguments: list[str] = []
    for kind, token in following[1:]:
        if token == ")":
            return name, tuple(arguments)
        if kind == "text":
            arguments.append(token[1:-1].replace("''", "'"))
        elif token != ",":
            return None
    return None


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    for match in _TOKENS.finditer(text):
        if match.lastgroup not in (None, "comment"):
            yield str(match.lastgroup), match[0]
