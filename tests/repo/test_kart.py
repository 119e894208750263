"""Kart datasets in a repository: everything that is done with rows, columns and history."""

import json
import shutil
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

from havasu_vc import Repo
from havasu_vc.cli.main import cli, run
from havasu_vc.editing.writing import changes_of
from havasu_vc.errors import (
    CorruptDatasetError,
    InvalidArgumentError,
    InvalidNameError,
    KeyViolationError,
    NotYetSupportedError,
    PatchError,
    StateError,
    UnsupportedTypeError,
)
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.store.trees import Change, edit_tree
from tests.repo.tables import BY_ID, points, write
from tests.support.templates import empty_repo


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    found = empty_repo(tmp_path / "repo", kart=True)
    found.import_(write(tmp_path / "points.parquet", points(300)), options=BY_ID)
    return found


def rows(repo: Repo, revision: str = "HEAD") -> dict[int, dict[str, object]]:
    return {row["id"]: row for row in repo.table("points", revision).to_arrow().to_pylist()}


def changes(repo: Repo, revisions: str) -> list[ChangeBatch]:
    return [batch for diff in repo.diff(revisions) for batch in diff.changes]


def tree(repo: Repo, revision: str = "HEAD") -> str:
    return repo.git.git("rev-parse", f"{revision}:points").text


def test_an_import_is_kart_s(repo: Repo, tmp_path: Path) -> None:
    assert repo.dataset("points").kind == "kart"
    assert list(rows(repo).values()) == points(300).to_pylist()
    names = repo.git.git("ls-tree", "--name-only", "HEAD").text.split()
    assert names == [".kart.repostructure.version", "points"]
    assert list(repo.fsck(full=True)) == []
    assert (
        repo.import_(
            write(tmp_path / "points.parquet", points(300)), options=BY_ID, replace=True
        ).commit
        is None
    )


@pytest.mark.rule("KART-41")
def test_rows_are_written_by_key(repo: Repo) -> None:
    repo.write("points", pa.table({"id": [3, 1000], "name": ["drei", "tausend"]}))
    assert rows(repo)[3]["name"] == "drei"
    assert rows(repo)[3]["number"] == rows(repo, "HEAD^")[3]["number"]
    assert rows(repo)[1000]["number"] is None
    repo.write("points", pa.table({"id": [3, 4]}), mode="delete")
    assert not {3, 4} & rows(repo).keys()
    with pytest.raises(PatchError, match="already has a row 5"):
        repo.write("points", pa.table({"id": [5], "name": ["x"]}), mode="append")
    with pytest.raises(KeyViolationError, match="comes twice"):
        repo.write("points", pa.table({"id": [7, 7]}))
    repo.write("points", points(10), mode="overwrite")
    assert list(rows(repo).values()) == points(10).to_pylist()
    total = changes(repo, "HEAD^^^...HEAD")
    assert sum(batch.counts.total for batch in total) == 290


def test_what_changed_is_found_row_by_row(repo: Repo) -> None:
    repo.write("points", pa.table({"id": [3], "name": ["drei"]}), message="third")
    repo.write("points", pa.table({"id": [4], "name": ["vier"]}), message="fourth")
    (batch,) = changes(repo, "HEAD^...HEAD")
    ((old, new),) = [(c.old, c.new) for c in batch.rows(("id",))]
    assert old is not None and new is not None
    assert (old["name"], new["name"]) == ("row 4", "vier")
    assert [c.message.strip() for c in repo.log(filters=["points:feature:3"])][:1] == ["third"]
    blame = repo.blame("points", keys=[3, 4, 5])
    found = [
        blame.commits[row["commit"]].message.split()[0]
        for b in blame.batches
        for row in b.to_pylist()
    ]
    assert found == ["third", "fourth", "Import"]
    assert [c.message.strip() for c in repo.log(filters=["points"], columns=["number"])] == [
        "Import from points.parquet:points to points/"
    ]


def test_undone_changes_give_the_tree_from_before(repo: Repo) -> None:
    before = tree(repo)
    repo.write("points", pa.table({"id": [3, 999], "name": ["drei", "neu"]}))
    repo.revert("HEAD")
    assert tree(repo) == before
    repo.write("points", pa.table({"id": [3]}), mode="delete")
    repo.restore(["points:feature:3"], source="HEAD^")
    assert tree(repo) == before
    repo.write("points", pa.table({"id": [3]}), mode="delete")
    repo.restore(["points"], source="HEAD^")
    assert tree(repo) == before


def test_cells_of_one_row_merge(repo: Repo) -> None:
    repo.create_branch("other")
    repo.write("points", pa.table({"id": [3], "name": ["ours"]}))
    repo.switch("other")
    repo.write("points", pa.table({"id": [3, 4], "number": [77, 78]}))
    repo.switch("main")
    assert repo.merge("other").kind == "merge"
    assert (rows(repo)[3]["name"], rows(repo)[3]["number"]) == ("ours", 77)
    assert rows(repo)[4]["number"] == 78


def test_columns_that_both_sides_add_merge(repo: Repo) -> None:
    columns = repo.get_meta("points", ["schema.json"])["schema.json"]
    repo.create_branch("other")
    repo.set_meta("points", {"schema.json": [*columns, {"name": "a", "dataType": "text"}]})
    repo.write("points", pa.table({"id": [1], "a": ["x"]}))
    repo.switch("other")
    longer = {"name": "b", "dataType": "text", "length": 5}
    repo.set_meta("points", {"schema.json": [*columns, longer], "title": "Points"})
    repo.write("points", pa.table({"id": [1, 2], "b": ["y", "z"]}))
    repo.switch("main")
    assert repo.merge("other").kind == "merge"
    assert (rows(repo)[1]["a"], rows(repo)[1]["b"], rows(repo)[2]["b"]) == ("x", "y", "z")
    merged = repo.get_meta("points")
    assert merged["title"] == "Points"
    assert merged["schema.json"][-1]["length"] == 5
    assert [c["id"] for c in merged["schema.json"]][:3] == [c["id"] for c in columns][:3]


@pytest.mark.rule("KART-9", "KART-28", "KART-40", "KART-43")
def test_adding_a_column_rewrites_no_feature(repo: Repo) -> None:
    features = repo.git.git("rev-parse", "HEAD:points/.table-dataset/feature").text
    columns = repo.get_meta("points", ["schema.json"])["schema.json"]
    columns[1]["name"] = "renamed"
    repo.set_meta("points", {"schema.json": [*columns, {"name": "new", "dataType": "date"}]})
    assert repo.git.git("rev-parse", "HEAD:points/.table-dataset/feature").text == features
    assert changes(repo, "HEAD^...HEAD") == []
    assert rows(repo)[7]["new"] is None
    assert list(repo.fsck(full=True)) == []


@pytest.mark.rule("KART-93")
def test_another_key_moves_every_feature(repo: Repo) -> None:
    columns = repo.get_meta("points", ["schema.json"])["schema.json"]
    names = [column["name"] for column in columns]
    for column in columns:
        column.pop("primaryKeyIndex", None)
    columns[names.index("name")]["primaryKeyIndex"] = 0
    repo.set_meta("points", {"schema.json": columns})
    assert repo.dataset("points").key.names == ("name",)
    assert repo.row("points", "row 7")["id"] == 7
    assert len(rows(repo)) == 300
    assert list(repo.fsck(full=True)) == []


def test_conflicts_wait_and_are_resolved(repo: Repo) -> None:
    repo.create_branch("other")
    repo.write("points", pa.table({"id": [3, 4], "name": ["ours", "ours"]}))
    repo.switch("other")
    repo.write("points", pa.table({"id": [3, 4], "name": ["theirs", "theirs"]}))
    repo.switch("main")
    assert repo.merge("other").kind == "conflicts"
    assert repo.resolve_conflicts(["points:feature:3"], choice="theirs") == 1
    assert repo.resolve_conflicts(["points"], choice="ours") == 1
    repo.continue_merge()
    assert (rows(repo)[3]["name"], rows(repo)[4]["name"]) == ("theirs", "ours")


def test_renumbered_inserts_are_both_kept(repo: Repo) -> None:
    repo.create_branch("other")
    repo.write("points", pa.table({"id": [1000], "name": ["ours"]}))
    repo.switch("other")
    repo.write("points", pa.table({"id": [1000], "name": ["theirs"]}))
    repo.switch("main")
    assert repo.merge("other").kind == "conflicts"
    repo.resolve_conflicts(["points"], renumber="theirs")
    repo.continue_merge()
    assert (rows(repo)[1000]["name"], rows(repo)[1001]["name"]) == ("ours", "theirs")


def test_edits_that_lost_a_race_are_brought_along(repo: Repo) -> None:
    other = Repo.open(repo.path)
    with repo.transaction() as transaction:
        view = transaction.dataset("points")
        with view.edit() as edit:
            table = pa.table({"id": [3], "name": ["mine"]})
            edit.collect(changes_of(view, table, "upsert"))
            finished = edit.finish()
        other.write("points", pa.table({"id": [3, 4], "number": [1, 2]}))
        transaction.commit([finished], "mine")
    assert (rows(repo)[3]["name"], rows(repo)[3]["number"], rows(repo)[4]["number"]) == (
        "mine",
        1,
        2,
    )


def test_kinds_of_dataset_are_compared_and_converted(repo: Repo) -> None:
    before = tree(repo)
    repo.convert("points", "havasu")
    assert changes(repo, "HEAD^...HEAD") == []
    repo.write("points", pa.table({"id": [3], "name": ["drei"]}))
    (batch,) = changes(repo, "HEAD~2...HEAD")
    assert batch.counts.updates == 1
    repo.revert("HEAD")
    repo.convert("points", "kart")
    assert tree(repo) == before
    assert next(repo.log(filters=["points"])).message.startswith("Convert")
    with pytest.raises(StateError, match="is a kart dataset already"):
        repo.convert("points", "kart")
    with pytest.raises(InvalidArgumentError, match="no kind of dataset 'dolt'"):
        repo.convert("points", "dolt")


def test_a_havasu_dataset_becomes_kart_s(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "repo")
    repo.import_(write(tmp_path / "points.parquet", points(50)), options=BY_ID)
    ids = [field.id for field in repo.dataset("points").schema.fields]
    repo.convert("points", "kart")
    assert [field.id for field in repo.dataset("points").schema.fields] == ids
    assert changes(repo, "HEAD^...HEAD") == []
    assert list(rows(repo).values()) == points(50).to_pylist()
    assert repo.git.git("status", "--porcelain").text == ""
    assert (tmp_path / "repo" / ".kart.repostructure.version").read_bytes() == b"3\n"
    repo.write("points", pa.table({"id": [3], "name": ["drei"]}))
    assert repo.git.git("status", "--porcelain").text == ""
    with pytest.raises(NotYetSupportedError, match="optimize"):
        repo.optimize(["points"])


@pytest.mark.rule("KART-95")
def test_a_table_without_a_key_gets_one(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "repo")
    repo.import_(write(tmp_path / "points.parquet", points(5)), kind="kart")
    assert repo.dataset("points").key.names == ("auto_pk",)
    found = repo.table("points").to_arrow()
    assert found.column("auto_pk").to_pylist() == [1, 2, 3, 4, 5]


def test_types_that_kart_lacks_are_refused(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "repo", kart=True)
    table = pa.table({"id": [1], "parts": pa.array([[1, 2]])})
    with pytest.raises(UnsupportedTypeError, match="'parts'"):
        repo.import_(write(tmp_path / "t.parquet", table), options=BY_ID)


def test_a_bare_clone_is_kart_s_too(repo: Repo, tmp_path: Path) -> None:
    git_directory = str(repo.git.git_directory)
    command = ["git", "clone", "--quiet", "--bare", git_directory, str(tmp_path / "bare")]
    subprocess.run(command, check=True)
    bare = Repo.open(tmp_path / "bare")
    bare.write("points", pa.table({"id": [3], "name": ["drei"]}))
    names = bare.git.git("ls-tree", "--name-only", "HEAD").text.split()
    assert names == [".kart.repostructure.version", "points"]


@pytest.mark.rule("KART-3")
def test_datasets_may_stand_in_folders(repo: Repo, tmp_path: Path) -> None:
    file = write(tmp_path / "points.parquet", points(5))
    repo.import_(file, "contours/500m", options=BY_ID)
    assert repo.datasets() == ("contours/500m", "points")
    found = repo.git.git("ls-tree", "-d", "--name-only", "HEAD:contours/500m").text
    assert found == ".table-dataset"
    with pytest.raises(InvalidNameError, match="inside the dataset 'points'"):
        repo.import_(file, "points/more", options=BY_ID)


@pytest.mark.rule("KART-94")
def test_keys_whose_folders_differ_in_case_alone(repo: Repo) -> None:
    number = 26 * 64
    repo.write("points", pa.table({"id": [number], "name": ["a"]}))
    assert rows(repo)[number]["name"] == "a"
    assert rows(repo)[0]["name"] == "row 0"


@pytest.fixture
def damaged(repo: Repo) -> Repo:
    """The repository after a commit that edits row 7 and leaves something else in row 8."""
    repo.write("points", pa.table({"id": [7], "name": ["sieben"]}))
    feature = "points/.table-dataset/feature"
    with repo.git.writer() as writer:
        files: dict[str, Change] = {f"{feature}/A/A/A/A/kQg=": b"\xc1"}
        tree = edit_tree(writer, repo.head().tree, files)
        writer.flush()
    commit = repo.git.git("commit-tree", tree, "-p", "HEAD^", "-m", "Damaged").text
    repo.git.git("update-ref", "HEAD", commit)
    return Repo.open(repo.path)


def test_a_bad_row_is_in_the_way_only_where_it_is_asked_for(damaged: Repo) -> None:
    def changed(*filters: str) -> list[int]:
        diffs = damaged.diff("HEAD^...HEAD", filters=filters)
        return [len(batch) for diff in diffs for batch in diff.changes]

    assert changed("points:feature:7") == [1]
    assert changed("points:feature:9") == []
    for filters in ((), ("points:feature:8",), ("points:feature:7", "points:feature:8")):
        with pytest.raises(CorruptDatasetError, match="kQg= at HEAD: it is not msgpack"):
            changed(*filters)
    assert damaged.table("points").to_arrow(keys=[(7,)]).num_rows == 1
    (problem,) = damaged.fsck(full=True)
    assert problem.where == "points/.table-dataset/feature/A/A/A/A/kQg= at HEAD"


def test_a_dataset_that_cannot_be_read_is_listed(repo: Repo, tmp_path: Path) -> None:
    repo.import_(write(tmp_path / "more.parquet", points(3)), "more", options=BY_ID)
    with repo.git.writer() as writer:
        files: dict[str, Change] = {"points/.table-dataset/meta/schema.json": b"{"}
        tree = edit_tree(writer, repo.head().tree, files)
        writer.flush()
    commit = repo.git.git("commit-tree", tree, "-p", "HEAD", "-m", "Damaged").text
    repo.git.git("update-ref", "HEAD", commit)
    listed = {info.path: (info.kind, info.rows) for info in repo.list_datasets()}
    assert listed == {"more": ("kart", 3), "points": ("kart", None)}
    assert repo.table("more").to_arrow().num_rows == 3


def half_done(repo: Repo) -> None:
    """Leave what Kart leaves of a merge with conflicts."""
    repo.git.git("branch", "side")
    folder = repo.git.git_directory
    (folder / "MERGED_INDEX").write_bytes(b"")
    (folder / "MERGE_HEAD").write_text(repo.git.git("rev-parse", "HEAD").text + "\n")
    (folder / "MERGE_BRANCH").write_text("side\n")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "arguments",
    [
        ("merge", "side"),
        ("switch", "side"),
        ("reset", "--soft", "HEAD"),
        ("meta", "set", "points", "title=Points"),
        ("import", "points.parquet", "--primary-key", "id", "--replace"),
        ("apply", "patch.json"),
        ("revert", "HEAD"),
        ("cherry-pick", "HEAD"),
        ("restore", "points:feature:3", "--source", "HEAD"),
        ("convert", "points", "--to", "havasu"),
    ],
    ids=" ".join,
)
def test_what_would_disturb_a_merge_of_kart_is_refused(
    repo: Repo,
    arguments: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    half_done(repo)
    monkeypatch.chdir(repo.path)
    (repo.path / "patch.json").write_bytes((tmp_path / "points.parquet").read_bytes())
    shutil.copy(tmp_path / "points.parquet", repo.path)
    before = repo.git.git("for-each-ref").text
    assert run(cli, list(arguments)) == 20
    said = capsys.readouterr().err
    assert "a merge of Kart's, of side, is half done" in said
    assert "`kart merge --continue`" in said
    assert repo.git.git("for-each-ref").text == before
    assert repo.head_branch == "main"


def test_the_status_tells_of_a_merge_of_kart(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    half_done(repo)
    monkeypatch.chdir(repo.path)
    assert run(cli, ["status"]) == 0
    said = capsys.readouterr().out
    assert "the merge of Kart's cannot be read: its files are damaged, or some are gone" in said
    assert "`havasu-vc merge --abort` drops it" in said
    assert "git status" not in said


def test_datasets_of_other_kinds_are_noted_and_left_alone(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with repo.git.writer() as writer:
        files: dict[str, Change] = {
            "dem/.raster-dataset.v1/meta/title": b"Heights",
            "dem/.raster-dataset.v1/tile/ab/a.tif": b"a pointer",
            "dem/metadata.xml": b"<x/>",
            "lidar/.point-cloud-dataset.v1/tile/cd/b.laz": b"a pointer",
        }
        made = edit_tree(writer, repo.head().tree, files)
        writer.flush()
    commit = repo.git.git("commit-tree", made, "-p", "HEAD", "-m", "Tiles").text
    repo.git.git("update-ref", "HEAD", commit)
    before = repo.git.git("rev-parse", "HEAD:dem", "HEAD:lidar").text
    monkeypatch.chdir(repo.path)
    repo.write("points", pa.table({"id": [3], "name": ["drei"]}))
    assert repo.git.git("rev-parse", "HEAD:dem", "HEAD:lidar").text == before
    assert run(cli, ["data", "ls"]) == 0
    assert capsys.readouterr().out.split() == ["dem", "lidar", "points"]
    assert run(cli, ["diff", "HEAD^^...HEAD", "-o", "json:compact"]) == 0
    said = capsys.readouterr()
    shown = json.loads(said.out)["kart.diff/v1+hexwkb"]
    assert list(shown) == ["dem", "points", "<files>"]
    assert shown["dem"] == {"meta": {"title": {"+": "Heights"}}}
    for path in ("dem", "lidar"):
        assert f"{path}: 1 tile differs, which Kart itself shows" in said.err
    assert run(cli, ["show", "HEAD"]) == 0
    assert "Kart itself" not in capsys.readouterr().err
    assert run(cli, ["diff", "HEAD^^...HEAD", "dem"]) == 0
    assert capsys.readouterr().out.startswith("+++ dem:meta:title\n+ Heights\n")
    assert run(cli, ["create-patch", "HEAD^"]) != 0
    assert "a dataset of another kind (.raster-dataset.v1)" in capsys.readouterr().err
    assert list(repo.fsck(full=True)) == []
