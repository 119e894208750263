"""Tables of Kart datasets: what they show, how they follow, how edits become features."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
import shapely

from havasu_vc import Repo
from havasu_vc.checkouts.counterparts import COLUMNS, TREE, counterpart, tree_view
from havasu_vc.checkouts.requests import CheckoutRequest
from havasu_vc.datasets.protocol import DatasetInFiles
from havasu_vc.errors import (
    CorruptDatasetError,
    KeyViolationError,
    NoChangesError,
    NotFoundError,
    StateError,
)
from havasu_vc.formats.kart.columns import column_id
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.store.objects import KeptObjects, format_objects, parse_objects
from havasu_vc.tables.table import read_table
from tests.cli.conftest import invoke, succeed
from tests.repo.checkouts import assert_shows_head, rows_of, table_at
from tests.repo.tables import BY_ID, points, rows, write
from tests.support.sound import LOCAL, leftovers
from tests.support.templates import empty_repo
from tests.workspace import by_hand
from tests.workspace.sheets import counts_of
from tests.workspace.sheets import rows_of as edited_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NZ = "nz_pa_points_topo_150k"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A repository of Kart's with `points`, 3000 rows by id, checked out."""
    made = empty_repo(tmp_path / "repo", kart=True, settings=LOCAL)
    made.import_(write(tmp_path / "points.parquet", points(3000)), options=BY_ID)
    made.git.git("config", "havasu.workspace.path", str(tmp_path / "tables"))
    made = Repo.open(tmp_path / "repo", settings=LOCAL)
    made.workspace.check_out()
    return made


def tree(repo: Repo, revision: str = "HEAD") -> str:
    return repo.git.git("rev-parse", f"{revision}:points/.table-dataset").text


def place(repo: Repo) -> Path:
    return repo.workspace.root / "points"


def new(*ids: int, name: str = "new") -> by_hand.Rows:
    point = shapely.to_wkb(shapely.Point(1, 2))
    return [{"id": number, "geom": point, "name": name, "number": 1} for number in ids]


def documents(repo: Repo) -> list[Path]:
    return sorted((repo.git.data_folder / "kart").glob("*.table"))


def shown(repo: Repo, revision: str = "HEAD") -> DatasetInFiles:
    return tree_view(repo.opened, "points", tree(repo, revision), revision)


def test_a_checkout_shows_the_rows(repo: Repo) -> None:
    assert_shows_head(repo)
    properties = table_at(repo).metadata.properties
    schema = repo.dataset("points").schema
    assert json.loads(properties[COLUMNS]) == {column_id(f): f.id for f in schema.fields}
    assert properties[TREE] == tree(repo)
    assert [f.id for f in table_at(repo).metadata.schema.fields] == [f.id for f in schema.fields]
    before = [file.stat().st_mtime_ns for file in documents(repo)]
    assert repo.workspace.check_out().changed == ()
    assert len(documents(repo)) == 1
    assert [file.stat().st_mtime_ns for file in documents(repo)] == before
    assert leftovers(repo) == []


def test_a_workspace_needs_a_place(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "repo", kart=True, settings=LOCAL)
    repo.import_(write(tmp_path / "points.parquet", points(30)), options=BY_ID)
    with pytest.raises(StateError, match="no work tree"):
        repo.workspace.check_out(CheckoutRequest(copy=True))
    assert repo.workspace.check_out().root == tmp_path / "repo" / "repo.gpkg"  # as in Kart
    made = repo.workspace.check_out_to(tmp_path / "elsewhere", "HEAD")
    assert made.tables == ("points",)
    table = read_table(tmp_path / "elsewhere" / "points")
    assert rows_of(table) == sorted(rows(repo, "points"), key=repr)


@pytest.mark.thorough
def test_few_changes_are_an_edit_of_the_table(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    first = set(shown(repo).entries)
    repo.write("points", pa.table({"id": [3, 4000], "name": ["drei", "neu"]}))
    repo.write("points", pa.table({"id": [9]}), mode="delete")
    assert_shows_head(repo)
    second = shown(repo)
    assert first & set(second.entries)
    assert len(second.entries) > 1
    assert second.rows == 3000
    # From nothing, the same rows and identity, in other files.
    for file in documents(repo):
        file.unlink()
    again = counterpart(repo.opened, repo.opened.dataset("points"))
    assert again.entries.keys() != second.entries.keys()
    assert again.snapshot.digests == second.snapshot.digests
    assert again.properties.table_uuid == second.properties.table_uuid


@pytest.mark.thorough
def test_tables_follow_columns_and_documents(repo: Repo) -> None:
    columns = repo.get_meta("points", ["schema.json"])["schema.json"]
    columns[1]["name"] = "renamed"
    repo.set_meta("points", {"schema.json": [*columns, {"name": "new", "dataType": "date"}]})
    repo.set_meta("points", {"title": "Points of the town"})
    assert_shows_head(repo)
    assert table_at(repo).metadata.properties["comment"] == "Points of the town"
    repo.write("points", pa.table({"id": list(range(2995))}), mode="delete")
    assert_shows_head(repo)
    repo.switch("HEAD^")
    assert_shows_head(repo)


@pytest.mark.thorough
def test_edits_become_features(repo: Repo, tmp_path: Path) -> None:
    other = Path(shutil.copytree(repo.git.git_directory.parent, tmp_path / "other"))
    by_hand.delete(place(repo), [5, 7, 8])
    by_hand.insert(place(repo), [*new(5, name="fünf"), *new(9000)])
    expected = edited_rows(repo, "points")

    assert counts_of(repo, "points") == ChangeCounts(1, 1, 2)
    result = repo.workspace.commit(message="Edit")

    assert result.changes == {"points": ChangeCounts(1, 1, 2)}
    assert rows(repo, "points") == expected
    assert_shows_head(repo)
    assert list(repo.fsck(full=True)) == []
    changes = repo.workspace.changes()
    assert changes is not None
    assert not (changes.tables or changes.problems or changes.notes)
    # The same by hand gives the same tree.
    second = Repo.open(other, settings=LOCAL)
    second.write("points", pa.table({"id": [7, 8]}), mode="delete")
    second.write("points", pa.Table.from_pylist(new(5, name="fünf") + new(9000)))
    assert tree(second) == tree(repo)


@pytest.mark.thorough
def test_edits_of_an_older_commit_come_onto_head(repo: Repo) -> None:
    by_hand.delete(place(repo), [5])
    repo.write("points", pa.table({"id": [3], "name": ["drei"]}))
    changes = repo.workspace.changes()
    assert changes is not None
    assert "row by row" in " ".join(changes.notes)
    repo.workspace.commit(message="Edit")
    found = {row["id"]: row for row in rows(repo, "points")}
    assert 5 not in found
    assert found[3]["name"] == "drei"
    assert_shows_head(repo)


def test_what_changes_no_row_is_no_commit(repo: Repo) -> None:
    by_hand.rewrite(place(repo), rows(repo, "points")[::-1])
    with pytest.raises(NoChangesError):
        repo.workspace.commit()


def test_keys_stay_unique(repo: Repo) -> None:
    by_hand.insert(place(repo), new(5))
    with pytest.raises(KeyViolationError):
        repo.workspace.commit()


@pytest.mark.thorough
def test_edits_are_set_aside_and_come_back(repo: Repo) -> None:
    by_hand.delete(place(repo), [5])
    by_hand.insert(place(repo), new(9000))
    expected = edited_rows(repo, "points")
    repo.workspace.stash()
    assert counts_of(repo, "points") == ChangeCounts()
    repo.write("points", pa.table({"id": [3], "name": ["drei"]}))
    repo.workspace.apply_stash(drop=True)
    assert counts_of(repo, "points") == ChangeCounts(1, 0, 1)
    repo.workspace.commit(message="Edit")
    assert {r["id"] for r in rows(repo, "points")} == {r["id"] for r in expected}


@pytest.mark.thorough
def test_gc_keeps_what_is_checked_out(repo: Repo) -> None:
    repo.write("points", pa.table({"id": [3], "name": ["drei"]}))
    repo.switch("HEAD^")
    repo.switch("main")
    by_hand.delete(place(repo), [5])
    assert len(documents(repo)) == 2
    for file in documents(repo):
        os.utime(file, (0, 0))
    repo.gc(grace_days=0)
    assert [file.name.partition("-")[0] for file in documents(repo)] == [tree(repo)]
    assert counts_of(repo, "points") == ChangeCounts(0, 0, 1)
    repo.workspace.commit(message="Edit")
    repo.switch("HEAD^^")
    assert_shows_head(repo)


@pytest.mark.thorough
def test_a_damaged_table_of_the_cache_is_made_anew(repo: Repo, tmp_path: Path) -> None:
    (file,) = documents(repo)
    good = file.read_bytes()
    for bad in (b"", good[:-3], good.replace(b'"blob"', b'"tree"', 1), b"[]\n"):
        file.write_bytes(bad)
        made = repo.workspace.check_out_to(tmp_path / f"{len(bad)}", "HEAD")
        assert made.tables == ("points",)
        assert file.read_bytes() == good


def test_objects_are_kept_whole() -> None:
    kept = KeptObjects()
    blob = kept.write("blob", b"one\ntwo")
    tree = kept.write("tree", b"100644 a\0" + bytes.fromhex(blob))
    document = format_objects(tree, kept)
    again, objects = parse_objects(document, "it")
    assert again == tree
    assert objects.objects == kept.objects
    for bad in (document[:-1], b"{}", document.replace(b": 1,", b": 2,", 1)):
        with pytest.raises(CorruptDatasetError, match="it: "):
            parse_objects(bad, "it")


@pytest.mark.thorough
def test_rows_that_are_missing_leave_nothing_behind(repo: Repo, tmp_path: Path) -> None:
    first = repo.git.git("ls-tree", "-r", "HEAD", "points/.table-dataset/feature/").text.split()[2]
    clone = tmp_path / "clone"
    source = repo.git.git_directory
    subprocess.run(["git", "clone", "-q", "--bare", str(source), str(clone / ".kart")], check=True)
    partial = clone / ".kart"
    listed = subprocess.run(
        ["git", "rev-list", "--objects", "--all"], cwd=partial, check=True, capture_output=True
    )
    names = "\n".join(
        line.split()[0] for line in listed.stdout.decode().splitlines() if first not in line
    )
    for pack in (partial / "objects" / "pack").glob("*"):
        shutil.move(pack, tmp_path / pack.name)
    for loose in (partial / "objects").glob("??"):
        shutil.rmtree(loose)
    packed = subprocess.run(
        ["git", "pack-objects", "--stdout"],
        cwd=source,
        input=names.encode(),
        check=True,
        capture_output=True,
    )
    subprocess.run(["git", "unpack-objects", "-q"], cwd=partial, input=packed.stdout, check=True)
    found = Repo.open(partial, settings=LOCAL)
    with pytest.raises(NotFoundError, match="1 rows or folders"):
        found.workspace.check_out_to(tmp_path / "to", "HEAD")
    assert documents(found) == []


def test_a_table_is_told_as_the_dataset_that_it_is_of(repo: Repo) -> None:
    repo.set_meta("points", {"tags.json": ["a", "b"], "title": "Points"})
    repo.workspace.check_out()
    assert list(repo.workspace.diff("HEAD")) == []
    (diff,) = repo.workspace.diff("HEAD^")
    assert [each.name for each in diff.meta] == ["tags.json", "title"]
    assert list(diff.changes) == []
    by_hand.delete(place(repo), [5])
    for revision in (None, "HEAD"):
        (diff,) = repo.workspace.diff(revision)
        assert diff.meta == ()
        assert diff.header.meta == repo.get_meta("points")
        assert [batch.counts for batch in diff.changes] == [ChangeCounts(0, 0, 1)]


@pytest.mark.thorough
def test_edits_of_a_table_of_v2_are_its_features(karts: Callable[..., Path]) -> None:
    repo = Repo.open(karts("one", "v2/points"), settings=LOCAL)
    repo.workspace.check_out()
    location = repo.workspace.root / NZ
    columns = ["fid", "geom", "t50_fid", "name_ascii", "macronated", "name"]
    row = {**repo.table(NZ).to_arrow().slice(4, 1).to_pylist()[0], "fid": 90001}
    by_hand.delete(location, [6, 7])
    by_hand.insert(location, [{name: row[name] for name in columns}])
    assert counts_of(repo, NZ) == ChangeCounts(1, 0, 2)
    (diff,) = repo.workspace.diff()
    assert diff.meta == ()
    deleted = [r["fid"] for b in diff.changes for r in b.old.to_pylist() if r is not None]
    assert len(deleted) == 2
    repo.workspace.commit(message="Edit")
    assert_shows_head(repo)
    assert list(repo.fsck(full=True)) == []

    other = Repo.open(karts("two", "v2/points"), settings=LOCAL)
    other.write(NZ, pa.table({"fid": pa.array(deleted, pa.int64())}), mode="delete")
    schema = other.table(NZ).to_arrow().schema
    other.write(NZ, pa.Table.from_pylist([row], schema=schema))
    trees = [r.git.git("rev-parse", "HEAD^{tree}").text for r in (repo, other)]
    assert trees[0] == trees[1]
    names = repo.git.git("ls-tree", "--name-only", "HEAD", f"{NZ}/").text
    assert names == f"{NZ}/.sno-dataset"


@pytest.fixture
def karts(shared_data: Path, tmp_path: Path) -> Callable[..., Path]:
    def unpack(name: str, archive_name: str = "points") -> Path:
        folder = tmp_path / name
        with tarfile.open(shared_data / "kart" / f"{archive_name}.tgz") as archive:
            archive.extractall(folder, filter="data")
        found = folder / "points"
        git = ["git", "--git-dir", str(found / ".kart"), "config", "havasu.workspace.path"]
        subprocess.run([*git, str(folder / "tables")], check=True)
        return found

    return unpack


@pytest.mark.spark
def test_sql_on_a_repository_that_kart_made(
    spark: "SparkSession",
    iceberg: Callable[[Path], str],
    karts: Callable[[str], Path],
) -> None:
    repo = Repo.open(karts("one"), settings=LOCAL)
    repo.workspace.check_out()
    table = f"{iceberg(repo.workspace.root)}.{NZ}"
    count = spark.sql(f"SELECT count(*) FROM {table}").collect()[0][0]
    assert count == repo.table(NZ).to_arrow().num_rows
    spark.sql(f"UPDATE {table} SET name_ascii = 'Spark' WHERE fid BETWEEN 10 AND 14")
    spark.sql(f"DELETE FROM {table} WHERE fid = 20")
    spark.sql(
        f"INSERT INTO {table} SELECT 90001, geom, t50_fid, name_ascii, macronated, name "
        f"FROM {table} WHERE fid = 21"
    )
    assert counts_of(repo, NZ) == ChangeCounts(1, 5, 1)
    edited = edited_rows(repo, NZ)
    repo.workspace.commit(message="By Spark")
    assert_shows_head(repo)
    assert repo.table(NZ).to_arrow().num_rows == count

    # The same change, written without a table, gives the trees of a commit of Kart's.
    other = Repo.open(karts("two"), settings=LOCAL)
    schema = other.table(NZ).to_arrow().schema
    wanted = [row for row in edited if row["fid"] in (*range(10, 15), 90001)]
    other.write(NZ, pa.table({"fid": pa.array([20], pa.int64())}), mode="delete")
    other.write(NZ, pa.Table.from_pylist(wanted, schema=schema))
    heads = [r.git.git("rev-parse", f"HEAD:{NZ}").text for r in (repo, other)]
    assert heads[0] == heads[1]

    spark.sql(f"REFRESH TABLE {table}")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN height double")
    spark.sql(f"UPDATE {table} SET height = 2.5 WHERE fid = 11")
    (diff,) = repo.workspace.diff()
    (told,) = diff.meta
    assert told.old == repo.get_meta(NZ)["schema.json"]
    repo.workspace.commit(message="A column")
    assert told.new == repo.get_meta(NZ)["schema.json"]
    assert_shows_head(repo)
    columns = repo.get_meta(NZ, ["schema.json"])["schema.json"]
    assert (columns[-1]["name"], columns[-1]["dataType"]) == ("height", "float")
    assert list(repo.fsck(full=True)) == []


def test_refs_of_a_kart_dataset_are_left_out_and_told_of(repo: Repo) -> None:
    for name in ("a", "b", "c", "d", "e"):
        repo.create_branch(name)

    result = repo.workspace.check_out(CheckoutRequest(refs=True))

    reason = "Kart's datasets are shown of HEAD alone"
    assert result.notes == (f"a, b, c and 2 more left out of the table of points: {reason}",)


def test_a_repository_of_v2_is_told_as_kart_tells_it(
    karts: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = karts("one", "v2/points")
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kart"])
    monkeypatch.chdir(repo)

    def said(*words: str) -> str:
        return succeed(invoke(words)).stdout

    name = "nz_pa_points_topo_150k"
    assert said("data", "ls", "--with-dataset-types") == f"{name}\t(table.v2)\n"
    assert '"value":{"type":"table","version":2}' in said("show", "-o", "json-lines")
    meta = json.loads(said("meta", "get", "-o", "json"))[name]
    assert list(meta["metadata/dataset.json"]) == ["http://www.isotc211.org/2005/gmd"]
    assert meta["crs/EPSG:4326.wkt"].startswith('GEOGCS["WGS 84",\n    DATUM["WGS_1984",\n')
    assert said("log", "--with-feature-count", "exact") == said("log")
    assert said("fsck")
    for words, code in (("diff", 45), ("upgrade", 2)):
        assert invoke([words]).exit_code == code
