"""A command relies on three open streams and on UTF-8, however it was started."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run

CSV = "id,name\n1,Öl\n"
WRITTEN = ['"id","name"', '1,"Öl"']
MAIN = [sys.executable, "-c", "from havasu_vc.cli.main import main; main()"]
LOCALES = [
    {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    {"PYTHONIOENCODING": "ascii"},
]


@pytest.fixture
def wells(tmp_path: Path, run: Run) -> Path:
    """A repository whose dataset and rows have names that ASCII lacks."""
    (tmp_path / "wells.csv").write_text(CSV, encoding="utf-8")
    assert run("-q", "init", str(tmp_path / "rivers")).exit_code == 0
    done = run(
        *("-q", "-C", str(tmp_path / "rivers"), "import", str(tmp_path / "wells.csv")),
        *("Flüsse/böse", "--primary-key", "id"),
    )
    assert done.exit_code == 0, done.stderr
    return tmp_path / "rivers"


def start(folder: Path, *arguments: str, closing: str = "", **variables: str) -> tuple[int, bytes]:
    """Run the program by a shell that closes streams; return its code and all that it said."""
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closing}', "sh", *MAIN, *arguments],
        cwd=folder,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.few(2)
@pytest.mark.parametrize("closing", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("status",), 0), (("log",), 0), (("--version",), 0), (("cat", "no"), 49), (("nonsense",), 2)],
)
def test_closed_streams_are_no_error(
    wells: Path, closing: str, arguments: tuple[str, ...], code: int
) -> None:
    got, said = start(wells, *arguments, closing=closing)

    assert got == code
    assert b"Traceback" not in said
    assert b"internal" not in said


@pytest.mark.thorough
def test_what_is_printed_to_a_closed_stream_is_in_no_file(wells: Path) -> None:
    sheet = wells.parent / "sheet.csv"

    code, said = start(wells, "export", "Flüsse/böse", str(sheet), closing="<&- >&- 2>&-")

    assert (code, said) == (0, b"")
    assert sheet.read_text(encoding="utf-8").splitlines() == WRITTEN


@pytest.mark.few(1)
@pytest.mark.parametrize("variables", LOCALES)
def test_text_is_utf_8_in_every_locale(wells: Path, variables: dict[str, str]) -> None:
    assert start(wells, "data", "ls", **variables) == (0, "Flüsse/böse\n".encode())
    assert start(wells, "cat", "Flüsse/böse", **variables) == (0, CSV.encode())
    code, said = start(wells, "diff", "[EMPTY]...HEAD", **variables)
    assert code == 0
    assert "Öl".encode() in said


@pytest.mark.few(1)
@pytest.mark.parametrize("variables", LOCALES)
def test_files_have_any_name_in_every_locale(wells: Path, variables: dict[str, str]) -> None:
    code, said = start(wells, "export", "Flüsse/böse", "../Öl.csv", **variables)

    assert code == 0, said
    assert (wells.parent / "Öl.csv").read_text(encoding="utf-8").splitlines() == WRITTEN
