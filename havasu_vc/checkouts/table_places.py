"""Where the tables of a work tree are: in a folder, or in a bucket.

tables/                              in the work tree, which is what one has unasked
havasu.workspace.path = /srv/maps    a folder elsewhere
havasu.workspace.path = s3://b/maps  a bucket; copies of documents are kept in
<git directory>/havasu/copies/<hash of the table's URL>
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from havasu_vc.errors import HavasuError, InvalidArgumentError, StateError
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.disk import scratch_folder
from havasu_vc.store.object_urls import in_bucket, shown_url
from havasu_vc.workspace.in_folder import FolderPlace, a_link
from havasu_vc.workspace.places import TablePlace, remove_leftovers

__all__ = ["place_elsewhere", "require_no_link", "table_place", "tidy_root", "workspace_root"]

DEFAULT_ROOT = "tables"


def workspace_root(repo: OpenRepo) -> Path | str:
    """Return the folder that the tables of this work tree belong in, or the URL."""
    work_tree = repo.git.work_tree
    configured = repo.git.config.get("havasu.workspace.path")
    if configured is not None and "://" in configured:
        return _checked_url(configured)
    if work_tree is None or repo.git.is_kart:
        if configured is None or not os.path.isabs(configured):
            raise StateError(
                "there is no work tree to put tables in",
                hints=(
                    "`havasu-vc checkout --to FOLDER` makes a table elsewhere",
                    "`git config havasu.workspace.path /FOLDER` names a place for all",
                ),
            )
        return Path(os.path.realpath(configured))
    base = Path(os.path.realpath(work_tree))
    if configured is not None and os.path.isabs(configured):
        return Path(os.path.realpath(configured))
    root = Path(os.path.normpath(base / (configured or DEFAULT_ROOT)))
    if base not in root.parents:
        raise InvalidArgumentError(
            f"havasu.workspace.path is {configured!r}, which is no folder inside the work tree",
            hints=("write an absolute path for a folder elsewhere",),
        )
    return root


def require_no_link(repo: OpenRepo, file: str | Path) -> None:
    """Raise for a place among the tables that a link leads to: what is there is none of theirs."""
    path = Path(os.path.abspath(file))
    links = [each for each in (path, *path.parents) if each.is_symlink()]
    if not links:
        return
    try:
        root = workspace_root(repo)
    except HavasuError:
        return  # there are no tables
    if isinstance(root, str):
        return
    for link in links:
        there = Path(os.path.realpath(link.parent), link.name)
        if there == root or root in there.parents:
            raise a_link(link)


def _checked_url(url: str) -> str:
    if not in_bucket(url):
        raise InvalidArgumentError(
            f"havasu.workspace.path is {shown_url(url)!r}, which tables cannot be put at",
            hints=("write a folder, or a URL that begins with s3://, gs:// or abfs://",),
        )
    from havasu_vc.tables.bucket import BucketTable

    return BucketTable(url).url


def table_place(repo: OpenRepo, root: Path | str, path: str) -> TablePlace:
    """Return the place of a dataset's table in the workspace."""
    if isinstance(root, str):
        url = f"{root}/{path}"
        return _bucket_place(repo, url, _copies(repo) / _hashed(url))
    work_tree = repo.git.work_tree
    base = root if work_tree is None else Path(os.path.realpath(work_tree))
    return FolderPlace(root / path, root, base if base in root.parents else root)


@contextmanager
def place_elsewhere(repo: OpenRepo, location: Path | str) -> Iterator[TablePlace]:
    """Yield the place of a table outside of the workspace; nothing is kept of one in a bucket."""
    if isinstance(location, Path):
        yield FolderPlace(location)
        return
    with scratch_folder(repo.git.data_folder / "staging") as copies:
        yield _bucket_place(repo, location, copies)


def tidy_root(repo: OpenRepo, root: Path | str, tables: Iterable[str]) -> None:
    """Remove what removals of tables that died left behind, and copies of tables that are gone."""
    if isinstance(root, Path):
        remove_leftovers(root)
    wanted = {_hashed(f"{root}/{path}") for path in tables}
    with suppress(OSError):
        for folder in _copies(repo).iterdir():
            if folder.name not in wanted:
                shutil.rmtree(folder, ignore_errors=True)


def _bucket_place(repo: OpenRepo, url: str, copies: Path) -> TablePlace:
    from havasu_vc.workspace.in_bucket import BucketPlace

    return BucketPlace(url, copies, _data_url(repo))


def _copies(repo: OpenRepo) -> Path:
    return repo.git.git_directory / "havasu" / "copies"


def _hashed(url: str) -> str:
    return hashlib.sha256(url.encode(errors="surrogateescape")).hexdigest()[:32]


def _data_url(repo: OpenRepo) -> str | None:
    from havasu_vc.sharing import data_url, default_remote

    try:
        url = data_url(repo, default_remote(repo))
    except HavasuError:
        url = repo.git.config.get("havasu.data.url")
    return url if url is not None and in_bucket(url) else None
