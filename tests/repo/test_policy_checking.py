from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import shapely

from havasu_vc import Repo, Settings
from havasu_vc.errors import (
    InvalidArgumentError,
    InvalidFileError,
    MissingProgramError,
    SchemaViolationError,
)
from havasu_vc.review import ReviewRequest
from havasu_vc.review.markdown import format_markdown
from havasu_vc.review.policy import Policy, parse_policy
from havasu_vc.review.report import PolicyFinding
from havasu_vc.review.reviewing import review
from tests.repo import points as small
from tests.repo import tables
from tests.support.git import run_git
from tests.support.templates import empty_repo
from tests.workspace import by_hand
from tests.workspace.sheets import rows_of


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = empty_repo(tmp_path / "repo", settings=Settings(engine="local"))
    repo.import_(
        tables.write(tmp_path / "a.parquet", tables.points(100)), "a", options=tables.BY_ID
    )
    return repo


def edited(repo: Repo, *rows: dict[str, Any], gone: int = 0) -> None:
    """Commit rows, given by what is not as it was, and delete the last ones."""
    now = {row["id"]: row for row in repo.table("a").to_arrow().to_pylist()}
    if rows:
        found = [now.get(row["id"], now[0]) | row for row in rows]
        repo.write("a", pa.Table.from_pylist(found, repo.table("a").to_arrow().schema))
    if gone:
        ids = pa.table({"id": pa.array(range(100 - gone, 100), pa.int64())})
        repo.write("a", ids, mode="delete")


def findings(repo: Repo, rules: str, revisions: str = "HEAD^..HEAD") -> list[PolicyFinding]:
    policy = parse_policy(f"[[dataset]]\n{rules}".encode())
    return list(review(repo.opened, ReviewRequest(revisions, policy=policy)).findings)


BOW_TIE = shapely.to_wkb(shapely.from_wkt("POLYGON ((0 0, 1 1, 1 0, 0 1, 0 0))"))
FAR = shapely.to_wkb(shapely.Point(500, 0))

BROKEN: dict[str, tuple[str, dict[str, Any], str]] = {
    "max-deletes": ("max-deletes = 4", {"gone": 5}, "5 rows deleted, and 4 may be"),
    "max-delete-share": (
        "max-delete-share = 0.049",
        {"gone": 5},
        "5.000% of the rows deleted, and 4.900% may be",
    ),
    "required-columns": (
        'required-columns = ["name"]',
        {"rows": [{"id": 1, "name": None}, {"id": 2, "name": "x"}]},
        "1 row without `name`",
    ),
    "valid-geometry": (
        "valid-geometry = true",
        {"rows": [{"id": 1, "geom": BOW_TIE}]},
        "1 row with a geometry that is not valid",
    ),
    "bounds": (
        "bounds = [-180, -90, 180, 90]",
        {"rows": [{"id": 1, "geom": FAR}, {"id": 2, "name": "x"}]},
        "1 row outside of -180 -90 180 90",
    ),
    "unique": (
        'unique = [["name"], ["id"]]',
        {"rows": [{"id": 1, "name": "row 7"}]},
        "1 value of `name` in several rows",
    ),
    "check": (
        "[[dataset.check]]\nname = 'small'\nsql = 'number < 10'",
        {"rows": [{"id": 1, "number": 10}, {"id": 2, "number": None}, {"id": 3, "number": 9}]},
        "1 row against the check `small`",
    ),
}
KEPT: dict[str, tuple[str, dict[str, Any]]] = {
    "max-deletes": ("max-deletes = 5", {"gone": 5}),
    "max-delete-share": ("max-delete-share = 0.05", {"gone": 5}),
    "required-columns": ('required-columns = ["name"]', {"rows": [{"id": 1, "number": None}]}),
    "valid-geometry": ("valid-geometry = true", {"rows": [{"id": 1, "name": "x"}]}),
    "bounds": ("bounds = [-180, -90, 180, 90]", {"rows": [{"id": 1, "name": "x"}]}),
    "unique": ('unique = [["name"]]', {"rows": [{"id": 1, "name": None}, {"id": 2, "name": None}]}),
    "check": ("[[dataset.check]]\nsql = 'number < 10'", {"gone": 3}),
    "elsewhere": ('path = "b*"\nmax-deletes = 0', {"gone": 5}),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("rule", BROKEN)
def test_what_is_against_a_rule(repo: Repo, rule: str) -> None:
    rules, edit, message = BROKEN[rule]
    edited(repo, *edit.get("rows", ()), gone=edit.get("gone", 0))
    (found,) = findings(repo, rules)

    assert (found.rule, found.message, found.refuses, found.dataset) == (rule, message, True, "a")
    if edit.get("rows") and rule != "unique":
        assert found.rows == ("1",)
    (warning,) = findings(repo, f'level = "warn"\n{rules}')
    assert not warning.refuses


@pytest.mark.few(2)
@pytest.mark.parametrize("rule", KEPT)
def test_what_is_within_a_rule(repo: Repo, rule: str) -> None:
    rules, edit = KEPT[rule]
    edited(repo, *edit.get("rows", ()), gone=edit.get("gone", 0))

    assert findings(repo, rules) == []


def test_what_was_there_before_is_not_held_against_a_change(repo: Repo) -> None:
    edited(repo, {"id": 1, "name": "row 7"})
    edited(repo, {"id": 2, "number": 3})

    assert findings(repo, 'unique = [["name"]]') == []


@pytest.mark.parametrize(
    "kind", ["add-column", "remove-column", "rename-column", "reorder-columns"]
)
def test_schema_changes(repo: Repo, kind: str) -> None:
    columns = repo.get_meta("a", ["schema.json"])["schema.json"]
    match kind:
        case "add-column":
            columns.append({"name": "more", "dataType": "text"})
        case "remove-column":
            columns = [column for column in columns if column["name"] != "name"]
        case "rename-column":
            next(column for column in columns if column["name"] == "name")["name"] = "label"
        case "reorder-columns":
            columns = columns[::-1]
    repo.set_meta("a", {"schema.json": columns})
    (found,) = findings(repo, "schema-changes = []")

    assert found.rule == "schema-changes"
    assert findings(repo, f'schema-changes = ["{kind}"]') == []
    assert findings(repo, "") == []


def test_required_and_unique_columns_that_are_not_there(repo: Repo) -> None:
    edited(repo, gone=1)
    found = findings(repo, 'required-columns = ["owner"]\nunique = [["sheet"]]')

    assert [each.message for each in found] == [
        "column `owner` is not there",
        "column `sheet` is not there",
    ]


def test_removal(repo: Repo) -> None:
    (found,) = findings(repo, "allow-removal = false", "HEAD..[EMPTY]")

    assert found.message == "the dataset is removed"


def test_the_policy_is_that_of_the_base(repo: Repo) -> None:
    commit_policy(repo, "[[dataset]]\nmax-deletes = 3\n")
    edited(repo, gone=4)
    commit_policy(repo, "[[dataset]]\nmax-deletes = 1000\n")

    found = repo.review("HEAD~2..HEAD")
    page = format_markdown(found)

    assert [finding.message for finding in found.findings] == ["4 rows deleted, and 3 may be"]
    assert "the policy changes too" in found.notes[0]
    assert "- ❌ `a`: 4 rows deleted, and 3 may be" in page
    assert repo.review("HEAD~3..HEAD").findings == ()


def commit_policy(repo: Repo, text: str) -> None:
    file = repo.path / ".havasu" / "policy.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    run_git("add", ".havasu", cwd=repo.path)
    run_git("commit", "-q", "-m", "Policy", cwd=repo.path)


def test_a_commit_that_the_policy_refuses(tmp_path: Path) -> None:
    notes: list[str] = []
    repo = small.make(tmp_path / "repo", {n: (f"r{n}", n) for n in range(5)})
    repo = repo.with_settings(Settings(engine="local", note=notes.append))
    commit_policy(
        repo,
        '[[dataset]]\nmax-deletes = 0\n[[dataset]]\nlevel = "warn"\nrequired-columns = ["name"]\n',
    )
    before = repo.head()
    repo.keep_policy()
    keys = pa.table({"id": pa.array([1], pa.int64())})
    with pytest.raises(SchemaViolationError, match="points: 1 row deleted, and 0 may be") as caught:
        repo.write("points", keys, mode="delete")
    assert "--no-verify" in caught.value.hints[0]
    assert repo.head() == before
    small.assert_clean(repo)

    repo.write("points", small.table({2: (None, 2)}))
    assert notes == ["policy: points: 1 row without name (2)"]
    repo.opened.check_edits = None
    repo.write("points", keys, mode="delete")
    assert repo.head() != before


def test_edits_in_the_workspace_are_held_to_it(repo: Repo) -> None:
    commit_policy(repo, "[[dataset]]\nmax-deletes = 1\n")
    repo.workspace.check_out()
    by_hand.delete(repo.workspace.root / "a", [1, 2])
    repo.keep_policy()

    with pytest.raises(SchemaViolationError, match="a: 2 rows deleted, and 1 may be"):
        repo.workspace.commit(message="Edits")
    assert len(rows_of(repo, "a")) == 98  # the edits are still there
    repo.opened.check_edits = None
    repo.workspace.commit(message="Edits")
    assert len(tables.rows(repo, "a")) == 98


def test_a_policy_with_an_error(repo: Repo) -> None:
    commit_policy(repo, "[[dataset]]\nmax-delete = 0\n")
    edited(repo, gone=1)

    with pytest.raises(InvalidFileError, match="line 2: 'max-delete' is not known"):
        repo.review("HEAD^..HEAD")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "sql",
    [
        "nothing > 0",
        "number > ",
        "true) FROM havasu_rows; SELECT (true",
        "(SELECT count(*) FROM read_csv('/etc/passwd')) > 0",
        "(SELECT 1 FROM '/etc/passwd') = 1",
        "getenv('HOME') = 'x'",
        "true FROM range(3)) UNION ALL (SELECT (true",
    ],
)
def test_expressions_that_cannot_be_run(repo: Repo, sql: str) -> None:
    edited(repo, {"id": 1, "number": 5})

    with pytest.raises(InvalidArgumentError, match="the check"):
        findings(repo, f"[[dataset.check]]\nsql = {sql!r}")


def test_rows_that_cannot_be_read_are_not_checked(repo: Repo) -> None:
    edited(repo, gone=50)
    for path in (repo.git.data_folder / "objects").rglob("*"):
        if path.is_file():
            path.unlink()

    assert [found.rule for found in findings(repo, "max-deletes = 5")] == ["data"]


def test_without_duckdb(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "duckdb", None)
    edited(repo, gone=1)

    with pytest.raises(MissingProgramError, match="duckdb is not installed"):
        findings(repo, "[[dataset.check]]\nsql = 'true'")
    assert review(repo.opened, ReviewRequest("HEAD^..HEAD", policy=Policy())).findings == ()


def test_kart_datasets(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "kart", kart=True)
    repo.import_(
        tables.write(tmp_path / "a.parquet", tables.points(100)), "a", options=tables.BY_ID
    )
    edited(repo, {"id": 1, "name": "row 7"})

    (found,) = findings(repo, 'unique = [["name"]]')
    assert found.message == "1 value of `name` in several rows"


@pytest.mark.parametrize("kart", [False, True])
def test_a_merge_is_held_against_its_first_parent(tmp_path: Path, kart: bool) -> None:
    repo = empty_repo(tmp_path / "repo", kart=kart)
    repo.import_(
        tables.write(tmp_path / "a.parquet", tables.points(100)), "a", options=tables.BY_ID
    )
    repo.create_branch("side")
    edited(repo, {"id": 1, "number": 50})
    repo.switch("side")
    edited(repo, {"id": 2, "number": 60})
    repo.switch("main")
    assert repo.merge("side").kind == "merge"

    (found,) = findings(repo, "[[dataset.check]]\nsql = 'number < 10'", "HEAD^..HEAD")
    assert found.rows == ("2",)


def test_every_rule_is_in_the_reference() -> None:
    from havasu_vc.review.policy import _RULES, SCHEMA_CHANGES

    text = (Path(__file__).parents[2] / "docs" / "reference" / "policy.md").read_text("utf-8")

    assert {line.split("`")[1] for line in text.splitlines() if line.startswith("| `")} == {*_RULES}
    assert all(f"`{kind}`" in text for kind in SCHEMA_CHANGES)
