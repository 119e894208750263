"""`havasu-vc log`."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from havasu_vc import Repo
from tests.cli.conftest import Run, invoke, succeed
from tests.support.git import run_git


def subjects(run: Run, *arguments: str) -> list[str]:
    commits = json.loads(succeed(run("log", "-o", "json", *arguments)).stdout)
    return [commit["message"].strip() for commit in commits]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), ["Second", "First"]),
        (("-1",), ["Second"]),
        (("-n", "1", "--skip", "1"), ["First"]),
        (("HEAD^",), ["First"]),
        (("HEAD^..HEAD",), ["Second"]),
        (("points",), ["Second", "First"]),
        (("--", "points:meta:title"), []),
        (("--grep", "^Fir"), ["First"]),
        (("--author", "nobody"), []),
        (("--grep", "nothing", "--grep", "^Fir"), ["First"]),
        (("--committer", "nobody"), []),
        (("points/.havasu-dataset/",), ["Second", "First"]),
        (("--until", "2001-01-01"), []),
        (("--merges",), []),
        (("--no-merges", "--reverse"), ["First", "Second"]),
        (("--reverse", "-1"), ["Second"]),
    ],
)
def test_which_commits(run: Run, arguments: tuple[str, ...], expected: list[str]) -> None:
    assert subjects(run, *arguments) == expected


def test_of_no_commit_no_half_of_a_document_is_printed(tmp_path: Path) -> None:
    succeed(invoke(["init", tmp_path / "repo"]))
    for form in ("json", "json-lines"):
        refused = invoke(["-C", tmp_path / "repo", "log", "-o", form])
        assert refused.exit_code == 40 and not refused.stdout


def test_text(run: Run) -> None:
    result = succeed(run("log", "-1"))

    assert result.stdout.startswith("commit ")
    assert "\n    Second\n" in result.stdout
    assert "\x1b" not in result.stdout


def test_lines(run: Run) -> None:
    lines = succeed(run("log", "-o", "json-lines")).stdout.splitlines()

    assert [json.loads(line)["message"].strip() for line in lines] == ["Second", "First"]
    assert len(succeed(run("log", "--oneline")).stdout.splitlines()) == 2


def test_the_graph_is_gits(run: Run) -> None:
    assert succeed(run("log", "--graph", "--oneline", "-1")).stdout.endswith(" Second\n")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("nope",), 2),
        (("nope", "--"), 47),
        (("--grep", "("), 2),
        (("-n", "-1"), 2),
        (("--graph", "-o", "json"), 2),
        (("--graph", "points:meta"), 2),
    ],
)
def test_bad_input(run: Run, arguments: tuple[str, ...], code: int) -> None:
    result = run("log", *arguments)

    assert result.exit_code == code, result.output
    assert result.stderr.startswith("Error: ")


def test_changes_below_each_commit(run: Run) -> None:
    text = succeed(run("log", "-p", "points:feature:2")).stdout
    assert text.count("commit ") == 2 and "+++ points:feature:2" in text
    assert "points:feature:4" not in text, "only what the filter names"
    summed = succeed(run("log", "--shortstat")).stdout.splitlines()
    assert summed[-1] == " 1 dataset changed, 3 rows inserted"
    assert " 1 dataset changed, 1 row inserted, 1 updated, 1 deleted" in summed


def test_changes_of_a_dataset_under_the_path_that_it_had(run: Run) -> None:
    succeed(run("mv", "points", "places"))
    text = succeed(run("log", "--name-status", "places")).stdout
    names = [line for line in text.splitlines() if "\t" in line]
    assert names == ["R\tpoints\tplaces", "M\tpoints", "A\tpoints"]


def test_changes_below_commits_of_one_line(run: Run, repo: Path, git: Callable[..., str]) -> None:
    text = succeed(run("log", "--oneline", "--name-status")).stdout
    commits = git("log", "--format=%h %s", cwd=repo).splitlines()
    assert [line.split("\t") for line in text.splitlines()] == [
        [commits[0]],
        ["M", "points"],
        [commits[1]],
        ["A", "points"],
    ]


def test_changes_are_text(run: Run) -> None:
    refused = run("log", "--stat", "-o", "json")
    assert refused.exit_code == 2 and "as text" in refused.stderr


def test_refs_beside_commits_are_those_of_git(
    run: Run, repo: Path, git: Callable[..., str]
) -> None:
    for arguments in (("tag", "v1"), ("tag", "-a", "v2", "-m", "x", "HEAD^"), ("branch", "dev")):
        git(*arguments, cwd=repo)

    for form in ("short", "full", "no", "auto"):
        theirs = git("log", f"--decorate={form}", "--format=%D", cwd=repo).splitlines()
        lines = succeed(run("log", f"--decorate={form}")).stdout.splitlines()
        ours = [line.partition(" (")[2][:-1] for line in lines if line.startswith("commit ")]
        assert ours == (theirs if form in ("short", "full") else ["", ""])
    short = git("log", "--decorate=short", "--format=%D", cwd=repo).splitlines()
    commits = json.loads(succeed(run("log", "-o", "json")).stdout)
    assert [", ".join(commit["refs"]) for commit in commits] == short
    assert succeed(run("show")).stdout.splitlines()[0] == f"commit {commits[0]['commit']}"
    assert succeed(run("log", "--decorate")).stdout.splitlines()[0].endswith(f" ({short[0]})")
    git("config", "log.decorate", "short", cwd=repo)
    assert succeed(run("log")).stdout.splitlines()[0].endswith(f" ({short[0]})")
    assert succeed(run("log", "--no-decorate")).stdout.splitlines()[0][-1] != ")"


def test_refs_of_a_shallow_clone_with_head_on_no_branch(
    run: Run, repo: Path, tmp_path: Path, git: Callable[..., str]
) -> None:
    clone = tmp_path / "clone"
    git("clone", "-q", "--depth=1", f"file://{repo}", str(clone), cwd=tmp_path)
    git("checkout", "-q", "--detach", cwd=clone)
    (commit,) = json.loads(succeed(run("-C", clone, "log", "-o", "json")).stdout)
    assert ", ".join(commit["refs"]) == git("log", "--format=%D", cwd=clone).strip()


def test_forms_of_git(run: Run, repo: Path, git: Callable[..., str]) -> None:
    theirs = git("log", "--format=%s|%an", cwd=repo)
    assert succeed(run("log", "-o", "text:%s|%an")).stdout == theirs + "\n"
    assert succeed(run("log", "-o", "text:%s", "points:feature:1")).stdout == "First\n"
    compact = succeed(run("log", "-o", "json:compact", "-1")).stdout
    assert len(compact.splitlines()) == 1 and json.loads(compact)


def test_what_commits_changed_in_numbers(run: Run, tmp_path: Path) -> None:
    options = ("--dataset-changes", "--with-feature-count=exact", "--with-change-counts")
    succeed(run("log", "-o", "json", *options, "--output", tmp_path / "log.json"))
    second, first = json.loads((tmp_path / "log.json").read_text())
    assert first["datasetChanges"] == second["datasetChanges"] == ["points"]
    assert (first["featureChanges"], second["featureChanges"]) == ({"points": 3}, {"points": 3})
    assert first["featureChangeCounts"] == {"points": {"inserts": 3}}
    assert second["featureChangeCounts"] == {"points": {"inserts": 1, "updates": 1, "deletes": 1}}
    lines = succeed(run("log", "-o", "json-lines", "-1", "--with-change-counts")).stdout
    (commit,) = map(json.loads, lines.splitlines())
    assert "featureChangeCounts" in commit and "datasetChanges" not in commit


@pytest.mark.parametrize("form", ["xml", "json:wide", "textual"])
def test_forms_that_are_none(run: Run, form: str) -> None:
    refused = run("log", "-o", form)
    assert refused.exit_code == 2 and refused.stderr.startswith("Error: ")
    assert run("log", "--with-change-counts").exit_code == 2


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["kart", "havasu"])
def test_a_row_of_a_dataset_that_is_gone(kind: str, tmp_path: Path) -> None:
    """Its file is looked for where the dataset was last: before it went, or on another branch."""
    repo, source = tmp_path / "repo", tmp_path / "towns.csv"
    source.write_text("id,name\n1,a\n2,b\n")

    def said(*words: str | Path) -> str:
        return succeed(invoke(["-C", repo, *words])).stdout

    succeed(invoke(["init", *(["--kart"] if kind == "kart" else []), repo]))
    said("import", source, "towns:kept", "--primary-key", "id")
    said("switch", "-c", "other")
    said("import", source, "--primary-key", "id")
    said("rm", "towns", "-m", "Gone")
    items = ["towns:feature:1", "towns:feature", *["towns:meta:schema.json"] * (kind == "kart")]
    for item in items:
        found = json.loads(said("log", "other", "-o", "json", "--", item))
        assert [each["message"].split()[0] for each in found] == ["Gone", "Import"], item
    said("switch", "main")
    assert json.loads(said("log", "main", "-o", "json", "--", "towns:feature:1")) == []
    assert invoke(["-C", repo, "log", "--", "never:feature:1"]).exit_code == 49


def test_a_pattern_names_each_dataset_that_it_matches(run: Run) -> None:
    def messages(*filters: str) -> list[str]:
        return succeed(run("log", "--format", "%s", *filters)).stdout.split()

    assert messages("--", "poi*") == messages("--", "points") == ["Second", "First"]
    assert messages("--", "poi*:feature:1") == ["First"]
    assert messages("--", "poi*:meta") == messages("--", "points:meta")


def test_filters_that_leave_no_commit_are_told(run: Run) -> None:
    for named in ("points:feature:99", "nothing"):
        for form in ("text", "json-lines"):
            result = succeed(run("log", "-o", form, "--", named))
            assert result.stdout == ""
            assert result.stderr == f"Note: no commit that was asked for changed {named}\n"
    assert succeed(run("log", "--", "points:feature:2")).stderr == ""
    assert succeed(run("log", "--author", "nobody")).stderr == ""


def test_refs_are_named_without_a_value_of_the_option_as_of_git(run: Run) -> None:
    for line in (("--decorate", "HEAD"), ("HEAD", "--decorate"), ("--decorate", "short", "HEAD")):
        assert "(HEAD -> main)" in succeed(run("log", *line)).stdout
    assert "(HEAD -> refs/heads/main)" in succeed(run("log", "--decorate", "full")).stdout


def test_a_graph_drops_no_option_silently(run: Run) -> None:
    for option in ("-p", "--stat", "--name-only"):
        refused = run("log", "--graph", option)
        assert refused.exit_code == 2 and "--graph draws commits alone" in refused.stderr


@pytest.mark.parametrize("form", ["--stat", "-p", "--name-only"])
def test_what_the_first_commit_of_a_shallow_clone_changed_is_not_known(
    form: str, run: Run, repo: Path, tmp_path: Path
) -> None:
    """`git log` would tell all of it as new."""
    succeed(run("meta", "set", "points", "title=Third"))
    clone = tmp_path / "clone"
    succeed(invoke(["clone", "--depth", "2", repo.as_uri(), clone]))
    shown = succeed(invoke(["-C", clone, "log", "--oneline", form]))
    whole = succeed(run("log", "--oneline", form, "-2")).stdout.splitlines()
    end = next(place for place, line in enumerate(whole) if line.endswith(" Second"))
    assert shown.stdout.splitlines() == whole[: end + 1]
    commit = run_git("rev-parse", "HEAD^", cwd=repo)[:10]
    told = f"begins with {commit}, so what that changed is not known here"
    assert told in shown.stderr
    refused = invoke(["-C", clone, "show", "HEAD^"])
    assert refused.exit_code == 47
    start, hint = refused.stderr.splitlines()
    assert start.startswith("Error: ") and start.endswith(told)
    assert hint.startswith("Hint: `havasu-vc fetch --unshallow` brings them all")
    found = succeed(invoke(["-C", clone, "log", "-S", "TWO", "--oneline"]))
    assert found.stdout == "" and told in found.stderr  # it may be one that put it in


def test_all_branches_and_tags(run: Run, repo: Path) -> None:
    """As `git log --all`, with datasets, rows and values to choose by; but no stash."""

    def change(branch: str, title: str) -> None:
        succeed(run("switch", "-c", branch, "HEAD^"))
        succeed(run("meta", "set", "points", f"title={title}", "-m", f"On {branch}"))

    change("one", "One")
    row = {"id": 2, "name": "zwei", "height": 2.5, "lon": 174.6, "lat": -41.1}
    Repo.open(repo).write("points", pa.Table.from_pylist([row]), message="Two is zwei")
    run_git("branch", "-m", "one", "renamed", cwd=repo)
    run_git("tag", "-a", "-m", "x", "kept", cwd=repo)
    run_git("update-ref", "refs/remotes/origin/far", "HEAD", cwd=repo)
    succeed(run("switch", "main"))
    run_git("branch", "-D", "renamed", cwd=repo)

    def subjects(*arguments: str) -> list[str]:
        shown = succeed(run("log", "--all", "--format=%s", *arguments)).stdout
        return sorted(shown.splitlines())

    everything = run_git("log", "--all", "--format=%s", cwd=repo).splitlines()
    assert subjects() == sorted(everything) == ["First", "On one", "Second", "Two is zwei"]
    assert subjects("--since", "2 years ago", "--grep", "zwei") == ["Two is zwei"]
    assert subjects("--", "points:feature:2") == ["First", "Second", "Two is zwei"]
    assert subjects("--", "points:meta:title") == ["On one"]
    assert subjects("-S", "zwei") == ["Two is zwei"]
    assert "Two is zwei" in succeed(run("log", "--all", "--graph", "--oneline")).stdout
    assert "1 row updated" in succeed(run("log", "--all", "--stat", "--grep", "zwei")).stdout
    assert "Two is zwei" not in succeed(run("log")).stdout


def test_ranges_of_both_sides_and_ties_are_gits(
    run: Run, repo: Path, git: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`A...B` is what either has alone; of commits of one second the first named comes first."""
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2030-01-01T00:00:00Z")
    for branch in ("one", "two"):
        git("switch", "-q", "-c", branch, "main", cwd=repo)
        git("commit", "-q", "--allow-empty", "-m", branch, cwd=repo)
    for text in (
        "one...two",
        "two...one",
        "one two",
        "two one",
        "main two one",
        "one...",
        "main...one",
    ):
        wanted = git("log", "--format=%H", *text.split(), cwd=repo).split()
        found = json.loads(succeed(run("log", *text.split(), "-o", "json")).stdout)
        assert [each["commit"] for each in found] == wanted, text


def test_notes_of_git_are_shown_as_git_shows_them(run: Run, repo: Path) -> None:
    run_git("notes", "add", "-m", "checked\n\nby Bea", "HEAD^", cwd=repo)

    assert run("log").stdout == run_git("log", cwd=repo) + "\n"
    assert "Notes:\n    checked\n" in succeed(run("show", "HEAD^")).stdout
    assert succeed(run("log", "-n", "1")).stdout.count("Notes") == 0
    assert "checked" not in run("log", "--oneline").stdout
    run_git("config", "core.notesRef", "refs/notes/other", cwd=repo)
    assert "Notes" not in run("log").stdout


def test_refs_at_commits_are_chosen_by_patterns(run: Run, repo: Path) -> None:
    for name in ("old", "new"):
        run_git("tag", name, cwd=repo)

    def refs(*options: str) -> list[str]:
        found = json.loads(succeed(run("log", "-1", "-o", "json", *options)).stdout)
        return [str(each) for each in found[0]["refs"]]

    assert refs("--decorate-refs=refs/tags/*") == ["tag: old", "tag: new"]
    assert refs("--decorate-refs=tags", "--decorate-refs-exclude=tags/old") == ["tag: new"]
    assert refs("--decorate-refs-exclude=refs/tags/*", "--decorate-refs-exclude=HEAD") == ["main"]
    drawn = run("log", "--graph", "--oneline", "--grep=(First|Second)", "--decorate-refs=none")
    assert len(succeed(drawn).stdout.splitlines()) == 2
