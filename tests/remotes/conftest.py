"""Repositories that share: a bare one on a folder, and clones of it.

They are made once and copied for each test, with the place of the remote written anew. And
tables of a workspace in a folder, or in buckets of servers on loopback.
"""

import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from havasu_vc import Repo
from havasu_vc.store.object_systems import object_system
from tests.conftest import ROOT, lacking
from tests.remotes.buckets import Tables, made, s3
from tests.remotes.sharing import bare, clone, share
from tests.repo.points import make
from tests.support.examples import some
from tests.support.git import run_git
from tests.support.servers import (
    AZURE_ACCOUNT,
    AZURE_ENVIRONMENT,
    S3_ENVIRONMENT,
    has_moto,
    moto,
)
from tests.support.sound import LOCAL
from tests.support.templates import copy_tree


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `ours`, `theirs` and the bare `server.git` that both have as `origin`."""
    folder = tmp_path_factory.mktemp("shared")
    repo = make(folder / "ours", {number: (f"row {number}", number) for number in range(6)})
    share(repo, bare(folder / "server.git"))
    clone(folder / "server.git", folder / "theirs")
    return folder


def copied(shared: Path, folder: Path, name: str) -> Repo:
    copy_tree(shared / name, folder / name)
    run_git("remote", "set-url", "origin", folder / "server.git", cwd=folder / name)
    # Copies have other times, at which git looks; this is no part of any test.
    run_git("update-index", "--refresh", "-q", cwd=folder / name)
    return Repo.open(folder / name, settings=LOCAL)


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the program on the PATH, and git's programs alone beside it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "havasu-vc"
    program.write_text(
        f"#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -c "
        "'import sys; from havasu_vc.cli.main import main; sys.exit(main())' \"$@\"\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return program


@pytest.fixture
def own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a test global settings of git of its own, to allow places in."""
    own = tmp_path / "gitconfig"
    shutil.copy(os.environ["GIT_CONFIG_GLOBAL"], own)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(own))


@pytest.fixture
def ours(shared: Path, tmp_path: Path) -> Repo:
    """A repository of six points with a remote `origin` that has them."""
    copy_tree(shared / "server.git", tmp_path / "server.git")
    return copied(shared, tmp_path, "ours")


@pytest.fixture
def theirs(ours: Repo, shared: Path, tmp_path: Path) -> Repo:
    """A clone of the same remote."""
    return copied(shared, tmp_path, "theirs")


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    if not has_moto():
        lacking("this needs an S3 server: pip install 'moto[s3]' flask flask-cors")
    with moto() as url:
        yield url


@pytest.fixture
def url(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A place for tables in a new bucket."""
    for name, value in S3_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    name = f"workspace-{secrets.token_hex(6)}"
    s3(endpoint).create_dir(name)
    return f"s3://{name}/tables"


@pytest.fixture
def google_url(google_host: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", google_host)
    return f"gs://maps/{secrets.token_hex(6)}"


@pytest.fixture
def azure_url(azure_host: str, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in AZURE_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AZURITE_BLOB_STORAGE_URL", azure_host)
    url = f"abfs://maps{secrets.token_hex(4)}@{AZURE_ACCOUNT}.dfs.core.windows.net"
    object_system(url)[0].create_dir(url.removeprefix("abfs://").partition("@")[0])
    return f"{url}/tables"


@pytest.fixture(params=some(["folder", "url", "google_url", "azure_url"], "folder"))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "folder":
        return str(tmp_path / "elsewhere" / "tables")
    return str(request.getfixturevalue(request.param))


@pytest.fixture
def tables(tmp_path: Path, place: str) -> Tables:
    return made(tmp_path, place)


@pytest.fixture
def far(tmp_path: Path, url: str) -> Tables:
    return made(tmp_path, url)
