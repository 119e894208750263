"""Commits say where the data is, and whoever clones is asked for nothing but trust."""

import secrets
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from havasu_vc import Repo
from havasu_vc.errors import StateError
from havasu_vc.formats.repository_config import CONFIG_FILE
from havasu_vc.remotes.protocol import ALLOWED, require_allowed
from tests.cli.conftest import invoke, succeed
from tests.remotes.places import Place, bucket_at, folder_at
from tests.remotes.sharing import bare, clone, files, named, reopened
from tests.repo.points import Rows, make, read, table, write
from tests.support.git import run_git

pytestmark = pytest.mark.usefixtures("own_settings")

ROWS: Rows = {1: ("one", 1), 2: ("two", 2)}
MORE: Rows = {**ROWS, 3: ("three", 3)}


def allow(place: str) -> None:
    run_git("config", "--global", "--add", ALLOWED, place, cwd=Path.cwd())


def published(tmp_path: Path, url: str) -> Repo:
    """Return a repository that was shared with its data at a URL, as the guide tells."""
    repo, server = make(tmp_path / "ours", ROWS), bare(tmp_path / "server.git")
    succeed(invoke(["-C", repo.path, "remote", "add", "origin", server, "--data", url]))
    succeed(invoke(["-C", repo.path, "push", "-u", "origin", "main"]))
    return reopened(repo)


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "folder":
        return folder_at(tmp_path / "data")
    endpoint = request.getfixturevalue("endpoint")
    held = bucket_at(endpoint, f"places-{secrets.token_hex(6)}")
    request.addfinalizer(lambda: held.__exit__(None, None, None))
    return held.__enter__()


@pytest.mark.thorough
def test_a_clone_is_told_by_the_commits_and_allows_the_place_once(
    tmp_path: Path, place: Place
) -> None:
    ours = published(tmp_path, place.url)
    server = tmp_path / "server.git"
    place.assert_has_all_of(server)
    assert files(server) == []
    shown = run_git("show", f"main:{CONFIG_FILE}", cwd=server)
    assert shown == f'[data]\nurl = "{place.url}"'
    assert run_git("status", "--porcelain", cwd=ours.path) == ""

    refused = invoke(["clone", server, tmp_path / "refused"])
    assert refused.exit_code != 0
    command = f"git config --global --add {ALLOWED} {place.url}"
    assert command in refused.stderr.splitlines()[1]
    assert files(tmp_path / "refused") == []

    run_git(*command.split()[1:], cwd=tmp_path)
    succeed(invoke(["-C", tmp_path / "refused", "fetch"]))
    assert read(reopened(Repo.open(tmp_path / "refused"))) == ROWS

    succeed(invoke(["clone", server, tmp_path / "theirs"]))
    theirs = Repo.open(tmp_path / "theirs")
    assert read(theirs) == ROWS
    write(theirs, MORE)
    succeed(invoke(["-C", theirs.path, "push"]))
    place.assert_has_all_of(server)
    assert files(server) == []
    succeed(invoke(["-C", ours.path, "pull"]))
    assert read(reopened(ours)) == MORE


@pytest.mark.thorough
@pytest.mark.usefixtures("on_path")
def test_a_plain_clone_finds_the_data(tmp_path: Path) -> None:
    place = folder_at(tmp_path / "data")
    published(tmp_path, place.url)
    server, plain = tmp_path / "server.git", tmp_path / "plain"
    allow(str(tmp_path / "data"))
    run_git("clone", "--quiet", server, plain, cwd=tmp_path)

    succeed(invoke(["-C", plain, "data", "fetch"]))
    theirs = Repo.open(plain)
    assert read(theirs) == ROWS
    write(theirs, MORE)
    run_git("push", "--quiet", cwd=plain)

    place.assert_has_all_of(server)
    assert files(server) == []


@pytest.mark.few(1)
@pytest.mark.parametrize("how", [(), ("--bare",), ("--depth", "1"), ("--filter=data",)])
def test_other_clones(tmp_path: Path, how: tuple[str, ...]) -> None:
    place = folder_at(tmp_path / "data")
    published(tmp_path, place.url)
    allow(place.url)

    succeed(invoke(["clone", *how, tmp_path / "server.git", tmp_path / "theirs"]))

    assert read(Repo.open(tmp_path / "theirs")) == ROWS


def test_a_place_that_is_named_and_stated_may_move_later(tmp_path: Path) -> None:
    place = folder_at(tmp_path / "data")
    published(tmp_path, place.url)
    server = tmp_path / "server.git"

    succeed(invoke(["clone", "--data-url", place.url, server, tmp_path / "theirs"]))

    theirs = Repo.open(tmp_path / "theirs")
    assert read(theirs) == ROWS
    assert theirs.config.get("havasu.data.url") is None
    assert theirs.config.get(ALLOWED) == place.url


@pytest.mark.usefixtures("on_path")
@pytest.mark.parametrize("how", ["git", "ours"])
@pytest.mark.thorough
def test_texts_go_without_the_data_and_data_does_not(tmp_path: Path, how: str) -> None:
    place = folder_at(tmp_path / "data")
    published(tmp_path, place.url)
    server, theirs = tmp_path / "server.git", tmp_path / "theirs"
    assert invoke(["clone", server, theirs]).exit_code
    (theirs / "README").write_text("Read me\n")
    run_git("add", "README", cwd=theirs)
    run_git("commit", "-qm", "Text", cwd=theirs)

    if how == "git":
        run_git("push", "--quiet", "origin", "main", cwd=theirs)
    else:
        succeed(invoke(["-C", theirs, "push", "origin", "main"]))

    assert run_git("log", "-1", "--format=%s", "main", cwd=server) == "Text"
    source = tmp_path / "points.parquet"
    pq.write_table(table(MORE), source)
    succeed(invoke(["-C", theirs, "import", source, "more", "--primary-key", "id"]))
    done = invoke(["-C", theirs, "push", "origin", "main"])
    assert done.exit_code and f"git config --global --add {ALLOWED}" in done.stderr
    assert run_git("log", "-1", "--format=%s", "main", cwd=server) == "Text"


def test_a_commit_from_before_the_place_was_said(tmp_path: Path) -> None:
    place = folder_at(tmp_path / "data")
    ours = published(tmp_path, place.url)
    ours.git.git("branch", "old", "main~1")
    ours.push("origin", ["old"])
    allow(place.url)
    assert run_git("ls-tree", "-r", "--name-only", "old", cwd=ours.path).count(CONFIG_FILE) == 0

    theirs = clone(tmp_path / "server.git", tmp_path / "theirs", branch="old")

    assert read(theirs) == ROWS


@pytest.mark.thorough
def test_data_that_moved_is_found_by_who_fetches(tmp_path: Path) -> None:
    ours = published(tmp_path, folder_at(tmp_path / "data").url)
    new = folder_at(tmp_path / "new")
    allow(str(tmp_path))
    theirs = clone(tmp_path / "server.git", tmp_path / "theirs")
    run_git("config", "--unset", "remote.origin.havasuData", cwd=ours.path)
    write(ours, MORE)

    succeed(invoke(["-C", ours.path, "data", "place", new.url]))
    succeed(invoke(["-C", ours.path, "data", "push"]))
    succeed(invoke(["-C", ours.path, "push"]))
    new.assert_has_all_of(tmp_path / "server.git")
    (tmp_path / "data").rename(tmp_path / "gone")

    succeed(invoke(["-C", theirs.path, "pull"]))
    assert read(reopened(theirs)) == MORE
    assert succeed(invoke(["-C", theirs.path, "data", "place"])).stdout.strip() == new.url


@pytest.mark.parametrize(
    ("url", "place", "allowed"),
    [
        ("s3://maps/wells", "s3://maps/wells/", True),
        ("s3://maps/wells", "s3://maps", True),
        ("s3://maps/wells2", "s3://maps/wells", False),
        ("s3://maps", "s3://maps/wells", False),
        ("s3://maps/wells?endpoint_override=evil.example", "s3://maps/wells", False),
        ("s3://maps/w?region=a", "s3://maps?region=a", True),
        ("gs://maps", "s3://maps", False),
        ("gcs://maps/a", "gs://maps", True),
        ("abfs://a@me.dfs.core.windows.net/x", "abfs://b@me.dfs.core.windows.net", False),
        ("file:///srv/data/x", "/srv/data", True),
        ("file:///srv/data", "file://localhost/srv", True),
        ("file:///srv/data2", "/srv/data", False),
        ("file:///srv", "srv", False),
        ("file://other/srv", "/srv", False),
    ],
)
def test_what_is_allowed(url: str, place: str, allowed: bool) -> None:
    if allowed:
        require_allowed(url, [place], "a file")
        return
    with pytest.raises(StateError, match="not allowed"):
        require_allowed(url, [place], "a file")


def test_a_link_does_not_lead_out_of_what_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "allowed").mkdir()
    (tmp_path / "secret").mkdir()
    (tmp_path / "allowed" / "link").symlink_to(tmp_path / "secret")

    with pytest.raises(StateError):
        url = (tmp_path / "allowed" / "link").as_uri()
        require_allowed(url, [str(tmp_path / "allowed")], "a file")


def stranger(tmp_path: Path, text: str) -> Path:
    """Return a repository whose commits say what a stranger wrote."""
    repo = make(tmp_path / "stranger", ROWS)
    (repo.path / ".havasu").mkdir()
    (repo.path / CONFIG_FILE).write_text(text)
    run_git("add", CONFIG_FILE, cwd=repo.path)
    run_git("commit", "-qm", "Place", cwd=repo.path)
    return repo.path


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[data]\nurl = "s3://me:secret@maps/x"', "secret"),
        ('[data]\nurl = "s3://maps/x?secret_key=hush"', "secret"),
        ('[data]\nurl = "ext::sh"', "data"),
        ('[data]\nurl = "http://localhost:1/x"', "schemes"),
        ("[data", "havasu.data.url"),
        ('[data]\nurl = "file:///"', "not allowed"),
        ('[data]\nurl = "s3://maps/x"', "not allowed"),
    ],
)
def test_a_strangers_repository_leads_nowhere(tmp_path: Path, text: str, said: str) -> None:
    server = stranger(tmp_path, text)

    done = invoke(["clone", server, tmp_path / "theirs"])

    assert done.exit_code not in (0, 1) and "Traceback" not in done.output
    assert said in done.stderr and "hush" not in done.output and "me:secret" not in done.output
    assert files(tmp_path / "theirs") == []
    for command in (["log"], ["status"], ["remote", "-v"], ["data", "ls"]):
        assert "hush" not in succeed(invoke(["-C", tmp_path / "theirs", *command])).output
    # What the user says wins.
    run_git("config", "havasu.data.url", (tmp_path / "data").as_uri(), cwd=tmp_path / "theirs")
    give(server, tmp_path / "data")
    succeed(invoke(["-C", tmp_path / "theirs", "data", "fetch"]))
    assert read(Repo.open(tmp_path / "theirs")) == ROWS


def give(server: Path, folder: Path) -> None:

    shutil.copytree(server / ".git" / "havasu" / "objects", folder / "objects")


def test_a_link_in_the_work_tree_is_not_followed(tmp_path: Path) -> None:
    ours = make(tmp_path / "ours", ROWS)
    (tmp_path / "outside").mkdir()
    (ours.path / ".havasu").symlink_to(tmp_path / "outside")

    done = invoke(["-C", ours.path, "data", "place", "s3://maps/x"])

    assert done.exit_code and "link" in done.stderr
    assert list((tmp_path / "outside").iterdir()) == []


def test_what_stands_beside_it_stays_and_no_more_is_committed(tmp_path: Path) -> None:
    ours = make(tmp_path / "ours", ROWS)
    (ours.path / "README").write_text("Read me\n")
    run_git("add", "README", cwd=ours.path)
    (ours.path / ".havasu").mkdir()
    (ours.path / CONFIG_FILE).write_text("# ours\n[later]\nx = 1\n")

    succeed(invoke(["-C", ours.path, "data", "place", "s3://maps/x"]))

    text = run_git("show", f"HEAD:{CONFIG_FILE}", cwd=ours.path)
    assert text == '# ours\n[later]\nx = 1\n\n[data]\nurl = "s3://maps/x"'
    assert run_git("status", "--porcelain", cwd=ours.path) == "A  README"
    assert "so already" in succeed(invoke(["-C", ours.path, "data", "place", "s3://maps/x"])).output


@pytest.mark.parametrize("url", ["s3://me:secret@maps/x", "ftp://maps/x", "s3://maps/a b", "wells"])
def test_a_place_that_cannot_be_written_down(tmp_path: Path, url: str) -> None:
    ours = make(tmp_path / "ours", ROWS)
    before = run_git("rev-parse", "HEAD", cwd=ours.path)

    done = invoke(["-C", ours.path, "data", "place", url])

    assert done.exit_code and "secret@" not in done.output
    assert run_git("rev-parse", "HEAD", cwd=ours.path) == before
    assert not (ours.path / ".havasu").exists()


def test_a_second_remote_is_nobody_elses_matter(tmp_path: Path) -> None:
    ours = published(tmp_path, folder_at(tmp_path / "data").url)
    before = run_git("rev-parse", "HEAD", cwd=ours.path)
    backup = bare(tmp_path / "backup.git")
    url = folder_at(tmp_path / "saved").url

    done = succeed(invoke(["-C", ours.path, "remote", "add", "b", backup, "--data", url]))

    assert f"havasu-vc data place {url}" in done.stderr
    assert run_git("rev-parse", "HEAD", cwd=ours.path) == before
    succeed(invoke(["-C", ours.path, "push", "b", "main"]))
    folder_at(tmp_path / "saved").assert_has_all_of(backup)
    assert named(backup)


def test_what_is_missing_and_where_nothing_was_said(tmp_path: Path) -> None:
    ours, server = make(tmp_path / "ours", ROWS), bare(tmp_path / "server.git")
    run_git("push", "--quiet", "--no-verify", server, "main", cwd=ours.path)

    done = invoke(["clone", server, tmp_path / "theirs"])

    assert done.exit_code and "git config havasu.data.url URL" in done.stderr


@pytest.mark.thorough
def test_a_server_of_ssh_without_lfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes no data; the error says what would, and that is so."""
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\nwhile [ "$1" != far ]; do shift; done\nshift\nexec sh -c "$*"\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", str(ssh))
    monkeypatch.setenv("GIT_SSH_VARIANT", "simple")
    ours, server = make(tmp_path / "ours", ROWS), bare(tmp_path / "server.git")
    run_git("remote", "add", "origin", f"ssh://far{server}", cwd=ours.path)

    done = invoke(["-C", ours.path, "push", "-u", "origin", "main"])

    assert done.exit_code and "has no Git LFS" in done.stderr
    assert "havasu-vc data place URL" in done.stderr
    assert named(server) == set()
    place = folder_at(tmp_path / "data")
    succeed(invoke(["-C", ours.path, "data", "place", place.url]))
    succeed(invoke(["-C", ours.path, "push", "-u", "origin", "main"]))
    place.assert_has_all_of(server)
    allow(place.url)
    succeed(invoke(["clone", f"ssh://far{server}", tmp_path / "theirs"]))
    assert read(Repo.open(tmp_path / "theirs")) == ROWS
