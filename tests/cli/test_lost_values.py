"""git brings a dropped column back: rows written meanwhile lost values, which is said."""

import json
import shutil
from pathlib import Path

from tests.cli.conftest import invoke, succeed
from tests.support.git import run_git
from tests.support.templates import empty_repo

SAID = "git brought back a column that was dropped (v)"
BY_ID = ("--primary-key", "id")


def run(repo: Path, *arguments: str, status: int = 0) -> str:
    result = invoke(["-C", repo, *arguments])
    assert result.exit_code == status, result.output
    return result.output


def take_in(repo: Path, text: str, *options: str) -> None:
    file = repo.parent / "rows.csv"
    file.write_text(text)
    run(repo, "import", str(file), "a", *options)


def dropped(tmp_path: Path, *, rows: bool = True) -> Path:
    """Return a repository in which `v` was dropped, and row 1 written anew since."""
    repo = tmp_path / "repo"
    empty_repo(repo)
    take_in(repo, "id,name,v\n1,a,5\n2,b,6\n3,c,7\n", *BY_ID)
    columns = json.loads(run(repo, "meta", "get", "a", "schema.json", "-o", "json"))
    without = [c for c in columns["a"]["schema.json"] if c["name"] != "v"]
    run(repo, "meta", "set", "a", f"schema.json={json.dumps(without)}")
    run_git("tag", "drop", cwd=repo)
    if rows:
        take_in(repo, "id,name\n1,A\n2,b\n3,c\n", "--replace", *BY_ID)
    return repo


def pushed(repo: Path) -> Path:
    bare = repo.parent / "bare.git"
    run_git("init", "-q", "--bare", bare, cwd=repo)
    run(repo, "remote", "add", "origin", str(bare))
    return bare


def test_check_and_push_refuse_it(tmp_path: Path) -> None:
    repo = dropped(tmp_path)
    bare = pushed(repo)
    run(repo, "push", "origin", "main")
    run(repo, "check")
    run_git("revert", "--no-edit", "drop", cwd=repo)

    assert SAID in run(repo, "check", status=1)
    found = json.loads(invoke(["-C", repo, "check", "-o", "json"]).stdout)["havasu.check/v1"]
    assert [(each["dataset"], each["refuses"]) for each in found["findings"]] == [("a", True)]
    told = run(repo, "push", "origin", "main", status=20)
    assert SAID in told and "--allow-broken" in told and "`havasu-vc revert`" in told
    # Some commits later as well, and of all that a new branch has.
    run(repo, "meta", "set", "a", "title=T")
    assert SAID in run(repo, "push", "origin", "main:new", status=20)
    assert SAID in run(repo, "push", "--allow-broken", "origin", "main")
    assert run_git("rev-parse", "main", cwd=bare) == run_git("rev-parse", "HEAD", cwd=repo)
    # Only what is new is looked at.
    run(repo, "meta", "set", "a", "title=U")
    run(repo, "push", "origin", "main")


def test_what_the_hints_say_mends_it(tmp_path: Path) -> None:
    repo = dropped(tmp_path)
    pushed(repo)
    run_git("revert", "--no-edit", "drop", cwd=repo)
    run_git("branch", "left", cwd=repo)
    run(repo, "revert", "HEAD")
    run(repo, "revert", "drop")
    run(repo, "check")
    run(repo, "push", "origin", "main")
    run(repo, "export", "a", str(tmp_path / "out.csv"))
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert sorted(lines[1:]) == ['1,"A",5', '2,"b",6', '3,"c",7']

    run(repo, "switch", "left")
    assert SAID in run(repo, "check", status=1)
    run(repo, "repair", "a")
    run(repo, "check")
    run(repo, "push", "origin", "left")


def test_the_hook_of_a_server_refuses_it(tmp_path: Path) -> None:
    repo = dropped(tmp_path)
    bare = pushed(repo)
    run(repo, "push", "origin", "main")
    old = run_git("rev-parse", "HEAD", cwd=repo)
    run_git("revert", "--no-edit", "drop", cwd=repo)
    run_git("push", "-q", "--no-verify", "origin", "HEAD:refs/heads/other", cwd=repo)
    new = run_git("rev-parse", "other", cwd=bare)
    run_git("update-ref", "-d", "refs/heads/other", cwd=bare)
    line = f"{old} {new} refs/heads/main\n"
    refused = invoke(["-C", bare, "hook", "pre-receive"], stdin=line)
    assert refused.exit_code == 20 and SAID in refused.output
    sound = f"{'0' * 40} {old} refs/heads/main\n"
    succeed(invoke(["-C", bare, "hook", "pre-receive"], stdin=sound))


def test_where_nothing_was_written_meanwhile_all_is_well(tmp_path: Path) -> None:
    repo = dropped(tmp_path, rows=False)
    pushed(repo)
    run_git("revert", "--no-edit", "drop", cwd=repo)
    take_in(repo, "id,name,v\n1,A,5\n2,b,\n", "--replace", *BY_ID)
    run(repo, "check")
    run(repo, "push", "origin", "main")


def test_without_the_data_it_is_said_that_it_cannot_be_told(tmp_path: Path) -> None:
    repo = dropped(tmp_path)
    run_git("revert", "--no-edit", "drop", cwd=repo)
    shutil.rmtree(repo / ".git" / "havasu" / "objects")
    told = run(repo, "check")
    assert "the data that tells whether rows lost their values is not here" in told


def test_a_merge_in_which_it_comes_back_is_named(tmp_path: Path) -> None:
    """Somebody takes their columns in a conflict, by git alone."""
    repo = dropped(tmp_path)
    run_git("switch", "-qc", "side", "drop^", cwd=repo)
    columns = json.loads(run(repo, "meta", "get", "a", "schema.json", "-o", "json"))
    named = [c | {"name": "w"} if c["name"] == "v" else c for c in columns["a"]["schema.json"]]
    run(repo, "meta", "set", "a", f"schema.json={json.dumps(named)}")
    run_git("switch", "-q", "main", cwd=repo)
    run_git("merge", "-q", "side", cwd=repo, check=False)
    inside = "a/.havasu-dataset/columns"
    run_git("rm", "-rq", "--cached", "--sparse", inside, cwd=repo)
    run_git("read-tree", f"--prefix={inside}/", f"side:{inside}", cwd=repo)
    tree = run_git("write-tree", cwd=repo)
    merged = run_git("commit-tree", tree, "-p", "HEAD", "-p", "side", "-m", "by hand", cwd=repo)
    run_git("update-ref", "refs/heads/by-hand", merged, cwd=repo)
    told = run(repo, "check", "by-hand", status=1)
    assert SAID.replace("(v)", "(w)") in told
