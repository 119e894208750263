"""How clients reach data files that are in a bucket: where the server is, and with which key.

Where it is and in which region is told to all. Credentials are given to those alone who ask for
them, and never the server's own, which may delete. One that can only read is named by

    S3       HAVASU_VC_READ_KEY_ID, HAVASU_VC_READ_SECRET_KEY (and HAVASU_VC_READ_SESSION_TOKEN)
    Google   HAVASU_VC_READ_TOKEN, a token of OAuth, and HAVASU_VC_READ_TOKEN_EXPIRES_AT, when
             that ends, in milliseconds since 1970
    Azure    HAVASU_VC_READ_SAS_TOKEN, a signature for the container

and one that can also write to the folder `staging` of the catalog's bucket by `HAVASU_VC_WRITE_…`:
it is given to those who may commit.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from havasu_vc.store.object_urls import s3_settings, system_arguments

__all__ = ["credentials", "store_settings"]

ASKED = "x-iceberg-access-delegation"
_VENDED = "vended-credentials"
_KEYS = {
    "s3.access-key-id": "KEY_ID",
    "s3.secret-access-key": "SECRET_KEY",
    "s3.session-token": "SESSION_TOKEN",
}
_GOOGLE_KEYS = {
    "gcs.oauth2.token": "TOKEN",
    "gcs.oauth2.token-expires-at": "TOKEN_EXPIRES_AT",
}
_READ, _WRITE = "HAVASU_VC_READ_", "HAVASU_VC_WRITE_"


def credentials(settings: Mapping[str, str], places: Sequence[str | None]) -> list[dict[str, Any]]:
    """Return the settings as Iceberg's storage credentials, for all places that a table is in.

    DuckDB takes what stands beside a table for its location alone, and so does it with
    credentials of one place.
    """
    if not settings:
        return []
    prefixes = dict.fromkeys(f"{place.partition('?')[0].rstrip('/')}/" for place in places if place)
    return [{"prefix": prefix, "config": dict(settings)} for prefix in prefixes]


def store_settings(
    place: str | None,
    headers: Mapping[str, str],
    *,
    writes: bool = False,
    environment: Mapping[str, str] = os.environ,
) -> dict[str, str]:
    """Return what a client, who may commit or not, is told of the bucket of a table's files."""
    if place is None:
        return {}
    parts = urlsplit(place)
    host = parts.netloc.rpartition("@")[2]
    match parts.scheme:
        case "s3":
            found, keys, first = _s3(environment), _KEYS, "KEY_ID"
        case "gs" | "gcs":
            found, keys, first = _gs(place, environment), _GOOGLE_KEYS, "TOKEN"
        case "abfs" | "abfss":
            # PyIceberg asks for the first name, Java's clients for the second.
            names = ("adls.sas-token", f"adls.sas-token.{host}")
            found, keys = _azure(place, environment), dict.fromkeys(names, "SAS_TOKEN")
            first = "SAS_TOKEN"
        case _:
            return {}
    if _VENDED in headers.get(ASKED, ""):
        which = _WRITE if writes and environment.get(f"{_WRITE}{first}") else _READ
        named = {name: environment.get(which + key) for name, key in keys.items()}
        found |= {name: value for name, value in named.items() if value}
    return found


def _s3(environment: Mapping[str, str]) -> dict[str, str]:
    said = s3_settings(environment)
    found: dict[str, str] = {}
    if said.region:
        found["client.region"] = found["s3.region"] = said.region
    if said.endpoint:
        found |= {"s3.endpoint": said.endpoint, "s3.path-style-access": "true"}
    return found


def _gs(place: str, environment: Mapping[str, str]) -> dict[str, str]:
    told = dict(system_arguments(place, environment)[1])
    host = told.get("endpoint_override")
    return {} if host is None else {"gcs.service.host": f"{told.get('scheme', 'https')}://{host}"}


def _azure(place: str, environment: Mapping[str, str]) -> dict[str, str]:
    host = urlsplit(place).netloc.rpartition("@")[2]
    told = dict(system_arguments(place, environment)[1])
    found = {"adls.account-name": host.partition(".")[0]}
    for kind in ("blob", "dfs"):
        for part in ("authority", "scheme"):
            value = told.get(f"{kind}_storage_{part}")
            found |= {} if value is None else {f"adls.{kind}-storage-{part}": str(value)}
    return found
