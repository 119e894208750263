"""URLs of things in a store of objects: `file://`, `s3://`, `gs://`, `abfs://`.

Credentials, region and endpoint come from the environment, as every program of that store
takes them, and are never written down:

    s3     AWS_PROFILE, AWS_ACCESS_KEY_ID, …, AWS_REGION, AWS_ENDPOINT_URL[_S3], AWS_CONFIG_FILE
    gs     GOOGLE_APPLICATION_CREDENTIALS, …, STORAGE_EMULATOR_HOST
    abfs   AZURE_CLIENT_ID, …, AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit, urlunsplit

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.records import dataclass

__all__ = [
    "SCHEMES",
    "Arguments",
    "AwsSettings",
    "folder_below",
    "in_bucket",
    "is_url",
    "s3_settings",
    "shown_url",
    "system_arguments",
    "with_endpoint",
]


SCHEMES = ("file", "s3", "s3a", "gs", "gcs", "abfs", "abfss")
_TOLD = ("endpoint_override", "region", "scheme")
"""Parameters that may stand in a URL: they are no secret."""
_DROPPED = frozenset("\t\r\n")
Arguments = tuple[tuple[str, Any], ...]
"""Arguments of a file system, in an order of their own."""


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


def folder_below(url: str, name: str) -> str:
    """Return the URL of a folder, or a file, below one.

    >>> folder_below("s3://bucket/data/?region=x", "temporary/a")
    's3://bucket/data/temporary/a?region=x'
    """
    parts = urlsplit(url)
    path = f"{parts.path.rstrip('/')}/{name}"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def with_endpoint(url: str, environment: Mapping[str, str]) -> str:
    """Return a URL that says by itself where its server is, for processes that are not told.

    >>> with_endpoint("s3://maps/wells", {"AWS_ENDPOINT_URL": "http://localhost:9"})
    's3://maps/wells?endpoint_override=localhost%3A9&scheme=http'
    """
    parts = _split(url)
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
    parts = _split(url)
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


def _split(url: str) -> SplitResult:
    """Return the parts of a URL; Python's own function drops such characters without a word."""
    if _DROPPED & set(url):
        quoted = "".join(quote(each) if each in _DROPPED else each for each in url)
        raise InvalidArgumentError(
            f"{shown_url(quoted)} has a line feed or a tab in its name",
            hints=("rename what is in the store: no URL holds such a character",),
        )
    return urlsplit(url)


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


# Where S3 is and in which region, as the environment and the files of AWS say it.
#
# As the programs of AWS have it: variables come before the profile that AWS_PROFILE names in
# `~/.aws/config`, what is said for S3 before what is said for all services, and
# AWS_IGNORE_CONFIGURED_ENDPOINT_URLS leaves all of it out.
#
#     [profile maps]                      [services local]
#     services = local                    s3 =
#     region = eu-west-1                    endpoint_url = http://localhost:9000

_ENDPOINT = "endpoint_url"
_PLACES = {"AWS_CONFIG_FILE": "config", "AWS_SHARED_CREDENTIALS_FILE": "credentials"}


@dataclass(frozen=True, slots=True)
class AwsSettings:
    """The settings of S3; never a secret."""

    region: str | None = None
    """The region; None when none is said."""
    endpoint: str | None = None
    """The URL of the server; None for Amazon's own."""


def s3_settings(environment: Mapping[str, str]) -> AwsSettings:
    """Return what variables and files say of S3.

    Raises `InvalidArgumentError` for a profile that is not there, and for a file or an
    address that cannot be understood: what was meant for a server of one's own must not go
    to Amazon's.
    """
    files = _Files(environment)
    profile = files.profile
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    ignored = environment.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS") or profile.get(
        "ignore_configured_endpoint_urls", ""
    )
    endpoint = None
    if ignored.strip().lower() != "true":
        endpoint = (
            environment.get("AWS_ENDPOINT_URL_S3")
            or environment.get("AWS_ENDPOINT_URL")
            or files.of_service(profile.get("services"), "s3")
            or profile.get(_ENDPOINT)
        )
    if endpoint and not re.fullmatch(r"https?://[^/?#@\s]+(/[^?#@\s]*)?", endpoint):
        raise InvalidArgumentError(
            f"{endpoint!r} is no address that S3 could be at",
            hints=("write AWS_ENDPOINT_URL, or endpoint_url, as http://HOST:PORT",),
        )
    return AwsSettings(region or profile.get("region") or None, endpoint or None)


class _Files:
    """The files of AWS, as far as they are there."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        home = environment.get("HOME") or environment.get("USERPROFILE")
        config, credentials = (
            environment.get(variable) or (home and Path(home, ".aws", name))
            for variable, name in _PLACES.items()
        )
        self._config, secrets = _parsed(config), _parsed(credentials)
        asked = environment.get("AWS_PROFILE") or environment.get("AWS_DEFAULT_PROFILE")
        name = asked or "default"
        sections = [f"profile {name}"] + (["default"] if name == "default" else [])
        found = [self._config[each] for each in sections if each in self._config]
        if name in secrets:
            found.append(secrets[name])
        if asked and not found:
            raise InvalidArgumentError(
                f"AWS_PROFILE names {asked!r}, which no file of AWS has",
                hints=("AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE say where these are",),
            )
        self.profile: dict[str, str] = {}
        for section in reversed(found):
            self.profile |= section

    def of_service(self, services: str | None, service: str) -> str | None:
        """Return the address of a service in a section of services."""
        if not services:
            return None
        section = self._config.get(f"services {services}")
        if section is None:
            raise InvalidArgumentError(
                f"the AWS profile names the services {services!r}, which its file does not have",
                hints=(f"add a section [services {services}]",),
            )
        for line in section.get(service, "").splitlines():
            name, _, value = line.partition("=")
            if name.strip() == _ENDPOINT:
                return value.strip() or None
        return None


def _parsed(path: str | Path | None) -> dict[str, dict[str, str]]:
    """Return the sections of a file; none of one that is not there."""
    if not path:
        return {}
    place = Path(path).expanduser()
    try:
        text = place.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeError) as error:
        raise InvalidArgumentError(f"{place} cannot be read: {error}") from error
    import configparser

    parser = configparser.RawConfigParser(
        strict=False, default_section="\0", inline_comment_prefixes=("#", ";")
    )
    try:
        parser.read_string(text)
    except configparser.Error as error:
        reason = str(error).splitlines()[0]
        raise InvalidArgumentError(f"{place} is no file of AWS: {reason}") from error
    return {re.sub(r"\s+", " ", name.strip()): dict(parser[name]) for name in parser.sections()}
