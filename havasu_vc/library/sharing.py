"""What `Repo` has to do with remotes: refs by git, data files beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from havasu_vc.repo.opened import OpenRepo

if TYPE_CHECKING:
    from havasu_vc.repo import results
    from havasu_vc.sharing import DataStatus, DropResult, FetchResult, Part, PushResult
    from havasu_vc.upkeep import PruneResult

__all__ = ["Sharing"]


class Sharing:
    """Brings commits and data from remotes, and sends them there."""

    opened: OpenRepo
    """The repository as operations see it."""

    def remotes(self) -> tuple[tuple[str, str, str | None], ...]:
        """Return each remote's name, URL, and where its data is if that is elsewhere."""
        from havasu_vc.sharing import remotes

        return remotes(self.opened)

    def data_place(self, remote: str | None = None) -> str | None:
        """Return where the data of a remote is, by settings or commits; None if with it."""
        from havasu_vc.sharing import default_remote, known_data_url

        return known_data_url(self.opened, remote or default_remote(self.opened))

    def stated_data_place(self, remote: str) -> str | None:
        """Return where commits say that the data of a remote is."""
        from havasu_vc.sharing import stated_data_url

        return stated_data_url(self.opened, remote)

    def set_data_place(self, url: str) -> bool:
        """Commit where the data of this repository is; return whether it was not so already."""
        from havasu_vc.sharing import commit_data_url

        return commit_data_url(self.opened, url)

    def upstream(self, remote: str | None = None) -> str:
        """Return the remote branch that the current one follows, which must be of `remote`."""
        from havasu_vc.sharing import upstream_of

        return upstream_of(self.opened, remote)

    def fetch(
        self,
        remote: str | None = None,
        refspecs: Sequence[str] = (),
        *,
        options: Sequence[str] = (),
        data: bool = True,
    ) -> FetchResult:
        """Fetch refs, then with `data` the data files that they name; `options` are git's."""
        from havasu_vc.sharing import fetch

        return fetch(self.opened, remote, refspecs, options=options, data=data)

    def push(
        self,
        remote: str | None = None,
        refspecs: Sequence[str] = (),
        *,
        options: Sequence[str] = (),
        dry_run: bool = False,
        allow_broken: bool = False,
    ) -> PushResult:
        """Send data files, then move the remote's refs; `options` are git's.

        Branches with a broken dataset are refused, unless that is allowed.
        """
        from havasu_vc.sharing import PushRequest, push

        request = PushRequest(remote, tuple(refspecs), tuple(options), dry_run, allow_broken)
        return push(self.opened, request)

    def push_data(
        self, remote: str | None = None, lines: Sequence[str] | None = None
    ) -> PushResult:
        """Send data files and no refs; `lines` are what git tells its `pre-push` hook."""
        from havasu_vc.sharing import push_data

        return push_data(self.opened, remote, lines)

    def check_received(self, lines: Sequence[str], *, data: bool = True) -> None:
        """Raise unless what a push brings may stay; `lines` are those of git's `pre-receive`."""
        from havasu_vc.sharing import check_received

        check_received(self.opened, lines, data=data)

    def fetch_data(
        self, remote: str | None = None, *, part: Part | None = None, revision: str = "HEAD"
    ) -> FetchResult:
        """Bring every data file that commits here name, or what a part of a revision has."""
        from havasu_vc.sharing import fetch_data

        return fetch_data(self.opened, remote, part, revision)

    def data_status(self) -> DataStatus:
        """Return how many of the data files that commits name are here."""
        from havasu_vc.sharing import data_status

        return data_status(self.opened)

    def verify_data(self) -> Iterator[results.Problem]:
        """Hash every data file that commits name and that is here; yield those that are wrong."""
        from havasu_vc.sharing import verify_data

        return verify_data(self.opened)

    def drop_data(
        self, remote: str | None = None, *, everything: bool = False, dry_run: bool = False
    ) -> DropResult:
        """Remove data files that a remote has, of HEAD as well with `everything`."""
        from havasu_vc.sharing import drop_data

        return drop_data(self.opened, remote, everything=everything, dry_run=dry_run)

    def prune_remote(
        self, remote: str | None = None, *, grace_days: float = 14.0, delete: bool = False
    ) -> PruneResult:
        """List a remote's data files that no ref of it reaches; with `delete`, remove them."""
        from havasu_vc.upkeep import prune_remote

        return prune_remote(self.opened, remote, grace_days=grace_days, delete=delete)
