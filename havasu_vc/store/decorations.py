"""What git writes beside a commit in its log: HEAD first, then the other refs, last names first."""

from havasu_vc.store.objects import ObjectId
from havasu_vc.store.refs import BRANCHES, list_refs, list_tags, read_head
from havasu_vc.store.repository import GitRepository

__all__ = ["decorations"]

_REMOTES, _STASH, _TAGS = "refs/remotes/", "refs/stash", "refs/tags/"


def decorations(repository: GitRepository, *, full: bool = False) -> dict[ObjectId, list[str]]:
    """Return the names at each commit as git orders and writes them; `full` ones with `refs/`."""
    head = read_head(repository)
    named: list[tuple[str, ObjectId, str]] = []
    for prefix in (BRANCHES, _REMOTES, _STASH):
        for name, commit in list_refs(repository, prefix).items():
            short = name if name == _STASH else name.removeprefix(prefix)
            if name != head.ref:
                named.append((name, commit, name if full else short))
    for tag in list_tags(repository):
        label = f"{_TAGS}{tag.name}" if full else tag.name
        named.append((_TAGS + tag.name, tag.commit, f"tag: {label}"))
    found: dict[ObjectId, list[str]] = {}
    for commit in _ends_of_history(repository):
        found[commit] = ["grafted"]
    if head.commit is not None:
        branch = head.ref if full else head.branch
        label = "HEAD" if head.branch is None else f"HEAD -> {branch}"
        found.setdefault(head.commit, []).append(label)
    for _, commit, label in sorted(named, reverse=True):
        found.setdefault(commit, []).append(label)
    return found


def _ends_of_history(repository: GitRepository) -> list[ObjectId]:
    """Return the commits whose parents a shallow clone was not given."""
    try:
        return (repository.common_directory / "shallow").read_text().split()
    except OSError:
        return []
