"""Completions that a shell offers after Tab: the repository's own branches, tags and datasets.

A completion that fails offers nothing; it never prints an error into a prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.invocation import Invocation

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from havasu_vc.library import Repo

__all__ = [
    "Completer",
    "complete_branches",
    "complete_datasets",
    "complete_datasets_or_files",
    "complete_files",
    "complete_remotes",
    "complete_revisions",
    "complete_tags",
]

Completer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]


def _completer(names: Callable[[Repo], Iterable[str]], behind: str = "") -> Completer:
    """Offer names; behind the sign `behind`, the branches and tags that end a range or a place."""

    def complete(
        context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        root = context.find_root().params.get("folder")
        invocation = context.obj if isinstance(context.obj, Invocation) else Invocation()
        try:
            from havasu_vc.library import Repo

            repo = Repo.open(root or invocation.folder)
            before, sign, begun = incomplete.rpartition(behind) if behind else ("", "", incomplete)
            known = [*_branches(repo), *_tags(repo)] if sign else names(repo)
            found = [before + sign + name for name in known if name.startswith(begun)]
        except Exception:
            return []
        return _items(found)

    return complete


def _items(values: Iterable[str], kind: str = "plain") -> list[CompletionItem]:
    # Every command with such an argument loads this module.
    from click.shell_completion import CompletionItem

    return [CompletionItem(value, type=kind) for value in values]


def complete_files(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Have the shell offer files."""
    return _items([incomplete], "file")


def complete_datasets_or_files(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the paths of HEAD's datasets where one begins so, else files."""
    found = complete_datasets(context, parameter, incomplete)
    return found or complete_files(context, parameter, incomplete)


def _branches(repo: Repo) -> list[str]:
    return [branch.name for branch in repo.branches()]


def _tags(repo: Repo) -> list[str]:
    return [tag.name for tag in repo.tags()]


complete_branches = _completer(_branches)
"""Offer the names of branches."""
complete_tags = _completer(_tags)
"""Offer the names of tags."""
complete_datasets = _completer(lambda repo: repo.datasets(), "@")
"""Offer the paths of HEAD's datasets; behind `trees@`, branches and tags."""
complete_revisions = _completer(
    lambda repo: [*_branches(repo), *_tags(repo), *repo.datasets()], ".."
)
"""Offer branches, tags and datasets; behind `main...`, branches and tags."""
complete_remotes = _completer(lambda repo: [name for name, _, _ in repo.remotes()])
"""Offer the names of remotes."""
