"""`grep`, `log -S`, `log -G` and `log --format`, beside git on a text file of the same rows."""

import json
from pathlib import Path

import pytest

from havasu_vc import Repo
from tests.cli.conftest import Run, succeed
from tests.repo.points import Rows, make, write
from tests.support.git import run_git

FIRST: Rows = {1: ("kauri", 7), 2: ("Totara", 70), 3: ("rimu", None), 4: ("7 kauri", 12)}
VERSIONS: tuple[Rows, ...] = (
    FIRST,
    {**FIRST, 3: ("rimu", 7)},
    {**FIRST, 3: ("matai", 7)},
    {key: row for key, row in FIRST.items() if key != 3},
)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with a commit of each version, and beside the rows a file of them."""
    repo = make(tmp_path / "repo", FIRST)
    for number, rows in enumerate(VERSIONS[1:], 1):
        write(repo, rows, message=f"Version {number}")
    return repo.path


def lines(text: str) -> list[str]:
    return text.splitlines()


def test_rows_that_hold_a_value(run: Run, repo: Path) -> None:
    assert lines(succeed(run("grep", "kauri")).stdout) == [
        "points:feature:1:name=kauri",
        "points:feature:4:name=7 kauri",
    ]
    assert sorted(lines(succeed(run("grep", "7", "HEAD~1")).stdout)) == [
        "HEAD~1:points:feature:1:height=7",
        "HEAD~1:points:feature:3:height=7",
        "HEAD~1:points:feature:4:name=7 kauri",
    ]
    assert lines(succeed(run("grep", "-i", "tOT", "points")).stdout) == [
        "points:feature:2:name=Totara"
    ]
    assert lines(succeed(run("grep", "-E", "^(r|m)", "HEAD~1")).stdout) == [
        "HEAD~1:points:feature:3:name=matai"
    ]
    assert lines(succeed(run("grep", "-c", "7", "HEAD~1")).stdout) == ["HEAD~1:points:3"]
    assert lines(succeed(run("grep", "-l", "7")).stdout) == ["points"]
    assert succeed(run("grep", "--columns", "height", "-c", "7")).stdout == "points:1\n"


def test_as_json_lines(run: Run) -> None:
    found = [
        json.loads(line) for line in lines(succeed(run("grep", "12", "-o", "json-lines")).stdout)
    ]

    assert found == [
        {
            "dataset": "points",
            "key": "4",
            "columns": ["height"],
            "row": {"id": 4, "name": "7 kauri", "height": 12},
        }
    ]


def test_nothing_found_and_bad_input(run: Run) -> None:
    assert (run("grep", "nowhere").exit_code, run("grep", "nowhere").stdout) == (1, "")
    for arguments, code in (
        (("grep", ""), 2),
        (("grep", "-E", "("), 2),
        (("grep", "-E", "-F", "a"), 2),
        (("grep", "a", "nothing"), 2),
        (("grep", "a", "--", "points:feature:1"), 2),
        (("log", "-S", ""), 2),
        (("log", "-G", ""), 2),
        (("log", "-G", "("), 2),
        (("log", "-G", "a", "-S", "a"), 2),
        (("log", "-G", "a", "--graph"), 2),
        (("log", "--date", "iso"), 2),
        (("log", "--format", "%h", "-p"), 2),
    ):
        assert run(*arguments).exit_code == code, arguments


def test_a_value_that_begins_with_a_dash(run: Run) -> None:
    found = succeed(run("grep", "-e", "matai", "HEAD~1", "points")).stdout
    assert found == "HEAD~1:points:feature:3:name=matai\n"
    assert run("grep", "-e", "-x").exit_code == 1
    assert run("grep").exit_code == 2


def test_a_dataset_at_a_revision_is_written_in_two_words(run: Run) -> None:
    refused = run("grep", "one", "points@HEAD^")
    assert refused.exit_code == 2 and "Hint: write it as `HEAD^ points`" in refused.stderr
    refused = run("grep", "one", "HEAD", "roads")
    assert "there is no dataset 'roads' at HEAD" in refused.stderr


def test_a_table_without_a_key(run: Run, repo: Path, tmp_path: Path) -> None:
    source = tmp_path / "notes.csv"
    source.write_text("note,count\nseen,7\ngone,8\n")
    succeed(run("import", source, "--no-primary-key"))

    (line,) = lines(succeed(run("grep", "seen")).stdout)

    assert line.startswith("notes:feature:") and line.endswith(":note=seen")


def test_commits_that_changed_a_row_which_holds_a_value(run: Run, repo: Path) -> None:
    def found(*arguments: str) -> list[str]:
        return lines(succeed(run("log", "--format=%s", *arguments)).stdout)

    assert found("-S", "rimu")[:-1] == ["Version 2", "Version 1"]
    assert found("-S", "matai") == ["Version 3", "Version 2"]
    assert found("-S", "7", "-n", "2") == ["Version 3", "Version 2"]
    assert found("-S", "7", "--skip", "1", "-n", "1", "points") == ["Version 2"]
    assert found("-S", "nowhere") == []
    succeed(run("mv", "points", "maps/points"))
    # A move changed no row.
    assert found("-S", "matai", "--follow", "maps/points") == ["Version 3", "Version 2"]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "regex",
    ["^2,|r.mu", "rimu|matai", "[a-z]+tai", "[0-9]{2}", "7", "(?i)TOTARA", "nowhere", "^1,"],
)
def test_commits_that_changed_a_row_which_matches(
    run: Run, repo: Path, tmp_path: Path, regex: str
) -> None:
    """Beside `git log -G` on the rows as lines of a file."""
    beside = tmp_path / "beside"
    run_git("init", "-q", beside, cwd=tmp_path)
    for number, rows in enumerate(VERSIONS):
        text = "".join(f"{key},{name},{height}\n" for key, (name, height) in rows.items())
        (beside / "rows.csv").write_text(text)
        run_git("add", "rows.csv", cwd=beside)
        run_git("commit", "-q", "-m", f"Version {number}", cwd=beside)
    # Git's expressions have no flags, and its lines end where our values do.
    options = ("-i", "-G", regex.removeprefix("(?i)")) if "(?i)" in regex else ("-G", regex)
    by_git = lines(run_git("log", "--format=%s", *options, cwd=beside))
    first = lines(run_git("log", "--format=%s", "--reverse", cwd=repo))[0]
    by_git = [first if subject == "Version 0" else subject for subject in by_git]

    ours = lines(succeed(run("log", "--format=%s", "-G", regex.replace(",", "$"))).stdout)

    assert ours == by_git
    told = succeed(run("log", "-o", "json-lines", "-G", regex.replace(",", "$"), "points")).stdout
    assert [json.loads(line)["message"].strip() for line in lines(told)] == by_git


def test_of_one_row_and_of_a_dataset_that_was_moved(run: Run, repo: Path) -> None:
    def found(*arguments: str) -> list[str]:
        return lines(succeed(run("log", "--format=%s", "-G", *arguments)).stdout)

    assert found("^7$", "points:feature:3") == ["Version 3", "Version 2", "Version 1"]
    assert found("^7$", "points:feature:4") == []
    assert found("^7$", "-n", "1", "--skip", "1") == ["Version 2"]
    assert found("^7$", "HEAD~2..HEAD~1") == ["Version 2"]
    succeed(run("mv", "points", "maps/points"))
    assert found("^m.*i$", "--follow", "maps/points") == ["Version 3", "Version 2"]


def test_values_match_as_they_are_printed(run: Run, repo: Path, tmp_path: Path) -> None:
    source = tmp_path / "kinds.csv"
    source.write_text("id,day,width,open\n1,2020-01-31,0.5,true\n2,2021-02-01,12.25,false\n")
    succeed(run("import", source, "--primary-key", "id", "-m", "Kinds"))
    for regex in ("^2020-", r"^12\.25$", "^tru", "^[12]$"):
        assert lines(succeed(run("log", "--format=%s", "-G", regex, "kinds")).stdout) == ["Kinds"]
        assert run("grep", "-E", regex, "HEAD", "kinds").exit_code == 0
    assert succeed(run("log", "-G", "^1999", "kinds")).stdout == ""
    assert succeed(run("grep", "-E", r"\.25$")).stdout == "kinds:feature:2:width=12.25\n"


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "form", ["%h %an <%ae> %s|%P", "oneline", "fuller", "format:%H", "%ad%x09%d", "reference"]
)
def test_commits_are_printed_as_git_prints_them(run: Run, repo: Path, form: str) -> None:
    by_git = run_git("log", f"--format={form}", "--date=iso", cwd=repo)

    ours = succeed(run("log", "--format", form, "--date", "iso")).stdout

    assert ours.rstrip("\n") == by_git.rstrip("\n")


def test_of_filters_and_ranges(run: Run, repo: Path) -> None:
    def found(*arguments: str) -> list[str]:
        return lines(succeed(run("log", "--pretty=%s", *arguments)).stdout)

    assert found("HEAD~2..HEAD") == ["Version 3", "Version 2"]
    assert found("points:feature:1") == lines(run_git("log", "--format=%s", "HEAD~3", cwd=repo))
    assert found("--grep", "Version 1") == ["Version 1"]
    assert len(lines(succeed(run("log", "--graph", "--format=%s")).stdout)) == 4
    assert Repo.open(repo).head().commit == run_git("rev-parse", "HEAD", cwd=repo).strip()
