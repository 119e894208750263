"""Looking back: commits as writers print them, and what they changed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import islice

from havasu_vc.datasets.kinds import DEFAULT, find_kind
from havasu_vc.datasets.tile_sets import TILES, folder_of_tile, is_tile_set, tile_changes
from havasu_vc.errors import InvalidArgumentError, NotFoundError, RevisionNotFoundError
from havasu_vc.looking.commit_values import info_of, with_notes
from havasu_vc.looking.other_files import paths_matching
from havasu_vc.looking.requests import LogRequest, SeekRequest
from havasu_vc.model.commits import ChangeCounts, CommitInfo
from havasu_vc.repo.filter_texts import is_inside, split_filter
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.commits import Commit, read_commit
from havasu_vc.store.log import (
    Alike,
    LogFilter,
    Moved,
    RefFilter,
    commits,
    decorations,
    parse_date,
    tips,
)
from havasu_vc.store.refs import branch_with_commits
from havasu_vc.store.revisions import Revision, parse_range, resolve_range
from havasu_vc.store.trees import find_datasets

__all__ = ["commit_info", "log", "tiles_changed"]


def commit_info(repo: OpenRepo, revision: str = "HEAD") -> CommitInfo:
    """Return a commit as writers print it."""
    identity = repo.resolve(revision).commit
    if identity is None:
        raise NotFoundError(f"{revision} is no commit")
    info = info_of(read_commit(repo.git.objects, identity), decorations(repo.git))
    return next(with_notes(repo.git, [info]))


def tiles_changed(repo: OpenRepo, commit: str) -> dict[str, ChangeCounts]:
    """Return how many tiles a commit changed in each of Kart's raster and point-cloud datasets."""
    ends = [repo.folders(repo.resolve(end)) for end in (f"{commit}^?", commit)]
    found = {}
    for path in sorted(ends[0].keys() | ends[1].keys()):
        sides = [folders.get(path) for folders in ends]
        if any(map(is_tile_set, sides)):
            sides = [side if is_tile_set(side) else None for side in sides]
            counts = tile_changes(repo.git.objects, *sides)
            if counts.total:
                found[path] = counts
    return found


def log(repo: OpenRepo, request: LogRequest) -> Iterator[CommitInfo]:
    """Yield the commits that a revision or range reaches, newest first.

    `filters` name datasets, rows or meta items, and `columns` those of the rows that
    count. The other conditions are git's. A dataset is followed where it was moved.
    """
    revision, filters = request.revision, request.filters
    hide: list[str] = []
    starts = []
    for text in (revision, *request.also):
        if "..." in text:
            one, other = _both_ends(repo, text)
            starts += [one, other]
            bases = repo.git.git(
                "merge-base", "--all", str(one.commit), str(other.commit), check=False
            )
            hide += bases.lines
        elif ".." in text:
            ends = resolve_range(repo.git, text)
            starts.append(ends.new)
            hide += [ends.old.commit] if ends.old.commit else []
        elif text.startswith("^"):
            left_out = repo.resolve(text[1:]).commit
            hide += [left_out] if left_out else []
        else:
            starts.append(repo.resolve(text) if text != "HEAD" else repo.head())
    if not starts:
        return  # as git has it, which begins at HEAD only where nothing is named
    if any(each.commit is None for each in starts):
        raise _no_commit(repo)
    filters = _expanded(repo, starts, filters)
    request = replace(request, filters=filters)
    start = _with_all(repo, starts, filters)
    paths = tuple(_path_of(repo, start, text) for text in filters)
    sought = _sought(request)
    chosen_by_rows = sought is not None or request.box is not None
    wanted = LogFilter(
        paths,
        since=_date(repo, request.since),
        until=_date(repo, request.until),
        author=request.author,
        committer=request.committer,
        grep=request.grep,
        merges=request.merges,
        skip=0 if chosen_by_rows else request.skip,
        limit=None if chosen_by_rows else request.limit,
    )
    refs = RefFilter(tuple(request.decorate_refs), tuple(request.decorate_refs_exclude))
    names = decorations(repo.git, full=request.full_refs, wanted=refs)
    with ExitStack() as stack:
        alike = _row_history(repo, start, request, stack)
        also = [each.commit for each in starts if each.commit]
        also += tips(repo.git) if request.every_ref else ()
        moved = _moves(repo)
        found = commits(repo.git, also[0], wanted, also=also, hide=hide, alike=alike, moved=moved)
        chosen = _holding(repo, found, request, sought) if chosen_by_rows else found
        found = reversed(list(chosen)) if request.reverse else chosen
        yield from with_notes(repo.git, (info_of(commit, names) for commit in found))


def _both_ends(repo: OpenRepo, text: str) -> tuple[Revision, Revision]:
    """Return the two revisions of `A...B`, which means what either alone reaches, as in git."""
    ends = parse_range(text)
    return repo.resolve(ends.old), repo.resolve(ends.new or "HEAD")


def _with_all(repo: OpenRepo, starts: Sequence[Revision], filters: Sequence[str]) -> Revision:
    """Return the first of some revisions that has or had all that filters name, else the first."""
    named = {split_filter(text)[0] for text in filters}
    whole = (
        each for each in starts if all(repo.last_folder(each, path) is not None for path in named)
    )
    return starts[0] if len(starts) == 1 else next(whole, starts[0])


def _expanded(
    repo: OpenRepo, starts: Sequence[Revision], filters: Sequence[str]
) -> tuple[str, ...]:
    """Return filters with the datasets that patterns match at some revisions in their place."""
    found: dict[str, None] = {}
    for text in filters:
        pattern, colon, rest = text.partition(":")
        known = {path for each in starts for path in repo.folders(each)} if "*" in pattern else ()
        matching = {path for path in known if fnmatchcase(path, pattern)}
        if "*" in pattern and not colon and repo.git.follows_kart:
            trees = {each.tree for each in starts if each.tree}
            matching |= {path for tree in trees for path in paths_matching(repo, tree, pattern)}
        found |= dict.fromkeys(path + colon + rest for path in sorted(matching) or [pattern])
    return tuple(found)


def _no_commit(repo: OpenRepo) -> NotFoundError:
    branch = branch_with_commits(repo.git)
    if branch is None:
        return NotFoundError(
            "there is no commit yet", hints=("`havasu-vc import` makes the first",)
        )
    return NotFoundError(
        "there is no commit yet on this branch",
        hints=(f"{branch} has some: `havasu-vc switch {shlex.quote(branch)}`",),
    )


def _sought(request: LogRequest) -> SeekRequest | None:
    """Return what a changed row must hold."""
    if request.holds is not None and request.matches is not None:
        raise InvalidArgumentError(
            "-S and -G do not go together", hints=("a regular expression finds either: `-G 'A|B'`",)
        )
    if request.matches is not None:
        return SeekRequest(request.matches, regex=True)
    return None if request.holds is None else SeekRequest(request.holds)


def _holding(
    repo: OpenRepo, found: Iterator[Commit], request: LogRequest, sought: SeekRequest | None
) -> Iterator[Commit]:
    """Return those of some commits that changed a row which holds a value, or lies in a box."""
    from havasu_vc.looking.placing import changes_touch
    from havasu_vc.looking.seeking import changes_hold

    box, filters = request.box, request.filters

    def is_one(commit: Commit) -> bool:
        try:
            return (box is None or changes_touch(repo, commit.id, box, filters)) and (
                sought is None or changes_hold(repo, commit.id, sought, filters)
            )
        except RevisionNotFoundError as error:  # a shallow clone begins with it
            repo.settings.note(f"{error.reason or error.message}: {error.hints[0]}")
            return False

    chosen = (commit for commit in found if len(commit.parents) < 2 and is_one(commit))
    start = request.skip
    return islice(chosen, start, None if request.limit is None else start + request.limit)


def _moves(repo: OpenRepo) -> Moved:
    """Return what tells where a dataset was before it was moved, by its identity."""

    def moved(parent: Commit, commit: Commit, paths: tuple[str, ...]) -> tuple[str, ...]:
        objects = repo.git.objects
        old = {folder.path: folder for folder in find_datasets(objects, parent.tree)}
        new = {folder.path: folder for folder in find_datasets(objects, commit.tree)}
        # Few logs follow a dataset, and what compares two needs Arrow.
        from havasu_vc.repo.differences import moved_datasets

        names = moved_datasets(repo, old, new, (parent.id, commit.id))
        return tuple(_renamed(path, names) for path in paths)

    return moved


def _renamed(path: str, names: Mapping[str, str]) -> str:
    """Return a path with the name that its dataset had before.

    >>> _renamed("maps/trees/.havasu-dataset/edits", {"maps/trees": "trees"})
    'trees/.havasu-dataset/edits'
    """
    for new, old in names.items():
        if path == new or path.startswith(f"{new}/"):
            return old + path.removeprefix(new)
    return path


def _row_history(
    repo: OpenRepo,
    start: Revision,
    request: LogRequest,
    stack: ExitStack,
) -> Alike | None:
    """Return what looks at rows, where rows or columns are asked for."""
    columns = request.columns
    named = [text for text in request.filters if split_filter(text)[1:2] == ("feature",)]
    of_tiles = {
        text for text in named if is_tile_set(repo.last_folder(start, split_filter(text)[0]))
    }
    filters = [text for text in request.filters if text not in of_tiles]
    if not columns and not any(split_filter(text)[2] for text in named if text not in of_tiles):
        return None
    from havasu_vc.looking.blaming import RowHistory

    engine = stack.enter_context(repo.settings.open_engine(0))
    return RowHistory(repo, start, filters, columns, engine).alike


def _date(repo: OpenRepo, text: str | None) -> int | None:
    return None if text is None else parse_date(repo.git, text)


def _path_of(repo: OpenRepo, start: Revision, text: str) -> str:
    """Return the folder whose changes a filter asks for."""
    path, kind, item = split_filter(text)
    if is_inside(path):
        return path.rstrip("/")
    if not kind:
        return path
    folder = repo.last_folder(start, path)
    marker = DEFAULT.marker if folder is None else folder.marker
    if kind == "meta":
        return f"{path}/{marker}/meta/{item}".rstrip("/")
    if is_tile_set(folder):
        place = f"{path}/{marker}/{TILES}"
        return f"{place}/{folder_of_tile(item)}/{item}" if kind == "tile" and item else place
    if kind == "feature":
        if item:
            # A key looks closer: a row also changes where a dropped column comes back.
            return f"{path}/{marker}"
        return f"{path}/{marker}/{(find_kind(marker) or DEFAULT).rows}"
    return path
