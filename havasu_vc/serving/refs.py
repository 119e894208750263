"""Which commit a warehouse, a namespace or a part of a table's name means.

    warehouse ""         HEAD's branch
    warehouse main       a branch, which may be written to
    warehouse v1, HEAD~3, a1b2c3d, main@{2026-11-01}       a commit, to be read
    warehouse *          all refs: the first level of a namespace is the ref

Clients say a warehouse once, when they ask for the configuration, and from then on its prefix: the
ref as base64url, which proxies leave alone whatever the ref is called.
"""

from __future__ import annotations

import base64
import binascii

from havasu_vc.errors import HavasuError
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.serving.errors import Refused
from havasu_vc.store.refs import BRANCHES, read_ref
from havasu_vc.store.revisions import EMPTY, Revision, commit_tree, resolve

__all__ = ["EVERY", "ServedRef", "find_ref", "prefix_of", "ref_of_prefix"]

EVERY = "*"
"""The warehouse of all refs."""
_LONGEST = 512


@dataclass(frozen=True, slots=True)
class ServedRef:
    """A ref as it is now."""

    name: str
    """What it was asked for as."""
    revision: Revision
    """Where it is; the empty revision for a branch without commits."""
    branch: str | None
    """The branch that it names, None for what cannot be written to."""


def prefix_of(name: str) -> str:
    """Return how URLs spell a ref.

    >>> prefix_of("feature/x"), ref_of_prefix("ZmVhdHVyZS94")
    ('ZmVhdHVyZS94', 'feature/x')
    """
    return base64.urlsafe_b64encode(name.encode("utf-8", "surrogateescape")).decode().rstrip("=")


def ref_of_prefix(prefix: str) -> str:
    """Return the ref that URLs spell so."""
    try:
        padded = prefix + "=" * (-len(prefix) % 4)
        return base64.b64decode(padded, b"-_", validate=True).decode("utf-8", "surrogateescape")
    except (ValueError, binascii.Error):
        raise _unknown(prefix) from None


def find_ref(repo: OpenRepo, name: str) -> ServedRef:
    """Return the ref that a name means now; none means HEAD's branch, or HEAD."""
    if len(name) > _LONGEST or not name.isprintable():
        raise _unknown(name[:_LONGEST])
    branch = name or repo.head_branch
    if branch is not None:
        commit = read_ref(repo.git, BRANCHES + branch)
        if commit is not None:
            return ServedRef(
                branch, Revision(branch, commit, commit_tree(repo.git, commit)), branch
            )
        if branch == repo.head_branch:
            return ServedRef(branch, resolve(repo.git, EMPTY), branch)
    try:
        return ServedRef(name or "HEAD", resolve(repo.git, name or "HEAD"), None)
    except HavasuError:
        raise _unknown(name) from None


def _unknown(name: str) -> Refused:
    message = f"this repository has no branch, tag or commit {name!r}"
    return Refused(404, "NoSuchWarehouseException", message)
