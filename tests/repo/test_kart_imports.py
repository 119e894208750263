"""Sources that come in again over a Kart dataset: rows without a key keep their numbers."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from havasu_vc import Repo
from havasu_vc.errors import InvalidArgumentError
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.model.commits import ChangeCounts
from tests.support.templates import empty_repo


def blob(repo: Repo, path: str) -> bytes:
    return repo.git.git("cat-file", "blob", f"HEAD:{path}").text.encode()


def test_rows_without_a_key_keep_the_numbers_that_they_got(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "repo", kart=True)
    file = tmp_path / "names.parquet"
    pq.write_table(pa.table({"name": ["a", "b", "a"], "n": [1, 2, 1]}), file)
    repo.import_(str(file))
    document = json.loads(blob(repo, "names/.table-dataset/meta/generated-pks.json"))
    columns = json.loads(blob(repo, "names/.table-dataset/meta/schema.json"))
    assert document["primaryKeySchema"] == columns[0]
    assert list(columns[0]) == ["id", "name", "dataType", "primaryKeyIndex", "size"]
    listed = repo.git.git("ls-tree", "-r", "HEAD", "names/.table-dataset/feature").text
    ids = [line.split()[2] for line in listed.splitlines()]
    assert document["generatedPrimaryKeys"] == dict(zip("123", ids, strict=True))
    assert repo.import_(str(file), replace=True).commit is None
    pq.write_table(pa.table({"name": ["c", "a", "b"], "n": [3, 1, 2]}), file)
    repo.import_(str(file), replace=True)
    found = {row["auto_pk"]: row["name"] for row in repo.table("names").to_arrow().to_pylist()}
    assert found == {1: "a", 2: "b", 4: "c"}
    pq.write_table(pa.table({"name": ["a", "a"], "n": [1, 1], "more": [None, True]}), file)
    repo.import_(str(file), replace=True)
    assert repo.table("names").to_arrow(["auto_pk"]).column(0).to_pylist() == [5, 6]
    remembered = json.loads(blob(repo, "names/.table-dataset/meta/generated-pks.json"))
    assert list(remembered["generatedPrimaryKeys"]) == list("123456")


def test_geometries_of_no_type_have_one_that_kart_reads_back(tmp_path: Path) -> None:
    """Kart reads some type from any working copy, and none here would be an edit for ever."""
    repo = empty_repo(tmp_path / "repo", kart=True)
    file = tmp_path / "pts.csv"
    file.write_text('id,geom\n1,POINT(1 2)\n2,"LINESTRING Z(1 1 3,2 2 3)"\n')
    repo.import_(str(file), options=SourceOptions(primary_key=("id",)))
    columns = json.loads(blob(repo, "pts/.table-dataset/meta/schema.json"))
    assert [each.get("geometryType") for each in columns] == [None, "GEOMETRY"]
    assert repo.import_(str(file), replace=True).commit is None


def test_a_column_of_geometries_that_comes_later_has_a_type_too(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "repo", kart=True)
    file = tmp_path / "pts.csv"
    for text in ("id,n\n1,2\n", "id,n,geom\n1,2,POINT(1 2)\n"):
        file.write_text(text)
        repo.import_(str(file), replace=True, options=SourceOptions(primary_key=("id",)))
    columns = json.loads(blob(repo, "pts/.table-dataset/meta/schema.json"))
    assert [each.get("geometryType") for each in columns] == [None, None, "GEOMETRY"]


def numbered(repo: Repo) -> dict[int, tuple[str, int]]:
    """Return the rows by the numbers that were made for them."""
    found = repo.table("t").to_arrow().to_pylist()
    return {row["auto_pk"]: (row["name"], row["n"]) for row in found}


def again(repo: Repo, file: Path, rows: list[tuple[str, int]], **options: Any) -> ChangeCounts:
    """Import rows without a key into `t`, over those that are there."""
    names, numbers = zip(*rows, strict=True)
    more = {"more": pa.array([n % 3 for n in numbers], pa.int32())}
    pq.write_table(pa.table({"name": names, "n": numbers, **more}), file)
    return repo.import_(str(file), "t", replace=True, **options).datasets["t"]


def test_rows_that_hardly_changed_keep_the_numbers_that_were_made_for_them(
    tmp_path: Path,
) -> None:
    repo, file = empty_repo(tmp_path / "repo", kart=True), tmp_path / "t.parquet"
    again(repo, file, [("a", 1), ("b", 2), ("c", 4), ("d", 5), ("e", 7)])
    # As Kart has it: one column differs, and no other row is alike to either one.
    counts = again(repo, file, [("X", 1), ("b", 5), ("Y", 10), ("Z", 10), ("d", 5)])
    assert counts == ChangeCounts(inserts=2, updates=2, deletes=2)
    assert numbered(repo) == {1: ("X", 1), 2: ("b", 5), 4: ("d", 5), 6: ("Y", 10), 7: ("Z", 10)}
    # Another edit of the dataset is not looked at: the last import is what counts.
    repo.write("t", pa.table({"auto_pk": [1], "name": ["edited"], "n": [77]}))
    again(repo, file, [("XX", 1), ("b", 5), ("d", 5)])
    assert numbered(repo) == {1: ("XX", 1), 2: ("b", 5), 4: ("d", 5)}
    # Two rows went and one comes: more than the limit allows.
    counts = again(repo, file, [("XX", 4), ("b", 5), ("d", 5)], similarity_detection_limit=1)
    assert numbered(repo) == {2: ("b", 5), 4: ("d", 5), 8: ("XX", 4)}
    document = json.loads(blob(repo, "t/.table-dataset/meta/generated-pks.json"))
    assert list(document["generatedPrimaryKeys"]) == list("12345678")


def test_a_search_for_rows_that_hardly_changed_has_a_limit(tmp_path: Path) -> None:
    repo, file = empty_repo(tmp_path / "repo", kart=True), tmp_path / "t.parquet"
    again(repo, file, [(f"row {n}", 3 * n) for n in range(30)])
    changed = [(f"row {n}" if n > 9 else f"new {n}", 3 * n) for n in range(30)]
    repo.git.git("branch", "before")
    # Ten rows came and ten went.
    assert again(repo, file, changed, similarity_detection_limit=19).deletes == 10
    repo.git.git("update-ref", "HEAD", "before")
    assert again(repo, file, changed, similarity_detection_limit=20).updates == 10
    repo.git.git("update-ref", "HEAD", "before")
    assert again(repo, file, changed, similarity_detection_limit=0).inserts == 10
    repo.git.git("update-ref", "HEAD", "before")
    # Waiting rows are given up when they are too many, and numbers go on in order.
    assert again(repo, file, changed, similarity_detection_limit=4).inserts == 10
    assert [numbered(repo)[30 + n] for n in range(1, 11)] == changed[:10]
    with pytest.raises(InvalidArgumentError, match="at least zero"):
        again(repo, file, changed, similarity_detection_limit=-1)


def test_a_column_may_come_while_rows_keep_the_numbers_that_were_made_for_them(
    tmp_path: Path,
) -> None:
    repo, file = empty_repo(tmp_path / "repo", kart=True), tmp_path / "t.parquet"
    again(repo, file, [(f"row {n}", n) for n in range(6)])
    table = pq.read_table(file)
    pq.write_table(table.append_column("extra", pa.array([n % 2 for n in range(6)])), file)
    counts = repo.import_(str(file), "t", replace=True).datasets["t"]
    assert counts == ChangeCounts(inserts=0, updates=6, deletes=0)
    two = table.append_column("one", table["n"]).append_column("two", table["n"])
    pq.write_table(two, file)
    counts = repo.import_(str(file), "t", replace=True).datasets["t"]
    assert counts == ChangeCounts(inserts=6, updates=0, deletes=6)


def test_a_crs_that_is_said_in_other_words_stays(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "repo", kart=True)
    text = json.dumps({"type": "FeatureCollection", "features": [
        {"type": "Feature", "id": 1, "properties": {}, "geometry":
            {"type": "Point", "coordinates": [1, 2]}}]})  # fmt: skip
    (tmp_path / "t.geojson").write_text(text)
    repo.import_(str(tmp_path / "t.geojson"))
    wkt = repo.get_meta("t")["crs/EPSG:4326.wkt"]
    assert "AXIS" not in wkt
    end = wkt.rindex("    AUTHORITY")
    other = wkt[:end] + '    AXIS["Latitude", NORTH],\n    AXIS["Longitude", EAST],\n' + wkt[end:]
    repo.set_meta("t", {"crs/EPSG:4326.wkt": other})
    assert repo.import_(str(tmp_path / "t.geojson"), replace=True).commit is None
    repo.set_meta("t", {"crs/EPSG:4326.wkt": wkt.replace("6378137", "6378000")})
    assert repo.import_(str(tmp_path / "t.geojson"), replace=True).commit is not None
    assert repo.get_meta("t")["crs/EPSG:4326.wkt"] == wkt
