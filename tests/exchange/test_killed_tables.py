"""A process is killed within an export of a table to a folder: the same command does the work.

Nothing is removed that no export wrote, nor what one writes that may live. Each call of the file
system in turn has its fault in `tests/faults`; here other programs read what stands at the end.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import deltalake
import pytest
from pyiceberg.table import StaticTable

from havasu_vc import Repo
from havasu_vc.exchange.export_marks import MARK
from havasu_vc.store.locks import this_process
from tests.repo.points import make

ROOT = Path(__file__).parents[2]
ROWS = {key: (f"row {key}", key) for key in range(1, 40)}
PROGRAM = """
import os, signal
from havasu_vc.cli.start import main
from havasu_vc.exchange import delta_writer, iceberg_writer

def killing(write, late):
    def called(*content, **more):
        done = write(*content, **more) if late else None
        os.kill(os.getpid(), signal.SIGKILL)
        return done
    return called

name, late = os.environ["KILL_AT"].split()
for module in (delta_writer, iceberg_writer):
    if hasattr(module, name):
        setattr(module, name, killing(getattr(module, name), late == "late"))
main()
"""
"""The command, which kills itself before or after a function that it calls."""
NEVER = "nothing late"
STAGES = {
    "delta": ("_planned late", "_write_files late", "publish_commit early", "publish_commit late"),
    "iceberg-v3": ("_write_files late", "_publish early", "_publish late"),
}


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    return make(tmp_path_factory.mktemp("killed") / "ours", ROWS)


def export(repo: Repo, folder: Path, to: str, *words: str, at: str = NEVER) -> tuple[int, str]:
    more = ("--plain",) if to == "delta" else ()
    (dataset,) = repo.datasets()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "export", dataset, folder, "--to", to, *more, *words],
        env=os.environ | {"KILL_AT": at, "PYTHONPATH": str(ROOT)},
        cwd=repo.path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stderr


def check(folder: Path, to: str) -> None:
    """See that another program finds the rows, that no mark is left and no file of no version."""
    if to == "delta":
        table = deltalake.DeltaTable(folder)
        keys = table.to_pyarrow_table().column("id").to_pylist()
        assert table.vacuum(retention_hours=0, enforce_retention_duration=False) == []
    else:
        newest = max(folder.glob("metadata/v*.metadata.json"), key=lambda path: len(path.name))
        rows = StaticTable.from_metadata(str(newest)).scan().to_arrow()
        keys = rows.column("id").to_pylist()
        assert len(list((folder / "data").iterdir())) == 1
    assert sorted(keys) == sorted(ROWS)
    assert not [path for path in folder.rglob("*") if MARK in path.name]


@pytest.mark.parametrize(("to", "at"), [(to, at) for to in STAGES for at in STAGES[to]])
def test_the_same_command_does_the_work(repo: Repo, tmp_path: Path, to: str, at: str) -> None:
    folder = tmp_path / "out"
    killed, _ = export(repo, folder, to, at=at)
    assert killed == -signal.SIGKILL
    assert (folder / MARK).exists() == (at != "_planned late")

    code, said = export(repo, folder, to)

    if at in ("publish_commit late", "_publish late"):
        # All of it was there by then, and nobody asked for another version.
        assert code == 2
        assert "there is a table at" in said
    else:
        assert code == 0, said
        assert ("files of an export that was cut off" in said) == (at != "_planned late")
    check(folder, to)


@pytest.mark.parametrize("to", STAGES)
def test_another_version_that_was_killed_leaves_the_table(
    repo: Repo, tmp_path: Path, to: str
) -> None:
    folder = tmp_path / "out"
    assert export(repo, folder, to)[0] == 0
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    killed, _ = export(repo, folder, to, "--overwrite", at="_write_files late")
    assert killed == -signal.SIGKILL
    assert all(path.read_bytes() == data for path, data in before.items())
    assert export(repo, folder, to, "--overwrite")[0] == 0
    assert not (folder / MARK).exists()


@pytest.mark.parametrize("to", STAGES)
def test_nothing_of_others_goes(repo: Repo, tmp_path: Path, to: str) -> None:
    folder = tmp_path / "out"
    assert export(repo, folder, to, at="_write_files late")[0] == -signal.SIGKILL
    (folder / "notes.txt").write_text("mine")
    before = set(folder.rglob("*"))

    refused, said = export(repo, folder, to)

    assert refused == 2
    assert "something else is at" in said
    assert set(folder.rglob("*")) == before


@pytest.mark.parametrize("inside", ["metadata", "_delta_log", "data"])
@pytest.mark.parametrize("to", STAGES)
def test_nor_what_stands_in_folders_of_tables(
    repo: Repo, tmp_path: Path, to: str, inside: str
) -> None:
    folder = tmp_path / "out"
    assert export(repo, folder, to, at="_write_files late")[0] == -signal.SIGKILL
    (folder / inside).mkdir(exist_ok=True)
    (folder / inside / "notes.txt").write_text("mine")
    before = set(folder.rglob("*"))

    refused, said = export(repo, folder, to)

    assert refused != 0
    assert said.startswith("Error: ")
    assert set(folder.rglob("*")) == before


def test_who_may_live_is_waited_for(repo: Repo, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    assert export(repo, folder, "delta", at="_write_files late")[0] == -signal.SIGKILL
    mark = folder / MARK
    told = json.loads(mark.read_text())
    for owner, code, words in (
        (this_process(), 20, "exports to"),
        ("elsewhere 1 1", 2, "did not end, and may go on"),
    ):
        mark.write_text(json.dumps(told | {"owner": owner}))
        refused, said = export(repo, folder, "delta")
        assert (refused, words in said) == (code, True), said
    mark.write_text("{}")
    assert "is no mark of an export" in export(repo, folder, "delta")[1]
