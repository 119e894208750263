"""A catalog in a bucket of Google's or a container of Azure's: PyIceberg reads and writes."""

import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pytest

from havasu_vc import Repo
from havasu_vc.store.object_systems import object_size, object_system
from tests.remotes.sharing import bare, clone, share
from tests.repo.points import make
from tests.serving.server import catalog, prefix, send, serving
from tests.serving.test_bucket import ASKED, POINTS
from tests.serving.test_reading import expected, in_order
from tests.support.servers import (
    AZURE_ACCOUNT,
    AZURE_ENVIRONMENT,
)

pytestmark = pytest.mark.thorough
HOST = f"{AZURE_ACCOUNT}.dfs.core.windows.net"
NO_KEYS: Mapping[str, str] = MappingProxyType({})


def far(tmp_path: Path, place: str) -> Repo:
    """Return a clone whose data and whose catalog are at a place."""
    ours = make(tmp_path / "ours", {n: (f"n{n}", n) for n in range(20)})
    share(ours, bare(tmp_path / "server.git"), data=f"{place}/data")
    found = clone(
        tmp_path / "server.git", tmp_path / "far", data_url=f"{place}/data", on_demand=True
    )
    found.git.git("config", "havasu.catalog.url", f"{place}/catalog")
    return found


@pytest.mark.filterwarnings("ignore:Merge on read")
def test_google(google_host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", google_host)
    for kind in ("READ", "WRITE"):
        monkeypatch.setenv(f"HAVASU_VC_{kind}_TOKEN", f"{kind.lower()}-token")
        ends = str(int((time.time() + 3600) * 1000))
        monkeypatch.setenv(f"HAVASU_VC_{kind}_TOKEN_EXPIRES_AT", ends)
    place = f"gs://maps/{secrets.token_hex(4)}"
    repo = far(tmp_path, place)
    repo.git.git("branch", "other")
    with serving(repo.path, "--write", "main") as url:
        said = send(url, prefix(url) + POINTS)
        assert "-token" not in str(said.body) and str(repo.path) not in str(said.body)
        assert said.body["config"] == {"gcs.service.host": google_host}
        for ref, token in (("main", "write-token"), ("other", "read-token")):
            told = send(url, prefix(url, ref) + POINTS, **ASKED).body["config"]
            assert told["gcs.oauth2.token"] == token
        assert_reads_and_writes(repo, url)


@pytest.fixture
def azure(azure_host: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a container, which this machine has the keys of."""
    for name, value in {**AZURE_ENVIRONMENT, "AZURITE_BLOB_STORAGE_URL": azure_host}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HAVASU_VC_READ_SAS_TOKEN", "read-token")
    monkeypatch.setenv("HAVASU_VC_WRITE_SAS_TOKEN", "write-token")
    place = f"abfss://maps{secrets.token_hex(4)}@{HOST}"
    object_system(place)[0].create_dir(place.removeprefix("abfss://").partition("@")[0])
    return place


def test_azure_is_told_of(azure: str, azure_host: str, tmp_path: Path) -> None:
    repo = far(tmp_path, azure)
    repo.git.git("branch", "other")
    with serving(repo.path, "--write", "main") as url:
        said = send(url, prefix(url) + POINTS).body
        assert "-token" not in str(said) and str(repo.path) not in str(said)
        assert said["config"]["adls.account-name"] == AZURE_ACCOUNT
        assert said["config"]["adls.blob-storage-authority"] in azure_host
        snapshot = said["metadata"]["snapshots"][-1]
        assert object_size(snapshot["manifest-list"])
        assert object_size(said["metadata-location"])
        for ref, token in (("main", "write-token"), ("other", "read-token")):
            told = send(url, prefix(url, ref) + POINTS, **ASKED).body["config"]
            assert {told["adls.sas-token"], told[f"adls.sas-token.{HOST}"]} == {token}


@pytest.mark.filterwarnings("ignore:Merge on read")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_azure(azure: str, azure_host: str, tmp_path: Path) -> None:
    pytest.importorskip("adlfs")
    key = AZURE_ENVIRONMENT["AZURE_STORAGE_KEY"]
    own = (
        f"DefaultEndpointsProtocol=http;AccountName={AZURE_ACCOUNT};AccountKey={key};"
        f"BlobEndpoint={azure_host}/{AZURE_ACCOUNT};"
    )
    repo = far(tmp_path, azure)
    with serving(repo.path, "--write", "main") as url:
        # The emulator knows no signatures of ours: this client has a key of its own.
        settings = {"adls.connection-string": own, "header.X-Iceberg-Access-Delegation": "none"}
        assert_reads_and_writes(repo, url, settings)


def assert_reads_and_writes(repo: Repo, url: str, settings: Mapping[str, str] = NO_KEYS) -> None:
    """Append and delete by PyIceberg, and compare what it reads then with the repository."""
    served = catalog(url, **settings)
    before = served.load_table("tables.points")
    assert in_order(before.scan().to_arrow()) == expected(repo, "points")
    schema = before.schema().as_arrow()
    new = {
        name: pa.array([100 if name == "id" else None], schema.field(name).type)
        for name in schema.names
    }
    before.append(pa.table(new, schema=schema))
    table = served.load_table("tables.points")
    table.delete("id = 5")
    found = in_order(served.load_table("tables.points").scan().to_arrow())
    feed = served.load_table("tables.points__changes").scan().to_arrow()
    assert found == expected(repo, "points")
    assert {row["id"] for row in found} == set(range(20)) - {5} | {100}
    assert feed["_change_type"].to_pylist().count("DELETE") == 1
