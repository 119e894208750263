"""`havasu-vc ci`: from end to end on a local bare repository, with a stand-in for the host."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from click.testing import Result

from havasu_vc import Repo
from havasu_vc.remotes.wanted import files_of_commits
from havasu_vc.review.markdown import COMMENT_LIMIT, MARKER
from tests.cli.conftest import invoke
from tests.remotes.sharing import clone, share, store
from tests.repo import points
from tests.support.git import run_git
from tests.support.host import READER, WRITER, StandIn, serving

pytestmark = pytest.mark.few(1)

ROOT = Path(__file__).parents[3]
START = {n: (f"row {n}", n) for n in range(50)}


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    with serving(StandIn()) as found:
        yield found


@pytest.fixture
def work(tmp_path: Path) -> Repo:
    """A clone with `main` and `feature` pushed, `refs/pull/1/head` made as the host does."""
    server = tmp_path / "server.git"
    run_git("init", "--quiet", "--bare", "-b", "main", server, cwd=tmp_path)
    repo = points.make(tmp_path / "work", START)
    share(repo, server)
    repo.switch("feature", create=True)
    points.write(repo, START | {1: ("ONE", 1), 77: ("new <b>@user</b>", 7)})
    push(repo, tmp_path, "feature")
    repo.switch("main")
    return repo


def push(repo: Repo, tmp_path: Path, branch: str) -> None:
    repo.push("origin", [branch])
    if branch == "feature":
        run_git("update-ref", "refs/pull/1/head", "feature", cwd=tmp_path / "server.git")
        run_git("update-ref", "refs/merge-requests/1/head", "feature", cwd=tmp_path / "server.git")


class Job:
    """A job on the host: a fresh clone, an event, a token."""

    def __init__(self, folder: Path, stand_in: StandIn, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.stand_in, self._patch = folder, stand_in, patch
        self.summary = folder / "summary.md"
        self.out = folder / "out"

    def run(
        self, what: str, event: Mapping[str, Any], *options: str, token: str | None = WRITER
    ) -> Result:
        file = self.folder / "event.json"
        file.write_text(json.dumps(event))
        values = {
            "GITHUB_API_URL": self.stand_in.address,
            "GITHUB_REPOSITORY": "me/data",
            "GITHUB_EVENT_PATH": str(file),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "GITHUB_RUN_ID": "5",
            "GITHUB_SERVER_URL": "https://github.example",
            "GITHUB_TOKEN": token or "",
        }
        for name, value in values.items():
            self._patch.setenv(name, value)
        for name in ("GITLAB_CI", "HAVASU_TOKEN"):
            self._patch.delenv(name, raising=False)
        repo = self.folder / "job"
        if not repo.exists():
            clone(self.folder / "server.git", repo)
        folder: list[str | Path] = ["--folder", self.out] if what == "review" else []
        return invoke(["-C", repo, "ci", what, *folder, *options])


@pytest.fixture
def job(tmp_path: Path, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> Job:
    return Job(tmp_path, stand_in, monkeypatch)


def opened(*, fork: bool = False) -> dict[str, Any]:
    base = {"ref": "main", "repo": {"full_name": "me/data"}}
    head = {"ref": "feature", "repo": {"full_name": "you/data" if fork else "me/data"}}
    return {"pull_request": {"number": 1, "base": base, "head": head}}


def test_a_pull_request_is_reviewed(work: Repo, job: Job) -> None:
    done = job.run("review", opened())

    assert done.exit_code == 0, done.output
    (comment,) = job.stand_in.comments
    assert comment["body"] == (job.out / "comment.md").read_text()
    assert comment["body"].startswith(MARKER)
    assert "From `main` to `feature`" in comment["body"]
    assert "`ONE`" in comment["body"]
    assert "`new <b>@user</b>`" in comment["body"]
    assert job.summary.read_text() == (job.out / "summary.md").read_text()
    assert (job.out / "review.html").read_text().startswith("<!doctype html>")
    counts = json.loads((job.out / "review.json").read_text())["havasu.review/v2"]["datasets"]
    assert counts[0]["counts"] == {"inserts": 1, "updates": 1, "deletes": 0}


@pytest.mark.thorough
def test_the_comment_is_kept_up_to_date(work: Repo, job: Job, tmp_path: Path) -> None:
    job.run("review", opened())
    work.switch("feature")
    points.write(work, {1: ("ONE", 1)})
    push(work, tmp_path, "feature")
    done = job.run("review", opened())

    assert done.exit_code == 0, done.output
    (comment,) = job.stand_in.comments
    assert "49 deleted" in comment["body"]


@pytest.mark.thorough
@pytest.mark.parametrize("fork", [False, True])
def test_conflicts_are_told_with_commands_that_settle_them(
    work: Repo, job: Job, tmp_path: Path, fork: bool
) -> None:
    points.write(work, START | {1: ("EINS", 1)})
    work.push("origin", ["main"])
    assert job.run("review", opened(fork=fork)).exit_code == 0

    text = job.stand_in.comments[0]["body"]
    assert "**1 row is in conflict with `main`**" in text
    assert "`row 1` | **`ONE`** | **`EINS`** |" in text
    (block,) = re.findall(r"```sh\n(.*?)\n```", text, re.DOTALL)
    person = tmp_path / "person"
    clone(tmp_path / "server.git", person)
    for line in block.splitlines():
        program, *words = shlex.split(line)
        if program == "git":
            run_git(*words, cwd=person)
        else:
            done = invoke(["-C", person, *words])
            assert done.exit_code in ((0, 1) if words[0] == "pull" else (0,)), done.output
    rows = points.read(Repo.open(person), "origin/feature")
    assert (rows[1], rows[77]) == (("ONE", 1), ("new <b>@user</b>", 7))
    run_git("merge-base", "--is-ancestor", "main", "feature", cwd=tmp_path / "server.git")


@pytest.mark.parametrize("token", [READER, None])
def test_forks_without_secrets(work: Repo, job: Job, token: str | None) -> None:
    done = job.run("review", opened(fork=True), token=token)

    assert done.exit_code == 0, done.output
    assert job.stand_in.comments == []
    assert "as this job may not" in done.stderr or "refuses" in done.stderr
    assert "`ONE`" in job.summary.read_text()


def test_a_push_is_reviewed_where_there_is_a_pull_request(work: Repo, job: Job) -> None:
    pushed = {"ref": "refs/heads/feature", "before": "0" * 40}
    nothing = job.run("review", pushed)
    job.stand_in.pull(1, "main", "feature")
    done = job.run("review", pushed)

    assert "no open pull request" in nothing.stderr
    assert done.exit_code == 0, done.output
    assert len(job.stand_in.comments) == 1


def test_conflicts_do_not_stop_a_review(work: Repo, job: Job, tmp_path: Path) -> None:
    points.write(work, START | {1: ("eins", 1)})
    push(work, tmp_path, "main")
    done = job.run("review", opened())

    assert done.exit_code == 0, done.output
    assert "`ONE`" in job.stand_in.comments[0]["body"]


@pytest.mark.thorough
def test_the_policy_of_the_base_decides(work: Repo, job: Job, tmp_path: Path) -> None:
    for branch, most in (("main", 0), ("feature", 1000)):
        work.switch(branch)
        file = work.path / ".havasu" / "policy.toml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"[[dataset]]\nmax-deletes = {most}\n")
        run_git("add", ".havasu", cwd=work.path)
        run_git("commit", "-q", "-m", "Policy", cwd=work.path)
        if branch == "main":
            push(work, tmp_path, "main")
            work.switch("feature")
            work.merge("main")
    points.write(work, {1: ("ONE", 1)})
    push(work, tmp_path, "feature")

    done = job.run("review", opened())
    assert done.exit_code == 1, done.output
    assert "refused: points: 49 rows deleted, and 0 may be" in done.stdout
    assert "❌ `points`" in job.stand_in.comments[0]["body"]
    assert job.run("review", opened(), "--no-fail").exit_code == 0


@pytest.mark.thorough
def test_a_large_change_fits_the_host(work: Repo, job: Job, tmp_path: Path) -> None:
    work.switch("feature")
    points.write(work, {n: ("漢字 `|` " * 20 + str(n), n) for n in range(3000)})
    push(work, tmp_path, "feature")
    done = job.run("review", opened())

    assert done.exit_code == 0, done.output
    (comment,) = job.stand_in.comments
    assert len(comment["body"]) <= COMMENT_LIMIT
    assert (
        "[review.html](https://github.example/me/data/actions/runs/5#artifacts)"
        in (comment["body"])
    )


def test_nothing_of_a_pull_request_is_put_anywhere(work: Repo, job: Job, tmp_path: Path) -> None:
    work.switch("feature")
    (work.path / "setup.py").write_text("raise SystemExit('was run')")
    run_git("add", "setup.py", cwd=work.path)
    run_git("commit", "-q", "-m", "Code", cwd=work.path)
    push(work, tmp_path, "feature")
    done = job.run("review", opened())

    assert done.exit_code == 0, done.output
    assert not (tmp_path / "job" / "setup.py").exists()
    assert run_git("status", "--porcelain", cwd=tmp_path / "job") == ""


def test_gitlab(work: Repo, job: Job, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in {
        "GITLAB_CI": "true",
        "CI_API_V4_URL": job.stand_in.address,
        "CI_PROJECT_ID": "12",
        "CI_SERVER_URL": "https://gitlab.example",
        "CI_MERGE_REQUEST_IID": "1",
        "CI_JOB_URL": "https://gitlab.example/job/9",
        "GITLAB_TOKEN": WRITER,
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("HAVASU_TOKEN", raising=False)
    clone(tmp_path / "server.git", tmp_path / "job")
    job.stand_in.pull(1, "main", "feature")
    done = invoke(["-C", tmp_path / "job", "ci", "review", "--folder", job.out])

    assert done.exit_code == 0, done.output
    assert "`ONE`" in job.stand_in.comments[0]["body"]


def test_outside_of_a_job(work: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GITLAB_CI", "GITHUB_REPOSITORY", "GITHUB_EVENT_PATH"):
        monkeypatch.delenv(name, raising=False)
    done = invoke(["-C", work.path, "ci", "review"])

    assert done.exit_code == 2
    assert "GITHUB_REPOSITORY is not set" in done.stderr


@pytest.mark.thorough
def test_the_script_of_the_action(work: Repo, job: Job, tmp_path: Path, stand_in: StandIn) -> None:
    action = ROOT / ".github" / "actions" / "review" / "action.yml"
    steps = yaml.safe_load(action.read_text("utf-8"))["runs"]["steps"]
    (script,) = (step["run"] for step in steps if step.get("name") == "Review")
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "havasu-vc"
    code = "from havasu_vc.cli.main import main; main()"
    program.write_text(f"#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -c '{code}' \"$@\"\n")
    program.chmod(0o755)
    # As actions/checkout leaves it: plain git, no data file, nothing set up.
    checkout = tmp_path / "checkout"
    run_git("clone", "-q", tmp_path / "server.git", checkout, cwd=tmp_path)
    event = tmp_path / "event.json"
    event.write_text(json.dumps(opened()))
    environment = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_WORKSPACE": str(checkout),
        "GITHUB_API_URL": stand_in.address,
        "GITHUB_REPOSITORY": "me/data",
        "GITHUB_EVENT_PATH": str(event),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "step.md"),
        "HAVASU_TOKEN": WRITER,
        "AUTHOR": "github-actions[bot]",
        "FAIL": "true",
        "PULL": "",
    }
    for _ in range(2):
        done = subprocess.run(
            ["bash", "-e", "-c", script],
            env=os.environ | environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    (comment,) = stand_in.comments
    assert "`ONE`" in comment["body"]
    assert "rows are not shown" not in comment["body"]
    assert (tmp_path / "havasu-review" / "review.html").is_file()
    assert WRITER not in done.stdout + done.stderr + comment["body"]


def test_data_that_a_fork_did_not_send(work: Repo, job: Job, tmp_path: Path) -> None:
    main, feature = (
        {file.sha256 for file in files_of_commits(work.git, [str(work.resolve(name).commit)])}
        for name in ("main", "feature")
    )
    for file in feature - main:
        store(tmp_path / "server.git").path(file).unlink()
    run_git("clone", "-q", tmp_path / "server.git", tmp_path / "job", cwd=tmp_path)
    done = job.run("review", opened(fork=True))

    assert done.exit_code == 0, done.output
    body = job.stand_in.comments[0]["body"]
    assert "**rows are not shown**: " in body
    assert "`name`" in body
    assert "| `points` | 50 | ? | ? | ? | 51 |" in body
