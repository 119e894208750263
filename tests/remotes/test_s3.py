"""Data in a bucket of a real S3 server on loopback."""

import os
import socket
from pathlib import Path

import pytest
from pyarrow.fs import FileSelector, S3FileSystem

from havasu_vc.errors import (
    CorruptDataFileError,
    DataFileNotFoundError,
    HavasuError,
    StorageError,
)
from havasu_vc.remotes.object_store import ObjectStoreRemote
from havasu_vc.remotes.protocol import WantedFile
from havasu_vc.spark.jars import bucket_settings
from havasu_vc.store import object_systems
from havasu_vc.store.files import DataFileStore
from tests.remotes.sharing import bare, clone, files, named, reopened, share
from tests.repo.points import make, read, write
from tests.support.servers import S3_ENVIRONMENT, asked_of

ROWS = {1: ("one", 1), 2: ("two", 2)}


@pytest.fixture
def bucket(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[S3FileSystem, str]:
    for name, value in S3_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    system = S3FileSystem(
        endpoint_override=endpoint.removeprefix("http://"),
        scheme="http",
        region="us-east-1",
        allow_bucket_creation=True,
    )
    name = f"bucket-{abs(hash(tmp_path.name))}"
    system.create_dir(name)
    return system, name


def there(bucket: tuple[S3FileSystem, str]) -> set[str]:
    system, name = bucket
    selector = FileSelector(f"{name}/data/objects", recursive=True, allow_not_found=True)
    return {info.base_name for info in system.get_file_info(selector) if info.is_file}


def test_data_goes_to_a_bucket_and_comes_back(
    bucket: tuple[S3FileSystem, str], tmp_path: Path
) -> None:
    url = f"s3://{bucket[1]}/data"
    ours, server = make(tmp_path / "ours", ROWS), bare(tmp_path / "server.git")

    share(ours, server, data=url)

    assert named(server) == there(bucket) and files(server) == []
    config = (ours.path / ".git" / "config").read_text()
    assert "secret" not in config and "127.0.0.1" not in config
    theirs = clone(server, tmp_path / "theirs", data_url=url)
    assert read(theirs) == ROWS
    write(theirs, {**ROWS, 3: ("three", 3)})
    assert theirs.push().files
    assert named(server) == there(bucket)
    ours = reopened(ours)
    assert ours.fetch().files
    assert len(read(ours, "origin/main")) == 3


def put(bucket: tuple[S3FileSystem, str], file: str, data: bytes) -> None:
    path = f"{bucket[1]}/data/objects/{file[:2]}/{file[2:4]}/{file}"
    with bucket[0].open_output_stream(path) as stream:
        stream.write(data)


@pytest.mark.few(1)
@pytest.mark.parametrize("wrong", [b"", b"\0" * 8, b"12345678", b"123456789"])
def test_wrong_bytes_are_not_taken(
    bucket: tuple[S3FileSystem, str], tmp_path: Path, wrong: bytes
) -> None:
    file, store = WantedFile("ab" * 32, 8), DataFileStore(tmp_path / "store")
    put(bucket, file.sha256, wrong)
    remote = ObjectStoreRemote(f"s3://{bucket[1]}/data")

    with pytest.raises(CorruptDataFileError):
        remote.download([file], store, lambda count: None)

    assert list(store.iter()) == [] and list(store.scratch.iterdir()) == []


def test_a_missing_file(bucket: tuple[S3FileSystem, str], tmp_path: Path) -> None:
    remote = ObjectStoreRemote(f"s3://{bucket[1]}/data")
    with pytest.raises(DataFileNotFoundError):
        remote.download(
            [WantedFile("ab" * 32, 8)], DataFileStore(tmp_path / "store"), lambda count: None
        )


@pytest.mark.thorough
@pytest.mark.parametrize("count", [3, 300])
def test_what_is_lacking(bucket: tuple[S3FileSystem, str], count: int) -> None:
    wanted = [WantedFile(f"{number:064x}", 3) for number in range(count)]
    put(bucket, wanted[0].sha256, b"abc")
    put(bucket, wanted[1].sha256, b"ab")

    assert ObjectStoreRemote(f"s3://{bucket[1]}/data").lacking(wanted) == wanted[1:]


@pytest.mark.thorough
def test_ten_thousand_files_are_looked_for_in_a_few_requests(
    bucket: tuple[S3FileSystem, str], endpoint: str
) -> None:
    remote = ObjectStoreRemote(f"s3://{bucket[1]}/data")
    for number in range(20):
        put(bucket, f"{number:064x}", b"abc")
    wanted = [WantedFile(f"{number:064x}", 3) for number in range(10_000)]
    asked_of(endpoint)

    assert remote.lacking(wanted) == wanted[20:]

    assert len(asked_of(endpoint)) <= 10_000 // 1000 + 2


@pytest.mark.thorough
def test_a_file_is_sent_in_one_request(
    bucket: tuple[S3FileSystem, str], endpoint: str, tmp_path: Path
) -> None:
    remote, store = ObjectStoreRemote(f"s3://{bucket[1]}/data"), DataFileStore(tmp_path)
    wanted = []
    for number in range(30):
        temporary = store.temporary()
        temporary.write_bytes(b"content %d" % number)
        wanted.append(WantedFile(*store.put(temporary)))
    asked_of(endpoint)

    with remote.sending(wanted):
        remote.upload(wanted, store, lambda count: None)

    requests = asked_of(endpoint)
    assert len([each for each in requests if "/objects/" in each]) == 30
    assert len(requests) <= 30 + 6


@pytest.mark.few(1)
@pytest.mark.parametrize("what", ["lacking", "upload", "sending"])
def test_a_bucket_that_is_not_there(
    bucket: tuple[S3FileSystem, str], tmp_path: Path, what: str
) -> None:
    remote, store = ObjectStoreRemote("s3://no-such-bucket/data"), DataFileStore(tmp_path)
    temporary = store.temporary()
    temporary.write_bytes(b"abc")
    file = WantedFile(*store.put(temporary))
    if what == "lacking":
        assert remote.lacking([file]) == [file]
        return
    with pytest.raises(HavasuError) as caught:
        if what == "upload":
            remote.upload([file], store, lambda count: None)
        else:
            with remote.sending([file]):
                pass
    assert "\n" not in caught.value.message and "make the bucket" in caught.value.hints[0]


@pytest.mark.thorough
@pytest.mark.parametrize("what", ["lacking", "download"])
def test_a_store_that_says_nothing_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    for name, value in S3_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(object_systems, "SILENT_SECONDS", 1)
    monkeypatch.setattr(object_systems, "TRIES", 1)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{deaf.getsockname()[1]}")
        remote, file = ObjectStoreRemote("s3://deaf/data"), WantedFile("ab" * 32, 8)
        with pytest.raises(StorageError) as caught:
            if what == "lacking":
                remote.lacking([file])
            else:
                remote.download([file], DataFileStore(tmp_path), lambda count: None)
    assert "\n" not in caught.value.message and "network" in caught.value.hints[0]


@pytest.mark.thorough
def test_pruning_a_bucket(bucket: tuple[S3FileSystem, str], tmp_path: Path) -> None:
    url = f"s3://{bucket[1]}/data"
    ours, server = make(tmp_path / "ours", ROWS), bare(tmp_path / "server.git")
    share(ours, server, data=url)
    ours = reopened(ours)
    kept = there(bucket)
    put(bucket, "ab" * 32, b"nobody's")

    assert ours.prune_remote(grace_days=0).files == 1
    assert there(bucket) == {*kept, "ab" * 32}
    assert ours.prune_remote(grace_days=0, delete=True).size == 8
    assert there(bucket) == kept


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["profile", "service", "default"])
def test_a_profile_says_where_the_server_is(
    bucket: tuple[S3FileSystem, str],
    endpoint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    """Keys and address of a server of one's own stand in the files of AWS alone."""
    for name in (*S3_ENVIRONMENT, "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    keys = "aws_access_key_id = somebody\naws_secret_access_key = secret\nregion = us-east-1\n"
    texts = {
        "profile": f"[profile maps]\n{keys}endpoint_url = {endpoint}\n",
        "service": f"[profile maps]\n{keys}services = local\n"
        f"[services local]\ns3 =\n  endpoint_url = {endpoint}\n",
        "default": f"[default]\n{keys}endpoint_url = {endpoint}\n",
    }
    (tmp_path / "config").write_text(texts[how])
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    if how != "default":
        monkeypatch.setenv("AWS_PROFILE", "maps")
    url = f"s3://{bucket[1]}/data"
    ours, server = make(tmp_path / "ours", ROWS), bare(tmp_path / "server.git")

    share(ours, server, data=url)
    theirs = clone(server, tmp_path / "theirs", data_url=url)

    assert named(server) == there(bucket)
    assert read(theirs) == read(ours)
    assert bucket_settings(url, os.environ)["spark.hadoop.fs.s3a.endpoint"] == endpoint
