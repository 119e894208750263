"""GitHub's merge queue: what git merged by itself is reviewed, and held against the policy.

The queue merges, squashes or rebases pull requests in the host's bare repository, on a branch of
its own, and asks with the event `merge_group` whether that may become the base.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from havasu_vc import Repo
from tests.cli.conftest import invoke
from tests.remotes.sharing import share
from tests.repo import points
from tests.support.git import run_git

START = {n: (f"row {n}", n) for n in range(20)}
OF_JOBS = ("GITHUB_", "GITLAB_", "GITEA_", "FORGEJO_", "HAVASU_TOKEN")
QUEUE = "refs/heads/gh-readonly-queue/main/pr-2-0123456789"


class Queue:
    """A repository with two pull requests that change different rows."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.server, self._patch = folder, folder / "server.git", patch
        run_git("init", "-q", "--bare", "-b", "main", self.server, cwd=folder)
        self.work = points.make(folder / "work", START)
        (self.work.path / ".havasu").mkdir()
        (self.work.path / ".havasu" / "policy.toml").write_text("[[dataset]]\nmax-deletes = 2\n")
        run_git("add", ".havasu", cwd=self.work.path)
        run_git("commit", "-q", "-m", "Policy", cwd=self.work.path)
        share(self.work, self.server)

    def pull(self, branch: str, rows: points.Rows) -> None:
        self.work.switch("main")
        self.work.switch(branch, create=True)
        points.write(self.work, rows)
        self.work.push("origin", [branch])

    def merge(self, *branches: str, squash: bool = False) -> dict[str, Any]:
        """Merge as the queue does; return the event that it sends."""
        base = tip = run_git("rev-parse", "main", cwd=self.server)
        for branch in branches:
            tree = run_git("merge-tree", "--write-tree", tip, branch, cwd=self.server).split()[0]
            parents = ["-p", tip, *([] if squash else ["-p", branch])]
            tip = run_git("commit-tree", tree, *parents, "-m", f"Merge {branch}", cwd=self.server)
        run_git("update-ref", QUEUE, tip, cwd=self.server)
        names = {"base_ref": "refs/heads/main", "base_sha": base, "head_ref": QUEUE}
        return {"action": "checks_requested", "merge_group": {**names, "head_sha": tip}}

    def run(self, event: dict[str, Any], *command: str) -> Result:
        """Run a command in a checkout of the queue's branch, without a token."""
        job, file = self.folder / "job", self.folder / "event.json"
        file.write_text(json.dumps(event))
        run_git("clone", "-q", self.server, job, cwd=self.folder)
        run_git("checkout", "-q", "--detach", event["merge_group"]["head_sha"], cwd=job)
        for name in [
            name for name in os.environ if name.startswith(("GITHUB_", "GITLAB_", "HAVASU_T"))
        ]:
            self._patch.delenv(name)
        for name, value in {
            "GITHUB_ACTIONS": "true",
            "GITHUB_EVENT_NAME": "merge_group",
            "GITHUB_EVENT_PATH": str(file),
            "GITHUB_REPOSITORY": "me/data",
            "GITHUB_STEP_SUMMARY": str(self.folder / "step.md"),
            "GITHUB_API_URL": "https://127.0.0.1:1",
        }.items():
            self._patch.setenv(name, value)
        return invoke(["-C", job, *command])


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    return Queue(tmp_path, monkeypatch)


@pytest.mark.few(1)
@pytest.mark.parametrize("squash", [False, True], ids=["merge", "squash"])
def test_what_git_merged_passes(queue: Queue, squash: bool) -> None:
    queue.pull("one", START | {1: ("ONE", 1)})
    queue.pull("two", {n: row for n, row in START.items() if n != 2} | {77: ("new", 7)})
    event = queue.merge("one", "two", squash=squash)

    done = queue.run(event, "ci", "review", "--folder", str(queue.folder / "out"))

    assert done.exit_code == 0, done.output
    assert "Reviewed what waits in the merge queue" in done.stderr
    found = json.loads((queue.folder / "out" / "review.json").read_text())["havasu.review/v2"]
    assert found["datasets"][0]["counts"] == {"inserts": 1, "updates": 1, "deletes": 1}
    assert "From `main` to `the merge queue`" in (queue.folder / "step.md").read_text()
    job = Repo.open(queue.folder / "job")
    expected = START | {1: ("ONE", 1), 77: ("new", 7)}
    del expected[2]
    assert points.read(job) == expected
    # Neither the other command of a job nor a check by hand stands in its way.
    again = invoke(["-C", job.path, "ci", "update"])
    assert (again.exit_code, "git has merged" in again.stderr) == (0, True)
    group = event["merge_group"]
    for revisions in ("HEAD", f"{group['base_sha']}..{group['head_sha']}"):
        assert invoke(["-C", job.path, "check", revisions]).exit_code == 0


@pytest.mark.thorough
def test_what_is_too_much_together_is_refused(queue: Queue) -> None:
    """Each deletes two rows, which the policy allows; both together delete four."""
    queue.pull("one", {n: row for n, row in START.items() if n not in (1, 2)})
    queue.pull("two", {n: row for n, row in START.items() if n not in (3, 4)})
    event = queue.merge("one", "two")

    done = queue.run(event, "ci", "review", "--folder", str(queue.folder / "out"))

    assert done.exit_code == 1
    assert "refused: points: 4 rows deleted, and 2 may be" in done.stdout
    group = event["merge_group"]
    job = queue.folder / "job"
    assert invoke(["-C", job, "check", f"{group['base_sha']}..{group['head_sha']}"]).exit_code == 1


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "value"), [("base_sha", "--upload-pack=x"), ("head_ref", "--all"), ("head_sha", "")]
)
def test_an_event_that_names_no_commits(queue: Queue, name: str, value: str) -> None:
    queue.pull("one", START | {1: ("ONE", 1)})
    event = queue.merge("one")
    queue.run(event, "version")
    event["merge_group"][name] = value
    (queue.folder / "event.json").write_text(json.dumps(event))

    done = invoke(["-C", queue.folder / "job", "ci", "review"])

    assert done.exit_code == 2
    assert "names no commits" in done.stderr
