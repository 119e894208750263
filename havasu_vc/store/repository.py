"""One git repository, opened: where it is, what it is doing, and a way to ask git.

A repository is found as git finds it (upwards from a folder; work trees linked to
another; bare ones), and also as Kart lays it out, in a `.kart` folder. What libgit2
cannot open is refused with a reason. Opening changes nothing.

Everything of ours that is not in git's objects lies below `data_folder`, in the git
directory that all linked work trees share.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path

import pygit2
from pygit2.enums import RepositoryState

from havasu_vc.errors import (
    CorruptionError,
    HavasuError,
    RepositoryNotFoundError,
    UnsupportedRepositoryError,
)
from havasu_vc.store.command import GitConfig, GitResult, is_locked, raise_for, run_git
from havasu_vc.store.disk import replace_file, reporting_storage_errors
from havasu_vc.store.locks import SETTLED_SECONDS, broken, is_inside, lock_in_message
from havasu_vc.store.objects import (
    ObjectId,
    ObjectKind,
    ObjectWriter,
    Signature,
    StoredObjects,
    parse_signature,
)

__all__ = ["LOCK_PATIENCE", "GitRepository", "Operation", "init_kart", "kart_merge"]


LOCK_PATIENCE = SETTLED_SECONDS + 1.5
"""Seconds in which a lock gets old enough to tell whether anybody holds it."""
_KART_DIRECTORIES = (".kart", ".sno")

_REASONS = {
    "sha256": ("it uses SHA-256 object ids", "`git init --object-format=sha1`, then import again"),
    "refstorage": ("it keeps its refs in a reftable", "`git refs migrate --ref-format=files`"),
    "repository version": ("its format is newer than ours", "a later version may open it"),
    "unsupported extension": ("it uses an extension of git that is unknown here", ""),
}


class Operation(StrEnum):
    """The git command that stopped half-way in a repository, if any."""

    NONE = "none"
    MERGE = "merge"
    REVERT = "revert"
    CHERRY_PICK = "cherry-pick"
    REBASE = "rebase"
    BISECT = "bisect"
    APPLY = "am"


_OPERATIONS = {
    RepositoryState.NONE: Operation.NONE,
    RepositoryState.MERGE: Operation.MERGE,
    RepositoryState.REVERT: Operation.REVERT,
    RepositoryState.REVERT_SEQUENCE: Operation.REVERT,
    RepositoryState.CHERRYPICK: Operation.CHERRY_PICK,
    RepositoryState.CHERRYPICK_SEQUENCE: Operation.CHERRY_PICK,
    RepositoryState.BISECT: Operation.BISECT,
    RepositoryState.REBASE: Operation.REBASE,
    RepositoryState.REBASE_INTERACTIVE: Operation.REBASE,
    RepositoryState.REBASE_MERGE: Operation.REBASE,
    RepositoryState.APPLY_MAILBOX: Operation.APPLY,
    RepositoryState.APPLY_MAILBOX_OR_REBASE: Operation.APPLY,
}


class GitRepository:
    """An open repository. `open` finds one, and `store.initialising` makes them."""

    def __init__(self, handle: pygit2.Repository) -> None:
        """Wrap what libgit2 opened."""
        self.handle = handle
        self.git_directory = Path(handle.path)
        """The git directory of this work tree."""
        self.common_directory = _common_directory(self.git_directory)
        """The git directory that all linked work trees share."""
        self.data_folder = self.common_directory / "havasu"
        """Where what is ours lies: data files, key cache, lock."""
        self.objects = StoredObjects(handle, self.common_directory / "objects", self._fetch)
        """The git objects that are stored."""
        self.config = GitConfig(self.git)
        """git's settings."""
        self.note: Callable[[str], None] = _tell_nobody
        """Where to tell a person what was found and mended."""
        self._besides: tuple[str, ...] = ()

    @classmethod
    def open(cls, path: Path | str = ".") -> GitRepository:
        """Open the repository that `path` is in, or is."""
        # `..` of a folder is not what stands before it in its name.
        place = Path(os.path.realpath(path))
        found = _discover(place)
        if found is None:
            raise RepositoryNotFoundError(str(path))
        return cls(_opened(found, place))

    @classmethod
    def at(cls, place: Path) -> GitRepository | None:
        """Open the repository that begins at a folder, or is it, wherever that folder lies."""
        found = _git_directory_at(place)
        return None if found is None else cls(_opened(found, place))

    @property
    def path(self) -> Path:
        """The work tree, or the git directory where there is none."""
        return self.work_tree or self.git_directory

    @property
    def work_tree(self) -> Path | None:
        """The folder of the user's files; None in a bare repository."""
        return None if self.is_bare else Path(self.handle.workdir)

    @property
    def is_bare(self) -> bool:
        """Whether there is no work tree."""
        return self.handle.is_bare

    @property
    def is_linked(self) -> bool:
        """Whether this is a further work tree, of `git worktree add`, which shares its settings."""
        return self.git_directory != self.common_directory

    @property
    def is_kart(self) -> bool:
        """Whether Kart made this repository and looks after its work tree and index."""
        return self.git_directory.name in _KART_DIRECTORIES

    @property
    def follows_kart(self) -> bool:
        """Whether this is a repository of Kart's, bare ones included."""
        return self.is_kart or (
            self.is_bare and self.config.get("kart.repostructure.version") is not None
        )

    @property
    def spatial_filter_section(self) -> str:
        """The section of the settings that has the spatial filter of working copies."""
        return f"{'kart' if self.is_kart else 'havasu'}.spatialfilter"

    @property
    def operation(self) -> Operation:
        """The git command that stopped half-way here."""
        return _OPERATIONS.get(RepositoryState(self.handle.state()), Operation.NONE)

    @property
    def kart_merge(self) -> str | None:
        """The commit that Kart was merging when it stopped, if it did."""
        return kart_merge(self.git_directory)

    @property
    def head_branch(self) -> str | None:
        """The name of the branch that HEAD is on, born or not; None when it is on none."""
        try:
            target = self.handle.references["HEAD"].raw_target
        except (KeyError, pygit2.GitError) as error:
            raise CorruptionError(
                f"{self.git_directory} has no HEAD that can be read",
                hints=("`git symbolic-ref HEAD refs/heads/BRANCH` puts it on a branch again",),
            ) from error
        if isinstance(target, bytes) and target.startswith(b"refs/heads/"):
            return target.removeprefix(b"refs/heads/").decode("utf-8", "surrogateescape")
        return None

    @property
    def author(self) -> Signature:
        """Who a commit that is made now is by; raises NoUserError if nobody is configured."""
        return self._identity("GIT_AUTHOR_IDENT")

    @property
    def committer(self) -> Signature:
        """Who makes a commit now; raises NoUserError if nobody is configured.

        Reflogs name them from here on, as git's do; libgit2 would look at no variable.
        """
        found = self._identity("GIT_COMMITTER_IDENT")
        self.handle.set_ident(found.name, found.email)
        return found

    def people(self, author: Signature | None = None) -> tuple[Signature, Signature]:
        """Who a commit that is made now is by, if not an author, and who makes it.

        git is asked once where they are one: nothing is set for authors or committers alone.
        """
        committer = self.committer
        if author is not None:
            return author, committer
        alone = any(
            os.environ.get(f"GIT_AUTHOR_{fact}") != os.environ.get(f"GIT_COMMITTER_{fact}")
            for fact in ("NAME", "EMAIL", "DATE")
        ) or any(self.config.section(role) for role in ("author", "committer"))
        return self.author if alone else committer, committer

    def read_besides(self, objects: Path) -> None:
        """Read objects from another folder too, as those that a push has brought and git holds."""
        self._besides += (str(objects.resolve()),)
        self.handle.odb.add_disk_alternate(str(objects.resolve()))
        self.objects.loose.add(objects.resolve())

    def writer(self, *, scratch: Path | None = None) -> ObjectWriter:
        """Return a writer for the objects of one commit, or of none with a `scratch` folder."""
        return ObjectWriter(self.objects, scratch=scratch)

    def git(
        self,
        *arguments: str,
        check: bool = True,
        stdin: bytes | None = None,
        environment: Mapping[str, str] | None = None,
        once: bool = False,
    ) -> GitResult:
        """Run a git command in this repository; locks that nobody holds are no hindrance.

        A command that may have done part of its work before a lock was in its way runs `once`;
        locks that were left are removed before it does.
        """
        if self.is_kart:
            # Kart locks the index against git, which reads it even where it fetches.
            unlocked = str(self.git_directory / "unlocked_index")
            environment = {"GIT_INDEX_FILE": unlocked, **(environment or {})}
        if self._besides:
            besides = os.pathsep.join(self._besides)
            environment = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": besides, **(environment or {})}
        deadline = None
        if once:
            self._free_left_locks()
        while True:
            result = run_git(
                arguments,
                git_directory=self.git_directory,
                work_tree=self.work_tree,
                stdin=stdin,
                environment=environment,
                check=False,
            )
            if once or not result.code or not is_locked(result):
                break
            lock = lock_in_message(result.errors, self.path)
            deadline = deadline or time.monotonic() + LOCK_PATIENCE
            if lock is None or time.monotonic() >= deadline or not self.frees(lock, deadline):
                break
        if check:
            raise_for(result, arguments, str(self.path))
        return result

    def _free_left_locks(self) -> None:
        """Remove the locks of the index, of HEAD and of branches that nobody holds."""
        deadline = time.monotonic() + LOCK_PATIENCE
        places = {self.git_directory, self.common_directory}
        found = [lock for place in places for lock in place.glob("*.lock")]
        for lock in (*found, *self.common_directory.glob("refs/heads/**/*.lock")):
            self.frees(lock, deadline)

    def frees(self, lock: Path, deadline: float) -> bool:
        """Return whether a lock is gone by some time: given back, or removed as nobody holds it.

        Only locks of git in this repository are waited for.
        """
        if not is_inside(lock, self._places):
            return False
        while os.path.lexists(lock):
            found = broken(lock, self._places)
            if found.removed:
                self.note(f"removed {lock}: a process that is gone left it {found.age:,.0f} s ago")
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.05 if found.holder is None else 0.25)
        return True

    def holder(self, lock: Path) -> str | None:
        """Return who holds a lock, as far as that can be told."""
        holder = broken(lock, self._places).holder
        return None if holder is None else str(holder)

    @property
    def _places(self) -> tuple[Path, ...]:
        return self.common_directory, self.git_directory, self.path

    def _identity(self, variable: str) -> Signature:
        # git guesses from the machine's names unless it is told not to.
        return parse_signature(self.git("-c", "user.useConfigOnly=true", "var", variable).text)

    def _fetch(self, object_id: ObjectId) -> tuple[ObjectKind, bytes] | None:
        """Ask git for an object that a partial clone left with its remote."""
        remotes = self.config.section("remote")
        if not any(name.endswith(".promisor") for name in remotes):
            return None
        answer = self.git("cat-file", "--batch", stdin=object_id.encode() + b"\n").output
        head, _, data = answer.partition(b"\n")
        match head.split():
            case [_, b"commit" | b"tree" | b"blob" | b"tag" as kind, size]:
                kinds: dict[bytes, ObjectKind] = {
                    b"commit": "commit",
                    b"tree": "tree",
                    b"blob": "blob",
                    b"tag": "tag",
                }
                return kinds[kind], data[: int(size)]
        return None


def _tell_nobody(text: str) -> None:
    """Take a note that nobody waits for."""


def _discover(place: Path) -> Path | None:
    """Return the git directory that serves `place`."""
    ceilings = os.environ.get("GIT_CEILING_DIRECTORIES", "").split(os.pathsep)
    for folder in (place, *place.parents):
        if folder != place and str(folder) in ceilings:
            return None
        if found := _git_directory_at(folder):
            if found.name != ".git":
                _refuse_committed(found)
            return found
    return None


def _refuse_committed(found: Path) -> None:
    """Raise for a git directory that is in a commit of another: its settings are a stranger's."""
    for folder in found.parents:
        outer = folder / ".git"
        if not (outer.is_file() or (outer.is_dir() and _is_git_directory(outer))):
            continue
        try:
            index = pygit2.Repository(str(outer if outer.is_dir() else folder)).index
            listed = f"{found.relative_to(folder).as_posix()}/HEAD" in index
        except (pygit2.GitError, ValueError, OSError):
            return  # nothing was ever checked out of it
        if listed:
            raise UnsupportedRepositoryError(
                f"{found} came with a commit of {folder}, and may hold settings that run programs",
                hints=(f"`havasu-vc -C {shlex.quote(str(folder))}` works on that repository",),
            )
        return


def _git_directory_at(folder: Path) -> Path | None:
    """Return the git directory whose work tree begins at a folder, or which it is."""
    for name in (".git", *_KART_DIRECTORIES):
        inside = folder / name
        if inside.is_file() or (inside.is_dir() and _is_git_directory(inside)):
            return inside
    return folder if _is_git_directory(folder) else None


def _is_git_directory(folder: Path) -> bool:
    # As git: HEAD (a link or a file), objects and refs; a linked work tree's has `commondir`.
    if not os.path.lexists(folder / "HEAD"):
        return False
    return (folder / "commondir").is_file() or (
        (folder / "objects").is_dir() and (folder / "refs").is_dir()
    )


def _opened(found: Path, place: Path) -> pygit2.Repository:
    pygit2.settings.enable_fsync_gitdir(True)
    # What a partial clone lacks is asked from git, so libgit2 need not refuse it.
    pygit2.settings.set_extensions(["partialclone"])
    # A `.git` file is resolved by libgit2; a folder that Kart named is a git directory as it is.
    try:
        return pygit2.Repository(str(found if found.is_dir() else found.parent))
    except pygit2.GitError as error:
        message = str(error)
        if "not owned by" in message:
            return _opened_unowned(found, place)
        raise _refusal(message, place) from error


def _opened_unowned(found: Path, place: Path) -> pygit2.Repository:
    """Open a repository of another user if the user told git that it is safe."""
    # git reads `safe.directory` from more places than libgit2 does; it says why if it is not.
    # It is trusted by the place that git asks about, which is that of the work tree.
    asked = found if found.is_dir() and found.name != ".git" else found.parent
    run_git(["rev-parse", "--git-dir"], folder=asked)
    pygit2.settings.owner_validation = False
    try:
        return pygit2.Repository(str(found if found.is_dir() else found.parent))
    except pygit2.GitError as error:
        raise _refusal(str(error), place) from error
    finally:
        pygit2.settings.owner_validation = True


def _refusal(message: str, place: Path) -> HavasuError:
    for sign, (reason, hint) in _REASONS.items():
        if sign in message:
            hints = (hint,) if hint else ()
            return UnsupportedRepositoryError(f"{place} cannot be opened: {reason}", hints=hints)
    if "not found" in message:
        return RepositoryNotFoundError(str(place))
    # Such as a configuration that cannot be parsed.
    return UnsupportedRepositoryError(f"{place} cannot be opened: {message.splitlines()[0]}")


def _common_directory(git_directory: Path) -> Path:
    try:
        text = (git_directory / "commondir").read_text("utf-8").rstrip("\n")
    except FileNotFoundError:
        return git_directory
    return Path(os.path.normpath(git_directory / text))


# Making a repository that Kart takes for one of its own, and seeing what Kart left half done.
#
#     .kart/            the git directory
#     .git              a file that names it, so that tools which look for git find it
#     KART_README.txt   says what the folder is
#
# Its index is one that plain git refuses, as Kart writes it: the work tree holds no files
# of git's, and a stray `git commit -a` would remove everything.

_INDEX = b"DIRC\0\0\0\x02\0\0\0\0kart\0\0\0\0"
"""An index with an extension that git does not know and must not ignore, but for its sum."""

_README = b"""This directory is a Kart repository, made by havasu-vc.

Every version of every dataset is in the hidden directory ".kart".
`havasu-vc log` and `kart log` show what was committed, `havasu-vc data ls`
and `kart data ls` the datasets.
"""
_EXCLUDE = b".git\n.kart\nKART_README.*\n/tables/\n"
_ATTRIBUTES = b"**/.*-dataset*/feature/** diff=binary merge=binary -text\n"


def init_kart(place: Path, *, bare: bool, branch: str) -> None:
    """Make an empty repository that Kart opens."""
    folder = place if bare else place / ".kart"
    options = ["--quiet", "--bare", "--object-format=sha1", f"--initial-branch={branch}"]
    run_git(["init", *options, "--", str(folder)])
    make_kart(place, folder, bare=bare, name=place.resolve().name)


def make_kart(place: Path, folder: Path, *, bare: bool, name: str) -> None:
    """Make of a git directory in a folder one that Kart opens; `name` is of its working copy."""
    settings = {"kart.repostructure.version": "3"}
    if not bare:
        settings |= {
            "core.bare": "false",
            "core.logAllRefUpdates": "always",
            "kart.workingcopy.location": f"{name}.gpkg",
        }
    for key, value in settings.items():
        run_git(["config", "--local", key, value], git_directory=folder.absolute())
    if bare:
        return
    with reporting_storage_errors(place):
        (folder / "info").mkdir(exist_ok=True)
        replace_file(folder / "info" / "exclude", _EXCLUDE)
        replace_file(folder / "info" / "attributes", _ATTRIBUTES)
        sum_of_it = hashlib.sha1(b"blob %d\0" % len(_INDEX) + _INDEX).digest()
        replace_file(folder / "index", _INDEX + sum_of_it)
        if not (place / "KART_README.txt").exists():
            replace_file(place / "KART_README.txt", _README)
        replace_file(place / ".git", b"gitdir: .kart\n")


def kart_merge(git_directory: Path) -> str | None:
    """Return the branch or commit that Kart stopped in the middle of merging, if it did."""
    if not (git_directory / "MERGED_INDEX").exists():
        return None
    for name in ("MERGE_BRANCH", "MERGE_HEAD"):
        try:
            return (git_directory / name).read_text("utf-8", "replace").strip() or "a commit"
        except FileNotFoundError:
            continue
    return "a commit"
