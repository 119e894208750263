"""Tables that clients make, alter, rename and drop: each a commit of git, or none."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from havasu_vc import Repo, Settings
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.tables.table import local_path
from tests.serving.server import ask, catalog, serving
from tests.support.templates import empty_repo

LOCAL = Settings(engine="local")
ROWS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
COLUMN: dict[str, Any] = {"id": 1, "name": "id", "type": "long", "required": False}
COLUMNS = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType()),
    identifier_field_ids=[1],
)

pytestmark = pytest.mark.filterwarnings("ignore:Merge on read is not yet supported")


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "name": [f"row {n}" for n in ids]}, schema=ROWS)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    pq.write_table(rows(*range(20)), tmp_path / "in.parquet")
    options = SourceOptions(primary_key=("id",))
    repo.import_(tmp_path / "in.parquet", "points", options=options)
    repo.import_(tmp_path / "in.parquet", "a/others", options=options)
    return repo


@pytest.fixture
def url(repo: Repo) -> Iterator[str]:
    with serving(repo.path, "--write", "main") as found:
        yield found


def held(repo: Repo, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = repo.table(path).to_arrow().sort_by("id").to_pylist()
    return found


def subjects(repo: Repo) -> list[str]:
    return [info.message.split("\n")[0] for info in repo.log()][:-2]


def assert_sound(repo: Repo) -> None:
    assert list(Repo.open(repo.path, settings=LOCAL).fsck(full=True)) == []


def test_a_table_is_made_and_written_to(repo: Repo, url: str) -> None:
    client = catalog(url)
    table = client.create_table("a.b.made", COLUMNS)
    assert repo.datasets() == ("a/b/made", "a/others", "points")
    assert repo.dataset("a/b/made").schema.key.names == ("id",)
    table.append(rows(1, 2))
    table.upsert(rows(2, 3))
    assert held(repo, "a/b/made") == rows(1, 2, 3).to_pylist()
    with pytest.raises(BadRequestError, match="a/b/made: two rows have the key id = 1"):
        table.append(rows(1))
    with pytest.raises(TableAlreadyExistsError):
        client.create_table("a.b.made", COLUMNS)
    with pytest.raises(BadRequestError, match="points"):
        client.create_table("points.inside", COLUMNS)
    assert subjects(repo)[-1] == "create a/b/made (PyIceberg 0.12.0)"
    assert_sound(repo)


@pytest.mark.thorough
def test_a_table_with_rows_is_one_commit(repo: Repo, url: str) -> None:
    with catalog(url).create_table_transaction("tables.made", COLUMNS) as transaction:
        transaction.append(rows(1, 2))
    assert held(repo, "made") == rows(1, 2).to_pylist()
    assert subjects(repo) == ["create made (PyIceberg 0.12.0)"]
    table = catalog(url).load_table("tables.made")
    table.delete("id = 1")
    assert held(repo, "made") == rows(2).to_pylist()
    assert_sound(repo)


@pytest.mark.thorough
def test_of_two_that_make_one_table_the_second_is_told(repo: Repo, url: str) -> None:
    one, other = (catalog(url).create_table_transaction("tables.made", COLUMNS) for _ in range(2))
    one.append(rows(1))
    other.append(rows(2))
    one.commit_transaction()
    with pytest.raises((CommitFailedException, TableAlreadyExistsError)):
        other.commit_transaction()
    assert held(repo, "made") == rows(1).to_pylist()


@pytest.mark.thorough
def test_columns_are_altered_under_the_rows_of_others(repo: Repo, url: str) -> None:
    table, stale = (catalog(url).load_table("tables.points") for _ in range(2))
    with table.update_schema() as update:
        update.add_column("size", LongType(), "how large")
        update.rename_column("name", "title")
    stale.append(rows(100))
    schema = repo.dataset("points").schema
    assert schema.names == ("id", "title", "size")
    assert held(repo, "points")[-1] == {"id": 100, "title": "row 100", "size": None}
    table.refresh()
    with table.update_schema() as update:
        update.delete_column("size")
    assert repo.dataset("points").schema.names == ("id", "title")
    wrong = table.update_schema(allow_incompatible_changes=True)
    wrong.set_identifier_fields()
    wrong.delete_column("id")
    with pytest.raises(BadRequestError, match="points: the key column 'id'"):
        wrong.commit()
    assert len(subjects(repo)) == 3
    assert_sound(repo)


@pytest.mark.thorough
def test_columns_that_others_altered_meanwhile_are_no_loss(repo: Repo, url: str) -> None:
    one, other = (catalog(url).load_table("tables.points") for _ in range(2))
    with one.update_schema() as update:
        update.add_column("size", LongType())
    with pytest.raises(CommitFailedException), other.update_schema() as update:
        update.add_column("weight", LongType())
    assert repo.dataset("points").schema.names == ("id", "name", "size")


@pytest.mark.thorough
def test_the_first_table_makes_the_first_commit(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    with serving(repo.path, "--write", "main") as url:
        client = catalog(url)
        client.create_namespace("a")
        made = client.create_table("a.made", COLUMNS)
        made.append(rows(1, 2))
        with pytest.raises(NoSuchTableError, match=r"Table does not exist: a\.none"):
            client.rename_table("a.none", "a.other")
    assert list(repo.log())[-1].message.startswith("create a/made")
    assert held(repo, "a/made") == rows(1, 2).to_pylist()
    assert_sound(repo)


@pytest.mark.thorough
def test_a_table_keeps_the_properties_that_it_is_made_with(repo: Repo, url: str) -> None:
    client = catalog(url)
    given = {
        "source": "survey",
        "comment": "All of them",
        "write.parquet.compression-codec": "gzip",
    }
    made = client.create_table("a.made", COLUMNS, properties=given)
    found = client.load_table("a.made").properties
    assert (found["source"], found["comment"]) == ("survey", "All of them")
    assert repo.dataset("a/made").items["title"] == b"All of them"
    with made.transaction() as transaction:
        transaction.set_properties(comment="Some", source="survey")
    assert repo.dataset("a/made").items["title"] == b"Some"
    made.append(rows(1, 2))
    with (
        pytest.raises(BadRequestError, match="'source' would not be kept"),
        made.transaction() as t,
    ):
        t.set_properties(source="elsewhere")
    with (
        pytest.raises(BadRequestError, match="'source' would not be kept"),
        made.transaction() as t,
    ):
        t.remove_properties("source")
    with made.transaction() as transaction:
        transaction.remove_properties("comment")
    assert "comment" not in client.load_table("a.made").properties
    for name in ("markers", "havasu-vc.dataset"):
        with pytest.raises(BadRequestError, match="not a client's"):
            client.create_table("a.other", COLUMNS, properties={name: "mine"})
    assert client.load_table("a.made").properties["source"] == "survey"
    assert held(repo, "a/made") == rows(1, 2).to_pylist()
    assert_sound(repo)


@pytest.mark.thorough
def test_properties_of_a_namespace_are_the_catalogs(repo: Repo, url: str) -> None:
    client = catalog(url)
    client.create_namespace("kept", {"comment": "sheets", "owner": "root"})
    assert client.load_namespace_properties("kept") == {"comment": "sheets", "owner": "root"}
    told = client.update_namespace_properties("kept", {"owner", "none"}, {"comment": "maps"})
    assert (told.removed, told.updated, told.missing) == (["owner"], ["comment"], ["none"])
    client.update_namespace_properties("a", updates={"comment": "it has tables"})
    with serving(repo.path, "--write", "main") as other:
        assert catalog(other).load_namespace_properties("kept") == {"comment": "maps"}
        assert catalog(other).load_namespace_properties("a") == {"comment": "it has tables"}
        assert catalog(other, "main@{0}").load_namespace_properties("a") == {}
    assert len(subjects(repo)) == 0
    client.create_table("kept.made", COLUMNS)
    assert client.load_namespace_properties("kept") == {"comment": "maps"}
    client.drop_table("kept.made")
    client.drop_namespace("kept")
    client.create_namespace("kept")
    assert client.load_namespace_properties("kept") == {}
    with pytest.raises(NoSuchNamespaceError):
        client.update_namespace_properties("none", updates={"a": "b"})


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({"updates": {"a": "b"}, "removals": ["a"]}, 422, "set and removed at once"),
        ({"updates": {"location": "s3://elsewhere"}}, 400, "is the catalog's to choose"),
        ({"updates": {"a": 1}}, 400, "'a' is not a text"),
        ({"updates": {"a": "b" * 70_000}}, 400, "too large"),
        ({"updates": ["a"]}, 400, "is to be an object"),
    ],
)
def test_properties_that_a_namespace_does_not_take(
    url: str, body: dict[str, Any], status: int, text: str
) -> None:
    code, told = ask(url, "main", "POST", "namespaces/a/properties", body)
    assert code == status and text in told["error"]["message"]
    assert catalog(url).load_namespace_properties("a") == {}


@pytest.mark.thorough
def test_spark_names_its_catalog_where_it_renames(repo: Repo, url: str) -> None:
    def rename(source: list[str], target: list[str], name: str) -> int:
        body = {
            "source": {"namespace": source, "name": name},
            "destination": {"namespace": target, "name": f"{name}2"},
        }
        return ask(url, "main", "POST", "tables/rename", body)[0]

    assert rename(["tables"], ["served", "a"], "points") == 204
    assert repo.datasets() == ("a/others", "a/points2")
    assert rename(["a"], ["served", "tables"], "points2") == 204
    assert repo.datasets() == ("a/others", "points22")
    assert rename(["a"], ["new", "folder"], "others") == 204
    assert repo.datasets() == ("new/folder/others2", "points22")
    assert_sound(repo)


@pytest.mark.thorough
def test_a_table_is_renamed_and_dropped(repo: Repo, url: str) -> None:
    client = catalog(url)
    client.rename_table("tables.points", "a.moved")
    assert repo.datasets() == ("a/moved", "a/others")
    with pytest.raises(TableAlreadyExistsError):
        client.rename_table("a.moved", "a.others")
    table = client.load_table("a.moved")
    table.append(rows(100))
    client.drop_table("a.others")
    with pytest.raises(NoSuchTableError):
        client.drop_table("a.others")
    assert repo.datasets() == ("a/moved",)
    assert len(held(repo, "a/moved")) == 21
    assert subjects(repo) == [
        "drop a/others (PyIceberg 0.12.0)",
        "append a/moved (PyIceberg 0.12.0)",
        "rename points to a/moved (PyIceberg 0.12.0)",
    ]
    assert_sound(repo)


@pytest.mark.thorough
def test_a_policy_holds_for_what_clients_drop(repo: Repo, url: str) -> None:
    policy = repo.path / ".havasu" / "policy.toml"
    policy.parent.mkdir()
    policy.write_text('[[dataset]]\npath = "points"\nallow-removal = false\nmax-deletes = 2\n')
    repo.git.git("add", ".havasu")
    repo.git.git("commit", "-qm", "policy")
    with pytest.raises(BadRequestError, match="policy refuses"):
        catalog(url).drop_table("tables.points")
    with pytest.raises(BadRequestError, match="policy refuses"):
        catalog(url).rename_table("tables.points", "tables.other")
    with pytest.raises(BadRequestError, match="policy refuses"):
        catalog(url).load_table("tables.points").delete("id < 5")
    catalog(url).drop_table("a.others")
    assert repo.datasets() == ("points",)
    assert len(held(repo, "points")) == 20


@pytest.mark.thorough
def test_rows_of_a_kart_dataset_are_written_as_kart_has_them(
    repo: Repo, url: str, tmp_path: Path
) -> None:
    options = SourceOptions(primary_key=("id",))
    repo.import_(tmp_path / "in.parquet", "kart", kind="kart", options=options)
    table, stale = (catalog(url).load_table("tables.kart") for _ in range(2))
    table.upsert(rows(3, 100).set_column(1, "name", [["three", "new"]]))
    stale.delete("id = 4")
    found = {row["id"]: row["name"] for row in held(repo, "kart")}
    assert (found[3], found[100], 4 in found, len(found)) == ("three", "new", False, 20)
    assert [info.kind for info in repo.list_datasets() if info.path == "kart"] == ["kart"]
    assert subjects(repo)[:2] == [
        "overwrite kart (PyIceberg 0.12.0)",
        "overwrite kart (PyIceberg 0.12.0)",
    ]
    assert_sound(repo)


@pytest.mark.thorough
def test_a_table_that_is_replaced_keeps_its_key(repo: Repo, url: str) -> None:
    added = _changes(catalog(url), "tables.points", 7)
    schema = {"type": "struct", "fields": [COLUMN, {**COLUMN, "id": 9000, "name": "size"}]}
    begun = [
        {"action": "remove-snapshot-ref", "ref-name": "main"},
        {"action": "add-schema", "schema": schema},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-properties", "updates": {"owner": "somebody"}},
    ]
    requirements = [each for each in added["requirements"] if each["type"] == "assert-table-uuid"]
    body = {"requirements": requirements, "updates": [*begun, *_alone(added["updates"])]}
    status, told = ask(url, "main", "POST", "namespaces/tables/tables/points", body)
    assert status == 200, told
    assert held(repo, "points") == [{"id": 7, "size": None}]
    assert repo.dataset("points").schema.key.names == ("id",)
    assert [line.partition(" (")[0] for line in subjects(repo)] == ["replace points"]
    without = {"type": "struct", "fields": [{**COLUMN, "id": 9001, "name": "other"}]}
    body["updates"][1] = {"action": "add-schema", "schema": without}
    body["updates"][-2]["snapshot"]["snapshot-id"] = body["updates"][-1]["snapshot-id"] = 5
    status, told = ask(url, "main", "POST", "namespaces/tables/tables/points", body)
    assert status == 400 and "the key column 'id' is not among" in told["error"]["message"]
    assert_sound(repo)


def _alone(updates: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return updates whose snapshot has what it added and nothing that was there before."""
    path = Path(local_path(updates[0]["snapshot"]["manifest-list"]))
    with open(path, "rb") as file:
        reader: Any = fastavro.reader(file)
        manifests = [each for each in reader if each["existing_files_count"] == 0]
        schema, metadata = reader.writer_schema, dict(reader.metadata)
    kept = {name: text for name, text in metadata.items() if not name.startswith("avro.")}
    new = [each for each in manifests if each["added_snapshot_id"] == _id(updates)]
    with open(path, "wb") as file:
        fastavro.writer(file, schema, new, metadata=kept)
    return updates


def _id(updates: list[dict[str, Any]]) -> int:
    return int(updates[0]["snapshot"]["snapshot-id"])


@pytest.mark.thorough
def test_a_namespace_lasts_until_it_has_a_table(repo: Repo, url: str) -> None:
    client = catalog(url)
    client.create_namespace(("x", "y"))
    assert client.list_namespaces() == [("a",), ("tables",), ("x",)]
    assert client.list_namespaces(("x",)) == [("x", "y")]
    assert client.list_tables(("x", "y")) == []
    with pytest.raises(NamespaceAlreadyExistsError):
        client.create_namespace(("a",))
    with pytest.raises(BadRequestError, match="belongs to git"):
        client.create_namespace((".git",))
    with pytest.raises(NamespaceNotEmptyError):
        client.drop_namespace(("a",))
    assert len(subjects(repo)) == 0
    with serving(repo.path, "--write", "main") as other:
        catalog(other).create_table("x.y.made", COLUMNS)
    assert repo.datasets() == ("a/others", "points", "x/y/made")
    client.drop_table("x.y.made")
    client.drop_namespace(("x", "y"))
    with pytest.raises(NoSuchNamespaceError):
        client.drop_namespace(("x", "y"))
    assert client.list_namespaces() == [("a",), ("tables",)]


@pytest.mark.thorough
def test_several_tables_are_one_commit_or_none(repo: Repo, url: str) -> None:
    changes = [_changes(catalog(url), name, 100) for name in ("tables.points", "a.others")]
    wrong = [_changes(catalog(url), "tables.points", 200), _changes(catalog(url), "a.others", 5)]
    status, told = ask(url, "main", "POST", "transactions/commit", {"table-changes": wrong})
    assert status == 400 and "a/others: two rows have the key id = 5" in told["error"]["message"]
    assert subjects(repo) == []
    status, _ = ask(url, "main", "POST", "transactions/commit", {"table-changes": changes})
    assert status == 204
    assert len(subjects(repo)) == 1
    assert [len(held(repo, path)) for path in ("points", "a/others")] == [21, 21]
    twice = {"table-changes": [changes[0], changes[0]]}
    status, told = ask(url, "main", "POST", "transactions/commit", twice)
    assert status == 400 and "twice" in told["error"]["message"]
    assert_sound(repo)


def _changes(client: Any, name: str, key: int) -> dict[str, Any]:
    """Return what a client would send to append a row, without sending it."""
    table = client.load_table(name)
    transaction = table.transaction()
    transaction.append(rows(key))
    namespace, _, last = name.rpartition(".")
    return {
        "identifier": {"namespace": namespace.split("."), "name": last},
        "requirements": [each.model_dump(by_alias=True) for each in transaction._requirements],
        "updates": [each.model_dump(by_alias=True, mode="json") for each in transaction._updates],
    }
