"""How clients reach data files that are in a bucket: where the server is, and with which key.

Where it is and in which region is told to all. Credentials are given to those alone who ask for
them, and never the server's own, which may delete: a key that can only read is named by
`HAVASU_VC_READ_KEY_ID` and `HAVASU_VC_READ_SECRET_KEY` (and `HAVASU_VC_READ_SESSION_TOKEN`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from havasu_vc.store.object_urls import s3_settings

__all__ = ["store_settings"]

ASKED = "x-iceberg-access-delegation"
_VENDED = "vended-credentials"
_KEYS = {
    "s3.access-key-id": "HAVASU_VC_READ_KEY_ID",
    "s3.secret-access-key": "HAVASU_VC_READ_SECRET_KEY",
    "s3.session-token": "HAVASU_VC_READ_SESSION_TOKEN",
}


def store_settings(
    place: str | None,
    headers: Mapping[str, str],
    environment: Mapping[str, str] = os.environ,
) -> dict[str, str]:
    """Return what a client is told of the bucket that has a table's data files."""
    if place is None or urlsplit(place).scheme != "s3":
        return {}
    said = s3_settings(environment)
    found: dict[str, str] = {}
    if said.region:
        found["client.region"] = found["s3.region"] = said.region
    if said.endpoint:
        found |= {"s3.endpoint": said.endpoint, "s3.path-style-access": "true"}
    if _VENDED in headers.get(ASKED, ""):
        found |= {name: environment[key] for name, key in _KEYS.items() if environment.get(key)}
    return found
