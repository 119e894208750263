import subprocess
from pathlib import Path

import pyproj
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import CrsError
from havasu_vc.geo.crs import Crs, format_wkt_definition, parse_crs, projection

NZTM = pyproj.CRS("EPSG:2193")
ESRI = (
    'PROJCS["NZGD_2000_New_Zealand_Transverse_Mercator",GEOGCS["GCS_NZGD_2000",'
    'DATUM["D_NZGD_2000",SPHEROID["GRS_1980",6378137.0,298.257222101]],PRIMEM["Greenwich",0.0],'
    'UNIT["Degree",0.0174532925199433]],PROJECTION["Transverse_Mercator"],'
    'PARAMETER["False_Easting",1600000.0],PARAMETER["False_Northing",10000000.0],'
    'PARAMETER["Central_Meridian",173.0],PARAMETER["Scale_Factor",0.9996],'
    'PARAMETER["Latitude_Of_Origin",0.0],UNIT["Meter",1.0]]'
)
CUSTOM = "+proj=tmerc +lat_0=0 +lon_0=171.5 +k=0.9999 +x_0=12345 +y_0=0 +ellps=GRS80 +units=m"
WGS84 = """GEOGCS["WGS 84",
    DATUM["WGS_1984",
        SPHEROID["WGS 84", 6378137, 298.257223563,
            AUTHORITY["EPSG", "7030"]],
        AUTHORITY["EPSG", "6326"]],
    PRIMEM["Greenwich", 0,
        AUTHORITY["EPSG", "8901"]],
    UNIT["degree", 0.0174532925199433,
        AUTHORITY["EPSG", "9122"]],
    AUTHORITY["EPSG", "4326"]]
"""


@pytest.mark.parametrize(
    ("text", "identifier", "srid"),
    [
        ("EPSG:2193", "EPSG:2193", 2193),
        ("epsg:4326", "EPSG:4326", 4326),
        ("OGC:CRS84", "OGC:CRS84", 4326),
        ("2193", "EPSG:2193", 2193),
        ("ESRI:54009", "ESRI:54009", 54009),
        ("srid:5070", "EPSG:5070", 5070),
        ("urn:ogc:def:crs:EPSG::2193", "EPSG:2193", 2193),
        ("urn:ogc:def:crs:OGC:1.3:CRS84", "OGC:CRS84", 4326),
        (NZTM.to_wkt("WKT1_GDAL"), "EPSG:2193", 2193),
        (NZTM.to_wkt("WKT2_2019"), "EPSG:2193", 2193),
        (NZTM.to_json(), "EPSG:2193", 2193),
        (ESRI, "EPSG:2193", 2193),
        ("+proj=utm +zone=60 +datum=WGS84 +units=m +no_defs", "EPSG:32660", 32660),
        (WGS84, "EPSG:4326", 4326),
    ],
)
def test_all_forms_are_recognised(text: str, identifier: str, srid: int) -> None:
    crs = parse_crs(text)

    assert (crs.identifier, crs.srid) == (identifier, srid)
    assert parse_crs(crs.wkt).identifier == identifier
    assert projection(crs) == pyproj.CRS(identifier)


def test_codes_are_written_as_kart_writes_them() -> None:
    assert parse_crs("EPSG:4326").wkt == WGS84
    assert parse_crs(" EPSG:4326\n") == parse_crs("EPSG:4326")


def test_what_wkt1_cannot_say_is_wkt2() -> None:
    wkt = parse_crs("EPSG:4979").wkt

    assert wkt.startswith('GEOGCRS["WGS 84",\n    ENSEMBLE[')
    assert wkt.endswith("]]\n")
    assert parse_crs(wkt) == parse_crs("EPSG:4979")


def test_a_definition_of_ones_own_has_a_number_of_its_own() -> None:
    crs, other = parse_crs(CUSTOM), parse_crs(CUSTOM.replace("12345", "12346"))

    assert crs.identifier == f"CUSTOM:{crs.srid}"
    assert 200_000 <= crs.srid < 900_000
    assert crs != other
    assert parse_crs(crs.wkt) == crs
    assert projection(crs).equals(pyproj.CRS(CUSTOM))


def test_a_guess_is_not_an_identification() -> None:
    guess = "+proj=tmerc +lat_0=0 +lon_0=173 +k=0.9996 +x_0=1600000 +y_0=10000000 +ellps=GRS80"

    assert parse_crs(guess).authority == "CUSTOM"


def test_a_definition_keeps_its_own_words() -> None:
    moved = WGS84.replace(
        '        AUTHORITY["EPSG", "6326"]]',
        '        TOWGS84[1, 2, 3, 0, 0, 0, 0],\n        AUTHORITY["EPSG", "6326"]]',
    )

    crs = parse_crs(moved)

    assert crs == Crs("EPSG:4326", moved, 4326)
    assert projection(crs).is_bound
    assert not projection(parse_crs("EPSG:4326")).is_bound


@pytest.mark.parametrize(
    "text",
    [
        "",
        "EPSG:99999999",
        "nonsense",
        "WGS 84",
        "EPSG:",
        'GEOGCS["WGS 84"',
        "{",
        '{"type": "GeographicCRS"}',
        "+init=/etc/passwd:1",
        "+proj=utm +init=other:3",
        "EPSG:2193\0",
        "x" * (1 << 20) + "y",
        "PROJCS[" * 10_000,
    ],
)
def test_what_is_not_known_is_one_clear_line(text: str) -> None:
    with pytest.raises(CrsError) as caught:
        parse_crs(text)

    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 200


@given(st.one_of(st.text(max_size=60), st.text('EPSG:+proj=[]{}"12,', max_size=30)))
def test_any_text_is_a_crs_or_an_error(text: str) -> None:
    try:
        assert parse_crs(text).wkt.endswith("\n")
    except CrsError:
        pass


@pytest.mark.parametrize(
    "name", ["../x", "EPSG:4326/..", "", ".git", "a b", "EPSG:", "x" * 101, "é:1"]
)
def test_a_name_that_could_leave_its_folder_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cannot name a CRS"):
        Crs(name, "", 0)


@pytest.mark.parametrize("code", ["EPSG:2193", "EPSG:3857", "EPSG:4258+5773", "EPSG:27700"])
@pytest.mark.parametrize("version", ["WKT1_GDAL", "WKT2_2019"])
def test_laying_out_changes_no_meaning_and_is_done_once(code: str, version: str) -> None:
    compact = pyproj.CRS(code).to_wkt(version)

    laid_out = format_wkt_definition(compact)

    assert format_wkt_definition(laid_out) == laid_out
    assert laid_out == format_wkt_definition(pyproj.CRS(code).to_wkt(version, pretty=True))
    assert pyproj.CRS(laid_out) == pyproj.CRS(compact)


def test_text_in_quotes_is_left_alone() -> None:
    assert format_wkt_definition('LOCAL_CS( "a,b[""c"" (d)",UNIT["m",1.0e0])') == (
        'LOCAL_CS["a,b[""c"" (d)",\n    UNIT["m", 1.0e0]]\n'
    )


def test_files_of_kart_are_laid_out_already(shared_data: Path, tmp_path: Path) -> None:
    found = 0
    for archive in ("points", "polygons"):
        file = shared_data / "kart" / f"{archive}.tgz"
        subprocess.run(["tar", "xzf", file, "-C", tmp_path, "--no-same-owner"], check=True)
        git = ["git", f"--git-dir={tmp_path / archive / '.kart'}"]
        listing = subprocess.check_output([*git, "ls-tree", "-r", "HEAD"], text=True)
        for line in listing.splitlines():
            if "/meta/crs/" in line:
                text = subprocess.check_output(
                    [*git, "cat-file", "blob", line.split()[2]], text=True
                )
                name = line.rpartition("/")[2]
                assert format_wkt_definition(text) == text
                assert parse_crs(text) == Crs(name.removesuffix(".wkt"), text, int(name[5:9]))
                found += 1
    assert found == 2


def test_what_proj_reads_and_cannot_describe_is_no_definition() -> None:
    """Of an authority without a name PROJ writes JSON that nobody reads."""
    text = (
        'GEOGCS["WGS 84",DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298.257223563,'
        'AUTHORITY["EPSG","7030"]],AUTHORITY["","7030"]],AUTHORITY["","7030"]],'
        'AUTHORITY["EPSG","6326"]],PRIMEM["Greenwich",0,AUTHORITY["EPSG","8901"]],'
        'UNIT["degree",0.0174532925199433,AUTHORITY["EPSG","9122"]],AUTHORITY["EPSG","4326"]]'
    )
    with pytest.raises(CrsError, match="is not a coordinate reference system"):
        parse_crs(text)
