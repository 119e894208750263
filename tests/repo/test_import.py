"""Imports: new datasets and new releases of those that are there."""

from pathlib import Path

import pyarrow as pa
import pytest

from havasu_vc.errors import InvalidArgumentError, SchemaViolationError, UnsupportedTypeError
from havasu_vc.exchange.source import SourceOptions
from tests.repo.tables import BY_ID, NO_KEY, points, rows, write, write_layers
from tests.support.sound import CheckedRepo, frozen, refuses


@pytest.mark.few(1)
@pytest.mark.parametrize("order", ["key", "hilbert", "none"])
@pytest.mark.parametrize("options", [BY_ID, NO_KEY], ids=["key", "no key"])
def test_all_rows_come_in_every_order(
    repo: CheckedRepo, tmp_path: Path, order: str, options: SourceOptions
) -> None:
    table = points(300)
    file = write(tmp_path / "p.parquet", table.take(list(range(299, -1, -1))))

    result = repo.import_(file, "some/points", options=options, order=order)

    assert result.datasets["some/points"].inserts == 300
    assert rows(repo, "some/points") == table.to_pylist()
    assert repo.dataset("some/points").key.names == (("id",) if options is BY_ID else ())
    assert [d.path for d in repo.diff()] == ["some/points"]


def test_layers_come_in_one_commit(repo: CheckedRepo, tmp_path: Path) -> None:
    file = write_layers(tmp_path / "l.gpkg", {"one": 3, "two": 5, "three": 0})

    with refuses(repo.repo, InvalidArgumentError, hint=True):
        repo.repo.import_(file)
    repo.import_(file, all_layers=True)

    assert repo.datasets() == ("one", "three", "two")
    assert len(repo.log()) == 1
    repo.import_(file, layers=["one:a/first", "two"], replace=True)
    assert repo.datasets() == ("a/first", "one", "three", "two")
    assert len(rows(repo, "a/first")) == 3


def test_two_layers_cannot_become_one_dataset(repo: CheckedRepo, tmp_path: Path) -> None:
    file = write_layers(tmp_path / "l.gpkg", {"one": 3, "two": 5})
    for layers in (["one:x", "two:x"], ["one:x", "two:x/y"], ["one", "one"]):
        with refuses(repo.repo, InvalidArgumentError, ValueError):  # type: ignore[arg-type]
            repo.repo.import_(file, layers=layers)
    with refuses(repo.repo, InvalidArgumentError):
        repo.repo.import_(file, "x", all_layers=True)


def test_a_dry_run_counts_and_changes_nothing(filled: CheckedRepo, tmp_path: Path) -> None:
    file = write(tmp_path / "new.parquet", points(90, start=20, name="new"))

    with frozen(filled.repo):
        result = filled.import_(file, "points", replace=True, dry_run=True)
        again = filled.import_(file, "other", options=BY_ID, dry_run=True)

    counts = result.datasets["points"]
    assert (counts.inserts, counts.updates, counts.deletes) == (10, 80, 20)
    assert result.commit is None and again.commit is None
    assert again.datasets["other"].inserts == 90


@pytest.mark.few(1)
@pytest.mark.parametrize("order", ["key", "hilbert", "none"])
def test_a_release_commits_what_differs(repo: CheckedRepo, tmp_path: Path, order: str) -> None:
    old = points(500)
    repo.import_(write(tmp_path / "p.parquet", old), options=BY_ID, order=order, message="1")
    new = pa.concat_tables([points(10, name="new"), old.slice(10, 480), points(7, start=900)])

    result = repo.import_(write(tmp_path / "p2.parquet", new), "p", replace=True)

    counts = result.datasets["p"]
    assert (counts.inserts, counts.updates, counts.deletes) == (7, 10, 10)
    assert rows(repo, "p") == sorted(new.to_pylist(), key=lambda row: row["id"])
    (diff,) = repo.diff("HEAD^...HEAD")
    assert sum(len(batch) for batch in diff.changes) == 27 and not diff.meta
    same = repo.import_(tmp_path / "p2.parquet", "p", replace=True)
    assert same.commit is None


def test_a_release_without_a_key_is_compared_by_rows(repo: CheckedRepo, tmp_path: Path) -> None:
    old = pa.table({"a": [1, 1, 2, 3], "b": ["x", "x", None, "z"]})
    repo.import_(write(tmp_path / "t.parquet", old), options=NO_KEY)
    new = pa.table({"a": [1, 2, 2, 3], "b": ["x", None, None, "z"]})

    result = repo.import_(write(tmp_path / "t2.parquet", new), "t", replace=True)

    counts = result.datasets["t"]
    assert (counts.inserts, counts.updates, counts.deletes) == (1, 0, 1)
    found = sorted(map(str, repo.table("t").to_arrow().to_pylist()))
    assert found == sorted(map(str, new.to_pylist()))


def test_a_release_may_have_more_fewer_and_wider_columns(
    filled: CheckedRepo, tmp_path: Path
) -> None:
    wide = points(100).set_column(3, "number", pa.array([i + (1 << 40) for i in range(100)]))
    filled.import_(write(tmp_path / "w.parquet", wide), "points", replace=True)
    assert rows(filled, "points") == wide.to_pylist()

    fewer = wide.drop_columns(["name"]).append_column("more", pa.array(["m"] * 100))
    filled.import_(write(tmp_path / "f.parquet", fewer), "points", replace=True)
    assert rows(filled, "points") == fewer.to_pylist()
    assert rows(filled, "points", "HEAD^") == wide.to_pylist()
    assert rows(filled, "points", "HEAD~2") == points(100).to_pylist()

    # Narrower values fit; the column stays as wide as it was.
    narrow = fewer.set_column(2, "number", pa.array(range(100), pa.int16()))
    filled.import_(write(tmp_path / "n.parquet", narrow), "points", replace=True)
    assert [row["number"] for row in rows(filled, "points")] == list(range(100))

    no_key = fewer.drop_columns(["id"])
    with refuses(filled.repo, SchemaViolationError, match="id"):
        filled.repo.import_(write(tmp_path / "k.parquet", no_key), "points", replace=True)


def test_an_empty_table_is_a_dataset(repo: CheckedRepo, tmp_path: Path) -> None:
    for order in ("key", "hilbert", "none"):
        repo.import_(write(tmp_path / f"{order}.parquet", points(0)), options=BY_ID, order=order)
        assert rows(repo, order) == []
    repo.write("key", points(5))
    repo.write("key", points(5).select(["id"]), mode="delete")
    assert rows(repo, "key") == [] and rows(repo, "key", "HEAD^") == points(5).to_pylist()


def test_the_same_import_gives_the_same_tree_but_for_the_table_id(
    tmp_path: Path, repo: CheckedRepo
) -> None:
    file = write(tmp_path / "p.parquet", points(1000))
    repo.import_(file, "one", options=BY_ID)
    repo.import_(file, "two", options=BY_ID)
    assert repo.dataset("one").entries.keys() == repo.dataset("two").entries.keys()


def test_whole_numbers_come_into_a_column_of_doubles(repo: CheckedRepo, tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("id,height\n1,1.5\n2,2\n")
    repo.import_(file, options=SourceOptions(primary_key=("id",)))
    file.write_text("id,height\n1,3\n2,2\n3,\n")
    result = repo.import_(file, "t", replace=True)

    assert (result.datasets["t"].inserts, result.datasets["t"].updates) == (1, 1)
    assert {row["id"]: row["height"] for row in rows(repo, "t")} == {1: 3.0, 2: 2.0, 3: None}
    file.write_text(f"id,height\n1,{2**53 + 1}\n")
    with refuses(repo.repo, UnsupportedTypeError):
        repo.repo.import_(file, "t", replace=True)
