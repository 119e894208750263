"""What clients send that is wrong, twice, or too late: a clear answer, and nothing half done."""

import copy
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from havasu_vc import Repo, Settings
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.tables.table import local_path
from tests.serving.server import ask, catalog, serving
from tests.support.templates import empty_repo

LOCAL = Settings(engine="local")
ROWS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
POINTS = "namespaces/tables/tables/points"


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "name": [f"row {n}" for n in ids]}, schema=ROWS)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    pq.write_table(rows(*range(20)), tmp_path / "in.parquet")
    options = SourceOptions(primary_key=("id",))
    repo.import_(tmp_path / "in.parquet", "points", options=options)
    repo.import_(tmp_path / "in.parquet", "others", options=options)
    repo.create_branch("side")
    return repo


@pytest.fixture
def url(repo: Repo) -> Iterator[str]:
    with serving(repo.path, "--write", "main", "--write", "side") as found:
        yield found


def appended(url: str, *ids: int, branch: str = "main") -> dict[str, Any]:
    """Return what PyIceberg sends to append rows, without sending it; its files are written."""
    transaction = catalog(url, branch).load_table("tables.points").transaction()
    transaction.append(rows(*ids))
    return {
        "requirements": [each.model_dump(by_alias=True) for each in transaction._requirements],
        "updates": [each.model_dump(by_alias=True, mode="json") for each in transaction._updates],
    }


def send(url: str, body: object, branch: str = "main", **headers: str) -> tuple[int, str]:
    """Send a commit; return the status and the message of an error."""
    status, told = ask(url, branch, "POST", POINTS, body, headers)
    return status, told["error"]["message"] if status >= 400 else ""


def held(repo: Repo, revision: str = "main") -> int:
    return int(repo.table("points", revision).to_arrow().num_rows)


def commits(repo: Repo, revision: str = "main") -> int:
    return len(list(repo.log(revision)))


def assert_sound(repo: Repo) -> None:
    assert list(Repo.open(repo.path, settings=LOCAL).fsck(full=True)) == []


def _manifest(body: dict[str, Any]) -> Path:
    with open(_list(body), "rb") as file:
        listed: Any = next(iter(fastavro.reader(file)))
        return Path(local_path(listed["manifest_path"]))


def _list(body: dict[str, Any]) -> Path:
    return Path(local_path(body["updates"][0]["snapshot"]["manifest-list"]))


def _entry(body: dict[str, Any], change: Callable[[dict[str, Any]], None]) -> None:
    """Change the file that a manifest names."""
    path = _manifest(body)
    with open(path, "rb") as file:
        reader = fastavro.reader(file)
        entries: list[Any] = list(reader)
        schema: Any = reader.writer_schema
        metadata: Any = reader.metadata
    data = entries[0]["data_file"]
    data["file_path"] = local_path(data["file_path"])
    change(data)
    kept = {name: text for name, text in metadata.items() if not name.startswith("avro.")}
    with open(path, "wb") as file:
        fastavro.writer(file, schema, entries, metadata=kept)


def _outside(data: dict[str, Any], repo: Repo) -> None:
    place = repo.path / "outside.parquet"
    place.write_bytes(Path(data["file_path"]).read_bytes())
    data["file_path"] = str(place)


def _of_another(data: dict[str, Any], repo: Repo) -> None:
    other = next(iter(repo.dataset("others").data_entries))  # type: ignore[attr-defined]
    data["file_path"] = str(repo.storage.files.path(other.file))


def _by_a_link(data: dict[str, Any], repo: Repo) -> None:
    place = repo.path / "outside.parquet"
    os.replace(data["file_path"], place)
    os.symlink(place, data["file_path"])


PART = {"source-id": 1, "transform": "bucket[4]", "name": "part"}
WRONG: tuple[object, ...] = (None, [], {}, "x", -1, 1 << 70, True)
LIES: dict[str, tuple[Callable[[dict[str, Any], Repo], object], str]] = {
    "outside": (_outside, "outside of the folder"),
    "a file of another table": (_of_another, "outside of the folder"),
    "a link": (_by_a_link, "outside of the folder"),
    "missing": (lambda data, _: os.unlink(data["file_path"]), "is missing"),
    "rows": (lambda data, _: data.update(record_count=7), "has 2 rows, and its manifest says 7"),
    "bytes": (lambda data, _: data.update(file_size_in_bytes=7), "its manifest says 7"),
    "no Parquet": (
        lambda data, _: Path(data["file_path"]).write_bytes(b"x" * data["file_size_in_bytes"]),
        "no Parquet file",
    ),
}


def test_manifests_that_lie_are_refused(repo: Repo, url: str) -> None:
    for change, why in LIES.values():
        body = appended(url, 100, 101)
        _entry(body, lambda data, change=change: change(data, repo))  # type: ignore[misc]
        status, told = send(url, body)
        assert (status, why in told) == (400, True), told
        assert str(repo.path) not in told
    elsewhere = repo.path / "list.avro"
    body = appended(url, 100)
    elsewhere.write_bytes(_list(body).read_bytes())
    body["updates"][0]["snapshot"]["manifest-list"] = str(elsewhere)
    assert send(url, body)[0] == 400
    damaged = appended(url, 100)
    _list(damaged).write_bytes(b"Obj\x01 and no more")
    assert send(url, damaged)[0] == 400
    assert (commits(repo), held(repo)) == (2, 20)
    body = appended(url, 100, 101)
    assert send(url, body)[0] == 200
    assert (commits(repo), held(repo)) == (3, 22)
    assert_sound(repo)


def _listed(body: dict[str, Any], change: Callable[[dict[str, Any]], None]) -> None:
    """Change the line of the manifest in its list."""
    path = _list(body)
    with open(path, "rb") as file:
        reader = fastavro.reader(file)
        lines: list[Any] = list(reader)
        schema: Any = reader.writer_schema
    change(lines[0])
    with open(path, "wb") as file:
        fastavro.writer(file, schema, lines)


@pytest.mark.thorough
def test_a_manifest_outside_is_refused(repo: Repo, url: str) -> None:
    body = appended(url, 100)
    outside = repo.path / "manifest.avro"
    outside.write_bytes(_manifest(body).read_bytes())
    _listed(body, lambda line: line.update(manifest_path=str(outside)))
    status, told = send(url, body)
    assert (status, str(repo.path) in told) == (400, False), told
    assert (commits(repo), held(repo)) == (2, 20)


@pytest.mark.thorough
def test_a_key_that_one_request_brings_twice_is_refused(repo: Repo, url: str) -> None:
    status, told = send(url, appended(url, 100, 101, 100))
    assert (status, "two rows have the key id = 100" in told) == (400, True), told
    assert (commits(repo), held(repo)) == (2, 20)


@pytest.mark.thorough
def test_counts_and_bounds_that_lie_are_not_believed(repo: Repo, url: str) -> None:
    body = appended(url, 100, 101)
    low, high = ([{"key": 1, "value": n.to_bytes(8, "little")}] for n in (1, 2))
    counts = [{"key": 2, "value": 2}]
    _entry(
        body,
        lambda data: data.update(lower_bounds=low, upper_bounds=high, null_value_counts=counts),
    )
    _listed(body, lambda line: line.update(added_rows_count=7, added_files_count=9))
    body["updates"][0]["snapshot"]["summary"]["total-records"] = "99"
    assert send(url, body) == (200, "")
    table = catalog(url).load_table("tables.points")
    assert table.scan(row_filter="id = 100").to_arrow()["name"].to_pylist() == ["row 100"]
    assert table.scan(row_filter="name = 'row 101'").to_arrow().num_rows == 1
    assert table.current_snapshot().summary["total-records"] == "22"
    assert_sound(repo)


def _updates(body: dict[str, Any]) -> dict[str, tuple[list[dict[str, Any]], str]]:
    """Return updates that are refused, and why."""
    add, show = body["updates"]
    number = add["snapshot"]["parent-snapshot-id"]
    back = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch"}
    return {
        "branch": ([add, {**show, "ref-name": "b"}], "branches and tags are git's"),
        "tag": ([{**back, "ref-name": "t", "snapshot-id": number}], "branches and tags are git's"),
        "staged": ([add], "no branch shows"),
        "rollback": ([{**back, "snapshot-id": number}], "not set to another snapshot"),
        "expire": ([{"action": "remove-snapshots", "snapshot-ids": [number]}], "not removed"),
        "location": ([{"action": "set-location", "location": "/tmp/x"}], "the catalog's to choose"),
        "upgrade": ([{"action": "upgrade-format-version", "format-version": 3}], "not upgraded"),
        "uuid": ([{"action": "assign-uuid", "uuid": "x"}], "keeps its uuid"),
        "property": ([{"action": "set-properties", "updates": {"a": "b"}}], "'a' would not be"),
        "partitions": (
            [
                {"action": "add-spec", "spec": {"fields": [PART]}},
                {"action": "set-default-spec", "spec-id": -1},
            ],
            "partitions are not changed",
        ),
        "unknown": ([{"action": "add-everything"}], "not known"),
    }


@pytest.mark.thorough
def test_what_a_branch_of_git_cannot_take_is_refused_by_name(repo: Repo, url: str) -> None:
    body = appended(url, 100)
    for updates, why in _updates(body).values():
        status, told = send(url, {**body, "updates": updates})
        assert (status, why in told) == (400, True), (status, told)
    assert (commits(repo), held(repo)) == (2, 20)


@pytest.mark.thorough
def test_files_that_an_engine_compacts_are_no_commit(repo: Repo, url: str) -> None:
    body = appended(url, 100)
    body["updates"][0]["snapshot"]["summary"]["operation"] = "replace"
    assert send(url, body) == (200, "")
    assert (commits(repo), held(repo)) == (2, 20)


@pytest.mark.thorough
def test_requests_that_are_no_requests_are_refused(repo: Repo, url: str) -> None:
    body = appended(url, 100)
    wrong: list[Any] = [b"", b"[", b"[]", b"\xff", {"updates": 1}, {"updates": [1]}]
    wrong += [{"requirements": {}, "updates": "x"}, {"requirements": [{"type": 1}]}]
    for kind in ("requirements", "updates"):
        for index, each in enumerate(body[kind]):
            for name in each:
                for value in WRONG:
                    made = copy.deepcopy(body)
                    made[kind][index][name] = value
                    wrong.append(made)
    for name in ("snapshot-id", "sequence-number", "manifest-list", "summary"):
        for value in WRONG:
            made = copy.deepcopy(body)
            made["updates"][0]["snapshot"][name] = value
            wrong.append(made)
    harmless, start = 0, str(repo.resolve("main").commit)
    for each in wrong:
        status, told = send(url, each)
        if status == 200:
            harmless += 1
            repo.git.git("update-ref", "refs/heads/main", start)
            continue
        assert status in (400, 409), (status, told, each)
    assert harmless < 12
    assert (commits(repo), held(repo)) == (2, 20)


@pytest.mark.thorough
def test_rows_upon_a_table_that_was_believed_empty_do_not_replace_others(
    repo: Repo, url: str
) -> None:
    body = appended(url, 100)
    for each in body["requirements"]:
        if each["type"] == "assert-ref-snapshot-id":
            each["snapshot-id"] = None
    assert send(url, body)[0] == 409
    for each in body["requirements"]:
        if each["type"] == "assert-ref-snapshot-id":
            each["snapshot-id"] = 12345
    assert send(url, body)[0] == 409
    assert (commits(repo), held(repo)) == (2, 20)


@pytest.mark.thorough
def test_a_request_that_comes_again_is_answered_as_before(repo: Repo, url: str) -> None:
    body = appended(url, 100)
    assert send(url, body) == send(url, body) == (200, "")
    assert send(url, appended(url, 101)) == (200, "")
    with serving(repo.path, "--write", "main") as other:
        assert send(other, body) == (200, "")
    assert (commits(repo), held(repo)) == (4, 22)
    key = {"idempotency-key": "0190b5c5-7c7b-7e5a-9d1c-1f2e3d4c5b6a"}
    for _ in range(2):
        status, _told = ask(url, "main", "DELETE", "namespaces/tables/tables/others", None, key)
        assert status == 204
    assert repo.datasets("main") == ("points",)
    assert commits(repo) == 5
    new = {"name": "made", "schema": {"type": "struct", "schema-id": 0, "fields": [
        {"id": 1, "name": "id", "type": "long", "required": True}]}}  # fmt: skip
    place = "namespaces/tables/tables"
    key = {"idempotency-key": "0190b5c5-7c7b-7e5a-9d1c-000000000001"}
    first, again = (ask(url, "main", "POST", place, new, key) for _ in range(2))
    assert first == again and first[0] == 200
    status, said = ask(url, "main", "POST", place, new)
    assert (status, said["error"]["type"]) == (409, "AlreadyExistsException")
    another = {"idempotency-key": "0190b5c5-7c7b-7e5a-9d1c-000000000002"}
    assert ask(url, "main", "POST", place, new, another)[0] == 409
    assert commits(repo) == 6


@pytest.mark.parametrize("instant", ["havasu_vc.serving.writes:load_answer", "move"])
@pytest.mark.thorough
def test_a_server_that_is_killed_before_it_answers_has_done_all_or_nothing(
    repo: Repo, url: str, instant: str
) -> None:
    body = appended(url, 100)
    place = "havasu_vc.repo.transaction:move_head" if instant == "move" else instant
    module, _, name = place.partition(":")
    dying = f"import os, {module} as m; m.{name} = lambda *a, **o: os._exit(9)"
    with (
        serving(repo.path, "--write", "main", first=dying) as other,
        pytest.raises((URLError, ConnectionError)),
    ):
        send(other, body)
    assert commits(repo) == (2 if instant == "move" else 3)
    assert send(url, body) == (200, "")
    assert (commits(repo), held(repo)) == (3, 21)
    known = catalog(url).load_table("tables.points").metadata.snapshots
    sent = body["updates"][0]["snapshot"]["snapshot-id"]
    assert sent in {snapshot.snapshot_id for snapshot in known}
    assert_sound(repo)


@pytest.mark.thorough
def test_a_branch_that_was_deleted_is_not_written_to(repo: Repo, url: str) -> None:
    body = appended(url, 100, branch="side")
    repo.delete_branch("side", force=True)
    status, _ = ask(url, "main", "POST", f"{POINTS}@side", body)
    assert status in (403, 404)
    repo.create_branch("side")
    repo.git.git("branch", "-f", "side", "HEAD~1")
    assert send(url, body, "side")[0] == 200
    assert (commits(repo, "side"), commits(repo)) == (2, 2)
    assert held(repo, "side") == 21
    assert_sound(repo)


@pytest.mark.thorough
def test_two_servers_of_one_repository_agree(repo: Repo, url: str) -> None:
    with serving(repo.path, "--write", "main") as other:
        for number in range(6):
            assert send((url, other)[number % 2], appended(url, 100 + number)) == (200, "")
        answers = [ask(each, "main", "GET", POINTS)[1] for each in (url, other)]
    assert json.dumps(answers[0]) == json.dumps(answers[1])
    assert (commits(repo), held(repo)) == (8, 26)
    assert_sound(repo)
