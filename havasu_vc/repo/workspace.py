"""`repo.workspace`: the tables that are checked out in the work tree.

repo.workspace.check_out()                 # make them, or bring them to HEAD
repo.workspace.check_out_to("/data/parcels", "v1.2", dataset="parcels")
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from havasu_vc.errors import UncommittedChangesError
from havasu_vc.repo.following import has_workspace
from havasu_vc.repo.opened import OpenRepo

if TYPE_CHECKING:
    from havasu_vc.repo.checkouts import Wish
    from havasu_vc.repo.results import CheckoutResult
    from havasu_vc.workspace.state import TableState, WorkspaceState

__all__ = ["Workspace"]


class Workspace:
    """The checked-out tables of a repository's work tree."""

    def __init__(self, repo: OpenRepo) -> None:
        self._repo = repo

    @property
    def exists(self) -> bool:
        """Whether tables are checked out."""
        return has_workspace(self._repo.git)

    @property
    def root(self) -> Path:
        """The folder that tables are in, or would be."""
        from havasu_vc.repo.checkouts import workspace_root

        return workspace_root(self._repo)

    def state(self) -> WorkspaceState | None:
        """Return what is checked out; None when nothing is."""
        from havasu_vc.repo.checkouts import open_state

        return open_state(self._repo)

    def check_out(self, wish: Wish | None = None, *, discard: bool = False) -> CheckoutResult:
        """Make the tables of HEAD, or bring those that are there to HEAD.

        Tables with edits stay as they are, unless `discard` drops the edits.
        """
        from havasu_vc.repo.checkouts import Wish, check_out

        return check_out(self._repo, wish or Wish(), discard=discard)

    def edited(self) -> Mapping[str, TableState]:
        """Return the tables that others wrote to since they were checked out, at a glance."""
        if not self.exists:
            return {}
        from havasu_vc.repo.checkouts import edited_tables

        return edited_tables(self._repo)

    def require_no_loss(
        self,
        revision: str,
        *,
        discard: bool = False,
        any_edit: bool = False,
        merging: bool = False,
    ) -> None:
        """Raise `UncommittedChangesError` when going to a commit would pass over edits.

        Edits of a dataset that is the same there stay and are no reason to refuse, but
        with `any_edit` they are. `merging` asks what a merge of the commit would change.
        """
        if discard or not self.exists:
            return
        edited = self.edited()
        if not edited:
            return
        from havasu_vc.repo.checkouts import changed_by

        lost = list(edited) if any_edit else changed_by(self._repo, edited, revision, merging)
        if lost:
            names = " and ".join(lost) if len(lost) < 4 else f"{len(lost)} tables"
            have = "have" if len(lost) > 1 else "has"
            raise UncommittedChangesError(
                f"{names} {have} edits that are not committed",
                hints=(
                    "`havasu-vc commit` commits them",
                    "`havasu-vc checkout --discard-changes` drops them",
                ),
            )
