"""Errors of places as Kart says them: working copies, sources of imports, spatial filters.

As in `kart.texts`, which has all others.
"""

from __future__ import annotations

from havasu_vc.cli.kart.codes import EMPTY_SOURCE, MSSQL, MYSQL, UNKNOWN_SOURCE

__all__ = ["KARTS_EXPORTS", "KARTS_SOURCES", "PLACE_TEXTS"]

KARTS_SOURCES = (
    "GeoPackage: PATH.gpkg",
    "PostgreSQL: postgresql://HOST/DBNAME[/DBSCHEMA[/TABLE]]",
    "ESRI Shapefile: PATH.shp",
    "GeoTIFF: PATH.tif or PATH.tiff",
    "GeoParquet: PATH.parquet",
    "GeoJSON: PATH.geojson or PATH.geojsonl",
    "FlatGeobuf: PATH.fgb",
    "CSV: PATH.csv",
)
"""Sources that are imported here, as `--list-formats` of Kart's has them."""
KARTS_EXPORTS = (
    ("ESRI Shapefile", "ESRI Shapefile"),
    ("CSV", "Comma Separated Value (.csv)"),
    ("GeoJSON", "GeoJSON"),
    ("GeoJSONSeq", "GeoJSON Sequence"),
    ("GPKG", "GeoPackage"),
    ("FlatGeobuf", "FlatGeobuf"),
)
"""The drivers of GDAL's of which files are exported here, with what Kart tells of them."""

_KINDS_OF_COPIES = (
    "\nTry one of:\n  PATH.gpkg\n  postgresql://HOST/DBNAME/DBSCHEMA\n"
    "  mssql://HOST/DBNAME/DBSCHEMA\n  mysql://HOST/DBNAME\n"
)
_KINDS_OF_SOURCES = (
    "Unrecognised import-source specification.\n"
    "Try one of the following:\n"
    "    GeoPackage: PATH.gpkg\n"
    "    PostgreSQL: postgresql://HOST/DBNAME[/DBSCHEMA[/TABLE]]\n"
    "    Microsoft SQL Server: mssql://HOST/DBNAME[/DBSCHEMA[/TABLE]]\n"
    "    MySQL: mysql://HOST[/DBNAME[/TABLE]]\n"
    "    ESRI Shapefile: PATH.shp\n"
    "    LAS (LASer): PATH.las or PATH.laz\n"
    "    GeoTIFF: PATH.tif or PATH.tiff"
)
PLACE_TEXTS: tuple[tuple[str, str, str], ...] = (
    (
        "import",
        f"{UNKNOWN_SOURCE}|the source has no name.+|{EMPTY_SOURCE}",
        _KINDS_OF_SOURCES,
    ),
    (
        "import init",
        r"there is no file mssql://[^/]+(/[^/]+){1,3}",
        "This program imports nothing from SQL Server",
    ),
    (
        "import init",
        r"there is no file (mssql:.*)",
        r"Unrecognised import-source specification: \1\nTry the following:\n"
        "    mssql://HOST/DBNAME[/DBSCHEMA[/TABLE]]",
    ),
    (
        "import init",
        r"there is no file (mysql:.*/.+/.+/.+/.*)",
        r"Unrecognised import-source specification: \1\nTry the following:\n"
        "    mysql://HOST[/DBNAME[/TABLE]]",
    ),
    (
        "import",
        "postgresql:/*(.*?)/* does not name a database and a schema in it",
        r"Unrecognised import-source specification: postgresql://\1\nTry the following:\n"
        "    postgresql://HOST/DBNAME[/DBSCHEMA[/TABLE]]",
    ),
    (
        "export",
        "there is no format 'mssql' to export to; .*",
        "Destination format MSSQL not recognized",
    ),
    (
        "export",
        "there is no format '(mysql|postgresql)' to export to; .*",
        r"Error running GDAL OGR driver:\nthis program exports to no database, \1 or another",
    ),
    (
        "checkout clone init",
        "No spatial filter object was found in .+|Invalid spatial filter definition .+"
        "|a new repository takes no spatial filter by its name, .+",
        "Sorry, loading spatial references by reference is not yet supported",
    ),
    (
        "checkout clone init",
        "the polygon of the spatial filter is not valid",
        "Invalid value for '--spatial-filter': Topologically invalid geometry for spatial filter "
        "- OGR::IsValid returns false",
    ),
    (
        "checkout clone init",
        "(Expected geometry for spatial filter of type .+)",
        r"Invalid value for '--spatial-filter': \1",
    ),
    (
        "checkout clone init",
        r"(Invalid or unknown coordinate reference system) of the spatial filter: '(EPSG:\d+)' .+",
        r"Invalid value for '--spatial-filter': \1: '\2' "
        "(PROJ: proj_create_from_database: crs not found)",
    ),
    (
        "export",
        "(.+) does not say which format to export to",
        r"Destination format for filename \1 not recognized",
    ),
    (
        "clone",
        "(.+) is there already, and is not an empty folder",
        'Invalid value for directory: "\\1" isn\'t empty',
    ),
    (
        "clone create-workingcopy init",
        "(.*) is not the name of a GeoPackage",
        r"Unrecognised working copy type: \1" + _KINDS_OF_COPIES,
    ),
    (
        "clone create-workingcopy init",
        f"a working copy .+, not at {MSSQL}",
        "This program makes no working copy in SQL Server",
    ),
    (
        "clone create-workingcopy init",
        f"a working copy .+, not at ({MYSQL})",
        r"Error connecting to MySQL working copy at \1\nCaused by error:\n"
        "this program makes no working copy in MySQL",
    ),
    (
        "clone create-workingcopy init",
        "a working copy .+, not at mssql:.*",
        "Invalid SQL Server URI - URI path must have two parts: database name and database "
        "schema:\nExpecting URI in form: mssql://HOST[:PORT]/DBNAME/DBSCHEMA",
    ),
    (
        "clone create-workingcopy init",
        "a working copy .+, not at mysql:.*",
        "Invalid MySQL URI - URI path must have one part - the database name:\n"
        "Expecting URI in form: mysql://HOST[:PORT]/DBNAME",
    ),
    (
        "clone create-workingcopy init",
        "a working copy .+, not at (.*)",
        r"Unrecognised working copy type: \1" + _KINDS_OF_COPIES,
    ),
    (
        "clone create-workingcopy init",
        "(postgresql:.*) cannot be reached: (.+)",
        r"Error connecting to PostGIS working copy at \1\nCaused by error:\n\2",
    ),
    (
        "clone create-workingcopy init",
        "postgresql:.* does not name a database and a schema in it",
        "Invalid PostGIS URI - URI path must have two parts: database name and database schema:\n"
        "Expecting URI in form: postgresql://HOST[:PORT]/DBNAME/DBSCHEMA\n",
    ),
    (
        "create-workingcopy",
        "(?:.*/)?(.+) is there already",
        r"Cannot recreate working copy at same location \1 if --no-delete-existing is set.",
    ),
    (
        "create-workingcopy",
        "(?:.*/)?(.+) is a folder",
        r"Error creating GPKG working copy at \1 - path already exists",
    ),
    (
        "create-workingcopy",
        "(.+?): it cannot be used as a working copy: another file is there",
        r"Error creating GPKG working copy at \1 - GPKG file already exists",
    ),
    (
        "create-workingcopy",
        "(?:.*/)?(.+?): it cannot be used as a working copy: .+",
        r"Error creating GPKG working copy at \1 - GPKG file already exists",
    ),
)
"""Whole texts of errors of commands, and what Kart says there."""
