"""A folder on a server of SSH that holds data files: `sftp://[user@]host[:port]/path`.

It is laid out as any folder or bucket with data files is, and `/~/` begins a path in the home
folder there. A file is sent under a name of its own below `temporary/`, and renamed to its
hash when it is whole. Whether a file is there is told by its name and size. Nothing is ever
deleted by this way, so pushes claim nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from queue import LifoQueue

from havasu_vc.errors import DataFileNotFoundError, HavasuError, StorageError
from havasu_vc.remotes.data_urls import check_data_url, login_of
from havasu_vc.remotes.moving import copy_checked, each
from havasu_vc.remotes.protocol import Claim, Report, WantedFile
from havasu_vc.remotes.sftp_session import Absent, SftpSession
from havasu_vc.remotes.urls import hidden_secrets
from havasu_vc.store.command import GitConfig
from havasu_vc.store.files import DataFileStore

__all__ = ["SftpRemote", "ssh_command"]

LOGINS = 4
"""As many connections at once; servers refuse many that come together."""
_OPTIONS = (
    "BatchMode=yes",
    "ConnectTimeout=30",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=4",
)


def ssh_command(config: GitConfig, environment: Mapping[str, str]) -> list[str]:
    """Return how git would run ssh."""
    command = environment.get("GIT_SSH_COMMAND") or config.get("core.sshCommand")
    if command:
        return ["sh", "-c", f'{command} "$@"', "ssh"]
    return [environment.get("GIT_SSH") or "ssh"]


_Logins = LifoQueue[SftpSession | None]
"""Sessions that are free, and places for those that are not opened yet."""


@contextmanager
def _places(count: int) -> Iterator[_Logins]:
    """Give places for sessions, and close those that were opened."""
    logins: _Logins = LifoQueue()
    for _ in range(count):
        logins.put(None)
    try:
        yield logins
    finally:
        while not logins.empty():
            if (session := logins.get()) is not None:
                session.close()


class SftpRemote:
    """Data files below one folder of a server."""

    knows = True
    """It can be asked."""

    def __init__(self, url: str, ssh: Sequence[str]) -> None:
        check_data_url(url)
        self._name = hidden_secrets(url)
        user, host, port, path = login_of(url)
        self._root = (path[3:] or ".") if f"{path}/".startswith("/~/") else path
        options = [word for option in _OPTIONS for word in ("-o", option)]
        told = [*(["-p", port] if port else []), *(["-l", user] if user else [])]
        self._command = [*ssh, *options, *told, "-s", "--", host, "sftp"]

    @property
    def name(self) -> str:
        """Its URL, without secrets."""
        return self._name

    def sending(
        self, files: Sequence[WantedFile], commits: Sequence[str] = ()
    ) -> nullcontext[Claim]:
        """Do nothing: nobody deletes by this way."""
        return nullcontext(Claim())

    def lacking(self, files: Sequence[WantedFile]) -> list[WantedFile]:
        """Return those files that are not there with their size."""
        if not files:
            return []
        with _places(1) as logins, self._login(logins) as session:
            sizes = session.sizes([self._path(file) for file in files])
        return [file for file, size in zip(files, sizes, strict=True) if size != file.size]

    def upload(
        self, files: Sequence[WantedFile], store: DataFileStore, report: Report
    ) -> Sequence[WantedFile]:
        """Send files, hashed while they go: what is wrong gets no name there."""
        with _places(LOGINS) as logins:
            with self._login(logins) as session:
                self._make_root(session)

            def send(file: WantedFile) -> None:
                store.check_size(file.sha256, file.size)
                with self._login(logins) as session:
                    self._send(session, file, store, report)

            each(files, send)
        return files

    def download(self, files: Sequence[WantedFile], store: DataFileStore, report: Report) -> None:
        """Bring files into the store, checked while they come."""
        with _places(LOGINS) as logins:

            def bring(file: WantedFile) -> None:
                with self._login(logins) as session:
                    self._bring(session, file, store, report)

            try:
                each(files, bring)
            finally:
                store.commit_all()

    def _send(
        self, session: SftpSession, file: WantedFile, store: DataFileStore, report: Report
    ) -> None:
        temporary = f"{self._root}/temporary/{secrets.token_hex(16)}"
        target = session.create(temporary)
        try:
            with store.path(file.sha256).open("rb") as source:
                copy_checked(source, target, file, report)
            target.close()
            if session.sizes([temporary]) != [file.size]:
                raise StorageError(f"{self._name} kept less of a file than it was sent")
            place = self._path(file)
            try:
                session.rename(temporary, place)
            except (Absent, StorageError):
                for folder in (place.rsplit("/", 2)[0], place.rsplit("/", 1)[0]):
                    session.make_folder(folder)
                session.rename(temporary, place)
        except Absent as error:
            raise StorageError(f"{self._name} lost a file while it was sent") from error
        except BaseException:
            with suppress(HavasuError, Absent):
                target.abandon()
                session.remove(temporary)
            raise

    def _bring(
        self, session: SftpSession, file: WantedFile, store: DataFileStore, report: Report
    ) -> None:
        temporary = store.temporary()
        try:
            source = session.open(self._path(file), file.size)
            with temporary.open("xb") as target:
                copy_checked(source, target, file, report)
            source.close()
            store.put(temporary, sha256=file.sha256)
        except Absent as error:
            raise DataFileNotFoundError(file.sha256) from error
        finally:
            temporary.unlink(missing_ok=True)

    def _make_root(self, session: SftpSession) -> None:
        """Make the folders that everything is in, and those above them, where they lack."""
        wanted = [f"{self._root}/objects", f"{self._root}/temporary"]
        if None not in session.sizes(wanted):
            return
        parts = self._root.split("/")
        above = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        for folder in [*(folder for folder in above if folder), *wanted]:
            session.make_folder(folder)
        if None in session.sizes(wanted):
            raise StorageError(
                f"{self._name}: the folder cannot be made",
                hints=("make it there, so that who logs in may write to it",),
            )

    @contextmanager
    def _login(self, logins: _Logins) -> Iterator[SftpSession]:
        """Use a session that is free, or a new one; one in which something failed is closed."""
        session = logins.get()
        try:
            if session is None:
                session = SftpSession(self._command, self._name)
            yield session
        except BaseException:
            if session is not None:
                session.close()
            logins.put(None)
            raise
        logins.put(session)

    def _path(self, file: WantedFile) -> str:
        return f"{self._root}/objects/{file.sha256[:2]}/{file.sha256[2:4]}/{file.sha256}"
