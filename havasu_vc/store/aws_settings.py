"""Where S3 is and in which region, as the environment and the files of AWS say it.

As the programs of AWS have it: variables come before the profile that AWS_PROFILE names in
`~/.aws/config`, what is said for S3 before what is said for all services, and
AWS_IGNORE_CONFIGURED_ENDPOINT_URLS leaves all of it out.

    [profile maps]                      [services local]
    services = local                    s3 =
    region = eu-west-1                    endpoint_url = http://localhost:9000
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.records import dataclass

__all__ = ["AwsSettings", "s3_settings"]

_ENDPOINT = "endpoint_url"
_PLACES = {"AWS_CONFIG_FILE": "config", "AWS_SHARED_CREDENTIALS_FILE": "credentials"}


@dataclass(frozen=True, slots=True)
class AwsSettings:
    """What is said of S3; never a secret."""

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
