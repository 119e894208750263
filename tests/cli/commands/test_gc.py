"""`havasu-vc gc`."""

import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run, invoke, succeed
from tests.support.git import run_git


def test_it_tells_what_it_removed(run: Run) -> None:
    assert succeed(run("gc")).stderr.startswith("Removed 0 files, 0 bytes")
    assert succeed(run("gc", "--prune-now", "--dry-run")).stderr.startswith("Would remove ")


def test_what_is_needed_stays(run: Run) -> None:
    before = succeed(run("diff", "[EMPTY]...HEAD", "-o", "json")).stdout
    succeed(run("gc", "--prune-now"))

    assert succeed(run("diff", "[EMPTY]...HEAD", "-o", "json")).stdout == before


@pytest.mark.parametrize("days", ["-1", "soon"])
def test_bad_input(run: Run, days: str) -> None:
    assert run("gc", "--grace-days", days).exit_code == 2


def test_options_of_gits_gc_are_kart_s(run: Run) -> None:
    assert run("gc", "--aggressive").exit_code == 2
    assert run("gc", "more").exit_code == 2


@pytest.fixture
def merging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of Kart's, called `kart`, in which a merge waits and no reflog tells of it."""
    repo, file = tmp_path / "repo", tmp_path / "table.csv"
    file.write_text("id,name\n1,one\n2,two\n")
    succeed(invoke(["init", "--kart", repo]))
    succeed(invoke(["-C", repo, "import", file, "--primary-key", "id"]))
    for branch, name in (("side", "side"), ("main", "ours")):
        if branch == "side":
            succeed(invoke(["-C", repo, "switch", "-c", "side"]))
        else:
            succeed(invoke(["-C", repo, "switch", "main"]))
        file.write_text(f"id,name\n1,{name}\n2,two\n3,{branch}\n")
        succeed(invoke(["-C", repo, "import", file, "--replace"]))
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kart"])
    return repo


def test_called_kart_git_packs_and_drops_what_nothing_needs(merging: Path) -> None:
    def loose() -> list[Path]:
        return list((merging / ".kart" / "objects").glob("??/*"))

    lone = run_git("hash-object", "-w", "--stdin", cwd=merging, stdin="lone").strip()
    assert loose()
    succeed(invoke(["-C", merging, "gc", "--prune=now"]))
    assert not loose()
    assert run_git("cat-file", "--batch-check", cwd=merging, stdin=lone).split()[1] == ("missing")
    wrong = invoke(["-C", merging, "gc", "--nosuch"])
    assert wrong.exit_code == 129
    assert wrong.stderr.startswith("error: unknown option `nosuch'\nusage: git gc ")


def test_called_kart_what_waits_stays_whatever_git_is_told(merging: Path) -> None:
    assert invoke(["-C", merging, "merge", "side"]).exit_code == 0
    run_git("branch", "-D", "side", cwd=merging)
    run_git("reflog", "expire", "--expire=now", "--all", cwd=merging)
    succeed(invoke(["-C", merging, "gc", "--prune=now"]))
    for label in ("table:feature:1", "table:feature:3"):
        succeed(invoke(["-C", merging, "resolve", label, "--with=theirs"]))
    succeed(invoke(["-C", merging, "gc", "--prune=now"]))
    succeed(invoke(["-C", merging, "merge", "--continue", "-m", "Both"]))
    assert invoke(["-C", merging, "cat", "table"]).stdout.count("side") == 2
    succeed(invoke(["-C", merging, "git", "fsck", "--strict"]))
