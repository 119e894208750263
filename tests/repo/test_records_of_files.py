"""What a table of many files is remembered by: the same is read with a record and without.

The limits are lowered, so that each tree of a small table gets a record, made from the last
one and what differs in git. A history of random steps is read after each step both ways.
"""

from __future__ import annotations

import hashlib
import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import shapely

from havasu_vc import Repo
from havasu_vc.datasets.havasu import edit, soundness, standing
from havasu_vc.datasets.havasu.live import SpatialTest, ValueRange, live_files
from havasu_vc.datasets.havasu.locate import entries_holding
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.protocol import Predicate, TreeEdit
from havasu_vc.errors import HavasuError, UnfinishedMergeError
from havasu_vc.formats.havasu.deltas import format_tombstone
from havasu_vc.geo.predicates import SpatialPredicate, Window
from havasu_vc.model.arrow import arrow_type
from tests.repo.points import make, read, write
from tests.repo.tables import BY_ID, points
from tests.repo.tables import write as write_table
from tests.support.git import run_git
from tests.support.templates import empty_repo

Rows = dict[int, tuple[str | None, int | None]]


@pytest.fixture(autouse=True)
def low_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a record of every tree, and fold early."""
    monkeypatch.setattr(soundness, "MANY", 1)
    monkeypatch.setattr(edit, "MOST_DELTAS", 4)


def opened(path: Path, dataset: str = "points", revision: str = "HEAD") -> HavasuDataset:
    """Return a dataset, opened anew."""
    view = Repo.open(path).dataset(dataset, revision)
    assert isinstance(view, HavasuDataset)
    return view


def records(path: Path) -> Path:
    """Return the folder of records."""
    return path / ".git" / "havasu" / "standing"


def told(view: HavasuDataset) -> dict[str, Any]:
    """Return what a dataset says of its files."""
    return {
        "rows": view.rows,
        "targets": {file: sorted(targets) for file, targets in view.delete_targets.items()},
        "size": view.size,
        "in files": view.rows_in_files,
        "marks": view.marks & ((1 << 128) - 1),
        "sums": view.snapshot,
        "deltas": dict(view.deltas),
        "folded": dict(view.folded),
        "entries": dict(view.entries),
        "data": view.data_entries,
        "deletes": dict(view.deletes),
        "edited": edit.files_to_fold(view.edited_entries(1 << 20), coming=1000),
        "dated": [delta.id for delta in view.deltas_with((), dated=True)],
        "owners": [[d.id for d in view.deltas_with([file])] for file in sorted(view.entries)],
    }


def assert_same(path: Path) -> None:
    """Check that a record was kept, and that what it says is what is read without."""
    with_record = opened(path)
    assert with_record._standing.record is not None
    known = told(with_record)
    kept = records(path).with_name("aside")
    shutil.move(records(path), kept)
    standing._deltas.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(soundness, "MANY", 1 << 30)
        without = opened(path)
        assert without._standing.record is None
        assert told(without) == known
    standing._read.clear()
    shutil.move(kept, records(path))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.few(1)
def test_random_steps(seed: int, tmp_path: Path) -> None:
    choose = random.Random(seed)
    model: Rows = {number: (f"n{number}", number) for number in range(40)}
    repo = make(tmp_path / "repo", model)
    branches: dict[str, Rows] = {"main": dict(model)}
    at = "main"
    for step in range(14):
        what = choose.choice(["edit", "edit", "edit", "delete", "branch", "merge", "switch", "all"])
        rows = dict(branches[at])
        if what in ("edit", "all"):
            count = 30 if what == "all" else choose.randint(1, 4)
            for key in choose.sample(range(60), count):
                rows[key] = (f"{at}{step}", key)
        elif what == "delete" and len(rows) > 6:
            for key in choose.sample(sorted(rows), 3):
                del rows[key]
        elif what == "branch":
            run_git("branch", f"b{step}", cwd=repo.path)
            branches[f"b{step}"] = dict(rows)
        elif what == "switch":
            at = choose.choice(sorted(branches))
            repo.switch(at)
            rows = branches[at]
        elif what == "merge":
            other = choose.choice(sorted(branches))
            try:
                merged = repo.merge(other)
            except HavasuError:
                continue
            if merged.conflicts:
                repo.abort_merge()
                continue
            rows = {k: tuple(v) for k, v in read(repo).items()}
        if rows != branches[at]:
            write(repo, rows)
            branches[at] = rows
        assert read(repo) == dict(sorted(branches[at].items()))
        assert_same(repo.path)
    if seed == 0:
        repo.optimize()
        assert_same(repo.path)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.thorough
def test_versions_one_after_another(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a version is read of, and that which was read before, is what is read of it alone."""
    choose = random.Random(seed)
    monkeypatch.setattr(soundness, "MANY", 1 << 30)
    monkeypatch.setattr(standing, "_NEAR", 12)
    rows: Rows = {number: (f"n{number}", number) for number in range(40)}
    repo = make(tmp_path / "repo", rows)
    for step in range(30):
        for key in choose.sample(range(60), choose.choice([1, 1, 2, 30])):
            rows.pop(key, None) if choose.random() < 0.3 else rows.update({key: (f"s{step}", key)})
        write(repo, dict(sorted(rows.items())))
    commits = [each.id for each in repo.log()]
    alone = {}
    for commit in commits:
        standing._read.clear()
        alone[commit] = told(opened(repo.path, revision=commit))
    all_read, read_standing = [], standing.read_standing

    def counted(*arguments: Any) -> standing.Standing:
        all_read.append(arguments)
        return read_standing(*arguments)

    monkeypatch.setattr(soundness, "read_standing", counted)
    for order in (commits, commits[::-1], choose.sample(commits, len(commits))):
        for commit in order:
            found = told(opened(repo.path, revision=commit))
            assert list(found["deltas"]) == list(alone[commit]["deltas"])
            assert found == alone[commit]
    assert 0 < len(all_read) < len(commits)


def asked(view: HavasuDataset, keys: list[Any], box: tuple[float, float, float, float]) -> Any:
    """Return the files that reads of some keys and of a box take."""
    key, place = view.key.fields[0], view.schema.by_name["geom"]
    rows = pa.table({key.name: pa.array(keys, arrow_type(key.type))}).to_batches()[0]
    shape = shapely.box(*box)
    test = SpatialTest(place.id, SpatialPredicate.INTERSECTS, Window(shape))
    ranges = {key.id: ValueRange(min(keys), max(keys))}
    return (
        [entry.file for entry in entries_holding(view, rows)],
        [task.arguments[0] for task in view.scan(where=Predicate(box=box))],
        [live.entry.file for live in live_files(view, ranges=ranges)],
        [live.entry.file for live in live_files(view, tests=[test])],
    )


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", [pa.int64(), pa.string()], ids=str)
def test_keys_and_boxes_find_the_same_files(
    kind: pa.DataType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edit, "MOST_DELTAS", 100)
    repo = empty_repo(tmp_path / "repo")

    def rows(start: int, count: int) -> pa.Table:
        found = points(count, start=start)
        return found.set_column(0, "id", found.column("id").cast(kind))

    repo.import_(write_table(tmp_path / "t.parquet", rows(0, 20)), "points", options=BY_ID)
    for start in range(40, 400, 30):
        repo.write("points", rows(start, 5))
    opened(repo.path).check_guard()
    view, spared = opened(repo.path), 0
    for numbers in ([3], [71], [44, 371], [5000], [30]):
        keys = [number if kind == pa.int64() else str(number) for number in numbers]
        for box in ((-180.0, 0.0, -165.0, 12.0), (170.0, -90.0, -170.0, 90.0), (5, 80, 6, 81)):
            assert view._standing.record is not None
            with monkeypatch.context() as patch:
                known = asked(view, keys, box)
                patch.setattr(
                    HavasuDataset, "data_entries_where", lambda self, _: self.data_entries
                )
                assert asked(view, keys, box) == known
            spared += len(view.data_entries) - len(known[0])
    assert spared > 0, "columns would spare nothing"


@pytest.mark.few(1)
@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other"])
def test_a_damaged_record_is_made_anew(damage: str, tmp_path: Path) -> None:
    rows: Rows = {number: ("x", number) for number in range(10)}
    repo = make(tmp_path / "repo", rows)
    write(repo, {**rows, 1: ("y", 1)})
    opened(repo.path).check_guard()
    known = told(opened(repo.path))
    for record in records(repo.path).iterdir():
        data = bytearray(record.read_bytes())
        if damage == "cut":
            data = data[: len(data) // 2]
        elif damage == "flipped":
            data[len(data) // 2] ^= 1
        elif damage == "empty":
            data = bytearray()
        else:
            data = bytearray(hashlib.sha256(b"{}").digest() + b"{}")
        record.write_bytes(data)
    assert told(opened(repo.path)) == known
    assert_same(repo.path)


def test_what_was_before_a_fold_is_read_beside_a_record_of_after(tmp_path: Path) -> None:
    rows: Rows = {number: ("x", number) for number in range(10)}
    repo = make(tmp_path / "repo", rows)
    for number in range(9):
        rows = {**rows, number: ("y", number)}
        write(repo, rows)
    assert opened(repo.path).folded
    kept = records(repo.path).with_name("kept")
    for back in range(1, 9):
        shutil.rmtree(records(repo.path))
        standing._read.clear()
        told(opened(repo.path))
        assert records(repo.path).is_dir()
        standing._read.clear()
        known = told(opened(repo.path, revision=f"HEAD~{back}"))
        shutil.move(records(repo.path), kept)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(soundness, "MANY", 1 << 30)
            assert told(opened(repo.path, revision=f"HEAD~{back}")) == known
        shutil.move(kept, records(repo.path))


def test_what_a_hand_made_wrong_is_found_beside_a_record(tmp_path: Path) -> None:
    rows: Rows = {number: ("x", number) for number in range(10)}
    repo = make(tmp_path / "repo", rows)
    write(repo, {**rows, 1: ("y", 1)})
    view = opened(repo.path)
    view.check_guard()
    assert records(repo.path).is_dir()
    (delta,) = (d for d in view.deltas.values() if d.epoch is not None)
    marker = next(f"edits/{name}" for name, _ in view.folder.blobs("edits") if name.count("/") > 1)
    pointer = delta.files[0].pointer_path
    other = format_tombstone("0" * 40)
    for broken in (
        {delta.path: None},
        {delta.path: other},
        {marker: None},
        {marker: b"\0" + b"1" * 32},
        {pointer: None},
        {"data/00/" + "0" * 64: b"x"},
        {f"files/00/{'0' * 40}.json": other},
    ):
        made = view.after(TreeEdit(view.path, broken))
        with pytest.raises(UnfinishedMergeError):
            made.check_guard()
