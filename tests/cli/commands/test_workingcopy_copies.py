"""Tables of the working copy that `import` copies to datasets of other names."""

import json
from pathlib import Path

import pytest

from tests.cli.commands.test_workingcopy import Edit, editor, rows
from tests.cli.commands.test_workingcopy import edit as edit
from tests.cli.commands.test_workingcopy import made as made
from tests.cli.commands.test_workingcopy import repo as repo
from tests.cli.conftest import Run, succeed


@pytest.mark.few(2)
def test_a_table_is_copied_as_it_is_edited(run: Run, edit: Edit, repo: Path) -> None:
    edit("UPDATE points SET name = 'uno' WHERE id = 1")
    with editor(repo / "repo.gpkg") as database:  # made by hand, and listed nowhere
        database.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY NOT NULL, said TEXT)")
        database.execute("INSERT INTO notes VALUES (1, 'hello')")
    succeed(run("import", repo / "repo.gpkg", "points:more", "notes:kept", "-m", "Copies"))
    assert rows(repo, table="more") == [(1, "uno"), (2, "TWO"), (4, "four")]
    assert rows(repo, "id, said", "kept") == rows(repo, "id, said", "notes") == [(1, "hello")]
    told = json.loads(succeed(run("status", "-o", "json")).stdout)["kart.status/v2"]
    changes = told["workingCopy"]["changes"]
    assert changes == {"points": {"feature": {"updates": 1}}}, "what was edited stays edited"

    edit("UPDATE more SET name = 'eins' WHERE id = 1")  # the new table tells of its edits
    assert "more:feature:1" in succeed(run("diff", "more")).stdout
    refused = run("import", repo / "repo.gpkg", "notes:other", "points")
    assert refused.exit_code == 2 and "TABLE:DATASET copies it" in refused.stderr
    assert "Copies" in succeed(run("log", "-n", "1")).stdout
