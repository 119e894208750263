"""`havasu-vc import`."""

import json
from pathlib import Path
from typing import Any

import geopandas
import pytest

from havasu_vc.transfer import imports
from tests.cli.conftest import SECOND, Run, succeed
from tests.repo.tables import write_layers


def test_it_tells_what_came_in(run: Run, csv_file: Path) -> None:
    result = succeed(run("import", csv_file, "lots", "--primary-key", "id", "-m", "Lots"))

    lines = result.stderr.splitlines()
    assert lines[0].startswith("Imported 3 rows into lots in ")
    assert lines[1] == "  key: id (as told)"
    assert lines[-1].startswith("[main ")
    assert lines[-1].endswith("] Lots")
    assert result.stdout == ""
    assert "Note" not in result.stderr


def test_a_file_two_folders_down_is_a_file(
    run: Run, csv_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "data" / "2026"
    folder.mkdir(parents=True)
    csv_file.rename(folder / "lots.csv")
    monkeypatch.chdir(tmp_path)

    result = succeed(run("import", "data/2026/lots.csv", "--primary-key", "id", "-n"))

    assert result.stderr.startswith("Would import 3 rows into lots")


def test_a_second_file_names_no_dataset(run: Run, csv_file: Path) -> None:
    other = csv_file.with_name("other.csv")
    other.write_text(csv_file.read_text())

    result = run("import", csv_file, other)

    assert result.exit_code == 2
    assert f"{other} is a file" in result.stderr
    assert run("data", "ls").stdout == "points\n"


def test_without_a_key_it_says_what_that_means(run: Run, csv_file: Path) -> None:
    result = succeed(run("import", csv_file, "lots", "--no-primary-key"))

    assert "Note: lots has no key" in result.stderr
    assert "--primary-key" in result.stderr


def test_replace_commits_what_differs(run: Run, csv_file: Path) -> None:
    succeed(run("import", csv_file, "lots", "--primary-key", "id"))
    again = succeed(run("import", csv_file, "lots", "--replace"))
    assert again.stderr.splitlines() == [
        "No row of lots differs",
        "Nothing changed, nothing is committed",
    ]

    csv_file.write_text(SECOND)
    result = succeed(run("import", csv_file, "lots", "--replace", "-o", "json"))
    imported = json.loads(result.stdout)["havasu.import/v1"]
    assert imported["datasets"] == {"lots": {"inserts": 1, "updates": 1, "deletes": 1}}
    assert imported["commit"] == json.loads(run("log", "-1", "-o", "json").stdout)[0]["commit"]


def test_what_is_there_is_not_replaced_unasked(run: Run, csv_file: Path) -> None:
    result = run("import", csv_file, "points")

    assert result.exit_code == 2
    assert "--replace" in result.stderr


def test_a_dry_run_commits_nothing(run: Run, csv_file: Path) -> None:
    before = run("log", "-o", "json").stdout
    result = succeed(run("import", csv_file, "lots", "--primary-key", "id", "--dry-run"))

    assert result.stderr.startswith("Would import 3 rows into lots")
    assert run("log", "-o", "json").stdout == before


def test_options_reach_the_source(run: Run, csv_file: Path) -> None:
    succeed(
        run(
            *("import", csv_file, "lots", "--primary-key", "id", "--leave-out", "height"),
            *("--csv-drop-coordinates", "--crs", "EPSG:2193", "--geometry-encoding", "wkb"),
        )
    )
    columns = json.loads(run("meta", "get", "lots", "schema.json", "-o", "json").stdout)
    by_name = {column["name"]: column for column in columns["lots"]["schema.json"]}

    assert {"id", "name"} < set(by_name)
    assert {"height", "lon", "lat"} & set(by_name) == set()
    geometry = next(c for c in by_name.values() if c["dataType"] == "geometry")
    assert geometry["geometryCRS"] == "EPSG:2193"


def test_a_file_may_be_named_by_its_url(run: Run, csv_file: Path) -> None:
    spaced = csv_file.rename(csv_file.with_name("two words.csv"))
    for number, url in enumerate((spaced.as_uri(), f"file:{spaced.as_posix()}")):
        succeed(run("import", url, f"lots{number}", "--primary-key", "id"))
    assert succeed(run("import", spaced.as_uri(), "--list")).stdout == "two words\n"
    assert "Import from two words.csv:" in succeed(run("log", "-1")).stdout
    far = run("import", "file://there/data/lots.csv", "far")
    assert (far.exit_code, "another machine" in far.stderr) == (2, True)
    assert "no file /gone.csv" in run("import", "file:///gone.csv", "gone").stderr


def test_list_names_the_layers(run: Run, csv_file: Path) -> None:
    assert succeed(run("import", csv_file, "--list")).stdout == "table\n"


@pytest.mark.parametrize(
    ("content", "options", "code"),
    [
        ("", (), 28),
        ("id,name\n1,a\n1,b\n", ("--primary-key", "id"), 23),
        ("id,name\n1,a\n,b\n", ("--primary-key", "id"), 23),
        ("id,name\n1,a\n", ("--primary-key", "nope"), 2),
        ("id,lon,lat\n1,1,1\n", ("--crs", "EPSG:99999"), 25),
        ("id,name\n1,a\n", ("--primary-key", "id", "--no-primary-key"), 2),
        ("id,name\n1,a\n", ("--layer", "a", "--all-layers"), 2),
    ],
)
def test_bad_input_changes_nothing(
    run: Run, csv_file: Path, content: str, options: tuple[str, ...], code: int
) -> None:
    before = run("log", "-o", "json").stdout
    csv_file.write_text(content)
    result = run("import", csv_file, "lots", *options)

    assert result.exit_code == code, result.output
    assert result.stderr.startswith("Error: ")
    assert run("log", "-o", "json").stdout == before


@pytest.mark.parametrize("name", ["../x", "a/.git/b", "points/inner", "a\nb"])
def test_bad_names(run: Run, csv_file: Path, name: str) -> None:
    assert run("import", csv_file, name).exit_code == 2


def test_no_such_file(run: Run, tmp_path: Path) -> None:
    assert run("import", tmp_path / "nope.parquet").exit_code == 48


def test_rows_in_a_box(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    path.write_text("id,lon,lat\n1,10,10\n2,20,20\n3,-179,20\n")

    result = succeed(run("import", path, "some", "--primary-key", "id", "--bbox", "15,15,25,25"))
    assert result.stderr.startswith("Imported 1 row into some")
    result = succeed(run("import", path, "more", "--primary-key", "id", "--bbox", "19,0,-170,90"))
    assert result.stderr.startswith("Imported 2 rows into more")
    for box in ("1,2,3", "0,5,1,4"):
        assert run("import", path, "no", "--bbox", box).exit_code != 0
    assert "--link" in run("import", f"iceberg:{tmp_path}", "--link", "--bbox", "0,0,1,1").stderr


def test_layers_may_stand_behind_the_source_as_in_kart(run: Run, tmp_path: Path) -> None:
    file = write_layers(tmp_path / "l.gpkg", {"one": 3, "two": 5, "three": 2})
    succeed(run("import", file, "one"))
    succeed(run("import", file, "two:b/second", "three"))
    assert succeed(run("data", "ls")).stdout.split() == ["b/second", "one", "points", "three"]
    result = run("import", file, "four")
    assert result.exit_code == 2 and "--layer" in result.stderr
    assert run("import", file, "one:x", "four").exit_code == 48


@pytest.mark.parametrize("options", [[], ["--dry-run"]])
def test_what_a_release_changes_besides_rows_is_told(
    run: Run, csv_file: Path, options: list[str]
) -> None:
    succeed(run("import", csv_file, "lots", "--primary-key", "id", "--crs", "EPSG:4326"))
    lines = [line.split(",") for line in csv_file.read_text().splitlines()]
    csv_file.write_text("".join(",".join([a, c, d, e]) + ",\n" for a, b, c, d, e in lines))
    text = csv_file.read_text().replace("lat,", "lat,remark", 1)
    csv_file.write_text(text)
    result = succeed(run("import", csv_file, "lots", "--replace", "--crs", "EPSG:4167", *options))
    assert [line for line in result.stderr.splitlines() if line.startswith("Note")] == [
        "Note: lots: crs/EPSG:4167.wkt changes",
        "Note: lots: crs/EPSG:4326.wkt changes",
        "Note: lots: column 'name' is dropped",
        "Note: lots: column 'remark' is added",
        "Note: lots: column 'geom' is in EPSG:4167 now, in EPSG:4326 before",
    ]
    key = run("import", csv_file, "lots", "--replace", "--no-primary-key")
    assert "lots has the key (id), not no key" in key.stderr


def system_of(run: Run, dataset: str) -> str:
    schema = json.loads(succeed(run("meta", "get", dataset, "schema.json", "-o", "json")).stdout)
    (column,) = [each for each in schema[dataset]["schema.json"] if "geometryCRS" in each]
    return str(column["geometryCRS"])


def test_a_release_in_another_system_is_in_it(run: Run, tmp_path: Path) -> None:
    frame = geopandas.GeoDataFrame(
        {"id": [1, 2]}, geometry=geopandas.points_from_xy([1.5e6, 1.6e6], [5e6, 5.1e6]), crs=2193
    )
    frame.to_file(tmp_path / "p.gpkg", layer="p")
    succeed(run("import", tmp_path / "p.gpkg", "--primary-key", "id", "--leave-out", "fid"))
    frame.to_crs(4326).to_file(tmp_path / "p.gpkg", layer="p")
    result = succeed(run("import", tmp_path / "p.gpkg", "--replace", "--leave-out", "fid"))

    assert "column 'geom' is in EPSG:4326 now, in EPSG:2193 before" in result.stderr
    assert system_of(run, "p") == "EPSG:4326"
    items = {at: run("meta", "get", "p", "--ref", at).stdout for at in ("HEAD^", "HEAD")}
    assert "crs/EPSG:2193.wkt" in items["HEAD^"] and "crs/EPSG:4326.wkt" not in items["HEAD^"]
    assert "crs/EPSG:4326.wkt" in items["HEAD"]
    assert "crs/EPSG:2193.wkt" not in items["HEAD"], "no column is in it"
    succeed(run("fsck", "--full"))
    for revision, code in (("HEAD", 4326), ("HEAD^", 2193)):
        file = tmp_path / f"{code}.gpkg"
        succeed(run("export", "p", file, "--ref", revision))
        found = geopandas.read_file(file)
        assert found.crs.to_epsg() == code
        assert list(found.geometry.x) == list(frame.to_crs(code).geometry.x)
    again = succeed(run("import", tmp_path / "p.gpkg", "--replace", "--leave-out", "fid"))
    assert "Nothing changed" in again.stderr


@pytest.mark.parametrize(("code", "kept"), [("EPSG:4167", True), ("EPSG:2193", False)])
def test_a_release_that_names_no_system_keeps_the_datasets(
    run: Run, csv_file: Path, code: str, kept: bool
) -> None:
    succeed(run("import", csv_file, "lots", "--primary-key", "id", "--crs", code))
    csv_file.write_text(csv_file.read_text().replace("174.5", "174.25"))
    result = run("import", csv_file, "lots", "--replace")
    if kept:
        assert f"coordinates are taken as {code}" in succeed(result).stderr
        assert "wkt changes" not in result.stderr
    else:
        assert result.exit_code and "called longitude and latitude" in result.stderr
        assert succeed(run("log", "--oneline", "lots")).stdout.count("\n") == 1
    assert system_of(run, "lots") == code


def test_there_is_nothing_to_replace(run: Run, csv_file: Path) -> None:
    succeed(run("import", csv_file, "lots", "--primary-key", "id"))
    result = succeed(run("import", csv_file, "lost", "--replace", "--primary-key", "id"))

    assert "lost is new: there was no dataset of that name to replace" in result.stderr
    assert "did you mean 'lots'?" in result.stderr


def test_files_that_are_imported_one_by_one(run: Run, csv_file: Path) -> None:
    folder = csv_file.parent / "folder"
    folder.mkdir()
    csv_file.rename(folder / "a.csv")
    assert "files such as a.csv are imported one by one" in run("import", folder).stderr


@pytest.mark.parametrize("bad", ["ten", "174,5", "1.5.2", "-"])
def test_a_coordinate_that_is_no_number_stops_an_import(run: Run, csv_file: Path, bad: str) -> None:
    value = f'"{bad}"'
    csv_file.write_text(f"id,lon,lat\n1,174.5,-41\n2,,\n3,{value},-41.1\n")
    stopped = run("import", csv_file, "places")
    assert stopped.exit_code == 28
    assert f"row 3 has {bad!r} in column 'lon', where others have a number" in stopped.stderr
    named = run("import", csv_file, "places", "--csv-lon", "lon", "--csv-lat", "lat")
    assert named.exit_code == 2 and f"as {bad!r} in row 3" in named.stderr
    assert "places" not in succeed(run("data", "ls")).stdout

    succeed(run("import", csv_file, "places", "--leave-out", "lon"))
    assert "geom" not in succeed(run("describe", "places")).stdout


def test_coordinates_in_words_are_text(run: Run, csv_file: Path) -> None:
    csv_file.write_text("id,lon,lat\n1,174 E,41 S\n2,175 E,42 S\n")
    succeed(run("import", csv_file, "places"))
    assert "lon, string" in succeed(run("describe", "places")).stdout


def test_a_dataset_whose_name_is_in_another_letter_case(run: Run, csv_file: Path) -> None:
    for more in ([], ["--replace"]):
        refused = run("import", csv_file, "Points", "--primary-key", "id", *more)
        assert refused.exit_code == 2
        assert "cannot tell it from the dataset 'points'\n" in refused.stderr
        assert "Hint: write 'points' to mean that dataset, or give another name" in refused.stderr
    succeed(run("mv", "points", "Points"))  # the same dataset may be called so


@pytest.mark.parametrize("how", ["append", "replace", "remove"])
def test_a_file_that_changes_while_it_is_read_is_refused(
    run: Run, csv_file: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    opened = imports._opened

    def changed(*arguments: Any) -> Any:
        found = opened(*arguments)
        text = csv_file.read_text()
        if how == "append":
            csv_file.write_text(text + "9,nine,3.5,174.7,-41.2\n")
        elif how == "replace":
            csv_file.with_suffix(".new").write_text(text)
            csv_file.with_suffix(".new").replace(csv_file)
        else:
            csv_file.unlink()
        return found

    before = succeed(run("log")).stdout
    monkeypatch.setattr(imports, "_opened", changed)
    result = run("import", csv_file, "changed", "--primary-key", "id")
    assert result.exit_code != 0
    if how != "remove":
        assert result.exit_code == 28 and "changed while it was read" in result.stderr
    assert succeed(run("log")).stdout == before
