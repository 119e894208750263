"""A folder on a server of SSH that holds data files: `sftp://[user@]host[:port]/path`.

It is laid out as any folder or bucket with data files is, and `/~/` begins a path in the home
folder there. A file is sent under a name of its own below `temporary/`, and renamed to its
hash when it is whole. Whether a file is there is told by its name and size. Nothing is ever
deleted by this way, so pushes claim nothing.
"""

from __future__ import annotations

import os
import secrets
import select
import struct
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from queue import LifoQueue
from typing import IO

from havasu_vc.errors import (
    DataFileNotFoundError,
    HavasuError,
    MissingProgramError,
    NotYetSupportedError,
    StorageError,
)
from havasu_vc.remotes.protocol import (
    Claim,
    Report,
    WantedFile,
    check_data_url,
    each,
    login_of,
)
from havasu_vc.remotes.urls import hidden_secrets, without_passwords
from havasu_vc.store.command import GitConfig
from havasu_vc.store.copying import copy_checked
from havasu_vc.store.files import DataFileStore

__all__ = ["Absent", "SftpRemote", "SftpSession", "ssh_command"]


# The file transfer protocol of SSH (version 3), spoken with a server through `ssh -s HOST sftp`.
#
# The machine's own ssh logs in, with its keys, agent and settings, and asks nobody anything.
# Requests are sent ahead of their answers, so that a far server is not waited for at every
# block. What a server sends is bounded in size, and a server that is silent for a minute is
# given up. One session is for one thread.

SILENT_SECONDS = 60.0
_BLOCK = 32 << 10
_AHEAD = 64
"""Requests that may be on their way."""
_LONGEST = 1 << 20
_INIT, _OPEN, _CLOSE, _READ, _WRITE, _STAT = 1, 3, 4, 5, 6, 17
_REMOVE, _MKDIR, _RENAME, _EXTENDED = 13, 14, 18, 200
_VERSION, _STATUS, _HANDLE, _DATA, _ATTRIBUTES = 2, 101, 102, 103, 105
_READING, _WRITING_NEW = 0x01, 0x02 | 0x08 | 0x20
_GOOD, _END, _NO_FILE = 0, 1, 2
_HAS_SIZE, _HAS_PERMISSIONS = 0x01, 0x04
_REPLACING, _SYNCING = "posix-rename@openssh.com", "fsync@openssh.com"


class Absent(Exception):
    """A file is not there."""


class SftpSession:
    """A login on a server."""

    def __init__(self, command: Sequence[str], name: str) -> None:
        """Log in by a command; `name` is what errors call the server."""
        self._name = name
        if os.name == "nt":
            raise NotYetSupportedError(
                f"{name} is reached by ssh, which Windows' pipes do not allow here",
                hints=("use a folder, a bucket or a server of Git LFS; or WSL",),
            )
        self._errors: IO[bytes] = tempfile.TemporaryFile()
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
            )
        except OSError as error:
            self._errors.close()
            raise MissingProgramError(
                f"{name} is reached by ssh, which cannot be run: {error.strerror}",
                hints=("install OpenSSH's client",),
            ) from error
        assert self._process.stdin is not None and self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._in, False)
        self._number = 0
        self._buffer = bytearray()
        try:
            self._send(bytes([_INIT]) + struct.pack(">I", 3))
            kind, data = self._packet()
            if kind != _VERSION:
                raise self._failure("the server does not speak SFTP")
            self._known = _extensions(data[4:])
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Log out."""
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                stream.close()  # type: ignore[union-attr]
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()

    def sizes(self, paths: Sequence[str]) -> list[int | None]:
        """Return the size of each file; None for those that are not there."""
        found: list[int | None] = []
        waiting: deque[int] = deque()
        for path in paths:
            waiting.append(self.ask(_STAT, _text(path)))
            if len(waiting) >= _AHEAD:
                found.append(self._size(waiting.popleft()))
        return [*found, *(self._size(number) for number in waiting)]

    def make_folder(self, path: str) -> None:
        """Make a folder; what is there already is told by what is done in it next."""
        self.answer(self.ask(_MKDIR, _text(path) + struct.pack(">I", 0)))

    def create(self, path: str) -> SftpWriter:
        """Open a new file for writing, which nobody may write to afterwards."""
        attributes = struct.pack(">II", _HAS_PERMISSIONS, 0o444)
        asked = _text(path) + struct.pack(">I", _WRITING_NEW) + attributes
        return SftpWriter(self, self._handle(_OPEN, asked))

    def open(self, path: str, size: int) -> SftpReader:
        """Open a file for reading, of which at most one byte more than its size is asked for."""
        asked = _text(path) + struct.pack(">II", _READING, 0)
        return SftpReader(self, self._handle(_OPEN, asked), size + 1)

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, in place of what has it; raise Absent without its folder."""
        if _REPLACING in self._known:
            asked = self.ask(_EXTENDED, _text(_REPLACING) + _text(old) + _text(new))
        else:
            self.remove(new)
            asked = self.ask(_RENAME, _text(old) + _text(new))
        self.require(self.answer(asked))

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        self.answer(self.ask(_REMOVE, _text(path)))

    def ask(self, kind: int, data: bytes) -> int:
        """Send a request ahead, and return its number."""
        self._number = (self._number + 1) & 0xFFFFFFFF
        self._send(bytes([kind]) + struct.pack(">I", self._number) + data)
        return self._number

    def answer(self, number: int) -> tuple[int, bytes]:
        """Return the kind and the content of the answer to the oldest request."""
        kind, data = self._packet()
        if len(data) < 4 or struct.unpack_from(">I", data)[0] != number:
            raise self._failure("the server's answer makes no sense")
        return kind, data[4:]

    def require(self, answer: tuple[int, bytes]) -> None:
        """Raise unless an answer says that all is well."""
        kind, data = answer
        if kind != _STATUS or len(data) < 4:
            raise self._failure("the server's answer makes no sense")
        code = struct.unpack_from(">I", data)[0]
        if code == _NO_FILE:
            raise Absent
        if code != _GOOD:
            raise self._failure(_message(data) or f"failure {code}")

    def sync(self, handle: bytes) -> None:
        """Have the server write a file to its disk, where it can be told to."""
        if _SYNCING in self._known:
            self.require(self.answer(self.ask(_EXTENDED, _text(_SYNCING) + _string(handle))))

    def _handle(self, kind: int, data: bytes) -> bytes:
        found, content = answer = self.answer(self.ask(kind, data))
        if found != _HANDLE:
            self.require(answer)
            raise self._failure("the server's answer makes no sense")
        return _strings(content)[0]

    def _size(self, number: int) -> int | None:
        kind, data = answer = self.answer(number)
        if kind == _ATTRIBUTES and len(data) >= 12:
            flags, size = struct.unpack_from(">IQ", data)
            return int(size) if flags & _HAS_SIZE else None
        with suppress(Absent):
            self.require(answer)
        return None

    def _send(self, packet: bytes) -> None:
        left = memoryview(struct.pack(">I", len(packet)) + packet)
        while left:
            if not select.select([], [self._in], [], SILENT_SECONDS)[1]:
                raise self._failure("it says nothing for a minute")
            try:
                left = left[os.write(self._in, left) :]
            except OSError as error:
                raise self._failure("the connection ended") from error

    def _packet(self) -> tuple[int, bytes]:
        length = struct.unpack(">I", self._bytes(4))[0]
        if not 1 <= length <= _LONGEST:
            raise self._failure("the server does not speak SFTP")
        data = self._bytes(length)
        return data[0], data[1:]

    def _bytes(self, count: int) -> bytes:
        while len(self._buffer) < count:
            if not select.select([self._out], [], [], SILENT_SECONDS)[0]:
                raise self._failure("it says nothing for a minute")
            came = os.read(self._out, 1 << 18)
            if not came:
                raise self._failure("the connection ended")
            self._buffer += came
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return data

    def _failure(self, reason: str) -> StorageError:
        """Return an error with what ssh said, or else a reason."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=0.5 if reason == "the connection ended" else 0)
        self._errors.seek(0)
        said = self._errors.read(1 << 16).decode("utf-8", "replace")
        lines = [line for each in said.splitlines() if (line := each.strip())]
        text = f"ssh says: {without_passwords(lines[-1][:300])}" if lines else reason
        return StorageError(
            f"{self._name}: {text}",
            hints=("`ssh HOST` must work without a question; doing it again goes on",),
        )


class SftpWriter:
    """A file that is being written."""

    def __init__(self, session: SftpSession, handle: bytes) -> None:
        self._session = session
        self._handle = handle
        self._offset = 0
        self._waiting: deque[int] = deque()

    def write(self, data: memoryview) -> None:
        """Send bytes; whether they were written is known at the end."""
        for start in range(0, len(data), _BLOCK):
            block = bytes(data[start : start + _BLOCK])
            place = _string(self._handle) + struct.pack(">Q", self._offset)
            self._waiting.append(self._session.ask(_WRITE, place + _string(block)))
            self._offset += len(block)
            if len(self._waiting) >= _AHEAD:
                self._check()

    def close(self) -> None:
        """Raise unless all was written."""
        while self._waiting:
            self._check()
        self._session.sync(self._handle)
        _close(self._session, self._handle)

    def abandon(self) -> None:
        """End the writing of what is not wanted any more."""
        while self._waiting:
            self._session.answer(self._waiting.popleft())
        _close(self._session, self._handle)

    def _check(self) -> None:
        _known(self._session, lambda: self._session.answer(self._waiting.popleft()))


class SftpReader:
    """A file that is being read."""

    def __init__(self, session: SftpSession, handle: bytes, most: int) -> None:
        self._session = session
        self._handle = handle
        self._most = most
        self._asked = 0
        self._read = 0
        self._waiting: deque[tuple[int, int]] = deque()
        self._held = memoryview(b"")

    def readinto(self, buffer: memoryview) -> int:
        """Put bytes into a buffer and return how many; none at the end."""
        if not self._held:
            self._held = memoryview(self._block())
        count = min(len(buffer), len(self._held))
        buffer[:count] = self._held[:count]
        self._held = self._held[count:]
        return count

    def close(self) -> None:
        """End the reading."""
        while self._waiting:
            self._session.answer(self._waiting.popleft()[0])
        _close(self._session, self._handle)

    def _block(self) -> bytes:
        while len(self._waiting) < _AHEAD and self._asked < self._most:
            count = min(_BLOCK, self._most - self._asked)
            self._waiting.append((self._ask(self._asked, count), count))
            self._asked += count
        if not self._waiting:
            return b""
        number, count = self._waiting.popleft()
        data = self._data(number)
        if len(data) < count and data:
            # A server may give less than it was asked for; what was asked beyond comes later.
            while self._waiting:
                self._session.answer(self._waiting.popleft()[0])
            self._asked = self._read + len(data)
        self._read += len(data)
        return data[:count]

    def _ask(self, offset: int, count: int) -> int:
        place = _string(self._handle) + struct.pack(">QI", offset, count)
        return self._session.ask(_READ, place)

    def _data(self, number: int) -> bytes:
        kind, data = answer = self._session.answer(number)
        if kind == _DATA:
            return _strings(data)[0]
        if kind == _STATUS and data[:4] == struct.pack(">I", _END):
            return b""
        self._session.require(answer)
        return b""


def _close(session: SftpSession, handle: bytes) -> None:
    _known(session, lambda: session.answer(session.ask(_CLOSE, _string(handle))))


def _known(session: SftpSession, answer: Callable[[], tuple[int, bytes]]) -> None:
    """Raise unless an answer about an open file is good; that the file is gone is no absence."""
    try:
        session.require(answer())
    except Absent as error:
        raise StorageError("the server lost a file that it had open") from error


def _string(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def _text(text: str) -> bytes:
    return _string(text.encode("utf-8", "surrogateescape"))


def _strings(data: bytes) -> list[bytes]:
    """Return the strings that some bytes are; an empty one for what is cut off."""
    found = []
    while len(data) >= 4:
        length = struct.unpack_from(">I", data)[0]
        found.append(data[4 : 4 + length])
        data = data[4 + length :]
    return found or [b""]


def _extensions(data: bytes) -> set[str]:
    return {name.decode("ascii", "replace") for name in _strings(data)[::2]}


def _message(data: bytes) -> str:
    text = _strings(data[4:])[0].decode("utf-8", "replace")
    return "".join(character for character in text[:200] if character.isprintable())


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


def open_place(url: str, config: GitConfig) -> SftpRemote:
    """Return the data files at a URL."""
    return SftpRemote(url, ssh_command(config, os.environ))


class SftpRemote:
    """Data files below one folder of a server."""

    knows = True
    """It can be asked."""
    has_url = True
    """It has one."""

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
                copy_checked(source, target, file.sha256, file.size, report)
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
                copy_checked(source, target, file.sha256, file.size, report)
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
