"""Files that are not what they claim: one typed error in one line, nothing on stderr."""

import random
import shutil
import sqlite3
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyogrio
import pytest
import shapely

from havasu_vc.errors import (
    HavasuError,
    InvalidArgumentError,
    InvalidFileError,
    SourceNotFoundError,
)
from havasu_vc.exchange.sources import open_sources
from tests.exchange.reading import read_all

SUFFIXES = [".parquet", ".gpkg", ".shp", ".geojson", ".geojsonl", ".fgb", ".csv", ".zip"]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one sound file of each format."""
    import geopandas

    folder = tmp_path_factory.mktemp("sound")
    rows = np.arange(3000)
    data = geopandas.GeoDataFrame(
        {"name": [f"name {row}" for row in rows], "number": rows},
        geometry=shapely.points(rows / 10, rows / 100),
        crs="EPSG:4326",
    )
    for suffix in SUFFIXES:
        path = folder / f"a{suffix}"
        if suffix == ".parquet":
            data.to_parquet(path, row_group_size=500)
        elif suffix == ".csv":
            pd.DataFrame(data.drop(columns="geometry")).to_csv(path, index=False)
        elif suffix == ".zip":
            with zipfile.ZipFile(path, "w") as archive:
                for part in folder.glob("a.*"):
                    if part.suffix in (".shp", ".shx", ".dbf", ".prj"):
                        archive.write(part, part.name)
        else:
            pyogrio.write_dataframe(data, path)
    return folder


def read(path: Path) -> int:
    return sum(read_all(source).num_rows for source in open_sources(str(path)))


def fails_well(path: Path, capfd: pytest.CaptureFixture[str]) -> HavasuError:
    capfd.readouterr()
    with pytest.raises(HavasuError) as caught:
        read(path)
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")
    message = caught.value.message
    assert "\n" not in message and len(message) < 500
    assert path.name.partition(".")[0] in message
    return caught.value


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_empty_file(suffix: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"a{suffix}"
    path.touch()
    error = fails_well(path, capfd)
    assert isinstance(error, InvalidFileError) and "empty" in error.message


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_random_bytes(suffix: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(random.Random(1).randbytes(5000))
    assert isinstance(fails_well(path, capfd), InvalidFileError)


TEXTS = {".geojson", ".geojsonl", ".csv"}  # cannot be told apart, or need not
PAIRS = [(a, b) for a in SUFFIXES for b in SUFFIXES if a != b and not {a, b} <= TEXTS]


@pytest.mark.parametrize(("suffix", "content"), PAIRS)
def test_the_extension_of_another_format(
    suffix: str, content: str, sound: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"a{suffix}"
    shutil.copy(sound / f"a{content}", path)
    assert isinstance(fails_well(path, capfd), InvalidFileError)


@pytest.mark.parametrize("kept", [0.02, 0.3, 0.6, 0.9, 0.999])
@pytest.mark.parametrize("suffix", [s for s in SUFFIXES if s != ".csv"])
def test_a_file_cut_short(
    suffix: str, kept: float, sound: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for part in sound.glob("a.*"):
        shutil.copy(part, tmp_path / part.name)
    path = tmp_path / f"a{suffix}"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * kept)])
    assert isinstance(fails_well(path, capfd), InvalidFileError)


@pytest.mark.parametrize("suffix", [".parquet", ".gpkg", ".fgb"])
def test_a_file_with_a_hole(
    suffix: str, sound: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Damage in the middle is an error of ours, or is not noticed; never anything else."""
    whole = (sound / f"a{suffix}").read_bytes()
    path = tmp_path / f"a{suffix}"
    for tenth in range(1, 10):
        start = len(whole) * tenth // 10
        path.write_bytes(whole[:start] + b"\xa5" * 200 + whole[start + 200 :])
        capfd.readouterr()
        try:
            read(path)
        except HavasuError as error:
            assert "\n" not in error.message
        assert capfd.readouterr() == ("", "")


def test_a_shapefile_without_its_other_files(
    sound: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(sound / "a.shp", tmp_path / "a.shp")
    assert ".dbf" in fails_well(tmp_path / "a.shp", capfd).message
    shutil.copy(sound / "a.dbf", tmp_path / "a.dbf")
    assert "shx" in fails_well(tmp_path / "a.shp", capfd).message


@pytest.mark.parametrize("kept", [0.01, 0.5, 0.99])
def test_attributes_of_shapes_cut_short(
    kept: float, sound: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for part in sound.glob("a.[sdp]*"):
        shutil.copy(part, tmp_path / part.name)
    table = tmp_path / "a.dbf"
    whole = table.read_bytes()
    table.write_bytes(whole[: int(len(whole) * kept)])
    assert "cut short" in fails_well(tmp_path / "a.shp", capfd).message


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for name in ("a.gpkg", "a.parquet", "*.parquet", "folder/a.csv"):
        with pytest.raises(SourceNotFoundError):
            open_sources(str(tmp_path / name))
    with pytest.raises(SourceNotFoundError, match="no Parquet file"):
        open_sources(str(tmp_path))


def test_formats_that_are_not_known(tmp_path: Path) -> None:
    for name in ("a.xyz", "noextension"):
        (tmp_path / name).write_text("x")
        with pytest.raises(InvalidFileError) as caught:
            open_sources(str(tmp_path / name))
        assert ".parquet" in caught.value.hints[0]


def test_a_pattern_of_several_formats(sound: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="not all Parquet"):
        open_sources(str(sound / "a.*"))


@pytest.mark.parametrize(
    ("location", "hint"),
    [
        ("-", "as a file first"),
        ("https://example.org/a.parquet", "as a file first"),
        ("/vsizip/a.zip/a.gpkg", "as a file first"),
        ("mysql://localhost/maps", "as a file first"),
        ("GPKG:{sound}/a.gpkg", "without GPKG:"),
        ("", ""),
        ("a\0.gpkg", ""),
        ("nowhere.gpkg", ""),
    ],
)
def test_what_is_no_file_is_said_to_be_none(location: str, hint: str, sound: Path) -> None:
    with pytest.raises(SourceNotFoundError) as caught:
        open_sources(location.format(sound=sound))
    assert [hint in said for said in caught.value.hints] == ([True] if hint else [])


@pytest.mark.few(1)
@pytest.mark.parametrize("mark", [b"", b"\x1e"])
def test_the_last_record_of_a_sequence_may_not_be_cut(
    mark: bytes, sound: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = [mark + line for line in (sound / "a.geojsonl").read_bytes().splitlines(True)]
    path = tmp_path / "a.geojsonl"
    path.write_bytes(b"".join(lines) + b"\n")
    assert read(path) == 3000
    path.write_bytes(b"".join(lines)[:-1])
    assert read(path) == 3000
    for missing in (2, 5, 20):
        path.write_bytes(b"".join(lines)[:-missing])
        assert "3000" in fails_well(path, capfd).message


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_zip_archive_is_held_against_its_checksums(
    method: int, sound: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        for suffix in (".shp", ".shx", ".dbf"):
            archive.write(sound / f"a{suffix}", f"a{suffix}")
        place = archive.getinfo("a.dbf").header_offset
    data = bytearray(path.read_bytes())
    data[place + 2000] ^= 4
    path.write_bytes(data)
    assert "zip archive" in fails_well(path, capfd).message


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE VIRTUAL TABLE evil USING VirtualText('{}', 'UTF-8')",
        "create /* a */ virtual table evil using \"VirtualOGR\"('{}')",
    ],
)
def test_a_geopackage_whose_tables_read_other_files(sql: str, tmp_path: Path, sound: Path) -> None:
    """GDAL's SQLite knows modules that read any file; a row of them could be committed."""
    path = Path(shutil.copy(sound / "a.gpkg", tmp_path / "a.gpkg"))
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA writable_schema = on")
        database.execute(
            "INSERT INTO sqlite_master VALUES ('table', 'evil', 'evil', 0, ?)",
            [sql.format(sound / "a.csv")],
        )
        database.execute(
            "INSERT INTO gpkg_contents(table_name, data_type, identifier, srs_id)"
            " VALUES ('evil', 'attributes', 'evil', 0)"
        )
    database.close()

    with pytest.raises(InvalidFileError, match="'evil' is a virtual one") as caught:
        open_sources(str(path), ["evil"])

    assert caught.value.hints
    assert read(sound / "a.gpkg") == 3000
