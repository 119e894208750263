"""Kart's raster and point-cloud datasets, whose tiles are pointers that Kart alone reads."""

import json
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
