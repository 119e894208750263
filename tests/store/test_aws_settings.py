"""What the files of AWS say of S3; botocore is the oracle."""

from pathlib import Path

import pytest

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.store.object_urls import AwsSettings, s3_settings, system_arguments

pytestmark = pytest.mark.few(3)

CONFIG = """\
[default]
region = eu-west-1
endpoint_url = http://127.0.0.1:1/

[profile  maps]
services = local
endpoint_url = http://127.0.0.1:2
[services local]
dynamodb =
  endpoint_url = http://127.0.0.1:3
s3 =
  endpoint_url = http://127.0.0.1:4
  addressing_style = path

[profile plain]
region=us-west-2
s3 =
    max_concurrent_requests = 3
endpoint_url = https://127.0.0.1:5
[profile ignoring]
ignore_configured_endpoint_urls = true
endpoint_url = http://127.0.0.1:6
[profile lost]
services = nowhere
[profile silent]
"""
PROFILES: list[tuple[dict[str, str], str | None]] = [
    ({}, "http://127.0.0.1:1/"),
    ({"AWS_PROFILE": "maps"}, "http://127.0.0.1:4"),
    ({"AWS_PROFILE": "plain"}, "https://127.0.0.1:5"),
    ({"AWS_PROFILE": "ignoring"}, None),
    ({"AWS_PROFILE": "silent"}, None),
    ({"AWS_PROFILE": "keys"}, None),
    ({"AWS_PROFILE": "maps", "AWS_ENDPOINT_URL": "http://127.0.0.1:7"}, "http://127.0.0.1:7"),
    (
        {"AWS_ENDPOINT_URL": "http://127.0.0.1:7", "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:8"},
        "http://127.0.0.1:8",
    ),
    (
        {
            "AWS_PROFILE": "maps",
            "AWS_ENDPOINT_URL": "http://127.0.0.1:7",
            "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true",
        },
        None,
    ),
]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text(CONFIG)
    keys = "aws_access_key_id = a\naws_secret_access_key = b\n"
    keys = f"[default]\n{keys}[keys]\n{keys}region = eu-north-1\n"
    (tmp_path / ".aws" / "credentials").write_text(keys)
    return {"HOME": str(tmp_path)}


@pytest.mark.thorough
@pytest.mark.parametrize(("environment", "endpoint"), PROFILES)
def test_the_endpoint_is_the_one_that_aws_takes(
    files: dict[str, str],
    environment: dict[str, str],
    endpoint: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert s3_settings({**files, **environment}).endpoint == endpoint

    boto3 = pytest.importorskip("boto3")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {**files, **environment, "AWS_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)
    theirs = boto3.Session().client("s3").meta.endpoint_url
    assert theirs == endpoint if endpoint else theirs.endswith("amazonaws.com")


def test_regions_and_files_of_other_places(files: dict[str, str], tmp_path: Path) -> None:
    assert s3_settings(files).region == "eu-west-1"
    assert s3_settings({**files, "AWS_PROFILE": "plain"}).region == "us-west-2"
    assert s3_settings({**files, "AWS_PROFILE": "keys"}).region == "eu-north-1"
    assert s3_settings({**files, "AWS_DEFAULT_REGION": "here"}).region == "here"
    (tmp_path / "mine").write_text("[profile x]\nendpoint_url = http://127.0.0.1:9 # mine\n")
    mine = {**files, "AWS_CONFIG_FILE": str(tmp_path / "mine"), "AWS_PROFILE": "x"}
    assert s3_settings(mine) == AwsSettings(None, "http://127.0.0.1:9")
    assert s3_settings({}) == AwsSettings()
    _, arguments, _ = system_arguments("s3://maps/wells", {**files, "AWS_PROFILE": "maps"})
    assert dict(arguments)["endpoint_override"] == "127.0.0.1:4"


@pytest.mark.parametrize(
    ("environment", "config", "cause"),
    [
        ({"AWS_PROFILE": "nobody"}, CONFIG, "names 'nobody'"),
        ({"AWS_PROFILE": "lost"}, CONFIG, "services 'nowhere'"),
        ({}, "no section\n", "no file of AWS"),
        ({"AWS_ENDPOINT_URL": "localhost:9000"}, "", "no address"),
        ({"AWS_ENDPOINT_URL": "http://me:secret@127.0.0.1"}, "", "no address"),
    ],
)
def test_what_is_not_understood_goes_to_nobody(
    tmp_path: Path, environment: dict[str, str], config: str, cause: str
) -> None:
    (tmp_path / "config").write_text(config)
    said = {"AWS_CONFIG_FILE": str(tmp_path / "config"), **environment}
    with pytest.raises(InvalidArgumentError, match=cause) as raised:
        s3_settings(said)
    assert "secret" not in str(raised.value) or "secret" not in environment.get("AWS_PROFILE", "")
