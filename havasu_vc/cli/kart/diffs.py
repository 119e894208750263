"""Diffs as Kart prints them by the options that it takes, where this program is Kart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.as_kart import is_called_kart
from havasu_vc.cli.errors import visible
from havasu_vc.errors import CrsError
from havasu_vc.model.diffs import DatasetDiff, FileChange

if TYPE_CHECKING:
    from havasu_vc.cli.invocation import Invocation
    from havasu_vc.writers import WriterOptions

__all__ = [
    "as_kart_writes",
    "crs_as_kart",
    "estimates_counts",
    "files_as_kart",
    "filters_counted",
    "one_after_the_other",
    "refuse_as_kart",
    "tell_what_is_hidden",
]

_FULL_ALONE = {"geojson": "GeoJSON", "quiet": "Quiet"}
"""Forms that hold full diffs alone, as Kart calls them in an error."""
_SYSTEMS = {"WGS84": "EPSG:4326", "WGS72": "EPSG:4322", "NAD27": "EPSG:4267", "NAD83": "EPSG:4269"}
"""Systems that GDAL, and so Kart, knows by a name."""
_ESCAPES = {**{ord(each): f"\\{each}" for each in '"\\'}, 7: r"\a", 8: r"\b", 9: r"\t"}
_ESCAPES |= {10: r"\n", 11: r"\v", 12: r"\f", 13: r"\r"}


def refuse_as_kart(form: str, counted: str | None, diff_format: str) -> None:
    """Raise for what Kart prints in no such form, where this program is Kart."""
    if not is_called_kart():
        return
    if counted is not None:
        if form not in ("text", "json"):
            raise click.UsageError("--only-feature-count requires text or json output")
    elif form == "feature-count":
        what = f"Unrecognized output format: {form}"
        raise click.UsageError(f"Invalid value for output_format: {what}")
    elif form in _FULL_ALONE and diff_format != "full":
        raise click.UsageError(f"{_FULL_ALONE[form]} format only supports full diffs")


def filters_counted(counted: str | None, filters: tuple[str, ...]) -> tuple[str, ...]:
    """Return the filters that count where rows are only counted: to Kart, none."""
    return () if counted is not None and is_called_kart() else filters


def estimates_counts(counted: str | None) -> bool:
    """Whether rows are counted inexactly, which Kart does of commits and of edits apart."""
    return is_called_kart() and counted not in (None, "exact")


def one_after_the_other(
    first: Iterable[DatasetDiff], then: Iterable[DatasetDiff]
) -> Iterator[DatasetDiff]:
    """Yield the changes of two diffs, by dataset, a row that both change twice."""
    found = {diff.path: diff for diff in first}
    for diff in then:
        before = found.get(diff.path, replace(diff, changes=iter(())))
        found[diff.path] = replace(before, changes=chain(before.changes, diff.changes))
    return (found[path] for path in sorted(found))


def as_kart_writes(how: WriterOptions, name: str) -> WriterOptions:
    """Return what Kart heeds of the options of a writer: in GeoJSON all halves are printed."""
    if not is_called_kart():
        return how
    if how.counts_at_end == "exact":  # which Kart tells of estimates alone
        how = replace(how, counts_at_end=None)
    return replace(how, delta_filter=None) if name == "geojson" else how


def files_as_kart(files: Iterable[FileChange]) -> tuple[FileChange, ...]:
    """Return files by the names that git prints, where this program is Kart."""
    if not is_called_kart():
        return tuple(files)
    quoted = (replace(each, path=_quoted(each.path)) for each in files)
    return tuple(sorted(quoted, key=lambda each: each.path))


def _quoted(path: str) -> str:
    r"""Return the name of a file as git prints it, in quotes where it has to.

    >>> print(_quoted("a b.txt"), _quoted("\u00e9.txt"), _quoted('a"b'))
    a b.txt "\303\251.txt" "a\"b"
    """
    raw = path.encode("utf-8", "surrogateescape")
    shown = "".join(
        _ESCAPES.get(each) or (chr(each) if 32 <= each < 127 else f"\\{each:03o}") for each in raw
    )
    return path if shown == path else f'"{shown}"'


def crs_as_kart(text: str) -> str:
    """Return a system by a name that is known here; a bare number names none to Kart."""
    if not is_called_kart():
        return text
    if text.strip() != text or text.isdecimal():
        raise CrsError(f"{text!r} is not a coordinate reference system that is known")
    return _SYSTEMS.get(text, text)


def tell_what_is_hidden(invocation: Invocation, diffs: Iterable[DatasetDiff]) -> None:
    """Tell how many changes a patch lacks that the spatial filter hides."""
    numbers = {diff.path: diff.left_out.total for diff in diffs if diff.left_out.total}
    if numbers and is_called_kart():
        click.echo("Warning: The generated patch does not contain the entire commit: ", err=True)
    for path, number in numbers.items():
        if is_called_kart():
            what = f"there are {number} changed features not included due to spatial filter"
            click.echo(f"  In dataset {visible(path)} {what}", err=True)
        else:
            rows = f"{number:,} changed row{'s' * (number != 1)}"
            invocation.note(f"{path}: {rows} outside of the spatial filter not in the patch")
