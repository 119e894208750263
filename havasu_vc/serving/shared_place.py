"""The catalog's documents in a bucket, where clients see them who see nothing of this machine.

    <data folder>/catalog/tables/…     <url>/tables/…      sent before a client is told of it
    <data folder>/catalog/feeds/…      <url>/feeds/…       the same
    <data folder>/catalog/staging/…    <url>/staging/…     written by clients, brought when needed
    <data folder>/objects/…            <data url>/objects/…

Every document is made here and has the same name there, so that what either side names the other
finds. Nothing that is sent is ever changed.

How clients reach data files that are in a bucket: where the server is, and with which key.

Where it is and in which region is told to all. Credentials are given to those alone who ask for
them, and never the server's own, which may delete. One that can only read is named by

    S3       HAVASU_VC_READ_KEY_ID, HAVASU_VC_READ_SECRET_KEY (and HAVASU_VC_READ_SESSION_TOKEN)
    Google   HAVASU_VC_READ_TOKEN, a token of OAuth, and HAVASU_VC_READ_TOKEN_EXPIRES_AT, when
             that ends, in milliseconds since 1970
    Azure    HAVASU_VC_READ_SAS_TOKEN, a signature for the container

and one that can also write to the folder `staging` of the catalog's bucket by `HAVASU_VC_WRITE_…`:
it is given to those who may commit.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from havasu_vc.errors import CorruptionError, InvalidArgumentError
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.object_systems import object_size, put_object, url_below
from havasu_vc.store.object_urls import s3_settings, system_arguments
from havasu_vc.tables.bucket import BucketTable, plain_location
from havasu_vc.tables.locations import TableFolders

__all__ = ["SharedPlace", "credentials", "store_settings", "url_of"]

_THREADS = 8
_DATA = re.compile(r"[0-9a-f]{64}")
_BESIDE = re.compile(r"[0-9a-f]{2}/[0-9a-f]{2}/[A-Za-z0-9._-]{1,120}-deletes\.parquet")
"""The file that DuckDB writes beside a data file: positions of rows that it deletes there."""
_MOST_SENT = 500_000


class SharedPlace:
    """A bucket that has what is below a folder of this machine, and the data files."""

    def __init__(self, url: str, root: Path, data_url: str, store: DataFileStore) -> None:
        """Name the bucket, the folder, and where data files are there and here."""
        if not urlsplit(url).netloc:
            raise InvalidArgumentError(f"havasu.catalog.url is {url!r}, which names no bucket")
        self._bucket = BucketTable(url)
        self._root = Path(os.path.realpath(root))
        self._data_url, self._store = data_url, store
        self._beside = BucketTable(data_url.partition("?")[0])
        self._data = f"{self._beside.url}/objects/"
        self._brought = self._root / "staging" / "beside" / "data"
        self._sent: set[str] = set()
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """Where the bucket is."""
        return self._bucket.url

    def spell(self, path: Path | str) -> str:
        """Return the location of a file, or a folder, that clients are told of."""
        return f"{self.url}/{Path(path).relative_to(self._root).as_posix()}"

    def spell_data(self, file: str) -> str:
        """Return the location of a data file, which is sent where only this machine has it."""
        url = url_below(self._data_url, file)
        if file not in self._sent and self._store.has(file):
            path = self._store.location(file)
            if object_size(url) != path.stat().st_size:
                put_object(url, path)
            self._note([file])
        return url.partition("?")[0]

    def send(self, files: Iterable[str]) -> None:
        """Have documents in the bucket."""
        left = [file for file in files if file not in self._sent]
        if not left:
            return

        def send(file: str) -> None:
            put_object(self.spell(file), Path(file))

        with ThreadPoolExecutor(_THREADS, thread_name_prefix="havasu-vc-send") as pool:
            for _ in pool.map(send, left):
                pass
        self._note(left)

    def _note(self, files: Iterable[str]) -> None:
        with self._lock:
            if len(self._sent) > _MOST_SENT:
                self._sent.clear()
            self._sent.update(files)

    def within(self, folders: Iterable[Path]) -> TableFolders:
        """Return where files of a table are found that must be in some folders of ours."""
        return _SharedFiles(self, [*folders, self._brought])

    def here(self, location: str) -> Path | None:
        """Return where a file of the bucket is on this machine; None for what is elsewhere."""
        plain = plain_location(location)
        name = plain.removeprefix(self.url + "/")
        if name != plain:
            parts = name.split("/")
            if any(part in ("", ".", "..") for part in parts) or len(name) > 1024:
                raise CorruptionError(f"the table names {location[:200]}, which is no file")
            return self._root / name
        name = plain.removeprefix(self._data)
        if name == plain:
            return None
        if (match := _BESIDE.fullmatch(name)) is not None:
            return self._brought / match[0].replace("/", "-")
        last = name.rpartition("/")[2]
        if not _DATA.fullmatch(last):
            raise CorruptionError(f"the table names {location[:200]}, which is no file")
        return self._store.location(last)

    def bring(self, path: Path) -> None:
        """Copy a file of the bucket to this machine, unless it is here."""
        if path.exists() or not path.is_relative_to(self._root):
            return
        if path.parent == self._brought:
            name = path.name.replace("-", "/", 2)
            self._beside.bring(f"objects/{name}", path)
        else:
            self._bucket.bring(path.relative_to(self._root).as_posix(), path)


def url_of(place: SharedPlace | None) -> str | None:
    """Return where a bucket is; None for none."""
    return None if place is None else place.url


class _SharedFiles(TableFolders):
    """Files of a bucket, as they are on this machine."""

    __slots__ = ("_shared",)

    def __init__(self, shared: SharedPlace, folders: Iterable[Path]) -> None:
        super().__init__(folders)
        self._shared = shared

    def file(self, location: str) -> Path:
        """Return where a file is, which is brought if it is not here yet."""
        here = self._shared.here(location)
        found = super().file(location if here is None else str(here))
        self._shared.bring(found)
        return found

    def has(self, location: str) -> bool:
        """Whether a file is there."""
        return self.file(location).is_file()

    def is_home(self, location: str, folder: Path) -> bool:
        """Whether a location that the table gives itself is that of its folder."""
        here = self._shared.here(location)
        return super().is_home(location if here is None else str(here), folder)


ASKED = "x-iceberg-access-delegation"
_VENDED = "vended-credentials"
_KEYS = {
    "s3.access-key-id": "KEY_ID",
    "s3.secret-access-key": "SECRET_KEY",
    "s3.session-token": "SESSION_TOKEN",
}
_GOOGLE_KEYS = {
    "gcs.oauth2.token": "TOKEN",
    "gcs.oauth2.token-expires-at": "TOKEN_EXPIRES_AT",
}
_READ, _WRITE = "HAVASU_VC_READ_", "HAVASU_VC_WRITE_"


def credentials(settings: Mapping[str, str], places: Sequence[str | None]) -> list[dict[str, Any]]:
    """Return the settings as Iceberg's storage credentials, for all places that a table is in.

    DuckDB takes what stands beside a table for its location alone, and so does it with
    credentials of one place.
    """
    if not settings:
        return []
    prefixes = dict.fromkeys(f"{place.partition('?')[0].rstrip('/')}/" for place in places if place)
    return [{"prefix": prefix, "config": dict(settings)} for prefix in prefixes]


def store_settings(
    place: str | None,
    headers: Mapping[str, str],
    *,
    writes: bool = False,
    environment: Mapping[str, str] = os.environ,
) -> dict[str, str]:
    """Return what a client, who may commit or not, is told of the bucket of a table's files."""
    if place is None:
        return {}
    parts = urlsplit(place)
    host = parts.netloc.rpartition("@")[2]
    match parts.scheme:
        case "s3":
            found, keys, first = _s3(environment), _KEYS, "KEY_ID"
        case "gs" | "gcs":
            found, keys, first = _gs(place, environment), _GOOGLE_KEYS, "TOKEN"
        case "abfs" | "abfss":
            # PyIceberg asks for the first name, Java's clients for the second.
            names = ("adls.sas-token", f"adls.sas-token.{host}")
            found, keys = _azure(place, environment), dict.fromkeys(names, "SAS_TOKEN")
            first = "SAS_TOKEN"
        case _:
            return {}
    if _VENDED in headers.get(ASKED, ""):
        which = _WRITE if writes and environment.get(f"{_WRITE}{first}") else _READ
        named = {name: environment.get(which + key) for name, key in keys.items()}
        found |= {name: value for name, value in named.items() if value}
    return found


def _s3(environment: Mapping[str, str]) -> dict[str, str]:
    said = s3_settings(environment)
    found: dict[str, str] = {}
    if said.region:
        found["client.region"] = found["s3.region"] = said.region
    if said.endpoint:
        found |= {"s3.endpoint": said.endpoint, "s3.path-style-access": "true"}
    return found


def _gs(place: str, environment: Mapping[str, str]) -> dict[str, str]:
    told = dict(system_arguments(place, environment)[1])
    host = told.get("endpoint_override")
    return {} if host is None else {"gcs.service.host": f"{told.get('scheme', 'https')}://{host}"}


def _azure(place: str, environment: Mapping[str, str]) -> dict[str, str]:
    host = urlsplit(place).netloc.rpartition("@")[2]
    told = dict(system_arguments(place, environment)[1])
    found = {"adls.account-name": host.partition(".")[0]}
    for kind in ("blob", "dfs"):
        for part in ("authority", "scheme"):
            value = told.get(f"{kind}_storage_{part}")
            found |= {} if value is None else {f"adls.{kind}-storage-{part}": str(value)}
    return found
