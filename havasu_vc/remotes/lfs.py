"""Git LFS servers, by way of the real client: GitHub, GitLab and any other.

The pointers in git are git-lfs's own and data files lie where it looks for them with
`lfs.storage=havasu`, so it moves them by their ids. It hashes neither what it sends nor
what it finds, so that is done here on both sides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from havasu_vc.errors import (
    CorruptDataFileError,
    DataFileNotFoundError,
    MissingProgramError,
    StorageError,
)
from havasu_vc.formats.lfs import Pointer, format_pointer
from havasu_vc.remotes.moving import each
from havasu_vc.remotes.protocol import Report, WantedFile
from havasu_vc.store.commits import format_commit, parse_signature
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.repository import GitRepository
from havasu_vc.store.trees import format_tree

__all__ = ["LfsRemote"]

_SETTINGS = (
    "lfs.storage=havasu",
    "lfs.locksverify=false",
    "lfs.fetchexclude=",
    "lfs.fetchinclude=",
    "lfs.transfer.maxretries=3",
)


class LfsRemote:
    """The LFS server of one git remote."""

    def __init__(self, repository: GitRepository, remote: str, name: str) -> None:
        self._repository = repository
        self._remote = remote
        self._name = name

    @property
    def name(self) -> str:
        """What people call it."""
        return self._name

    def lacking(self, files: Sequence[WantedFile]) -> list[WantedFile]:
        """Return all of them: the client asks the server itself, many in one request."""
        return list(files)

    def upload(self, files: Sequence[WantedFile], store: DataFileStore, report: Report) -> None:
        """Send files that the server lacks."""
        each(files, lambda file: store.verify(file.sha256))
        ids = "".join(f"{file.sha256}\n" for file in files)
        self._run("push", "--object-id", "--stdin", self._remote, stdin=ids)
        report(sum(file.size for file in files))

    def download(self, files: Sequence[WantedFile], store: DataFileStore, report: Report) -> None:
        """Bring files into the store, many in one request; what comes wrong is removed again."""
        if not files:
            return
        self._run("fetch", self._remote, self._naming(files), stdin="")
        for file in files:
            self._check(file, store)
            report(file.size)
        store.commit_all()

    def _naming(self, files: Sequence[WantedFile]) -> str:
        """Return a commit of no branch whose tree holds the pointers of just these files.

        The client fetches what one commit names, or one file at a time.
        """
        with self._repository.writer() as writer:
            items = {
                file.sha256.encode(): (
                    b"100644",
                    bytes.fromhex(
                        writer.write("blob", format_pointer(Pointer(file.sha256, file.size)))
                    ),
                )
                for file in files
            }
            tree = writer.write("tree", format_tree(items))
            nobody = parse_signature("havasu-vc <> 0 +0000")
            data = format_commit(tree, (), author=nobody, committer=nobody, message="Wanted files")
            commit = writer.write("commit", data)
            writer.flush()
        return commit

    @staticmethod
    def _check(file: WantedFile, store: DataFileStore) -> None:
        if not store.has(file.sha256):
            raise DataFileNotFoundError(file.sha256)
        try:
            store.verify(file.sha256)
        except CorruptDataFileError:
            store.delete(file.sha256)
            raise
        store.path(file.sha256).chmod(0o444)

    def _run(self, *arguments: str, stdin: str) -> None:
        settings = [word for setting in _SETTINGS for word in ("-c", setting)]
        answer = self._repository.git(
            *settings, "lfs", *arguments, stdin=stdin.encode(), check=False
        )
        if answer.code == 0:
            return
        if "'lfs' is not a git command" in answer.errors:
            raise MissingProgramError(
                f"{self._name} keeps data with Git LFS, and git-lfs is not installed",
                hints=("install git-lfs", "or set havasu.data.url to a folder or a bucket"),
            )
        missing = re.search(r"\b([0-9a-f]{64})\b", answer.errors)
        if missing and re.search(r"404|not found|does not exist", answer.errors, re.IGNORECASE):
            raise DataFileNotFoundError(missing[1])
        raise StorageError(f"{self._name}: git-lfs says: {answer.message}")
