"""A commit as the page shows it."""

from __future__ import annotations

from typing import Any

from havasu_vc.model.commits import CommitInfo

__all__ = ["commit_value"]


def commit_value(info: CommitInfo) -> dict[str, Any]:
    """Return a commit as JSON."""
    subject, _, body = info.message.partition("\n")
    return {
        "id": info.id,
        "parents": list(info.parents),
        "subject": subject,
        "body": body.strip(),
        "author": info.author_name,
        "email": info.author_email,
        "time": info.author_time,
        "offset": info.author_offset,
        # The page says by itself which branch HEAD is on.
        "refs": [each.removeprefix("HEAD -> ").removeprefix("tag: ") for each in info.refs],
    }
