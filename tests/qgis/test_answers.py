"""What the command prints is what the plugin reads: each answer by the real command."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import invoke, succeed

ROWS = "id,material,note,lon,lat\n1,wood,,174.7,-36.8\n2,steel,,174.8,-36.9\n3,stone,,174.9,-36.7\n"
Plugin = Callable[[str], Any]


def edit(file: Path, *statements: str) -> None:
    layer = sqlite3.connect(file)
    for name in ("IsEmpty", "MinX", "MaxX", "MinY", "MaxY"):
        layer.create_function(f"ST_{name}", 1, lambda shape: None)
    with layer:
        for statement in statements:
            layer.execute(statement)
    layer.close()


@pytest.fixture
def park(tmp_path: Path) -> Path:
    source, park = tmp_path / "benches.csv", tmp_path / "park"
    source.write_text(ROWS, "utf-8")
    succeed(invoke(["init", park]))
    options = ["--primary-key", "id", "--crs", "EPSG:4326", "--csv-drop-coordinates"]
    succeed(invoke(["-C", park, "import", source, *options]))
    succeed(invoke(["-C", park, "create-workingcopy"]))
    return park


def told(park: Path, arguments: list[str]) -> Any:
    return json.loads(succeed(invoke(["-C", park, *arguments])).stdout)


@pytest.mark.thorough
def test_status_tells_where_head_is_and_what_is_edited(
    park: Path, plugin: Plugin, capfd: pytest.CaptureFixture[str]
) -> None:
    answers, commands = plugin("answers"), plugin("commands")
    edit(park / "park.gpkg", "UPDATE benches SET material = 'oak' WHERE id = 1")
    edit(park / "park.gpkg", "DELETE FROM benches WHERE id = 2")

    status = answers.parse_status(told(park, commands.STATUS))

    assert status.branch == "main" and len(status.commit) == 40
    assert Path(status.file) == park / "park.gpkg"
    assert status.edits == {"benches": answers.Edits(answers.Counts(0, 1, 1))}
    assert str(status.edits["benches"].rows) == "~1 −1"
    assert answers.parse_datasets(told(park, commands.DATASETS)) == ["benches"]
    capfd.readouterr()
    succeed(invoke(["-C", park, *commands.BRANCHES]))  # git itself prints them
    assert answers.parse_branches(capfd.readouterr().out) == (["main"], [])


@pytest.mark.thorough
def test_a_working_copy_that_is_gone_is_no_file(park: Path, plugin: Plugin) -> None:
    (park / "park.gpkg").unlink()
    status = plugin("answers").parse_status(told(park, plugin("commands").STATUS))
    assert status.copy is not None and not status.copy.found
    assert status.file == ""


@pytest.mark.thorough
@pytest.mark.parametrize("form", [[], ["--kart"]])
def test_a_working_copy_is_made_anew_but_never_over_edits(
    tmp_path: Path, plugin: Plugin, form: list[str]
) -> None:
    """Kart's repositories ask on a terminal, and a plugin has none."""
    source, park = tmp_path / "benches.csv", tmp_path / "park"
    source.write_text(ROWS, "utf-8")
    succeed(invoke(["init", *form, park]))
    options = ["--primary-key", "id", "--crs", "EPSG:4326", "--csv-drop-coordinates"]
    succeed(invoke(["-C", park, "import", source, *options]))
    commands, file = plugin("commands"), park / "park.gpkg"
    make = ["-C", park, *commands.create_working_copy()]
    for _ in range(2):
        succeed(invoke(make))
        assert file.exists()
    file.unlink()
    succeed(invoke(make))
    edit(file, "UPDATE benches SET material = 'oak' WHERE id = 1")

    assert invoke(make).exit_code == (20 if form else 29)

    status = plugin("answers").parse_status(told(park, commands.STATUS))
    assert status.edits["benches"].rows.updates == 1


@pytest.mark.thorough
def test_changed_rows_come_with_their_key_and_columns(park: Path, plugin: Plugin) -> None:
    changes, commands = plugin("changes"), plugin("commands")
    edit(
        park / "park.gpkg",
        "ALTER TABLE benches ADD COLUMN seats INTEGER",
        "UPDATE benches SET seats = 3 WHERE id = 3",
        "DELETE FROM benches WHERE id = 2",
    )
    lines = succeed(invoke(["-C", park, *commands.diff()])).stdout.splitlines()

    found, whole = changes.read_changes(lines, 10)
    assert whole
    of = found["benches"]
    assert [(row.kind, of.key(row)) for row in of.rows] == [("delete", [2]), ("update", [3])]
    assert of.rows[1].columns == ["seats"]
    assert (of.geometry.name, of.geometry.crs) == ("geom", "EPSG:4326")
    assert "seats" in [column.name for column in of.columns]

    fewer, whole = changes.read_changes(lines, 1)
    assert not whole and len(fewer["benches"].rows) == 1


@pytest.mark.thorough
def test_history_and_blame_name_commits(park: Path, plugin: Plugin) -> None:
    answers, commands = plugin("answers"), plugin("commands")
    edit(park / "park.gpkg", "UPDATE benches SET material = 'oak' WHERE id = 1")
    filters = ["benches:feature:1"]
    committed = told(park, commands.commit("Oak\n\nSeen on site", filters))

    log = answers.parse_log(told(park, commands.history()))
    assert log[0].subject == "Oak"
    assert log[0].id == committed["kart.commit/v1"]["commit"]
    assert log[0].counts == {"benches": answers.Counts(updates=1)}
    assert log[1].counts == {"benches": answers.Counts(inserts=3)}
    of_row = answers.parse_log(told(park, commands.history("benches:feature:2")))
    assert len(of_row) == 1
    cells = answers.parse_blame(told(park, commands.blame("benches", [1], ["id", "material"])))
    assert cells.cells["material"].subject == "Oak"
    assert cells.cells["id"].id == log[1].id
    row = told(park, commands.row_at(log[1].id, "benches", [1]))
    assert row["material"] == "wood"
    described = told(park, ["describe", "-o", "json", "--", "benches"])
    assert answers.parse_key_columns(described) == ["id"]


@pytest.mark.thorough
def test_conflicts_name_the_cells_to_choose(park: Path, plugin: Plugin) -> None:
    answers, commands = plugin("answers"), plugin("commands")
    file = park / "park.gpkg"
    for branch, material, note in (("theirs", "oak", "same"), ("main", "ash", "same")):
        start = ["switch", "main"] if branch == "main" else commands.new_branch(branch)
        succeed(invoke(["-C", park, *start]))
        edit(file, f"UPDATE benches SET material = '{material}', note = '{note}' WHERE id = 1")
        if branch == "main":
            edit(file, "DELETE FROM benches WHERE id = 2")
        else:
            edit(file, "UPDATE benches SET material = 'oak' WHERE id = 2")
        told(park, commands.commit(branch))
    told(park, commands.merge("theirs"))

    status = answers.parse_status(told(park, commands.STATUS))
    assert (status.merging, status.conflicts) == ("theirs", 2)
    first, second = answers.parse_conflicts(told(park, commands.CONFLICTS))
    assert (first.label, first.cells) == ("benches:feature:1", ("material",))
    assert (second.label, second.cells) == ("benches:feature:2", ())
    succeed(invoke(["-C", park, *commands.resolve(first.label, columns={"material": "ancestor"})]))
    succeed(invoke(["-C", park, *commands.resolve(second.label, "theirs")]))
    told(park, commands.MERGE_CONTINUE)
    row = told(park, commands.row_at("HEAD", "benches", [1]))
    assert (row["material"], row["note"]) == ("wood", "same")


def test_a_failure_has_the_commands_line_and_its_advice(park: Path, plugin: Plugin) -> None:
    answers, commands = plugin("answers"), plugin("commands")
    failed = invoke(["-C", park, *commands.switch("none")])
    failure = answers.Answer(failed.exit_code, failed.stdout, failed.stderr).failure()
    assert failure.message == "there is no branch 'none'"
    assert failure.hints[0] == "`havasu-vc switch -c none` makes it"
    assert failure.code == 47 or failure.code == 43

    document = {"kind": "state", "message": "no", "hints": ["try"], "exitCode": 20}
    failure = answers.Answer(20, "", json.dumps(document)).failure()
    assert (failure.message, failure.hints) == ("no", ("try",))
    assert answers.Answer(0, "", "").failure() is None
    assert answers.Answer(0, "", "", cancelled=True).failure().message == "Cancelled"
    assert answers.Answer(9, "", "").failure().message.endswith("exit code 9")


@pytest.mark.parametrize("value", [None, [], {}, 3, {"kart.status/v2": None}, [{}]])
def test_what_is_no_answer_is_read_as_nothing(value: Any, plugin: Plugin) -> None:
    answers = plugin("answers")
    assert answers.parse_status(value) == answers.Status()
    assert answers.parse_datasets(value) == []
    assert answers.parse_conflicts(value) == []
    assert answers.parse_blame(value).cells == {}
    assert answers.parse_key_columns(value) == []
