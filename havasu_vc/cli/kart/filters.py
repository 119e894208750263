"""Filters as Kart takes them among the arguments of a command, where this program is Kart."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.as_kart import is_called_kart
from havasu_vc.cli.errors import visible
from havasu_vc.cli.kart.results import HOW_TO_GO_ON, OF_HIDDEN
from havasu_vc.errors import (
    HavasuError,
    InvalidArgumentError,
    NotYetSupportedError,
    SpatialFilterConflictError,
)
from havasu_vc.repo.filter_texts import CONDITIONS, split_filter

if TYPE_CHECKING:
    from havasu_vc.library import Repo
    from havasu_vc.model.diffs import MetaChange

__all__ = [
    "checked_filters",
    "filters_as_kart",
    "filters_meant",
    "filters_of_edits",
    "hidden_keys_told",
    "refuse_keys_of_patterns",
    "refused_parts",
    "require_filters_of_kart",
    "tell_how_to_part",
    "warn_of_filters",
]

_NEVER_FIRST = ':<>"|?./'
"""Characters with which the path of no dataset begins, to Kart."""


def filters_as_kart(filters: Sequence[str]) -> tuple[str, ...]:
    """Return filters as Kart takes them, of which one that names a meta item is of all meta."""
    return tuple(map(_as_kart, filters)) if is_called_kart() else tuple(filters)


def checked_filters(filters: Sequence[str]) -> tuple[str, ...]:
    """Return filters as Kart takes them, none of which it refuses."""
    require_filters_of_kart(filters)
    return filters_as_kart(filters)


def require_filters_of_kart(filters: Sequence[str]) -> None:
    """Raise for what is no filter to Kart, where this program is Kart."""
    for text in filters if is_called_kart() else ():
        path = text.partition(":")[0]
        if not path or path[0] in _NEVER_FIRST or path[-1] in "/." or "/." in path:
            raise InvalidArgumentError(f"{text!r} names no dataset")


def filters_meant(filters: Sequence[str], known: Iterable[str]) -> tuple[str, ...]:
    """Return Kart's filters by the names of the datasets that they mean."""
    paths = sorted(known)
    parted = [each.partition(":") for each in checked_filters(filters)]
    found = (
        path + colon + rest
        for pattern, colon, rest in parted
        for path in paths
        if fnmatchcase(path, pattern)
    )
    return tuple(dict.fromkeys(found))


def _as_kart(text: str) -> str:
    """Return a filter of Kart's as one of ours.

    >>> _as_kart("roads?*:1"), _as_kart("roads:"), _as_kart("roads:meta:title")
    ('roads[?]*:1', 'roads', 'roads:meta')
    >>> _as_kart("roads:row:1")  # which means nothing, as Kart has no such part
    'roads:tile:row:1'
    """
    path, _, rest = text.partition(":")
    path = re.sub(r"[?\[]", lambda found: f"[{found[0]}]", path)  # the star alone is a pattern
    kind, colon, _ = rest.partition(":")
    if not rest:
        return path
    if kind == "meta":
        return f"{path}:meta"
    known = not colon or kind in ("feature", "tile", *CONDITIONS)
    return f"{path}:{rest}" if known else f"{path}:tile:{rest}"


def filters_of_edits(filters: Sequence[str], since: str = "HEAD") -> tuple[str, ...]:
    """Return filters of edits or conflicts, of which Kart takes one of rows for one of meta too.

    Between HEAD and another revision one of rows is of rows alone.
    """
    filters = checked_filters(filters)
    if not is_called_kart() or since != "HEAD":
        return filters
    paths = [path for path, kind, _ in map(split_filter, filters) if kind == "feature"]
    return tuple(dict.fromkeys((*filters, *(f"{path}:meta" for path in paths))))


def warn_of_filters(filters: Sequence[str], is_there: Callable[[str], bool]) -> bool:
    """Tell as Kart does of parts of datasets that are not there, and whether there were any."""
    if not is_called_kart():
        return False
    nothing = [
        each
        for each in filters
        if ":" in each and "*" not in each and not is_there(each.partition(":")[0])
    ]
    for each in nothing:
        what = f"Assuming '{each}' is a filter argument (that doesn't match anything at HEAD)"
        click.echo(what, err=True)
    return bool(nothing)


@contextmanager
def hidden_keys_told() -> Iterator[None]:
    """Tell as Kart does, before the error that says it, which keys a spatial filter hides."""
    try:
        yield
    except SpatialFilterConflictError as error:
        if is_called_kart():
            click.echo(OF_HIDDEN, err=True)
            for each in re.split(r"(?= In dataset )", error.message)[1:]:
                click.echo(f" {visible(each)}", err=True)
            click.echo(HOW_TO_GO_ON, err=True)
        raise


def refuse_keys_of_patterns(filters: Sequence[str]) -> None:
    """Refuse filters of `log` that Kart refuses: of rows of every dataset that a pattern means."""
    if is_called_kart() and any("*" in each and split_filter(each)[2] for each in filters):
        raise NotYetSupportedError(
            "`kart log` doesn't currently support filters with both wildcards and feature IDs"
        )


def refused_parts(repo: Repo, filters: Sequence[str], source: str | None) -> HavasuError | None:
    """Return why Kart restores nothing where the columns of a table are edited.

    That is so of parts of it but all rows, and of a version with columns that the table has not
    or without some. A dataset that is at one end alone is restored by a commit alone.
    """
    elsewhere = source is not None and repo.commit_info(source).id != repo.head().commit
    if source is not None and elsewhere and repo.workspace.living is not None:
        lone = set(repo.datasets()) ^ set(repo.datasets(source))
        named = {each.partition(":")[0].strip("/") for each in filters}
        if lone := {path for path in lone if not filters or path in named}:
            what = "datasets cannot be restored as they are elsewhere"
            return NotYetSupportedError(f"{what}: {', '.join(sorted(lone))}")
    parts = [each for each in filters if ":" in each and split_filter(each)[1:] != ("feature", "")]
    if not (parts or elsewhere) or repo.workspace.living is None:
        return None
    paths = {each.partition(":")[0].strip("/") for each in (filters if elsewhere else parts)}
    altered = [
        diff.path
        for diff in repo.workspace.diff(
            source if elsewhere else None, [f"{path}:meta" for path in sorted(paths)]
        )
        if any(
            change.name == "schema.json" and not (elsewhere and _same_columns(change))
            for change in diff.meta
        )
    ]
    if not altered:
        return None
    what = "as they are elsewhere" if elsewhere else "in part"
    return NotYetSupportedError(f"edited columns cannot be restored {what}: {', '.join(altered)}")


def _same_columns(change: MetaChange) -> bool:
    """Whether a schema has the columns that it had, perhaps by other names."""
    ids = [{each["id"] for each in side or ()} for side in (change.old, change.new)]
    return ids[0] == ids[1]


def tell_how_to_part(assumed: bool) -> None:
    """Tell how a filter is told from a revision, where one was `assumed`."""
    if not assumed:
        return
    from havasu_vc.cli.kart.texts import HOW_TO_PART

    click.echo(f"To silence this warning, use '--' to {HOW_TO_PART}\n", err=True)
