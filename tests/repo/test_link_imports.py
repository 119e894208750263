"""Tables of Iceberg whose files stay where they are, named by a dataset."""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from havasu_vc import Repo
from havasu_vc.errors import (
    CorruptDataFileError,
    InvalidArgumentError,
    KeyViolationError,
    NotFoundError,
)
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.formats.havasu.properties import PartitionField, PartitionSpec
from havasu_vc.formats.iceberg.values import MAIN, Reference
from havasu_vc.model.changes import count_changes
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Encoding, Field, Primitive
from havasu_vc.sharing.requests import CloneRequest
from havasu_vc.store.files import ALLOWED
from havasu_vc.upkeep.garbage import collect_garbage
from tests.exchange.test_iceberg import GEOM, ID, NAME, SCHEMA, numbered
from tests.repo.tables import rows
from tests.support.broken import set_files
from tests.support.git import run_git
from tests.support.sound import LOCAL, CheckedRepo, assert_sound, refuses
from tests.tables.making import TableMaker

pytestmark = pytest.mark.few(2)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def maker(tmp_path: Path) -> TableMaker:
    made = TableMaker(tmp_path / "owner" / "roads", SCHEMA)
    made.commit(made.data(numbered(*range(40))), made.data(numbered(*range(40, 60))))
    return made


def link(repo: Any, maker: TableMaker, **options: Any) -> Any:
    return repo.import_(f"iceberg:{maker.location}", link=True, **options)


def changes(repo: Any, revisions: str) -> tuple[int, int, int]:
    (found,) = repo.diff(revisions)
    counts = count_changes(found.changes)
    return counts.inserts, counts.updates, counts.deletes


def ids(repo: Any, revision: str = "HEAD") -> list[int]:
    return [row["id"] for row in rows(repo, "roads", revision)]


def stored(repo: CheckedRepo) -> list[Path]:
    return [path for path in (repo.path / ".git/havasu/objects").rglob("*") if path.is_file()]


def state(folder: Path) -> dict[str, tuple[int, int, int, int]]:
    """Return what tells whether anybody touched the files of a folder."""
    found = {}
    for path in folder.rglob("*"):
        at = path.stat()
        found[str(path)] = (at.st_mode, at.st_size, at.st_mtime_ns, at.st_nlink)
    return found


def test_files_stay_where_they_are(repo: CheckedRepo, maker: TableMaker) -> None:
    before = state(maker.location)

    result = link(repo, maker)

    assert result.datasets["roads"].inserts == 60
    assert ids(repo) == list(range(60))
    assert stored(repo) == []
    assert state(maker.location) == before
    view = repo.dataset("roads")
    assert view.key.names == ("id",)
    assert {entry.location for entry in view.entries.values()} == {
        path.as_uri() for path in (maker.location / "data").iterdir()
    }
    listed = run_git("ls-tree", "-r", "--name-only", "HEAD", cwd=repo.path).splitlines()
    assert not any("/data/" in name for name in listed)  # nothing for others to carry
    assert not list(repo.fsck(full=True))


def test_deletes_of_a_table_are_deletes_of_the_dataset(
    repo: CheckedRepo, maker: TableMaker
) -> None:
    maker.commit(maker.equal([{"id": 3}, {"id": 41}], (1,)))

    link(repo, maker)

    assert ids(repo) == [n for n in range(60) if n not in (3, 41)]
    assert repo.dataset("roads").snapshot.deleted_rows == 2
    assert not list(repo.fsck(full=True))


def test_sums_are_those_of_a_copy(repo: CheckedRepo, maker: TableMaker) -> None:
    maker.commit(maker.equal([{"id": 5}], (1,)))

    link(repo, maker)
    repo.import_(
        f"iceberg:{maker.location}",
        "copy",
        options=SourceOptions(geometry_encoding=Encoding.WKB),
    )

    linked, copy = repo.dataset("roads").snapshot, repo.dataset("copy").snapshot
    assert linked.digests == copy.digests
    assert linked.rows == copy.rows


def test_rows_are_edited_like_any_others(repo: CheckedRepo, maker: TableMaker) -> None:
    link(repo, maker)
    before = state(maker.location)

    new = [row for row in numbered(*range(55)) if row["id"] not in (7, 8)]
    maker_two = TableMaker(maker.location.parent / "two", SCHEMA)
    maker_two.commit(
        maker_two.data([{**row, "name": "x"} if row["id"] < 2 else row for row in new])
    )
    repo.import_(f"iceberg:{maker_two.location}", "roads", replace=True)

    assert ids(repo) == [row["id"] for row in new]
    assert changes(repo, "HEAD^...HEAD") == (0, 2, 7)
    assert state(maker.location) == before
    assert len([e for e in repo.dataset("roads").entries.values() if e.location]) == 2
    assert not list(repo.fsck(full=True))


def test_a_later_snapshot_brings_only_what_is_new(repo: CheckedRepo, maker: TableMaker) -> None:
    link(repo, maker)
    first = set(repo.dataset("roads").entries)
    gone = [_files(maker)[1].path]
    maker.commit(maker.data(numbered(70, 71)), maker.equal([{"id": 45}], (1,)))

    result = link(repo, maker, replace=True)

    counts = result.datasets["roads"]
    assert (counts.inserts, counts.updates, counts.deletes) == (2, 0, 1)
    assert ids(repo) == [*(n for n in range(60) if n != 45), 70, 71]
    now = repo.dataset("roads").entries
    assert first < set(now)
    assert changes(repo, "HEAD^...HEAD") == (2, 0, 1)

    maker.commit(maker.data(numbered(*range(40, 44))), removed=gone)
    link(repo, maker, replace=True)
    assert not list(repo.fsck(full=True))
    assert link(repo, maker, replace=True).commit is None


def _files(maker: TableMaker) -> list[Any]:
    from havasu_vc.tables.snapshots import live_files

    return [each.file for each in live_files(maker.table) if each.is_data]


def test_a_table_that_was_rolled_back(repo: CheckedRepo, maker: TableMaker) -> None:
    first = maker.table.metadata.current_snapshot_id
    assert first is not None
    maker.commit(maker.equal([{"id": 3}], (1,)))
    link(repo, maker)
    assert 3 not in ids(repo)

    maker.change(current_snapshot_id=first, references={MAIN: Reference(first)})
    link(repo, maker, replace=True)

    assert ids(repo) == list(range(60))
    assert changes(repo, "HEAD^...HEAD") == (1, 0, 0)
    assert not list(repo.fsck(full=True))


@pytest.mark.thorough
def test_each_snapshot_becomes_a_commit(repo: CheckedRepo, maker: TableMaker) -> None:
    maker.commit(maker.equal([{"id": 3}], (1,)))
    wider = Schema((ID, GEOM, replace(NAME, name="title"), Field(9, "lanes", Primitive.INT)), (1,))
    maker.evolve(wider)
    maker.commit(maker.data([{"id": 99, "title": "new", "lanes": 2}]))

    link(repo, maker, history=True)

    assert [len(ids(repo, f"HEAD~{n}")) for n in (2, 1, 0)] == [60, 59, 60]
    assert repo.dataset("roads").schema.names == ("id", "geom", "title", "lanes")
    assert rows(repo, "roads")[-1]["lanes"] == 2
    assert rows(repo, "roads", "HEAD~2")[3]["name"] == "n3"
    assert stored(repo) and all(path.stat().st_size < 20_000 for path in stored(repo))
    assert not list(repo.fsck(full=True))


def test_files_that_do_not_say_all_are_copied(repo: CheckedRepo, tmp_path: Path) -> None:
    spec = PartitionSpec((PartitionField(3, 1000, "name", "identity"),), 0)
    maker = TableMaker(tmp_path / "roads", SCHEMA, (spec,))
    part = maker.data(numbered(1, 2), schema=_arrow(ID, GEOM), partition={1000: "a"})
    maker.commit(part)

    link(repo, maker)

    assert [row["name"] for row in rows(repo, "roads")] == ["a", "a"]
    (entry,) = repo.dataset("roads").data_entries
    assert entry.location is None
    assert len(stored(repo)) == 1


def _arrow(*fields: Field) -> pa.Schema:
    from havasu_vc.model.arrow import arrow_schema

    return arrow_schema(Schema(fields))


@pytest.mark.thorough
def test_a_file_that_is_gone_or_changed(repo: CheckedRepo, maker: TableMaker) -> None:
    link(repo, maker)
    file = Path(_files(maker)[0].path)
    good = file.read_bytes()

    file.unlink()
    with refuses(repo.repo, NotFoundError, match="is not there", hint=True):
        rows(repo.repo, "roads")
    (finding,) = repo.fsck()
    assert file.as_uri() in finding.message and "not there" in finding.message

    file.write_bytes(good[:-1])
    with refuses(repo.repo, CorruptDataFileError, match="bytes instead of"):
        rows(repo.repo, "roads")

    file.write_bytes(bytes([good[0] ^ 1]) + good[1:])
    with refuses(repo.repo, CorruptDataFileError, match="has the hash"):
        rows(repo.repo, "roads")
    assert any("has the hash" in each.message for each in repo.fsck())

    file.write_bytes(good)  # of another time, which is looked at once
    assert ids(repo) == list(range(60))
    assert not list(repo.fsck(full=True))


def test_bytes_that_changed_behind_an_old_time_are_found(
    repo: CheckedRepo, maker: TableMaker
) -> None:
    link(repo, maker)
    file = Path(_files(maker)[0].path)
    at = file.stat()
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))
    os.utime(file, ns=(at.st_atime_ns, at.st_mtime_ns))

    assert any("hash" in each.message for each in repo.fsck(full=True))


@pytest.mark.thorough
def test_a_colleague_who_may_not_or_cannot_read_the_files(
    repo: CheckedRepo, maker: TableMaker, tmp_path: Path
) -> None:
    link(repo, maker)
    theirs, _ = Repo.clone(CloneRequest(str(repo.path), tmp_path / "theirs"), settings=LOCAL)

    with pytest.raises(NotFoundError, match="may not be read") as caught:
        rows(theirs, "roads")
    assert ALLOWED in caught.value.hints[0] and str(maker.location) in caught.value.hints[0]
    assert any("may not be read" in each.message for each in theirs.fsck())

    run_git("config", "--add", ALLOWED, str(tmp_path / "owner"), cwd=theirs.path)
    theirs = Repo.open(theirs.path, settings=LOCAL)
    assert ids(theirs) == list(range(60))
    assert not list(theirs.fsck(full=True))


def test_a_folder_that_is_allowed_leads_nowhere_else(
    repo: CheckedRepo, maker: TableMaker, tmp_path: Path
) -> None:
    link(repo, maker)
    theirs, _ = Repo.clone(CloneRequest(str(repo.path), tmp_path / "theirs"), settings=LOCAL)
    shutil.move(str(maker.location / "data"), tmp_path / "secret")
    (maker.location / "data").symlink_to(tmp_path / "secret")
    run_git("config", "--add", ALLOWED, str(tmp_path / "owner"), cwd=theirs.path)

    with pytest.raises(NotFoundError, match="may not be read"):
        rows(Repo.open(theirs.path, settings=LOCAL), "roads")


def test_garbage_is_never_the_owners(repo: CheckedRepo, maker: TableMaker) -> None:
    link(repo, maker)
    before = state(maker.location)
    links = repo.path / ".git/havasu/linked"
    collect_garbage(repo.git, grace_seconds=0)
    assert len([path for path in links.rglob("*") if path.is_symlink()]) == 2

    run_git("update-ref", "-d", "HEAD", cwd=repo.path)
    run_git("reflog", "expire", "--expire=now", "--all", cwd=repo.path)
    run_git("read-tree", "--empty", cwd=repo.path)
    collect_garbage(repo.git, grace_seconds=0)

    assert [path for path in links.rglob("*") if path.is_symlink()] == []
    assert state(maker.location) == before


def test_a_checkout_of_linked_files(repo: CheckedRepo, maker: TableMaker) -> None:
    link(repo, maker)
    before = {name: at[:3] for name, at in state(maker.location).items()}

    repo.repo.workspace.check_out()

    tables = repo.path / "tables" / "roads" / "data"
    assert all(path.is_file() and not path.is_symlink() for path in tables.iterdir())
    assert {name: at[:3] for name, at in state(maker.location).items()} == before
    assert sum(pq.read_metadata(path).num_rows for path in tables.iterdir()) == 60


@pytest.mark.thorough
def test_optimize_takes_linked_files_in(repo: CheckedRepo, maker: TableMaker) -> None:
    link(repo, maker)

    repo.optimize()

    assert all(entry.location is None for entry in repo.dataset("roads").entries.values())
    shutil.rmtree(maker.location)
    assert ids(repo) == list(range(60))


def test_what_cannot_be_linked(repo: CheckedRepo, maker: TableMaker, tmp_path: Path) -> None:
    with refuses(repo.repo, InvalidArgumentError, match="cannot be linked", hint=True):
        repo.repo.import_(tmp_path / "a.parquet", link=True)
    for options in ({"kind": "kart"}, {"order": "hilbert"}):
        with refuses(repo.repo, InvalidArgumentError, match="stay as they are", hint=True):
            link(repo.repo, maker, **options)
    box = SourceOptions(bbox=(0.0, 0.0, 1.0, 1.0))
    with refuses(repo.repo, InvalidArgumentError, match="all of their rows", hint=True):
        link(repo.repo, maker, options=box)
    maker.commit(maker.data(numbered(5)))
    with refuses(repo.repo, KeyViolationError, match="id = 5"):
        link(repo.repo, maker)
    link(repo, maker, options=SourceOptions(primary_key=()))
    assert len(ids(repo)) == 61

    other = TableMaker(tmp_path / "other", SCHEMA)
    other.commit(other.data(numbered(1)))
    with refuses(repo.repo, InvalidArgumentError, match="was not linked", hint=True):
        repo.repo.import_(f"iceberg:{other.location}", "roads", link=True, replace=True)


@pytest.mark.slow
def test_what_spark_wrote(
    repo: CheckedRepo, spark: "SparkSession", iceberg: Callable[[Path], str], tmp_path: Path
) -> None:
    catalog = iceberg(tmp_path / "warehouse")

    def sql(text: str) -> list[Any]:
        found: list[Any] = spark.sql(text.format(t=f"{catalog}.db.roads")).collect()
        return found

    sql(
        "CREATE TABLE {t} (id BIGINT, name STRING, day DATE) USING iceberg "
        "PARTITIONED BY (month(day)) TBLPROPERTIES ('write.delete.mode'='merge-on-read',"
        "'write.update.mode'='merge-on-read')"
    )
    sql("INSERT INTO {t} SELECT id, concat('n', id), DATE'2024-01-20' + CAST(id AS INT) "
        "FROM range(60)")  # fmt: skip
    sql("DELETE FROM {t} WHERE id % 10 = 3")
    place = tmp_path / "warehouse" / "db" / "roads"
    key = SourceOptions(primary_key=("id",))
    repo.import_(f"iceberg:{place}", link=True, options=key)
    sql("UPDATE {t} SET name = 'x' WHERE id = 7")
    sql("ALTER TABLE {t} ADD COLUMN lanes INT")
    sql("INSERT INTO {t} VALUES (70, 'y', DATE'2024-02-01', 3)")

    repo.import_(f"iceberg:{place}", link=True, replace=True)

    wanted = [row.asDict() for row in sql("SELECT * FROM {t} ORDER BY id")]
    assert rows(repo, "roads") == wanted
    assert changes(repo, "HEAD^...HEAD") == (1, 1, 0)
    assert not list(repo.fsck(full=True))
    assert_sound(repo.repo)
    view = repo.dataset("roads")
    assert all(e.location for e in view.data_entries)
    from havasu_vc import spark as on_spark

    assert on_spark.read(spark, repo.path, "roads").count() == 55


LINKED = {
    "no identity": ("dataset.json", None),
    "marks of git in it": ("dataset.json", b"<<<<<<< HEAD\n"),
    "no column": ("columns/1.json", None),
    "a garbled column": ("columns/1.json", b"{"),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("way", LINKED)
@pytest.mark.parametrize("changed", [False, True], ids=["the same files", "other files"])
def test_a_broken_dataset_is_replaced(
    repo: CheckedRepo, maker: TableMaker, way: str, changed: bool
) -> None:
    link(repo, maker)
    before = repo.repo.dataset("roads").schema
    name, data = LINKED[way]
    set_files(repo.path, {f"roads/.havasu-dataset/{name}": data}, "Broken")
    if changed:
        maker.commit(maker.equal([{"id": 3}], (1,)))
        shown = [n for n in range(60) if n != 3]
    else:
        shown = list(range(60))

    result = link(repo.repo, maker, replace=True)

    assert result.datasets["roads"].deletes == changed
    assert result.commit is not None
    assert ids(repo) == shown
    assert repo.repo.dataset("roads").schema == before
    assert_sound(repo.repo)
    assert link(repo, maker, replace=True).commit is None


def test_a_dataset_that_was_never_sound_comes_anew(repo: CheckedRepo, maker: TableMaker) -> None:
    run_git("commit", "-q", "--allow-empty", "-m", "First", cwd=repo.path)
    set_files(repo.path, {"roads/.havasu-dataset/dataset.json": b"{"}, "Broken")

    assert link(repo.repo, maker, replace=True).datasets["roads"].inserts == 60

    assert ids(repo) == list(range(60))
    assert_sound(repo.repo)
