"""Arguments as people type them, taken apart: `DATASET@REV`, `NAME=VALUE`, revisions, filters.

Telling revisions from datasets among the arguments of a command, with a repository at hand.
"""

from __future__ import annotations

import csv
import os
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.as_kart import is_called_kart
from havasu_vc.cli.kart.filters import (
    filters_as_kart,
    require_filters_of_kart,
    tell_how_to_part,
    warn_of_filters,
)
from havasu_vc.cli.options import after_dashes
from havasu_vc.errors import HavasuError, InvalidArgumentError, RevisionNotFoundError, nearest
from havasu_vc.model.names import parted_at_revision

if TYPE_CHECKING:
    from havasu_vc.history.conflicts import MergePolicy
    from havasu_vc.library import Repo

__all__ = [
    "names_something",
    "parse_assignment",
    "parse_dataset_at",
    "parse_format",
    "parse_names",
    "parse_policy",
    "parse_size",
    "parse_source",
    "parse_tile",
    "revisions_and_filters",
    "split_revisions",
]

_DRIVERS = ("GPKG", "SHP", "ESRI SHAPEFILE", "OGR")
_OPEN_RANGE = re.compile(r"\.\.\.?|(?!HEAD).+(?<!\.)\.\.|\.\.(?!\.).+")
"""Ranges that lack a side, which Kart takes for none: but of `...`, and behind HEAD."""
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def parse_names(values: Iterable[str]) -> tuple[str, ...]:
    """Return the names in options that take lists; double quotes keep a comma in a name.

    >>> parse_names(["id,name", '"a,b"'])
    ('id', 'name', 'a,b')
    """
    names: list[str] = []
    for value in values:
        for row in csv.reader([value], skipinitialspace=True):
            names += [name for name in row if name]
    return tuple(names)


def parse_dataset_at(
    text: str, ref: str | None = None, *, known: Iterable[str] = ()
) -> tuple[str, str]:
    """Return dataset and revision of `DATASET@REV`; with `ref`, all of `text` is the dataset.

    A path may have an @ itself, as a revision may: then one of those that are `known` is meant.

    >>> parse_dataset_at("roads@HEAD~2"), parse_dataset_at("roads")
    (('roads', 'HEAD~2'), ('roads', 'HEAD'))
    >>> parse_dataset_at("a@b@main", known=("a", "a@b")), parse_dataset_at("a@b", known=("a@b",))
    (('a@b', 'main'), ('a@b', 'HEAD'))
    """
    if ref is not None:
        return text, ref
    dataset, at, revision = parted_at_revision(text, known)
    if not dataset or (at and not revision):
        raise InvalidArgumentError(
            f"{text!r} names no dataset at a revision", hints=("write DATASET or DATASET@REV",)
        )
    return dataset, revision or "HEAD"


def parse_assignment(text: str) -> tuple[str, str]:
    """Return name and value of `NAME=VALUE`.

    >>> parse_assignment("title=a=b")
    ('title', 'a=b')
    """
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise InvalidArgumentError(
            f"{text!r} gives no item a value", hints=("write NAME=VALUE or NAME=@FILE",)
        )
    return name, value


def parse_format(text: str, style: str | None = None) -> tuple[str, str]:
    """Return an output format and the style of its JSON.

    >>> parse_format("json:compact"), parse_format("json")
    (('json', 'compact'), ('json', 'pretty'))
    """
    name, colon, own = text.partition(":")
    if is_called_kart():
        return name, own or "pretty"  # as in Kart, where --json-style says nothing beside -o
    if colon and style is not None and own != style:
        raise InvalidArgumentError(f"-o {text} and --json-style {style} contradict each other")
    return name, own or style or "pretty"


def parse_tile(text: str) -> tuple[int, int]:
    """Return columns and rows of a tile written as `512` or `512x256`.

    >>> parse_tile("512"), parse_tile("512x256")
    ((512, 512), (512, 256))
    """
    across, x, down = text.lower().partition("x")
    sides = (across, down if x else across)
    if not all(side.isascii() and side.isdecimal() and len(side) < 7 for side in sides):
        raise InvalidArgumentError(
            f"{text!r} is no size of a tile", hints=("write --tile 512 or --tile 512x256",)
        )
    if min(map(int, sides)) < 16:
        raise InvalidArgumentError("a tile has at least 16 columns and rows")
    return int(sides[0]), int(sides[1])


def parse_size(text: str) -> int:
    """Return a number of bytes written as `300M`.

    >>> parse_size("2k")
    2048
    """
    digits = text.strip().lower().removesuffix("b").removesuffix("i")
    number, unit = (digits[:-1], digits[-1]) if digits[-1:].isalpha() else (digits, "")
    if unit not in _UNITS or not (number.isascii() and number.isdigit()):
        raise InvalidArgumentError(f"{text!r} is no size", hints=("write a number and K, M or G",))
    return int(number) * _UNITS[unit]


def parse_policy(texts: Sequence[str]) -> MergePolicy:
    """Return how conflicts are decided without asking.

    >>> parse_policy(["height=theirs", "fill-nulls"]).columns
    {'height': <Side.THEIRS: 'theirs'>}
    """
    from havasu_vc.history.conflicts import MergePolicy, Side

    side, fill_nulls = None, False
    columns = {}
    for text in texts:
        if text == "fill-nulls":
            fill_nulls = True
            continue
        name, choice = ("", text) if "=" not in text else parse_assignment(text)
        if choice not in ("ours", "theirs"):
            raise InvalidArgumentError(
                f"-X {text} decides nothing",
                hints=("write ours, theirs, fill-nulls, COLUMN=ours or COLUMN=theirs",),
            )
        if name:
            columns[name] = Side(choice)
        elif side not in (None, Side(choice)):
            raise InvalidArgumentError("-X ours and -X theirs contradict each other")
        else:
            side = Side(choice)
    return MergePolicy(side, columns, fill_nulls, whole=is_called_kart() and not texts)


def parse_source(text: str) -> str:
    """Return the place of a source, which Kart's users name with its driver: `GPKG:~/a.gpkg`.

    >>> parse_source("GPKG:roads.gpkg"), parse_source("iceberg:/roads")
    ('roads.gpkg', 'iceberg:/roads')
    """
    driver, colon, place = text.partition(":")
    if colon and driver.upper() in _DRIVERS and not os.path.exists(text):
        return os.path.expanduser(place)
    return text


def split_revisions(
    arguments: Sequence[str],
    after: Sequence[str] | None,
    *,
    is_revision: Callable[[str], bool],
    is_dataset: Callable[[str], bool],
    most: int = 1,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the revisions and the filters among arguments.

    Up to `most` revisions come first. `after` is what stands after `--`: filters, and all
    before it revisions. Without it, an argument that could be either is refused, as git does.
    """
    if after is not None:
        if len(arguments) > most:
            raise InvalidArgumentError(
                f"at most {most} revision{'s' * (most > 1)} may stand before `--`"
            )
        return tuple(arguments), tuple(after)
    revisions: list[str] = []
    for argument in arguments[:most]:
        left_out = argument.startswith("^") and is_revision(argument[1:])
        if not (left_out or _looks_like_range(argument)):
            if ":" in argument or not is_revision(argument):
                break
            if is_dataset(argument):
                raise InvalidArgumentError(
                    f"{argument!r} is both a revision and a dataset",
                    hints=(f"`{argument} --` means the revision, `-- {argument}` the dataset",),
                )
        revisions.append(argument)
    return tuple(revisions), tuple(arguments[len(revisions) :])


def _is_tree(repo: Repo, text: str) -> bool:
    """Whether a text names a tree, by an id or as that of a commit."""
    if re.fullmatch(r"[0-9a-f]{4,40}|.+\^\{tree\}", text) is None:
        return False
    from havasu_vc.store.revisions import resolve_tree

    try:
        resolve_tree(repo.git, text)
    except HavasuError:
        return False
    return True


def _looks_like_range(argument: str) -> bool:
    return ".." in argument or argument.endswith("^?")


def revisions_and_filters(
    context: click.Context, repo: Repo, arguments: Sequence[str], *, most: int = 1
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the revisions and the filters that the person gave."""
    after = after_dashes(context)
    for each in arguments[:1]:
        _require_range(context, each, alone=after is None)

    def is_revision(text: str) -> bool:
        if text in ("HEAD", "[EMPTY]"):
            return True  # HEAD is one also where there is no commit yet
        try:
            repo.commit_info(text)
        except HavasuError:
            return context.info_name == "diff" and _is_tree(repo, text)
        return True

    def is_dataset(text: str) -> bool:
        try:
            return text in repo.datasets()
        except HavasuError:
            return False

    revisions, filters = split_revisions(
        arguments, after, is_revision=is_revision, is_dataset=is_dataset, most=most
    )
    if not filters:
        return revisions, filters
    from havasu_vc.repo.filter_texts import named_filters

    if not (filters := named_filters(filters)):
        return revisions, filters
    if after is None and repo.git.follows_kart:
        _require_no_path_of_head(repo, filters)
    assumed = after is None and warn_of_filters(filters, lambda path: _matches(repo, path))
    if revisions and after is None and ":" not in filters[0]:
        if not _matches(repo, filters[0]) and is_revision(filters[0]):
            last = revisions[-1]
            raise InvalidArgumentError(
                f"`{context.info_name}` takes {'one revision' if most == 1 else 'two revisions'}, "
                f"and {filters[0]!r} is another beside {last!r}",
                hints=(f"`{' '.join(revisions)} -- {filters[0]}` means a dataset of that name",),
            )
    if after is None:
        _require_order(repo, filters, is_revision)
    given = filters
    # `log` is of single meta items to Kart as well.
    filters = filters if context.info_name == "log" else filters_as_kart(filters)
    # Among several revisions, a name that is nothing is no dataset of before, as to Kart.
    several = context.info_name == "log" and repo.git.follows_kart
    if revisions and after is None and repo.git.follows_kart and not several:
        _require_matches(repo, revisions, filters)
    if filters and (several or not revisions) and after is None:
        for name in filters if is_called_kart() else filters[:1]:
            _require_known(context, repo, name)
    tell_how_to_part(assumed)
    require_filters_of_kart(given)
    return revisions, filters


def _require_range(context: click.Context, text: str, *, alone: bool) -> None:
    """Raise for what looks like a range of revisions and is none."""
    # `..` of a path would be one.
    if context.info_name == "diff" and text.startswith("..") and os.path.isfile(text):
        raise InvalidArgumentError(f"{text!r} is a file", hints=(_of_copies(text),))
    if alone and is_called_kart() and _OPEN_RANGE.fullmatch(text):
        raise InvalidArgumentError(f"{text!r} is neither a revision nor a dataset")


def _require_no_path_of_head(repo: Repo, filters: Sequence[str]) -> None:
    """Raise for what is a path at HEAD to git, and no filter to Kart."""
    for name in filters:
        if name.startswith("HEAD:") and not _matches(repo, "HEAD"):
            raise InvalidArgumentError(
                f"{name!r} is neither a revision nor a dataset",
                hints=(f"`-- {shlex.quote(name)}` means rows of a dataset of that name",),
            )


def _require_order(repo: Repo, filters: Sequence[str], is_revision: Callable[[str], bool]) -> None:
    """Raise for a revision that stands behind a filter."""
    first = filters[0]
    is_filter = ":" in first or _matches(repo, first) or (is_called_kart() and "*" in first)
    for name in filters[1:] if is_filter else ():
        if ":" not in name and not _matches(repo, name) and is_revision(name):
            raise InvalidArgumentError(
                f"the revision {name!r} stands behind the filter {first!r}",
                hints=(f"revisions come first; `-- {first} {name}` means two datasets",),
            )


def _require_known(context: click.Context, repo: Repo, name: str) -> None:
    """Raise for a filter that could be a revision and is neither that nor a dataset."""
    from havasu_vc.repo.filter_texts import is_inside

    first = name.partition(":")[0]
    if ":" in name or is_inside(first) or _matches(repo, first):
        return
    first = re.sub(r"\[([?\[])\]", r"\1", first) if is_called_kart() else first
    if is_called_kart() and "*" in first:
        return  # for Kart a pattern is a filter, also where it means nothing
    copy = context.info_name == "diff" and os.path.exists(first)
    raise InvalidArgumentError(
        f"{first!r} is neither a revision nor a dataset",
        hints=(_of_copies(first),)
        if copy
        else (
            *_why(repo, first),
            *_at_revision(repo, first),
            *nearest(first, [*repo.datasets(), *_known(repo)]),
            "`havasu-vc log` lists the commits, `havasu-vc data ls` the datasets",
            f"`-- {first}` means a dataset that is not at HEAD",
        ),
    )


def _require_matches(repo: Repo, revisions: Sequence[str], filters: Sequence[str]) -> None:
    """Raise for a name behind revisions that is nothing there, as Kart does without `--`.

    Kart knows those at HEAD alone.
    """
    for name in filters:
        if ":" in name or _matches(repo, name) or (is_called_kart() and "*" in name):
            continue
        if is_called_kart() or not any(
            _matches(repo, name, part or "HEAD")
            for each in revisions
            for part in re.split(r"\.{2,3}", each.removesuffix("^?"))
        ):
            raise InvalidArgumentError(
                f"there is no dataset {name!r} on either side",
                hints=(
                    *nearest(name, repo.datasets()),
                    "`havasu-vc data ls` lists the datasets",
                ),
            )


def names_something(repo: Repo, name: str, revisions: Sequence[str]) -> bool:
    """Whether a name is that of a dataset, or in Kart's repositories of a file, at a revision."""
    return any(_matches(repo, name, each) for each in revisions)


def _of_copies(file: str) -> str:
    return f"`havasu-vc diff --from {shlex.quote(file)}` shows what was edited in a copy"


def _why(repo: Repo, text: str) -> tuple[str, ...]:
    """Return what is known of a name that would be a revision's, as that a clone is shallow."""
    try:
        repo.commit_info(text)
    except RevisionNotFoundError as error:
        return error.hints if repo.git.handle.is_shallow and ("^" in text or "~" in text) else ()
    except HavasuError:
        pass
    return ()


def _known(repo: Repo) -> tuple[str, ...]:
    """Return the names of revisions that somebody may have meant."""
    tags = (each.name for each in repo.tags())
    return ("HEAD", *(each.name for each in repo.branches()), *tags)


def _at_revision(repo: Repo, text: str) -> tuple[str, ...]:
    """Return how to write `DATASET@REV` here, which some commands take as one."""
    path, at, revision = text.rpartition("@")
    return (f"write it as `{revision} {path}`",) if at and revision and _matches(repo, path) else ()


def _matches(repo: Repo, pattern: str, revision: str = "HEAD") -> bool:
    try:
        paths = repo.datasets(revision)
    except HavasuError:
        return False
    if any(path == pattern.rstrip("/") or fnmatchcase(path, pattern) for path in paths):
        return True
    return repo.git.follows_kart and _is_file(repo, pattern.rstrip("/"), revision)


def _is_file(repo: Repo, path: str, revision: str) -> bool:
    """Return whether there is a file beside datasets, which Kart's filters may name."""
    if not path:
        return False
    return not repo.git.git("cat-file", "-e", f"{revision}:{path}", check=False).code
