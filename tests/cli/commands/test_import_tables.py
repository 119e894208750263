"""`havasu-vc import iceberg:…` and `export --to iceberg-v3`."""

from dataclasses import replace
from pathlib import Path

import pytest

from havasu_vc.formats.iceberg.values import MAIN, Reference
from tests.cli.conftest import Run, succeed
from tests.exchange.test_iceberg import SCHEMA, numbered
from tests.tables.making import TableMaker


@pytest.fixture
def maker(tmp_path: Path) -> TableMaker:
    made = TableMaker(tmp_path / "roads", SCHEMA)
    made.commit(made.data(numbered(*range(40))))
    return made


def test_a_table_is_linked(run: Run, maker: TableMaker) -> None:
    result = succeed(run("import", f"iceberg:{maker.location}", "--link"))

    assert "Imported 40 rows into roads in " in result.stderr
    assert f"Link to iceberg:{maker.location}" in result.stderr
    assert succeed(run("fsck", "--full")).exit_code == 0

    next((maker.location / "data").iterdir()).unlink()
    result = run("export", "roads", maker.location.parent / "a.csv")
    assert result.exit_code == 40
    (line, *hints) = result.stderr.splitlines()
    assert line.startswith("Error: roads: the linked file file:///") and "is not there" in line
    assert all(hint.startswith("Hint: ") for hint in hints)
    assert run("fsck").exit_code == 1


def test_histories_with_branches_and_tags(run: Run, maker: TableMaker) -> None:
    first = maker.table.metadata.current_snapshot_id
    assert first is not None
    second = maker.commit(maker.data(numbered(50)))
    references = {MAIN: Reference(second), "early": Reference(first, "tag")}
    maker.change(references=references)

    assert run("import", f"iceberg:{maker.location}", "--refs").exit_code == 2
    succeed(run("import", f"iceberg:{maker.location}", "--history", "--refs"))

    assert succeed(run("tag")).stdout.split() == ["early"]
    counted = succeed(run("diff", "early...HEAD", "-o", "feature-count")).stdout
    assert "1 features changed" in counted


def test_a_table_of_version_3_goes_out_and_comes_in(run: Run, tmp_path: Path) -> None:
    place = tmp_path / "given"
    result = succeed(run("export", "points", place, "--to", "iceberg-v3"))
    assert f"rows of points to {place}" in result.stderr
    assert run("export", "points", place, "--to", "iceberg-v3").exit_code == 2
    succeed(run("export", "points", place, "--to", "ICEBERG-V3", "--overwrite"))
    changes = ("--changes", "HEAD^...HEAD")
    assert run("export", "points", place, "--to", "iceberg-v3", *changes).exit_code == 2

    result = succeed(run("import", f"iceberg:{place}", "again"))

    assert "rows into again in " in result.stderr


def test_a_table_that_cannot_be_linked(run: Run, csv_file: Path, maker: TableMaker) -> None:
    for arguments in ((csv_file,), (f"iceberg:{maker.location}", "--order", "hilbert")):
        result = run("import", *arguments, "--link")
        assert result.exit_code == 2
        assert "Hint: " in result.stderr
    file = maker.data(numbered(60))
    maker.commit(replace(file, path="s3://bucket/a.parquet"))
    assert "another file system" in run("import", f"iceberg:{maker.location}", "--link").stderr
