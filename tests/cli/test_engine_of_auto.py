"""What may outgrow a process is given to Spark by its size, and the command says so.

Conflicts are found by the merge; the commands that show them read what it left.
"""

from pathlib import Path
from typing import Any

import pytest

from havasu_vc.engine import choose
from havasu_vc.engine.local import LocalEngine
from tests.cli.conftest import invoke
from tests.repo.tables import BY_ID, points, write
from tests.support.templates import again, empty_repo

COMMANDS = {
    "import": ["import", "FOLDER/points.parquet", "more", "--primary-key", "id"],
    "release": ["import", "FOLDER/points.parquet", "points", "--replace"],
    "export to a file": ["export", "points", "FOLDER/out.csv"],
    "export to files": ["export", "points", "FOLDER/out", "--to", "parquet-dataset"],
    "export of changes": ["export", "points", "FOLDER/c.csv", "--changes", "HEAD^...HEAD"],
    "diff to a file": ["diff", "HEAD^...HEAD", "-o", "json", "--output", "FOLDER/d.json"],
    "validate": ["validate"],
    "validate a file": ["validate", "FOLDER/points.parquet"],
    "fsck": ["fsck", "--full"],
    "blame": ["blame", "points"],
    "review": ["review", "main...side"],
    "merge": ["merge", "side"],
    "restore": ["restore", "--source", "HEAD^", "points"],
    "optimize": ["optimize", "points"],
    "convert": ["convert", "rows", "--to", "havasu"],
}


def forked(path: Path) -> None:
    """Make a repository of two branches that changed the same rows, and others."""
    repo = empty_repo(path)
    file = path.parent / "points.parquet"
    repo.import_(write(file, points(600)), "points", options=BY_ID)
    repo.import_(file, "rows", options=BY_ID)
    repo.convert("rows", "kart")
    repo.create_branch("side")
    repo.write("points", points(50, name="ours"))
    repo.switch("side")
    repo.write("points", points(40, start=20, name="theirs"))
    repo.switch("main")


@pytest.mark.parametrize("what", COMMANDS)
def test_a_command_says_that_it_chose_spark(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "repo"
    again(("engine-of-auto",), forked, path)
    write(tmp_path / "points.parquet", points(700, name="new"))
    chosen = choose.choose_engine

    def lowered(name: str, *, input_bytes: int, **how: Any) -> Any:
        return chosen(name, input_bytes=input_bytes, threshold=0, **how)

    monkeypatch.setattr(choose, "choose_engine", lowered)
    monkeypatch.setattr(choose, "_spark_engine", lambda *_: LocalEngine())
    words = [word.replace("FOLDER", str(tmp_path)) for word in COMMANDS[what]]
    done = invoke(["-C", path, *words])
    assert "Spark does the work" in done.stderr
