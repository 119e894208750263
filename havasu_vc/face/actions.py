"""Actions of the page on the repository, each as the command of the same name does it.

An action comes by POST with a JSON object, and answers with one line about what was done. What
it refuses, it refuses in the words of the command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.face.standing import revision_in
from havasu_vc.library import Repo

__all__ = ["ACTIONS", "Asked"]

Asked: TypeAlias = Mapping[str, Any]
LONGEST = 1 << 16


def _text(asked: Asked, name: str, *, needed: bool = True) -> str:
    value = asked.get(name, "")
    if not isinstance(value, str) or len(value) > LONGEST or "\x00" in value:
        raise InvalidArgumentError(f"{name} is no text that can be used")
    if needed and not value.strip():
        raise InvalidArgumentError(f"the {name} is missing")
    return value


def _texts(asked: Asked, name: str) -> tuple[str, ...]:
    values = asked.get(name, [])
    if not isinstance(values, list) or not all(isinstance(each, str) and each for each in values):
        raise InvalidArgumentError(f"{name} is no list of names")
    return tuple(values)


def _rows(count: int) -> str:
    return f"{count:,} {'row' if count == 1 else 'rows'}"


def commit(repo: Repo, asked: Asked) -> str:
    """Commit what is edited, all or what filters name."""
    repo.keep_policy()
    result = repo.workspace.commit(_texts(asked, "filters"), message=_text(asked, "message"))
    rows = sum(each.total for each in result.changes.values())
    named = "" if result.commit is None else f" as {result.commit[:7]}"
    return f"Committed {_rows(rows)}{named}"


def drop(repo: Repo, asked: Asked) -> str:
    """Drop the edits of rows that filters name."""
    filters = _texts(asked, "filters")
    if not filters:
        raise InvalidArgumentError("no row is named")
    dropped = repo.workspace.discard_rows(filters)
    if not dropped:
        return "Nothing of that was edited"
    counts = (f"{_rows(count)} of {path}" for path, count in dropped.items())
    return f"Dropped the edits of {', '.join(counts)}"


def discard(repo: Repo, asked: Asked) -> str:
    """Drop the edits of datasets that are named."""
    datasets = _texts(asked, "datasets")
    if not datasets:
        raise InvalidArgumentError("no dataset is named")
    dropped = repo.workspace.discard(datasets)
    return f"Dropped the edits of {', '.join(dropped) or 'nothing'}"


def stash(repo: Repo, asked: Asked) -> str:
    """Set edits aside."""
    message = _text(asked, "message", needed=False).strip() or None
    done = repo.workspace.stash(_texts(asked, "datasets"), message=message)
    return f"Set aside: {done.message}"


def unstash(repo: Repo, asked: Asked) -> str:
    """Bring back what was set aside, and forget it there."""
    done = repo.workspace.apply_stash(_text(asked, "stash"), drop=True)
    return f"Brought back: {done.message}"


def branch(repo: Repo, asked: Asked) -> str:
    """Make a branch at HEAD and switch to it."""
    name = _text(asked, "name").strip()
    repo.switch(name, create=True)
    return f"Made the branch {name} and switched to it"


def switch(repo: Repo, asked: Asked) -> str:
    """Switch to a branch."""
    name = _text(asked, "branch")
    if name not in {each.name for each in repo.branches()}:
        raise InvalidArgumentError(f"there is no branch {name!r}")
    repo.switch(name)
    return f"Switched to {name}"


def merge(repo: Repo, asked: Asked) -> str:
    """Merge a branch into the current one."""
    repo.keep_policy()
    name = revision_in({"at": _text(asked, "branch")})
    before = repo.head().commit
    result = repo.merge(name)
    if result.conflicts:
        return f"{name} is in conflict with what is here; answers are wanted"
    if result.kind == "up-to-date":
        return f"All of {name} is here already"
    if result.kind == "fast-forward":
        came = _came(repo, before)
        return f"{repo.head_branch or 'HEAD'} is brought up to {name}, without a merge: {came}"
    rows = sum(each.total for each in result.changes.values())
    commit = "" if result.commit is None else f" as {result.commit[:7]}"
    return f"Merged {name}{commit}" + (f": {_rows(rows)} changed" if rows else "")


def _came(repo: Repo, before: str | None) -> str:
    """Return how many commits HEAD has that it had not."""
    now = repo.head().commit
    count = len(list(repo.log(f"{before}..{now}"))) if before and now else 0
    return f"{count:,} {'commit' if count == 1 else 'commits'} came"


def abort(repo: Repo, _: Asked) -> str:
    """Drop the merge that waits."""
    repo.abort_merge()
    return "The merge is dropped; all is as it was"


def conclude(repo: Repo, asked: Asked) -> str:
    """Conclude the merge that waits."""
    repo.keep_policy()
    message = _text(asked, "message", needed=False).strip() or None
    result = repo.continue_merge(message=message)
    if result.conflicts:
        return "There are conflicts left"
    return "The merge is committed" + ("" if result.commit is None else f" as {result.commit[:7]}")


def resolve(repo: Repo, asked: Asked) -> str:
    """Answer conflicts: rows or meta items by filters, each group in one way."""
    answers = asked.get("answers")
    if not isinstance(answers, list) or not answers:
        raise InvalidArgumentError("there is no answer")
    count = 0
    for each in answers:
        if not isinstance(each, dict):
            raise InvalidArgumentError("an answer is a JSON object")
        filters = _texts(each, "filters")
        columns = each.get("columns")
        if not filters or not (columns is None or isinstance(columns, dict)):
            raise InvalidArgumentError("an answer names conflicts, and how they are decided")
        choice = _text(each, "choice", needed=columns is None) or None
        count += repo.resolve_conflicts(filters, choice=choice, columns=columns)
    return f"Answered {count:,} {'conflict' if count == 1 else 'conflicts'}"


def restore(repo: Repo, asked: Asked) -> str:
    """Bring a row back as it was at a commit: by a commit, or as an edit of the working copy."""
    repo.keep_policy()
    dataset, key, source = (_text(asked, name) for name in ("dataset", "key", "commit"))
    known = repo.commit_info(revision_in({"at": source})).id
    filters = [f"{dataset}:feature:{key}"]
    result = repo.restore(filters, source=known)
    if result.as_edits:
        return f"Row {key} of {dataset} is as at {known[:7]} in the working copy, not committed"
    if result.commit is None:
        return "The row is like that already"
    return f"Row {key} of {dataset} is as at {known[:7]} again, by the commit {result.commit[:7]}"


ACTIONS: dict[str, Callable[[Repo, Asked], str]] = {
    "commit": commit,
    "discard": discard,
    "drop": drop,
    "stash": stash,
    "unstash": unstash,
    "branch": branch,
    "switch": switch,
    "merge": merge,
    "abort": abort,
    "conclude": conclude,
    "resolve": resolve,
    "restore": restore,
}
"""By the last part of the address."""
