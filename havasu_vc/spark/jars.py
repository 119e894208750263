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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from havasu_vc.errors import (
    InvalidArgumentError,
    MissingProgramError,
    NotYetSupportedError,
    UnsupportedVersionError,
)
from havasu_vc.records import dataclass
from havasu_vc.store.object_urls import s3_settings

__all__ = [
    "BUCKET_JAR_SETTING",
    "COORDINATES",
    "EXTENSIONS",
    "JAR_SETTING",
    "JAR_VARIABLE",
    "NONE",
    "RUNTIMES",
    "SDKS",
    "NamedJar",
    "bucket_jars",
    "bucket_settings",
    "find_fetched_jar",
    "hadoop_version",
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


# Settings of Spark for tables in a bucket: Hadoop's file system of S3, and where the server is.
#
# Reading with `havasu_vc.spark.read` needs none of this. Iceberg's SQL over tables that
# `checkout --to s3://…` made does. The release of hadoop-aws is that of the Hadoop which
# PySpark brings; of Amazon's SDK the few modules that it uses are fetched instead of the
# bundle, which has 640 MB. Where there is no network, or Spark has it all, the git setting
# `havasu.spark.bucketJar` names jars, as often as need be, or says `none`. Locations begin
# with `s3://`, as every other reader of Iceberg wants them, and Hadoop is told to take them as
# its own `s3a://`. Credentials are looked for by Amazon's own chain, in the environment of the
# driver and of the executors.


BUCKET_JAR_SETTING = "havasu.spark.bucketJar"

SDKS = {"3.4.1": "2.24.6", "3.4.2": "2.29.52"}
"""The release of Amazon's SDK that a release of hadoop-aws is built with."""
_MODULES = (
    "s3",
    "s3-transfer-manager",
    "sts",
    "apache-client",
    "netty-nio-client",
    "sso",
    "ssooidc",
)
_BUNDLE = "software.amazon.awssdk:bundle"
_HADOOP = re.compile(r"hadoop-client-api-(\d+\.\d+\.\d+)\.jar")


def hadoop_version(jars: Path) -> str:
    """Return the release of Hadoop among the jars of a Spark."""
    found = [match[1] for path in jars.iterdir() if (match := _HADOOP.fullmatch(path.name))]
    if len(found) != 1 or found[0] not in SDKS:
        raise UnsupportedVersionError(
            f"the Hadoop of this Spark ({', '.join(found) or 'none'}) is not known here",
            hints=(f"name the hadoop-aws jar of its release: `git config {BUCKET_JAR_SETTING}`",),
        )
    return found[0]


def bucket_jars(jars: Path, named: Sequence[str] = ()) -> dict[str, str]:
    """Return the settings that put Hadoop's file system of S3 on the class path.

    `jars` are those of the Spark that is to have it. `named` are paths and Maven coordinates
    to take instead of what is known here, or `none` alone.
    """
    if list(named) == [NONE]:
        return {}
    if not named:
        hadoop = hadoop_version(jars)
        packages = [f"org.apache.hadoop:hadoop-aws:{hadoop}"]
        packages += [f"software.amazon.awssdk:{module}:{SDKS[hadoop]}" for module in _MODULES]
        return {"spark.jars.packages": ",".join(packages), "spark.jars.excludes": _BUNDLE}
    packages = [each for each in named if COORDINATES.fullmatch(each)]
    paths = [Path(each).expanduser().absolute() for each in named if each not in packages]
    for path in paths:
        if not path.is_file():
            raise MissingProgramError(
                f"there is no jar at {path}", hints=(f"correct `git config {BUCKET_JAR_SETTING}`",)
            )
    local = ",".join(path.resolve().as_uri() for path in paths)
    found = {"spark.jars.packages": ",".join(packages), "spark.jars": local}
    return {name: value for name, value in found.items() if value}


def bucket_settings(url: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with which Spark reads and writes below a URL; no secret is in them."""
    parts = urlsplit(url)
    if parts.scheme not in ("s3", "s3a"):
        raise NotYetSupportedError(
            f"Spark's settings for {parts.scheme}:// are not known here",
            hints=("add the jar and settings that the store's makers tell",),
        )
    settings = {
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "spark.hadoop.fs.s3a.aws.credentials.provider": (
            "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
        ),
    }
    said = s3_settings(environment)
    if said.region:
        settings["spark.hadoop.fs.s3a.endpoint.region"] = said.region
    if said.endpoint:
        secure = urlsplit(said.endpoint).scheme != "http"
        settings["spark.hadoop.fs.s3a.endpoint"] = said.endpoint
        settings["spark.hadoop.fs.s3a.path.style.access"] = "true"
        settings["spark.hadoop.fs.s3a.connection.ssl.enabled"] = str(secure).lower()
    return settings
