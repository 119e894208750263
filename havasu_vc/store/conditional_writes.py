"""An object made only where there is none of its name: how two writers are told apart.

S3, Google's and Azure's stores refuse a write that says `If-None-Match: *` once the object is
there. pyarrow cannot say so; the optional library `obstore` can (`pip install
'havasu-vc[bucket]'`). It knows fewer ways of being told credentials than pyarrow does: no
profiles of a file. Where it is not installed, or the store does not answer it, nothing is
said here about the object, and the caller looks, writes and looks again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from havasu_vc.store.object_systems import SILENT_SECONDS, TRIES, object_system
from havasu_vc.store.object_urls import system_arguments

__all__ = ["create_object"]


def create_object(url: str, data: bytes) -> bool | None:
    """Make an object unless there is one, and return whether it was; None where that is unknown."""
    try:
        from obstore import put
        from obstore.exceptions import AlreadyExistsError, BaseError
    except ImportError:
        return None
    try:
        store, key = _store(url, os.environ)
        if store is None:
            return None
        put(store, key, data, mode="create")
    except AlreadyExistsError:
        return False
    except (BaseError, OSError, ValueError):
        return None  # whoever writes by other means is told what is wrong
    return True


def _store(url: str, environment: Mapping[str, str]) -> tuple[Any, str]:
    """Return obstore's store of a URL, None where it cannot be had, and the object's name in it."""
    parts = urlsplit(url)
    kind, arguments, _ = system_arguments(url, environment)
    key = parts.path.lstrip("/")
    place = dict(arguments)
    if kind == "s3":
        if not _knows_credentials(environment):
            return None, key
        region = object_system(url)[0].region
        secure = place.get("scheme", "https") == "https"
        host = place.get("endpoint_override")
        endpoint = None if host is None else f"{place.get('scheme', 'https')}://{host}"
        return _s3(parts.netloc, region, endpoint, secure), key
    if "endpoint_override" in place or any(name.endswith("_authority") for name in place):
        return None, key  # emulators speak what pyarrow speaks
    return _other(f"{parts.scheme}://{parts.netloc}"), key


def _knows_credentials(environment: Mapping[str, str]) -> bool:
    """Whether credentials are told in a way that obstore knows, so that it need not guess."""
    if environment.get("AWS_ACCESS_KEY_ID") or environment.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
        return True
    home = Path.home() / ".aws"
    shared = environment.get("AWS_SHARED_CREDENTIALS_FILE") or home / "credentials"
    settings = environment.get("AWS_CONFIG_FILE") or home / "config"
    return not (environment.get("AWS_PROFILE") or any(map(os.path.exists, (shared, settings))))


@lru_cache(maxsize=16)
def _s3(bucket: str, region: str, endpoint: str | None, secure: bool) -> Any:
    from obstore.store import S3Store

    more: dict[str, Any] = {} if endpoint is None else {"endpoint": endpoint}
    return S3Store(
        bucket,
        region=region,
        client_options={
            "allow_http": not secure,
            "connect_timeout": "5s",
            "timeout": f"{SILENT_SECONDS}s",
        },
        retry_config={"max_retries": TRIES - 1},
        **more,
    )


@lru_cache(maxsize=16)
def _other(url: str) -> Any:
    from obstore.store import from_url

    return from_url(url, client_options={"timeout": f"{SILENT_SECONDS}s"})
