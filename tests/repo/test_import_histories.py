"""Histories of Iceberg tables, as commits, branches and tags of git."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from havasu_vc.errors import (
    CorruptionError,
    HavasuError,
    InvalidArgumentError,
    NotYetSupportedError,
)
from havasu_vc.formats.havasu.properties import PartitionField, PartitionSpec
from havasu_vc.formats.iceberg.values import MAIN, DataFile, Reference
from havasu_vc.model.changes import count_changes
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive
from havasu_vc.store.files import ALLOWED
from havasu_vc.store.refs import list_branches, list_tags
from tests.exchange.test_iceberg import GEOM, ID, NAME, SCHEMA, numbered
from tests.repo.tables import rows
from tests.support.git import run_git
from tests.support.sound import LOCAL, CheckedRepo, assert_sound, refuses
from tests.tables.making import TableMaker

pytestmark = pytest.mark.few(2)

NAMES = "schema.name-mapping.default"


@pytest.fixture
def maker(tmp_path: Path) -> TableMaker:
    made = TableMaker(tmp_path / "roads", SCHEMA)
    made.commit(made.data(numbered(*range(40))))
    return made


def history(repo: Any, maker: TableMaker, **options: Any) -> Any:
    return repo.import_(f"iceberg:{maker.location}", "roads", history=True, **options)


def ids(repo: Any, revision: str = "HEAD") -> list[int]:
    return [row["id"] for row in rows(repo, "roads", revision)]


def changes(repo: Any, revisions: str) -> tuple[int, int, int]:
    (found,) = repo.diff(revisions)
    counts = count_changes(found.changes)
    return counts.inserts, counts.updates, counts.deletes


@pytest.mark.few(1)
@pytest.mark.parametrize("link", [False, True])
def test_columns_are_followed_by_id(repo: CheckedRepo, maker: TableMaker, link: bool) -> None:
    """A column is renamed, its name given to another, one widened, one dropped."""
    lanes = Field(4, "lanes", Primitive.INT)
    maker.evolve(Schema((ID, GEOM, NAME, lanes), (1,)))
    maker.commit(maker.data([{"id": 50, "name": "n50", "lanes": 2}]))
    title, name = replace(NAME, name="title"), Field(5, "name", Primitive.INT)
    maker.evolve(Schema((ID, title, replace(lanes, type=Primitive.LONG), name), (1,)))
    maker.commit(maker.data([{"id": 51, "title": "n51", "lanes": 1 << 40, "name": 7}]))

    history(repo, maker, link=link)

    assert [len(ids(repo, f"HEAD~{n}")) for n in (2, 1, 0)] == [40, 41, 42]
    assert repo.dataset("roads", "HEAD~1").schema.names == ("id", "geom", "name", "lanes")
    now = rows(repo, "roads")
    assert now[3] == {"id": 3, "title": "n3", "lanes": None, "name": None}
    assert now[-1] == {"id": 51, "title": "n51", "lanes": 1 << 40, "name": 7}
    # A column that was renamed is the same one, so no row of before shows as changed by it.
    old, new = (repo.dataset("roads", r).schema.by_name for r in ("HEAD~1", "HEAD"))
    assert old["name"].id == new["title"].id != new["name"].id
    assert not list(repo.fsck(full=True))


def test_partitions_come_and_go(repo: CheckedRepo, tmp_path: Path) -> None:
    specs = (
        PartitionSpec((), 0),
        PartitionSpec((PartitionField(1, 1000, "bucket", "bucket[4]"),), 1),
    )
    maker = TableMaker(tmp_path / "roads", SCHEMA, specs)
    maker.commit(maker.data(numbered(1, 2)), spec_id=0)
    part = maker.data(numbered(3), partition={1000: 1})
    maker.commit(part, spec_id=1)
    maker.commit(maker.equal([{"id": 3}], (1,), partition={1000: 1}), spec_id=1)
    maker.commit(maker.equal([{"id": 1}], (1,)), spec_id=0)

    history(repo, maker)

    assert [ids(repo, f"HEAD~{n}") for n in (3, 2, 1, 0)] == [[1, 2], [1, 2, 3], [1, 2], [2]]


@pytest.mark.few(1)
@pytest.mark.parametrize("link", [False, True])
def test_deletes_of_all_kinds(repo: CheckedRepo, tmp_path: Path, link: bool) -> None:
    maker = TableMaker(tmp_path / "roads", SCHEMA)
    file = maker.data(numbered(*range(40)))
    maker.commit(file)
    maker.commit(maker.deletes(at=[(file, [3, 4])]))
    maker.commit(maker.equal([{"id": 5}], (1,)), maker.data(numbered(41)))
    maker.commit(maker.data(numbered(5)), removed=[])

    history(repo, maker, link=link)

    assert [len(ids(repo, f"HEAD~{n}")) for n in (3, 2, 1, 0)] == [40, 38, 38, 39]
    assert changes(repo, "HEAD~2...HEAD~1") == (1, 0, 1)
    assert not list(repo.fsck(full=True))


def test_what_was_rolled_back_is_no_history(repo: CheckedRepo, maker: TableMaker) -> None:
    first = maker.table.metadata.current_snapshot_id
    assert first is not None
    maker.commit(maker.data(numbered(60)))
    maker.change(current_snapshot_id=first, references={MAIN: Reference(first)})
    maker.commit(maker.data(numbered(61)))

    history(repo, maker)

    assert len(repo.log()) == 2
    assert ids(repo)[-1] == 61 and 60 not in ids(repo)


def test_snapshots_that_expired_are_no_commits(repo: CheckedRepo, maker: TableMaker) -> None:
    first = maker.table.metadata.current_snapshot_id
    maker.commit(maker.data(numbered(60)))
    maker.commit(maker.data(numbered(61)))
    snapshots = dict(maker.table.metadata.snapshots)
    assert first is not None
    del snapshots[first]
    maker.change(snapshots=snapshots)

    history(repo, maker)

    assert [len(ids(repo, revision)) for revision in ("HEAD^", "HEAD")] == [41, 42]
    assert len(repo.log()) == 2


@pytest.mark.few(1)
@pytest.mark.parametrize("link", [False, True])
def test_branches_and_tags_become_gits(repo: CheckedRepo, maker: TableMaker, link: bool) -> None:
    first = maker.table.metadata.current_snapshot_id
    assert first is not None
    second = maker.commit(maker.data(numbered(50)))
    audit = maker.commit(maker.data(numbered(70)))
    later = maker.commit(maker.data(numbered(71)))
    maker.change(
        current_snapshot_id=second,
        references={
            MAIN: Reference(second),
            "v1": Reference(first, "tag"),
            "audit": Reference(later),
            "same": Reference(second),
            "lost": Reference(audit, "tag"),
            "bad name~": Reference(first, "tag"),
        },
    )

    result = history(repo, maker, refs=True, link=link)

    assert ids(repo) == [*range(40), 50]
    assert ids(repo, "v1") == list(range(40))
    assert ids(repo, "audit") == [*range(40), 50, 70, 71]
    assert ids(repo, "audit^") == [*range(40), 50, 70]
    assert repo.resolve("same").commit == repo.resolve("HEAD").commit
    assert repo.resolve("audit~2").commit == repo.resolve("HEAD").commit
    assert {branch.name for branch in list_branches(repo.git)} == {"main", "audit", "same"}
    assert {tag.name for tag in list_tags(repo.git)} == {"v1", "lost"}
    assert any("bad name~" in note for note in result.notes)
    assert_sound(repo.repo)


def test_refs_that_git_has_stay(repo: CheckedRepo, maker: TableMaker) -> None:
    first = maker.table.metadata.current_snapshot_id
    assert first is not None
    second = maker.commit(maker.data(numbered(50)))
    maker.change(references={MAIN: Reference(second), "v1": Reference(first, "tag")})
    repo.import_(f"iceberg:{maker.location}", "other")
    run_git("tag", "v1", cwd=repo.path)
    there = run_git("rev-parse", "v1", cwd=repo.path)

    result = history(repo, maker, refs=True)

    assert run_git("rev-parse", "v1", cwd=repo.path) == there
    assert any("v1 already" in note for note in result.notes)


def test_a_file_of_a_table_that_is_missing_is_one_line(
    repo: CheckedRepo, maker: TableMaker
) -> None:
    file = next((maker.location / "data").iterdir())
    file.unlink()
    for link in (False, True):
        with pytest.raises(CorruptionError, match=file.name) as caught:
            repo.repo.import_(f"iceberg:{maker.location}", link=link)
        assert "is missing" in str(caught.value) and "\n" not in caught.value.message


def elsewhere(maker: TableMaker, folder: Path) -> DataFile:
    folder.mkdir()
    file = maker.data(numbered(80, 81))
    path = folder / "given.parquet"
    Path(file.path).rename(path)
    return replace(file, path=f"file://{path}")


@pytest.mark.parametrize("link", [False, True])
def test_files_of_other_folders_come_where_that_is_allowed(
    repo: CheckedRepo, maker: TableMaker, tmp_path: Path, link: bool
) -> None:
    maker.commit(elsewhere(maker, tmp_path / "given"))
    with pytest.raises(CorruptionError, match="outside of") as caught:
        repo.repo.import_(f"iceberg:{maker.location}", link=link)
    assert any(ALLOWED in hint for hint in caught.value.hints)

    run_git("config", "--add", ALLOWED, str(tmp_path / "given"), cwd=repo.path)
    opened = type(repo.repo).open(repo.path, settings=LOCAL)
    opened.import_(f"iceberg:{maker.location}", "roads", link=link)
    assert ids(opened)[-2:] == [80, 81]


def test_a_table_on_another_file_system(repo: CheckedRepo, maker: TableMaker) -> None:
    file = maker.data(numbered(80))
    maker.commit(replace(file, path="hdfs://cluster/data/a.parquet"))
    with refuses(repo.repo, NotYetSupportedError, match="another file system", hint=True):
        repo.repo.import_(f"iceberg:{maker.location}")


@pytest.mark.parametrize("link", [False, True])
def test_a_name_mapping_tells_the_columns_of_files_without_ids(
    repo: CheckedRepo, tmp_path: Path, link: bool
) -> None:
    plain = Schema((ID, NAME), (1,))
    mapping = '[{"field-id": 1, "names": ["fid"]}, {"field-id": 3, "names": ["label"]}]'
    maker = TableMaker(tmp_path / "roads", plain, properties={NAMES: mapping})
    arrow = pa.schema([("fid", pa.int64()), ("label", pa.string())])
    maker.commit(maker.data([{"fid": 1, "label": "a"}], schema=arrow))

    history(repo, maker, link=link)
    assert rows(repo, "roads") == [{"id": 1, "name": "a"}]

    maker.change(properties={})
    with pytest.raises(HavasuError, match="no field ids"):
        repo.repo.import_(f"iceberg:{maker.location}", "two", link=link)


def test_files_and_deltas_have_no_branches(repo: CheckedRepo, tmp_path: Path) -> None:
    for location in (str(tmp_path / "a.parquet"), f"delta:{tmp_path}"):
        with refuses(repo.repo, InvalidArgumentError):
            repo.repo.import_(location, history=True, refs=True)
