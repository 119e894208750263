"""The group of commands: what it imports, where options may stand, how it ends."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result

from havasu_vc import __version__
from havasu_vc.cli.commands import status
from havasu_vc.cli.main import COMMANDS
from tests.cli.commands.test_workingcopy import editor
from tests.cli.conftest import Run, invoke
from tests.support.git import run_git

ROOT = Path(__file__).parents[2]
HEAVY = {
    *("pygit2", "pyarrow", "numpy", "rich", "pyogrio", "pyproj", "pyspark", "shapely"),
    *("msgpack", "fastavro", "pandas"),
}
PROGRAM = """
import sys
from havasu_vc.cli.main import cli, run
code = run(cli, sys.argv[1:])
print(*sorted(name for name in sys.modules if "." not in name), file=sys.stderr)
sys.exit(code)
"""

WHOLE = """
import sys
from havasu_vc.cli.main import cli, run
code = run(cli, sys.argv[1:])
print(*sys.modules, file=sys.stderr)
sys.exit(code)
"""
"""The program, with all modules by their whole names."""


def start(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the program in a process of its own; stderr ends with the modules it imported."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("version",),
        ("--version",),
        ("--help",),
        ("version", "--all"),
        ("completion", "zsh"),
        ("nonsense",),
    ],
)
def test_starting_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    done = start(*arguments)

    modules = set(done.stderr.splitlines()[-1].split())
    assert "click" in modules
    assert modules & HEAVY == set()


def test_what_git_loads_later_is_whole_for_others() -> None:
    asked = (
        "import sys; from havasu_vc.cli.invocation import load_libraries; load_libraries()\n"
        "assert 'pygit2' in sys.modules and not {'ssl', 'tarfile'} & sys.modules.keys()\n"
        "import ssl, tarfile, pygit2.repository as git\n"
        "assert tarfile.TarFile.taropen and ssl.get_default_verify_paths().openssl_cafile\n"
        "assert git.tarfile.TarInfo is tarfile.TarInfo"
    )
    subprocess.run([sys.executable, "-c", asked], cwd=ROOT, check=True)


def test_shells_are_answered() -> None:
    done = start(_HAVASU_VC_COMPLETE="zsh_complete", COMP_WORDS="havasu-vc st", COMP_CWORD="1")

    assert done.returncode == 0
    assert "status" in done.stdout


def test_a_closed_pipe_is_quiet() -> None:
    reader = subprocess.Popen(["true"], stdin=subprocess.PIPE)
    reader.wait()
    assert reader.stdin is not None
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "--help"],
        cwd=ROOT,
        stdout=reader.stdin.fileno(),
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    reader.stdin.close()

    assert done.returncode == 141
    assert "Error" not in done.stderr
    assert "Traceback" not in done.stderr


def test_version() -> None:
    assert invoke(["--version"]).stdout == f"havasu-vc {__version__}\n"


def test_without_a_command_it_tells_what_there_is() -> None:
    result = invoke([])

    assert result.exit_code == 2
    assert result.stdout == ""
    assert all(name in result.stderr for name in COMMANDS)


def test_help_is_a_word_too() -> None:
    assert invoke(["help"]).stdout == invoke(["--help"]).stdout
    assert invoke(["help", "data", "ls"]).stdout == invoke(["data", "ls", "--help"]).stdout
    assert "there is no command 'none'" in invoke(["help", "none"]).stderr


def test_an_unknown_command() -> None:
    result = invoke(["stats"])

    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        "Error: there is no command 'stats'; did you mean status or stash?",
        "Hint: `havasu-vc --help` tells what it takes",
    ]


def test_an_unknown_option() -> None:
    result = invoke(["status", "--nonsense"])

    assert result.exit_code == 2
    assert "--nonsense" in result.stderr
    assert "`havasu-vc status --help`" in result.stderr


def test_common_options_stand_before_or_after(repo: Path, tmp_path: Path) -> None:
    def branch(*arguments: str | Path) -> Result:
        return invoke([*arguments])

    assert branch("-C", repo, "branch").stdout == "* main\n"
    assert branch("branch", "--repo", repo).stdout == "* main\n"
    assert branch("-C", tmp_path, "branch").exit_code == 41
    assert branch("-C", repo, "-q", "branch", "one").stderr == ""
    assert branch("-C", repo, "branch", "two", "--quiet").stderr == ""
    assert branch("-C", repo, "branch", "-q", "four").stderr == ""
    assert branch("-C", repo, "branch", "three").stderr == "Made branch 'three'\n"


def test_no_repository(tmp_path: Path) -> None:
    result = invoke(["-C", tmp_path, "status"])

    assert result.exit_code == 41
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert "Hint: `havasu-vc init` makes one" in result.stderr


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (KeyboardInterrupt(), 130, "Interrupted"),
        (MemoryError(), 11, "Error: not enough memory"),
        (RuntimeError("oops"), 11, "Error: internal error: RuntimeError: oops"),
        (OSError(5, "Input/output error", "a.json"), 11, "Error: a.json: Input/output error"),
        (OSError("a.json: bad sector"), 11, "Error: a.json: bad sector"),
        (RecursionError(), 11, "Error: internal error: something nests too deeply"),
    ],
)
def test_what_nobody_expects(
    monkeypatch: pytest.MonkeyPatch, run: Run, error: BaseException, code: int, line: str
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.delenv("HAVASU_VC_DEBUG", raising=False)
    monkeypatch.setattr(status, "format_status", fail)
    result = run("status")

    assert result.exit_code == code
    assert result.stderr.splitlines()[0] == line
    assert "Traceback" not in result.output


@pytest.mark.thorough
def test_ctrl_c_is_one_line(repo: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "-C", str(repo), "apply", "-"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdin is not None
    # More than a pipe holds: once it is written, the command is reading.
    child.stdin.write("[" * 1_000_000)
    child.stdin.flush()
    child.send_signal(signal.SIGINT)
    output, errors = child.communicate()

    assert child.returncode == 130
    assert output == ""
    assert errors.splitlines()[0] == "Interrupted"
    assert "Traceback" not in errors


def test_a_clone_reads_no_tables_and_loads_nothing_that_does(repo: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", WHOLE, "clone", "-n", str(repo), str(tmp_path / "clone")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert {"numpy", "pyarrow"} & set(done.stderr.split()) == set()


@pytest.mark.parametrize("command", [["status"], ["log", "-n1"], ["branch"]])
def test_what_counts_no_rows_loads_no_arrow(command: list[str], repo: Path) -> None:
    done = start("-C", str(repo), *command)
    assert done.returncode == 0, done.stderr
    assert {"numpy", "pyarrow"} & set(done.stderr.split()) == set()


@pytest.mark.thorough
def test_status_reads_no_table_of_karts(repo: Path, csv_file: Path) -> None:
    """That its columns can be read is told once, however many commits change rows."""

    def status() -> tuple[str, bool]:
        done = start("-C", str(repo), "status")
        return done.stdout, bool({"numpy", "pyarrow"} & set(done.stderr.split()))

    run = ["-C", str(repo)]
    assert start(*run, "convert", "points", "--to", "kart").returncode == 0
    told, _ = status()
    assert told == "On branch main\n\nNothing to commit\n"
    assert status() == (told, False)
    source = (str(csv_file), "points", "--primary-key", "id", "--crs", "EPSG:4326")
    assert start(*run, "import", *source, "--replace").returncode == 0
    assert status() == (told, False)
    # What breaks it is seen all the same.
    schema = repo / "points" / ".table-dataset" / "meta" / "schema.json"
    run_git("sparse-checkout", "disable", cwd=repo)
    schema.write_text("[]]")
    run_git("commit", "-qam", "Broken", cwd=repo)
    assert "Problems:" in status()[0] and "schema.json" in status()[0]


@pytest.mark.thorough
def test_a_commit_of_nothing_reads_no_table(repo: Path) -> None:
    """That nobody wrote to the tables is seen at a glance, as `status` sees it."""
    assert start("-C", str(repo), "checkout").returncode == 0
    command = [sys.executable, "-c", WHOLE, "-C", str(repo), "commit", "-m", "nothing"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 44
    assert "there is nothing to commit: no row and no column was edited" in done.stderr
    reading = {"checkouts.edits", "history.diff", "review.policy_checks", "tables.table"}
    reading.add("library.notebook")
    assert {f"havasu_vc.{each}" for each in reading} & set(done.stderr.split()) == set()


def test_a_small_commit_loads_only_what_it_needs(repo: Path, tmp_path: Path) -> None:
    patch = tmp_path / "edit.json"
    assert start("-C", str(repo), "create-patch", "HEAD", "--output", str(patch)).returncode == 0
    run_git("reset", "--hard", "--quiet", "HEAD^", cwd=repo)
    done = start("-C", str(repo), "apply", str(patch), "-m", "Again")

    assert done.returncode == 0 and "] Again" in f"{done.stdout}{done.stderr}"
    needless = {
        "havasu_vc.checkouts.living_copy",
        "havasu_vc.exchange.importing",
        "havasu_vc.formats.iceberg.manifests",
        "havasu_vc.geo.raster_v1_outlines",
        "havasu_vc.library.notebook",
        "numpy.ma",
        "pandas",
        "pyarrow.compute",
        "shapely",
    }
    assert needless & set(done.stderr.split()) == set()


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["havasu", "kart"])
def test_what_works_on_a_working_copy_loads_no_library_that_it_can_do_without(
    kind: str, tmp_path: Path
) -> None:
    """Arrow's functions with their documentation take longer to load than a thousand edits."""
    source, repo = tmp_path / "points.csv", tmp_path / "repo"
    source.write_text("id,name,height,lon,lat\n1,one,1.5,174.5,-41\n2,two,,174.6,-41\n")
    run = ("-C", str(repo))
    assert start("init", str(repo), *(["--kart"] if kind == "kart" else [])).returncode == 0
    given = (str(source), "points", "--primary-key", "id", "--crs", "EPSG:4326")
    assert start(*run, "import", *given).returncode == 0
    assert start(*run, "create-workingcopy", "copy.gpkg").returncode == 0
    heavy = {"pandas", "pyarrow.acero", "pyarrow.compute", "pyarrow.dataset", "shapely"}
    heavy.add("havasu_vc.review.policy_checking")
    for edit, *words in (
        ("", "status"),
        ("1", "diff", "-o", "json"),
        ("1", "restore"),
        ("2", "stash"),
        ("", "stash", "pop"),
        ("", "commit", "-m", "Edit"),
        ("", "reset", "--hard", "HEAD^"),
        ("", "switch", "-c", "side"),
        ("1", "commit", "-m", "There"),
        ("", "switch", "main"),
        ("2", "commit", "-m", "Here"),
        ("", "merge", "side", "-m", "Both"),
    ):
        if edit:
            with editor(repo / "copy.gpkg") as database:
                database.execute(f"UPDATE points SET name = 'x', height = 3 WHERE id = {edit}")
        command = [sys.executable, "-c", WHOLE, *run, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (words, done.stderr)
        assert heavy & set(done.stderr.split()) == set(), words


@pytest.mark.thorough
def test_a_small_diff_loads_only_what_it_needs(repo: Path) -> None:
    """Loading is what small diffs spend their time with."""
    arguments = ("-C", repo, "diff", "HEAD^...HEAD", "-o", "json")
    command = [sys.executable, "-c", WHOLE, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert json.loads(done.stdout)
    needless = {
        "concurrent.futures",
        "havasu_vc.datasets.havasu.edit",
        "havasu_vc.datasets.kart.view",
        "havasu_vc.repo.results",
        "havasu_vc.workspace.state",
        "numpy.ma",
        "pandas",
        "pyarrow.compute",
        "pyarrow.dataset",
        "shapely",
    }
    assert needless & set(done.stderr.split()) == set()


ENDING = """
import atexit, sys
from havasu_vc.cli import main

class Late:
    def __del__(self):
        print("taken apart", flush=True)

def command():
    main.late = Late()
    atexit.register(print, "at the end")
    sys.exit(eval(sys.argv[1]))

main.cli.main = command
main.main()
"""


@pytest.mark.parametrize(
    ("raised", "code", "printed"),
    [("0", 0, False), ("3", 3, False), ("None", 0, True), ("'told'", 1, True)],
)
def test_the_process_ends_once_all_is_done(raised: str, code: int, printed: bool) -> None:
    """Modules are taken apart only where how it ends is left to Python."""
    program = [sys.executable, "-c", ENDING, raised]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == code
    assert "at the end\n" in done.stdout
    assert ("taken apart" in done.stdout) == printed
    assert ("told" in done.stderr) == (raised == "'told'")
