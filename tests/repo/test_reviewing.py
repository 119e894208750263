import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import shapely

from havasu_vc import Repo
from havasu_vc.errors import RevisionNotFoundError
from havasu_vc.model.changes import count_changes
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.review import ReviewRequest
from havasu_vc.review.markdown import format_markdown
from havasu_vc.review.report import FlagKind, Review
from havasu_vc.review.reviewing import review
from tests.cli.conftest import invoke, succeed
from tests.repo import points as small
from tests.repo import tables
from tests.support.git import run_git
from tests.support.sound import CheckedRepo
from tests.support.templates import empty_repo


def only(review: Review) -> ChangeCounts:
    (dataset,) = review.datasets
    return dataset.counts


def test_counts_are_those_of_the_diff(filled: CheckedRepo) -> None:
    filled.write("points", tables.points(60, start=50, name="new"))
    filled.write("points", tables.points(5).select(["id"]), mode="delete")
    (diff,) = filled.repo.diff("HEAD~2..HEAD")

    assert only(filled.review("HEAD~2..HEAD")) == count_changes(diff.changes)
    assert only(filled.review("HEAD~2..HEAD", ["points:feature:3"])) == ChangeCounts(0, 0, 1)


def test_names_are_those_that_were_asked_for(tmp_path: Path) -> None:
    repo = small.make(tmp_path / "repo", {1: ("a", 1), 2: ("b", 2)})
    base = repo.head().commit
    repo.create_branch("side")
    small.write(repo, {1: ("a", 9), 2: ("b", 2)})
    repo.switch("side")
    small.write(repo, {1: ("a", 1), 2: ("B", 2)})

    merge = repo.review("main...side")
    direct = repo.review("main..side")

    assert (merge.base, merge.head, merge.merge_base) == ("main", "side", base)
    assert only(merge) == ChangeCounts(0, 1, 0)
    (commit,) = merge.commits
    (info, *_) = repo.log()
    assert (commit.id, commit.author) == (repo.resolve("side").commit, info.author_name)
    assert commit.subject == info.message.partition("\n")[0]
    assert merge.commit_count == 1
    assert f"1 commit by `{info.author_name}` on {commit.date}: `" in format_markdown(merge)
    assert merge.notes == ()
    assert f"since their merge base `{str(base)[:10]}`" in format_markdown(merge)
    assert only(direct) == ChangeCounts(0, 2, 0)
    assert direct.merge_base is None
    assert "`side` does not come after `main`" in direct.notes[0]
    assert repo.review("HEAD^...HEAD").merge_base is None


def test_no_common_ancestor(tmp_path: Path) -> None:
    repo = small.make(tmp_path / "repo", {1: ("a", 1)})
    run_git("checkout", "-q", "--orphan", "other", cwd=repo.path)
    run_git("commit", "-q", "--allow-empty", "-m", "Other", cwd=repo.path)

    with pytest.raises(RevisionNotFoundError) as caught:
        repo.review("main...other")
    assert "main..other" in caught.value.hints[0]


def test_added_and_removed(tmp_path: Path) -> None:
    repo = small.make(tmp_path / "repo", {1: ("a", 1)})
    small.add(repo, tmp_path, {1: ("x", 1), 2: ("y", 2)}, "more")

    (added,) = repo.review("HEAD^..HEAD").datasets
    (removed,) = repo.review("HEAD..HEAD^").datasets

    assert (added.state, added.rows_before, added.rows_after) == ("added", 0, 2)
    assert (removed.state, removed.rows_before, removed.rows_after) == ("removed", 2, 0)
    assert [flag.kind for flag in removed.flags] == [FlagKind.DATASET_REMOVED]


def test_without_a_key(repo: CheckedRepo, tmp_path: Path) -> None:
    for count in (5, 7):
        file = tables.write(tmp_path / f"{count}.parquet", tables.points(count).drop(["id"]))
        repo.import_(file, "points", options=tables.NO_KEY, replace=count == 7)

    review = repo.review("HEAD^..HEAD")

    assert only(review) == ChangeCounts(2, 0, 0)
    assert len(review.datasets[0].samples) == 2


def test_rows_that_change_back(tmp_path: Path) -> None:
    start = {n: (f"r{n}", n) for n in range(5)}
    repo = small.make(tmp_path / "repo", start)
    small.write(repo, start | {1: ("other", 1), 2: ("other", 2)})
    small.write(repo, start | {2: ("third", 2), 3: ("other", 3)})

    (dataset,) = repo.review("HEAD~2..HEAD").datasets
    (flag,) = dataset.flags
    (step,) = repo.review("HEAD~1..HEAD").datasets

    assert dataset.counts == ChangeCounts(0, 2, 0)
    assert (flag.kind, flag.count, flag.rows) == (FlagKind.CHANGED_BACK, 1, ("1",))
    assert step.flags == ()


def test_rows_that_change_twice_are_no_matter(tmp_path: Path) -> None:
    start = {n: (f"r{n}", n) for n in range(5)}
    repo = small.make(tmp_path / "repo", start)
    small.write(repo, start | {1: ("other", 1)})
    small.write(repo, start | {1: ("third", 1)})

    (dataset,) = repo.review("HEAD~2..HEAD").datasets

    assert dataset.flags == ()


def stored(repo: Repo) -> Iterator[Path]:
    return (path for path in (repo.git.data_folder / "objects").rglob("*") if path.is_file())


def test_data_that_is_not_here(tmp_path: Path) -> None:
    start = {n: (f"r{n}", n) for n in range(5000)}
    repo = small.make(tmp_path / "repo", start)
    before = set(stored(repo))
    small.write(repo, start | {1: ("other", 1), 6000: ("new", 1)})
    repo.set_meta("points", {"title": "A title"})
    for path in set(stored(repo)) - before:
        path.unlink()

    review = repo.review("HEAD~2..HEAD")
    (dataset,) = review.datasets
    page = format_markdown(review)

    assert dataset.unread is not None
    assert "is not here" in dataset.unread
    assert [flag.kind for flag in dataset.flags] == [FlagKind.UNVERIFIED]
    assert dataset.unread in dataset.flags[0].message
    assert "`name`" in dataset.unread
    assert (dataset.rows_before, dataset.rows_after) == (5000, 5001)
    assert "`title` is now `A title`" in page
    assert "| `points` | 5,000 | ? | ? | ? | 5,001 |" in page


def test_a_damaged_data_file(tmp_path: Path) -> None:
    repo = small.make(tmp_path / "repo", {n: (f"r{n}", n) for n in range(50)})
    small.write(repo, {n: (f"r{n}", n + 1) for n in range(50)})
    for path in stored(repo):
        path.chmod(0o644)
        path.write_bytes(path.read_bytes()[:-9])

    (dataset,) = repo.review("HEAD^..HEAD").datasets

    assert dataset.unread is not None
    assert "cannot be read" in dataset.unread
    assert [flag.kind for flag in dataset.flags] == [FlagKind.UNVERIFIED]


def test_a_dataset_that_git_merged_as_text(tmp_path: Path) -> None:
    repo = small.make(tmp_path / "repo", {1: ("a", 1)})
    small.add(repo, tmp_path, {1: ("a", 1)}, "other")
    small.write(repo, {1: ("b", 2)})
    # A hand takes away what every epoch has.
    name = "other/.havasu-dataset/edits/3"
    run_git("update-index", "--force-remove", name, cwd=repo.path)
    run_git("commit", "-q", "-m", "Merged as text", cwd=repo.path)

    review = Repo.open(repo.path).review("HEAD~2..HEAD")
    other, points = review.datasets
    text = format_markdown(review)

    assert (other.path, other.rows_before, other.rows_after) == ("other", 1, 1)
    assert [flag.kind for flag in other.flags] == [FlagKind.UNVERIFIED]
    assert "the version after cannot be read" in other.flags[0].message
    assert (points.counts.updates, points.flags) == (1, ())
    assert "| `other` | 1 | ? | ? | ? | 1 | ⚠️ 1 |" in text
    assert Repo.open(repo.path).review("HEAD~2..HEAD", ["points"]).datasets == (points,)


def test_rows_whose_old_values_cannot_be_compared_are_unverified(tmp_path: Path) -> None:
    # Large enough that a delete file is written and not the whole table anew.
    start = {n: (hashlib.sha256(bytes([n % 251, n // 251])).hexdigest(), n) for n in range(9000)}
    repo = small.make(tmp_path / "repo", start)
    before = set(stored(repo))
    repo.write("points", small.table({5: ("x", 5)}).select(["id"]), mode="delete")
    # As in a clone that brought what the difference needs.
    for file in (*before, *(repo.git.data_folder / "keys").rglob("*-verified")):
        file.unlink()

    (dataset,) = repo.review("HEAD^..HEAD").datasets

    assert dataset.counts == ChangeCounts(0, 0, 1)
    assert [flag.kind for flag in dataset.flags] == [FlagKind.UNVERIFIED]
    assert dataset.flags[0].message.startswith("deleted rows are shown unverified")


@pytest.mark.parametrize(
    ("crs", "place", "expected"),
    [
        ("EPSG:4326", (179.9, -17, -179.9, -16), (-179.9, -17, 179.9, -16)),
        ("EPSG:3832", (3339584, 0, 3450903, 10000), (180.0, 0, -179.0, 0.09)),
    ],
)
def test_area_in_degrees(
    tmp_path: Path,
    crs: str,
    place: tuple[float, float, float, float],
    expected: tuple[float, float, float, float],
) -> None:
    import geopandas

    x0, y0, x1, y1 = place
    frame = geopandas.GeoDataFrame(
        {"id": [1, 2]}, geometry=[shapely.Point(x0, y0), shapely.Point(x1, y1)], crs=crs
    )
    file = tmp_path / "a.parquet"
    frame.to_parquet(file)
    repo = empty_repo(tmp_path / "repo")
    repo.import_(file, "a", options=tables.BY_ID)

    (dataset,) = repo.review("[EMPTY]..HEAD").datasets

    assert dataset.area is not None
    assert dataset.area.geographic == pytest.approx(expected, abs=0.02)
    assert ("over the antimeridian" in format_markdown(repo.review("[EMPTY]..HEAD"))) is (
        expected[0] > expected[2]
    )


def test_kart_datasets(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "kart", kart=True)
    file = tables.write(tmp_path / "a.parquet", tables.points(20))
    repo.import_(file, "a", options=tables.BY_ID)
    repo.write("a", tables.points(3, name="other"))

    review = repo.review("HEAD^..HEAD")

    assert only(review) == ChangeCounts(0, 3, 0)
    assert [column.name for column in review.datasets[0].columns] == ["name"]


def test_json_of_a_review(filled: CheckedRepo) -> None:
    from havasu_vc.review.json import format_json

    filled.write("points", tables.points(3, name="other"))
    found = json.loads(format_json(filled.review("HEAD^..HEAD")))["havasu.review/v2"]

    assert found["base"] == "HEAD^"
    assert found["datasets"][0]["counts"] == {"inserts": 0, "updates": 3, "deletes": 0}


def test_coordinates_in_another_system(repo: CheckedRepo, tmp_path: Path) -> None:
    file = tables.write(tmp_path / "points.parquet", tables.points(3))
    repo.import_(file, options=tables.BY_ID)
    found = review(repo.repo.opened, ReviewRequest("[EMPTY]..HEAD", crs="EPSG:3857"))
    (dataset,) = found.datasets

    assert dataset.area is not None
    assert dataset.area.crs == "EPSG:3857"
    assert dataset.area.touched is not None
    assert dataset.area.touched.xmin == pytest.approx(-20037508, abs=10_000)
    assert dataset.area.geographic == pytest.approx((-180, 0, -178, 2), abs=0.01)
    places = [cell.new for row in dataset.samples for cell in row.cells if cell.column == "geom"]
    assert places[1] is not None
    assert places[1].startswith("POINT (-19926188")


def test_commits_of_years_that_no_calendar_has_are_reviewed(tmp_path: Path) -> None:
    """git keeps 64 bits for a time."""
    repo = small.make(tmp_path / "repo", {1: ("one", 1)})
    repo.create_branch("far")
    repo.switch("far")
    small.write(repo, {1: ("ONE", 1)})
    document = run_git("cat-file", "commit", "HEAD", cwd=repo.path)
    later = re.sub(r"(author .*> )\d+ ", r"\g<1>300000000000 ", document)
    command = ("hash-object", "-t", "commit", "-w", "--literally", "--stdin")
    commit = run_git(*command, cwd=repo.path, stdin=later + "\n").strip()
    run_git("update-ref", "refs/heads/far", commit, cwd=repo.path)

    for arguments in (("review", "main...far"), ("review", "main...far", "-o", "markdown")):
        told = succeed(invoke(["-C", repo.path, *arguments])).stdout
        assert "9999-12-31" in told
    assert "9999" in succeed(invoke(["-C", repo.path, "log", "-n", "1"])).stdout
    page = str(Repo.open(repo.path).commit_info("far")._repr_html_())
    assert "9999-12-31" in page
