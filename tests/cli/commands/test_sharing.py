"""clone, fetch, pull, push, remote and the commands on data files: options reach the library."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.cli.conftest import Run, invoke, succeed
from tests.support.git import run_git


@pytest.fixture
def server(repo: Path, run: Run, tmp_path: Path) -> Path:
    """A bare repository that `repo` was pushed to as `origin`."""
    path = tmp_path / "server.git"
    run_git("init", "-q", "--bare", path, cwd=tmp_path)
    succeed(run("remote", "add", "origin", path))
    succeed(run("push", "-u", "origin", "main"))
    return path


def test_push_tells_what_went(repo: Path, run: Run, tmp_path: Path) -> None:
    run_git("init", "-q", "--bare", tmp_path / "server.git", cwd=tmp_path)
    succeed(run("remote", "add", "origin", tmp_path / "server.git"))

    dry = succeed(run("push", "-n", "origin", "main"))
    done = succeed(run("push", "-u", "origin", "main"))
    again = succeed(run("push"))

    assert dry.stderr.startswith("Would push to ")
    assert "Sent 3 data files, " in done.stderr and "main -> main" in done.stderr
    assert "[new branch]" in done.stderr and done.stdout == ""
    assert again.stderr.startswith("Everything is at ")
    assert run_git("rev-parse", "--abbrev-ref", "@{upstream}", cwd=repo) == "origin/main"


def test_a_lease_may_say_where_a_branch_there_should_be(server: Path, run: Run, repo: Path) -> None:
    first = run_git("rev-parse", "HEAD", cwd=repo)
    run_git("commit", "--allow-empty", "-m", "Second", cwd=repo)
    second = run_git("rev-parse", "HEAD", cwd=repo)
    succeed(run("push"))
    run_git("reset", "--soft", "HEAD^", cwd=repo)

    wrong = run("push", f"--force-with-lease=main:{first}", "origin", "main")
    assert wrong.exit_code and "has commits that are not here" in wrong.stderr
    told = succeed(run("push", "-v", f"--force-with-lease=main:{second}", "origin", "main")).stderr
    assert told.endswith("updating local tracking ref 'refs/remotes/origin/main'\n")
    assert run_git("rev-parse", "main", cwd=server) == first
    assert run("push", "").stderr.startswith("Error: an empty text is no remote\n")


def test_what_a_server_and_hooks_say_is_told(server: Path, run: Run, repo: Path) -> None:
    """A host answers a push with where to open a pull request, and a refusal with its reason."""
    write_hook(server, "post-receive", "echo Open a pull request:; echo https://host/new >&2")
    run_git("commit", "--allow-empty", "-m", "Second", cwd=repo)
    told = succeed(run("push")).stderr.splitlines()
    told = [line for line in told if line.startswith("Note: the remote says: ")]
    assert [line.rpartition(" says: ")[2] for line in told] == [
        "Open a pull request:",
        "https://host/new",
    ]
    run_git("commit", "--allow-empty", "-m", "Third", cwd=repo)
    assert succeed(run("-q", "push")).stderr == ""

    write_hook(server, "pre-receive", "echo no pushes on Sundays; exit 1")
    run_git("commit", "--allow-empty", "-m", "Fourth", cwd=repo)
    for quiet in ([], ["-q"]):
        refused = run(*quiet, "push")
        assert refused.exit_code == 20
        assert "Hint: the remote says: no pushes on Sundays\n" in refused.stderr
    write_hook(repo / ".git", "pre-push", "echo ask Ann first >&2; echo or Ben; exit 1")
    refused = run("push")
    assert refused.exit_code == 20
    hints = [line for line in refused.stderr.splitlines() if line.startswith("Hint: ")]
    assert hints == ["Hint: a hook here says: ask Ann first", "Hint: a hook here says: or Ben"]


def test_called_kart_a_push_that_is_refused_is_told_as_git_tells_it(
    server: Path, run: Run, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_hook(server, "pre-receive", "echo no pushes on Sundays; exit 1")
    run_git("commit", "--allow-empty", "-m", "Second", cwd=repo)
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kart"])

    refused = run("push", "origin", "main:new")

    assert refused.exit_code == 1
    assert [line.rstrip() for line in refused.stderr.splitlines()] == [
        "remote: no pushes on Sundays",
        f"To {server}",
        " ! [remote rejected] main -> new (pre-receive hook declined)",
        f"error: failed to push some refs to '{server}'",
    ]


def test_a_fetch_names_an_address_as_git_does(server: Path, run: Run, repo: Path) -> None:
    run_git("branch", "new", "main", cwd=server)
    fetched = succeed(run("fetch"))
    assert f"From {server.with_suffix('')}\n" in fetched.stderr


def test_what_a_host_says_who_lets_nobody_in_is_told(run: Run, repo: Path, tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Closed) as host:
        Thread(target=host.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{host.server_address[1]}/team/trees.git"
        run_git("remote", "add", "host", url, cwd=repo)
        for words in (["clone", url, tmp_path / "clone"], ["fetch", "host"], PUSH):
            refused = run(*words)
            assert refused.exit_code == 20
            assert "Hint: the remote says: The plan of your team has ended.\n" in refused.stderr
            assert len(refused.stderr.splitlines()) == 2
        host.shutdown()
    assert not (tmp_path / "clone").exists()


PUSH = ["push", "host", "main"]


class Closed(BaseHTTPRequestHandler):
    """A host that answers every request with the same words."""

    def do_GET(self) -> None:
        words = b"The plan of your team has ended.\n"
        self.send_response(403)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(words)))
        self.end_headers()
        self.wfile.write(words)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def test_hints_say_what_to_type(server: Path, run: Run, repo: Path) -> None:
    def hint(*words: str) -> str:
        refused = run(*words)
        assert refused.exit_code == 20
        return refused.stderr.splitlines()[-1].removeprefix("Hint: ")

    succeed(run("switch", "-c", "side"))
    assert hint("push").startswith("`havasu-vc push -u REMOTE side` pushes it")
    assert hint("push", "origin", "nosuch") == "`havasu-vc branch` lists branches"
    assert hint("fetch", "origin", "nosuch").startswith("`git ls-remote`")
    assert hint("fetch", "nosuch") == "`havasu-vc remote -v` lists remotes"
    succeed(run("switch", "--detach"))
    assert hint("push").startswith("`havasu-vc push REMOTE HEAD:BRANCH`")


def write_hook(place: Path, name: str, line: str) -> None:
    hook = place / "hooks" / name
    hook.write_text(f"#!/bin/sh\n{line}\n")
    hook.chmod(0o755)


def test_data_that_a_push_by_git_left_here_goes_later(repo: Path, run: Run, tmp_path: Path) -> None:
    server = tmp_path / "server.git"
    run_git("init", "-q", "--bare", server, cwd=tmp_path)
    succeed(run("remote", "add", "origin", server))
    run_git("push", "-q", "-u", "--no-verify", "origin", "main", cwd=repo)
    assert not list((server / "havasu").rglob("objects/*/*/*"))

    tried = succeed(run("push", "-n"))
    done = succeed(run("push"))
    again = succeed(run("push"))

    assert "Sent" not in tried.stderr and "Everything is at" in tried.stderr
    assert "Sent 3 data files, " in done.stderr and "without that data" in done.stderr
    assert again.stderr.startswith("Everything is at ")
    succeed(invoke(["clone", server, tmp_path / "copy"]))
    fsck = invoke(["-C", tmp_path / "copy", "fsck"])
    assert fsck.exit_code == 0, fsck.output


def test_data_that_a_push_by_git_left_here_goes_with_the_next_commit(
    repo: Path, run: Run, tmp_path: Path
) -> None:
    server = tmp_path / "server.git"
    run_git("init", "-q", "--bare", server, cwd=tmp_path)
    succeed(run("remote", "add", "origin", server))
    run_git("push", "-q", "-u", "--no-verify", "origin", "main", cwd=repo)
    succeed(run("meta", "set", "points", "title=Other"))

    done = succeed(run("push"))

    assert "Sent 3 data files, " in done.stderr and "main -> main" in done.stderr
    succeed(invoke(["clone", server, tmp_path / "copy"]))
    assert invoke(["-C", tmp_path / "copy", "fsck"]).exit_code == 0


def test_who_cannot_reach_the_data_may_ask_for_nothing_to_go(
    repo: Path, run: Run, tmp_path: Path
) -> None:
    server = tmp_path / "server.git"
    run_git("init", "-q", "--bare", server, cwd=tmp_path)
    succeed(run("remote", "add", "origin", server, "--data", "sftp://127.0.0.1:1/data"))
    run_git("push", "-q", "-u", "--no-verify", "origin", "main", cwd=repo)
    assert succeed(run("push")).stderr.startswith("Everything is at ")
    assert run("data", "push").exit_code != 0


def test_clone_checks_out_tables(server: Path, tmp_path: Path) -> None:
    done = succeed(invoke(["-C", tmp_path, "clone", server, "copy"]))

    assert "Cloned into" in done.stderr and "Checked out 1 table" in done.stderr
    assert (tmp_path / "copy" / "tables" / "points" / "metadata").is_dir()
    assert run_git("status", "--porcelain", cwd=tmp_path / "copy") == ""


def test_clone_of_a_remote_whose_head_names_no_branch_of_its_own(
    server: Path, tmp_path: Path
) -> None:
    """`git init --bare` names `master` where git is told nothing else, and `main` is pushed."""
    run_git("symbolic-ref", "HEAD", "refs/heads/master", cwd=server)
    run_git("branch", "survey", "main", cwd=server)
    done = succeed(invoke(["-C", tmp_path, "clone", server, "copy"]))
    copy = tmp_path / "copy"

    note = "Note: the remote's HEAD is master, a branch that it has not"
    assert f"{note}, so main is checked out\n" in done.stderr
    assert "Checked out 1 table" in done.stderr
    assert run_git("rev-parse", "--abbrev-ref", "HEAD@{upstream}", cwd=copy) == "origin/main"
    assert run_git("status", "--porcelain", cwd=copy) == ""
    succeed(invoke(["-C", copy, "meta", "set", "points", "title=Other"]))
    assert "main -> main" in succeed(invoke(["-C", copy, "push"])).stderr
    # The only branch that there is; of several that are called otherwise none is guessed.
    run_git("branch", "-m", "main", "trunk", cwd=server)
    told = succeed(invoke(["-C", tmp_path, "clone", server, "guessed"])).stderr
    assert f"{note}; `havasu-vc switch NAME` goes to one of its own: survey, trunk\n" in told
    succeed(invoke(["-C", tmp_path / "guessed", "switch", "trunk"]))
    run_git("branch", "-D", "survey", cwd=server)
    told = succeed(invoke(["-C", tmp_path, "clone", "-n", server, "alone"])).stderr
    assert f"{note}, so trunk is checked out\n" in told


def test_clone_of_a_repository_without_a_commit(tmp_path: Path) -> None:
    run_git("init", "-q", "--bare", tmp_path / "server.git", cwd=tmp_path)
    told = succeed(invoke(["-C", tmp_path, "clone", "server.git", "copy"])).stderr
    assert "Note: the repository that was cloned has no commit yet\n" in told


def test_clone_names_the_folder_as_git_does(server: Path, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    succeed(invoke(["-C", tmp_path / "here", "clone", "-n", "../server.git"]))
    assert (tmp_path / "here" / "server").is_dir()
    assert not (tmp_path / "here" / "server" / "tables").exists()


def test_partial_clones(server: Path, tmp_path: Path) -> None:
    succeed(invoke(["clone", "--filter=data", server, tmp_path / "none"]))
    succeed(invoke(["clone", "--dataset", "points", server, tmp_path / "points"]))
    succeed(invoke(["clone", "--bbox", "0,0,1,1", server, tmp_path / "box"]))
    succeed(invoke(["clone", "--depth", "1", server, tmp_path / "shallow"]))

    def head(name: str) -> tuple[int, int]:
        answer = succeed(invoke(["-C", tmp_path / name, "data", "status", "-o", "json"]))
        status = json.loads(answer.stdout)["havasu.data-status/v2"]
        return status["headHere"]["files"], status["headMissing"]["files"]

    assert head("none") == (0, 3) == head("box")
    assert head("points") == (3, 0) == head("shallow")
    text = succeed(invoke(["-C", tmp_path / "none", "data", "status"])).stdout
    assert "3 not here" in text and "comes when something reads it" in text
    done = succeed(invoke(["-C", tmp_path / "none", "data", "fetch", "--bbox", "170,-50,180,-40"]))
    assert "Fetched 3 data files" in done.stderr
    assert head("none") == (3, 0)
    answer = invoke(["-C", tmp_path / "none", "data", "fetch", "--dataset", "roads"])
    assert answer.exit_code and "roads" in answer.stderr


@pytest.mark.few(1)
@pytest.mark.parametrize("box", ["", "1,2,3", "1,2,3,x", "1,2,2,0", "nan,0,1,1"])
def test_boxes_that_are_none(server: Path, tmp_path: Path, box: str) -> None:
    result = invoke(["clone", "--bbox", box or "x", server, tmp_path / "part"])
    assert result.exit_code and "box" in result.stderr
    assert not (tmp_path / "part").exists()


def test_fetch_and_pull(server: Path, run: Run, repo: Path, tmp_path: Path, csv_file: Path) -> None:
    succeed(invoke(["clone", "-n", server, tmp_path / "copy"]))
    csv_file.write_text(csv_file.read_text() + "9,nine,9.5,174.9,-41.5\n")
    succeed(run("import", csv_file, "points", "--replace", "--crs", "EPSG:4326", "-m", "Third"))
    succeed(run("push"))

    dry = succeed(invoke(["-C", tmp_path / "copy", "fetch", "--dry-run"]))
    assert "main" in dry.stderr and "Fetched" not in dry.stderr
    fetched = succeed(invoke(["-C", tmp_path / "copy", "fetch"]))
    loud = succeed(invoke(["-C", tmp_path / "copy", "fetch", "-v"]))
    assert "[up to date]" in loud.stderr
    pulled = succeed(invoke(["-C", tmp_path / "copy", "pull"]))

    assert "From " in fetched.stderr and "Fetched 2 data files" in fetched.stderr
    assert "main" in fetched.stderr
    assert pulled.exit_code == 0
    assert run_git("rev-parse", "HEAD", cwd=tmp_path / "copy") == run_git(
        "rev-parse", "HEAD", cwd=repo
    )


def test_a_lost_race(server: Path, run: Run, tmp_path: Path, csv_file: Path) -> None:
    copy = tmp_path / "copy"
    succeed(invoke(["clone", "-n", server, copy]))
    succeed(invoke(["-C", copy, "meta", "set", "points", "title=Theirs"]))
    succeed(invoke(["-C", copy, "push"]))
    succeed(run("import", csv_file, "points", "--replace", "--crs", "EPSG:4326", "-m", "Third"))

    lost = run("push")

    assert lost.exit_code and "has commits that are not here" in lost.stderr
    assert "Hint: `havasu-vc pull`" in lost.stderr
    succeed(run("pull"))
    succeed(run("push"))


def test_remote_hides_passwords(run: Run, repo: Path) -> None:
    succeed(run("remote", "add", "web", "https://me:secret@example.org/x.git"))
    listed = succeed(run("remote", "-v"))
    shown = "web\thttps://me@example.org/x.git"
    assert listed.stdout == f"{shown} (fetch)\n{shown} (push)\n"
    assert succeed(run("remote")).stdout == "web\n"


@pytest.mark.parametrize(
    "url", ["s3://me:secret@bucket/x", "s3://bucket/x?secret_key=secret", "ftp://host/x", "folder"]
)
def test_data_urls_that_cannot_be_kept(run: Run, repo: Path, url: str) -> None:
    result = run("remote", "add", "web", "https://example.org/x.git", "--data", url)
    assert result.exit_code and "secret@" not in result.stderr
    assert "web" not in succeed(run("remote")).stdout


def test_a_place_for_data(run: Run, repo: Path, tmp_path: Path) -> None:
    server = tmp_path / "server.git"
    run_git("init", "-q", "--bare", server, cwd=tmp_path)
    data = (tmp_path / "data").as_uri()
    succeed(run("remote", "add", "origin", server, "--data", data))
    succeed(run("push", "-u", "origin", "main"))
    assert f"origin\t{data} (data)" in succeed(run("remote", "-v")).stdout
    assert len([p for p in (tmp_path / "data" / "objects").rglob("*") if p.is_file()]) == 3

    pruned = succeed(run("data", "prune", "--grace", "0"))
    assert "Would delete 0 data files" in pruned.stderr
    assert "Deleted 0" in succeed(run("data", "prune", "--grace", "0", "--delete")).stderr


def test_dropping_and_verifying(server: Path, run: Run, repo: Path) -> None:
    succeed(run("optimize"))
    succeed(run("push"))
    assert "Every data file is right" in succeed(run("data", "verify")).stderr
    would = succeed(run("data", "drop", "-n"))
    assert "Would drop 3 data files" in would.stderr
    assert "Dropped 3 data files" in succeed(run("data", "drop")).stderr
    (file,) = [p for p in (repo / ".git" / "havasu" / "objects").rglob("*") if p.is_file()]
    size = file.stat().st_size
    file.unlink()
    file.write_bytes(bytes(size))

    result = run("data", "verify")

    assert result.exit_code == 1 and "is damaged" in result.stdout


def damage_data(repo: Path) -> dict[Path, bytes]:
    """Change the bytes of each data file, and return them as they were."""
    found = {}
    for file in [p for p in (repo / ".git" / "havasu" / "objects").rglob("*") if p.is_file()]:
        found[file] = file.read_bytes()
        file.unlink()  # a remote's may be the same file
        file.write_bytes(bytes(len(found[file])))
    return found


def test_damaged_data_files_come_anew(server: Path, run: Run, repo: Path) -> None:
    """Every step is what the step before says to type."""
    succeed(run("push"))
    sound = damage_data(repo)
    assert "Every data file is here" in succeed(run("data", "fetch")).stderr
    for words in (("fsck", "--full"), ("data", "verify"), ("cat", "points")):
        told = run(*words)
        assert told.exit_code and "data fetch --verify" in told.stdout + told.stderr, words

    fetched = succeed(run("data", "fetch", "--verify"))

    assert "Fetched 3 data files" in fetched.stderr
    for file, data in sound.items():
        assert f"data file {file.name} was damaged here, and came anew" in fetched.stderr
        assert file.read_bytes() == data
    assert "Every data file is here" in succeed(run("data", "fetch", "--verify")).stderr
    succeed(run("fsck", "--full"))


def test_damaged_data_files_of_a_dataset_come_anew(server: Path, run: Run, repo: Path) -> None:
    succeed(run("push"))
    before = succeed(run("cat", "points")).stdout
    damage_data(repo)
    assert "came anew" in succeed(run("data", "fetch", "--verify", "--dataset", "points")).stderr
    assert succeed(run("cat", "points")).stdout == before


def test_a_damaged_data_file_that_no_remote_has_stays(server: Path, run: Run, repo: Path) -> None:
    succeed(run("push"))
    for file in damage_data(repo):
        place = server / file.relative_to(repo / ".git")
        place.unlink()
        place.write_bytes(file.read_bytes())

    refused = run("data", "fetch", "--verify")

    assert refused.exit_code and "it is so at " in refused.stderr
    kept = [p for p in (repo / ".git" / "havasu" / "objects").rglob("*") if p.is_file()]
    assert len(kept) == 3 and all(not any(p.read_bytes()) for p in kept)
    assert not list((repo / ".git" / "havasu" / "temporary").iterdir())


def test_data_push_as_a_hook(server: Path, run: Run, repo: Path) -> None:
    head = run_git("rev-parse", "HEAD", cwd=repo)
    line = f"refs/heads/main {head} refs/heads/main {'0' * 40}\n"
    assert succeed(run("data", "push", "--hook", "origin", stdin=line)).exit_code == 0
    assert succeed(run("data", "push")).stderr == ""


def test_init_says_that_another_hook_is_there(tmp_path: Path) -> None:
    run_git("init", "-q", tmp_path / "repo", cwd=tmp_path)
    hook = tmp_path / "repo" / ".git" / "hooks" / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n")
    assert "another pre-push hook" in succeed(invoke(["init", tmp_path / "repo"])).stderr


def test_a_shallow_clone_says_why_older_commits_are_not_there(repo: Path, tmp_path: Path) -> None:
    shallow = tmp_path / "shallow"
    succeed(invoke(["clone", "--depth", "1", repo, shallow]))
    for command in (
        ("show", "HEAD"),
        ("create-patch", "HEAD"),
        ("show", "HEAD^"),
        ("diff", "HEAD~1...HEAD"),
        ("revert", "HEAD"),
    ):
        refused = invoke(["-C", shallow, *command])
        assert refused.exit_code == (2 if command == ("show", "HEAD^") else 47), refused.output
        assert "`havasu-vc fetch --unshallow` brings them all" in refused.stderr, command
        if command[1] == "HEAD":  # of which nobody named a parent
            first = refused.stderr.splitlines()[0]
            assert " here: this clone has only the newest commits" in first, command
    # Who wrote a row is known as far as history is here.
    blamed = succeed(invoke(["-C", shallow, "blame", "points"]))
    assert "this clone is shallow: rows of " in blamed.stderr
    run_git("fetch", "--quiet", "--unshallow", cwd=shallow)
    succeed(invoke(["-C", shallow, "data", "fetch"]))
    succeed(invoke(["-C", shallow, "show", "HEAD"]))
    assert succeed(invoke(["-C", shallow, "blame", "points"])).stderr == ""


def test_a_shallow_clone_gets_what_it_lacks(server: Path, tmp_path: Path) -> None:
    run_git("clone", "-q", "--depth", "1", f"file://{server}", "copy", cwd=tmp_path)
    copy = tmp_path / "copy"

    succeed(invoke(["-C", copy, "fetch", "--depth", "1"]))
    assert run_git("rev-list", "--count", "HEAD", cwd=copy) == "1"
    assert run_git("cat-file", "-t", "HEAD", cwd=copy) == "commit"
    succeed(invoke(["-C", copy, "cat", "points", "-o", "csv"]))
    refused = invoke(["-C", copy, "show", "HEAD^"])
    assert refused.exit_code == 2 and "`havasu-vc fetch --unshallow`" in refused.stderr
    succeed(invoke(["-C", copy, "fetch", "--unshallow"]))

    assert run_git("rev-list", "--count", "HEAD", cwd=copy) == "2"
    before = succeed(invoke(["-C", copy, "cat", "points@HEAD^", "-o", "csv"])).stdout
    assert "three" in before
    assert invoke(["-C", copy, "fetch", "--unshallow"]).exit_code != 0
    assert invoke(["-C", copy, "fetch", "--unshallow", "--depth", "2"]).exit_code == 2


def test_a_gc_of_git_amid_a_fetch_takes_nothing_away(run: Run, repo: Path, tmp_path: Path) -> None:
    """A hook begins one when all has come and nothing names it yet."""
    clone = tmp_path / "clone"
    succeed(invoke(["clone", repo, clone]))
    source = tmp_path / "more.csv"
    source.write_text("id,name\n1,one\n")
    succeed(run("import", source, "more", "--primary-key", "id"))
    hook = clone / ".git/hooks/reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text('#!/bin/sh\n[ "$1" = prepared ] && git gc --prune=now --quiet 2>> gc\nexit 0\n')
    hook.chmod(0o755)
    succeed(invoke(["-C", clone, "fetch"]))
    hook.unlink()
    assert "already running" in "".join(path.read_text() for path in clone.rglob("gc"))
    assert not (clone / ".git/gc.pid").exists()
    succeed(invoke(["-C", clone, "pull"]))
    assert succeed(invoke(["-C", clone, "cat", "more"])).stdout == "id,name\n1,one\n"
    run_git("fsck", "--strict", cwd=clone)


def test_a_bucket_is_no_remote_of_git(run: Run, tmp_path: Path) -> None:
    told = "Error: git says: it knows no remotes of s3://, which may hold data and no commits"
    for line in (("fetch", "s3://x/y"), ("push", "s3://x/y", "main")):
        refused = run(*line)
        assert refused.exit_code == 20 and refused.stderr.splitlines()[0] == told
    refused = invoke(["clone", "s3://x/y", tmp_path / "clone"])
    assert refused.exit_code == 20 and refused.stderr.splitlines()[0] == told
    assert not (tmp_path / "clone").exists()
