"""Diff, show and log: ranges, filters, datasets that come and go; and the laws of diffs."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from havasu_vc import Settings
from havasu_vc.datasets.havasu import diff as havasu_diff
from havasu_vc.datasets.havasu import pieces
from havasu_vc.datasets.pairing import pair_rows
from havasu_vc.history import across
from havasu_vc.history import diff as history_diff
from havasu_vc.model.diffs import DatasetDiff
from havasu_vc.writers.protocol import WriterOptions
from havasu_vc.writers.registry import writer_named
from tests.repo.tables import BY_ID, NO_KEY, points, rows, write
from tests.support.sound import CheckedRepo

Pair = tuple[dict[str, Any] | None, dict[str, Any] | None]


def pairs(diff: DatasetDiff) -> list[Pair]:
    return [(row["old"], row["new"]) for batch in diff.changes for row in batch.data.to_pylist()]


def changed(repo: CheckedRepo, revisions: str, *filters: str) -> dict[str, list[int]]:
    found = {}
    for diff in repo.diff(revisions, filters):
        found[diff.path] = [(new or old or {})["id"] for old, new in pairs(diff)]
    return found


@pytest.fixture
def history(filled: CheckedRepo, tmp_path: Path) -> CheckedRepo:
    """Four commits on `main`; `side` forks after the second."""
    filled.write("points", pa.table({"id": [1, 2], "name": ["one", "two"]}), message="names")
    filled.create_branch("side")
    filled.import_(write(tmp_path / "more.parquet", points(5)), "b/more", options=BY_ID)
    filled.write("points", pa.table({"id": [3]}), mode="delete", message="three goes")
    filled.switch("side")
    filled.write("points", pa.table({"id": [50], "name": ["side"]}), message="fifty")
    filled.switch("main")
    return filled


def test_ranges_mean_what_they_do_in_git(history: CheckedRepo) -> None:
    assert changed(history, "HEAD^...HEAD") == {"points": [3]}
    assert changed(history, "HEAD~2...HEAD") == {"b/more": [0, 1, 2, 3, 4], "points": [3]}
    # Three dots compare from the merge base, two dots the ends themselves.
    assert changed(history, "main...side") == {"points": [50]}
    assert changed(history, "main..side") == {"b/more": [0, 1, 2, 3, 4], "points": [3, 50]}
    assert changed(history, "HEAD...HEAD") == {}
    assert changed(history, "HEAD~2") == {"b/more": [0, 1, 2, 3, 4], "points": [3]}
    assert len(changed(history, "[EMPTY]...HEAD")["points"]) == 99
    assert len(changed(history, "HEAD~3^?...HEAD~3")["points"]) == 100


def test_filters_choose_datasets_rows_and_items(history: CheckedRepo) -> None:
    history.set_meta("points", {"title": "Points"})
    assert changed(history, "HEAD~3...HEAD", "points") == {"points": [3]}
    assert changed(history, "HEAD~3...HEAD", "b/*") == {"b/more": [0, 1, 2, 3, 4]}
    assert changed(history, "HEAD~3...HEAD", "b/more:feature:4") == {"b/more": [4]}
    two = changed(history, "HEAD~3...HEAD", "b/more:feature:4", "b/more:feature:0", "points")
    assert two == {"b/more": [0, 4], "points": [3]}
    (diff,) = history.diff("HEAD~3...HEAD", ["points:meta:title"])
    assert [change.new for change in diff.meta] == ["Points"] and not pairs(diff)
    (diff,) = history.diff("HEAD~3...HEAD", ["points:feature"])
    assert not diff.meta and len(pairs(diff)) == 1


def test_a_dataset_that_goes_and_one_that_moves(history: CheckedRepo) -> None:
    (added,) = history.diff("HEAD~2...HEAD", ["b/more"])
    assert added.old is None and all(old is None for old, _ in pairs(added))
    (removed,) = history.diff("HEAD..HEAD~2", ["b/more"])
    assert removed.new is None and all(new is None for _, new in pairs(removed))
    assert [(new, old) for old, new in pairs(removed)] == pairs(added)


def test_a_change_of_the_schema_alone_changes_no_row(filled: CheckedRepo) -> None:
    columns = filled.get_meta("points", ["schema.json"])["schema.json"]
    columns[2]["name"] = "label"
    columns[2], columns[3] = columns[3], columns[2]
    columns.append({"name": "more", "dataType": "text"})
    filled.set_meta("points", {"schema.json": columns})
    (diff,) = filled.diff("HEAD^...HEAD")
    assert [change.name for change in diff.meta] == ["schema.json"] and not pairs(diff)
    columns = filled.get_meta("points", ["schema.json"])["schema.json"]
    filled.set_meta("points", {"schema.json": [c for c in columns if c["name"] != "label"]})
    (diff,) = filled.diff("HEAD^...HEAD")
    assert not pairs(diff)


@pytest.mark.parametrize("order", ["key", "hilbert", "none"])
@pytest.mark.few(1)
def test_the_laws_of_diffs(repo: CheckedRepo, tmp_path: Path, order: str) -> None:
    file = write(tmp_path / "points.parquet", points(400))
    repo.import_(file, options=BY_ID, order=order)
    repo.write("points", pa.table({"id": list(range(0, 600, 7)), "name": ["x"] * 86}))
    repo.write("points", pa.table({"id": list(range(0, 400, 11))}), mode="delete")
    repo.write("points", points(30, start=380, name="new"))
    commits = [info.id for info in repo.log()]
    for first in commits:
        for second in commits:
            forth = {d.path: pairs(d) for d in repo.diff(f"{first}..{second}")}
            back = {d.path: pairs(d) for d in repo.diff(f"{second}..{first}")}
            assert back == {p: [(new, old) for old, new in c] for p, c in forth.items()}
            table = {row["id"]: row for row in rows(repo, "points", first)}
            for old, new in forth.get("points", []):
                if old is not None:
                    assert table.pop(old["id"]) == old
                if new is not None:
                    table[new["id"]] = new
            assert [table[key] for key in sorted(table)] == rows(repo, "points", second)
            assert (first == second) == (not forth)


def test_rows_without_a_key_are_deleted_and_inserted(repo: CheckedRepo, tmp_path: Path) -> None:
    table = pa.table({"id": [1, 1, 2, 2, 2], "name": ["a", "a", "b", None, None]})
    repo.import_(write(tmp_path / "t.parquet", table), options=NO_KEY)
    repo.write("t", pa.table({"id": [2, 1], "name": [None, "c"]}), mode="overwrite")
    (diff,) = repo.diff("HEAD^...HEAD")
    found = pairs(diff)
    assert sorted(str(old) for old, _ in found if old) == sorted(
        str(row) for row in table.slice(0, 4).to_pylist()
    )
    assert [new for _, new in found if new] == [{"id": 1, "name": "c"}]


def test_show_and_log(history: CheckedRepo) -> None:
    info, diffs = history.show("HEAD~3")
    assert len(pairs(diffs[0])) == 100 and info.parents == ()
    assert history.log(limit=2)[0].message == "three goes"
    assert [i.message for i in history.log(filters=["b/more"])] == [
        "Import from more.parquet:more to b/more/"
    ]
    assert [i.message for i in history.log("main..side")] == ["fifty"]
    assert len(history.log(skip=1, limit=2)) == 2
    assert [i.message for i in history.log(grep="goes")] == ["three goes"]
    assert history.log(author="nobody at all") == []
    assert len(history.log(author="Test User")) == 4


@pytest.mark.parametrize(
    "name", ["text", "json", "json-lines", "geojson", "quiet", "feature-count"]
)
@pytest.mark.few(2)
def test_every_writer_takes_every_diff(history: CheckedRepo, name: str) -> None:
    import io

    for revisions in ("HEAD^...HEAD", "[EMPTY]...HEAD", "HEAD..HEAD~2"):
        for filters in (["points"], ["b/*"]) if revisions != "HEAD^...HEAD" else (["points"],):
            out = io.StringIO()
            writer_named(name)(history.repo.diff(revisions, filters), out, WriterOptions())
            assert out.getvalue() or name == "quiet"


def test_a_dealt_diff_that_is_left_half_way_leaves_nothing(
    repo: CheckedRepo, tmp_path: Path
) -> None:
    repo.import_(write(tmp_path / "p.parquet", points(2000)), options=BY_ID, order="hilbert")
    repo.write("p", points(2000, name="x"))
    for diff in repo.repo.diff("HEAD^...HEAD"):
        next(iter(diff.changes))
    del diff
    repo.repo.with_settings(Settings(engine="local"))
    repo.status()


@pytest.mark.parametrize("kind", ["along a curve", "without a key"])
def test_rows_in_no_common_order_are_paired_in_parts_of_one_size(
    repo: CheckedRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Four times as many rows make more parts, not larger ones, and the same changes."""
    monkeypatch.setattr(history_diff, "PARTS", 2)
    monkeypatch.setattr(across, "PART_BYTES", 4000)
    for name in ("SMALL_ROWS", "SMALL_BYTES"):
        monkeypatch.setattr(havasu_diff, name, 0)
    held: list[int] = []

    def noting(before: pa.RecordBatch, after: pa.RecordBatch, *schemas: Any) -> Any:
        held.append(len(before) + len(after))
        return pair_rows(before, after, *schemas)

    monkeypatch.setattr(pieces, "pair_rows", noting)
    monkeypatch.setattr(havasu_diff, "align", lambda *_: None)
    most: list[int] = []
    for name, count in (("few", 2000), ("many", 8000)):
        options = NO_KEY if kind == "without a key" else BY_ID
        order = "hilbert" if kind == "along a curve" else "none"
        file = write(tmp_path / f"{name}.parquet", points(count))
        repo.import_(file, name, options=options, order=order)
        file = write(tmp_path / f"{name}.parquet", points(count, name="new"))
        repo.import_(file, name, options=options, replace=True)
        held.clear()
        (diff,) = repo.diff("HEAD^...HEAD", [name])
        assert len(pairs(diff)) == count * (2 if options is NO_KEY else 1)
        most.append(max(held))
    assert most[1] < 2.5 * most[0], "larger files are smaller for their rows, but not by half"
