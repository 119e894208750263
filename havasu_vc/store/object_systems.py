"""File systems by URL: `file://`, `s3://`, `gs://`, `abfs://`.

Credentials, region and endpoint come from the environment, as every program of that store
takes them, and are never written down:

    s3     AWS_PROFILE, AWS_ACCESS_KEY_ID, …, AWS_REGION, AWS_ENDPOINT_URL[_S3]
    gs     GOOGLE_APPLICATION_CREDENTIALS, …, STORAGE_EMULATOR_HOST
    abfs   AZURE_CLIENT_ID, …, AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN

A server that says nothing for a minute is given up. One file system is made per place and
process, since connections cost more than requests.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from havasu_vc.errors import InvalidArgumentError, StorageError

__all__ = [
    "SCHEMES",
    "file_system_at",
    "is_url",
    "object_system",
    "system_arguments",
    "with_endpoint",
]

SCHEMES = ("file", "s3", "s3a", "gs", "gcs", "abfs", "abfss")
CONNECT_SECONDS = 10
SILENT_SECONDS = 60
"""How long a server may take to answer, or to go on answering."""
TRIES = 3
_TOLD = ("endpoint_override", "region", "scheme")
"""What may stand in a URL: it is no secret."""


def is_url(path: str) -> bool:
    """Whether a file is named by a URL rather than by a path of this machine.

    >>> is_url("s3://bucket/x"), is_url("/srv/x"), is_url("C:/x")
    (True, False, False)
    """
    return "://" in path and path.partition("://")[0] in SCHEMES


def with_endpoint(url: str, environment: Mapping[str, str]) -> str:
    """Return a URL that says by itself where its server is, for processes that are not told.

    >>> with_endpoint("s3://maps/wells", {"AWS_ENDPOINT_URL": "http://localhost:9"})
    's3://maps/wells?endpoint_override=localhost%3A9&scheme=http'
    """
    parts = urlsplit(url)
    if parts.scheme not in ("s3", "s3a", "gs", "gcs"):
        return url
    _, arguments, _ = system_arguments(url, environment)
    known = {name: str(value) for name, value in arguments if name in _TOLD}
    query = urlencode({**dict(parse_qsl(parts.query)), **known})
    return urlunsplit((parts.scheme, parts.netloc, parts.path, query, ""))


def object_system(url: str) -> tuple[Any, str]:
    """Return the file system that a URL names, and the path in it."""
    kind, arguments, path = system_arguments(url, os.environ)
    try:
        if kind == "uri":
            from pyarrow.fs import FileSystem

            found, path = FileSystem.from_uri(url)
            return found, path.rstrip("/")
        return file_system_at(kind, arguments), path
    except (OSError, ValueError, TypeError) as error:
        lines = str(error).strip().splitlines()
        reason = lines[0][:300] if lines else type(error).__name__
        raise StorageError(f"{_shown(url)} cannot be opened: {reason}") from error


Arguments = tuple[tuple[str, Any], ...]


def system_arguments(url: str, environment: Mapping[str, str]) -> tuple[str, Arguments, str]:
    """Return the kind of file system that a URL names, what to make it with, and the path.

    >>> system_arguments("gs://maps/wells", {"STORAGE_EMULATOR_HOST": "http://localhost:9"})[1:]
    ((('anonymous', True), ('endpoint_override', 'localhost:9'), ('scheme', 'http')), 'maps/wells')
    """
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    user, _, host = parts.netloc.rpartition("@")
    match parts.scheme:
        case "s3" | "s3a":
            return "s3", _s3(options, environment, host), f"{host}{parts.path}".rstrip("/")
        case "gs" | "gcs":
            return "gs", _gs(options, environment), f"{host}{parts.path}".rstrip("/")
        case "abfs" | "abfss" if user and (secret := _azure_secret(environment)):
            found = _azure_place(host, environment) | secret
            return "abfs", tuple(sorted(found.items())), f"{user}{parts.path}".rstrip("/")
        case "file" | "abfs" | "abfss":
            return "uri", (), ""
    raise InvalidArgumentError(
        f"{_shown(url)} is at no store that is known", hints=(f"schemes: {', '.join(SCHEMES)}",)
    )


@lru_cache(maxsize=16)
def file_system_at(kind: str, arguments: Arguments) -> Any:
    """Return a file system of a kind; one made of the same arguments is the same."""
    from pyarrow import fs

    given = dict(arguments)
    match kind:
        case "s3":
            bucket = given.pop("bucket")
            if "region" not in given and "endpoint_override" not in given:
                given["region"] = fs.resolve_s3_region(bucket)
            tries = fs.AwsStandardS3RetryStrategy(max_attempts=TRIES)
            return fs.S3FileSystem(
                retry_strategy=tries,
                connect_timeout=CONNECT_SECONDS,
                request_timeout=SILENT_SECONDS,
                allow_delayed_open=True,  # a small file is sent in one request
                **given,
            )
        case "gs":
            return fs.GcsFileSystem(retry_time_limit=timedelta(seconds=SILENT_SECONDS), **given)
        case _:
            return fs.AzureFileSystem(**given)


def _s3(options: Mapping[str, str], environment: Mapping[str, str], bucket: str) -> Arguments:
    found: dict[str, Any] = {"bucket": bucket}
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    if region:
        found["region"] = region
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    if endpoint:
        parts = urlsplit(endpoint)
        found |= {"endpoint_override": parts.netloc, "scheme": parts.scheme or "https"}
    for name in ("region", "endpoint_override", "scheme"):
        if name in options:
            found[name] = options[name]
    if options.get("allow_bucket_creation") == "true":
        found["allow_bucket_creation"] = True
    return tuple(sorted(found.items()))


def _gs(options: Mapping[str, str], environment: Mapping[str, str]) -> Arguments:
    found: dict[str, Any] = {}
    endpoint = environment.get("STORAGE_EMULATOR_HOST")
    if endpoint:
        parts = urlsplit(endpoint if "://" in endpoint else f"http://{endpoint}")
        found = {"endpoint_override": parts.netloc, "scheme": parts.scheme, "anonymous": True}
    for name in ("endpoint_override", "scheme"):
        if name in options:
            found[name] = options[name]
    return tuple(sorted(found.items()))


def _azure_secret(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return what Azure's own programs take instead of an identity; nothing for an identity."""
    key, token = environment.get("AZURE_STORAGE_KEY"), environment.get("AZURE_STORAGE_SAS_TOKEN")
    if key:
        return {"account_key": key}
    return {"sas_token": token} if token else {}


def _azure_place(host: str, environment: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {"account_name": host.partition(".")[0]}
    emulator = environment.get("AZURITE_BLOB_STORAGE_URL")
    if emulator:
        parts = urlsplit(emulator)
        for kind in ("blob", "dfs"):
            found |= {f"{kind}_storage_authority": parts.netloc}
            found |= {f"{kind}_storage_scheme": parts.scheme}
    return found


def _shown(url: str) -> str:
    """Return a URL without anything that may be a secret."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
