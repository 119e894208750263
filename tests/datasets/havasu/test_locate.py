"""Rows are looked for only in files whose range of keys may hold them."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from havasu_vc import Repo
from havasu_vc.datasets.digest import hash_keys
from havasu_vc.datasets.havasu.keys import KeyCache, open_key_cache
from havasu_vc.datasets.havasu.locate import (
    count_apart,
    entries_holding,
    locate,
    may_hold,
    sound_key_cache,
)
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.protocol import Predicate
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.sharing import CloneRequest
from havasu_vc.testing.memory import run_all
from tests.datasets.havasu.test_checks import flip
from tests.datasets.thresholds import tiny_thresholds
from tests.repo.tables import BY_ID, write
from tests.support.templates import LOCAL, empty_repo

KEYS: dict[str, list[list[Any]]] = {
    "whole": [[10, 12, 19], [20, 29], [30]],
    "text": [["b", "bz"], ["c", "cé"], ["d"]],
    "day": [[date(2000, 1, 1)], [date(2001, 1, 1)], [date(2002, 1, 1)]],
    "exact": [[Decimal("1.50")], [Decimal("2.50")], [Decimal("3.50")]],
}


def files_of(repo: Repo) -> HavasuDataset:
    view = repo.dataset("t")
    assert isinstance(view, HavasuDataset)
    return view


@pytest.fixture(params=KEYS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def repo(tmp_path: Path, kind: str) -> Repo:
    """A dataset of three files, one after the other by their keys."""
    pieces = [pa.table({"id": keys, "n": [0] * len(keys)}) for keys in KEYS[kind]]
    found = empty_repo(tmp_path / "repo")
    with tiny_thresholds(most_deltas=9):
        found.import_(write(tmp_path / "t.parquet", pieces[0]), options=BY_ID)
        for piece in pieces[1:]:
            found.write("t", piece.cast(found.table("t").to_arrow().schema), mode="append")
    assert len(files_of(found).data_entries) == 3
    return found


def may(view: HavasuDataset, *keys: Any) -> list[bool]:
    """Tell of the three files, in the order of their keys, which are looked into."""
    schema = arrow_schema(view.schema.select(view.key.names))
    wanted = pa.RecordBatch.from_pylist([{"id": key} for key in keys], schema=schema)
    (key,) = (field.id for field in view.key.fields)
    lowest: dict[str, Any] = {e.file: e.statistics[key].lower for e in view.data_entries}
    files = sorted(view.data_entries, key=lambda entry: lowest[entry.file])
    found = [may_hold(entry, wanted, view.schema) for entry in files]
    assert {e.file for e in entries_holding(view, wanted)} == {
        entry.file for entry, yes in zip(files, found, strict=True) if yes
    }
    return found


@pytest.mark.parametrize("kind", ["whole"], indirect=True)
def test_by_whole_numbers(repo: Repo) -> None:
    view = files_of(repo)
    for first in (10, 15, 19):
        assert may(view, first) == [True, False, False]
    assert may(view, 20) == [False, True, False]
    assert may(view, 30) == [False, False, True]
    for nowhere in (9, 31, -1):
        assert may(view, nowhere) == [False, False, False]
    assert may(view, 9, 31) == [False, False, False]
    assert may(view, 10, 31) == may(view, 19, 9) == [True, False, False]
    assert may(view, 1, 20, 30) == [False, True, True]


@pytest.mark.parametrize("kind", ["text"], indirect=True)
def test_by_text(repo: Repo) -> None:
    view = files_of(repo)
    assert may(view, "b") == may(view, "bm") == may(view, "bz") == [True, False, False]
    assert may(view, "cé") == [False, True, False]
    assert may(view, "d") == [False, False, True]
    assert may(view, "a") == may(view, "bzz") == may(view, "cê") == [False, False, False]
    assert may(view, "a", "e") == [False, False, False]
    assert may(view, "c", "d") == [False, True, True]


@pytest.mark.few(2)
def test_a_row_is_found_whatever_its_key_is(repo: Repo, kind: str) -> None:
    keys = [key for piece in KEYS[kind] for key in piece]
    schema = repo.table("t").to_arrow().schema
    for key in keys:
        rows = pa.table({"id": [key], "n": [1]}).cast(schema)
        counts = repo.write("t", rows, message=f"Set {key}").changes["t"]
        assert (counts.inserts, counts.updates, counts.deletes) == (0, 1, 0)
    assert sorted(repo.table("t").to_arrow()["id"].to_pylist()) == keys
    assert set(repo.table("t").to_arrow()["n"].to_pylist()) == {1}


@pytest.mark.parametrize("kind", ["whole"], indirect=True)
def test_rows_are_counted_by_their_hashes(repo: Repo) -> None:
    view = files_of(repo)
    keys = arrow_schema(view.schema.select(view.key.names))
    rows = arrow_schema(view.schema)

    def counted(*pairs: tuple[int, int | None]) -> tuple[int, int, int] | None:
        """Tell what differs where rows became so; None stands for one that goes."""
        asked = pa.RecordBatch.from_pylist([{"id": key} for key, _ in pairs], schema=keys)
        became = [{"id": key, "n": n} for key, n in pairs if n is not None]
        found = count_apart(view, asked, pa.RecordBatch.from_pylist(became, schema=rows))
        return None if found is None else (found.inserts, found.updates, found.deletes)

    assert counted((10, 0)) == (0, 0, 0)
    assert counted((10, 1)) == (0, 1, 0)
    assert counted((11, 0)) == (1, 0, 0)
    assert counted((10, None)) == (0, 0, 1)
    assert counted((11, None)) == (0, 0, 0)
    assert counted((30, 5), (10, 0), (9, 1), (8, 2), (20, None), (19, 1)) == (2, 2, 1)
    assert counted((10, 1), (10, 1)) is None


def wanted(view: HavasuDataset, *keys: Any) -> pa.RecordBatch:
    schema = arrow_schema(view.schema.select(view.key.names))
    return pa.RecordBatch.from_pylist([{"id": key} for key in keys], schema=schema)


def caches(view: HavasuDataset) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in view.storage.keys.iterdir()}


@pytest.mark.parametrize("kind", ["whole"], indirect=True)
def test_files_without_statistics_of_the_key_are_looked_into(repo: Repo) -> None:
    view = files_of(repo)
    (key,) = (field.id for field in view.key.fields)
    for entry in view.data_entries:
        bare = replace(entry, statistics={})
        assert may_hold(bare, wanted(view, 10), view.schema)
        for side in ("lower", "upper"):
            none: dict[str, Any] = {side: None}
            known = replace(entry.statistics[key], **none)
            half = replace(entry, statistics={**entry.statistics, key: known})
            assert may_hold(half, wanted(view, 10), view.schema)
    assert may(view, 9, 20) == [False, True, False]
    assert may(view, 31, 30) == [False, False, True]


@pytest.mark.parametrize("kind", ["whole"], indirect=True)
def test_keys_are_kept_for_files_that_may_hold_them_and_read_again(repo: Repo) -> None:
    view = files_of(repo)
    for path in view.storage.keys.iterdir():
        path.unlink()

    assert view.rows_with_keys(wanted(view, 10)).to_pylist() == [{"id": 10, "n": 0}]
    kept = caches(view)
    assert len(kept) == 1
    assert view.rows_with_keys(wanted(view, 12)).to_pylist() == [{"id": 12, "n": 0}]
    assert caches(view) == kept
    for entry in view.data_entries:
        assert len(sound_key_cache(view, entry).keys) == entry.rows
    every = caches(view)
    assert len(every) == 3 and kept.items() <= every.items()
    for entry in view.data_entries:
        sound_key_cache(view, entry)
    assert caches(view) == every


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("removed", [False, True])
@pytest.mark.parametrize("kind", ["whole"], indirect=True)
def test_damaged_keys_are_made_anew(
    repo: Repo, whole: bool, removed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where somebody else removed them in between, and where nothing can be written."""
    view = files_of(repo)
    for path in view.storage.keys.iterdir():
        flip(path, path.stat().st_size - 1)
    before = caches(view)
    if removed:
        real = KeyCache.check_all if whole else KeyCache.find

        def found_gone(cache: KeyCache, *given: Any) -> Any:
            for path in view.storage.keys.iterdir():
                path.unlink()
            return real(cache, *given)

        monkeypatch.setattr(KeyCache, real.__name__, found_gone)

    def unwritable(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr("havasu_vc.datasets.havasu.locate.write_key_cache", unwritable)
        look(view, whole)
    assert not caches(view)
    monkeypatch.undo()
    view = files_of(Repo.open(repo.path, settings=LOCAL))
    look(view, whole)
    assert len(caches(view)) == 3 and caches(view).keys() == before.keys()


def look(view: HavasuDataset, whole: bool) -> None:
    if whole:
        for entry in view.data_entries:
            assert len(sound_key_cache(view, entry).keys) == entry.rows
    else:
        rows = view.rows_with_keys(wanted(view, 10, 20, 30)).to_pylist()
        assert sorted(row["id"] for row in rows) == [10, 20, 30]


@pytest.mark.parametrize("kind", ["whole"], indirect=True)
def test_whoever_writes_rows_looks_their_keys_up_once(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def counting(path: Path) -> KeyCache | None:
        opened.append(path.name)
        return open_key_cache(path)

    monkeypatch.setattr("havasu_vc.datasets.havasu.locate.open_key_cache", counting)
    rows = pa.table({"id": [12, 15, 20, 31], "n": [1, 2, 3, 4]})
    assert repo.write("t", rows.cast(repo.table("t").to_arrow().schema)).changes["t"].total == 4
    assert len(opened) == len(set(opened)) == 2
    assert [row["n"] for row in repo.table("t").to_arrow().sort_by("id").to_pylist()] == [
        *(0, 1, 2, 0, 3, 0, 0, 4)
    ]


@pytest.mark.parametrize("kind", ["whole"], indirect=True)
def test_rows_with_keys_are_planned_with_the_columns_that_are_wanted(repo: Repo) -> None:
    view = files_of(repo)
    for columns, expected in ((None, {"id": 20, "n": 0}), (["n"], {"n": 0})):
        (batch,) = run_all(view.scan(columns, Predicate(keys=((20,),))))
        assert batch.to_pylist() == [expected]


@pytest.mark.parametrize("kind", ["whole"], indirect=True)
def test_what_is_absent_is_fetched_at_once_where_keys_are_not_known(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = CloneRequest(str(repo.path), tmp_path / "clone", on_demand=True)
    clone, _ = Repo.clone(asked)
    view = files_of(Repo.open(clone.path, settings=LOCAL))
    brought: list[list[str]] = []
    kind = type(view.storage.fetcher)
    real: Any = kind.fetch  # type: ignore[union-attr]

    def counted(fetcher: Any, files: Iterable[tuple[str, int]]) -> None:
        found = list(files)
        brought.append([file for file, _ in found])
        real(fetcher, found)

    monkeypatch.setattr(kind, "fetch", counted)
    keys = hash_keys(wanted(view, 10, 20), view.schema)
    assert len(list(locate(view, keys, wanted(view, 10, 20)))) == 2
    assert [len(files) for files in brought] == [2]
    brought.clear()
    assert len(list(locate(view, keys, wanted(view, 10, 20, 30)))) == 2
    assert [len(files) for files in brought] == [1]
