"""Leftovers in a work tree, as `git clean` knows it and as only we can tell.

Files are git's to find and to remove. Tables of the workspace that are no dataset's, and layers of
the working copy that are none, git does not see; and those that are a dataset's it would take for
files that are ignored, edits and all, so they are kept from it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from havasu_vc.checkouts.living_lookup import working_copy
from havasu_vc.checkouts.living_place import living_place
from havasu_vc.checkouts.requests import CleanRequest
from havasu_vc.checkouts.table_places import workspace_root
from havasu_vc.errors import StateError
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.workspace.places import TEMPORARY, remove_table
from havasu_vc.workspace.state import read_state

__all__ = ["LeftBehind", "clean"]

_TOLD = re.compile(r"^(?:Would remove|Removing) (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """Leftovers that go, or would."""

    files: tuple[str, ...] = ()
    """Files and folders, as git names them."""
    tables: tuple[str, ...] = ()
    """Tables of the workspace, by their paths in it."""
    layers: tuple[str, ...] = ()
    """Layers of the working copy."""


def clean(repo: OpenRepo, request: CleanRequest) -> LeftBehind:
    """Remove what nothing tracks at some paths, or in a folder, or tell what would go.

    Folders, and tables, which are some, go with `folders`, or where a path names them; files that
    are ignored with `ignored`.
    """
    work_tree = repo.git.work_tree
    if work_tree is None:
        raise StateError("a bare repository has no work tree to clean")
    base = Path(os.path.realpath(work_tree))
    within = Path(os.path.realpath(request.folder or base))
    folders = request.folders or bool(request.paths)
    chosen = [Path(os.path.realpath(path)) for path in request.paths] or [within]
    for path in chosen:
        if path != base and base not in path.parents:
            raise StateError(f"{path} is outside of the work tree {base}")

    def is_meant(place: Path) -> bool:
        return base in chosen or any(each == place or each in place.parents for each in chosen)

    tables = tuple(_tables(repo, is_meant)) if folders else ()
    layers = _layers(repo, is_meant)
    files = ()
    # Of files in a folder of Kart's nothing is known to git: its index is locked.
    if not repo.git.is_kart:
        arguments = [
            "-n" if request.dry_run else "-f",
            *["-d"] * folders,
            *["-x"] * request.ignored,
        ]
        kept = [each for place in _ours(repo, base) for each in ("-e", place)]
        # git takes folders that a path names whatever is said of folders, and none without a path.
        names = [path.relative_to(base).as_posix() for path in chosen] if request.paths else []
        place = ["-C", str(base if request.paths else within), "-c", "core.quotePath=false"]
        told = repo.git.git(*place, "clean", *arguments, *kept, "--", *names)
        files = tuple(_TOLD.findall(told.text))
    if not request.dry_run:
        root = workspace_root(repo) if tables else ""
        for each in tables:
            assert isinstance(root, Path)
            remove_table(root, root / each)
        living = working_copy(repo)
        if living is not None and layers:
            living.drop_layers(layers)
    return LeftBehind(files, tables, layers)


def _ours(repo: OpenRepo, base: Path) -> Iterator[str]:
    """Yield patterns of git's that match what is of the checkout in the work tree."""
    places = []
    if read_state(repo.git.git_directory) is not None:
        root = workspace_root(repo)
        if isinstance(root, Path):
            places.append((root, "/"))
    living = living_place(repo)
    if living is not None and living.path is not None:
        path = Path(os.path.realpath(living.path))
        places += [
            (path.with_name(path.name + end), "") for end in ("", "-wal", "-shm", "-journal")
        ]
    for place, end in places:
        if base in place.parents:
            name = place.relative_to(base).as_posix()
            yield "/" + re.sub(r"([\\*?\[])", r"\\\1", name) + end


def _tables(repo: OpenRepo, is_meant: Callable[[Path], bool]) -> Iterator[str]:
    """Yield the folders of tables in the workspace that are no dataset's."""
    state = read_state(repo.git.git_directory)
    root = workspace_root(repo) if state is not None else None
    if state is None or not isinstance(root, Path):
        return
    tracked = {os.fsencode(each) for each in _tracked(repo, root)}
    for folder, below, _ in os.walk(root):
        place = Path(folder)
        path = place.relative_to(root).as_posix()
        if path in state.tables:
            below.clear()
        elif "metadata" in below and place != root:
            below.clear()
            within = os.fsencode(place) + b"/"
            if is_meant(place) and not any(each.startswith(within) for each in tracked):
                yield path
        below[:] = sorted(each for each in below if not each.startswith(TEMPORARY))


def _tracked(repo: OpenRepo, root: Path) -> Iterator[str]:
    """Yield the files below a folder that git has in its index."""
    base = Path(os.path.realpath(repo.git.work_tree or root))
    if base in root.parents and not repo.git.is_kart:
        name = root.relative_to(base).as_posix()
        for each in repo.git.git("ls-files", "-z", "--", name).output.split(b"\0"):
            if each:
                yield str(base / os.fsdecode(each))


def _layers(repo: OpenRepo, is_meant: Callable[[Path], bool]) -> tuple[str, ...]:
    """Return the layers of the working copy that are no dataset's, where it is a file."""
    place, living = living_place(repo), working_copy(repo)
    if place is None or living is None or place.path is None:
        return ()  # a schema of a server may hold whatever else
    return living.untracked() if is_meant(Path(os.path.realpath(place.path))) else ()
