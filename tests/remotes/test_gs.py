"""Data in a bucket of a server that speaks Google's API, on loopback."""

from pathlib import Path

import pytest

from havasu_vc.errors import CorruptDataFileError, DataFileNotFoundError
from havasu_vc.remotes.object_store import ObjectStoreRemote
from havasu_vc.remotes.protocol import WantedFile
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.object_systems import object_system
from tests.remotes.sharing import bare, clone, files, named, reopened, share
from tests.repo.points import make, read, write

ROWS = {1: ("one", 1), 2: ("two", 2)}


@pytest.fixture(autouse=True)
def emulated(google_host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", google_host)


def test_data_goes_to_a_bucket_and_comes_back(tmp_path: Path) -> None:
    ours, server = make(tmp_path / "ours", ROWS), bare(tmp_path / "server.git")

    share(ours, server, data="gs://maps/data")

    there = {name for name, _ in ObjectStoreRemote("gs://maps/data").listed()}
    assert named(server) == there and files(server) == []
    theirs = clone(server, tmp_path / "theirs", data_url="gs://maps/data")
    assert read(theirs) == ROWS
    write(theirs, {**ROWS, 3: ("three", 3)})
    assert theirs.push().files
    ours = reopened(ours)
    assert ours.fetch().files and len(read(ours, "origin/main")) == 3
    assert ours.prune_remote(grace_days=0).files == 0


def test_wrong_and_missing_bytes(tmp_path: Path) -> None:
    system, _ = object_system("gs://maps/wrong")
    name = "ab" * 32
    with system.open_output_stream(f"maps/wrong/objects/ab/ab/{name}") as stream:
        stream.write(b"12345678")
    remote, store = ObjectStoreRemote("gs://maps/wrong"), DataFileStore(tmp_path)
    with pytest.raises(CorruptDataFileError):
        remote.download([WantedFile(name, 8)], store, lambda count: None)
    with pytest.raises(DataFileNotFoundError):
        remote.download([WantedFile("cd" * 32, 8)], store, lambda count: None)
    assert list(store.iter()) == []
