"""A day of git's verbs on two tables, held against a plain dict, and with the mistakes of each."""

import sys
from pathlib import Path

import pytest

from tests.cli.conftest import invoke
from tests.support.git import run_git
from tests.weeks.week import Row, Rows, User, edit

TREES = "id,name,lon,lat\n1,oak,174.7,-41.3\n2,elm,174.8,-41.2\n3,ash,175.6,-40.9\n"
PARCELS = "id,owner,area\n1,Ann,10\n2,Ben,20\n3,Cat,30\n"
PROGRAM = f"'{sys.executable}' -c 'from havasu_vc.cli.main import main; main()'"

Model = dict[str, Rows]


class Day(User):
    """Somebody who edits a working copy, with a model of what each commit has."""

    def holds(self, model: Model, revision: str = "HEAD") -> None:
        for dataset, rows in model.items():
            self.agrees(dataset, rows, revision)

    def edits(self, model: Model, dataset: str, key: int, **values: object) -> Model:
        """Change a row of the working copy; return the model that it has then."""
        said = ", ".join(f"{name} = {value!r}" for name, value in values.items())
        edit(self.repo / "wc.gpkg", f"UPDATE {dataset} SET {said} WHERE id = {key}")
        row: Row = model[dataset][key] | values
        return {**model, dataset: {**model[dataset], key: row}}

    def commits(
        self, model: Model, dataset: str, key: int, message: str, **values: object
    ) -> Model:
        """Change a row and commit it."""
        model = self.edits(model, dataset, key, **values)
        self.does("commit", "-m", message)
        return model

    def subjects(self, *options: str) -> list[str]:
        return self.does("log", "--format", "%s", *options).stdout.splitlines()


@pytest.fixture
def day(tmp_path: Path) -> Day:
    """Return somebody with two datasets, one with geometries, and the tag t0."""
    for name, text in (("trees", TREES), ("parcels", PARCELS)):
        (tmp_path / f"{name}.csv").write_text(text)
    assert invoke(["init", tmp_path / "a"]).exit_code == 0
    somebody = Day(tmp_path / "a")
    key = ("--primary-key", "id")
    crs = ("--crs", "EPSG:4326", "--csv-drop-coordinates")
    somebody.does("import", tmp_path / "trees.csv", *key, *crs, "-m", "Trees")
    somebody.does("import", tmp_path / "parcels.csv", *key, "-m", "Parcels")
    somebody.does("create-workingcopy", "wc.gpkg")
    somebody.does("tag", "t0")
    return somebody


def first(day: Day) -> Model:
    return {name: day.rows(name) for name in ("trees", "parcels")}


@pytest.mark.thorough
def test_a_morning_of_branches(day: Day) -> None:
    start = first(day)
    main = day.commits(start, "parcels", 1, "Anna", owner="Anna")
    main = day.commits(main, "parcels", 3, "33", area=33)
    day.does("switch", "-c", "topic", "t0")
    day.holds(start)
    topic = day.commits(start, "parcels", 2, "Bea", owner="Bea")
    topic = day.commits(topic, "trees", 2, "fir", name="fir")

    # Onto main and back to where it began, and onto main again.
    both: Model = {
        "trees": topic["trees"],
        "parcels": {**main["parcels"], 2: topic["parcels"][2]},
    }
    day.may_not(47, "rebase", "nosuch")
    day.does("rebase", "main")
    day.holds(both)
    assert day.subjects() == ["fir", "Bea", "33", "Anna", "Parcels", "Trees"]
    day.does("rebase", "--onto", "t0", "main")
    day.holds(topic)
    day.may_not(2, "rebase", "--onto")
    day.does("switch", "main")
    day.does("rebase", "--onto", "main", "t0", "topic")
    day.holds(both)

    day.does("switch", "main")
    day.holds(main)
    day.does("switch", "-")
    day.holds(both)
    day.does("switch", "-")
    day.does("switch", "--detach", "topic")
    assert "detached" in day.does("status").stdout
    day.does("switch", "-")
    day.may_not(43, "switch", "HEAD~1")
    day.holds(main)

    day.does("merge", "--squash", "topic")
    day.holds(both)
    assert day.does("log", "--merges", "--oneline").stdout == ""
    day.does("reset", "--hard", "HEAD~1")
    day.does("cherry-pick", "t0..topic")
    assert day.subjects("-n", "3") == ["fir", "Bea", "33"]
    day.holds(both)
    day.does("reset", "--hard", "HEAD~2")
    day.does("cherry-pick", "-x", "topic~1")
    assert "(cherry picked from commit" in day.does("log", "-n", "1").stdout
    day.holds({"trees": main["trees"], "parcels": both["parcels"]})
    day.may_not(44, "cherry-pick", "topic..t0")
    day.does("merge", "--no-ff", "topic", "-m", "Both")
    day.holds(both)
    day.may_not(2, "revert", "HEAD")
    day.may_not(2, "revert", "-m", "3", "HEAD")
    day.does("revert", "-m", "1", "HEAD")
    day.holds({"trees": main["trees"], "parcels": both["parcels"]})
    day.does("commit", "--amend", "-m", "Without fir")
    assert day.subjects("-n", "1") == ["Without fir"]
    day.may_not(20, "clean")
    assert day.does("branch", "--merged").stdout.split() == ["*", "main", "topic"]
    day.does("branch", "-d", "topic")
    day.may_not(43, "branch", "-d", "topic")
    day.does("fsck")


@pytest.mark.thorough
def test_an_afternoon_of_stashes_and_looking_back(day: Day) -> None:
    start = first(day)
    edited = day.edits(start, "parcels", 1, area=77)
    day.does("stash", "push", "-m", "seventy-seven")
    assert "seventy-seven" in day.does("stash", "list").stdout
    shown = day.does("stash", "show").stdout
    assert "parcels:feature:1" in shown and "77" in shown
    assert day.does("status", "-s").stdout == ""
    for verb in ("branch", "clear", "save"):
        assert f"'stash {verb}'" in day.may_not(2, "stash", verb)
    day.may_not(40, "stash", "show", "stash@{9}")
    day.does("switch", "-c", "later")
    day.does("stash", "pop")
    day.does("commit", "-m", "Later")
    day.holds(edited)
    day.may_not(40, "stash", "drop")
    day.holds(start, "main")

    assert day.does("diff", "--stat", "main").stdout.splitlines()[0].split()[0] == "parcels"
    assert day.does("diff", "--name-only", "main").stdout == "parcels\n"
    assert day.does("diff", "--name-status", "main").stdout == "M\tparcels\n"
    assert day.does("diff", "--shortstat", "main").stdout == " 1 dataset changed, 1 row updated\n"
    assert day.subjects("-S", "77") == ["Later"]
    assert day.subjects("-G", "^7.$") == ["Later"]
    assert day.subjects("--grep", "Tre") == ["Trees"]
    assert day.subjects("--author", "nobody") == []
    assert day.subjects("--until", "2001-01-01") == []
    assert day.subjects("--", "parcels:feature:1") == ["Later", "Parcels"]
    assert day.may_not(2, "log", "--grep", "[").count("Error") == 1
    assert "parcels | 1 row updated" in day.does("show", "--stat").stdout
    assert day.does("grep", "77").stdout == "parcels:feature:1:area=77\n"
    day.may_not(1, "grep", "77", "main")
    assert day.does("describe", "--tags").stdout.startswith("t0-1-g")
    day.does("tag", "-a", "v1", "-m", "First")
    assert day.does("describe").stdout == "v1\n"
    day.may_not(2, "tag", "v1")
    assert "commit: Later" in day.does("reflog", "-n", "1").stdout

    day.does("mv", "trees", "woods")
    assert day.subjects("--follow", "woods") == ["Move trees to woods", "Trees"]
    day.does("rm", "parcels")
    assert day.does("data", "ls").stdout.split() == ["woods"]
    day.does("reset", "--hard", "v1")
    day.holds(edited)
    day.does("fsck")


@pytest.mark.thorough
def test_an_evening_of_gits_own_commands(day: Day, tmp_path: Path) -> None:
    start = first(day)
    named = day.commits(start, "parcels", 1, "Anna", owner="Anna")
    bad = day.commits(named, "parcels", 2, "Bob", owner="Bob")
    last = day.commits(bad, "trees", 1, "yew", name="yew")

    # What finds the commit that brought Bob is a script that looks at the data.
    script = tmp_path / "look.sh"
    script.write_text(f"{PROGRAM} cat parcels -o json-lines | grep -q Bob && exit 1 || exit 0\n")
    run_git("bisect", "start", "main", "t0", cwd=day.repo)
    found = run_git("bisect", "run", "sh", str(script), cwd=day.repo)
    run_git("bisect", "reset", cwd=day.repo)
    assert "is the first bad commit" in found
    assert found.split("is the first bad commit")[0].split()[-1] == (
        run_git("rev-parse", "main~1", cwd=day.repo).strip()
    )
    for verb in ("bisect", "worktree", "notes", "archive", "bundle", "shortlog"):
        assert f"`git {verb}" in day.may_not(2, verb)

    run_git("worktree", "add", "-q", str(tmp_path / "old"), "t0", cwd=day.repo)
    Day(tmp_path / "old").holds(start)
    run_git("worktree", "remove", str(tmp_path / "old"), cwd=day.repo)

    # An alias of git's is one here; what runs a program is git's alone.
    for name, text in (("last", "log -n 1 --format=%s"), ("sh", "!true"), ("a", "b"), ("b", "a")):
        run_git("config", f"alias.{name}", text, cwd=day.repo)
    assert day.does("last").stdout == "yew\n"
    assert "`git sh`" in day.may_not(2, "sh")
    assert "leads to itself" in day.may_not(2, "a")

    # A shallow clone, made whole; then both sides commit, and the pull is a rebase.
    hub = tmp_path / "hub.git"
    run_git("init", "-q", "--bare", "-b", "main", str(hub), cwd=tmp_path)
    day.does("remote", "add", "origin", hub)
    day.does("push", "-u", "origin", "main")
    clone = ("clone", "--depth", "1", "--workingcopy", "wc.gpkg")
    assert invoke([*clone, hub.as_uri(), tmp_path / "b"]).exit_code == 0
    other = Day(tmp_path / "b")
    other.holds(last)
    assert other.subjects() == ["yew"]
    other.does("fetch", "--unshallow")
    assert other.subjects() == ["yew", "Bob", "Anna", "Parcels", "Trees"]
    other.holds(start, "main~3")
    other.may_not(20, "fetch", "--unshallow")
    other.may_not(2, "fetch", "--depth", "x")
    run_git("config", "pull.rebase", "true", cwd=other.repo)
    theirs = day.commits(last, "trees", 3, "Rowan", name="rowan")
    day.does("push")
    mine = other.commits(last, "parcels", 3, "Cleo", owner="Cleo")
    other.may_not(20, "push")
    other.does("pull")
    other.holds({"trees": theirs["trees"], "parcels": mine["parcels"]})
    assert other.subjects("-n", "2") == ["Cleo", "Rowan"]
    other.does("push")
    other.does("fsck")
