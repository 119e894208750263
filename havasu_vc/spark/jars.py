"""The Iceberg runtime: which jar a version of Spark needs, and where it is had from.

Reading with `havasu_vc.spark.read` needs no jar. Iceberg's SQL over a checkout does. A
jar is looked for, in this order, where `HAVASU_ICEBERG_JAR` says, where the git setting
`havasu.spark.jar` says, and among what Spark fetched before (Ivy's folder). Is it nowhere,
Spark fetches it from Maven Central by `spark.jars.packages`. The setting is a path, Maven
coordinates, or `none`. What a setting names must be there and fit: nothing is used in its
place.
"""

import os
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from havasu_vc.errors import InvalidArgumentError, MissingProgramError, UnsupportedVersionError
from havasu_vc.records import dataclass

__all__ = [
    "COORDINATES",
    "EXTENSIONS",
    "JAR_SETTING",
    "JAR_VARIABLE",
    "NONE",
    "RUNTIMES",
    "NamedJar",
    "find_fetched_jar",
    "jar_settings",
    "named_jar",
    "runtime_coordinates",
]

JAR_VARIABLE = "HAVASU_ICEBERG_JAR"
JAR_SETTING = "havasu.spark.jar"
NONE = "none"
"""The setting that wants no jar."""
EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
RUNTIMES = {"4.0": "1.11.0", "4.1": "1.12.0"}
"""The release of Iceberg that is known to work, by the version of Spark."""

_GROUP = "org.apache.iceberg"
_CATALOG_CLASS = "org/apache/iceberg/spark/SparkCatalog.class"
_BUILD = "iceberg-build.properties"
_BUILT_FOR = re.compile(r"iceberg-spark-runtime-(\d+\.\d+)_(\d+\.\d+)")
_RELEASE = re.compile(rb"^git\.build\.version=(\d+)\.(\d+)", re.MULTILINE)
_OLDEST = (1, 10)
"""The first release of Iceberg that has anything for Spark 4."""
_SCALA = "2.13"
COORDINATES = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+")
"""Maven's name of a jar."""


@dataclass(frozen=True, slots=True)
class NamedJar:
    """A jar that somebody asked for."""

    text: str
    """A path, Maven coordinates, or `none`."""
    setting: str
    """The setting that names it."""


def named_jar(
    configured: str | None = None, *, environment: Mapping[str, str] = os.environ
) -> NamedJar | None:
    """Return the jar that the environment or the git setting names."""
    if environment.get(JAR_VARIABLE):
        return NamedJar(environment[JAR_VARIABLE], JAR_VARIABLE)
    return NamedJar(configured, f"`git config {JAR_SETTING}`") if configured else None


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
                "or do without Iceberg: `--no-jar`, in Python `havasu_vc.spark.read`",
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
    named = named_jar(configured, environment=environment)
    if named is not None and named.text == NONE:
        return {}
    coordinates = runtime_coordinates(spark_version)
    if named is None:
        found = find_fetched_jar(spark_version)
        place = {"spark.jars.packages": coordinates} if found is None else _local(found)
    elif COORDINATES.fullmatch(named.text):
        _insist_built_for(named.text, spark_version, named)
        place = {"spark.jars.packages": named.text}
    else:
        path = Path(named.text).expanduser().absolute()
        _insist_runtime(path, spark_version, named)
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


def _insist_runtime(path: Path, spark_version: str, named: NamedJar) -> None:
    if not path.is_file():
        raise MissingProgramError(
            f"the Iceberg runtime is not where {named.setting} says: {path}",
            hints=_ways_out(spark_version, named),
        )
    _insist_built_for(path.name, spark_version, named)
    release = _release_of(path)
    if release is not None and release < _OLDEST:
        raise UnsupportedVersionError(
            f"{path} is Iceberg {release[0]}.{release[1]}, which has nothing for Spark "
            f"{spark_version}",
            hints=_ways_out(spark_version, named),
        )
    if not _has_catalog(path):
        raise InvalidArgumentError(
            f"{path} is not Iceberg's runtime for Spark, or it is damaged",
            hints=_ways_out(spark_version, named),
        )


def _insist_built_for(name: str, spark_version: str, named: NamedJar) -> None:
    built = _BUILT_FOR.search(name.replace(":", "-"))
    if built is not None and (built[1], built[2]) != (_line(spark_version), _SCALA):
        raise UnsupportedVersionError(
            f"{name} is for Spark {built[1]} and Scala {built[2]}, and this is Spark "
            f"{spark_version} and Scala {_SCALA}",
            hints=_ways_out(spark_version, named),
        )


def _ways_out(spark_version: str, named: NamedJar) -> tuple[str, ...]:
    return (
        f"have {named.setting} name {runtime_coordinates(spark_version)}, or a copy of it",
        "or do without: `--no-jar`, in Python `session(repo, jar=False)`",
    )


def _release_of(path: Path) -> tuple[int, int] | None:
    """Return the release of Iceberg that a jar says it is of."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = _RELEASE.search(archive.read(_BUILD))
    except (OSError, KeyError, zipfile.BadZipFile, zlib.error):
        return None
    return None if found is None else (int(found[1]), int(found[2]))


def _has_catalog(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return _CATALOG_CLASS in archive.NameToInfo
    except (OSError, zipfile.BadZipFile):
        return False
