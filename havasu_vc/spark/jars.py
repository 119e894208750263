"""The Iceberg runtime: which jar a version of Spark needs, and where it is had from.

Reading with `havasu_vc.spark.read` needs no jar. Iceberg's SQL over a checkout does. A
jar is looked for, in this order, where `HAVASU_ICEBERG_JAR` says, where the git setting
`havasu.spark.jar` says, and among what Spark fetched before (Ivy's folder). Is it nowhere,
Spark fetches it from Maven Central by `spark.jars.packages`. The setting is a path, Maven
coordinates, or `none`.
"""

import os
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from havasu_vc.errors import InvalidArgumentError, MissingProgramError, UnsupportedVersionError

__all__ = [
    "EXTENSIONS",
    "JAR_VARIABLE",
    "RUNTIMES",
    "find_fetched_jar",
    "jar_settings",
    "runtime_coordinates",
]

JAR_VARIABLE = "HAVASU_ICEBERG_JAR"
EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
RUNTIMES = {"4.0": "1.11.0", "4.1": "1.12.0"}
"""The release of Iceberg that is known to work, by the version of Spark."""

_GROUP = "org.apache.iceberg"
_CATALOG_CLASS = "org/apache/iceberg/spark/SparkCatalog.class"
_BUILT_FOR = re.compile(r"iceberg-spark-runtime-(\d+\.\d+)_")
_COORDINATES = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+")


def runtime_coordinates(spark_version: str) -> str:
    """Return the Maven coordinates of the Iceberg runtime for a version of Spark.

    >>> runtime_coordinates("4.1.4")
    'org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0'
    """
    line = _line(spark_version)
    if line not in RUNTIMES:
        raise UnsupportedVersionError(
            f"there is no Iceberg runtime for Spark {spark_version}",
            hints=(
                "`pip install 'pyspark>=4.0,<4.2'`",
                "or read without Iceberg: `havasu_vc.spark.read` needs no jar",
            ),
        )
    return f"{_GROUP}:iceberg-spark-runtime-{line}_2.13:{RUNTIMES[line]}"


def jar_settings(
    spark_version: str,
    configured: str | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
) -> dict[str, str]:
    """Return the Spark settings that put the Iceberg runtime on the class path.

    `configured` is the git setting. Nothing comes back where no jar is wanted.
    """
    coordinates = runtime_coordinates(spark_version)
    named = environment.get(JAR_VARIABLE) or configured
    if named == "none":
        return {}
    if named is None:
        found = find_fetched_jar(spark_version)
        place = {"spark.jars.packages": coordinates} if found is None else _local(found)
    elif _COORDINATES.fullmatch(named):
        _insist_built_for(named, spark_version)
        place = {"spark.jars.packages": named}
    else:
        path = Path(named).expanduser()
        _insist_runtime(path, spark_version)
        place = _local(path)
    return {**place, "spark.sql.extensions": EXTENSIONS}


def find_fetched_jar(spark_version: str, home: Path | None = None) -> Path | None:
    """Return the runtime that an earlier start of Spark fetched, if it is there and whole."""
    group, artifact, release = runtime_coordinates(spark_version).split(":")
    for folder in _ivy_folders(home or Path.home()):
        for path in (
            folder / "jars" / f"{group}_{artifact}-{release}.jar",
            folder / "cache" / group / artifact / "jars" / f"{artifact}-{release}.jar",
        ):
            if _has_catalog(path):
                return path
    return None


def _ivy_folders(home: Path) -> Iterator[Path]:
    yield from sorted(home.glob(".ivy2*"), reverse=True)


def _local(path: Path) -> dict[str, str]:
    return {"spark.jars": path.resolve().as_uri()}


def _line(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _insist_runtime(path: Path, spark_version: str) -> None:
    if not path.is_file():
        raise MissingProgramError(
            f"the Iceberg runtime is not where the settings say: {path}",
            hints=(f"correct {JAR_VARIABLE} or `git config havasu.spark.jar`",),
        )
    _insist_built_for(path.name, spark_version)
    if not _has_catalog(path):
        raise InvalidArgumentError(
            f"{path} is not Iceberg's runtime for Spark",
            hints=(f"use the jar {runtime_coordinates(spark_version)}",),
        )


def _insist_built_for(name: str, spark_version: str) -> None:
    built = _BUILT_FOR.search(name)
    if built is not None and built[1] != _line(spark_version):
        raise UnsupportedVersionError(
            f"{name} is for Spark {built[1]}, and this is Spark {spark_version}",
            hints=(f"use {runtime_coordinates(spark_version)}",),
        )


def _has_catalog(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return _CATALOG_CLASS in archive.NameToInfo
    except (OSError, zipfile.BadZipFile):
        return False
