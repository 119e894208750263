"""What file systems are made with, by URL and environment; gs and abfs are tested only here."""

import pytest
from pyarrow.fs import AzureFileSystem, GcsFileSystem, LocalFileSystem, S3FileSystem

from havasu_vc.errors import InvalidArgumentError, StorageError
from havasu_vc.store.object_systems import object_system
from havasu_vc.store.object_urls import shown_url, system_arguments

ENDPOINT = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_REGION": "eu-west-1"}


@pytest.mark.parametrize(
    ("url", "environment", "kind", "arguments", "path"),
    [
        ("s3://b/x/", {}, "s3", {"bucket": "b"}, "b/x"),
        ("s3a://b", {"AWS_DEFAULT_REGION": "r"}, "s3", {"bucket": "b", "region": "r"}, "b"),
        (
            "s3://b/x",
            ENDPOINT,
            "s3",
            {
                "bucket": "b",
                "region": "eu-west-1",
                "endpoint_override": "127.0.0.1:9",
                "scheme": "http",
            },
            "b/x",
        ),
        (
            "s3://b/x?region=r&endpoint_override=h:1&scheme=http",
            ENDPOINT | {"AWS_ENDPOINT_URL_S3": "https://other"},
            "s3",
            {"bucket": "b", "region": "r", "endpoint_override": "h:1", "scheme": "http"},
            "b/x",
        ),
        ("gs://b/x", {}, "gs", {}, "b/x"),
        (
            "gcs://b/x",
            {"STORAGE_EMULATOR_HOST": "localhost:9"},
            "gs",
            {"endpoint_override": "localhost:9", "scheme": "http", "anonymous": True},
            "b/x",
        ),
        ("abfs://c@account.dfs.core.windows.net/x", {}, "uri", {}, ""),
        (
            "abfss://c@account.dfs.core.windows.net/x",
            {"AZURE_STORAGE_KEY": "a2V5"},
            "abfs",
            {"account_name": "account", "account_key": "a2V5"},
            "c/x",
        ),
        (
            "abfs://c@account.dfs.core.windows.net/x",
            {"AZURE_STORAGE_SAS_TOKEN": "t", "AZURITE_BLOB_STORAGE_URL": "http://h:1"},
            "abfs",
            {
                "account_name": "account",
                "sas_token": "t",
                "blob_storage_authority": "h:1",
                "blob_storage_scheme": "http",
                "dfs_storage_authority": "h:1",
                "dfs_storage_scheme": "http",
            },
            "c/x",
        ),
    ],
)
def test_arguments(
    url: str, environment: dict[str, str], kind: str, arguments: dict[str, object], path: str
) -> None:
    assert system_arguments(url, environment) == (kind, tuple(sorted(arguments.items())), path)


@pytest.mark.parametrize(
    ("url", "kind", "environment"),
    [
        ("file:///srv/x", LocalFileSystem, {}),
        ("s3://b/x", S3FileSystem, ENDPOINT),
        ("gs://b/x", GcsFileSystem, {"STORAGE_EMULATOR_HOST": "http://127.0.0.1:9"}),
        (
            "abfs://c@account.dfs.core.windows.net/x",
            AzureFileSystem,
            {"AZURE_STORAGE_KEY": "a2V5"},
        ),
    ],
)
def test_file_systems_are_made_once(
    url: str, kind: type, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    system, path = object_system(url)
    assert isinstance(system, kind) and path.endswith("/x")
    assert object_system(url)[0].equals(system)


@pytest.mark.parametrize("url", ["http://h/x", "ftp://h/x", "/srv/x", "s4://b"])
def test_other_places(url: str) -> None:
    with pytest.raises(InvalidArgumentError, match="no store"):
        system_arguments(url, {})


def test_secrets_are_not_shown() -> None:
    assert shown_url("s3://me:secret@b/x?secret_key=y") == "s3://b/x"
    with pytest.raises(StorageError) as caught:
        object_system("s3://me:hidden@b/x?scheme=bogus&region=r")
    assert "hidden" not in caught.value.message and "s3://b/x" in caught.value.message


@pytest.mark.parametrize("name", ["a\nb.parquet", "a\tb.parquet", "\ra.parquet"])
def test_a_name_is_never_another_one(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="line feed or a tab") as found:
        system_arguments(f"s3://bucket/{name}", {})
    assert "\n" not in str(found.value) and "%0" in str(found.value)
