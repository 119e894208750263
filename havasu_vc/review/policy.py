"""`.havasu/policy.toml`: what a change may do, and what rows must be like.

    [[dataset]]
    path = "nz/*"                 # which datasets; `*` stands for any characters
    level = "warn"                # `refuse` where it is not said
    max-deletes = 100
    max-delete-share = 0.05       # of the rows there were
    allow-removal = false
    required-columns = ["owner"]  # there, and not null in any row that comes
    schema-changes = ["add-column"]
    valid-geometry = true
    bounds = [166.0, -48.0, 179.0, -34.0]
    unique = [["name"], ["sheet", "number"]]

    [[dataset.check]]
    name = "area is positive"
    sql = "area > 0"
    level = "refuse"

Every `[[dataset]]` that fits a dataset holds for it. A key that is not known is an error
that names its line: a rule that is spelled wrong would pass over everything.
"""

from __future__ import annotations

import fnmatch
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from havasu_vc.errors import InvalidFileError
from havasu_vc.model.names import POLICY_FILE
from havasu_vc.records import dataclass

__all__ = ["SCHEMA_CHANGES", "Check", "Policy", "Rules", "parse_policy"]

_MOST_BYTES = 256 * 1024
_DEEP = re.compile(rb"(?:[\w-]{1,99}[ \t]*\.[ \t]*){30}")
"""A depth of tables that no policy has, and that takes the more memory the longer it is."""
SCHEMA_CHANGES = (
    "add-column",
    "remove-column",
    "rename-column",
    "change-type",
    "change-nullability",
    "change-crs",
    "change-key",
    "reorder-columns",
)
"""Changes that a schema can have."""
LEVELS = ("refuse", "warn")
_HEADER = re.compile(r"\s*\[(\[?)\s*([\w.\" -]+?)\s*\]\]?\s*(#.*)?")
_KEY = re.compile(r"""\s*["']?([\w-]+)["']?\s*(?:=|\.)""")


@dataclass(frozen=True, slots=True)
class Check:
    """An expression of SQL that must not be false for any row that comes."""

    name: str
    """Its name."""
    sql: str
    """The expression; null passes, as in SQL."""
    refuses: bool
    """Whether it refuses; else it warns."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules of one `[[dataset]]`; what is None is not asked."""

    path: str = "*"
    """The datasets that it is for."""
    refuses: bool = True
    """Whether it refuses; else it warns."""
    max_deletes: int | None = None
    """Rows that may be deleted."""
    max_delete_share: float | None = None
    """The share of the rows there were that may be deleted."""
    allow_removal: bool = True
    """Whether the dataset may be removed."""
    required_columns: tuple[str, ...] = ()
    """Columns that must be there, and not null in rows that come."""
    schema_changes: tuple[str, ...] | None = None
    """The changes that the schema may have."""
    valid_geometry: bool = False
    """Whether geometries that come must be valid."""
    bounds: tuple[float, float, float, float] | None = None
    """Least x and y, greatest x and y that geometries may have, in their own coordinates."""
    unique: tuple[tuple[str, ...], ...] = ()
    """Sets of columns whose values no two rows may share; null is equal to nothing."""
    checks: tuple[Check, ...] = ()
    """Expressions of SQL."""

    def fits(self, path: str) -> bool:
        """Whether these are rules for a dataset."""
        return fnmatch.fnmatchcase(path, self.path)


@dataclass(frozen=True, slots=True)
class Policy:
    """All rules of a repository."""

    rules: tuple[Rules, ...] = field(default=())
    """One for each `[[dataset]]`."""

    def of(self, path: str) -> tuple[Rules, ...]:
        """Return the rules for a dataset."""
        return tuple(rules for rules in self.rules if rules.fits(path))


def parse_policy(data: bytes, name: str = POLICY_FILE) -> Policy:
    """Return the policy of a file; `name` is what errors call it."""
    if len(data) > _MOST_BYTES:
        raise InvalidFileError(name, f"has {len(data):,} bytes, more than any policy should")
    if _DEEP.search(data):
        raise InvalidFileError(name, "has a name of too many parts")
    try:
        text = data.decode()
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        # Beside what is no TOML, a number of more digits than Python reads.
        raise InvalidFileError(name, f"is not TOML: {error}") from error
    reader = _Reader(name, _lines_of(text))
    reader.known(document, (), ("dataset",))
    tables = reader.tables(document, "dataset", ())
    return Policy(tuple(reader.rules(table, ("dataset", n)) for n, table in enumerate(tables)))


_Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class _Reader:
    """Takes values out of a document, and says what is wrong with them, and where."""

    name: str
    lines: Mapping[_Path, int]

    def wrong(self, path: _Path, reason: str) -> InvalidFileError:
        line = self.lines.get(path)
        where = self.name if line is None else f"{self.name}, line {line}"
        return InvalidFileError(where, reason)

    def known(self, table: Mapping[str, Any], path: _Path, names: tuple[str, ...]) -> None:
        for key in table:
            if key not in names:
                raise self.wrong((*path, key), f"{key!r} is not known here")

    def tables(self, table: Mapping[str, Any], key: str, path: _Path) -> list[dict[str, Any]]:
        found = table.get(key, [])
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            raise self.wrong((*path, key), f"write [[{key}]], with two brackets")
        return found

    def rules(self, table: Mapping[str, Any], path: _Path) -> Rules:
        self.known(table, path, _RULES)
        refuses = self.level(table, path, refuses=True)
        checks = self.tables(table, "check", path)

        def value(key: str, what: str, fits: Callable[[Any], bool], default: Any = None) -> Any:
            return self.value(table, path, key, what=what, fits=fits, default=default)

        share = value("max-delete-share", "a number from 0 to 1", _is_share)
        bounds = value("bounds", "four numbers, least x and y before greatest", _is_bounds)
        changes = value(
            "schema-changes", f"a list of {', '.join(SCHEMA_CHANGES)}", _is_schema_changes
        )
        return Rules(
            value("path", "a text", _is_text, "*"),
            refuses,
            value("max-deletes", "a whole number, not negative", _is_count),
            None if share is None else float(share),
            value("allow-removal", "true or false", _is_boolean, True),
            tuple(value("required-columns", "a list of names", _is_names, [])),
            None if changes is None else tuple(changes),
            value("valid-geometry", "true or false", _is_boolean, False),
            None if bounds is None else _four(bounds),
            tuple(map(tuple, value("unique", "a list of lists of names", _is_sets, []))),
            tuple(
                self.check(each, (*path, "check", number), refuses=refuses)
                for number, each in enumerate(checks)
            ),
        )

    def check(self, table: Mapping[str, Any], path: _Path, *, refuses: bool) -> Check:
        self.known(table, path, ("name", "sql", "level"))
        sql = self.value(table, path, "sql", what="an expression of SQL", fits=_is_text)
        if sql is None:
            raise self.wrong(path, "a check needs `sql`")
        name = self.value(table, path, "name", what="a text", fits=_is_text, default=sql)
        return Check(name, sql, self.level(table, path, refuses=refuses))

    def level(self, table: Mapping[str, Any], path: _Path, *, refuses: bool) -> bool:
        default = LEVELS[0] if refuses else LEVELS[1]
        found = self.value(
            table, path, "level", what="refuse or warn", fits=LEVELS.__contains__, default=default
        )
        return bool(found == LEVELS[0])

    def value(
        self,
        table: Mapping[str, Any],
        path: _Path,
        key: str,
        *,
        what: str,
        fits: Callable[[Any], bool],
        default: Any = None,
    ) -> Any:
        if key not in table:
            return default
        if not fits(table[key]):
            raise self.wrong((*path, key), f"{key} must be {what}")
        return table[key]


_RULES = (
    "path",
    "level",
    "max-deletes",
    "max-delete-share",
    "allow-removal",
    "required-columns",
    "schema-changes",
    "valid-geometry",
    "bounds",
    "unique",
    "check",
)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_boolean(value: Any) -> bool:
    return isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_share(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= 1


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_sets(value: Any) -> bool:
    return isinstance(value, list) and all(_is_names(each) and each for each in value)


def _is_schema_changes(value: Any) -> bool:
    return _is_names(value) and set(value) <= set(SCHEMA_CHANGES)


def _is_bounds(value: Any) -> bool:
    if not isinstance(value, list) or len(value) != 4 or not all(map(_is_number, value)):
        return False
    return bool(value[0] <= value[2] and value[1] <= value[3])


def _four(value: list[float]) -> tuple[float, float, float, float]:
    xmin, ymin, xmax, ymax = map(float, value)
    return xmin, ymin, xmax, ymax


def _lines_of(text: str) -> dict[_Path, int]:
    """Return in which line each key and table stands, as far as a look at each line tells."""
    found: dict[_Path, int] = {}
    counts: dict[_Path, int] = {}
    path: _Path = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.fullmatch(line):
            path = ()
            parts = [part.strip(' "') for part in header[2].split(".")]
            for index, part in enumerate(parts):
                path = (*path, part)
                found.setdefault(path, number)
                last = index == len(parts) - 1
                if header[1] and last:
                    counts[path] = counts.get(path, -1) + 1
                if path in counts:
                    path = (*path, counts[path])
            found.setdefault(path, number)
        elif key := _KEY.match(line):
            found.setdefault((*path, key[1]), number)
    return found
