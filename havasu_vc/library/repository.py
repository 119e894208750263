"""`Repo`: a git repository of datasets, the one object that a library user holds.

    repo = Repo.init("survey")
    repo.import_("parcels.gpkg")
    for diff in repo.diff("HEAD^?...HEAD"):
        print(diff.path, sum(len(batch) for batch in diff.changes))

It opens views, hands them to the algorithms, and is the only one who writes objects
and moves refs. Reading never changes anything, but for mending what a command that
died left behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from havasu_vc.checkouts import catch_up, commits, following, require_no_merge
from havasu_vc.engine.settings import Settings
from havasu_vc.errors import HavasuError, NotYetSupportedError
from havasu_vc.library.changing import Changing
from havasu_vc.library.reading import Reading
from havasu_vc.library.sharing import Sharing
from havasu_vc.repo.hooks import HOOK_IS_ELSEWHERE, install_hooks
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store import refs
from havasu_vc.store.index import mend, switch_worktree
from havasu_vc.store.refs import Branch, Tag
from havasu_vc.store.repository import GitRepository

if TYPE_CHECKING:
    from havasu_vc.datasets.storage import Fetcher, Storage
    from havasu_vc.history.merging import MergePolicy
    from havasu_vc.repo import results
    from havasu_vc.repo.transaction import Transaction
    from havasu_vc.sharing import CloneRequest, FetchResult
    from havasu_vc.store.configuration import GitConfig

__all__ = ["Repo"]


def _fetcher(opened: OpenRepo) -> Fetcher:
    from havasu_vc.sharing import RemoteFetcher

    return RemoteFetcher(opened)


class Repo(Reading, Changing, Sharing):
    """A repository of datasets. `open` and `init` make one."""

    def __init__(self, git: GitRepository, settings: Settings | None = None) -> None:
        self.opened = OpenRepo(git, settings or Settings())
        """The repository as operations see it."""
        self.opened.make_fetcher = _fetcher

    @property
    def git(self) -> GitRepository:
        """The git repository."""
        return self.opened.git

    @property
    def settings(self) -> Settings:
        """How to work."""
        return self.opened.settings

    @classmethod
    def init(
        cls,
        path: str | Path = ".",
        *,
        bare: bool = False,
        branch: str | None = None,
        kart: bool = False,
        settings: Settings | None = None,
    ) -> Repo:
        """Make a repository, or prepare the one that is there; doing it again changes nothing.

        With `kart`, a new one is such that Kart opens it, and its datasets are Kart's.
        """
        from havasu_vc.store.initialising import init_repository

        repo = cls(init_repository(path, bare=bare, branch=branch, kart=kart), settings)
        if not install_hooks(repo.git):
            repo.settings.note(HOOK_IS_ELSEWHERE)
        return repo

    @classmethod
    def clone(
        cls, request: CloneRequest, *, settings: Settings | None = None
    ) -> tuple[Repo, FetchResult]:
        """Clone a repository and its data; return it, and what came."""
        from havasu_vc.sharing import clone

        opened, fetched = clone(request, settings or Settings())
        return cls(opened.git, opened.settings), fetched

    @classmethod
    def open(cls, path: str | Path = ".", *, settings: Settings | None = None) -> Repo:
        """Open the repository that a path is in."""
        git = GitRepository.open(path)
        repo = cls(git, settings)
        mend(git)
        catch_up(repo.opened)
        return repo

    def with_settings(self, settings: Settings) -> Repo:
        """Return the same repository worked with otherwise."""
        return Repo(self.git, settings)

    def set_up(self) -> None:
        """Make of a plain clone of git what `clone` makes, if it has datasets and may be written.

        Internals stay out of the work tree, and `git push` sends data. What changes a repository
        does so by itself; the command line does so whatever is asked.
        """
        from havasu_vc.repo.setting_up import set_up

        if not self.git.is_bare:
            with suppress(HavasuError, OSError):  # what is asked for may not need to write
                set_up(self.opened)

    @property
    def path(self) -> Path:
        """The work tree, or the git directory where there is none."""
        return self.git.path

    @property
    def config(self) -> GitConfig:
        """Git's settings."""
        return self.git.config

    @property
    def head_branch(self) -> str | None:
        """The branch that HEAD is on; None when it is on a commit itself."""
        return self.git.head_branch

    @property
    def storage(self) -> Storage:
        """Where data files are."""
        return self.opened.storage

    def keep_policy(self) -> None:
        """Have commits refused that are against the policy of the repository."""
        from havasu_vc.review import check_edits

        self.opened.check_edits = check_edits

    def transaction(self) -> Transaction:
        """Return a commit in the making; use it as a context manager."""
        from havasu_vc.repo.transaction import Transaction

        return Transaction(self.opened)

    # Branches and tags

    def branches(self, *, remote: bool = False) -> tuple[Branch, ...]:
        """Return the branches."""
        return tuple(refs.list_branches(self.git, remote=remote))

    def create_branch(self, name: str, start: str = "HEAD") -> None:
        """Make a branch."""
        refs.create_branch(self.git, name, self._commit(start))

    def delete_branch(self, name: str, *, force: bool = False) -> None:
        """Remove a branch; with `force` also one that is merged nowhere."""
        refs.delete_branch(self.git, name, force=force)

    def switch(
        self,
        target: str,
        *,
        create: bool = False,
        start: str | None = None,
        discard: bool = False,
    ) -> None:
        """Put HEAD on a branch, or on a commit; refused while a merge waits.

        `HEAD` itself is where HEAD is, on its branch. Commits that nothing names any more
        are noted.
        """
        require_no_merge(self.opened)
        before = refs.read_head(self.git)
        if target in ("HEAD", "@") and not create:
            target = before.branch or target
        known = create or any(branch.name == target for branch in self.branches())
        begin = None if start is None else self._commit(start)
        self.workspace.require_no_loss(begin or ("HEAD" if create else target), discard=discard)
        with following(self.opened, discard=discard):
            switch_worktree(
                self.git,
                target if known else self._commit(target),
                create=create,
                start=begin,
                discard=discard,
            )
        if before.branch is None:
            from havasu_vc.checkouts import left_behind

            if note := left_behind(self.opened, before):
                self.settings.note(note)

    def tags(self) -> tuple[Tag, ...]:
        """Return the tags."""
        return tuple(refs.list_tags(self.git))

    def create_tag(self, name: str, revision: str = "HEAD", *, message: str | None = None) -> None:
        """Name a commit."""
        refs.create_tag(self.git, name, self._commit(revision), message=message)

    def delete_tag(self, name: str) -> None:
        """Remove a tag."""
        refs.delete_tag(self.git, name)

    def _commit(self, revision: str) -> str:
        commit = self.resolve(revision).commit
        if commit is None:
            raise NotYetSupportedError(f"{revision} is no commit")
        return commit

    # Upkeep

    @commits
    def upgrade_datasets(self, message: str | None = None) -> results.CommitResult:
        """Commit the datasets of HEAD that are of format 1 as ones of format 2."""
        from havasu_vc.upkeep import upgrade_datasets

        return upgrade_datasets(self.opened, message)

    def upgrade(self, destination: str | Path) -> Repo:
        """Make a Kart V3 repository of one in Kart's V2, with all commits, and return it."""
        from havasu_vc.upkeep import upgrade

        return Repo(upgrade(self.opened, Path(destination)), self.settings)

    @commits
    def optimize(
        self, datasets: Sequence[str] = (), *, message: str | None = None, dry_run: bool = False
    ) -> results.CommitResult:
        """Rewrite small and partly deleted files into a few clean ones, in a commit of its own."""
        from havasu_vc.upkeep import optimize

        return optimize(self.opened, tuple(datasets), message, dry_run=dry_run)

    def fsck(self, *, full: bool = False) -> Iterator[results.Problem]:
        """Yield what is wrong; `full` reads every data file of HEAD and all branches."""
        from havasu_vc.upkeep import fsck

        return fsck(self.opened, full=full)

    @commits
    def repair(
        self,
        datasets: Sequence[str] = (),
        *,
        source: str | None = None,
        policy: MergePolicy | None = None,
        message: str | None = None,
    ) -> results.CommitResult:
        """Mend broken datasets, in a commit on top of HEAD; its notes say what was taken.

        They are taken from a commit, or from where they were sound last; `policy` decides
        conflicts between several such versions.
        """
        from havasu_vc.history.merging import MergePolicy
        from havasu_vc.upkeep import RepairRequest, repair

        request = RepairRequest(tuple(datasets), source, policy or MergePolicy(), message)
        return repair(self.opened, request)

    def gc(self, *, grace_days: float = 14.0, dry_run: bool = False) -> results.GcResult:
        """Remove data files that nothing reaches and that are older than a grace period."""
        from havasu_vc.upkeep import gc

        return gc(self.opened, grace_days=grace_days, dry_run=dry_run)
