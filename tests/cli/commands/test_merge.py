"""`havasu-vc merge`, `conflicts` and `resolve`, and `status` meanwhile."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import Result

from havasu_vc import Repo
from havasu_vc.errors import InvalidArgumentError
from havasu_vc.history.conflicts import Side
from tests.cli.conftest import Run, invoke, succeed
from tests.support.git import run_git
from tests.support.templates import copy_tree, empty_repo


@pytest.fixture(scope="module")
def diverged(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In conflict: the name of 2, the row 4 that theirs deleted, the row 9 that both inserted."""
    path = tmp_path_factory.mktemp("merge") / "repo"
    repo = Repo.open(copy_tree(template, path))
    repo.create_branch("side")
    here = {"lon": [1.5], "lat": [2.5]}
    repo.write("points", pa.table({"id": [2], "name": ["zwo"]}))
    repo.write("points", pa.table({"id": [4], "name": ["vier"]}))
    repo.write("points", pa.table({"id": [9], "name": ["neun"], "height": [9.0], **here}))
    repo.set_meta("points", {"title": "Punkte"})
    repo.switch("side")
    repo.write("points", pa.table({"id": [2], "name": ["deux"], "height": [22.0]}))
    repo.write("points", pa.table({"id": [4]}), mode="delete")
    repo.write("points", pa.table({"id": [9], "name": ["neuf"], "height": [9.0], **here}))
    repo.switch("main")
    return path


@pytest.fixture
def repo(diverged: Path, tmp_path: Path) -> Path:
    return copy_tree(diverged, tmp_path / "repo")


@pytest.fixture
def names(repo: Path) -> Callable[[], dict[int, str]]:
    """Read the names of HEAD's points."""

    def read() -> dict[int, str]:
        found = Repo.open(repo).table("points").to_arrow(["id", "name"]).to_pylist()
        return {row["id"]: row["name"] for row in found}

    return read


def head(run: Run) -> str:
    found: str = json.loads(run("status", "-o", "json").stdout)["kart.status/v2"]["commit"]
    return found


def test_from_conflict_to_commit(run: Run, names: Callable[[], dict[int, str]]) -> None:
    before = head(run)

    merged = succeed(run("merge", "side"))
    assert "points:feature: 3 conflicts" in merged.stderr
    assert 'Repository is now in "merging" state.' in merged.stderr
    assert head(run) == before
    succeed(run("resolve", "points:feature:2", "--column", "name=theirs"))
    succeed(run("resolve", "points:feature:9", "--renumber", "ours"))
    left = run("merge", "--continue")
    assert left.exit_code == 21
    assert left.stderr.startswith("Error: 1 conflict")
    done = succeed(run("resolve", "--all", "--with=ours"))
    assert "0 conflicts to go" in done.stderr
    assert "merge --continue" in succeed(run("status")).stdout
    assert "Merge committed as" in succeed(run("merge", "--continue", "-m", "Together")).stderr

    assert names() == {1: "one", 2: "deux", 4: "vier", 9: "neuf", 10: "neun"}
    assert "Together" in run("log", "-n1").stdout
    assert succeed(run("status")).stdout.startswith("On branch main\n\nNothing to commit")


def test_json(run: Run, repo: Path) -> None:
    before = head(run)
    value = json.loads(succeed(run("merge", "side", "-o", "json")).stdout)["kart.merge/v1"]

    assert value["commit"] == value["merging"]["ours"]["commit"] == before
    assert value["merging"]["theirs"]["branch"] == "side"
    assert value["message"] == 'Merge branch "side" into main'
    assert (value["conflicts"], value["state"]) == ({"points": {"feature": 3}}, "merging")
    status = json.loads(run("status", "-o", "json").stdout)["kart.status/v2"]
    assert status["merging"] == value["merging"]
    assert (status["conflicts"], status["state"]) == (value["conflicts"], "merging")
    found = json.loads(run("conflicts", "-o", "json").stdout)["kart.conflicts/v1"]["points"]
    assert list(found["feature"]) == ["2", "4", "9"]
    assert list(found["feature"]["4"]) == ["ancestor", "ours"]
    summary = run("conflicts", "-s", "-o", "json:compact").stdout
    assert summary == '{"kart.conflicts/v1": {"points": {"feature": [2, 4, 9]}}}\n'
    run("resolve", "--all", "--with=theirs")
    value = json.loads(run("merge", "--continue", "-o", "json").stdout)["kart.merge/v1"]
    assert value["commit"] == head(run)
    assert (value["conflicts"], value["message"]) == (None, 'Merge branch "side" into main')


@pytest.mark.parametrize(
    ("options", "code"), [(["--dry-run"], 0), (["--fail-on-conflict"], 21)], ids=["try", "fail"]
)
def test_nothing_waits(run: Run, options: list[str], code: int) -> None:
    before = head(run)

    result = run("merge", "side", *options)

    assert result.exit_code == code
    assert "points:feature: 3 conflicts" in result.stderr
    assert head(run) == before
    assert "merging" not in run("status").stdout
    assert run("conflicts").exit_code == 20


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (["ours"], {1: "one", 2: "zwo", 4: "vier", 9: "neun"}),
        (["theirs"], {1: "one", 2: "deux", 9: "neuf"}),
        (["theirs", "name=ours"], {1: "one", 2: "zwo", 9: "neun"}),
    ],
)
def test_policies(
    run: Run, names: Callable[[], dict[int, str]], policy: list[str], expected: dict[int, str]
) -> None:
    options = [part for each in policy for part in ("-X", each)]

    assert "No conflicts!" in succeed(run("merge", "side", *options)).stderr
    assert names() == expected


def test_policies_are_read() -> None:
    from havasu_vc.cli.arguments import parse_policy

    policy = parse_policy(["fill-nulls", "a=ours", "theirs"])
    assert (policy.side, policy.columns, policy.fill_nulls) == (
        Side.THEIRS,
        {"a": Side.OURS},
        True,
    )
    for texts in (["mine"], ["a=mine"], ["ours", "theirs"]):
        with pytest.raises(InvalidArgumentError):
            parse_policy(texts)


def test_fast_forward(run: Run) -> None:
    run("switch", "-c", "early", "main~4")
    before = head(run)

    assert "Can fast-forward" in succeed(run("merge", "main", "--dry-run")).stderr
    assert head(run) == before
    assert "Fast-forwarded" in succeed(run("merge", "main", "--ff-only")).stderr
    assert "Already up to date" in succeed(run("merge", "main")).stderr
    value = json.loads(run("merge", "main", "-o", "json").stdout)["kart.merge/v1"]
    assert (value["noOp"], value["fastForward"], value["commit"]) == (True, True, head(run))
    run("switch", "-c", "earlier", "main~4")
    run("merge", "main", "--no-ff", "-m", "A commit all the same")
    assert "A commit all the same" in run("log", "-n1").stdout


def test_abort(run: Run) -> None:
    before = head(run)
    run("merge", "side")

    assert "dropped" in succeed(run("merge", "--abort")).stderr

    assert head(run) == before
    assert run("merge", "--abort").exit_code == 20


def test_files(run: Run, tmp_path: Path, names: Callable[[], dict[int, str]]) -> None:
    run("merge", "side")
    file = tmp_path / "row.geojson"
    succeed(run("conflicts", "points:feature:9", "-o", "geojson", "--output", file))
    feature: dict[str, Any] = json.loads(file.read_text())["features"][0]
    assert feature["id"] == "points:feature:9:ours"
    feature["properties"]["name"] = "nine"
    file.write_text(json.dumps(feature))

    wrong = run("resolve", "points:feature:2", "--with-file", file)
    assert wrong.exit_code == 23
    assert wrong.stderr.splitlines() == [
        "Error: the row has 9 as its 'id', so it is not points:feature:2"
    ]
    succeed(run("resolve", "points:feature:9", "--with-file", file))
    assert run("resolve", "points:feature:2", "--with-file", tmp_path / "none").exit_code == 2
    run("resolve", "--all", "--with", "ancestor")
    run("merge", "--continue")
    assert names() == {1: "one", 2: "TWO", 4: "four", 9: "nine"}


def test_a_file_of_no_feature_deletes_the_row(
    run: Run, tmp_path: Path, names: Callable[[], dict[int, str]]
) -> None:
    run("merge", "side")
    file = tmp_path / "none.geojson"
    file.write_text(json.dumps({"type": "FeatureCollection", "features": []}))
    succeed(run("resolve", "points:feature:2", "--with-file", file))
    succeed(run("resolve", "--all", "--with", "ancestor"))
    succeed(run("merge", "--continue"))
    assert names() == {1: "one", 4: "four"}


@pytest.mark.few(1)
@pytest.mark.parametrize("key", [3, 7, 90])
def test_two_features_of_a_file(
    run: Run, tmp_path: Path, names: Callable[[], dict[int, str]], key: int
) -> None:
    run("merge", "side")
    file = tmp_path / "rows.geojson"
    succeed(run("conflicts", "points:feature:9", "-o", "geojson", "--output", file))
    ours, theirs = json.loads(file.read_text())["features"]
    ours["properties"]["name"], theirs["properties"]["name"] = "nine", "moved"

    def resolve(*features: dict[str, Any]) -> Result:
        file.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
        return run("resolve", "points:feature:9", "--with-file", file)

    twice = resolve(ours, theirs)
    assert twice.exit_code == 2 and "two rows of its key" in twice.stderr
    theirs["properties"]["id"] = 1
    taken = resolve(ours, theirs)
    assert taken.exit_code == 2 and "already has a row 1" in taken.stderr
    theirs["properties"]["id"] = key
    assert resolve(ours, theirs, theirs).exit_code == 2
    succeed(resolve(theirs, ours))
    run("resolve", "--all", "--with", "ancestor")
    succeed(run("merge", "--continue"))
    assert names() == {1: "one", 2: "TWO", 4: "four", 9: "nine", key: "moved"}
    assert run("fsck").exit_code == 0


def test_showing_conflicts(run: Run, tmp_path: Path) -> None:
    run("merge", "side")

    assert succeed(run("conflicts")).stdout.startswith("points:\n    points:feature:\n")
    assert run("conflicts", "-ss").stdout == "points:\n    points:feature: 3 conflicts\n\n"
    assert "points:feature:4\n" not in run("conflicts", "-s", "points:feature:2").stdout
    assert run("conflicts", "-o", "quiet").exit_code == 1
    assert run("conflicts", "--exit-code", "points:meta").exit_code == 0
    assert "No conflicts" in run("conflicts", "points:meta").stderr
    reprojected = json.loads(
        run("conflicts", "points:feature:2", "-o", "geojson", "--crs", "EPSG:2193").stdout
    )
    assert reprojected["features"][0]["geometry"]["coordinates"][1] > 5_000_000
    assert run("conflicts", "--crs", "nonsense").exit_code == 25
    succeed(run("conflicts", "-o", "geojson", "--output", tmp_path))
    assert (tmp_path / "points.geojson").exists()


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["merge"], 2, "give a revision"),
        (["merge", "side", "--abort"], 2, "give a revision"),
        (["merge", "nowhere"], 47, "no commit is named 'nowhere'"),
        (["merge", "side", "HEAD~1"], 2, "only one revision"),
        (["merge", "side", "--ff-only"], 20, "cannot be fast-forwarded"),
        (["merge", "side", "--ff-only", "--no-ff"], 2, "contradict"),
        (["merge", "side", "-X", "mine"], 2, "-X mine"),
        (["merge", "--continue"], 20, "no merge"),
        (["conflicts"], 20, "no merge"),
        (["resolve", "--all", "--with=ours"], 20, "no merge"),
        (["resolve", "--all"], 2, "say how"),
        (["resolve", "--with=ours"], 2, "--all"),
        (["resolve", "points", "--all", "--with=ours"], 2, "--all"),
        (["resolve", "--all", "--with=mine"], 2, "'mine'"),
        (["resolve", "--all", "--column", "name"], 2, "name"),
        (["resolve", "--all", "--column", "a=ours", "--column", "a=theirs"], 2, "twice"),
    ],
)
def test_what_makes_no_sense(run: Run, arguments: list[str], code: int, words: str) -> None:
    before = head(run)

    result = run(*arguments)

    assert (result.exit_code, result.stdout) == (code, "")
    errors = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 1
    assert words in errors[0]
    assert head(run) == before


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["merge", "side"], 20),
        (["merge", "--continue"], 21),
        (["resolve", "points:feature:77", "--with=ours"], 50),
        (["resolve", "points:meta:title", "--with=ours"], 50),
        (["resolve", "points:feature:4", "--column", "name=ours"], 2),
        (["resolve", "points:feature:2", "--renumber=ours"], 2),
        (["conflicts", "a:b:c"], 2),
    ],
)
def test_while_merging(run: Run, arguments: list[str], code: int) -> None:
    run("merge", "side")

    result = run(*arguments)

    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith("Error: ")
    assert run("conflicts", "-ss").stdout == "points:\n    points:feature: 3 conflicts\n\n"


def test_unrelated_histories(run: Run, repo: Path, tmp_path: Path, csv_file: Path) -> None:
    other = tmp_path / "other"
    succeed(invoke(["init", other]))
    succeed(invoke(["-C", other, "import", csv_file, "points", "--primary-key", "id"]))
    Repo.open(repo).git.git("fetch", "--quiet", str(other), "main:stranger")

    result = run("merge", "stranger")

    assert result.exit_code == 20
    assert "no history in common" in result.stderr


def test_sides_that_parted_before_a_shallow_clone_begins(
    run: Run, repo: Path, tmp_path: Path
) -> None:
    run("merge", "--abort")
    shallow = tmp_path / "shallow"
    run_git("clone", "-q", "--depth=1", "--no-single-branch", repo.as_uri(), shallow, cwd=tmp_path)
    side = run_git("branch", "-r", "--format=%(refname:short)", cwd=shallow).split()
    (other,) = (name for name in side if name not in ("origin", "origin/HEAD", "origin/main"))

    refused = invoke(["-C", shallow, "merge", other])
    assert refused.exit_code == 20
    assert "this clone has only the newest ones" in refused.stderr
    assert "`havasu-vc fetch --unshallow`" in refused.stderr
    succeed(invoke(["-C", shallow, "fetch", "--unshallow"]))
    assert "in common" not in invoke(["-C", shallow, "merge", other]).stderr


def test_a_damaged_state_is_told_and_dropped(run: Run, repo: Path) -> None:
    run("merge", "side")
    state = repo / ".git" / "havasu" / "merge" / "state.json"
    state.write_bytes(state.read_bytes()[:50])

    assert "the state of the merge cannot be read" in succeed(run("status")).stdout
    result = run("conflicts")
    assert result.exit_code == 11
    assert [line[:6] for line in result.stderr.splitlines()] == ["Error:", "Hint: "]
    succeed(run("merge", "--abort"))
    assert run("merge", "--abort").exit_code == 20


def test_a_thousand_conflicts_are_quick(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "repo")
    keys = list(range(1000))
    file = tmp_path / "rows.csv"
    file.write_text("id,name\n" + "".join(f"{key},x\n" for key in keys))
    arguments = ["-C", repo.path, "import", file, "rows", "--primary-key", "id"]
    succeed(invoke([str(each) for each in arguments]))
    repo.create_branch("side")
    repo.write("rows", pa.table({"id": keys, "name": ["ours"] * 1000}))
    repo.switch("side")
    repo.write("rows", pa.table({"id": keys, "name": ["theirs"] * 1000}))
    repo.switch("main")

    for command in (
        ["merge", "side"],
        ["conflicts", "-o", "json"],
        ["conflicts"],
        ["resolve", *(f"rows:feature:{key}" for key in keys[:500]), "--with=ours"],
        ["resolve", "--all", "--with=theirs"],
        ["merge", "--continue"],
    ):
        begin = time.process_time()
        succeed(invoke(["-C", repo.path, *command]))
        assert time.process_time() - begin < 1.0, command[0]
    assert repo.table("rows").to_arrow()["name"].to_pylist() == ["ours"] * 500 + ["theirs"] * 500


@pytest.mark.parametrize("kind", ["merge", "squash", "cherry-pick", "rebase"])
def test_commit_and_status_name_what_concludes_it(kind: str, run: Run) -> None:
    command = ("merge", "--squash") if kind == "squash" else (kind,)
    run(*command, "side")
    name = "merge" if kind == "squash" else kind
    refused = run("commit", "-m", "x")
    assert refused.exit_code == 20
    assert refused.stderr.splitlines() == [
        f"Error: a {name} waits to be concluded",
        f"Hint: `havasu-vc {name} --continue` concludes it, `--abort` drops it",
    ]
    told = succeed(run("status")).stdout
    assert f"complete this {name} with `havasu-vc {name} --continue`" in told
    assert f"`havasu-vc {name} --abort`" in told
