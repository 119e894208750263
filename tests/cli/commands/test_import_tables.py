"""A folder that is a table is read as one, for its files hold old rows too."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Run

deltalake = pytest.importorskip("deltalake")


@pytest.fixture
def delta(tmp_path: Path) -> Path:
    """A table of which a row was deleted: the file that had it is still there."""
    folder = tmp_path / "lake" / "wells"
    folder.parent.mkdir()
    deltalake.write_deltalake(str(folder), pa.table({"id": [1, 2, 3], "depth": [10, 20, 30]}))
    deltalake.DeltaTable(str(folder)).delete("id = 2")
    assert len(list(folder.glob("*.parquet"))) == 2
    return folder


def rows_of(run: Run, dataset: str) -> list[str]:
    return run("cat", dataset).stdout.splitlines()[1:]


def test_a_delta_table(run: Run, delta: Path) -> None:
    done = run("import", str(delta), "--primary-key", "id")
    assert done.exit_code == 0, done.stderr
    assert f"Note: {delta} is read as the table of Delta that it is" in done.stderr
    assert rows_of(run, "wells") == ["1,10", "3,30"]
    # The version before can be had as well, as by its own name.
    done = run("import", str(delta), "before", "--snapshot", "0")
    assert done.exit_code == 0, done.stderr
    assert rows_of(run, "before") == ["1,10", "2,20", "3,30"]
    assert run("import", "--list", str(delta)).stdout.split() == ["wells"]


def test_the_word_before_it_needs_no_note(run: Run, delta: Path) -> None:
    done = run("import", f"delta:{delta}", "--primary-key", "id")
    assert done.exit_code == 0 and "that it is" not in done.stderr
    assert rows_of(run, "wells") == ["1,10", "3,30"]


def test_a_table_of_a_checkout(run: Run, repo: Path) -> None:
    assert run("checkout").exit_code == 0
    folder = repo / "tables" / "points"
    assert (folder / "metadata").is_dir()
    done = run("import", folder, "again")
    assert done.exit_code == 0, done.stderr
    assert f"{folder} is read as the table of Iceberg that it is" in done.stderr
    assert sorted(rows_of(run, "again")) == sorted(rows_of(run, "points"))


def test_a_folder_of_tables(run: Run, delta: Path) -> None:
    pq.write_table(pa.table({"id": [7]}), delta.parent / "a.parquet")
    done = run("import", str(delta.parent), "all")
    assert done.exit_code != 0
    assert f"{delta} is a table of Delta, whose files are more than its rows" in done.stderr
    assert f"import it by itself: delta:{delta}" in done.stderr
    # Who names files gets files.
    assert run("import", str(delta.parent / "a.parquet")).exit_code == 0


def test_folders_of_those_names_are_no_tables(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    (folder / "metadata").mkdir(parents=True)
    (folder / "metadata" / "readme.json").write_text("{}")
    (folder / "_delta_log").mkdir()
    pq.write_table(pa.table({"id": [7]}), folder / "a.parquet")
    done = run("import", str(folder))
    assert done.exit_code == 0, done.stderr
    assert rows_of(run, "plain") == ["7"]
