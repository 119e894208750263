"""In Kart's place: streams in its repositories, and words where this program is called `kart`."""

import json
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import invoke, succeed
from tests.support.git import run_git

OPTIONS = ("--primary-key", "id", "--csv-lon", "lon", "--csv-lat", "lat", "--crs", "EPSG:4326")


@pytest.fixture
def called_kart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kart"])


def imported(repo: Path, csv_file: Path, *options: str) -> str:
    succeed(invoke(["init", *options, repo]))
    result = succeed(invoke(["-C", repo, "import", csv_file, *OPTIONS]))
    return result.stdout


def test_results_are_on_stdout_in_karts_repositories(tmp_path: Path, csv_file: Path) -> None:
    repo = tmp_path / "repo"
    assert "Imported 3 rows into table" in imported(repo, csv_file, "--kart")
    changed = invoke(["-C", repo, "meta", "set", "table", "title=A title"])
    assert changed.stdout.startswith("[main ") and not changed.stderr

    other = tmp_path / "other"
    assert imported(other, csv_file) == ""
    assert succeed(invoke(["-C", other, "meta", "set", "table", "title=T"])).stdout == ""


def test_json_stands_alone_on_stdout(tmp_path: Path, csv_file: Path) -> None:
    repo = tmp_path / "repo"
    imported(repo, csv_file, "--kart")
    succeed(invoke(["-C", repo, "branch", "side"]))
    succeed(invoke(["-C", repo, "meta", "set", "table", "title=A title"]))
    merged = succeed(invoke(["-C", repo, "merge", "side", "-o", "json"]))
    assert "kart.merge/v1" in json.loads(merged.stdout)


def test_called_kart_it_makes_karts_repositories(
    tmp_path: Path, csv_file: Path, called_kart: None
) -> None:
    repo = tmp_path / "repo"
    assert "Initialized repository" in succeed(invoke(["init", repo])).stdout
    assert (repo / ".kart").is_dir()
    imported(repo, csv_file)
    clean = succeed(invoke(["-C", repo, "data", "ls"]))
    assert clean.stdout == "table\n" and "havasu-vc" not in clean.output


@pytest.mark.parametrize("command", [["log"], ["status"], ["branch"]])
def test_called_kart_it_says_what_scripts_compare(
    tmp_path: Path, called_kart: None, command: list[str]
) -> None:
    failed = invoke(["-C", tmp_path, *command])
    assert failed.exit_code == 41
    assert failed.stderr == "Error: Current directory is not an existing Kart repository\n"


def test_by_its_own_name_it_says_more(tmp_path: Path) -> None:
    failed = invoke(["-C", tmp_path, "log"])
    assert failed.exit_code == 41 and "Hint: `havasu-vc init` makes one" in failed.stderr


def test_ranges_mean_what_they_mean_in_kart(tmp_path: Path, csv_file: Path) -> None:
    kart, ours = tmp_path / "kart", tmp_path / "ours"
    for repo, options in ((kart, ("--kart",)), (ours, ())):
        imported(repo, csv_file, *options)
        succeed(invoke(["-C", repo, "branch", "side"]))
        succeed(invoke(["-C", repo, "meta", "set", "table", "title=Main"]))
        tree = run_git("rev-parse", "HEAD^{tree}", cwd=repo).strip()
        succeed(invoke(["-C", repo, "switch", "side"]))
        succeed(invoke(["-C", repo, "meta", "set", "table", "description=Side"]))

        def differ(*revisions: str, repo: Path = repo) -> set[str]:
            shown = succeed(invoke(["-C", repo, "diff", "-o", "json", *revisions])).stdout
            return set(json.loads(shown)["kart.diff/v1+hexwkb"]["table"]["meta"])

        direct, from_base = ("...", "..") if repo is kart else ("..", "...")
        assert differ(f"main{direct}side") == differ("main", "side") == {"title", "description"}
        assert differ(f"main{from_base}side") == {"description"}
        assert differ(f"{tree[:9]}{direct}side") == {"title", "description"}
        log = succeed(invoke(["-C", repo, "log", "--oneline", "main..side"])).stdout
        assert len(log.splitlines()) == 1, "git's meaning, as in Kart's own log"
