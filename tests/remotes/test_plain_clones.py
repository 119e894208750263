"""A clone made by plain git is set up by the first command of ours that changes it or fetches."""

import json
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from havasu_vc import Repo
from havasu_vc.store.preparation import PRE_PUSH, is_prepared
from havasu_vc.store.repository import GitRepository
from tests.cli.conftest import invoke, succeed
from tests.remotes.sharing import assert_keeps_its_promise, bare, reopened
from tests.repo.points import Rows, assert_clean, read, write
from tests.support.git import run_git
from tests.support.sound import LOCAL

pytestmark = pytest.mark.usefixtures("on_path")

FIRST: Rows = {number: (f"row {number}", number) for number in range(6)}
OURS: Rows = {**FIRST, 1: ("ours", 1)}


def internals(path: Path) -> list[Path]:
    return sorted(path.glob("**/.havasu-dataset"))


def plain_clone(tmp_path: Path, *options: str, name: str = "plain") -> Path:
    url = (tmp_path / "server.git").as_uri()
    run_git("clone", "--quiet", *options, url, name, cwd=tmp_path)
    return tmp_path / name


def assert_set_up(path: Path) -> None:
    git = GitRepository.open(path)
    assert is_prepared(git)
    assert (git.common_directory / "hooks" / "pre-push").read_text() == PRE_PUSH
    assert git.config.get("diff.havasu.command") is not None
    if not git.is_bare:
        assert internals(path) == []
        assert run_git("status", "--porcelain", cwd=path) == ""


@pytest.mark.parametrize(
    ("changed", "merged"),
    [
        pytest.param({2: ("theirs", 2)}, {2: ("theirs", 2)}, id="another row"),
        pytest.param({1: ("row 1", 9)}, {1: ("ours", 9)}, id="another cell"),
    ],
)
def test_a_merge_of_git_in_a_plain_clone_loses_nothing(
    ours: Repo, theirs: Repo, tmp_path: Path, changed: Rows, merged: Rows
) -> None:
    """git puts rows together; where both sides changed one, it stops, and we go on."""
    write(theirs, {**FIRST, **changed})
    theirs.push("origin", ["main:side"])
    write(ours, OURS)
    ours.push()
    plain = plain_clone(tmp_path)
    tried = subprocess.run(["git", "merge", "origin/side"], cwd=plain, capture_output=True)
    stopped = tried.returncode != 0
    assert stopped == (1 in changed) and internals(plain)

    succeed(invoke(["-C", plain, "data", "fetch"]))
    if stopped:
        succeed(invoke(["-C", plain, "merge", "--continue"]))

    assert_set_up(plain)
    (plain / "README").write_text("Read me\n")
    run_git("add", "README", cwd=plain)
    run_git("commit", "-qam", "x", cwd=plain)
    names = run_git("diff", "--name-only", "HEAD^", "HEAD", cwd=plain)
    assert names == "README"
    run_git("push", "--quiet", cwd=plain)
    assert_keeps_its_promise(tmp_path / "server.git")
    succeed(invoke(["-C", ours.path, "pull"]))
    assert read(reopened(ours)) == {**OURS, **merged}


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "command",
    [
        ("data", "fetch"),
        ("fetch",),
        ("pull",),
        ("switch", "-c", "other"),
        ("checkout",),
        ("meta", "set", "points", "title=Points"),
        ("merge", "HEAD"),
        ("push",),
    ],
    ids=lambda words: "-".join(words[:2]),
)
def test_what_changes_a_plain_clone_sets_it_up(
    ours: Repo, tmp_path: Path, command: tuple[str, ...]
) -> None:
    plain = plain_clone(tmp_path)
    assert len(internals(plain)) == 1
    if command[0] in ("meta", "checkout"):
        shutil.copytree(ours.git.data_folder / "objects", plain / ".git/havasu/objects")

    succeed(invoke(["-C", plain, *command]))

    assert_set_up(plain)


@pytest.mark.few(1)
@pytest.mark.parametrize("command", [("status",), ("log",), ("data", "ls"), ("data", "status")])
def test_what_reads_a_plain_clone_sets_it_up_too(
    ours: Repo, tmp_path: Path, command: tuple[str, ...]
) -> None:
    plain = plain_clone(tmp_path)

    succeed(invoke(["-C", plain, *command]))

    assert_set_up(plain)


def test_a_plain_clone_that_may_not_be_written_is_read(ours: Repo, tmp_path: Path) -> None:
    plain = plain_clone(tmp_path)
    (plain / ".git" / "havasu").write_text("in the way")

    assert "points" in succeed(invoke(["-C", plain, "data", "ls"])).stdout


@pytest.mark.parametrize("options", [("--no-checkout",), ("--depth", "1"), ("--bare",)])
@pytest.mark.thorough
def test_other_clones(ours: Repo, tmp_path: Path, options: tuple[str, ...]) -> None:
    write(ours, OURS)
    ours.push()
    plain = plain_clone(tmp_path, *options)

    succeed(invoke(["-C", plain, "data", "fetch", "origin"]))
    if options == ("--no-checkout",):
        run_git("checkout", "--quiet", "main", cwd=plain)

    assert_set_up(plain)
    repo = Repo.open(plain, settings=LOCAL)
    assert read(repo) == OURS
    write(repo, {**OURS, 2: ("two", 2)})
    run_git("push", "--quiet", "origin", "main", cwd=plain)
    assert_keeps_its_promise(tmp_path / "server.git")


def test_a_repository_without_commits_is_set_up_when_datasets_came(
    ours: Repo, tmp_path: Path
) -> None:
    plain = tmp_path / "plain"
    run_git("init", "--quiet", plain, cwd=tmp_path)
    run_git("remote", "add", "origin", tmp_path / "server.git", cwd=plain)

    succeed(invoke(["-C", plain, "fetch"]))
    run_git("checkout", "--quiet", "main", cwd=plain)

    assert_set_up(plain)


def test_a_repository_without_datasets_is_left_alone(ours: Repo, tmp_path: Path) -> None:
    run_git("init", "--quiet", "code", cwd=tmp_path)
    run_git("commit", "-q", "--allow-empty", "-m", "Code", cwd=tmp_path / "code")

    succeed(invoke(["-C", tmp_path / "code", "switch", "-c", "other"]))

    assert not (tmp_path / "code" / ".git" / "hooks" / "pre-push").exists()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.thorough
def test_a_linked_work_tree(ours: Repo, tmp_path: Path, when: str) -> None:
    plain, linked = plain_clone(tmp_path), tmp_path / "linked"
    if when == "after":
        succeed(invoke(["-C", plain, "data", "fetch"]))
    run_git("worktree", "add", "-q", "-b", "side", linked, cwd=plain)
    if when == "before":
        succeed(invoke(["-C", plain, "data", "fetch"]))
        assert run_git("status", "--porcelain", cwd=linked) == ""

    succeed(invoke(["-C", linked, "meta", "set", "points", "title=Side"]))

    assert_set_up(linked)
    assert_set_up(plain)
    run_git("push", "--quiet", "origin", "side", cwd=linked)
    assert_keeps_its_promise(tmp_path / "server.git")


@pytest.mark.thorough
def test_a_submodule(ours: Repo, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    run_git("init", "--quiet", whole, cwd=tmp_path)
    add = ("-c", "protocol.file.allow=always", "submodule", "--quiet", "add")
    run_git(*add, tmp_path / "server.git", "maps", cwd=whole)

    succeed(invoke(["-C", whole / "maps", "data", "fetch"]))
    succeed(invoke(["-C", whole / "maps", "meta", "set", "points", "title=Side"]))

    assert (whole / "maps" / ".git").is_file()
    assert_set_up(whole / "maps")
    assert not (whole / ".git" / "hooks" / "pre-push").exists()
    run_git("push", "--quiet", "origin", "HEAD:side", cwd=whole / "maps")
    assert_keeps_its_promise(tmp_path / "server.git")


@pytest.mark.parametrize("place", [".git/hooks", ".githooks"])
def test_a_hook_of_the_users_stays_and_is_told_once(ours: Repo, tmp_path: Path, place: str) -> None:
    plain = plain_clone(tmp_path)
    hook = plain / place / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 0\n")
    if place == ".githooks":
        run_git("config", "core.hooksPath", place, cwd=plain)

    first = succeed(invoke(["-C", plain, "data", "fetch"]))
    again = succeed(invoke(["-C", plain, "data", "fetch"]))

    assert 'havasu-vc data push --hook "$1"' in first.stderr
    assert "hook" not in again.stderr
    assert hook.read_text() == "#!/bin/sh\nexit 0\n"
    assert internals(plain) == []


@pytest.mark.thorough
def test_a_hook_of_the_users_that_sends_data_is_all_right(ours: Repo, tmp_path: Path) -> None:
    plain = plain_clone(tmp_path)
    hook = plain / ".githooks" / "pre-push"
    hook.parent.mkdir()
    hook.write_text('#!/bin/sh\nexec havasu-vc data push --hook "$1"\n')
    hook.chmod(0o755)
    run_git("config", "core.hooksPath", ".githooks", cwd=plain)

    done = succeed(invoke(["-C", plain, "data", "fetch"]))
    succeed(invoke(["-C", plain, "meta", "set", "points", "title=Points"]))
    run_git("push", "--quiet", cwd=plain)

    assert "hook" not in done.stderr
    assert_keeps_its_promise(tmp_path / "server.git")


def test_an_edit_that_git_half_merged_is_kept_from_the_work_tree(
    ours: Repo, tmp_path: Path
) -> None:
    """What an earlier version left: the index hides some files, and misses the others."""
    plain = plain_clone(tmp_path)
    shutil.rmtree(plain / "points")
    assert run_git("status", "--porcelain", cwd=plain) != ""

    succeed(invoke(["-C", plain, "fetch"]))

    assert_clean(Repo.open(plain, settings=LOCAL))
    assert_set_up(plain)


@pytest.mark.parametrize("place", [".git/hooks", ".githooks"])
def test_a_hook_that_comes_later_is_told_as_well(ours: Repo, tmp_path: Path, place: str) -> None:
    plain = plain_clone(tmp_path)
    succeed(invoke(["-C", plain, "data", "fetch"]))
    hook = plain / place / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 0\n")
    if place == ".githooks":
        run_git("config", "core.hooksPath", place, cwd=plain)

    first = succeed(invoke(["-C", plain, "data", "fetch"]))
    again = succeed(invoke(["-C", plain, "data", "fetch"]))

    assert 'havasu-vc data push --hook "$1"' in first.stderr
    assert "hook" not in again.stderr
    assert hook.read_text() == "#!/bin/sh\nexit 0\n"


COMING = "that git had left at the remote came"


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "command",
    [
        "head points",
        "diff HEAD^...HEAD",
        "log -p",
        "sql 'SELECT count(*) FROM points'",
        "export points out.csv",
        "checkout",
        "create-workingcopy",
        "blame points",
        "review HEAD^...HEAD",
        "grep ours",
        "validate",
    ],
)
def test_what_is_read_in_a_plain_clone_comes(ours: Repo, tmp_path: Path, command: str) -> None:
    write(ours, OURS)
    ours.push()
    plain = plain_clone(tmp_path)
    first = succeed(
        invoke(["-C", plain, *shlex.split(command.replace("out.", f"{tmp_path}/out."))])
    )
    assert first.stderr.count(COMING) == 1
    assert read(Repo.open(plain)) == OURS
    assert GitRepository.open(plain).config.get("havasu.data.fetch") is None


@pytest.mark.parametrize("command", ["log --stat", "rebase origin/main"])
def test_what_many_commits_need_is_told_once(ours: Repo, tmp_path: Path, command: str) -> None:
    many: dict[int, tuple[str | None, int | None]] = {n: (f"row {n}", n) for n in range(20_000)}
    write(ours, many)
    ours.switch("topic", create=True)
    for start in (1000, 6000, 11_000):
        many.update({n: (f"topic {start}", n) for n in range(start, start + 4000)})
        write(ours, many)
    ours.switch("main")
    write(ours, {**many, **OURS})
    ours.push("origin", ["main", "topic"])
    plain = plain_clone(tmp_path)
    run_git("switch", "--quiet", "topic", cwd=plain)
    told = succeed(invoke(["-C", plain, *shlex.split(command)])).stderr
    notes = [line for line in told.splitlines() if line.startswith("Note: ")]
    assert sum(COMING in line for line in notes) == 1
    assert len(notes) == len(set(notes))


def test_what_a_plain_pull_left_comes_when_it_is_read(ours: Repo, theirs: Repo) -> None:
    write(ours, OURS)
    ours.push()
    run_git("pull", "--quiet", cwd=theirs.path)
    shown = succeed(invoke(["-C", theirs.path, "diff", "HEAD^...HEAD", "-o", "json-lines"]))
    assert '"ours"' in shown.stdout and shown.stderr.count(COMING) == 1
    assert read(reopened(theirs)) == OURS
    again = succeed(invoke(["-C", theirs.path, "diff", "HEAD^...HEAD"]))
    assert COMING not in again.stderr


def test_nothing_comes_unless_told(ours: Repo, tmp_path: Path) -> None:
    plain = plain_clone(tmp_path)
    run_git("config", "havasu.data.fetch", "when-told", cwd=plain)
    refused = invoke(["-C", plain, "head", "points"])
    assert refused.exit_code and "`havasu-vc data fetch`" in refused.stderr
    succeed(invoke(["-C", plain, "data", "fetch"]))
    succeed(invoke(["-C", plain, "head", "points"]))


def test_a_remote_that_is_not_there_is_named(ours: Repo, tmp_path: Path) -> None:
    plain = plain_clone(tmp_path)
    (tmp_path / "server.git").rename(tmp_path / "away.git")
    refused = invoke(["-C", plain, "head", "points"])
    assert refused.exit_code and "is not in this repository's store" in refused.stderr
    assert "Hint: the remote could not be asked: " in refused.stderr
    assert "`havasu-vc data fetch` brings what a remote has" in refused.stderr
    (tmp_path / "away.git").rename(tmp_path / "server.git")
    succeed(invoke(["-C", plain, "head", "points"]))


@pytest.mark.usefixtures("own_settings")
def test_a_place_that_nobody_allowed_is_named_with_what_allows_it(
    ours: Repo, tmp_path: Path
) -> None:
    url = (tmp_path / "place").as_uri()
    succeed(invoke(["-C", ours.path, "data", "place", url]))
    succeed(invoke(["-C", ours.path, "push", "origin", "main"]))
    shutil.rmtree(tmp_path / "server.git" / "havasu", ignore_errors=True)
    plain = plain_clone(tmp_path)

    refused = invoke(["-C", plain, "head", "points"])

    assert refused.exit_code and "a place that you have not allowed" in refused.stderr
    (hint,) = (line for line in refused.stderr.splitlines() if "if you trust it" in line)
    command = hint.partition("`")[2].partition("`")[0]
    run_git(*shlex.split(command)[1:], cwd=tmp_path)
    succeed(invoke(["-C", plain, "head", "points"]))


def test_all_remotes_are_fetched(ours: Repo, tmp_path: Path) -> None:
    other = bare(tmp_path / "other.git")
    write(ours, OURS)
    run_git("remote", "add", "spare", other, cwd=ours.path)
    succeed(invoke(["-C", ours.path, "push", "spare", "main"]))
    plain = plain_clone(tmp_path)
    run_git("remote", "add", "spare", other, cwd=plain)
    told = succeed(invoke(["-C", plain, "fetch", "--all", "-o", "json"]))
    form = json.loads(told.stdout)["havasu.fetch/v1"]
    assert form["files"] >= 2
    there = run_git("rev-parse", "main", cwd=ours.path)
    assert run_git("rev-parse", "spare/main", cwd=plain) == there
    refused = invoke(["-C", plain, "fetch", "--all", "origin"])
    assert refused.exit_code == 2 and "name none" in refused.stderr


@pytest.mark.parametrize("own_push", [False, True])
def test_a_repository_of_source_code_is_told_what_an_import_sets(
    tmp_path: Path, own_push: bool
) -> None:
    """Its files and hooks stay, and what the note says takes it back."""
    repo, source = tmp_path / "code", tmp_path / "towns.csv"
    run_git("init", "-q", repo, cwd=tmp_path)
    (repo / "app").mkdir()
    (repo / "app" / "main.py").write_text("print()\n")
    run_git("add", ".", cwd=repo)
    run_git("commit", "-q", "-m", "Code", cwd=repo)
    hooks = {"pre-commit", "pre-push"} if own_push else {"pre-commit"}
    for name in hooks:
        (repo / ".git" / "hooks" / name).write_text("#!/bin/sh\nexit 0\n")
    source.write_text("id,name\n1,Otara\n")
    arguments: list[str | Path] = ["-C", repo, "import", source, "--primary-key", "id"]
    assert "holds tables from now on" not in succeed(invoke([*arguments, "-n"])).stderr
    assert not is_prepared(GitRepository.open(repo))

    told = succeed(invoke(arguments)).stderr
    again = succeed(invoke(["-C", repo, "meta", "set", "towns", "title=Towns", "--amend"]))

    assert told.count("this repository holds tables from now on") == 1
    assert "holds tables" not in again.stderr
    assert (repo / "app" / "main.py").read_text() == "print()\n"
    for name in hooks:
        assert (repo / ".git" / "hooks" / name).read_text() == "#!/bin/sh\nexit 0\n"
    steps = told[told.index("To undo: ") :].split("`")[1::2]
    assert ("rm .git/hooks/pre-push" in steps) is not own_push
    for step in steps:
        subprocess.run(step, shell=True, cwd=repo, check=True)
    assert run_git("log", "--format=%s", cwd=repo) == "Code"
    assert run_git("status", "--porcelain", cwd=repo) == ""
    assert {path.name for path in repo.iterdir()} == {".git", "app"}
    assert hooks == {n.name for n in (repo / ".git/hooks").iterdir() if n.suffix != ".sample"}


def test_a_sparse_checkout_of_ones_own_is_not_ended_with_the_tables(tmp_path: Path) -> None:
    repo, source = tmp_path / "code", tmp_path / "towns.csv"
    run_git("init", "-q", repo, cwd=tmp_path)
    for folder in ("app", "large"):
        (repo / folder).mkdir()
        (repo / folder / "main.py").write_text("print()\n")
    run_git("add", ".", cwd=repo)
    run_git("commit", "-q", "-m", "Code", cwd=repo)
    run_git("sparse-checkout", "set", "app", cwd=repo)
    source.write_text("id,name\n1,Otara\n")

    told = succeed(invoke(["-C", repo, "import", source, "--primary-key", "id"])).stderr
    for step in told[told.index("To undo: ") :].split("`")[1::2]:
        subprocess.run(step, shell=True, cwd=repo, check=True)

    assert {path.name for path in repo.iterdir()} == {".git", "app"}
    assert run_git("status", "--porcelain", cwd=repo) == ""
