"""Keys by which clients reach files that are in a bucket, and where that is.

Where it is and in which region is told to all. Keys are given to those alone who ask for them,
and never the server's own, which may delete. Where `HAVASU_VC_ROLE_ARN` names a role of AWS, or of
a store that speaks as AWS does, keys are made for each table: the server assumes the role with a
policy that lets a client read what the tables are made of, and, if it may commit, write to the
folder that the table gives it, for `HAVASU_VC_ROLE_SECONDS` (an hour). Else the environment has
them. A key that can only read is named by

    S3       HAVASU_VC_READ_KEY_ID, HAVASU_VC_READ_SECRET_KEY (and HAVASU_VC_READ_SESSION_TOKEN)
    Google   HAVASU_VC_READ_TOKEN, a token of OAuth, and HAVASU_VC_READ_TOKEN_EXPIRES_AT, when
             that ends, in milliseconds since 1970
    Azure    HAVASU_VC_READ_SAS_TOKEN, a signature for the container

and one that can also write to the folder `staging` of the catalog's bucket by `HAVASU_VC_WRITE_…`:
it is given to those who may commit.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from havasu_vc.errors import InvalidArgumentError, MissingProgramError
from havasu_vc.records import dataclass
from havasu_vc.serving.remembering import Remembered
from havasu_vc.serving.routes import Refused
from havasu_vc.store.object_urls import s3_settings, system_arguments

__all__ = ["ASKED", "ENDS", "VENDED", "Reach", "StoreKeys", "policy_for"]

ASKED = "x-iceberg-access-delegation"
"""The header by which clients ask for keys."""
ENDS = "s3.session-token-expires-at-ms"
"""When keys that were made for a client end, in milliseconds since 1970."""
VENDED = "vended-credentials"
"""The words by which they do."""
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
_ROLE, _SECONDS = "HAVASU_VC_ROLE_ARN", "HAVASU_VC_ROLE_SECONDS"
_ARN = re.compile(r"arn:([a-z-]*):[^\s]+")
_LEAST, _MOST = 900, 43_200
"""Seconds that AWS lets keys of a role last."""
_REMEMBERED = 1000
_log = logging.getLogger("havasu_vc.serving")


@dataclass(frozen=True, slots=True)
class Reach:
    """The places that a client of one table is to reach."""

    data: str | None
    """Where data files are that are in a bucket."""
    catalog: str | None = None
    """Where the catalog's documents are, if in a bucket."""
    staging: str | None = None
    """The folder there that the client may write to; None for one that only reads."""

    @property
    def places(self) -> list[str]:
        """The places that are read, each once."""
        found = (each.partition("?")[0] for each in (self.data, self.catalog) if each)
        return list(dict.fromkeys(f"{each.rstrip('/')}/" for each in found))

    @property
    def prefixes(self) -> list[str]:
        """The places to which the keys of a table belong.

        A client that holds keys of several tables takes those of the longest one.
        """
        return [*self.places, *([] if self.staging is None else [f"{self.staging}/"])]


class StoreKeys:
    """The settings of a bucket that clients are told, and keys for those who ask."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        """Look how keys are had; raise where that is said wrongly."""
        self._environment = environment
        self._role = environment.get(_ROLE) or None
        self._seconds = 3600
        self._made: Remembered[object, Mapping[str, str]] = Remembered(_REMEMBERED)
        if self._role is None:
            return
        if not _ARN.fullmatch(self._role):
            raise InvalidArgumentError(f"{_ROLE} is {self._role[:80]!r}, which names no role")
        said = environment.get(_SECONDS) or "3600"
        if not said.isdecimal() or not _LEAST <= int(said) <= _MOST:
            raise InvalidArgumentError(
                f"{_SECONDS} is {said[:20]!r}: keys last {_LEAST} to {_MOST} seconds"
            )
        self._seconds = int(said)
        _sessions()

    def settings(
        self, reach: Reach, headers: Mapping[str, str], *, writes: bool = False, renewal: str = ""
    ) -> dict[str, str]:
        """Return what a client, who may commit or not, is told of the bucket of a table's files.

        `renewal` is where it gets other keys when these end.
        """
        place = reach.data or reach.catalog
        if place is None:
            return {}
        environment = self._environment
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
        if VENDED not in headers.get(ASKED, ""):
            return found
        if self._role is not None and parts.scheme == "s3":
            found |= self._of_role(self._role, reach)
            return found | ({"client.refresh-credentials-endpoint": renewal} if renewal else {})
        which = _WRITE if writes and environment.get(f"{_WRITE}{first}") else _READ
        named = {name: environment.get(which + key) for name, key in keys.items()}
        return found | {name: value for name, value in named.items() if value}

    def credentials(
        self, settings: Mapping[str, str], prefixes: Iterable[str]
    ) -> list[dict[str, Any]]:
        """Return settings as Iceberg's storage credentials, for all places that a table is in.

        DuckDB takes what stands beside a table for its location alone, and so does it with
        credentials of one place.
        """
        if not settings:
            return []
        return [{"prefix": prefix, "config": dict(settings)} for prefix in prefixes]

    def _of_role(self, role: str, reach: Reach) -> Mapping[str, str]:
        """Return keys that may do what is to be done in some places, half their time or more."""
        policy = json.dumps(policy_for(reach, role), separators=(",", ":"))
        part = int(time.time() // (self._seconds / 2))
        return self._made.made((policy, part), lambda: self._assume(role, policy))

    def _assume(self, role: str, policy: str) -> Mapping[str, str]:
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError, ClientError

        region = s3_settings(self._environment).region or "us-east-1"
        patience = Config(connect_timeout=10, read_timeout=30, retries={"max_attempts": 2})
        try:
            service = (
                _sessions().get_session().create_client("sts", region_name=region, config=patience)
            )
            answer = service.assume_role(
                RoleArn=role,
                RoleSessionName="havasu-vc",
                Policy=policy,
                DurationSeconds=self._seconds,
            )["Credentials"]
        except (BotoCoreError, ClientError) as error:
            _log.warning("no keys for clients: %s", error)
            said = getattr(error, "response", {}).get("Error", {}).get("Code")
            text = f"keys of the store cannot be had: {said or type(error).__name__}"
            raise Refused(503, "ServiceUnavailableException", text) from error
        return {
            "s3.access-key-id": answer["AccessKeyId"],
            "s3.secret-access-key": answer["SecretAccessKey"],
            "s3.session-token": answer["SessionToken"],
            ENDS: str(int(answer["Expiration"].timestamp() * 1000)),
        }


def _sessions() -> Any:
    """Return the library that signs what is asked of AWS."""
    try:
        import botocore.session as sessions
    except ImportError as error:
        raise MissingProgramError(
            f"{_ROLE} is set, and botocore is not installed",
            hints=("`pip install 'havasu-vc[sts]'`",),
        ) from error
    return sessions


def policy_for(reach: Reach, role: str) -> dict[str, Any]:
    """Return what the keys of a role may do for a client: read, and write where it is told to.

    >>> reach = Reach("s3://maps/data", "s3://maps/catalog")
    >>> policy_for(reach, "arn:aws:iam::1:role/x")["Statement"][0]["Resource"]
    ['arn:aws:s3:::maps/data/*', 'arn:aws:s3:::maps/catalog/*']
    """
    match = _ARN.fullmatch(role)
    start = f"arn:{match[1] if match else 'aws'}:s3:::"
    names = [urlsplit(place) for place in reach.places]
    statements: list[dict[str, Any]] = [
        _allow(["GetObject"], [f"{start}{each.netloc}{_plain(each.path)}*" for each in names])
    ]
    for bucket in dict.fromkeys(each.netloc for each in names):
        # Who looks for what is not there is else told that it may not look.
        within = [f"{_plain(e.path).lstrip('/')}*" for e in names if e.netloc == bucket]
        listed = _allow(["ListBucket"], [f"{start}{bucket}"])
        statements.append({**listed, "Condition": {"StringLike": {"s3:prefix": within}}})
    if reach.staging is not None:
        folder = urlsplit(f"{reach.staging}/")
        written = [f"{start}{folder.netloc}{_plain(folder.path)}*"]
        if reach.data is not None:
            # DuckDB writes the positions of rows that it deletes beside the data file.
            data = urlsplit(reach.data)
            beside = f"{_plain(data.path.rstrip('/'))}/objects/*-deletes.parquet"
            written.append(f"{start}{data.netloc}{beside}")
        actions = ["PutObject", "AbortMultipartUpload", "ListMultipartUploadParts"]
        statements.append(_allow(actions, written))
    return {"Version": "2012-10-17", "Statement": statements}


def _allow(actions: list[str], resources: list[str]) -> dict[str, Any]:
    named = [f"s3:{action}" for action in actions]
    return {"Effect": "Allow", "Action": named, "Resource": resources}


def _plain(path: str) -> str:
    """Return a path in which no character stands for others."""
    return re.sub(r"[*?$]", lambda found: f"${{{found[0]}}}", path)


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
