"""Data files that come when something reads them, from whichever remote has them.

The remote that the current branch follows is asked first, then the others. What a remote
lacks the next one is asked for; what none has is an error that says where was looked.
"""

from __future__ import annotations

from collections.abc import Sequence

from havasu_vc.errors import DataFileNotFoundError, HavasuError, NotFoundError
from havasu_vc.remotes.protocol import WantedFile
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.sharing.data_remotes import default_remote, download, is_here, remote_data

__all__ = ["RemoteFetcher"]


class RemoteFetcher:
    """Brings data files from the remotes of a repository."""

    def __init__(self, repo: OpenRepo) -> None:
        self._repo = repo

    def fetch(self, files: Sequence[tuple[str, int]]) -> None:
        """Bring files, given by name and size."""
        repo = self._repo
        missing = [WantedFile(name, size) for name, size in files]
        failure: HavasuError | None = None
        for name in self._remotes():
            try:
                remote = remote_data(repo, name)
                there = missing
                if remote.knows:
                    lacking = set(remote.lacking(missing))
                    there = [file for file in missing if file not in lacking]
                download(repo, remote, there)
            except HavasuError as error:
                failure = failure or error
            store = repo.storage.files
            missing = [file for file in missing if not is_here(store, file)]
            if not missing:
                return
        raise failure or DataFileNotFoundError(
            missing[0].sha256, hints=("no remote has it; `havasu-vc remote -v` lists them",)
        )

    def _remotes(self) -> list[str]:
        names = self._repo.git.git("remote").lines
        try:
            first = default_remote(self._repo)
        except NotFoundError:
            return names
        return [first, *(name for name in names if name != first)]
