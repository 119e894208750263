"""A repository at a glance: where HEAD is, what is going on, which datasets there are."""

from __future__ import annotations

from collections.abc import Iterator

from havasu_vc.datasets.folder import TreeFolder, check_guard
from havasu_vc.errors import CorruptionError, HavasuError, UnfinishedMergeError
from havasu_vc.model.names import HAVASU_MARKER, KART_MARKERS, TABLE_MARKER
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.results import DatasetInfo, RepoStatus
from havasu_vc.repo.waiting import merge_waits
from havasu_vc.store.refs import list_branches, read_head
from havasu_vc.store.repository import Operation
from havasu_vc.store.trees import DatasetFolder

__all__ = ["list_datasets", "status"]


def list_datasets(repo: OpenRepo, revision: str) -> tuple[DatasetInfo, ...]:
    """Describe the datasets of a revision, also those of kinds that are left untouched."""
    found = repo.revision(revision)
    infos = []
    for path, folder in repo.folders(found).items():
        if folder.marker == HAVASU_MARKER:
            view = repo.view(folder, found.name)
            title = view.header.meta.get("title")
            infos.append(DatasetInfo(path, "havasu", 1, title, view.rows, view.size))
        else:
            infos.append(_other(repo, path, folder, found.name))
    return tuple(infos)


def _other(repo: OpenRepo, path: str, folder: DatasetFolder, revision: str) -> DatasetInfo:
    """Describe a dataset of Kart's."""
    if folder.marker not in KART_MARKERS:
        return DatasetInfo(path, folder.marker.strip("."), 0)
    view = repo.view(folder, revision)
    version = 3 if folder.marker == TABLE_MARKER else 2
    try:
        title = view.header.meta.get("title")
        return DatasetInfo(path, "kart", version, title, view.rows, view.size)
    except CorruptionError:
        return DatasetInfo(path, "kart", version)  # it is there; `fsck` says what is wrong


def status(repo: OpenRepo) -> RepoStatus:
    """Return where HEAD is and what is going on."""
    head = read_head(repo.git)
    branch = next((b for b in list_branches(repo.git) if b.is_head), None)
    upstream = None if branch is None else branch.upstream
    ahead = behind = 0
    if upstream is not None and head.commit is not None:
        counted = repo.git.git(
            "rev-list", "--left-right", "--count", f"{head.commit}...{upstream}", check=False
        )
        if counted.code == 0:
            ahead, behind = map(int, counted.text.split())
    operation = repo.git.operation
    state = "clean" if operation is Operation.NONE else operation.value
    problems = list(_problems(repo))
    stopped = repo.git.kart_merge
    if stopped is not None:
        state = "merge of Kart's"
        problems.append(
            f"a merge of Kart's, of {stopped}, is half done; `kart merge --continue` concludes "
            "it, `kart merge --abort` drops it"
        )
    waiting = None
    if merge_waits(repo.git):
        # Only now is Arrow needed.
        from havasu_vc.repo.conflict_views import waiting_merge

        state = "merge"
        try:
            waiting = waiting_merge(repo)
            state = "merge" if waiting.kind == "squash" else waiting.kind
        except HavasuError as error:
            problems.append("; ".join((error.message, *error.hints)))
    return RepoStatus(
        head.commit,
        head.branch,
        upstream,
        ahead,
        behind,
        state,
        tuple(problems),
        waiting,
    )


def _problems(repo: OpenRepo) -> Iterator[str]:
    head = repo.head()
    for folder in repo.folders(head).values():
        if folder.marker == HAVASU_MARKER:
            inside = TreeFolder(repo.git.objects, folder.internals)
            try:
                check_guard(inside, folder.path, "HEAD")
            except UnfinishedMergeError as error:
                yield error.message
