"""Data in a container of a server that speaks Azure's API, on loopback."""

import secrets
from pathlib import Path

import pytest

from havasu_vc.errors import CorruptDataFileError, DataFileNotFoundError, HavasuError
from havasu_vc.remotes.object_store import ObjectStoreRemote
from havasu_vc.remotes.protocol import WantedFile
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.object_systems import object_system
from tests.remotes.sharing import bare, clone, files, named, reopened, share
from tests.repo.points import make, read, write
from tests.support.servers import AZURE_ACCOUNT, AZURE_ENVIRONMENT

ROWS = {1: ("one", 1), 2: ("two", 2)}
HOST = f"{AZURE_ACCOUNT}.dfs.core.windows.net"


@pytest.fixture
def url(azure_host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in AZURE_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AZURITE_BLOB_STORAGE_URL", azure_host)
    container = f"maps{secrets.token_hex(6)}"
    system, _ = object_system(f"abfs://{container}@{HOST}")
    system.create_dir(container)
    return f"abfs://{container}@{HOST}/data"


@pytest.mark.thorough
def test_data_goes_to_a_container_and_comes_back(url: str, tmp_path: Path) -> None:
    ours, server = make(tmp_path / "ours", ROWS), bare(tmp_path / "server.git")

    share(ours, server, data=url)

    remote = ObjectStoreRemote(url)
    assert named(server) == {name for name, _ in remote.listed()} and files(server) == []
    config = (ours.path / ".git" / "config").read_text()
    assert AZURE_ENVIRONMENT["AZURE_STORAGE_KEY"] not in config and "127.0.0.1" not in config
    theirs = clone(server, tmp_path / "theirs", data_url=url)
    assert read(theirs) == ROWS
    write(theirs, {**ROWS, 3: ("three", 3)})
    theirs.push_data()
    ours = reopened(ours)
    assert ours.prune_remote(grace_days=0).files > 0
    assert theirs.push().files == 0
    assert ours.prune_remote(grace_days=0, delete=True).files == 0
    assert ours.fetch().files and len(read(ours, "origin/main")) == 3
    assert ours.drop_data(everything=True).files
    assert read(reopened(ours)) == ROWS


@pytest.mark.thorough
def test_wrong_and_missing_bytes(url: str, tmp_path: Path) -> None:
    remote, store, name = ObjectStoreRemote(url), DataFileStore(tmp_path), "ab" * 32
    system, root = object_system(url)
    with system.open_output_stream(f"{root}/objects/ab/ab/{name}") as stream:
        stream.write(b"12345678")
    with pytest.raises(CorruptDataFileError):
        remote.download([WantedFile(name, 8)], store, lambda count: None)
    with pytest.raises(DataFileNotFoundError):
        remote.download([WantedFile("cd" * 32, 8)], store, lambda count: None)
    assert list(store.iter()) == []


@pytest.mark.thorough
def test_a_key_that_is_wrong(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_KEY", "c2VjcmV0" * 8)
    with pytest.raises(HavasuError) as caught:
        ObjectStoreRemote(url).lacking([WantedFile("ab" * 32, 8)])
    assert "\n" not in caught.value.message and "c2VjcmV0" not in caught.value.message
    assert "credentials" in caught.value.hints[0]
