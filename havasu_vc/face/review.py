"""What a commit changed, or what differs between two revisions, as the page of a review."""

from __future__ import annotations

import html
import io
import re

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.face.queries import Query, revision_in
from havasu_vc.library import Repo
from havasu_vc.review import ReviewOptions
from havasu_vc.writers import writer_named

__all__ = ["review"]

_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)"')


def review(repo: Repo, query: Query) -> tuple[str, str]:
    """Return the page, and the content security policy that it has."""
    out = io.StringIO()
    write = writer_named("html")
    if query.get("work"):
        write(repo.workspace.diff(), out, ReviewOptions(more="havasu-vc diff"))
        return _with_policy(out.getvalue())
    if query.get("commit"):
        commit = repo.commit_info(revision_in(query, "commit")).id
        revisions = f"{commit}^?..{commit}"
    else:
        revisions = f"{revision_in(query, 'base')}...{revision_in(query, 'head')}"
    write((), out, repo.review_options(revisions))
    return _with_policy(out.getvalue())


def _with_policy(text: str) -> tuple[str, str]:
    policy = _POLICY.search(text)
    if policy is None:
        raise InvalidArgumentError("the page of the review has no policy")
    return text, html.unescape(policy[1]) + "; frame-ancestors 'none'"
