"""Filters as Kart takes them among the arguments of a command, where this program is Kart."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.as_kart import is_called_kart
from havasu_vc.cli.errors import visible
from havasu_vc.cli.karts_results import HOW_TO_GO_ON, OF_HIDDEN
from havasu_vc.errors import HavasuError, NotYetSupportedError, SpatialFilterConflictError
from havasu_vc.repo.filter_texts import split_filter

if TYPE_CHECKING:
    from havasu_vc.library import Repo

__all__ = [
    "filters_as_kart",
    "filters_of_edits",
    "hidden_keys_told",
    "refuse_keys_of_patterns",
    "refused_parts",
    "tell_how_to_part",
    "warn_of_filters",
]


def filters_as_kart(filters: Sequence[str]) -> tuple[str, ...]:
    """Return filters as Kart takes them, of which one that names a meta item is of all meta."""
    if not is_called_kart():
        return tuple(filters)
    return tuple(re.sub(r"^([^:]+:meta):.+", r"\1", _of_stars(each)) for each in filters)


def filters_of_edits(filters: Sequence[str], since: str = "HEAD") -> tuple[str, ...]:
    """Return filters of what is edited, of which Kart takes one of rows for one of meta as well.

    Between HEAD and another revision one of rows is of rows alone.
    """
    filters = filters_as_kart(filters)
    if not is_called_kart() or since != "HEAD":
        return filters
    paths = [path for path, kind, _ in map(split_filter, filters) if kind == "feature"]
    return tuple(dict.fromkeys((*filters, *(f"{path}:meta" for path in paths))))


def _of_stars(text: str) -> str:
    """Return a filter as a pattern in which only the star stands for anything.

    >>> _of_stars("roads?*:feature:1"), _of_stars("roads?")
    ('roads[?]*:feature:1', 'roads?')
    """
    path, colon, rest = text.partition(":")
    if "*" in path:
        path = re.sub(r"[?\[]", lambda found: f"[{found[0]}]", path)
    return path + colon + rest


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

    That is so of any other version of it, and of parts of it but all rows. A dataset that is at
    one end alone is restored by a commit alone.
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
        for diff in repo.workspace.diff(None, [f"{path}:meta" for path in sorted(paths)])
        if any(change.name == "schema.json" for change in diff.meta)
    ]
    if not altered:
        return None
    what = "as they are elsewhere" if elsewhere else "in part"
    return NotYetSupportedError(f"edited columns cannot be restored {what}: {', '.join(altered)}")


def tell_how_to_part() -> None:
    """Tell how a filter is told from a revision."""
    from havasu_vc.cli.karts_texts import HOW_TO_PART

    click.echo(f"To silence this warning, use '--' to {HOW_TO_PART}\n", err=True)
