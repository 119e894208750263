"""An agency: place names of New Zealand, published every day, with a policy and tags."""

import csv
import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.cli.conftest import invoke
from tests.support.git import run_git
from tests.weeks.week import Row, Rows, User, compared, made_by_kart

POLICY = """\
[[dataset]]
path = "names"
max-delete-share = 0.05
required-columns = ["fid", "macronated"]
schema-changes = ["add-column", "rename-column"]
"""


def published(place: Path, rows: Iterable[Row], columns: list[str]) -> Path:
    with place.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)
    return place


@pytest.mark.thorough
def test_a_week(tmp_path: Path, shared_data: Path) -> None:
    kart = User(made_by_kart(shared_data, "points", tmp_path / "kart"), "fid")
    columns = ["fid", "t50_fid", "name_ascii", "macronated", "name"]
    model: Rows = {
        key: {name: row[name] for name in columns}
        for key, row in kart.rows("nz_pa_points_topo_150k").items()
    }
    assert len(model) > 2000
    assert invoke(["init", tmp_path / "register"]).exit_code == 0
    agency = User(tmp_path / "register", "fid")
    file = tmp_path / "release.csv"

    def release(day: str, *options: str) -> None:
        published(file, reversed(model.values()), columns)
        agency.does("import", file, "names", "--replace", "-m", day, *options)
        agency.does("tag", day)
        agency.agrees("names", model)

    # Monday: the first release, and the rules.
    published(file, model.values(), columns)
    agency.does("import", file, "names", "--primary-key", "fid", "-m", "monday")
    agency.does("meta", "set", "names", "title=Place names")
    (agency.repo / ".havasu").mkdir(exist_ok=True)
    (agency.repo / ".havasu" / "policy.toml").write_text(POLICY, encoding="utf-8")
    run_git("add", ".havasu/policy.toml", cwd=agency.repo)
    run_git("commit", "-qm", "Rules", cwd=agency.repo)
    agency.does("tag", "monday")
    agency.agrees("names", model)
    days = {"monday": {key: dict(row) for key, row in model.items()}}

    # Tuesday: names are spelled anew, two come and one goes; told before it is taken.
    some = sorted(model)
    for key in some[:30]:
        model[key]["name"] = f"Ōtara {key}"
    del model[some[40]]
    model |= {9001: {**model[some[0]], "fid": 9001}, 9002: {**model[some[1]], "fid": 9002}}
    published(file, model.values(), columns)
    head = run_git("rev-parse", "HEAD", cwd=agency.repo)
    agency.does("import", file, "names", "--replace", "--dry-run")
    assert run_git("rev-parse", "HEAD", cwd=agency.repo) == head
    release("tuesday")
    days["tuesday"] = {key: dict(row) for key, row in model.items()}
    assert agency.changed("names", "monday...tuesday") == compared(days["monday"], model)

    # Wednesday: half of the table is missing, which the rules refuse; nothing is published.
    agency.does("switch", "-c", "wednesday-try")
    published(file, [model[key] for key in sorted(model)[:1000]], columns)
    agency.does("import", file, "names", "--replace", "-m", "half")
    refused = agency.may_not(1, "check", "main...wednesday-try")
    assert "names" in refused
    agency.does("switch", "main")
    agency.does("branch", "-D", "wednesday-try")
    published(file, [*model.values(), model[some[0]]], columns)
    assert str(some[0]) in agency.may_not(23, "import", file, "names", "--replace")
    agency.agrees("names", model)

    # Thursday: a column comes.
    columns = [*columns, "status"]
    for key, row in model.items():
        row["status"] = "official" if key % 2 else None
    release("thursday")
    agency.does("check", "tuesday...thursday")
    agency.agrees("names", days["tuesday"], "tuesday")

    # Friday: changes are handed out, and a reader who has Thursday's follows by the patch.
    days["thursday"] = {key: dict(row) for key, row in model.items()}
    assert invoke(["clone", agency.repo, tmp_path / "reader"]).exit_code == 0
    reader = User(tmp_path / "reader", "fid")
    reader.agrees("names", days["thursday"])
    model[some[5]]["name"] = 'Te "Wai", ō\nMāui'
    del model[some[6]]
    release("friday")
    agency.does("create-patch", "friday", "--output", tmp_path / "friday.json")
    reader.does("apply", tmp_path / "friday.json")
    reader.agrees("names", model)
    agency.does("export", "names", tmp_path / "changes.csv", "--changes", "thursday...friday")
    with (tmp_path / "changes.csv").open(newline="", encoding="utf-8") as told:
        kinds = [row["_change_type"] for row in csv.DictReader(told)]
    assert kinds == ["update_before", "update_after", "delete"]
    agency.does("export", "names@tuesday", tmp_path / "tuesday.parquet")
    import pyarrow.parquet as pq

    again = {row["fid"]: row for row in pq.read_table(tmp_path / "tuesday.parquet").to_pylist()}
    assert again == days["tuesday"]
    summary = json.loads(agency.does("review", "thursday...friday", "-o", "json").stdout)
    assert summary

    # Saturday: the register gets a shelf, and the week is looked back upon.
    agency.does("mv", "names", "register/names", "-m", "A shelf")
    looked = agency.does("diff", "friday..HEAD", "--name-status").output
    assert looked == "R\tnames\tregister/names\n"
    model[some[7]]["name"] = "Ōtaki"
    published(file, model.values(), columns)
    agency.does("import", file, "register/names", "--replace", "-m", "saturday")
    agency.agrees("register/names", model)
    stat = agency.does("diff", "friday..HEAD", "--stat").output
    assert stat.startswith(" names => register/names | moved; 1 row updated\n")
    of_row = agency.does("log", "--format=%s", f"register/names:feature:{some[7]}").output
    assert of_row.splitlines()[0] == "saturday"
    whole = agency.does("log", "--format=%s", "--reverse", "register/names").output.splitlines()
    assert whole == [
        "monday",
        "Update metadata for names",
        "tuesday",
        "thursday",
        "friday",
        "A shelf",
        "saturday",
    ]
    found = agency.does("grep", "Ōtaki", "-l").output
    assert found == "register/names\n"
    agency.does("revert", "HEAD")
    agency.does("revert", "HEAD~2")
    model = {key: dict(row) for key, row in model.items()}
    assert agency.does("data", "ls").output == "names\n"
    assert agency.does("diff", "friday..HEAD", "--stat").output == ""
    agency.does("validate")
    agency.does("fsck", "--full")
