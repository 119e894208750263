"""A repository at a glance: where HEAD is, what is going on, which datasets there are."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace

from havasu_vc.datasets.kinds import find_kind
from havasu_vc.errors import HavasuError
from havasu_vc.merging import merge_waits
from havasu_vc.model.names import DATASET_MARKERS
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.results import DatasetInfo, RepoStatus
from havasu_vc.repo.soundness import broken_datasets, defect_of
from havasu_vc.store.refs import branch_with_commits, count_apart, list_branches, read_head
from havasu_vc.store.repository import Operation
from havasu_vc.store.trees import DatasetFolder

__all__ = ["list_datasets", "status"]


def list_datasets(repo: OpenRepo, revision: str = "HEAD") -> tuple[DatasetInfo, ...]:
    """Describe the datasets of a commit or a tree, also those of kinds that are left untouched."""
    found = repo.revision(revision, or_tree=True)
    infos, broken = [], {}
    for path, folder in repo.folders(found).items():
        info, error = _info(repo, path, folder, revision)
        infos.append(info)
        if error is not None:
            broken[path] = error
    _tell_alike(repo, broken)
    return tuple(infos)


def _tell_alike(repo: OpenRepo, broken: Mapping[str, HavasuError]) -> None:
    """Note what is wrong with datasets, once for all that it is wrong with."""
    alike: dict[str, list[str]] = {}
    for path, error in broken.items():
        alike.setdefault(error.message.replace(path, "", 1), []).append(path)
    for path, *others in alike.values():
        more = f" and {len(others) - 5:,} more" if len(others) > 5 else ""
        so = f"; so {'is' if len(others) == 1 else 'are'} {', '.join(others[:5])}{more}"
        repo.tell(path, broken[path].message + (so if others else ""))


def _info(
    repo: OpenRepo, path: str, folder: DatasetFolder, revision: str
) -> tuple[DatasetInfo, HavasuError | None]:
    """Describe a dataset, with why it cannot be read; it is there all the same."""
    found = find_kind(folder.marker)
    if found is None:
        return DatasetInfo(path, folder.marker.strip("."), 0), None
    kind, version = found.name, found.version(folder.marker)
    view = repo.view(folder, revision)
    error = defect_of(view)
    if error is not None:
        return DatasetInfo(path, kind, version), error
    title = view.header.meta.get("title")
    return DatasetInfo(path, kind, version, title, view.rows, view.size), None


def status(repo: OpenRepo) -> RepoStatus:
    """Return where HEAD is and what is going on."""
    head = read_head(repo.git)
    branch = next((b for b in list_branches(repo.git) if b.is_head), None)
    upstream = None if branch is None else branch.upstream
    apart = None
    if upstream is not None and head.commit is not None:
        apart = count_apart(repo.git, head.commit, upstream)
    ahead, behind = apart or (0, 0)
    operation = repo.git.operation
    state = "clean" if operation is Operation.NONE else operation.value
    problems = list(_problems(repo))
    staged = _staged(repo) if operation is Operation.NONE and head.commit is not None else {}
    problems += [
        f"git has staged {'the removal' if letter == 'D' else 'a change'} of {path}, which its "
        f"next commit would take along: `git reset -- {shlex.quote(path)}` takes that back"
        for path, letter in staged.items()
    ]
    begun = None
    if operation is not Operation.NONE:
        from havasu_vc.merging import read_cut_off

        begun = read_cut_off(repo.git)
    if begun is not None:
        problems.append(
            f"a {begun.kind} was cut off, and is half done: "
            f"`havasu-vc {begun.kind} --abort` puts back what was before it"
        )
    waiting = None
    if repo.git.kart_merge is not None or merge_waits(repo.git):
        # Only now is Arrow needed.
        from havasu_vc.merging import waiting_merge

        state = "merge"
        try:
            waiting = waiting_merge(repo)
            state = "merge" if waiting.kind == "squash" else waiting.kind
        except HavasuError as error:
            problems.append("; ".join((error.message, *error.hints)))
            if repo.git.kart_merge is not None:
                state = "merge of Kart's"
    return RepoStatus(
        head.commit,
        head.branch,
        upstream,
        ahead,
        behind,
        state,
        tuple(problems),
        waiting,
        branch_with_commits(repo.git) if head.commit is None else None,
        begun is not None,
        staged,
    )


def _problems(repo: OpenRepo) -> Iterator[str]:
    for error in broken_datasets(repo, replace(repo.head(), name="HEAD")).values():
        yield "; ".join((error.message, *error.hints[:1]))


def _staged(repo: OpenRepo) -> dict[str, str]:
    """Return git's letter of what it has staged of datasets: D for a removal, M for a change."""
    if repo.git.is_bare or repo.git.is_kart:
        return {}
    command = ("diff-index", "--cached", "--name-status", "-z", "--no-renames", "HEAD", "--")
    # A git that cannot read its index says so itself.
    fields = repo.git.git(*command, check=False).text.split("\0")
    found: dict[str, set[tuple[str, bool]]] = {}
    for letter, name in zip(fields[::2], fields[1::2], strict=False):
        parts = name.split("/")
        place = next((at for at, part in enumerate(parts) if part in DATASET_MARKERS), None)
        if place is not None:
            # Its first document stands in the folder itself.
            found.setdefault("/".join(parts[:place]), set()).add((letter, len(parts) == place + 2))
    return {
        path: "D" if {each for each, _ in letters} == {"D"} and ("D", True) in letters else "M"
        for path, letters in sorted(found.items())
    }
