"""URLs of things in a store of objects: `file://`, `s3://`, `gs://`, `abfs://`.

Credentials, region and endpoint come from the environment, as every program of that store
takes them, and are never written down:

    s3     AWS_PROFILE, AWS_ACCESS_KEY_ID, …, AWS_REGION, AWS_ENDPOINT_URL[_S3], AWS_CONFIG_FILE
    gs     GOOGLE_APPLICATION_CREDENTIALS, …, STORAGE_EMULATOR_HOST
    abfs   AZURE_CLIENT_ID, …, AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.store.aws_settings import s3_settings

__all__ = [
    "SCHEMES",
    "Arguments",
    "in_bucket",
    "is_url",
    "shown_url",
    "system_arguments",
    "with_endpoint",
]

SCHEMES = ("file", "s3", "s3a", "gs", "gcs", "abfs", "abfss")
_TOLD = ("endpoint_override", "region", "scheme")
"""What may stand in a URL: it is no secret."""
Arguments = tuple[tuple[str, Any], ...]
"""What a file system is made with, in an order of their own."""


def is_url(path: str) -> bool:
    """Whether a file is named by a URL rather than by a path of this machine.

    >>> is_url("s3://bucket/x"), is_url("/srv/x"), is_url("C:/x")
    (True, False, False)
    """
    return "://" in path and path.partition("://")[0] in SCHEMES


def in_bucket(place: str) -> bool:
    """Whether a place is in a store of objects.

    >>> in_bucket("s3://bucket/x"), in_bucket("file:///srv/x")
    (True, False)
    """
    return is_url(place) and not place.startswith("file:")


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
        f"{shown_url(url)} is at no store that is known", hints=(f"schemes: {', '.join(SCHEMES)}",)
    )


def _s3(options: Mapping[str, str], environment: Mapping[str, str], bucket: str) -> Arguments:
    found: dict[str, Any] = {"bucket": bucket}
    said = s3_settings(environment)
    if said.region:
        found["region"] = said.region
    if said.endpoint:
        parts = urlsplit(said.endpoint)
        place = f"{parts.netloc}{parts.path.rstrip('/')}"
        found |= {"endpoint_override": place, "scheme": parts.scheme}
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


def shown_url(url: str) -> str:
    """Return a URL without anything that may be a secret."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
