"""Git LFS servers, by way of the real client: GitHub, GitLab and any other.

The pointers in git are git-lfs's own and data files lie where it looks for them with
`lfs.storage=havasu`, so it moves them by their ids. It hashes neither what it sends nor
what it finds, so that is done here on both sides. It fetches what one commit names: a
commit of just the wanted pointers is made for it, in a folder of objects of its own that
is gone afterwards.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from havasu_vc.errors import (
    CorruptDataFileError,
    DataFileNotFoundError,
    MissingProgramError,
    NotFoundError,
    StorageError,
)
from havasu_vc.formats.lfs import Pointer, format_pointer
from havasu_vc.remotes.protocol import Claim, Report, WantedFile, each
from havasu_vc.remotes.urls import without_passwords
from havasu_vc.store.command import GitResult
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.objects import object_id
from havasu_vc.store.repository import GitRepository

__all__ = ["LfsRemote"]

_SETTINGS = (
    "lfs.storage=havasu",
    "lfs.locksverify=false",
    "lfs.fetchexclude=",
    "lfs.fetchinclude=",
    "lfs.transfer.maxretries=3",
    "lfs.concurrenttransfers=8",
)
_NOBODY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "havasu-vc"), ("EMAIL", "havasu-vc"), ("DATE", "@0 +0000"))
}
_ELSEWHERE = (
    "`havasu-vc data place URL` keeps the data in a bucket (s3://, gs://, abfs://), in a folder of "
    "a server (sftp://HOST/FOLDER) or in one that all can reach (file://)"
)
_NO_SERVER = re.compile(r"git-lfs-(authenticate|transfer)\b.*(not found|No such file|127)")
_PROGRESS = re.compile(r"(?m)^\S+ \d+/\d+ (\d+)/\d+ .*?\b([0-9a-f]{64})$")
_ABSENT = re.compile(r"\b404\b|not found|not exist|missing", re.IGNORECASE)


class LfsRemote:
    """The LFS server of one git remote."""

    knows = False
    """Only the client asks the server, while it sends."""
    has_url = False
    """It is where the git remote is."""

    def __init__(
        self,
        repository: GitRepository,
        remote: str,
        name: str,
        environment: Mapping[str, str] | None = None,
        *,
        address: str = "",
    ) -> None:
        self._repository = repository
        self._remote = remote
        self._name = name
        self._address = address
        self._environment = dict(environment or {})

    @property
    def name(self) -> str:
        """Its name for people."""
        return self._name

    def sending(
        self, files: Sequence[WantedFile], commits: Sequence[str] = ()
    ) -> nullcontext[Claim]:
        """Do nothing: servers keep what is young."""
        return nullcontext(Claim())

    def lacking(self, files: Sequence[WantedFile]) -> list[WantedFile]:
        """Return all of them: the client asks the server itself, many in one request."""
        return list(files)

    def upload(
        self, files: Sequence[WantedFile], store: DataFileStore, report: Report
    ) -> Sequence[WantedFile]:
        """Send files that the server lacks, as it says itself."""
        each(files, lambda file: store.check_size(file.sha256, file.size))
        each(files, lambda file: store.verify(file.sha256))
        ids = "".join(f"{file.sha256}\n" for file in files)
        total = sum(file.size for file in files)
        with _watched(self._environment, report, total) as (environment, moved):
            self._run(["push", "--object-id", "--stdin", self._remote], ids, environment)
        return [file for file in files if file.sha256 in moved]

    def download(self, files: Sequence[WantedFile], store: DataFileStore, report: Report) -> None:
        """Bring files into the store, many in one request; what comes wrong is removed again."""
        if not files:
            return
        for file in files:
            if store.has(file.sha256):
                store.delete(file.sha256)  # of another size, or it would not be wanted
        from havasu_vc.remotes.lfs_direct import direct_downloads

        direct = direct_downloads(self._repository, self._address, self._environment)
        if direct is not None:
            files = direct.download(files, store, report)
        if files:
            self._by_client(files, store, report)

    def _by_client(self, files: Sequence[WantedFile], store: DataFileStore, report: Report) -> None:
        total = sum(file.size for file in files)
        failure: Exception | None = None
        try:
            with (
                self._naming(files) as (commit, named),
                _watched({**self._environment, **named}, report, total) as (environment, _),
            ):
                largest = max(file.size for file in files)
                self._run(["fetch", self._remote, commit], "", environment, largest=largest)
        except (NotFoundError, StorageError) as error:
            failure = error
        wrong: list[Exception] = []

        def take(file: WantedFile) -> None:
            try:
                _take(file, store)
            except (NotFoundError, CorruptDataFileError) as error:
                wrong.append(error)

        # What came is kept also when the rest did not.
        each(files, take)
        store.commit_all()
        for reason in (failure, *wrong):
            if reason is not None:
                raise reason

    @contextmanager
    def _naming(self, files: Sequence[WantedFile]) -> Iterator[tuple[str, Mapping[str, str]]]:
        """Give a commit whose tree holds the pointers of just these files, and where it is."""
        objects = Path(tempfile.mkdtemp(prefix="wanted-", dir=_made(self._repository.data_folder)))
        environment = {
            "GIT_OBJECT_DIRECTORY": str(objects),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(self._repository.common_directory / "objects"),
            **_NOBODY,
        }
        git = self._repository.git
        try:
            lines = "".join(f"100644 blob {_pointer(file)}\t{file.sha256}\n" for file in files)
            tree = git("mktree", stdin=lines.encode(), environment=environment).text
            yield (
                git("commit-tree", "-m", "Wanted files", tree, environment=environment).text,
                environment,
            )
        finally:
            shutil.rmtree(objects, ignore_errors=True)

    def _run(
        self,
        arguments: Sequence[str],
        stdin: str,
        environment: Mapping[str, str],
        *,
        largest: int | None = None,
    ) -> None:
        """Run the client; it may write no file that is larger than the largest wanted."""
        settings = [word for setting in _SETTINGS for word in ("-c", setting)]
        command = ["lfs"]
        if largest is not None:
            # The client takes bodies without end; the system lets it write no more than this.
            blocks = largest // 512 + 256
            settings += ["-c", f"alias.havasu-lfs=!ulimit -f {blocks} && git lfs"]
            command = ["havasu-lfs"]
        answer = self._repository.git(
            *settings,
            *command,
            *arguments,
            stdin=stdin.encode(),
            check=False,
            environment=environment,
        )
        if answer.code == 0:
            return
        if "'lfs' is not a git command" in answer.errors:
            raise MissingProgramError(
                f"{self._name} keeps data with Git LFS, and git-lfs is not installed",
                hints=("install git-lfs", _ELSEWHERE),
            )
        raise _failure(answer, self._name)


def _failure(answer: GitResult, name: str) -> DataFileNotFoundError | StorageError:
    """Return what it means that the client failed."""
    lines = answer.error_lines
    for line in lines:
        absent = re.search(r"\b([0-9a-f]{64})\b", line)
        if absent and _ABSENT.search(line):
            return DataFileNotFoundError(
                absent[1], hints=(f"{name} does not have it; another clone may",)
            )
        if _NO_SERVER.search(line):
            return StorageError(
                f"{name} has no Git LFS, so it takes and gives no data files", hints=(_ELSEWHERE,)
            )
    text = without_passwords(lines[0][:300]) if lines else answer.message
    return StorageError(
        f"{name}: git-lfs says: {text}", hints=("what came is kept; doing it again goes on",)
    )


def _take(file: WantedFile, store: DataFileStore) -> None:
    """Make what the client fetched a file of the store, or remove it if its bytes are wrong."""
    place = store.path(file.sha256)
    try:
        store.check_size(file.sha256, file.size)
        store.verify(file.sha256)
    except CorruptDataFileError:
        store.delete(file.sha256)
        raise
    temporary = store.temporary()
    place.rename(temporary)
    store.put(temporary, sha256=file.sha256)


def _pointer(file: WantedFile) -> str:
    return object_id("blob", format_pointer(Pointer(file.sha256, file.size)))


def _made(folder: Path) -> Path:
    place = folder / "temporary"
    place.mkdir(parents=True, exist_ok=True)
    return place


@contextmanager
def _watched(
    environment: Mapping[str, str], report: Report, total: int
) -> Iterator[tuple[Mapping[str, str], Mapping[str, int]]]:
    """Report what the client writes of its progress, and in the end all that is left.

    Its lines are `<direction> <file>/<files> <bytes>/<total> <name>`, bytes of that file, which
    is named by its path or its id. What the other side has already is in no line. Afterwards,
    the second value has the bytes of what was moved, by id.
    """
    folder = Path(tempfile.mkdtemp(prefix="havasu-vc-lfs-"))
    path, ended, told = folder / "progress", threading.Event(), 0
    done: dict[str, int] = {}

    def read() -> None:
        with suppress(OSError):
            for match in _PROGRESS.finditer(path.read_text("utf-8", "replace")):
                done[match[2]] = int(match[1])

    def look() -> None:
        nonlocal told
        while not ended.wait(0.25):
            read()
            now = min(sum(done.values()), total)
            if now > told:
                report(now - told)
                told = now

    watcher = threading.Thread(target=look, name="havasu-vc-lfs", daemon=True)
    watcher.start()
    try:
        yield {**environment, "GIT_LFS_PROGRESS": str(path)}, done
    finally:
        ended.set()
        watcher.join()
        read()
        shutil.rmtree(folder, ignore_errors=True)
    report(total - told)
