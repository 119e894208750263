"""`havasu-vc ci update` in a job of each host, on git's `http-backend` with LFS and passwords.

`me/data.git` is where the pull request is, `you/data.git` a fork; both want the token of the job.
The environment and the events are those that each host documents; a stand-in answers for its API.
"""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from havasu_vc import Repo
from tests.cli.conftest import invoke, succeed
from tests.remotes.sharing import share
from tests.repo import points
from tests.support.git import run_git
from tests.support.host import READER, WRITER, StandIn
from tests.support.host import serving as serving_api
from tests.support.web import WebServer, serving

pytestmark = pytest.mark.few(1)

START = {n: (f"row {n}", n) for n in range(20)}
HOSTS = ("github", "gitlab", "gitea", "forgejo")
EDITS = {"github": "maintainer_can_modify", "gitlab": "allow_collaboration"}
OF_JOBS = ("GITHUB_", "GITLAB_", "GITEA_", "FORGEJO_", "CI_", "HAVASU_TOKEN")
PULLS = {"gitlab": "refs/merge-requests/1/head"}


@pytest.fixture
def web(tmp_path: Path) -> Iterator[WebServer]:
    for owner in ("me", "you"):
        run_git("init", "-q", "--bare", tmp_path / "host" / owner / "data.git", cwd=tmp_path)
    with serving(tmp_path / "host") as found:
        yield found


@pytest.fixture
def api() -> Iterator[StandIn]:
    with serving_api(StandIn()) as found:
        yield found


@pytest.fixture
def work(web: WebServer, tmp_path: Path) -> Repo:
    """A clone of what both repositories have, on a new branch `feature`."""
    repo = points.make(tmp_path / "work", START)
    share(repo, web.url("me/data.git"))
    run_git("remote", "add", "fork", web.url("you/data.git"), cwd=repo.path)
    repo.push("fork", ["main"])
    repo.switch("feature", create=True)
    return repo


@dataclass
class Scene:
    """A pull request on a host."""

    host: str
    fork: bool
    work: Repo
    web: WebServer
    api: StandIn
    folder: Path
    patch: pytest.MonkeyPatch

    def place(self) -> Path:
        """Return the repository that has the branch."""
        return self.web.root / ("you" if self.fork else "me") / "data.git"

    def open(self, head: points.Rows, base: points.Rows, *, edits: bool = True) -> str:
        """Open a pull request of these rows, while main gets others; return its commit."""
        tip = points.write(self.work, head)
        self.work.push("fork" if self.fork else "origin", ["feature"])
        central = self.web.root / "me" / "data.git"
        ref = PULLS.get(self.host, "refs/pull/1/head")
        run_git("fetch", "-q", self.place(), f"+feature:{ref}", cwd=central)
        self.work.switch("main")
        points.write(self.work, base)
        self.work.push("origin", ["main"])
        flag = EDITS.get(self.host, "allow_maintainer_edit") if edits else None
        owner = "you" if self.fork else "me"
        self.api.pull(1, "main", "feature", repo=f"{owner}/data", edits=flag)
        return tip

    def run(
        self, token: str | None = WRITER, event: Any = None, options: Sequence[str] = ()
    ) -> Result:
        """Run the job in a clone as the host makes it, where git asks for the token."""
        job = self.folder / "job"
        if not job.exists():
            run_git("clone", "-q", *options, self.web.url("me/data.git"), job, cwd=self.folder)
        self.web.password = f"x-access-token:{WRITER}"
        for name in [name for name in os.environ if name.startswith(OF_JOBS)]:
            self.patch.delenv(name)
        for name, value in self.environment(event).items():
            self.patch.setenv(name, value)
        if token is not None:
            self.patch.setenv("HAVASU_TOKEN", token)
        done = invoke(["-C", job, "ci", "update"])
        self.web.password = ""
        assert WRITER not in done.output
        assert WRITER not in (job / ".git" / "config").read_text()
        return done

    def environment(self, event: Any) -> dict[str, str]:
        server = self.web.url().rstrip("/")
        if self.host == "gitlab":
            return {
                "GITLAB_CI": "true",
                "CI_API_V4_URL": self.api.address,
                "CI_SERVER_URL": server,
                "CI_PROJECT_ID": "12",
                "CI_MERGE_REQUEST_IID": "1",
            }
        self.api.permissions = {"ann": "write"}
        file = self.folder / "event.json"
        file.write_text(json.dumps(asked() if event is None else event))
        gitea = self.host != "github"
        found = {
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": self.api.address + ("/api/v1" if gitea else ""),
            "GITHUB_SERVER_URL": server,
            "GITHUB_REPOSITORY": "me/data",
            "GITHUB_EVENT_PATH": str(file),
        }
        if gitea:
            found["GITEA_ACTIONS"] = "true"
        if self.host == "forgejo":
            own = {name.replace("GITHUB", "FORGEJO"): value for name, value in found.items()}
            found = {**dict.fromkeys(found, "https://nowhere.example"), **own, "GITEA_ACTIONS": "1"}
        return found

    def tip(self) -> str:
        return run_git("rev-parse", "feature", cwd=self.place())

    def merged_by_git(self) -> bool:
        """Whether the host's own button merges the pull request as it is now."""
        central = self.web.root / "me" / "data.git"
        run_git("fetch", "-q", self.place(), "+feature:refs/pull/1/head", cwd=central)
        said = run_git("merge-tree", "main", "refs/pull/1/head", cwd=central, check=False)
        return "CONFLICT" not in said

    def rows(self) -> dict[int, Any]:
        """Return the branch's rows, as a new clone has them."""
        fresh = self.folder / "fresh"
        shutil.rmtree(fresh, ignore_errors=True)
        owner = "you" if self.fork else "me"
        url = self.web.url(f"{owner}/data.git")
        succeed(invoke(["clone", "-b", "feature", url, fresh]))
        return points.read(Repo.open(fresh))


def asked(user: str = "ann", text: str = "/havasu-vc update") -> dict[str, Any]:
    return {
        "issue": {"number": 1, "pull_request": {}},
        "comment": {"body": text, "user": {"login": user}},
        # Gitea tells it with the comment.
        "pull_request": {"number": 1},
    }


@pytest.fixture(params=["github"])
def scene(
    request: pytest.FixtureRequest,
    work: Repo,
    web: WebServer,
    api: StandIn,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Scene:
    host, _, fork = request.param.partition("-")
    return Scene(host, bool(fork), work, web, api, tmp_path, monkeypatch)


everywhere = pytest.mark.parametrize(
    "scene", [f"{host}{fork}" for host in HOSTS for fork in ("", "-fork")], indirect=True
)
in_a_fork = pytest.mark.parametrize("scene", [f"{host}-fork" for host in HOSTS], indirect=True)


@everywhere
def test_one_row_on_both_sides_is_merged_cell_by_cell(scene: Scene) -> None:
    head, base = START | {1: ("ONE", 1)}, START | {1: ("row 1", 100), 2: ("TWO", 2)}
    before = scene.open(head, base)
    assert not scene.merged_by_git()

    done = scene.run()

    assert done.exit_code == 0, done.output
    said = "`main` is merged in and pushed: 2 rows changed with it."
    assert said in done.stderr
    assert [each["body"] for each in scene.api.comments] == [said]
    main = run_git("rev-parse", "main", cwd=scene.web.root / "me" / "data.git")
    assert run_git("rev-parse", "feature^1", "feature^2", cwd=scene.place()).split() == [
        before,
        main,
    ]
    assert scene.merged_by_git()
    assert scene.rows() == START | {1: ("ONE", 100), 2: ("TWO", 2)}


@pytest.mark.thorough
@pytest.mark.parametrize("scene", ["github", "gitlab-fork"], indirect=True)
def test_in_a_job_whose_clone_has_the_newest_commit_alone(scene: Scene) -> None:
    scene.open(START | {1: ("ONE", 1)}, START | {1: ("row 1", 100), 2: ("TWO", 2)})

    done = scene.run(options=["--depth=1"])

    assert done.exit_code == 0, done.output
    assert "`main` is merged in and pushed: 2 rows changed with it." in done.stderr
    assert scene.rows() == START | {1: ("ONE", 100), 2: ("TWO", 2)}


@everywhere
@pytest.mark.thorough
def test_nothing_is_done_where_git_merges(scene: Scene) -> None:
    before = scene.open(START | {1: ("ONE", 1)}, START | {2: ("TWO", 2)})

    done = scene.run()

    assert done.exit_code == 0, done.output
    assert "Nothing is done: git merges the branch with `main` by itself." in done.stderr
    assert scene.tip() == before
    assert scene.merged_by_git()


@everywhere
@pytest.mark.thorough
def test_cells_in_conflict_are_named(scene: Scene) -> None:
    before = scene.open(START | {1: ("ONE", 10), 2: ("x", 2)}, {0: ("", 0), 1: ("eins", 11)})

    done = scene.run()

    assert done.exit_code == 1
    said = (
        "Nothing is done: both sides changed `points` `1` (`name`, `height`); `points` `2` "
        "(edit/delete). Settle it by hand: `havasu-vc merge origin/main`"
    )
    assert said in done.stderr
    assert [each["body"] for each in scene.api.comments] == [said]
    assert scene.tip() == before


@pytest.mark.thorough
@in_a_fork
def test_a_fork_that_does_not_allow_it(scene: Scene) -> None:
    before = scene.open(START | {1: ("ONE", 1)}, START | {1: ("row 1", 100)}, edits=False)

    done = scene.run()

    assert done.exit_code == 1
    assert "in a fork that does not allow edits by maintainers" in done.stderr
    assert scene.tip() == before


@pytest.mark.thorough
@pytest.mark.parametrize("scene", HOSTS, indirect=True)
def test_without_a_token(scene: Scene) -> None:
    before = scene.open(START | {1: ("ONE", 1)}, START | {1: ("row 1", 100)})

    done = scene.run(token=None)

    assert done.exit_code == 2
    assert "there is no token to push with" in done.stderr
    assert scene.tip() == before


@pytest.mark.parametrize("scene", ["github", "gitlab-fork"], indirect=True)
@pytest.mark.thorough
def test_a_token_that_may_not(scene: Scene) -> None:
    before = scene.open(START | {1: ("ONE", 1)}, START | {1: ("row 1", 100)})

    done = scene.run(token=READER)

    assert done.exit_code == 1
    assert "It could not be brought up to date" in done.stderr
    assert scene.tip() == before


@pytest.mark.thorough
def test_a_branch_that_has_it_all(scene: Scene) -> None:
    scene.open(START | {1: ("ONE", 1)}, START | {1: ("row 1", 100)})
    scene.run()
    before = scene.tip()
    central = scene.web.root / "me" / "data.git"
    run_git("update-ref", "refs/pull/1/head", "feature", cwd=central)

    again = scene.run()

    assert again.exit_code == 0
    assert "the branch has all of `main`" in again.stderr
    assert scene.tip() == before


@pytest.mark.thorough
@pytest.mark.parametrize("scene", ["github", "gitea"], indirect=True)
@pytest.mark.parametrize(
    ("event", "said"),
    [
        (asked("bob"), "bob may not push here"),
        (asked(text="please /havasu-vc update"), "this is no comment"),
        ({"issue": {"number": 1}, "comment": {"body": "/havasu-vc update"}}, "this is no comment"),
    ],
)
def test_who_may_ask_for_an_update(scene: Scene, event: dict[str, Any], said: str) -> None:
    before = scene.open(START | {1: ("ONE", 1)}, START | {1: ("row 1", 100)})

    done = scene.run(event=event)

    assert done.exit_code == 0
    assert said in done.stderr
    assert scene.api.comments == []
    assert scene.tip() == before


@pytest.mark.thorough
def test_a_pull_requests_own_job_asks_nobody(scene: Scene) -> None:
    scene.open(START | {1: ("ONE", 1)}, START | {1: ("row 1", 100)})

    done = scene.run(event={"pull_request": {"number": 1}})

    assert "is merged in and pushed" in done.stderr
    assert scene.merged_by_git()


@pytest.mark.thorough
@pytest.mark.parametrize("scene", ["github-fork"], indirect=True)
@pytest.mark.parametrize("name", ["", "../../etc", "-x/y", "a b/c", "you/data.git#x"])
def test_a_fork_whose_name_is_no_repository(scene: Scene, name: str) -> None:
    before = scene.open(START | {1: ("ONE", 1)}, START | {1: ("row 1", 100)})
    scene.api.pulls[0]["head"]["repo"] = {"full_name": name} if name else None

    done = scene.run()

    assert done.exit_code == 1
    assert "is gone, or has no name that is known" in done.stderr
    assert scene.tip() == before
