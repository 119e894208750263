"""What a commit changed, or what differs between two revisions, as the page of a review."""

from __future__ import annotations

import html
import io
import re

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.face.queries import Query, revision_in
from havasu_vc.library import Repo
from havasu_vc.review import Page, raster_pictures, review_diffs, tiles_of, write_page

__all__ = ["review"]

_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)"')


def review(repo: Repo, query: Query) -> tuple[str, str]:
    """Return the page, and the content security policy that it has."""
    out = io.StringIO()
    if query.get("work"):
        page = Page(pictures=raster_pictures())
        found = review_diffs(repo.workspace.diff(), "HEAD", "workspace", page)
        write_page(out, page, found, summary=False, more="havasu-vc diff")
        return _with_policy(out.getvalue())
    if query.get("commit"):
        commit = repo.commit_info(revision_in(query, "commit")).id
        base, head, dots = f"{commit}^?", commit, ".."
    else:
        base, head, dots = revision_in(query, "base"), revision_in(query, "head"), "..."
    page = Page(pictures=raster_pictures(repo.rasters.open_url))
    found = repo.review(f"{base}{dots}{head}", (), samples=40, page=page)
    write_page(
        out,
        page,
        found,
        more=f"havasu-vc diff {base}{dots}{head}",
        repository=repo.git.path.resolve().name,
        tiles=tiles_of(repo.config),
    )
    return _with_policy(out.getvalue())


def _with_policy(text: str) -> tuple[str, str]:
    policy = _POLICY.search(text)
    if policy is None:
        raise InvalidArgumentError("the page of the review has no policy")
    return text, html.unescape(policy[1]) + "; frame-ancestors 'none'"
