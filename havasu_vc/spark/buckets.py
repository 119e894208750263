"""Settings of Spark for tables in a bucket: Hadoop's file system of S3, and where the server is.

Reading with `havasu_vc.spark.read` needs none of this. Iceberg's SQL over tables that
`checkout --to s3://…` made does. The release of hadoop-aws is that of the Hadoop which
PySpark brings; of Amazon's SDK the few modules that it uses are fetched instead of the
bundle, which has 640 MB. Where there is no network, or Spark has it all, the git setting
`havasu.spark.bucketJar` names jars, as often as need be, or says `none`. Locations begin
with `s3://`, as every other reader of Iceberg wants them, and Hadoop is told to take them as
its own `s3a://`. Credentials are looked for by Amazon's own chain, in the environment of the
driver and of the executors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from havasu_vc.errors import MissingProgramError, NotYetSupportedError, UnsupportedVersionError
from havasu_vc.spark.jars import COORDINATES, NONE
from havasu_vc.store.object_urls import s3_settings

__all__ = ["JAR_SETTING", "SDKS", "bucket_jars", "bucket_settings", "hadoop_version"]

JAR_SETTING = "havasu.spark.bucketJar"

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
            hints=(f"name the hadoop-aws jar of its release: `git config {JAR_SETTING}`",),
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
                f"there is no jar at {path}", hints=(f"correct `git config {JAR_SETTING}`",)
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
