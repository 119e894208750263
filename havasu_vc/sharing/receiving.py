"""Rules of a server of one's own: it takes in no broken dataset, and no commit without its data.

git asks its `pre-receive` hook once for a push, when the objects have come and lie in a
folder of their own (the quarantine) and no ref has moved. What the new tips of branches and
tags hold is looked at as any command would; older commits of a push may have been broken,
for a repair does not rewrite them, but the data of all of them must be here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from havasu_vc.errors import StateError
from havasu_vc.looking import lost_values
from havasu_vc.remotes.protocol import WantedFile, open_place
from havasu_vc.remotes.wanted import commits_here, files_of_commits
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.soundness import broken_datasets
from havasu_vc.sharing.data_places import url_of_commit
from havasu_vc.sharing.data_remotes import is_here
from havasu_vc.store.files import DataFileStore

__all__ = ["check_received"]

MOST_NAMED = 3
UNSEEN = (
    "data that goes elsewhere, as to a Git LFS server with a place of its own, cannot be looked "
    "for by the repository that is pushed to: `havasu-vc hook pre-receive --no-data` leaves it out"
)


def check_received(repo: OpenRepo, lines: Sequence[str], *, data: bool = True) -> None:
    """Raise unless what a push brings may stay; `lines` are what git tells its hook.

    The data files of new commits must be where `havasu.data.url` says, or else the commits, or
    else here, where an LFS server may keep them too; unless `data` is false.
    """
    quarantine = os.environ.get("GIT_QUARANTINE_PATH")
    if quarantine:
        repo.git.read_besides(Path(quarantine))
    # `old new ref`; the name of a ref holds no space.
    words = [line.split(" ") for line in lines if line.strip()]
    if any(len(each) != 3 for each in words):
        raise StateError(
            "this is not what git tells a pre-receive hook",
            hints=("git runs it, from `hooks/pre-receive` of a repository that is pushed to",),
        )
    refs = {name: new for _, new, name in words if set(new) != {"0"}}
    broken = list(_broken(repo, refs))
    lacking = list(_without_data(repo, sorted(set(refs.values())))) if data else []
    hints = []
    if broken:
        hints.append("`havasu-vc repair` mends a broken dataset, in a commit that can be pushed")
    if lacking:
        hints.append("`havasu-vc push` sends data files before the commits that name them")
        hints.append(UNSEEN)
    if broken or lacking:
        said = "; ".join(broken + lacking)
        raise StateError(f"this push is refused: {said}", hints=tuple(hints))


def _broken(repo: OpenRepo, refs: dict[str, str]) -> Iterator[str]:
    for ref, identity in refs.items():
        if commits_here(repo.git, [identity]):
            revision = replace(repo.resolve(identity), name=ref)
            for error in broken_datasets(repo, revision).values():
                yield error.message
            for _, error in lost_values(repo, [revision], ["--all"]):
                yield error.message


def _without_data(repo: OpenRepo, tips: Sequence[str]) -> Iterator[str]:
    known = repo.git.git("for-each-ref", "--format=%(objectname)").text.split()
    files = files_of_commits(repo.git, tips, known)
    lacking = _lacking(repo, files, tips) if files else ()
    if lacking:
        names = ", ".join(file.sha256[:16] for file in lacking[:MOST_NAMED])
        more = ", …" if len(lacking) > MOST_NAMED else ""
        count = "1 data file" if len(lacking) == 1 else f"{len(lacking):,} data files"
        yield f"{count} that its commits name did not come ({names}{more})"


def _lacking(
    repo: OpenRepo, files: Sequence[WantedFile], tips: Sequence[str]
) -> Sequence[WantedFile]:
    places = _places(repo, tips)
    if not places:
        return [file for file in files if not _has(repo, file)]
    for url in places:
        if files:
            files = open_place(url, repo.git.config).lacking(files)
    return files


def _places(repo: OpenRepo, tips: Sequence[str]) -> Sequence[str]:
    """Return where data goes that does not come here, as the settings here or commits say."""
    url = repo.git.config.get("havasu.data.url")
    if url is not None:
        return (url,)
    try:
        found = [url_of_commit(repo, commit) for commit in commits_here(repo.git, tips)]
    except StateError as error:
        error.hints = (*error.hints, UNSEEN)
        raise
    return sorted({url for url in found if url is not None})


def _has(repo: OpenRepo, file: WantedFile) -> bool:
    """Whether a file is here, or where a Git LFS server that works in this repository puts it."""
    files = repo.storage.files
    links = files.lfs_links
    return is_here(files, file) or (
        links is not None and is_here(DataFileStore(links.folder), file)
    )
