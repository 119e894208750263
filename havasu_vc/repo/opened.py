"""An open repository: its datasets at any revision, and where its files are.

This is what every operation works on; `Repo` is the face that it shows to users.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.datasets.kinds import kind_of
from havasu_vc.datasets.storage import Storage
from havasu_vc.engine.settings import Settings
from havasu_vc.errors import (
    CorruptDatasetError,
    DataFileNotFoundError,
    DatasetNotFoundError,
    HavasuError,
    StateError,
)
from havasu_vc.model.names import TABLES
from havasu_vc.store.files import ALLOWED, DataFileStore, lfs_folder
from havasu_vc.store.refs import read_head
from havasu_vc.store.repository import GitRepository
from havasu_vc.store.revisions import Revision, resolve, resolve_tree
from havasu_vc.store.trees import DatasetFolder, find_datasets

if TYPE_CHECKING:
    from havasu_vc.datasets.protocol import Dataset, TreeEdit
    from havasu_vc.datasets.storage import Fetcher
    from havasu_vc.store.commits import Commit

    CheckEdits = Callable[["OpenRepo", Storage, Sequence[TreeEdit], Revision], None]
    CheckMoves = Callable[["OpenRepo", Mapping[str, str | None], Revision], None]

__all__ = ["OpenRepo", "unsafe_path"]


class OpenRepo:
    """A git repository and how to work with it."""

    def __init__(self, git: GitRepository, settings: Settings) -> None:
        self.git = git
        """The git repository."""
        git.note = settings.note
        self.settings = replace(settings, config=git.config)
        """How to work."""
        self.make_fetcher: Callable[[OpenRepo], Fetcher] | None = None
        """Makes what brings data files that come on demand; None where they must be here."""
        self.check_edits: CheckEdits | None = None
        """Raises where edits must not be committed upon a revision; None where all may be."""
        self.check_moves: CheckMoves | None = None
        """Raises where datasets must not go, or get another path, upon a revision."""
        self.amended: Commit | None = None
        """HEAD's commit while the next commit is to stand in its place."""
        self._said: set[str] = set()
        self.held: object | None = None
        """The living working copy while HEAD may move, for those who know such."""
        self.parts_made: dict[str, tuple[int, int]] = {}
        """Tables of the living working copy that were made with the rows of an area alone: of how
        many rows of the dataset, and with how many, by its path."""
        self.taken: dict[str, int] = {}
        """Tables whose edits the next commit takes in, and which metadata version was read:
        they follow HEAD as if they had none."""

    @property
    def head_branch(self) -> str | None:
        """The branch that HEAD is on; None when it is on a commit itself."""
        return self.git.head_branch

    @property
    def on_demand(self) -> bool:
        """Whether data files that are not here come when something reads them."""
        return self.git.config.get("havasu.data.fetch") == "on-demand"

    @property
    def storage(self) -> Storage:
        """Where data files are; folders outside are read as soon as they are allowed."""
        return replace(self._storage, allowed=self.git.config.all(ALLOWED))

    @cached_property
    def _storage(self) -> Storage:
        folder = self.git.data_folder
        files = DataFileStore(folder, lfs_folder(self.git))
        return Storage(
            files, folder / "keys", files, fetcher=self._fetcher(), on_demand=self.on_demand
        )

    def _fetcher(self) -> Fetcher | None:
        """Return what brings files that are not here; None where nothing does unless told."""
        config = self.git.config
        if self.make_fetcher is None or config.get("havasu.data.fetch") == "when-told":
            return None
        if self.on_demand:
            return self.make_fetcher(self)
        has_remote = any(n.startswith("remote.") and n.endswith(".url") for n in config.names())
        return _LateFetcher(self, self.make_fetcher) if has_remote else None

    def resolve(self, revision: str = "HEAD") -> Revision:
        """Return the commit that a revision means."""
        return resolve(self.git, revision)

    def head(self) -> Revision:
        """Return HEAD's commit, or the empty revision before the first."""
        commit = read_head(self.git).commit
        return resolve(self.git, "[EMPTY]" if commit is None else commit)

    def folders(self, revision: Revision) -> dict[str, DatasetFolder]:
        """Return the folders of a revision's datasets, of every kind, by path.

        Those whose path could do harm are named and passed over.
        """
        found = find_datasets(self.git.objects, revision.tree, self._pass_over)
        return {folder.path: folder for folder in found}

    def last_folder(self, revision: Revision, path: str) -> DatasetFolder | None:
        """Return a dataset at a revision, or where it is not there, as it was last before it went.

        It is looked for in what led to the revision first, then on all branches.
        """
        found = self.folders(revision).get(path)
        for start in (revision.commit, "--all") if found is None else ():
            if start is None:
                continue
            command = ("rev-list", "-1", "--full-history", "--parents", start, "--", path)
            for commit in self.git.git(*command, check=False).text.split():
                if (found := self.folders(self.resolve(commit)).get(path)) is not None:
                    return found
        return found

    def _pass_over(self, folder: DatasetFolder, reason: str) -> None:
        self.tell(folder.path, unsafe_path(repr(folder.path), reason).message)

    def tell(self, path: str, message: str) -> None:
        """Note what is wrong with a dataset, once for a command."""
        if path not in self._said:
            self._said.add(path)
            self.settings.note(message)

    def datasets(self, revision: str = "HEAD") -> tuple[str, ...]:
        """Return the paths of the datasets that can be read, in order."""
        found = self.folders(self.revision(revision))
        return tuple(path for path, folder in found.items() if folder.marker in TABLES)

    def revision(self, revision: str, *, or_tree: bool = False) -> Revision:
        """Return the commit, or else the tree, that is meant; before the first, HEAD is empty."""
        if revision in ("HEAD", "@"):
            return self.head()
        return resolve_tree(self.git, revision) if or_tree else self.resolve(revision)

    def dataset(self, path: str, revision: str = "HEAD") -> Dataset:
        """Return a dataset at a revision, after checking its guard."""
        found = self.revision(revision)
        folder = self.folders(found).get(path.strip("/"))
        if folder is None:
            raise DatasetNotFoundError(path, revision, self.folders(found))
        view = self.view(folder, revision)
        view.check_guard()
        return view

    def view(self, folder: DatasetFolder, revision: str) -> Dataset:
        """Return the view of a dataset's folder, unchecked."""
        inside = TreeFolder(self.git.objects, folder.internals)
        kind = kind_of(folder.path, folder.marker)
        return kind.open(folder.path, inside, self.storage, revision, folder.marker)


class _LateFetcher:
    """Brings the data files that plain git left away, and tells so.

    What brings them is loaded when one is not here, which in most commands never is.
    """

    def __init__(self, repo: OpenRepo, make: Callable[[OpenRepo], Fetcher]) -> None:
        self._repo, self._make = repo, make

    def bucket(self) -> str | None:
        """Return the bucket that has them, where others can read them; None if none has."""
        return self._make(self._repo).bucket()

    def share(self, files: Sequence[tuple[str, int]]) -> None:
        """Put files that are here, given by name and size, into the bucket, if it lacks them."""
        self._make(self._repo).share(files)

    def fetch(self, files: Sequence[tuple[str, int]]) -> None:
        """Bring files, given by name and size; raise for the first that cannot be had."""
        store = self._repo.storage.files
        try:
            self._make(self._repo).fetch(files)
        except HavasuError as error:
            lacking = next((name for name, _ in files if not store.has(name)), None)
            if isinstance(error, DataFileNotFoundError) or lacking is None:
                raise
            failure = DataFileNotFoundError(lacking)
            told = f"the remote could not be asked: {error.message}"
            how = error.hints if isinstance(error, StateError) else ()  # of what is not allowed
            failure.hints = (told, *how, *failure.hints)
            raise failure from error
        # Told without a number, as what many commits need comes bit by bit.
        self._repo.settings.note(
            "data files that git had left at the remote came; `havasu-vc data fetch` brings all"
        )


def unsafe_path(where: str, reason: str) -> CorruptDatasetError:
    """Return what is wrong with a dataset whose path could do harm."""
    error = CorruptDatasetError(where, f"as a dataset's path, {reason}")
    error.hints = ("`havasu-vc repair` gives it another one; until then it is passed over",)
    return error
