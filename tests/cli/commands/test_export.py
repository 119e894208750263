"""`havasu-vc export`."""

from pathlib import Path

import pytest

from tests.cli.conftest import Run, succeed


def test_it_writes_a_revision(run: Run, tmp_path: Path) -> None:
    new, old = tmp_path / "new.csv", tmp_path / "old.csv"
    result = succeed(run("export", "points", new, "--columns", "id,name"))
    succeed(run("export", "points@HEAD^", old, "--columns", "id,name"))

    assert result.stderr == f"Wrote 3 rows of points to {new}\n"
    assert result.stdout == ""
    assert "TWO" in new.read_text()
    assert "two" in old.read_text()


def test_what_is_there_stays_unless_told(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    path.write_text("mine")

    assert run("export", "points", path).exit_code == 2
    assert path.read_text() == "mine"
    succeed(run("export", "points", path, "--overwrite"))
    assert path.read_bytes()[:4] == b"PAR1"


def test_format_and_ref(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    succeed(run("export", "points", path, "--ref", "HEAD^", "--format", "parquet"))

    assert path.read_bytes()[-4:] == b"PAR1"


def test_changes(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "changes.csv"
    result = succeed(run("export", "points", path, "--changes", "HEAD^...HEAD"))

    # An update is one change, though it is two rows of the file.
    assert "Wrote 1 insert, 1 update, 1 delete of points to " in result.stderr
    assert path.read_text().count("\n") == 1 + 4
    assert "TWO" in path.read_text()
    assert "one" not in path.read_text()


def test_stdout_is_no_file(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("export", "points", "-", "--to", "csv")

    assert result.exit_code == 2
    assert "`havasu-vc cat points` prints rows" in result.stderr
    assert list(tmp_path.glob("-")) == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("nope", "out.csv"), 49),
        (("points@nope", "out.csv"), 47),
        (("points", "out.nope"), 2),
        (("points", "out.csv", "--crs", "EPSG:99999"), 25),
        (("points", "out.csv", "--columns", "nope"), 2),
        (("points", "no/out.csv"), 11),
        (("points@v1", "out.csv", "--changes", "HEAD^...HEAD"), 2),
    ],
)
def test_bad_input(run: Run, tmp_path: Path, arguments: tuple[str, ...], code: int) -> None:
    dataset, file, *options = arguments
    result = run("export", dataset, tmp_path / file, *options)

    assert result.exit_code == code, result.output
    assert not (tmp_path / file).exists()


def test_geoparquet_with_boxes_and_older(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    succeed(run("export", "points", path, "--covering"))
    assert b'"covering"' in path.read_bytes()
    succeed(run("export", "points", path, "--overwrite", "--geoparquet-version", "1.0"))
    assert b'"version":"1.0.0"' in path.read_bytes()

    result = run("export", "points", tmp_path / "out.csv", "--covering")
    assert result.exit_code != 0
    assert "only GeoParquet has" in result.stderr
    result = run("export", "points", path, "--covering", "--geoparquet-version", "1.0")
    assert "GeoParquet 1.1 alone" in result.stderr


def test_a_folder_of_parquet_files(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    arguments = ("export", "points", folder, "--to", "parquet-dataset", "--part-size", "1")
    result = succeed(run(*arguments))

    assert result.stderr == f"Wrote 3 rows of points to {folder}\n"
    assert [path.name for path in folder.iterdir()] == ["part-00000.parquet"]
    assert b'"geometry_types":["Point"]' in (folder / "part-00000.parquet").read_bytes()
    again = run(*arguments)
    assert again.exit_code == 2 and "--overwrite" in again.output
    succeed(run(*arguments, "--overwrite", "--covering"))
    assert b'"covering"' in (folder / "part-00000.parquet").read_bytes()
    refused = run("export", "points", tmp_path / "one.parquet", "--part-size", "1")
    assert refused.exit_code == 2 and "--to parquet-dataset" in refused.output
    refused = run("export", "points", *arguments[2:], "--changes", "HEAD^...HEAD")
    assert refused.exit_code == 2


def test_a_path_may_have_an_at_sign(run: Run, csv_file: Path, tmp_path: Path) -> None:
    for path in ("a", "a@b"):
        succeed(run("import", csv_file, path, "--primary-key", "id"))
    for place, found in (("a@b", "a@b"), ("a@b@HEAD", "a@b"), ("a@HEAD", "a")):
        result = succeed(run("export", place, tmp_path / "out.csv", "--overwrite"))
        assert result.stderr.startswith(f"Wrote 3 rows of {found} to ")
    result = run("export", "a@b@HEAD~9", tmp_path / "none.csv")
    assert result.exit_code == 47 and "'HEAD~9'" in result.stderr
    changes = ("--changes", "HEAD^^...HEAD")
    succeed(run("export", "a@b", tmp_path / "changes.csv", *changes))
    assert run("export", "a@b@HEAD^", tmp_path / "more.csv", *changes).exit_code == 2
