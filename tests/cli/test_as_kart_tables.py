"""In Kart's place: tables that come in and go out, called `kart` and by our own name."""

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pyogrio
import pytest
import shapely

from havasu_vc.exchange.addresses import parse_address, same_schema
from tests.cli.conftest import invoke, succeed
from tests.support.git import run_git

OPTIONS = ("--primary-key", "id", "--csv-lon", "lon", "--csv-lat", "lat", "--crs", "EPSG:4326")


@pytest.fixture
def called_kart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kart"])


@pytest.fixture
def repo(tmp_path: Path, csv_file: Path, called_kart: None) -> Path:
    repo = tmp_path / "repo"
    succeed(invoke(["init", repo]))
    succeed(invoke(["-C", repo, "import", csv_file, *OPTIONS]))
    return repo


@pytest.fixture
def layers(repo: Path, tmp_path: Path) -> Path:
    """A GeoPackage with the layers `one` and `two`."""
    file = tmp_path / "layers.gpkg"
    for name in ("one", "two"):
        succeed(invoke(["-C", repo, "export", "table", file, "--layer", name]))
    return file


def test_an_import_is_told_as_kart_tells_it(tmp_path: Path, layers: Path) -> None:
    repo = tmp_path / "other"
    made = succeed(invoke(["init", repo, "--import", layers])).stdout.splitlines()
    assert made[1:3] == [
        "Starting git-fast-import...",
        "Importing 3 features from layers.gpkg:one to one/ ...",
    ]
    assert made[3].startswith("Added 3 Features to index in ")
    assert made[4].startswith("Overall rate: ") and made[5] == "Closed in 0s"
    assert made[-1] == "Creating GPKG working copy at other.gpkg ..."


def test_an_import_over_a_dataset_is_told_alike(repo: Path, layers: Path) -> None:
    succeed(invoke(["-C", repo, "import", layers, "one"]))
    again = ("import", layers, "one", "--replace-existing")
    refused = invoke(["-C", repo, *again])
    assert refused.exit_code == 44 and refused.stderr == "Error: No changes to commit\n"
    assert refused.stdout.splitlines()[:2] == [
        "Starting git-fast-import...",
        "Importing 3 features from layers.gpkg:one to one/ ...",
    ]


@pytest.mark.parametrize("answer", ["2", "two"])
def test_of_several_layers_one_is_asked_for(repo: Path, layers: Path, answer: str) -> None:
    asked = succeed(invoke(["-C", repo, "import", layers], stdin=f"{answer}\n")).stdout
    lines = asked.splitlines()
    assert lines[:4] == ["Tables found:", "1. one - one", "2. two - two", ""]
    assert lines[4].startswith("Select a table to import: ")
    assert "Importing 3 features from layers.gpkg:two to two/ ..." in asked
    assert succeed(invoke(["-C", repo, "data", "ls"])).stdout == "table\ntwo\n"


def test_all_layers_are_taken_whichever_are_named(repo: Path, layers: Path) -> None:
    told = succeed(invoke(["-C", repo, "import", layers, "two", "--all-tables"])).stdout
    lines = [each.split()[-2] for each in told.splitlines() if each.startswith("Importing ")]
    assert lines == ["one/", "two/"]
    succeed(invoke(["-C", repo, "import", layers, "one:/a/b/", "-m", ""]))
    assert succeed(invoke(["-C", repo, "data", "ls"])).stdout == "a/b\none\ntable\ntwo\n"


def test_layers_are_listed_with_their_titles_in_order(repo: Path, layers: Path) -> None:
    listed = succeed(invoke(["-C", repo, "import", layers, "--list"])).stdout
    assert listed == "Tables found:\n1. one - one\n2. two - two\n"
    titles = succeed(invoke(["-C", repo, "import", layers, "--list", "-o", "json"])).stdout
    assert json.loads(titles) == {"kart.tables/v1": {"one": "one", "two": "two"}}


def test_no_answer_takes_in_nothing(repo: Path, layers: Path) -> None:
    refused = invoke(["-C", repo, "import", layers], stdin="")
    assert refused.exit_code == 49 and "Error: No table specified" in refused.stderr
    assert invoke(["-C", repo, "import", layers], stdin="three\n").exit_code == 49
    assert succeed(invoke(["-C", repo, "data", "ls"])).stdout == "table\n"


def test_by_our_own_name_nobody_is_asked(
    repo: Path, layers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["havasu-vc"])
    refused = invoke(["-C", repo, "import", layers], stdin="1\n")
    assert refused.exit_code == 49 and "2 layers: one, two" in refused.stderr


def test_names_that_clash_or_are_of_windows(repo: Path, layers: Path) -> None:
    clash = invoke(["-C", repo, "import", layers, "one:TABLE"])
    assert clash.exit_code == 31
    assert "Dataset path 'TABLE' conflicts with existing path 'table'" in clash.stderr
    succeed(invoke(["-C", repo, "import", layers, "one:a\\b\\c"]))
    assert succeed(invoke(["-C", repo, "data", "ls"])).stdout == "a/b/c\ntable\n"


def test_a_shapefile_comes_as_kart_takes_it(repo: Path, tmp_path: Path) -> None:
    file = tmp_path / "areas.shp"
    shapes = [shapely.box(0, 0, 1, 1), shapely.MultiPolygon([shapely.box(2, 2, 3, 3)] * 1)]
    pyogrio.raw.write(
        str(file),
        shapely.to_wkb(shapes),
        [np.array(["a", "b"], object), np.array([7, 8], np.int64)],
        ["code", "number"],
        geometry_type="Polygon",
        crs="EPSG:4326",
        driver="ESRI Shapefile",
    )
    for name, key, first in (("keyed", ["--primary-key", "number"], "number"), ("free", [], None)):
        succeed(invoke(["-C", repo, "import", file, f"areas:{name}", *key]))
        meta = succeed(invoke(["-C", repo, "meta", "get", name, "-o", "json"])).stdout
        columns = json.loads(meta)[name]["schema.json"]
        names = [first or "auto_pk", "geom", "code", "number"]
        assert [each["name"] for each in columns] == list(dict.fromkeys(names))
        by_name = {each["name"]: each for each in columns}
        assert by_name["geom"]["geometryType"] == "MULTIPOLYGON"
        assert by_name["code"]["length"] == 80
        shown = succeed(invoke(["-C", repo, "show", "-o", "json"])).stdout
        rows = json.loads(shown)["kart.diff/v1+hexwkb"][name]["feature"]
        found = shapely.from_wkb([bytes.fromhex(each["+"]["geom"]) for each in rows])
        assert [each.geom_type for each in found] == ["MultiPolygon"] * 2
        assert all(shapely.equals(found, shapes))
        again = invoke(["-C", repo, "import", file, f"areas:{name}", *key, "--replace-existing"])
        assert again.exit_code == 44, "the same file is no change"


def test_texts_keep_the_length_that_a_geopackage_gives_them(repo: Path, tmp_path: Path) -> None:
    file = tmp_path / "lengths.gpkg"
    succeed(invoke(["-C", repo, "export", "table", file]))
    with closing(sqlite3.connect(file)) as database:
        database.execute("ALTER TABLE 'table' ADD COLUMN note TEXT(12)")
        database.commit()
    succeed(invoke(["-C", repo, "import", file, "table:noted"]))
    meta = succeed(invoke(["-C", repo, "meta", "get", "noted", "-o", "json"])).stdout
    columns = {each["name"]: each for each in json.loads(meta)["noted"]["schema.json"]}
    assert columns["note"]["length"] == 12


def names_of(file: Path) -> list[str]:
    return sorted(str(name) for name in pyogrio.list_layers(file)[:, 0])


def test_a_layer_is_added_to_a_geopackage_and_one_replaced(repo: Path, layers: Path) -> None:
    assert names_of(layers) == ["one", "two"]
    again: list[str | Path] = ["-C", repo, "export", "table", layers, "--layer", "one"]
    refused = invoke(again)
    assert refused.exit_code == 20 and "Layer one already exists in" in refused.stderr
    succeed(invoke([*again, "--columns", "id", "--overwrite"]))
    assert names_of(layers) == ["one", "two"]
    one, two = (pyogrio.read_info(layers, layer=name) for name in ("one", "two"))
    assert len(one["fields"]) < len(two["fields"]) and one["features"] == two["features"] == 3
    # Without a layer's name it is the file that is there.
    plain = invoke(["-C", repo, "export", "table", layers.with_name("plain.fgb")])
    assert plain.exit_code == 0
    assert invoke(["-C", repo, "export", "table", layers.with_name("plain.fgb")]).exit_code == 20


@pytest.mark.parametrize(
    ("driver", "end"), [("CSV", "csv"), ("FlatGeobuf", "fgb"), ("ESRI Shapefile", "shp")]
)
def test_a_driver_and_a_folder_name_a_file_of_the_layer(
    repo: Path, tmp_path: Path, driver: str, end: str
) -> None:
    folder = tmp_path / "out"
    for layer in (["--layer", "one"], ["--layer", "two"], []):
        succeed(invoke(["-C", repo, "export", "table", f"{driver}:{folder}/", *layer]))
        assert (folder / f"{layer[1] if layer else 'table'}.{end}").is_file()
        again = invoke(["-C", repo, "export", "table", f"{driver}:{folder}/", *layer])
        assert again.exit_code == 20
    gone = tmp_path / "gone"
    wrong = ("--override-geometry-type", "NONSENSE")
    assert invoke(["-C", repo, "export", "table", f"{driver}:{gone}", *wrong]).exit_code != 0
    assert not gone.exists()


def test_gdal_writes_a_csv_where_its_options_are_given(repo: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.csv"
    options = ("-lco", "GEOMETRY=AS_XY", "-lco", "SEPARATOR=SEMICOLON")
    succeed(invoke(["-C", repo, "export", "table", file, *options]))
    assert file.read_text().splitlines()[0].startswith("X;Y;")
    wrong = invoke(
        ["-C", repo, "export", "table", tmp_path / "no.csv", "-lco", "GEOMETRY=AS_MAGIC_SPELL"]
    )
    assert wrong.exit_code == 11 and "Error running GDAL OGR driver: " in wrong.stderr
    assert not (tmp_path / "no.csv").exists()


def test_a_shapefile_of_a_table_without_shapes(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "plain.csv").write_text("id,name\n1,one\n2,two\n")
    succeed(invoke(["-C", repo, "import", tmp_path / "plain.csv", "--primary-key", "id"]))
    file = tmp_path / "plain.shp"
    succeed(invoke(["-C", repo, "export", "plain", file]))
    info = pyogrio.read_info(file)
    assert file.exists() and info["features"] == 2 and list(info["fields"]) == ["id", "name"]


def test_repositories_that_are_none_of_karts(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = "Error: Current directory is not an existing Kart repository\n"
    plain = tmp_path / "plain"
    run_git("init", "--quiet", str(plain), cwd=tmp_path)
    assert invoke(["-C", plain, "log"]).stderr == none
    run_git("commit", "--quiet", "--allow-empty", "-m", "Empty", cwd=plain)
    refused = invoke(["-C", plain, "log"])
    assert refused.exit_code == 41 and refused.stderr == none

    # What `init` made by our own name is ours, before the first dataset as well.
    fresh = tmp_path / "fresh"
    with monkeypatch.context() as ours:
        ours.setattr("sys.argv", ["havasu-vc"])
        succeed(invoke(["init", fresh]))
    assert "fresh" not in succeed(invoke(["-C", fresh, "status"])).stderr
    succeed(invoke(["-C", fresh, "data", "ls"]))

    empty = tmp_path / "empty"
    succeed(invoke(["init", empty]))
    succeed(invoke(["-C", empty, "status"]))
    succeed(invoke(["-C", empty, "git", "commit", "--quiet", "--allow-empty", "-m", "Empty"]))
    refused = invoke(["-C", empty, "log"])
    assert refused.exit_code == 41
    why = "(no Kart datasets found at HEAD commit)"
    assert refused.stderr == f"Error: Current directory is not a Kart repository {why}\n"

    # A clone by git alone is opened where the one who asks says so.
    clone = repo / "clone"
    monkeypatch.chdir(repo)
    run_git("clone", "--quiet", "--no-checkout", str(repo / ".kart"), str(clone), cwd=tmp_path)
    assert invoke(["-C", clone, "data", "ls"]).exit_code == 41
    monkeypatch.setenv("KART_ALLOW_FROM_GIT", "1")
    assert succeed(invoke(["-C", clone, "data", "ls"])).stdout == "table\n"
    # What holds Havasu datasets is ours by either name.
    monkeypatch.delenv("KART_ALLOW_FROM_GIT")
    monkeypatch.setattr(sys, "argv", ["havasu-vc"])
    succeed(invoke(["init", tmp_path / "ours"]))
    succeed(invoke(["-C", tmp_path / "ours", "import", tmp_path / "table.csv", *OPTIONS]))
    monkeypatch.setattr(sys, "argv", ["kart"])
    assert succeed(invoke(["-C", tmp_path / "ours", "data", "ls"])).stdout == "table\n"


def test_addresses_of_one_schema() -> None:
    def same(one: str, other: str) -> bool:
        return same_schema(*(parse_address(f"postgresql://{each}") for each in (one, other)))

    assert same("a:x@host/db/maps", "b@HOST:5432/db/maps")
    assert same("host/db/maps?sslmode=require", "host/db/maps")
    for other in ("host:5433/db/maps", "host/db/other", "host/other/maps", "else/db/maps"):
        assert not same("host/db/maps", other)


def test_what_a_push_follows_is_told(repo: Path, tmp_path: Path) -> None:
    server = tmp_path / "server"
    run_git("init", "--quiet", "--bare", str(server), cwd=tmp_path)
    succeed(invoke(["-C", repo, "remote", "add", "mine", server]))
    told = succeed(invoke(["-C", repo, "push", "--set-upstream", "mine", "main"])).stdout
    assert told.splitlines()[0] == "branch 'main' set up to track 'mine/main'."
    assert "set up to track" not in succeed(invoke(["-C", repo, "push"])).stdout


def test_keys_that_are_no_numbers_are_not_renumbered(tmp_path: Path, called_kart: None) -> None:
    repo, source = tmp_path / "repo", tmp_path / "names.csv"
    succeed(invoke(["init", repo]))
    common: list[str | Path] = ["-C", repo, "import", source, "--primary-key", "code"]

    def taken(rows: str) -> None:
        source.write_text(f"code,name\n{rows}")
        succeed(invoke([*common, "--replace", "--no-checkout"]))

    taken("a,one\n")
    succeed(invoke(["-C", repo, "branch", "side"]))
    taken("a,one\nb,mine\n")
    succeed(invoke(["-C", repo, "switch", "side"]))
    taken("a,one\nb,theirs\n")
    invoke(["-C", repo, "merge", "main"])
    refused = invoke(["-C", repo, "resolve", "--renumber=theirs"])
    assert refused.exit_code == 50 and "There are no matching conflicts" in refused.stderr
    refused = invoke(["-C", repo, "resolve", "names", "--renumber=theirs"])
    assert refused.exit_code == 20
    assert "Dataset names does not have an integer primary key" in refused.stderr


def test_exports_and_patches_are_of_the_area(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text(
        "id,name,height,lon,lat\n1,uno,1.5,174.5,-41.0\n2,dos,2.5,174.6,-41.1\n3,tres,3.5,174.7,-41.2\n"
    )
    succeed(invoke(["-C", repo, "import", tmp_path / "table.csv", "--replace", *OPTIONS]))
    succeed(
        invoke(["-C", repo, "checkout", "--spatial-filter", "EPSG:4326;174.55,-41.3,174.8,-41"])
    )
    for columns in ([], ["--columns", "id"]):
        file = tmp_path / f"area{len(columns)}.csv"
        told = succeed(invoke(["-C", repo, "export", "table", file, *columns]))
        assert "outside of the spatial filter are left out" in told.stderr
        assert [line[0] for line in file.read_text().splitlines()[1:]] == ["2", "3"]
    patch = json.loads(succeed(invoke(["-C", repo, "create-patch", "HEAD"])).stdout)
    changes = patch["kart.diff/v1+hexwkb"]["table"]["feature"]
    assert [each["+"]["id"] for each in changes] == [2, 3]
    succeed(invoke(["-C", repo, "checkout", "--spatial-filter", "none"]))
    succeed(invoke(["-C", repo, "export", "table", tmp_path / "all.csv"]))
    assert len((tmp_path / "all.csv").read_text().splitlines()) == 4


def test_lines_of_a_reference_system_are_not_broken(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    words = ("A title " * 9).strip()
    succeed(invoke(["-C", repo, "meta", "set", "table", f"title={words}"]))
    shown = succeed(invoke(["-C", repo, "meta", "get", "table"])).stdout
    assert words not in shown, "as those of a title are"
    assert '                SPHEROID["WGS 84", 6378137, 298.257223563,\n' in shown
