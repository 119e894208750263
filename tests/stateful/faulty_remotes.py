"""Remotes of every kind for the machine of several clones, and what goes wrong with each.

Every one is a bare repository `server.git` in a folder, with its data beside it, in a
folder by URL, on a Git LFS server or in a bucket. `broken` makes it go wrong for a while;
afterwards it is as it was, but for what was done to it meanwhile.
"""

import hashlib
import itertools
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import ClassVar

from havasu_vc.store.files import DataFileStore
from havasu_vc.store.repository import GitRepository
from tests.remotes.places import Place, bucket_at, folder_at
from tests.remotes.sharing import named
from tests.support.proxy import PROXY_FAULTS, Fault, Proxy
from tests.support.web import FAULTS, WebServer

__all__ = ["BesideIt", "Bucket", "FolderByUrl", "LfsServer", "Remote"]

_numbers = itertools.count()


class Remote:
    """A bare repository and its data."""

    faults: ClassVar[tuple[str, ...]] = ()
    prunes: ClassVar[bool] = True
    """Whether data can be pruned there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = folder / "server.git"
        self._held = ExitStack()

    @property
    def url(self) -> str:
        """What clones have as `origin`."""
        return str(self.server)

    @property
    def data_url(self) -> str | None:
        """What they have as `havasu.data.url`."""
        return None

    def take(self, template: Path) -> None:
        """Take the data of another folder's `server.git` over, at the beginning."""

    def names(self) -> set[str]:
        """Return what data is there."""
        raise NotImplementedError

    def read(self, name: str) -> bytes:
        raise NotImplementedError

    def broken(self, fault: str, number: int) -> AbstractContextManager[None]:
        """Have it go wrong."""
        raise NotImplementedError

    def close(self) -> None:
        """Leave nothing of it in the environment."""
        self._held.close()

    def forget_the_dead(self) -> None:
        """Remove what only time removes, as after an hour."""

    def assert_keeps_its_promise(self) -> None:
        """Check that no ref names data that is not there, and right."""
        wanted = named(self.server)
        assert wanted <= self.names()
        for name in wanted:
            data = self.read(name)
            assert hashlib.sha256(data).hexdigest() == name


class _Spoilt(Remote):
    """One whose files are spoilt and taken away on a disk."""

    faults = ("wrong bytes", "missing", "cut", "longer")
    place: Place

    def names(self) -> set[str]:
        return self.place.names()

    def read(self, name: str) -> bytes:
        return self.place.read(name)

    @contextmanager
    def broken(self, fault: str, number: int) -> Iterator[None]:
        names = sorted(self.names())
        name = names[number % len(names)]
        data = self.read(name)
        match fault:
            case "missing":
                self.place.remove(name)
            case "wrong bytes":
                self.place.put(name, bytes(byte ^ 1 for byte in data))
            case "cut":
                self.place.put(name, data[: len(data) // 2])
            case _:
                self.place.put(name, data + b"more")
        try:
            yield
        finally:
            self.place.put(name, data)
            Path(self.place.path(name)).chmod(0o444)


class BesideIt(_Spoilt):
    """Data in the bare repository's own store."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.place = folder_at(self.server / "havasu")


class FolderByUrl(_Spoilt):
    """Data in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.place = folder_at(folder / "data")

    @property
    def data_url(self) -> str | None:
        return self.place.url

    def take(self, template: Path) -> None:
        shutil.move(self.server / "havasu" / "objects", self.folder / "data" / "objects")

    def forget_the_dead(self) -> None:
        _forget(self.place)


class LfsServer(Remote):
    """Data on a Git LFS server, and git over HTTP."""

    faults = tuple(fault for fault in FAULTS if fault != "size")
    prunes = False
    web: ClassVar[WebServer]
    """Serves the example that is going on."""

    @property
    def url(self) -> str:
        return self.web.url("server.git")

    def take(self, template: Path) -> None:
        self.web.root = self.folder
        (self.folder / "lfs").mkdir()
        store = DataFileStore(GitRepository.open(self.server).data_folder)
        for name in store.iter():
            store.path(name).rename(self.folder / "lfs" / name)

    def names(self) -> set[str]:
        return {path.name for path in (self.folder / "lfs").iterdir()}

    def read(self, name: str) -> bytes:
        return (self.folder / "lfs" / name).read_bytes()

    @contextmanager
    def broken(self, fault: str, number: int) -> Iterator[None]:
        self.web.fault, self.web.fault_from = fault, self.web.moved + number
        try:
            yield
        finally:
            self.web.fault = ""


class Bucket(Remote):
    """Data in a bucket of an S3 server, behind a proxy."""

    faults = tuple(PROXY_FAULTS)
    proxy: ClassVar[Proxy]
    target: ClassVar[str]
    """The server itself."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        made = bucket_at(self.target, f"bucket-{next(_numbers)}", through=self.proxy.url)
        self.place = self._held.enter_context(made)

    @property
    def data_url(self) -> str | None:
        return self.place.url

    def take(self, template: Path) -> None:
        store = DataFileStore(GitRepository.open(self.server).data_folder)
        for name in store.iter():
            self.place.put(name, store.path(name).read_bytes())
        shutil.rmtree(store.objects)

    def names(self) -> set[str]:
        return self.place.names()

    def read(self, name: str) -> bytes:
        return self.place.read(name)

    @contextmanager
    def broken(self, fault: str, number: int) -> Iterator[None]:
        # A few times, which is tried again; or from then on.
        self.proxy.fault = Fault(fault, number // 2, 1_000_000 if number % 2 else 2)
        try:
            yield
        finally:
            self.proxy.fault = None

    def forget_the_dead(self) -> None:
        _forget(self.place)


def _forget(place: Place) -> None:
    for note in place.notes("prunings"):
        place.system.delete_file(note)
