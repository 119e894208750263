"""Whether a request may be answered at all: who sends it, and by which way.

A server without tokens listens to this machine alone, where web pages run too. A page can send a
request to any port; what no Iceberg client sends, and every page must, is the header `Origin`. And
a name that a page has made to mean this machine is not the name of this machine.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from urllib.parse import parse_qsl

from havasu_vc.serving.errors import Refused
from havasu_vc.serving.routes import Answer, Call
from havasu_vc.serving.tokens import Caller, Tokens

__all__ = ["NOBODY", "admitted", "give_token"]

NOBODY = Caller("")
"""Who sends a request where no token is asked for."""
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


def admitted(tokens: Tokens | None, headers: Mapping[str, str], *, loopback: bool) -> Caller:
    """Return who sends a request; raise where it is not to be answered."""
    if "origin" in headers:
        raise Refused(403, "ForbiddenException", "web pages may not ask this catalog")
    if tokens is not None:
        return tokens.caller(headers.get("authorization"))
    host = headers.get("host", "localhost")
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    if loopback and name.lower() not in _LOOPBACK:
        raise Refused(403, "ForbiddenException", "this catalog is asked by another name")
    return NOBODY


def give_token(tokens: Tokens | None, call: Call) -> Answer:
    """Answer as OAuth does, for clients that ask for a token first: the secret is the token."""
    form = dict(parse_qsl(call.body.decode("utf-8", "replace")))
    secret = form.get("client_secret") or form.get("subject_token") or _basic(call)
    if tokens is not None and tokens.find(secret) is None:
        error = {"error": "invalid_client", "error_description": "this is no token of the catalog"}
        return Answer(401, error)
    return Answer(
        content={
            "access_token": secret or "none",
            "token_type": "bearer",
            "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
        }
    )


def _basic(call: Call) -> str:
    kind, _, text = call.headers.get("authorization", "").partition(" ")
    if kind.lower() != "basic":
        return ""
    try:
        return base64.b64decode(text, validate=True).decode().partition(":")[2]
    except (ValueError, binascii.Error):
        return ""
