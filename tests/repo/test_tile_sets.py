"""Kart's raster and point-cloud datasets, whose tiles are pointers that Kart alone reads."""

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import FIRST, invoke, succeed
from tests.support.git import run_git

TILE = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 7\n"


def commit(repo: Path, files: dict[str, str | None], message: str) -> None:
    """Commit files by git alone, beside what HEAD has; None takes one away."""
    git = ("--git-dir", str(repo / ".kart"))
    lines = []
    for path, text in files.items():
        if text is None:
            lines.append(f"0 {'0' * 40}\t{path}")
            continue
        blob = run_git(*git, "hash-object", "-w", "--stdin", cwd=repo, stdin=text).strip()
        lines.append(f"100644 {blob}\t{path}")
    index = repo / ".kart" / "of-the-test"
    environment = pytest.MonkeyPatch()
    with environment.context() as patched:
        patched.setenv("GIT_INDEX_FILE", str(index))
        run_git(*git, "read-tree", "HEAD", cwd=repo)
        run_git(*git, "update-index", "--index-info", cwd=repo, stdin="\n".join(lines) + "\n")
        tree = run_git(*git, "write-tree", cwd=repo).strip()
    made = run_git(*git, "commit-tree", tree, "-p", "HEAD", "-m", message, cwd=repo).strip()
    run_git(*git, "update-ref", "HEAD", made, cwd=repo)
    index.unlink()


@pytest.fixture(scope="module", params=[".raster-dataset.v1", ".point-cloud-dataset.v1"])
def repo(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table, and a set of tiles of which one changes, one goes and one comes."""
    folder = tmp_path_factory.mktemp("tiles")
    repo, inside = folder / "repo", f"hills/{request.param}"
    (folder / "points.csv").write_text(FIRST)
    succeed(invoke(["init", "--kart", repo]))
    succeed(invoke(["-C", repo, "import", folder / "points.csv", "--primary-key", "id"]))
    names = [f"{inside}/tile/{number:02x}/hill_{number}" for number in range(4)]
    first = {name: TILE.format(place) for place, name in enumerate(names[:3])}
    meta = {f"{inside}/meta/format.json": '{"compression": "laz"}', f"{inside}/meta/crs.wkt": "X"}
    commit(repo, {**first, **meta}, "Tiles")
    commit(repo, {names[0]: TILE.format("a"), names[1]: None, names[3]: TILE.format("b")}, "More")
    return repo


def said(repo: Path, *arguments: str) -> str:
    return succeed(invoke(["-C", repo, *arguments])).stdout


def test_their_tiles_are_counted_in_the_log(repo: Path) -> None:
    told = json.loads(
        said(repo, "log", "-o", "json", "--with-change-counts", "--dataset-changes", "-n2")
    )
    assert [each["featureChangeCounts"] for each in told] == [
        {"hills": {"inserts": 1, "updates": 1, "deletes": 1}},
        {"hills": {"inserts": 3}},
    ]
    assert [each["datasetChanges"] for each in told] == [["hills"], ["hills"]]
    told = json.loads(said(repo, "log", "-o", "json", "--with-feature-count=veryfast"))
    assert [each["featureChanges"] for each in told] == [{"hills": 3}, {"hills": 3}, {"points": 3}]


def test_their_items_are_read_set_and_compared(repo: Path, tmp_path: Path) -> None:
    assert said(repo, "data", "ls").split() == ["hills", "points"]
    items = json.loads(said(repo, "meta", "get", "hills", "-o", "json"))["hills"]
    assert items == {"format.json": {"compression": "laz"}, "crs.wkt": "X"}
    before = run_git("--git-dir", ".kart", "rev-parse", "HEAD", cwd=repo).strip()
    said(repo, "meta", "set", "hills", "title=All hills")
    try:
        shown = json.loads(said(repo, "show", "-o", "json"))["kart.diff/v1+hexwkb"]
        assert shown == {"hills": {"meta": {"title": {"+": "All hills"}}}}
        text = said(repo, "show")
        assert text.endswith("+++ hills:meta:title\n+ All hills\n")
        for filters, count in (
            ("hills", 3), ("hills:tile", 2), ("hills:meta", 2), ("hills:meta:title", 1),
        ):  # fmt: skip
            found = json.loads(said(repo, "log", "-o", "json", "--", filters))
            assert len(found) == count, filters
        said(repo, "meta", "set", "hills", "--unset", "title")
        assert "title" not in said(repo, "meta", "get", "hills")
    finally:
        run_git("--git-dir", ".kart", "update-ref", "HEAD", before, cwd=repo)


def test_what_says_what_tiles_are_is_karts(repo: Path) -> None:
    for wrong in ('format.json={"a": 1}', "crs.wkt=Y", "schema.json=[]", "nothing=1"):
        refused = invoke(["-C", repo, "meta", "set", "hills", wrong])
        assert refused.exit_code == 2 and "is what Kart made of its tiles" in refused.stderr
    assert invoke(["-C", repo, "meta", "get", "hills", "title"]).exit_code == 0  # null, as in Kart
    assert invoke(["-C", repo, "meta", "get", "hills", "nothing"]).exit_code == 2


def test_tiles_that_differ_are_noted(repo: Path) -> None:
    shown = succeed(invoke(["-C", repo, "diff", "HEAD^...HEAD"]))
    assert shown.stdout == "" and "hills: 3 tiles differ, which Kart itself shows" in shown.stderr


def tree_of(repo: Path, revision: str) -> str:
    return run_git("--git-dir", ".kart", "rev-parse", f"{revision}^{{tree}}", cwd=repo).strip()


def test_files_of_tiles_are_of_head_where_no_tile_differs(repo: Path) -> None:
    """As Kart notes it: it refuses to look at files that are of another tree than HEAD's."""
    git = ("--git-dir", ".kart")
    before = run_git(*git, "rev-parse", "HEAD", cwd=repo).strip()
    noted, text = repo / ".kart" / "workdir-state.db", "SELECT value FROM kart_state"
    with closing(sqlite3.connect(noted)) as file, file:
        file.execute("CREATE TABLE kart_state (table_name TEXT, key TEXT, value TEXT)")
        file.execute("INSERT INTO kart_state VALUES ('*', 'tree', ?)", [tree_of(repo, "HEAD")])

    def is_of(revision: str) -> bool:
        with closing(sqlite3.connect(noted)) as file:
            return bool(file.execute(text).fetchone()[0] == tree_of(repo, revision))

    try:
        said(repo, "meta", "set", "points", "title=Points")
        said(repo, "meta", "set", "hills", "title=Hills")
        assert is_of("HEAD")
        moved = succeed(invoke(["-C", repo, "switch", "-c", "old", f"{before}^"]))
        assert "hills: the tiles in the working copy stay as they were" in moved.stderr
        assert is_of("main")
        status = succeed(invoke(["-C", repo, "status", "-o", "json"]))
        assert "files of tiles are not looked at" in status.stderr
        assert '"workdir": {\n          "status": "ok"' in status.stdout
        run_git(*git, "config", "dataset.hills.checkout", "false", cwd=repo)
        said(repo, "meta", "set", "points", "title=Old points")
        assert is_of("HEAD")
    finally:
        noted.unlink()
        run_git(*git, "config", "--unset", "dataset.hills.checkout", cwd=repo, check=False)
        said(repo, "switch", "main")
        run_git(*git, "update-ref", "HEAD", before, cwd=repo)


def test_tiles_that_differ_count_as_differences(repo: Path) -> None:
    for words, code in (
        ((), 1), (("--", "hills"), 1), (("--", "hills:tile"), 1), (("--", "hills:tile:hill_1"), 1),
        (("--", "hills:tile:hill_2"), 0), (("--", "hills:meta"), 0), (("--", "points"), 0),
    ):  # fmt: skip
        for told in (("-o", "quiet"), ("--exit-code",)):
            found = invoke(["-C", repo, "diff", "HEAD^...HEAD", *told, *words])
            assert found.exit_code == code, (words, found.stderr)
    lines = said(repo, "show", "HEAD^", "-o", "json-lines").splitlines()
    kind = json.loads(next(line for line in lines if '"dataset"' in line))["+"]
    assert kind["type"] in ("raster", "point-cloud") and kind["version"] == 1


def test_tiles_that_each_side_changed_are_merged(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Kart; the same tile on both sides is Kart's to settle."""
    git = ("--git-dir", ".kart")
    before = run_git(*git, "rev-parse", "HEAD", cwd=repo).strip()
    tiles = run_git(*git, "ls-tree", "-r", "--name-only", "HEAD", cwd=repo).split()
    first, second, *_ = [each for each in tiles if "/tile/" in each]
    try:
        said(repo, "switch", "-c", "theirs")
        commit(repo, {first: TILE.format("theirs")}, "Theirs")
        said(repo, "switch", "-c", "ours", before)
        commit(repo, {second: None}, "Ours")
        with monkeypatch.context() as called_kart:
            called_kart.setattr(sys, "argv", ["/usr/local/bin/kart"])
            told = said(repo, "merge", "theirs", "-m", "Both").splitlines()
        assert told[0] == 'Merging branch "theirs" into ours' and told[1] == "No conflicts!"
        assert [each for each in told if "hills" in each] == []
        there = run_git(*git, "show", f"HEAD:{first}", cwd=repo)
        assert "oid sha256:theirs" in there
        found = run_git(*git, "ls-tree", "-r", "--name-only", "HEAD", cwd=repo).split()
        assert found == [each for each in tiles if each != second]
        said(repo, "switch", "-c", "clash", before)
        commit(repo, {first: TILE.format("clash")}, "Clash")
        refused = invoke(["-C", repo, "merge", "theirs", "-m", "Both"])
        assert refused.exit_code == 30 and "Kart itself" in refused.stderr
    finally:
        said(repo, "switch", "main")


def test_a_set_of_tiles_is_left_out_by_karts_setting(repo: Path) -> None:
    said(repo, "create-workingcopy")
    for words, setting in (("--not-dataset=hills", "false"), ("--dataset=hills", "")):
        said(repo, "checkout", words)
        told = run_git(
            "--git-dir", ".kart", "config", "dataset.hills.checkout", cwd=repo, check=False
        )
        assert told == setting, words
        assert "working copy clean" in said(repo, "status")
