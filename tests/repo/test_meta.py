"""Meta items: title, description, CRS, and schemas that evolve without rewriting files."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from havasu_vc.errors import SchemaViolationError
from tests.repo.tables import BY_ID, points, rows, write
from tests.support.sound import CheckedRepo, refuses


def columns_of(repo: CheckedRepo, path: str = "points") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = repo.get_meta(path, ["schema.json"])["schema.json"]
    return found


def files_of(repo: CheckedRepo, path: str = "points") -> set[str]:
    return set(repo.dataset(path).entries)


def test_texts_are_set_changed_and_removed(filled: CheckedRepo) -> None:
    before = files_of(filled)
    filled.set_meta("points", {"title": "Točke", "description": "many\nlines\n"})
    assert filled.get_meta("points", ["title"]) == {"title": "Točke"}
    assert filled.set_meta("points", {"title": "Točke"}).commit is None
    filled.set_meta("points", {"title": None, "description": "d"}, message="why")
    meta = filled.get_meta("points")
    assert "title" not in meta and meta["description"] == "d"
    assert filled.log()[0].message == "why"
    assert files_of(filled) == before
    assert filled.get_meta("points", ["title"], revision="HEAD^")["title"] == "Točke"


def test_columns_are_added_dropped_renamed_swapped_and_reordered(filled: CheckedRepo) -> None:
    before, expected = files_of(filled), points(100).to_pylist()

    columns = columns_of(filled)
    columns.insert(1, {"name": "more", "dataType": "text"})
    filled.set_meta("points", {"schema.json": columns})
    expected = [{**row, "more": None} for row in expected]
    assert rows(filled, "points") == expected

    columns = columns_of(filled)
    by_name = {column["name"]: column for column in columns}
    by_name["name"]["name"], by_name["number"]["name"] = "number", "name"
    filled.set_meta("points", {"schema.json": columns})
    expected = [{**row, "name": row["number"], "number": row["name"]} for row in expected]
    assert rows(filled, "points") == expected

    filled.set_meta("points", {"schema.json": columns_of(filled)[::-1]})
    assert rows(filled, "points") == expected
    assert filled.table("points").to_arrow().schema.names == [
        "name",
        "number",
        "geom",
        "more",
        "id",
    ]

    kept = [column for column in columns_of(filled) if column["name"] != "name"]
    filled.set_meta("points", {"schema.json": kept})
    # A column of the same name is another column.
    filled.set_meta(
        "points", {"schema.json": [*kept, {"name": "name", "dataType": "integer", "size": 32}]}
    )
    assert all(row["name"] is None for row in rows(filled, "points"))
    assert files_of(filled) == before
    filled.write("points", pa.table({"id": [1], "name": pa.array([9], pa.int32())}))
    assert rows(filled, "points")[1]["name"] == 9 and rows(filled, "points")[2]["name"] is None
    assert list(filled.fsck(full=True)) == []
    for commit, count in (("HEAD~6", 4), ("HEAD~5", 5), ("HEAD", 5)):
        assert len(filled.table("points", commit).schema.names) == count


def test_columns_are_widened_and_not_narrowed(filled: CheckedRepo) -> None:
    before = files_of(filled)
    columns = columns_of(filled)
    columns[3]["size"] = 64
    filled.set_meta("points", {"schema.json": columns})
    assert rows(filled, "points") == points(100).to_pylist()
    assert files_of(filled) == before
    filled.write("points", pa.table({"id": [1], "number": [1 << 40]}))
    assert rows(filled, "points")[1]["number"] == 1 << 40
    columns[3]["size"] = 32
    with refuses(filled.repo, SchemaViolationError, match="number"):
        filled.repo.set_meta("points", {"schema.json": columns})


def test_the_key_is_renamed(filled: CheckedRepo) -> None:
    columns = columns_of(filled)
    columns[0]["name"] = "fid"
    filled.set_meta("points", {"schema.json": columns})
    filled.write("points", pa.table({"fid": [3, 700], "name": ["x", "y"]}))
    found = {row["fid"]: row["name"] for row in filled.table("points").to_arrow().to_pylist()}
    assert found[3] == "x" and found[700] == "y" and len(found) == 101
    (diff,) = filled.diff("HEAD~2...HEAD")
    assert sum(len(batch) for batch in diff.changes) == 2
    (diff,) = filled.diff("HEAD..HEAD~2")
    assert sum(len(batch) for batch in diff.changes) == 2


@pytest.mark.thorough
def test_another_key_is_chosen(filled: CheckedRepo) -> None:
    columns = columns_of(filled)
    columns[0].pop("primaryKeyIndex")
    columns[2]["primaryKeyIndex"] = 0
    filled.set_meta("points", {"schema.json": columns})
    assert filled.dataset("points").key.names == ("name",)
    assert rows(filled, "points") == points(100).to_pylist()
    filled.write("points", pa.table({"name": ["row 3"], "id": [333]}))
    assert {row["name"]: row["id"] for row in rows(filled, "points")}["row 3"] == 333
    assert list(filled.fsck(full=True)) == []

    columns = columns_of(filled)
    for column in columns:
        column.pop("primaryKeyIndex", None)
    columns[3]["primaryKeyIndex"] = 0
    with refuses(filled.repo, ValueError):  # type: ignore[arg-type]
        filled.repo.set_meta("points", {"schema.json": columns})

    columns[3].pop("primaryKeyIndex")
    filled.set_meta("points", {"schema.json": columns})
    assert filled.dataset("points").key.names == ()
    assert len(rows(filled, "points")) == 100
    list(filled.diff("HEAD^...HEAD"))
    list(filled.diff("HEAD..HEAD^"))
    assert list(filled.fsck(full=True)) == []


def test_a_crs_is_set(filled: CheckedRepo) -> None:
    wkt = filled.get_meta("points")["crs/OGC:CRS84.wkt"]
    columns = columns_of(filled)
    columns[1]["geometryCRS"] = "EPSG:2193"
    filled.set_meta("points", {"schema.json": columns})
    assert "2193" in filled.get_meta("points")["crs/EPSG:2193.wkt"]
    filled.set_meta("points", {"crs/OGC:CRS84.wkt": None})
    assert "crs/OGC:CRS84.wkt" not in filled.get_meta("points")
    filled.set_meta("points", {"crs/EPSG:4326.wkt": wkt})
    assert filled.get_meta("points")["crs/EPSG:4326.wkt"]


def test_a_crs_that_a_column_has_cannot_go(filled: CheckedRepo) -> None:
    with refuses(filled.repo, ValueError):  # type: ignore[arg-type]
        filled.repo.set_meta("points", {"crs/OGC:CRS84.wkt": None})


@pytest.mark.parametrize("order", ["key", "hilbert", "none"])
@pytest.mark.few(1)
def test_edits_before_and_after_an_evolution_meet(
    repo: CheckedRepo, tmp_path: Path, order: str
) -> None:
    repo.import_(write(tmp_path / "points.parquet", points(50)), options=BY_ID, order=order)
    repo.write("points", pa.table({"id": [1, 60], "name": ["a", "b"]}))
    columns = columns_of(repo)
    columns[3]["size"] = 64
    columns[2]["name"] = "label"
    columns.append({"name": "flag", "dataType": "boolean"})
    repo.set_meta("points", {"schema.json": columns})
    repo.write("points", pa.table({"id": [1, 2], "label": ["c", "d"], "flag": [True, False]}))
    repo.write("points", pa.table({"id": [60, 5]}), mode="delete")
    (diff,) = repo.diff("HEAD~4...HEAD")
    changes = {
        (row["new"] or row["old"])["id"]: (row["old"], row["new"])
        for batch in diff.changes
        for row in batch.data.to_pylist()
    }
    assert sorted(changes) == [1, 2, 5]
    assert changes[1][0]["name"] == "row 1" and changes[1][1]["label"] == "c"
    assert changes[5][1] is None
    assert list(repo.fsck(full=True)) == []
