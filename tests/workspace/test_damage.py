"""Tables that somebody damaged: one clear line, the repository untouched, no edit deleted."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from havasu_vc import Repo
from havasu_vc.errors import CorruptionError, HavasuError, StateError, UnsupportedVersionError
from havasu_vc.tables.table import metadata_versions, read_table
from tests.repo.checkouts import assert_shows_head
from tests.repo.tables import BY_ID, points, rows, write
from tests.support.sound import LOCAL, assert_sound, frozen, refuses
from tests.support.templates import empty_repo
from tests.workspace import by_hand
from tests.workspace.sheets import rows_of

Damage = Callable[[Path], None]


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A repository whose table of `points` holds an edit."""
    made = empty_repo(tmp_path / "repo", settings=LOCAL)
    made.import_(write(tmp_path / "points.parquet", points(20)), options=BY_ID)
    made.workspace.check_out()
    by_hand.insert(place(made), [{"id": 500, "geom": None, "name": "new", "number": 1}])
    return made


def place(repo: Repo) -> Path:
    return repo.workspace.root / "points"


def newest(table: Path) -> Path:
    return read_table(table).metadata_file


def edited_metadata(table: Path, **changes: object) -> None:
    path = newest(table)
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def lose_folder(table: Path) -> None:
    shutil.move(table, table.with_name("elsewhere"))


def lose_metadata(table: Path) -> None:
    shutil.rmtree(table / "metadata")


def break_metadata(table: Path) -> None:
    path = newest(table)
    path.write_bytes(path.read_bytes()[:100])


def lose_all_but_half(table: Path) -> None:
    """Leave nothing of any metadata file that could be read."""
    for path in table.glob("metadata/*.json"):
        path.write_bytes(path.read_bytes()[:50])


def lose_manifest_list(table: Path) -> None:
    found = read_table(table)
    assert found.metadata.snapshot is not None and found.metadata.snapshot.manifest_list
    Path(found.metadata.snapshot.manifest_list).unlink()


def lose_new_data(table: Path) -> None:
    (path,) = table.glob("data/00000-*.parquet")
    path.unlink()


def break_new_data(table: Path) -> None:
    (path,) = table.glob("data/00000-*.parquet")
    path.write_bytes(b"PAR1" + bytes(100))


def lose_linked_data(table: Path) -> None:
    (path,) = (p for p in table.glob("data/*.parquet") if not p.name.startswith("00000"))
    path.unlink()


def put_another_in_its_place(table: Path) -> None:
    edited_metadata(table, **{"table-uuid": "11111111-2222-3333-4444-555555555555"})


def upgrade(table: Path) -> None:
    edited_metadata(table, **{"format-version": 3, "next-row-id": 0})


def upgrade_beyond(table: Path) -> None:
    edited_metadata(table, **{"format-version": 9})


def roll_back(table: Path) -> None:
    """Let a table say what one said that was never checked out."""
    found = json.loads(newest(table).read_text())
    base = min(found["snapshots"], key=lambda each: each["sequence-number"])
    found["snapshots"] = [each for each in found["snapshots"] if each is not base]
    found["refs"] = {"main": found["refs"]["main"]}
    found["snapshot-log"] = []
    newest(table).write_text(json.dumps(found))


def write_in_place(table: Path) -> None:
    (path,) = (p for p in table.glob("data/*.parquet") if not p.name.startswith("00000"))
    data = path.read_bytes()
    # As root nothing is read-only.
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.seek(len(data) // 2)
        file.write(b"damage")


CASES: dict[str, tuple[Damage, type[HavasuError], str]] = {
    "no folder": (lose_folder, CorruptionError, "points: its table at"),
    "no metadata": (lose_metadata, CorruptionError, "points: there is no table at"),
    "broken metadata": (break_metadata, CorruptionError, "points:"),
    "no manifest list": (lose_manifest_list, CorruptionError, "is missing"),
    "no data file": (lose_new_data, CorruptionError, "is missing, and the table needs it"),
    "no linked file": (lose_linked_data, CorruptionError, "points: its table lacks"),
    "broken data file": (break_new_data, CorruptionError, ".parquet"),
    "another table": (put_another_in_its_place, StateError, "is another one"),
    "version 3": (upgrade, UnsupportedVersionError, "Iceberg 3"),
    "version 9": (upgrade_beyond, UnsupportedVersionError, "points:"),
    "another history": (roll_back, StateError, "has another history"),
    "written in place": (write_in_place, CorruptionError, "was changed in place"),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", CASES)
def test_damage_is_told_and_nothing_is_deleted(repo: Repo, name: str) -> None:
    damage, error, words = CASES[name]
    if name == "written in place":
        # The store's own file is the same one where it is a hard link; keep it whole.
        (path,) = (p for p in place(repo).glob("data/*.parquet") if p.stat().st_nlink > 1)
        shutil.copy2(path, path.with_suffix(".copy"))
        os.replace(path.with_suffix(".copy"), path)
    damage(place(repo))

    with frozen(repo):
        for act in (
            lambda: repo.workspace.commit(message="Edit"),
            lambda: [list(diff.changes) for diff in repo.workspace.diff()],
        ):
            with pytest.raises(error) as caught:
                act()
            assert words in caught.value.message
            assert "\n" not in caught.value.message and caught.value.hints
        changes = repo.workspace.changes()
        assert changes is not None and not changes.tables
        (problem,) = changes.problems
        assert words in problem
    assert len(rows(repo, "points")) == 20
    assert_sound(repo)


@pytest.mark.parametrize(
    "name", [name for name in CASES if name not in ("another table", "written in place")]
)
@pytest.mark.few(3)
def test_restore_makes_the_table_anew(repo: Repo, name: str) -> None:
    CASES[name][0](place(repo))

    assert repo.workspace.discard(["points"]) == ("points",)

    changes = repo.workspace.changes()
    assert changes is not None and not (changes.tables or changes.problems)
    assert rows_of(repo, "points") == rows(repo, "points")
    by_hand.insert(place(repo), [{"id": 501, "geom": None, "name": "new", "number": 1}])
    repo.workspace.commit(message="Edit")


@pytest.mark.parametrize("damage", [break_metadata, upgrade_beyond, lose_all_but_half])
def test_a_table_that_cannot_be_read_is_made_anew_when_told(repo: Repo, damage: Damage) -> None:
    damage(place(repo))
    with pytest.raises(HavasuError):
        repo.workspace.commit(message="Edit")
    before = {path: path.read_bytes() for path in place(repo).rglob("*") if path.is_file()}
    with pytest.raises(HavasuError) as caught:
        repo.workspace.check_out()
    assert caught.value.hints
    assert {path: path.read_bytes() for path in before} == before

    repo.workspace.check_out(discard=True)

    changes = repo.workspace.changes()
    assert changes is not None and not (changes.tables or changes.problems)
    assert rows_of(repo, "points") == rows(repo, "points")
    assert len(read_table(place(repo)).metadata.snapshots) == 1


def put_another_that_cannot_be_read(table: Path) -> None:
    for path in table.glob("metadata/*.json"):
        value = json.loads(path.read_text()) | {"table-uuid": "1111", "format-version": 9}
        path.write_text(json.dumps(value))


def put_another_that_is_cut_short(table: Path) -> None:
    put_another_that_cannot_be_read(table)
    for path in table.glob("metadata/*.json"):
        path.write_bytes(path.read_bytes()[:-20])


@pytest.mark.parametrize(
    "damage",
    [put_another_in_its_place, put_another_that_cannot_be_read, put_another_that_is_cut_short],
    ids=["readable", "not", "cut short"],
)
def test_another_table_stays_even_when_told(repo: Repo, damage: Damage) -> None:
    damage(place(repo))
    before = {path: path.read_bytes() for path in place(repo).rglob("*") if path.is_file()}

    with pytest.raises(StateError) as caught:
        repo.workspace.check_out(discard=True)

    assert "move it away" in caught.value.hints[0]
    assert {path: path.read_bytes() for path in before} == before


def test_what_stands_in_a_tables_place_is_not_touched(repo: Repo) -> None:
    put_another_in_its_place(place(repo))
    before = sorted(place(repo).rglob("*"))

    with pytest.raises(StateError, match="the edits of points are still there"):
        repo.workspace.discard()

    assert [path for path in before if not path.exists()] == []
    assert "1111" in read_table(place(repo)).metadata.table_uuid


def test_damage_of_one_table_hides_no_other(repo: Repo, tmp_path: Path) -> None:
    repo.import_(write(tmp_path / "more.parquet", points(5)), "more", options=BY_ID)
    by_hand.delete(repo.workspace.root / "more", [0])
    lose_new_data(place(repo))

    changes = repo.workspace.changes()
    assert changes is not None
    assert list(changes.tables) == ["more"] and len(changes.problems) == 1
    with refuses(repo, CorruptionError):
        repo.workspace.commit(message="All")
    assert list(repo.workspace.commit(["more"], message="One").changes) == ["more"]


def test_a_linked_file_that_was_lost_comes_back_with_the_edits(repo: Repo) -> None:
    lose_linked_data(place(repo))
    with pytest.raises(CorruptionError) as caught:
        repo.workspace.commit(message="Edit")
    _, source, target = caught.value.hints[0].partition("`")[2].partition("`")[0].split()
    shutil.copy(source, target)

    assert repo.workspace.commit(message="Edit").changes["points"].inserts == 1


def test_a_clean_table_that_lost_a_file_is_told_of(repo: Repo) -> None:
    repo.workspace.commit(message="Edit")
    for path in place(repo).glob("data/*.parquet"):
        path.unlink()

    changes = repo.workspace.changes()
    assert changes is not None and "its table lacks" in changes.problems[0]
    repo.workspace.check_out()
    changes = repo.workspace.changes()
    assert changes is not None and changes.problems == ()


def test_a_table_that_was_rolled_back_by_hand(repo: Repo) -> None:
    repo.workspace.commit(message="Edit")
    for number, path in metadata_versions(place(repo)):
        if number > 1:
            path.unlink()
    with refuses(repo, StateError, match="was rolled back to before its checkout", hint=True):
        repo.workspace.commit(message="Edit")
    changes = repo.workspace.changes()
    assert changes is not None and "was rolled back" in changes.problems[0]

    repo.workspace.check_out()

    assert rows_of(repo, "points") == rows(repo, "points")
    changes = repo.workspace.changes()
    assert changes is not None and not (changes.tables or changes.problems)


@pytest.mark.few(1)
@pytest.mark.parametrize("pattern", ["*-m*.avro", "snap-*.avro"])
@pytest.mark.parametrize("spoilt", [b"Obj\x01 and no more", None])
def test_manifests_that_are_lost(repo: Repo, pattern: str, spoilt: bytes | None) -> None:
    def lose() -> None:
        for path in (place(repo) / "metadata").glob(pattern):
            path.unlink()
            if spoilt is not None:
                path.write_bytes(spoilt)

    lose()
    with refuses(repo, CorruptionError, match="", hint=True):
        repo.workspace.commit(message="Edit")
    assert repo.workspace.check_out().kept == ("points",), "edits are dropped by nobody"
    repo.workspace.discard(["points"])
    assert_shows_head(repo)
    by_hand.insert(place(repo), [{"id": 901, "geom": None, "name": "more", "number": 1}])
    repo.workspace.commit(message="More")
    lose()
    if spoilt is None:
        repo.workspace.check_out()
    else:
        repo.write("points", pa.table({"id": [1], "name": ["one"]}))
    assert_shows_head(repo)


def test_a_table_from_a_backup_is_no_edit(repo: Repo, tmp_path: Path) -> None:
    repo.workspace.commit(message="Edit")
    shutil.copytree(place(repo), tmp_path / "backup")
    repo.switch("other", create=True)
    by_hand.insert(place(repo), [{"id": 900, "geom": None, "name": "late", "number": 1}])
    repo.workspace.commit(message="Late")
    shutil.rmtree(place(repo))
    shutil.copytree(tmp_path / "backup", place(repo))

    with refuses(repo, StateError, match="was rolled back to before its checkout", hint=True):
        repo.workspace.commit(message="What others did")
    changes = repo.workspace.changes()
    assert changes is not None and "was rolled back" in changes.problems[0]
    repo.workspace.check_out()
    assert rows_of(repo, "points") == rows(repo, "points")


def test_a_copy_of_a_repository_does_not_look_at_the_tables_of_the_first(
    repo: Repo, tmp_path: Path
) -> None:
    copy = Repo.open(shutil.copytree(repo.path, tmp_path / "copy", symlinks=True))

    changes = copy.workspace.changes()
    assert changes is not None and "--relocate" in changes.problems[0]
    with pytest.raises(StateError, match="were checked out at"):
        copy.workspace.commit(message="Edit")
    assert repo.workspace.commit(message="Edit").changes["points"].inserts == 1
